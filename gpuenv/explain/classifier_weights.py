"""The words that tell causes apart, weighed, and the file that has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("classifier_weights.json")
NO_FAULT = "-"  # in place of a cause: the texts that tell of none


@dataclass(frozen=True, slots=True)
class Table:
    """The weighed words.

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
        """How rare a word is that is known."""
        return self.words[word][0] / 100

    def weights(self, word: str) -> Iterator[tuple[int, float]]:
        """The places of the causes that a word that is known speaks for or against, and how much."""
        row = self.words[word]
        return ((place, weight / 100) for place, weight in zip(row[1::2], row[2::2], strict=True))


@cache
def shipped() -> Table:
    """The table that gpuenv brings."""
    return read_table(TABLE.read_text(encoding="utf-8"))


def read_table(text: str) -> Table:
    """A table from its file; of its thousands of words a text has some dozens, so that they stay as they are."""
    raw = json.loads(text)
    return Table(tuple(raw["causes"]), tuple(bias / 100 for bias in raw["biases"]), raw["words"], raw["learnt_from"])
