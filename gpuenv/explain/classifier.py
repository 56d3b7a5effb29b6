"""Classifies texts by their words, for texts without a known message.

The words are held against those of public reports with a known cause, of messages that programs print, of texts that
were written for it, and of texts without a fault. A linear support vector machine for each cause has weighed them
(``make learn`` writes the table); a word or pair of words counts only where three texts of different origin have it, so
that no report is known by its own names. The result is a guess and is labelled as one.
``python -m tests.eval.learn --left-out`` measures how good the guesses are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

from gpuenv.explain.classifier_weights import NO_FAULT, ClassifierWeights, shipped_weights
from gpuenv.explain.explanation_types import QuotedLine
from gpuenv.explain.text_features import compares
from gpuenv.explain.tokenizer import terms_of
from gpuenv.model.causes import Cause

_CAUSES = {cause.value: cause for cause in Cause}
_STEEPNESS = 8.0  # of a margin's likelihood: sums up to as much as is right, of texts left out
# How near a text is to those of a cause: its margin there, less that of the texts without a fault; less is enough where
# it speaks of a GPU's troubles. Chosen on texts left out: of what healthy and unrelated programs really print, two in a
# hundred are as near; of lines that were written to come near without a fault, one in ten; of reports, nine of ten.
_NEAR, _NEAR_IN_TROUBLE = 1.4, -0.15
_ENOUGH = 4  # words and pairs that are known
_MOST_LIKE = 10  # causes
_SHOWN = 2  # lines of such a cause
_TELLING = 4  # words that are shown

_NAME = re.compile(r"[a-z]{3}")
_TOPIC = re.compile(
    r"cuda|nvidia|nvrm|cupy|\bcp\.\w|gpu|nvcc|nvrtc|cu(?:blas|fft|dnn|solver|sparse|rand|tensor|array)|nccl|nvml|tensorrt"
    r"|jetson|tegra|nouveau|rocm|hip(?:rtc|cc|error)|chainer|triton|out of memory"
)
_TROUBLE = re.compile(
    r"error|fail|cannot|n't\b|not\b|no\b|none\b|unable|missing|invalid|illegal|unsupported|incompatib|mismatch|refused"
    r"|denied|exception|abort|killed|crash|segfault|wrong|slow|hang|stuck|stop|lost|out of|warning|false|differ|should"
    r"|instead|expected|\bstub\b|sorry|leak|grow"
)
_DENIED = re.compile(
    r"\b(?:no|without|zero|0) (?:\w+ )?"
    r"(?:errors?|fail(?:ure|ed)s?|faults?|problems?|issues?|warnings?|throttling|trouble|leaks?)\b"
)
_CODE = re.compile(
    r"[;{}\\]\s*$|^\s*(?:#\s*(?:include|define|if|else|endif|pragma)|//|/?\*|def\s|class\s|from\s\S+\simport|import\s|@\w"
    r"|template|return\b|self\.)"
)
_MOST_CODE = 0.5  # of the lines of a report


@dataclass(frozen=True, slots=True)
class CauseScore:
    """How similar a text is to those of a cause.

    Attributes:
        cause: the cause.
        chance: 0 to 1; those of all causes together are at most 1.
        words: what speaks for it, the most telling first.
        known: how many words and pairs of the text are known, whatever they speak for.
    """

    cause: Cause
    chance: float
    words: tuple[str, ...]
    known: int


def classify(text: str, table: ClassifierWeights | None = None, *, near: bool = True) -> tuple[CauseScore, ...]:
    """The ten causes that a text is most like, the likeliest first.

    Args:
        text: what was read, plain.
        table: the weights; None for those that come with gpuenv.
        near: only where it is really like those of a cause.
    """
    table = table or shipped_weights()
    shares = _shares(text, table)
    if not shares:
        return ()
    margins = dict(zip(table.causes, _margins(shares, table), strict=True))
    innocence = margins.pop(NO_FAULT)
    nearness = max(margins.values()) - innocence
    if near and (nearness < (_NEAR_IN_TROUBLE if _tells_of_trouble(text) else _NEAR) or len(shares) < _ENOUGH):
        return ()
    chances = _chances(margins)
    ranked = sorted(chances, key=lambda name: -chances[name])[:_MOST_LIKE]
    return tuple(
        CauseScore(_CAUSES[name], chances[name], _telling(name, shares, table), len(shares)) for name in ranked
    )


def _tells_of_trouble(text: str) -> bool:
    """Whether a text mentions GPUs and a problem with them, and is not source code.

    The same call of CuPy and of NumPy shows that their results differ.
    """
    lowered = _DENIED.sub(" ", text.lower())
    if not _TOPIC.search(lowered) or not (_TROUBLE.search(lowered) or compares(text)):
        return False
    lines = [line for line in text.splitlines() if line.strip()]
    return sum(bool(_CODE.search(line)) for line in lines) <= len(lines) * _MOST_CODE


def telling_lines(lines: Sequence[QuotedLine], words: Sequence[str]) -> tuple[QuotedLine, ...]:
    """The lines with the most of these words, in the order of the text."""
    counted = [(len(set(words) & set(terms_of(line.text))), place) for place, line in enumerate(lines)]
    best = sorted((entry for entry in counted if entry[0]), key=lambda entry: (-entry[0], -entry[1]))
    return tuple(lines[place] for place in sorted(place for _, place in best[:_SHOWN]))


def _shares(text: str, table: ClassifierWeights) -> dict[str, float]:
    """The share of each known word in a text, higher for rare words; the squares sum up to 1."""
    counts = Counter(term for term in terms_of(text) if term in table.words)
    raw = {term: (1 + log(count)) * table.rarity(term) for term, count in counts.items()}
    length = sqrt(sum(share * share for share in raw.values()))
    return {term: share / length for term, share in raw.items()} if length else {}


def _margins(shares: Mapping[str, float], table: ClassifierWeights) -> list[float]:
    """The margin of the text for each cause."""
    margins = list(table.biases)
    for term, share in shares.items():
        for place, weight in table.weights(term):
            margins[place] += share * weight
    return margins


def _chances(margins: Mapping[str, float]) -> dict[str, float]:
    best = max(margins.values())
    raw = {name: exp((margin - best) * _STEEPNESS) for name, margin in margins.items()}
    total = sum(raw.values())
    return {name: each / total for name, each in raw.items()}


def _telling(cause: str, shares: Mapping[str, float], table: ClassifierWeights) -> tuple[str, ...]:
    """The words with the highest weight for a cause; none is part of another."""
    place = table.causes.index(cause)
    spoken = [(share * dict(table.weights(term)).get(place, 0.0), term) for term, share in shares.items()]
    telling: list[str] = []
    for weight, term in sorted(spoken, reverse=True):
        is_part = any(f" {term} " in f" {other} " for other in telling)
        if weight > 0 and not is_part and _NAME.search(term):
            telling.append(term)
    return tuple(telling[:_TELLING])
