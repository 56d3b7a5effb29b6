"""The nearest configuration file, and what it says: requirements, limits and accepted findings. An edge."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.model.strings import decode_text, error_reason

if TYPE_CHECKING:
    from gpuenv.model.finding import Suppression
    from gpuenv.preflight.requirement import Requirement

OWN_FILE, PROJECT_FILE = "gpuenv.toml", "pyproject.toml"
_LARGEST = 4 * 1024 * 1024
_KEYS = ("require", "timeout", "wait", "retry-elsewhere", "smoke", "allow")
_ALLOW_KEYS = ("code", "reason", "expires")
_FORM = 'a list of tables, such as {code = "CODE", reason = "replaced in May", expires = 2027-05-31}'
_MOST_SECONDS = 86400


class ConfigError(ValueError):
    """A file that cannot be read or understood: every fault, each with file, line and what was expected."""

    def __init__(self, faults: Iterable[str], *, unread: bool = False) -> None:
        """Args: the faults, and whether nothing of the file could be read at all."""
        self.faults = tuple(faults)
        self.unread = unread
        super().__init__("\n".join(self.faults))


class Config(NamedTuple):
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
    allowances: tuple[Suppression, ...] = ()
    smoke: SmokeLevel | None = None


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
    """A file in a folder above that this user may not look into is no configuration."""
    try:
        return path.is_file()
    except PermissionError:
        return False


def _is_ours(project: Path) -> bool:
    """Whether a project's file has our table; a fault in one that does not name us is not reported."""
    raw = _read(project, str(project))
    if b"gpuenv" not in raw:
        return False
    data = _parsed(_decoded(raw, str(project)), str(project))
    return isinstance(data.get("tool"), dict) and "gpuenv" in data["tool"]


def _read(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)  # once: a pipe gives its bytes to the first who asks
    except OSError as error:
        raise ConfigError([f"{name}: {error_reason(error)}"], unread=True) from error
    if len(raw) > _LARGEST:
        raise ConfigError([f"{name}: larger than any configuration"], unread=True)
    return raw


def _read_text(path: Path, name: str) -> str:
    return _decoded(_read(path, name), name)


def _decoded(raw: bytes, name: str) -> str:
    try:
        return decode_text(raw)
    except UnicodeDecodeError as error:
        raise ConfigError([f"{name}: {error_reason(error)}"], unread=True) from error


def _parsed(text: str, name: str) -> dict[str, Any]:
    from gpuenv.files import parse_toml  # noqa: PLC0415 - only where there is a file

    try:
        return parse_toml(text)
    except (RecursionError, ValueError) as error:
        told = re.sub(r"\s*\(at .*\)$", "", str(error)) or "nested too deeply"
        place = re.search(r"line (\d+)", str(error))
        line = int(place[1]) if place else max(1, len(text.splitlines()))
        raise ConfigError([f"{name}: line {line}: {told}; expected TOML"]) from error


def load_config(path: Path, shown: str | None = None) -> Config:
    """Reads a configuration file.

    Args:
        path: a TOML file; in ``pyproject.toml`` the table ``[tool.gpuenv]`` counts, in any other file its top.
        shown: how messages name it.

    Raises:
        ConfigError: with every fault.
    """
    name = shown or str(path)
    text = _read_text(path, name)
    data: Any = _parsed(text, name)
    start = 1
    if path.name == PROJECT_FILE:
        tool = data.get("tool", {})
        data = tool.get("gpuenv", {}) if isinstance(tool, dict) else {}
        start = line_of(r"\[\s*tool\s*\.\s*[\"']?gpuenv\b", text, 1)
    if not isinstance(data, dict):
        raise ConfigError([f"{name}: line {start}: expected a table"])
    return _Reader(name, text, start).config(data)


