"""The weights of the classifier, and the file that holds them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

WEIGHTS_FILE = Path(__file__).with_name("classifier_weights.json")
NO_FAULT = "-"  # in place of a cause: texts without a fault


@dataclass(frozen=True, slots=True)
class ClassifierWeights:
    """The weights of all terms.

    Attributes:
        causes: names of causes, and ``NO_FAULT``.
        biases: one for each of them.
        words: for each word, in hundredths, how rare it is, then in turn a cause's place and the weight there.
        learnt_from: the digest of the texts behind it.
    """

    causes: tuple[str, ...]
    biases: tuple[float, ...]
    words: Mapping[str, Sequence[int]]
    learnt_from: str

    def rarity(self, word: str) -> float:
        """How rare a known word is."""
        return self.words[word][0] / 100

    def weights(self, word: str) -> Iterator[tuple[int, float]]:
        """The indexes of the causes that a known word speaks for or against, and its weights."""
        row = self.words[word]
        return ((place, weight / 100) for place, weight in zip(row[1::2], row[2::2], strict=True))


@cache
def shipped_weights() -> ClassifierWeights:
    """The weights that come with gpuenv."""
    return read_weights(WEIGHTS_FILE.read_text(encoding="utf-8"))


def read_weights(text: str) -> ClassifierWeights:
    """Reads weights; the rows stay undecoded, since a text has only dozens of the thousands of words."""
    raw = json.loads(text)
    return ClassifierWeights(
        tuple(raw["causes"]), tuple(bias / 100 for bias in raw["biases"]), raw["words"], raw["learnt_from"]
    )
