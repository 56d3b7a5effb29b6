"""What the messages of a text say by themselves, whatever its words are like."""

from __future__ import annotations

from gpuenv.explain.scan import scan
from gpuenv.explain.shown import text_marks
from gpuenv.explain.weigh import Ranked, weigh


def ranked(text: str) -> tuple[Ranked, ...]:
    """The causes that the messages name, the likeliest first."""
    hits = scan(text.encode()).hits
    return weigh(hits, text_marks(hits))
