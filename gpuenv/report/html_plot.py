"""Small drawings for the page: inline SVG, each with a text that says the same. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _ROW, _LABEL, _NUMBER = 720, 20, 240, 170
_SPARK_WIDTH, _SPARK_HEIGHT = 120, 24
_MOST_BARS = 60
_TEXT_WIDTH = 34  # characters that fit beside a bar


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its name, its length, the number in words, and whether it is worse than it should be."""

    name: str
    value: float
    text: str
    worse: bool = False


def bars(values: Sequence[Bar], title: str) -> str:
    """One bar a value, with its name and number; the longest takes the whole width."""
    return _drawn(values, max((bar.value for bar in values), default=0.0) or 1.0, title, None)


def fractions(values: Sequence[Bar], title: str) -> str:
    """One bar a value, a line where the value is one, and the numbers behind it."""
    return _drawn(values, max(1.0, *(bar.value for bar in values)), title, 1.0)


def _drawn(values: Sequence[Bar], longest: float, title: str, mark: float | None) -> str:
    """``mark`` is a value at which a line is drawn; the numbers then stand behind all bars."""
    shown, room = values[:_MOST_BARS], _WIDTH - _LABEL - _NUMBER
    rows = []
    if mark is not None:
        place, height = _LABEL + mark / longest * room, len(shown) * _ROW
        rows.append(f'<line x1="{place:.1f}" x2="{place:.1f}" y1="0" y2="{height}"/>')
    for number, bar in enumerate(shown):
        top = number * _ROW
        width = max(1.0, bar.value / longest * room)
        number_at = _LABEL + (width if mark is None else room) + 6
        tone = "bad" if bar.worse else "bar"
        rows.append(
            f'<text x="0" y="{top + 14}">{escape(bar.name[:_TEXT_WIDTH])}</text>'
            f'<rect class="{tone}" x="{_LABEL}" y="{top + 4}" width="{width:.1f}" height="12"/>'
            f'<text x="{number_at:.1f}" y="{top + 14}">{escape(bar.text)}</text>'
        )
    left_out = len(values) - len(shown)
    named = f"{title}; {left_out} more in the table" if left_out else title
    return _svg(_WIDTH, max(1, len(shown)) * _ROW, named, "".join(rows))


def sparkline(series: Sequence[float], title: str) -> str:
    """A line through a series; nothing where there is none."""
    if len(series) < 2:  # noqa: PLR2004 - a line has two ends
        return ""
    lowest, highest = min(series), max(series)
    span = highest - lowest or 1.0
    step = _SPARK_WIDTH / (len(series) - 1)
    points = " ".join(
        f"{number * step:.1f},{_SPARK_HEIGHT - 2 - (value - lowest) / span * (_SPARK_HEIGHT - 4):.1f}"
        for number, value in enumerate(series)
    )
    told = f"{title}: {len(series)} values from {lowest:g} to {highest:g}"
    return _svg(_SPARK_WIDTH, _SPARK_HEIGHT, told, f'<polyline points="{points}"/>')


def timeline(runs: Sequence[tuple[str, str, str]]) -> str:
    """One block a run, the oldest first: when it was, its tone, its verdict."""
    width = max(2.0, min(24.0, _WIDTH / max(1, len(runs))))
    blocks = "".join(
        f'<rect class="{tone}" x="{number * width:.1f}" y="2" width="{max(1.0, width - 2):.1f}" height="20">'
        f"<title>{escape(when)}: {escape(word)}</title></rect>"
        for number, (when, tone, word) in enumerate(runs)
    )
    words = [word for _, _, word in runs]
    told = "earlier runs: " + ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return _svg(_WIDTH, 24, told, blocks)


def _svg(width: int, height: int, title: str, body: str) -> str:
    named = escape(title, quote=True)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg role="img" aria-label="{named}" {size}>{body}</svg>'