class _Reader:
    """One file: its name and text, the line in which its table begins, and the faults that were found."""

    def __init__(self, name: str, text: str, start: int) -> None:
        self.name, self.text, self.start = name, text, start
        self.faults: list[str] = []

    def config(self, data: dict[str, Any]) -> Config:
        for key, value in data.items():
            if key in _KEYS:
                continue
            if key in ("tool", "gpuenv") and isinstance(value, dict):
                line = line_of(rf"^\s*\[\s*[\"']?{key}\b", self.text, self.start)
                self.faults.append(f"{self.name}: line {line}: {key}: here the keys stand at the top, in no table")
            else:
                self._fault(key, _unknown_key(key.lower().replace("_", "-"), _KEYS, 0.5))
        requirements = self._requirements(data.get("require", []))
        allowances = self._allowances(data.get("allow", []))
        timeout, wait = self._seconds(data, "timeout"), self._seconds(data, "wait")
        retry = data.get("retry-elsewhere")
        if retry is not None and not isinstance(retry, bool):
            self._fault("retry-elsewhere", f"expected true or false, found {retry!r:.40}")
        smoke = self._level(data.get("smoke"))
        if self.faults:
            raise ConfigError(self.faults)
        return Config(self.name, requirements, timeout, wait, retry, allowances, smoke)

    def _fault(self, key: str, expected: str) -> None:
        self.faults.append(f"{self.name}: line {self._line(key)}: {safe(key)}: {expected}")

    def _line(self, key: str) -> int:
        return line_of(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*=|[{{,]\s*[\"']?{re.escape(key)}", self.text, self.start)

    def _level(self, value: object) -> SmokeLevel | None:
        names = [level.value for level in SmokeLevel]
        if value is None or value in names:
            return None if value is None else SmokeLevel(value)
        # True: as the option alone means.
        hint = "; did you mean quick?" if value is True else _nearest(str(value).lower(), names, 0.5)
        found = str(value).lower() if isinstance(value, bool) else repr(value)[:40]
        self._fault("smoke", f"expected one of {', '.join(names)}, found {found}{hint}")
        return None

    def _seconds(self, data: dict[str, Any], key: str) -> float | None:
        value = data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_SECONDS:
            self._fault(key, f"expected seconds, at most {_MOST_SECONDS}, found {value!r:.40}")
            return None
        return float(value)

    def _requirements(self, value: Any) -> tuple[Requirement, ...]:  # noqa: ANN401 - TOML
        from gpuenv.preflight.requirement import (  # noqa: PLC0415 - only where there is a file
            Origin,
            RequirementError,
            parse_requirement,
        )

        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            self._fault("require", 'expected a list of texts, such as ["gpu>=1", "cc>=8.0"]')
            return ()
        read = []
        line = self._line("require")
        for entry in value:
            line = line_of(rf"[\"']{re.escape(entry)}[\"']", self.text, line)
            try:
                read.append(parse_requirement(entry, Origin(file=self.name, line=line)))
            except RequirementError as error:
                self.faults.append(str(error))
        return tuple(read)

    def _allowances(self, value: Any) -> tuple[Suppression, ...]:  # noqa: ANN401 - TOML
        """The accepted findings."""
        from gpuenv.model.finding import Suppression  # noqa: PLC0415 - only where there is a file

        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            line = line_of(r"^\s*[\"']?allow[\"']?\s*=|\ballow\s*\]", self.text, self.start)
            self.faults.append(f"{self.name}: line {line}: allow: expected {_FORM}")
            return ()
        read = []
        line = self.start
        for entry in value:
            code, reason, expires = (entry.get(key) for key in _ALLOW_KEYS)
            known = re.escape(code) if isinstance(code, str) else None
            place = (
                rf"[\"']?code[\"']?\s*=\s*[\"']{known}[\"']" if known is not None else r"[\"']?code[\"']?\s*=|\ballow\b"
            )
            line = line_of(place, self.text, line)
            day = _date(expires)
            complaints = [
                f"{safe(key)}: {_unknown_key(key.lower(), _ALLOW_KEYS, 0.4)}" for key in entry if key not in _ALLOW_KEYS
            ]
            if not _is_text(code):
                complaints.append("code: expected the code of a check; gpuenv doctor --list names them")
            if not _is_text(reason):
                complaints.append("reason: expected a few words on why this is accepted")
            if day is None:
                complaints.append(f"expires: expected a day, such as 2027-05-31, found {safe(repr(expires))}")
            source = f"{self.name}: line {line}"
            self.faults += [f"{source}: allow: {told}" for told in complaints]
            if not complaints:
                read.append(Suppression(code.upper(), reason.strip(), day or "", source, self.name, line))
            line += 1  # the same code may stand in the list again
        return tuple(read)


def _unknown_key(folded: str, known: Sequence[str], cutoff: float) -> str:
    return f"unknown key{_nearest(folded, known, cutoff)} (one of {', '.join(known)})"


def _nearest(word: str, known: Sequence[str], cutoff: float) -> str:
    near = difflib.get_close_matches(word, known, 1, cutoff)
    return f"; did you mean {near[0]}?" if near else ""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _date(value: object) -> str | None:
    """A day of TOML's own, or one in quotation marks, as ISO 8601."""
    if isinstance(value, datetime):
        return None  # a time of day is more than is meant
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, str):
        return None
    try:
        return date.fromisoformat(value.strip()).isoformat()
    except ValueError:
        return None


def line_of(pattern: str, text: str, start: int) -> int:
    """The first line from ``start`` on that matches; ``start`` itself where none does."""
    for number, line in enumerate(text.splitlines(), 1):
        if number >= start and re.search(pattern, line):
            return number
    return start


def safe(text: str) -> str:
    """The beginning of a text, without characters that cannot be printed."""
    return "".join(character if character.isprintable() else "?" for character in text[:60])
