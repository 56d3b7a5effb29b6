"""Finds and reads the configuration file: requirements, limits and suppressions."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from gpuenv.files import open_regular, others_access
from gpuenv.model.redaction import cut_text, excerpt
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.model.strings import Lines, decode_text, did_you_mean, error_reason

if TYPE_CHECKING:
    from gpuenv.model.finding import Suppression
    from gpuenv.preflight.requirements import Requirement

OWN_FILE, PROJECT_FILE = "gpuenv.toml", "pyproject.toml"
# Their presence makes a folder the root of a repository; .git is a file in a work tree of ``git worktree``.
_REPOSITORY_MARKS = (".git", ".hg", ".svn", ".bzr", ".jj", ".sl", ".pijul", "_darcs", ".fslckout", "_FOSSIL_")
_MAX_SIZE = 4 * 1024 * 1024  # bytes
_KEYS = ("require", "timeout", "wait", "retry-elsewhere", "smoke", "allow", "fail-on")
_SUPPRESSION_KEYS = ("code", "reason", "expires")
_SUPPRESSION_EXAMPLE = 'a list of tables, such as {code = "CODE", reason = "replaced in May", expires = 2027-05-31}'
_MAX_SECONDS = 86400


class ConfigError(ValueError):
    """A configuration file is unreadable or invalid; lists every fault with file, line and expectation."""

    def __init__(self, faults: Iterable[str], *, unread: bool = False) -> None:
        """Args: the faults, and whether the file could not be read at all."""
        self.faults = tuple(faults)
        self.unread = unread
        super().__init__(Lines(self.faults))


class FailOn(NamedTuple):
    """Findings to turn into errors: ``warning``, a code or a cause; with its origin, an option or a line of a file."""

    name: str
    source: str = "--fail-on"


class Config(NamedTuple):
    """The settings of a configuration file.

    Attributes:
        file: its path, as found or passed; None without a file.
        timeout: deadline of the probes in seconds.
        wait: seconds to wait for a busy GPU.
        retry_elsewhere: whether a bad or busy host ends in exit code 75.
        smoke: level of the GPU tests; None to skip them.
        fail_on: what to turn into errors, each with its line.
    """

    file: str | None = None
    requirements: tuple[Requirement, ...] = ()
    timeout: float | None = None
    wait: float | None = None
    retry_elsewhere: bool | None = None
    suppressions: tuple[Suppression, ...] = ()
    smoke: SmokeLevel | None = None
    fail_on: tuple[FailOn, ...] = ()


class FoundFile(NamedTuple):
    """A configuration file that the search found: its path and content, both of one descriptor."""

    path: Path
    raw: bytes


def find_config(folder: Path, announce: Callable[[str], None]) -> FoundFile | None:
    """The nearest configuration file, in the folder or one of its parents; ``gpuenv.toml`` goes first.

    The search ends at the root of a repository, at a folder that others can write to (``others_access``), and at one
    that cannot be opened. A file that others can write to is ignored; ``announce`` gets one sentence for each.

    Raises:
        ConfigError: when a file cannot be read, or a project file that mentions gpuenv is not TOML.
    """
    end: str | None = None
    for parent in (folder, *folder.parents):
        with contextlib.ExitStack() as stack:
            try:
                descriptor = _open_folder(parent)
            except OSError:
                return None
            if descriptor is not None:
                stack.callback(os.close, descriptor)
                reason = others_access(os.fstat(descriptor))
                end = end or (reason and f"{parent} {reason}")
            for name in (OWN_FILE, PROJECT_FILE):
                path = parent / name
                raw, ignored = _read_found(path, descriptor, end)
                if ignored is None:
                    if raw is not None and (name == OWN_FILE or _has_table(raw, str(path))):
                        return FoundFile(path, raw)
                elif name == OWN_FILE or b"gpuenv" in (raw or b""):
                    announce(f"{path} is ignored: {ignored}; --config FILE reads it")
                    if end:
                        return None
        if any(os.path.lexists(parent / mark) for mark in _REPOSITORY_MARKS):
            return None
    return None


def _open_folder(folder: Path) -> int | None:
    """A descriptor of a folder, without the permission to list it; None on systems that lack such descriptors."""
    if os.open not in os.supports_dir_fd:
        return None
    return os.open(folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)


def _read_found(path: Path, folder: int | None, end: str | None) -> tuple[bytes | None, str | None]:
    """The content of a file in an opened folder, and why it is ignored; None and None without a file.

    ``end`` is why the search ended before this folder. An ignored file never ends the program: read errors count as
    no content, and content over the limit is cut off.
    """
    name = path if folder is None else path.name
    try:
        descriptor = open_regular(name, folder=folder)
    except PermissionError as error:
        if ignored := end or _others_access(os.stat(name, dir_fd=folder)):
            return None, ignored
        raise ConfigError([f"{path}: {error_reason(error)}"], unread=True) from error
    except OSError:  # no file, or a FIFO or a folder of this name
        return None, None
    with os.fdopen(descriptor, "rb") as file:
        if ignored := end or _others_access(os.fstat(descriptor)):
            with contextlib.suppress(OSError):
                return file.read(_MAX_SIZE), ignored
            return None, ignored
        return _read(file, str(path)), None


def _others_access(status: os.stat_result) -> str | None:
    reason = others_access(status)
    return reason and f"it {reason}"


def _has_table(raw: bytes, name: str) -> bool:
    """Whether a project file has the table of gpuenv; faults in a file that does not mention gpuenv are ignored."""
    if b"gpuenv" not in raw:
        return False
    data = _parsed(_decoded(raw, name), name)
    return isinstance(data.get("tool"), dict) and "gpuenv" in data["tool"]


def _read(file: IO[bytes], name: str) -> bytes:
    try:
        raw = file.read(_MAX_SIZE + 1)  # once, since the file may be a pipe
    except OSError as error:
        raise ConfigError([f"{name}: {error_reason(error)}"], unread=True) from error
    if len(raw) > _MAX_SIZE:
        raise ConfigError([f"{name}: too large for a configuration file (over 4 MiB)"], unread=True)
    return raw


def _read_named(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            return _read(file, name)
    except OSError as error:
        raise ConfigError([f"{name}: {error_reason(error)}"], unread=True) from error


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


def load_config(path: Path, shown: str | None = None, raw: bytes | None = None) -> Config:
    """Reads a configuration file in TOML: of ``pyproject.toml`` the table ``[tool.gpuenv]``, of others the top level.

    ``shown`` is its name in messages; ``raw`` is its content, if the search has read it.

    Raises:
        ConfigError: with every fault.
    """
    name = shown or str(path)
    text = _decoded(_read_named(path, name) if raw is None else raw, name)
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
            self._fault("retry-elsewhere", f"expected true or false, found {cut_text(repr(retry), 40)}")
        smoke = self._level(data.get("smoke"))
        fail_on = self._fail_on(data.get("fail-on", []))
        if self.faults:
            raise ConfigError(self.faults)
        return Config(self.name, requirements, timeout, wait, retry, suppressions, smoke, fail_on)

    def _fail_on(self, value: Any) -> tuple[FailOn, ...]:  # noqa: ANN401 - TOML
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(map(_is_text, names)):
            self._fault("fail-on", 'expected a list of texts, such as ["warning"] or ["GPU210", "gpu-throttled"]')
            return ()
        source = f"{self.name}: line {self._line('fail-on')}"
        return tuple(FailOn(name, source) for name in names)

    def _fault(self, key: str, expected: str) -> None:
        self.faults.append(f"{self.name}: line {self._line(key)}: {excerpt(key)}: {expected}")

    def _line(self, key: str) -> int:
        return line_of(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*=|[{{,]\s*[\"']?{re.escape(key)}", self.text, self.start)

    def _level(self, value: object) -> SmokeLevel | None:
        names = [level.value for level in SmokeLevel]
        if value is None or value in names:
            return None if value is None else SmokeLevel(value)
        # The option alone means quick.
        hint = "; did you mean quick?" if value is True else did_you_mean(str(value), names, before="; ", cutoff=0.5)
        found = str(value).lower() if isinstance(value, bool) else cut_text(repr(value), 40)
        self._fault("smoke", f"expected one of {', '.join(names)}, found {found}{hint}")
        return None

    def _seconds(self, data: dict[str, Any], key: str) -> float | None:
        value = data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_SECONDS:
            self._fault(key, f"expected seconds, at most {_MAX_SECONDS}, found {cut_text(repr(value), 40)}")
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
                f"{excerpt(key)}: {_unknown_key(key.lower(), _SUPPRESSION_KEYS, 0.4)}"
                for key in entry
                if key not in _SUPPRESSION_KEYS
            ]
            if not _is_text(code):
                complaints.append("code: expected the code of a check, see gpuenv doctor --list")
            if not _is_text(reason):
                complaints.append("reason: expected a text on why this is accepted")
            if day is None:
                complaints.append(f"expires: expected a day, such as 2027-05-31, found {excerpt(repr(expires))}")
            source = f"{self.name}: line {line}"
            self.faults += [f"{source}: allow: {complaint}" for complaint in complaints]
            if not complaints:
                suppressions.append(Suppression(code.upper(), reason.strip(), day or "", source, self.name, line))
            line += 1  # the same code may occur again
        return tuple(suppressions)


def _unknown_key(folded: str, known: Sequence[str], cutoff: float) -> str:
    return f"unknown key{did_you_mean(folded, known, before='; ', cutoff=cutoff)} (one of {', '.join(known)})"


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
