"""Finds and reads the configuration file: requirements, limits and suppressions."""

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
    from gpuenv.preflight.requirements import Requirement

OWN_FILE, PROJECT_FILE = "gpuenv.toml", "pyproject.toml"
_MAX_SIZE = 4 * 1024 * 1024  # bytes
_KEYS = ("require", "timeout", "wait", "retry-elsewhere", "smoke", "allow")
_SUPPRESSION_KEYS = ("code", "reason", "expires")
_SUPPRESSION_EXAMPLE = 'a list of tables, such as {code = "CODE", reason = "replaced in May", expires = 2027-05-31}'
_MAX_SECONDS = 86400


class ConfigError(ValueError):
    """A configuration file is unreadable or invalid; lists every fault with file, line and expectation."""

    def __init__(self, faults: Iterable[str], *, unread: bool = False) -> None:
        """Args: the faults, and whether the file could not be read at all."""
        self.faults = tuple(faults)
        self.unread = unread
        super().__init__("\n".join(self.faults))


class Config(NamedTuple):
    """The settings of a configuration file.

    Attributes:
        file: its path, as found or passed; None without a file.
        requirements: in the order of the file.
        timeout: deadline of the probes in seconds.
        wait: seconds to wait for a busy GPU.
        retry_elsewhere: whether a bad or busy host ends in exit code 75.
        suppressions: in the order of the file.
        smoke: level of the GPU tests; None to skip them.
    """

    file: str | None = None
    requirements: tuple[Requirement, ...] = ()
    timeout: float | None = None
    wait: float | None = None
    retry_elsewhere: bool | None = None
    suppressions: tuple[Suppression, ...] = ()
    smoke: SmokeLevel | None = None


def find_config(folder: Path) -> Path | None:
    """The nearest configuration file, in the folder or one of its parents; ``gpuenv.toml`` goes first."""
    for parent in (folder, *folder.parents):
        if _is_file(parent / OWN_FILE):
            return parent / OWN_FILE
        project = parent / PROJECT_FILE
        if _is_file(project) and _has_table(project):
            return project
    return None


def _is_file(path: Path) -> bool:
    """Whether the path is a file; a parent folder without read permission has none."""
    try:
        return path.is_file()
    except PermissionError:
        return False


def _has_table(project: Path) -> bool:
    """Whether a project file has the table of gpuenv; faults in a file that does not mention gpuenv are ignored."""
    raw = _read(project, str(project))
    if b"gpuenv" not in raw:
        return False
    data = _parsed(_decoded(raw, str(project)), str(project))
    return isinstance(data.get("tool"), dict) and "gpuenv" in data["tool"]


def _read(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_SIZE + 1)  # once, since the path may be a pipe
    except OSError as error:
        raise ConfigError([f"{name}: {error_reason(error)}"], unread=True) from error
    if len(raw) > _MAX_SIZE:
        raise ConfigError([f"{name}: too large for a configuration file (over 4 MiB)"], unread=True)
    return raw


def _read_text(path: Path, name: str) -> str:
    return _decoded(_read(path, name), name)


def _decoded(raw: bytes, name: str) -> str:
    try:
        return decode_text(raw)
    except UnicodeDecodeError as error:
        raise ConfigError([f"{name}: {error_reason(error)}"], unread=True) from error


def _parsed(text: str, name: str) -> dict[str, Any]:
    from gpuenv.files import parse_toml  # noqa: PLC0415 - only with a file

    try:
        return parse_toml(text)
    except (RecursionError, ValueError) as error:
        message = re.sub(r"\s*\(at .*\)$", "", str(error)) or "nested too deeply"
        location = re.search(r"line (\d+)", str(error))
        line = int(location[1]) if location else max(1, len(text.splitlines()))
        raise ConfigError([f"{name}: line {line}: {message}; expected TOML"]) from error


