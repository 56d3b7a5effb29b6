"""Blends the scores of the classifier with the chances from messages: as guesses, or where messages are undecided."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.model.causes import Cause

_MOST_BY_WORDS = 0.6  # of a text's doubt that its words alone share out, however alike it is to others
MOST_GUESSES = 3  # causes that no message names
# Where no message speaks for one cause by as much, the words of the whole text have a say between those that are named.
# Chosen on reports that neither messages nor words had learnt from: 57 of 100 came right without it, 60 with it.
UNDECIDED, _POWER = 0.45, 0.5  # a chance, a power
_UNLIKE = 0.002  # of a cause that the words do not speak for


def add_guesses(chances: Mapping[Cause, float], likely: Mapping[Cause, float]) -> dict[Cause, float]:
    """Adds the causes that the classifier names and no message does."""
    left = min(max(0.0, 1 - sum(chances.values())), _MOST_BY_WORDS)
    guesses = [cause for cause in likely if cause not in chances][:MOST_GUESSES]
    return {**chances, **{cause: left * likely[cause] for cause in guesses}}


def blend(chances: Mapping[Cause, float], likely: Mapping[Cause, float]) -> dict[Cause, float]:
    """Adds guesses; where the messages are undecided, the classifier reweights the causes that they name too."""
    guessed = add_guesses(chances, likely)
    if not chances or max(chances.values()) >= UNDECIDED:
        return guessed
    weighed = {cause: chance * (likely.get(cause, 0.0) + _UNLIKE) ** _POWER for cause, chance in guessed.items()}
    scale = sum(guessed.values()) / sum(weighed.values())
    return {cause: min(_MOST_BY_WORDS, chance * scale) for cause, chance in weighed.items()}
