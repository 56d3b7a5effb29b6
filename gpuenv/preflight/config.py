"""What a configuration file says: requirements, limits and accepted findings."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from gpuenv.model.finding import Allowance
from gpuenv.model.smoke import Level
from gpuenv.preflight.config_file import PROJECT_FILE, Config, ConfigError, read_text, read_toml
from gpuenv.preflight.requirement import Origin, Requirement, RequirementError, parse_requirement

_KEYS = ("require", "timeout", "wait", "retry-elsewhere", "smoke", "allow")


def load_config(path: Path, shown: str | None = None) -> Config:
    """Reads a configuration file.

    Args:
        path: a TOML file; in ``pyproject.toml`` the table ``[tool.gpuenv]`` counts, in any other file its top.
        shown: how messages name it.

    Raises:
        ConfigError: with every fault.
    """
    name = shown or str(path)
    text = read_text(path, name)
    data: Any = read_toml(path, text, name)
    start = 1
    if path.name == PROJECT_FILE:
        tool = data.get("tool", {})
        data = tool.get("gpuenv", {}) if isinstance(tool, dict) else {}
        start = line_of(r"\[\s*tool\s*\.\s*[\"']?gpuenv\b", text, 1)
    return _Reader(name, text, start).config(data)


@dataclass(frozen=True, slots=True)
class _Reader:
    """One file: its name and text, and the line in which its table begins."""

    name: str
    text: str
    start: int

    def config(self, data: Any) -> Config:  # noqa: ANN401 - TOML
        faults: list[str] = []
        if not isinstance(data, dict):
            raise ConfigError([f"{self.name}: line {self.start}: expected a table"])
        faults += [self._unknown(key, data[key]) for key in data if key not in _KEYS]
        requirements = self._requirements(data.get("require", []), faults)
        allowances = _read_allowances(self, data.get("allow", []), faults)
        timeout = self._seconds(data, "timeout", faults)
        wait = self._seconds(data, "wait", faults)
        retry = data.get("retry-elsewhere")
        if retry is not None and not isinstance(retry, bool):
            faults.append(self._fault("retry-elsewhere", f"expected true or false, found {retry!r:.40}"))
        smoke = self._level(data.get("smoke"), faults)
        if faults:
            raise ConfigError(faults)
        return Config(self.name, requirements, timeout, wait, retry, allowances, smoke)

    def _level(self, value: object, faults: list[str]) -> Level | None:
        names = [level.value for level in Level]
        if value is None or value in names:
            return None if value is None else Level(value)
        near = difflib.get_close_matches(str(value).lower(), names, 1, 0.5)
        near = [Level.QUICK.value] if value is True else near  # as the option alone means
        hint = f"; did you mean {near[0]}?" if near else ""
        found = str(value).lower() if isinstance(value, bool) else repr(value)[:40]
        faults.append(self._fault("smoke", f"expected one of {', '.join(names)}, found {found}{hint}"))
        return None

    def _line(self, key: str) -> int:
        return line_of(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*=|[{{,]\s*[\"']?{re.escape(key)}", self.text, self.start)

    def _fault(self, key: str, expected: str) -> str:
        return f"{self.name}: line {self._line(key)}: {safe(key)}: {expected}"

    def _unknown(self, key: str, value: object) -> str:
        if key in ("tool", "gpuenv") and isinstance(value, dict):
            return f"{self.name}: line {self._line_of_table(key)}: {key}: here the keys stand at the top, in no table"
        near = difflib.get_close_matches(key.lower().replace("_", "-"), _KEYS, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        return self._fault(key, f"unknown key{hint} (one of {', '.join(_KEYS)})")

    def _line_of_table(self, key: str) -> int:
        return line_of(rf"^\s*\[\s*[\"']?{key}\b", self.text, self.start)

    def _requirements(self, value: Any, faults: list[str]) -> tuple[Requirement, ...]:  # noqa: ANN401 - TOML
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            faults.append(self._fault("require", 'expected a list of texts, such as ["gpu>=1", "cc>=8.0"]'))
            return ()
        read = []
        line = self._line("require")
        for entry in value:
            line = self._line_of_entry(entry, line)
            try:
                read.append(parse_requirement(entry, Origin(file=self.name, line=line)))
            except RequirementError as error:
                faults.append(str(error))
        return tuple(read)

    def _line_of_entry(self, entry: str, start: int) -> int:
        return line_of(rf"[\"']{re.escape(entry)}[\"']", self.text, start)

    def _seconds(self, data: dict[str, Any], key: str, faults: list[str]) -> float | None:
        value = data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_SECONDS:
            faults.append(self._fault(key, f"expected seconds, at most {_MOST_SECONDS}, found {value!r:.40}"))
            return None
        return float(value)


_MOST_SECONDS = 86400


_ALLOW_KEYS = ("code", "reason", "expires")
_FORM = 'a list of tables, such as {code = "GPU206", reason = "replaced in May", expires = 2027-05-31}'


def _read_allowances(where: _Reader, value: Any, faults: list[str]) -> tuple[Allowance, ...]:  # noqa: ANN401 - TOML
    """The accepted findings; what is wrong is added to the faults, with its line."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        line = line_of(r"^\s*[\"']?allow[\"']?\s*=|\ballow\s*\]", where.text, where.start)
        faults.append(f"{where.name}: line {line}: allow: expected {_FORM}")
        return ()
    read: list[Allowance] = []
    line = where.start
    for entry in value:
        line = _line_of_entry(entry, where, line)
        complaints = _complaints(entry)
        faults += [f"{where.name}: line {line}: allow: {told}" for told in complaints]
        if not complaints:
            expires = _date(entry["expires"]) or ""
            source = f"{where.name}: line {line}"
            read.append(Allowance(entry["code"].upper(), entry["reason"].strip(), expires, source, where.name, line))
        line += 1  # the same code may stand in the list again
    return tuple(read)


def _line_of_entry(entry: dict[str, Any], where: _Reader, start: int) -> int:
    code = entry.get("code")
    if not isinstance(code, str):
        return line_of(r"[\"']?code[\"']?\s*=|\ballow\b", where.text, start)
    return line_of(rf"[\"']?code[\"']?\s*=\s*[\"']{re.escape(code)}[\"']", where.text, start)


def _complaints(entry: dict[str, Any]) -> list[str]:
    found = [_unknown_allow_key(key) for key in entry if key not in _ALLOW_KEYS]
    if not _is_text(entry.get("code")):
        found.append("code: expected the code of a check, such as GPU206")
    if not _is_text(entry.get("reason")):
        found.append("reason: expected a few words on why this is accepted")
    if _date(entry.get("expires")) is None:
        found.append(f"expires: expected a day, such as 2027-05-31, found {safe(repr(entry.get('expires')))}")
    return found


def _unknown_allow_key(key: str) -> str:
    near = difflib.get_close_matches(key.lower(), _ALLOW_KEYS, 1, 0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{safe(key)}: unknown key{hint} (one of {', '.join(_ALLOW_KEYS)})"


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