def load_config(path: Path, shown: str | None = None) -> Config:
    """Reads a configuration file.

    Args:
        path: a TOML file; of ``pyproject.toml`` the table ``[tool.gpuenv]`` is read, of other files the top level.
        shown: its name in messages.

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
    return _ConfigParser(name, text, start).config(data)


class _ConfigParser:
    """Parses one file: its name and text, the first line of its table, and the faults found."""

    def __init__(self, name: str, text: str, start: int) -> None:
        self.name, self.text, self.start = name, text, start
        self.faults: list[str] = []

    def config(self, data: dict[str, Any]) -> Config:
        for key, value in data.items():
            if key in _KEYS:
                continue
            if key in ("tool", "gpuenv") and isinstance(value, dict):
                line = line_of(rf"^\s*\[\s*[\"']?{key}\b", self.text, self.start)
                self.faults.append(f"{self.name}: line {line}: {key}: the keys of this file are not in a table")
            else:
                self._fault(key, _unknown_key(key.lower().replace("_", "-"), _KEYS, 0.5))
        requirements = self._requirements(data.get("require", []))
        suppressions = self._suppressions(data.get("allow", []))
        timeout, wait = self._seconds(data, "timeout"), self._seconds(data, "wait")
        retry = data.get("retry-elsewhere")
        if retry is not None and not isinstance(retry, bool):
            self._fault("retry-elsewhere", f"expected true or false, found {retry!r:.40}")
        smoke = self._level(data.get("smoke"))
        if self.faults:
            raise ConfigError(self.faults)
        return Config(self.name, requirements, timeout, wait, retry, suppressions, smoke)

    def _fault(self, key: str, expected: str) -> None:
        self.faults.append(f"{self.name}: line {self._line(key)}: {safe(key)}: {expected}")

    def _line(self, key: str) -> int:
        return line_of(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*=|[{{,]\s*[\"']?{re.escape(key)}", self.text, self.start)

    def _level(self, value: object) -> SmokeLevel | None:
        names = [level.value for level in SmokeLevel]
        if value is None or value in names:
            return None if value is None else SmokeLevel(value)
        # The option alone means quick.
        hint = "; did you mean quick?" if value is True else _nearest(str(value).lower(), names, 0.5)
        found = str(value).lower() if isinstance(value, bool) else repr(value)[:40]
        self._fault("smoke", f"expected one of {', '.join(names)}, found {found}{hint}")
        return None

    def _seconds(self, data: dict[str, Any], key: str) -> float | None:
        value = data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_SECONDS:
            self._fault(key, f"expected seconds, at most {_MAX_SECONDS}, found {value!r:.40}")
            return None
        return float(value)

    def _requirements(self, value: Any) -> tuple[Requirement, ...]:  # noqa: ANN401 - TOML
        from gpuenv.preflight.requirements import (  # noqa: PLC0415 - only with a file
            Origin,
            RequirementError,
            parse_requirement,
        )

        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            self._fault("require", 'expected a list of texts, such as ["gpu>=1", "cc>=8.0"]')
            return ()
        requirements = []
        line = self._line("require")
        for entry in value:
            line = line_of(rf"[\"']{re.escape(entry)}[\"']", self.text, line)
            try:
                requirements.append(parse_requirement(entry, Origin(file=self.name, line=line)))
            except RequirementError as error:
                self.faults.append(str(error))
        return tuple(requirements)

    def _suppressions(self, value: Any) -> tuple[Suppression, ...]:  # noqa: ANN401 - TOML
        from gpuenv.model.finding import Suppression  # noqa: PLC0415 - only with a file

        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            line = line_of(r"^\s*[\"']?allow[\"']?\s*=|\ballow\s*\]", self.text, self.start)
            self.faults.append(f"{self.name}: line {line}: allow: expected {_SUPPRESSION_EXAMPLE}")
            return ()
        suppressions = []
        line = self.start
        for entry in value:
            code, reason, expires = (entry.get(key) for key in _SUPPRESSION_KEYS)
            escaped = re.escape(code) if isinstance(code, str) else None
            entry_start = (
                rf"[\"']?code[\"']?\s*=\s*[\"']{escaped}[\"']"
                if escaped is not None
                else r"[\"']?code[\"']?\s*=|\ballow\b"
            )
            line = line_of(entry_start, self.text, line)
            day = _date(expires)
            complaints = [
                f"{safe(key)}: {_unknown_key(key.lower(), _SUPPRESSION_KEYS, 0.4)}"
                for key in entry
                if key not in _SUPPRESSION_KEYS
            ]
            if not _is_text(code):
                complaints.append("code: expected the code of a check, see gpuenv doctor --list")
            if not _is_text(reason):
                complaints.append("reason: expected a text on why this is accepted")
            if day is None:
                complaints.append(f"expires: expected a day, such as 2027-05-31, found {safe(repr(expires))}")
            source = f"{self.name}: line {line}"
            self.faults += [f"{source}: allow: {complaint}" for complaint in complaints]
            if not complaints:
                suppressions.append(Suppression(code.upper(), reason.strip(), day or "", source, self.name, line))
            line += 1  # the same code may occur again
        return tuple(suppressions)


def _unknown_key(folded: str, known: Sequence[str], cutoff: float) -> str:
    return f"unknown key{_nearest(folded, known, cutoff)} (one of {', '.join(known)})"


def _nearest(name: str, known: Sequence[str], cutoff: float) -> str:
    matches = difflib.get_close_matches(name, known, 1, cutoff)
    return f"; did you mean {matches[0]}?" if matches else ""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _date(value: object) -> str | None:
    """A TOML date, or a date in a string, as ISO 8601."""
    if isinstance(value, datetime):
        return None  # a date with a time
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, str):
        return None
    try:
        return date.fromisoformat(value.strip()).isoformat()
    except ValueError:
        return None


def line_of(pattern: str, text: str, start: int) -> int:
    """The first line from ``start`` on that matches, else ``start``."""
    for number, line in enumerate(text.splitlines(), 1):
        if number >= start and re.search(pattern, line):
            return number
    return start


def safe(text: str) -> str:
    """The beginning of a text, with unprintable characters replaced."""
    return "".join(character if character.isprintable() else "?" for character in text[:60])
