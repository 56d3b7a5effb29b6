"""New rows as text, put into the text of a matrix where they belong; everything else stays as it was written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.version import Version

_QUOTED = re.compile(r"[:#,\[\]{}&*!|>'\"%@`]|^[-?\s]|\s$|^$|^(null|~|yes|no|true|false)$")

Value = "str | bool | Sequence[str] | Mapping[str, Value] | None"


class PlaceError(ValueError):
    """The text has no place for a row: it was not written as the matrix is."""


@dataclass(frozen=True, slots=True)
class NewRow:
    """A row to be added.

    Attributes:
        name: as people call it, such as ``cupy-cuda13x 14.2.0``.
        key: of its source.
        source: the text of its source.
        row: its own text; null where only a source is new.
        line: the wheel line that it belongs to; null for a CUDA minor.
        version: what it is ordered by.
    """

    name: str
    key: str
    source: str
    row: str | None
    line: str | None
    version: str


@dataclass(frozen=True, slots=True)
class Additions:
    """Everything that is to be written, and the CUDA minors whose toolkit has come to the index."""

    rows: tuple[NewRow, ...] = ()
    toolkits: tuple[str, ...] = ()
    withdrawn: Mapping[str, str] = field(default_factory=dict)


def flow(values: Mapping[str, object]) -> str:
    """A mapping on one line, as the rows of the matrix are written; what is None is left out."""
    return (
        "{" + ", ".join(f"{_scalar(key)}: {_value(value)}" for key, value in values.items() if value is not None) + "}"
    )


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return flow(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_scalar(str(item)) for item in value) + "]"
    if isinstance(value, bool):
        return "'true'" if value else "'false'"
    return _scalar(str(value))


def _scalar(text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if _QUOTED.search(text) else text


def written(text: str, additions: Additions, today: str) -> str:
    """The text with the additions and a new revision.

    Raises:
        PlaceError: where it has no place for one.
    """
    lines = text.splitlines()
    for new in additions.rows:
        _add_source(lines, new)
        if new.row is not None and new.line is not None:
            _add_release(lines, new, new.line)
        elif new.row is not None:
            _add_minor(lines, new)
    for cuda in additions.toolkits:
        _mark_toolkit(lines, cuda)
    lines = [re.sub(r"^revision: .*", f"revision: '{today}'", line) for line in lines]
    return "\n".join(lines) + "\n"


def _add_source(lines: list[str], new: NewRow) -> None:
    """Beside its like: releases of a line stand newest first, NVRTCs oldest first."""
    prefix = new.key[: -len(new.version)]
    newest_first = new.line is not None
    place = None
    for number in range(*_span(lines, "sources:")):
        told = re.match(rf"  {re.escape(prefix)}(\d[\w.]*): ", lines[number])
        if told is None:
            continue
        if newest_first and Version(told[1]) < Version(new.version):
            lines.insert(number, f"  {new.key}: {new.source}")
            return
        if newest_first or Version(told[1]) < Version(new.version):
            place = number + 1
    lines.insert(_span(lines, "sources:")[0] if place is None else place, f"  {new.key}: {new.source}")


def _add_release(lines: list[str], new: NewRow, line: str) -> None:
    name = f"  - name: {line}"
    if name not in lines:
        raise PlaceError(f"the matrix has no wheel line {line} to add {new.name} to")
    place = lines.index(name)
    while place < len(lines) and not lines[place].startswith("    releases:"):
        place += 1
    if place == len(lines):
        raise PlaceError(f"the wheel line {line} has no list of releases")
    lines[place] = "    releases:"  # without the brackets of an empty list
    place += 1
    while place < len(lines) and lines[place].startswith("      - "):
        told = re.match(r"      - \{cupy: ([\w.]+),", lines[place])
        if told is not None and Version(told[1]) < Version(new.version):
            break
        place += 1
    lines.insert(place, f"      - {new.row}")


def _add_minor(lines: list[str], new: NewRow) -> None:
    start, end = _span(lines, "cuda_minors:")
    place = start
    for number in range(start, end):
        told = re.match(r"  - \{cuda: (\d+\.\d+),", lines[number])
        if told is not None and Version(told[1]) < Version(new.version):
            place = number + 1
    lines.insert(place, f"  - {new.row}")


def _mark_toolkit(lines: list[str], cuda: str) -> None:
    for number in range(*_span(lines, "cuda_minors:")):
        if lines[number].startswith(f"  - {{cuda: {cuda},"):
            lines[number] = lines[number].replace("toolkit_wheels: 'false'", "toolkit_wheels: 'true'")


def _span(lines: list[str], heading: str) -> tuple[int, int]:
    """The lines under a heading, up to the first that stands further out."""
    try:
        start = lines.index(heading) + 1
    except ValueError:
        raise PlaceError(f"the matrix has no section {heading.rstrip(':')}") from None
    end = start
    while end < len(lines) and lines[end].startswith("  "):
        end += 1
    return start, end
