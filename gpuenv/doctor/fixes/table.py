"""The table of fixes, fixes.csv: the steps of a task by distribution, container engine or scheduler.

A row is one step: a sentence and its command. Rows of one task and place follow each other. ``where`` lists the places,
separated by ``; ``; ``*`` is any other place. ``branches`` are the driver branches that the place has, the preferred
one first; ``any`` if it has the last branch of every older GPU. Texts and commands have placeholders in braces. The
sources, with the days on which they were read, are in fix_sources.csv.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from gpuenv.data import DATA
from gpuenv.files import read_at_most
from gpuenv.model.finding import Fix
from gpuenv.model.strings import pattern

_MAX_BYTES = 1024 * 1024
_SEPARATOR, _ANYWHERE = "; ", "*"
_UNKNOWN = {"version": "that of its module"}
_PLACEHOLDER = pattern(r"\{(\w+)\}")


class Row(NamedTuple):
    """One step; the command is a line for a shell, or empty."""

    task: str
    where: str
    branches: str
    text: str
    command: str
    source: str


def read_rows(name: str) -> list[list[str]]:
    """The rows of a table of the package, the header first.

    Raises:
        OSError, csv.Error: the installation is broken.
    """
    content = read_at_most(DATA / name, _MAX_BYTES).decode("utf-8")
    return list(csv.reader(io.StringIO(content, newline=""), strict=True))


@lru_cache(maxsize=1)
def all_rows() -> tuple[Row, ...]:
    """All rows."""
    return tuple(Row(*row) for row in read_rows("fixes.csv")[1:])


@lru_cache(maxsize=1)
def _by_place() -> Mapping[tuple[str, str], tuple[Row, ...]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in all_rows():
        for place in row.where.split(_SEPARATOR):
            found.setdefault((row.task, place), []).append(row)
    return {key: tuple(rows) for key, rows in found.items()}


def rows_of(task: str, places: Iterable[str]) -> tuple[Row, ...]:
    """The rows of a task for the first of the places that has any; else those for any place."""
    return next((rows for place in (*places, _ANYWHERE) if (rows := _by_place().get((task, place)))), ())


def steps(rows: Iterable[Row], **values: object) -> tuple[Fix, ...]:
    """Fills in the placeholders; a command with an unknown value (None) is left out."""
    return tuple(_step(row, values) for row in rows)


def steps_of(task: str, places: Iterable[str], **values: object) -> tuple[Fix, ...]:
    """The steps of a task."""
    return steps(rows_of(task, places), **values)


def _step(row: Row, values: Mapping[str, object]) -> Fix:
    def fill(text: str, quote: Callable[[str], str] = str) -> str:
        return _PLACEHOLDER.sub(lambda found: quote(str(values.get(found[1]) or _UNKNOWN.get(found[1], ""))), text)

    is_known = all(values.get(name) is not None for name in _PLACEHOLDER.findall(row.command))
    words = shlex.split(row.command) if is_known else []
    # A word with spaces is a script for sh -c, in which a value must not become a command.
    filled = (word for part in words for word in ([fill(part, shlex.quote)] if " " in part else fill(part).split()))
    return Fix(fill(row.text), tuple(filled) or None)


def branches_of(row: Row) -> tuple[int, ...] | None:
    """The branches that a place has; None for every one."""
    return None if row.branches in ("", "any") else tuple(map(int, row.branches.split(_SEPARATOR)))
