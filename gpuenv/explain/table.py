"""The words that tell causes apart, weighed, and the file that has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gpuenv.model.record import dataclass

TABLE = Path(__file__).with_name("resemblance.json")
NO_FAULT = "-"  # in place of a cause: the texts that tell of none


@dataclass(frozen=True, slots=True)
class Table:
    """The weighed words.

    Attributes:
        causes: names of causes, and ``NO_FAULT``.
        biases: one for each of them.
        words: for each word how rare it is, and its weights as pairs of a cause's place and a number.
        learnt_from: the digest of the texts behind it.
    """

    causes: tuple[str, ...]
    biases: tuple[float, ...]
    words: Mapping[str, tuple[float, tuple[tuple[int, float], ...]]]
    learnt_from: str


@cache
def shipped() -> Table:
    """The table that gpuenv brings."""
    return read_table(TABLE.read_text(encoding="utf-8"))


def read_table(text: str) -> Table:
    """A table from its file: for each word its rarity in hundredths, then places and weights in hundredths."""
    raw = json.loads(text)
    words = {
        word: (rarity / 100, tuple((place, weight / 100) for place, weight in zip(rest[::2], rest[1::2], strict=True)))
        for word, (rarity, *rest) in raw["words"].items()
    }
    return Table(tuple(raw["causes"]), tuple(bias / 100 for bias in raw["biases"]), words, raw["learnt_from"])
