"""The allow-list of a configuration: findings that are known and accepted until a day. Pure."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from gpuenv.model.allowance import Allowance
from gpuenv.preflight.places import line_of, safe

_KEYS = ("code", "reason", "expires")
_FORM = 'a list of tables, such as {code = "GPU206", reason = "replaced in May", expires = 2027-05-31}'


@dataclass(frozen=True, slots=True)
class Entries:
    """Where a list stands: the file's name as messages show it, its text, and the line from which on to look."""

    name: str
    text: str
    start: int


def read_allowances(where: Entries, value: Any, faults: list[str]) -> tuple[Allowance, ...]:  # noqa: ANN401 - TOML
    """The entries of the list; what is wrong is added to the faults, with its line.

    Args:
        where: the file.
        value: what its key ``allow`` has.
        faults: one text a fault.
    """
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


def _line_of_entry(entry: dict[str, Any], where: Entries, start: int) -> int:
    code = entry.get("code")
    if not isinstance(code, str):
        return line_of(r"[\"']?code[\"']?\s*=|\ballow\b", where.text, start)
    return line_of(rf"[\"']?code[\"']?\s*=\s*[\"']{re.escape(code)}[\"']", where.text, start)


def _complaints(entry: dict[str, Any]) -> list[str]:
    found = [_unknown(key) for key in entry if key not in _KEYS]
    if not _is_text(entry.get("code")):
        found.append("code: expected the code of a check, such as GPU206")
    if not _is_text(entry.get("reason")):
        found.append("reason: expected a few words on why this is accepted")
    if _date(entry.get("expires")) is None:
        found.append(f"expires: expected a day, such as 2027-05-31, found {safe(repr(entry.get('expires')))}")
    return found


def _unknown(key: str) -> str:
    near = difflib.get_close_matches(key.lower(), _KEYS, 1, 0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{safe(key)}: unknown key{hint} (one of {', '.join(_KEYS)})"


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
