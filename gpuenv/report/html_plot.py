"""Small drawings for the page: inline SVG, each with a text that says the same. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_WIDTH, _ROW, _LABEL = 720, 20, 220
_SPARK_WIDTH, _SPARK_HEIGHT = 120, 24
_MOST_BARS = 60
_TEXT_WIDTH = 30  # characters that fit beside a bar


def bars(values: Sequence[tuple[str, float]], title: str) -> str:
    """One bar a value, with its name and number."""
    shown = values[:_MOST_BARS]
    longest = max((value for _, value in shown), default=0.0) or 1.0
    rows = []
    for number, (name, value) in enumerate(shown):
        top = number * _ROW
        width = max(1.0, value / longest * (_WIDTH - _LABEL - 80))
        rows.append(
            f'<text x="0" y="{top + 14}">{escape(name[:_TEXT_WIDTH])}</text>'
            f'<rect class="bar" x="{_LABEL}" y="{top + 4}" width="{width:.1f}" height="12"/>'
            f'<text x="{_LABEL + width + 6:.1f}" y="{top + 14}">{value:.2f}</text>'
        )
    return _svg(_WIDTH, max(1, len(shown)) * _ROW, title, "".join(rows))


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
