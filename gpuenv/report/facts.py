"""A Snapshot as lines of text: every fact with its source, and what other sources said. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuenv.model.codec import encode
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.spelt import spelt
from gpuenv.report.text import Line, Style

_READING = {"value", "source", "others", "reason"}


def fact_lines(snapshot: Snapshot) -> Iterator[Line]:
    """One line a fact, under the path that it has in JSON."""
    for name, value in encode(snapshot).items():
        yield from _lines(name, value)


def _lines(path: str, value: Any) -> Iterator[Line]:  # noqa: ANN401 - JSON
    if isinstance(value, dict) and set(value) == _READING:
        yield _reading(path, value)
        yield from _lines(path, [entry for entry in _entries(value["value"]) if isinstance(entry, dict)])
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from _lines(f"{path}.{name}", entry)
    elif isinstance(value, list) and value and all(isinstance(entry, str) for entry in value):
        yield Line(f"{path}: {_spelt(value)}", hang=2)
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _lines(f"{path}[{number}]", entry)
    elif value not in (None, ""):
        yield Line(f"{path}: {_spelt(value)}", hang=2)


def _entries(value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    return value if isinstance(value, list) else []


def _spelt(value: Any) -> str:  # noqa: ANN401 - JSON
    """A list as its entries, or as their number where each is told on lines of its own."""
    records = sum(isinstance(entry, dict) for entry in _entries(value))
    return f"{records} lines" if records else spelt(value)


def _reading(path: str, reading: dict[str, Any]) -> Line:
    if reading["value"] is None:
        return Line(f"{path}: unknown ({reading['reason'] or 'not asked'})", Style.QUIET, 2)
    differing = [answer for answer in reading["others"] if answer["value"] != reading["value"]]
    others = "; but " + ", ".join(f"{_spelt(a['value'])} [{a['source']}]" for a in differing) if differing else ""
    return Line(
        f"{path}: {_spelt(reading['value'])} [{reading['source']}]{others}",
        Style.WARNING if differing else Style.PLAIN,
        2,
    )
