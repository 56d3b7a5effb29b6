"""Charts of HTML pages, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _ROW, _LABEL, _NUMBER = 720, 20, 240, 170
_SPARK_WIDTH, _SPARK_HEIGHT = 120, 24
_MAX_BARS = 60
_TEXT_WIDTH = 34  # characters that fit next to a bar


class ChartBar(NamedTuple):
    """A bar of a chart: its name, its value, the value as text, and whether it is worse than its reference."""

    name: str
    value: float
    text: str
    worse: bool = False


def bars(values: Sequence[ChartBar], title: str, mark: float | None = None) -> str:
    """A chart with one bar per value; with a line at ``mark`` the numbers are aligned in a column at the right."""
    longest = max((mark or 0.0, *(bar.value for bar in values))) or 1.0
    shown, room = values[:_MAX_BARS], _WIDTH - _LABEL - _NUMBER
    rows = []
    if mark is not None:
        x, height = _LABEL + mark / longest * room, len(shown) * _ROW
        rows.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>')
    for number, bar in enumerate(shown):
        top = number * _ROW
        width = max(1.0, bar.value / longest * room)
        number_x = _LABEL + (width if mark is None else room) + 6
        tone = "bad" if bar.worse else "bar"
        rows.append(
            f'<text x="0" y="{top + 14}">{escape(bar.name[:_TEXT_WIDTH])}</text>'
            f'<rect class="{tone}" x="{_LABEL}" y="{top + 4}" width="{width:.1f}" height="12"/>'
            f'<text x="{number_x:.1f}" y="{top + 14}">{escape(bar.text)}</text>'
        )
    omitted = len(values) - len(shown)
    full_title = f"{title}; {omitted} more in the table" if omitted else title
    return _svg(_WIDTH, max(1, len(shown)) * _ROW, full_title, "".join(rows))


def sparkline(series: Sequence[float], title: str) -> str:
    """A line chart of a series; empty for fewer than two values."""
    if len(series) < 2:  # noqa: PLR2004 - a line has two ends
        return ""
    lowest, highest = min(series), max(series)
    span = highest - lowest or 1.0
    step = _SPARK_WIDTH / (len(series) - 1)
    points = " ".join(
        f"{number * step:.1f},{_SPARK_HEIGHT - 2 - (value - lowest) / span * (_SPARK_HEIGHT - 4):.1f}"
        for number, value in enumerate(series)
    )
    label = f"{title}: {len(series)} values from {lowest:g} to {highest:g}"
    return _svg(_SPARK_WIDTH, _SPARK_HEIGHT, label, f'<polyline points="{points}"/>')


def timeline(runs: Sequence[tuple[str, str, str]]) -> str:
    """One block per run (time, tone, status), the oldest first."""
    width = max(2.0, min(24.0, _WIDTH / max(1, len(runs))))
    blocks = "".join(
        f'<rect class="{tone}" x="{number * width:.1f}" y="2" width="{max(1.0, width - 2):.1f}" height="20">'
        f"<title>{escape(time)}: {escape(status)}</title></rect>"
        for number, (time, tone, status) in enumerate(runs)
    )
    statuses = [status for _, _, status in runs]
    label = "earlier runs: " + ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    return _svg(_WIDTH, 24, label, blocks)


def _svg(width: int, height: int, title: str, body: str) -> str:
    label = escape(title, quote=True)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg role="img" aria-label="{label}" {size}>{body}</svg>'
