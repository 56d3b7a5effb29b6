"""Ranks the causes of a text by its messages alone, without the classifier."""

from __future__ import annotations

from gpuenv.explain.scan import scan
from gpuenv.explain.scoring import Ranked, rank_causes
from gpuenv.explain.text_evidence import text_evidence


def ranked(text: str) -> tuple[Ranked, ...]:
    """The causes that the messages name, the likeliest first."""
    hits = scan(text.encode()).hits
    return rank_causes(hits, text_evidence(hits))
