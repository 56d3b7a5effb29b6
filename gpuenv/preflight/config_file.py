"""The nearest configuration file: which one it is, what it can say, and its TOML. An edge.

Without a file nothing more is needed: what understands its content is in ``config.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuenv.model.text import reason_of, text_of

if TYPE_CHECKING:
    from gpuenv.model.finding import Allowance
    from gpuenv.model.smoke import Level
    from gpuenv.preflight.requirement import Requirement

OWN_FILE, PROJECT_FILE = "gpuenv.toml", "pyproject.toml"
_LARGEST = 4 * 1024 * 1024


class ConfigError(ValueError):
    """A file that cannot be read or understood: every fault, each with file, line and what was expected."""

    def __init__(self, faults: Iterable[str], *, unread: bool = False) -> None:
        """Args: the faults, and whether nothing of the file could be read at all."""
        self.faults = tuple(faults)
        self.unread = unread
        super().__init__("\n".join(self.faults))


@dataclass(frozen=True, slots=True)
class Config:
    """What a configuration file says.

    Attributes:
        file: its path as it was found or given; None where there is none.
        requirements: in the order of the file.
        timeout: seconds that the machine may take to answer.
        wait: seconds to wait for a busy GPU.
        retry_elsewhere: whether a bad or busy host ends in exit code 75.
        allowances: the findings that are accepted, in the order of the file.
        smoke: how much is to be proven on the GPU; None for nothing.
    """

    file: str | None = None
    requirements: tuple[Requirement, ...] = ()
    timeout: float | None = None
    wait: float | None = None
    retry_elsewhere: bool | None = None
    allowances: tuple[Allowance, ...] = ()
    smoke: Level | None = None


def find_config(folder: Path) -> Path | None:
    """The nearest configuration: of the folder or the first above it that has one; ``gpuenv.toml`` goes first."""
    for place in (folder, *folder.parents):
        if _is_file(place / OWN_FILE):
            return place / OWN_FILE
        project = place / PROJECT_FILE
        if _is_file(project) and _is_ours(project):
            return project
    return None


def _is_file(path: Path) -> bool:
    """What lies in a folder above that this user may not look into is not for him."""
    try:
        return path.is_file()
    except PermissionError:
        return False


def _is_ours(project: Path) -> bool:
    """Whether a project's file has our table; whatever is wrong with one that does not name us is not our affair."""
    raw = _read(project, str(project))
    if b"gpuenv" not in raw:
        return False
    data = read_toml(project, _decoded(raw, str(project)))
    return isinstance(data.get("tool"), dict) and "gpuenv" in data["tool"]


def read_text(path: Path, shown: str | None = None) -> str:
    """The text of a configuration file; ``shown`` is how messages name it.

    Raises:
        ConfigError: when it cannot be read.
    """
    name = shown or str(path)
    return _decoded(_read(path, name), name)


def _read(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)  # once: a pipe gives its bytes to the first who asks
    except OSError as error:
        raise ConfigError([f"{name}: {reason_of(error)}"], unread=True) from error
    if len(raw) > _LARGEST:
        raise ConfigError([f"{name}: larger than any configuration"], unread=True)
    return raw


def _decoded(raw: bytes, name: str) -> str:
    try:
        return text_of(raw)
    except UnicodeDecodeError as error:
        raise ConfigError([f"{name}: {reason_of(error)}"], unread=True) from error


def read_toml(path: Path, text: str, shown: str | None = None) -> dict[str, Any]:
    """The values of a configuration file; ``shown`` is how messages name it.

    Raises:
        ConfigError: when it is no TOML, with the line.
    """
    from gpuenv.files import parse_toml  # noqa: PLC0415 - only where there is a file

    try:
        return parse_toml(text)
    except (RecursionError, ValueError) as error:
        told = re.sub(r"\s*\(at .*\)$", "", str(error)) or "nested too deeply"
        place = re.search(r"line (\d+)", str(error))
        line = int(place[1]) if place else max(1, len(text.splitlines()))
        raise ConfigError([f"{shown or path}: line {line}: {told}; expected TOML"]) from error
