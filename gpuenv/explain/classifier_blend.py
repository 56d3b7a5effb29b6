"""What the words of a text add to what its messages say: guesses, and a say where the messages leave it open. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.model.causes import Cause

_MOST_BY_WORDS = 0.6  # of a text's doubt that its words alone share out, however alike it is to others
MOST_GUESSES = 3  # causes that no message names
# Where no message speaks for one cause by as much, the words of the whole text have a say between those that are named.
# Chosen on reports that neither messages nor words had learnt from: 57 of 100 came right without it, 60 with it.
UNDECIDED, _SAY = 0.45, 0.5  # a chance, a power
_UNLIKE = 0.002  # of a cause that the words do not speak for


def with_guesses(chances: Mapping[Cause, float], likely: Mapping[Cause, float]) -> dict[Cause, float]:
    """With the causes that no message names and the words speak for."""
    left = min(max(0.0, 1 - sum(chances.values())), _MOST_BY_WORDS)
    guesses = [cause for cause in likely if cause not in chances][:MOST_GUESSES]
    return {**chances, **{cause: left * likely[cause] for cause in guesses}}


def swayed(chances: Mapping[Cause, float], likely: Mapping[Cause, float]) -> dict[Cause, float]:
    """Likewise; where the messages leave it open, the words have a say on the causes that they name too."""
    told = with_guesses(chances, likely)
    if not chances or max(chances.values()) >= UNDECIDED:
        return told
    weighed = {cause: chance * (likely.get(cause, 0.0) + _UNLIKE) ** _SAY for cause, chance in told.items()}
    scale = sum(told.values()) / sum(weighed.values())
    return {cause: min(_MOST_BY_WORDS, chance * scale) for cause, chance in weighed.items()}
