"""A Snapshot as lines of text: every fact with its source, and what other sources said. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuenv.model.codec import encode
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.text import Line, Style

_READING = {"value", "source", "others", "reason"}


def fact_lines(snapshot: Snapshot) -> Iterator[Line]:
    """One line a fact, under the path that it has in JSON."""
    for name, value in encode(snapshot).items():
        yield from _lines(name, value)


def _lines(path: str, value: Any) -> Iterator[Line]:  # noqa: ANN401 - JSON
    if isinstance(value, dict) and set(value) == _READING:
        yield _reading(path, value)
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from _lines(f"{path}.{name}", entry)
    elif isinstance(value, list) and value and all(isinstance(entry, str) for entry in value):
        yield Line(f"{path}: {_plain(value)}", hang=2)
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _lines(f"{path}[{number}]", entry)
    elif value not in (None, ""):
        yield Line(f"{path}: {value}", hang=2)


def _reading(path: str, reading: dict[str, Any]) -> Line:
    if reading["value"] is None:
        return Line(f"{path}: unknown ({reading['reason']})", Style.QUIET, 2)
    differing = [answer for answer in reading["others"] if answer["value"] != reading["value"]]
    others = "; but " + ", ".join(f"{_plain(a['value'])} [{a['source']}]" for a in differing) if differing else ""
    return Line(
        f"{path}: {_plain(reading['value'])} [{reading['source']}]{others}",
        Style.WARNING if differing else Style.PLAIN,
        2,
    )


def _plain(value: Any) -> str:  # noqa: ANN401 - JSON
    """A list as its parts, the rest as it is."""
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return ", ".join(value) or "none"
    return str(value)
