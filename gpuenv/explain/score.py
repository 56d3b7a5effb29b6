"""Ranks the causes of a text: by its messages, by its words, and by what the doctor finds on the machine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuenv.explain.classifier import NOTHING, Classification
from gpuenv.explain.explanation_types import Hit
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding

CERTAIN = 0.8  # from this confidence on, no further fact is needed
# Measured on 1,680 reports left out of the classifier's training: of first causes with a share above 0.94, one in forty
# is wrong; of those between 0.79 and 0.94, one in seven.
_CLEAR_SHARE, _DOUBT, _SURE = 0.94, 0.79, 0.97
_LEAST = 0.05  # least share of a listed cause,
_LEAST_OF_THREE = 0.01  # and of the first three if none is certain
_FIRST_THREE, _MOST = 3, 5
_WARNING = 0.6  # weight of a warning in a text with an error
# Chosen on the same reports: the weight of the words between the causes of a message, and for causes of no message.
_POWER, _FLOOR, _UNNAMED = 0.33, 0.01, 0.2
_FOUND = 20.0  # factor of a cause that a message names and the doctor finds
# Score of a finding as a multiple of the best score by the text: if the text names the cause too, if it does not, and
# if it refutes it.
_AGREED, _LEADING, _REFUTED = 100.0, 4.0, 0.1
_RULED_OUT = 0.35
_FOREIGN = 0.002  # probability of a cause by words that are those of another
_LEAST_GUESS = 0.15  # of guesses with less, one in five is right


@dataclass(frozen=True, slots=True)
class DoctorVerdict:
    """The doctor's verdict.

    Attributes:
        found: the causes that it finds, the primary one first.
        ruled_out: those that it rules out.
        has_machine: whether a machine was probed or pasted; without one, its findings support only causes that the
            text names.
        factors: of causes that the system, such as WSL or a container, makes likelier or less likely.
        has_cupy: whether CuPy is in the target.
    """

    found: Mapping[Cause, Finding]
    ruled_out: frozenset[Cause] = frozenset()
    has_machine: bool = False
    factors: Mapping[Cause, float] = field(default_factory=dict)
    has_cupy: bool = False


@dataclass(frozen=True, slots=True)
class Ranked:
    """A cause with its confidence and the hits that name it, the strongest first."""

    cause: Cause
    confidence: float
    hits: tuple[Hit, ...]


NO_MACHINE = DoctorVerdict({})


def rank(
    hits: Sequence[Hit], words: Classification = NOTHING, verdict: DoctorVerdict = NO_MACHINE
) -> tuple[Ranked, ...]:
    """Ranks the causes; the confidences add up to 1 at most.

    Returns nothing for a text without a known message.
    """
    votes = list(_votes(hits))
    if not votes:
        return ()
    weights = _combined(votes)
    named = frozenset(weights)
    for cause, chance in words.chances.items():
        weights.setdefault(cause, _UNNAMED * chance)
    scores = {
        cause: weight
        * ((words.chances.get(cause, 0.0) + _FLOOR) ** _POWER if words.chances else 1.0)
        * (_FOUND if cause in verdict.found and cause in named else 1.0)
        * (_RULED_OUT if cause in verdict.ruled_out else 1.0)
        * verdict.factors.get(cause, 1.0)
        for cause, weight in weights.items()
    }
    if verdict.has_machine and verdict.found:
        _put_finding_first(scores, named, verdict.found, words)
    total = sum(scores.values())
    shares = {cause: score / total for cause, score in scores.items()}
    ranked = sorted(shares, key=lambda cause: -shares[cause])[:_MOST]
    first = shares[ranked[0]]
    factor = min(_SURE if first >= _CLEAR_SHARE else _DOUBT, first) / first
    return tuple(
        Ranked(cause, round(shares[cause] * factor, 3), _hits_of(cause, votes))
        for index, cause in enumerate(ranked)
        if index == 0 or shares[cause] >= (_LEAST_OF_THREE if index < _FIRST_THREE and first < _CLEAR_SHARE else _LEAST)
    )


def guess(words: Classification, verdict: DoctorVerdict = NO_MACHINE) -> tuple[Ranked, ...]:
    """The causes that the words of a text without a known message indicate, likeliest first.

    Those of the likeliest three that the doctor finds on the machine come first.
    """
    total = sum(words.chances.values())
    likeliest = list(words.chances.items())[:_FIRST_THREE]
    if not words.is_clear or likeliest[0][1] < _LEAST_GUESS * total:
        return ()
    if verdict.has_machine:
        likeliest.sort(key=lambda entry: entry[0] not in verdict.found)
    return tuple(Ranked(cause, round(min(chance / total, _DOUBT), 3), ()) for cause, chance in likeliest)


_Vote = tuple[Hit, Mapping[Cause, float]]


def _put_finding_first(
    scores: dict[Cause, float], named: Collection[Cause], found: Iterable[Cause], words: Classification
) -> None:
    """Makes a finding of the machine the first cause: one that a message names, else the one with the likeliest words.

    The latter only if the text does not refute it, with a message of another certain cause or with foreign words.
    """
    causes = list(found)
    both = next((cause for cause in causes if cause in named), None)
    best = max(scores.values())
    if both is not None:
        scores[both] = best * _AGREED
        return
    cause = max(causes, key=lambda entry: words.chances.get(entry, 0.0))
    is_foreign = bool(words.chances) and words.chances.get(cause, 0.0) < _FOREIGN
    is_refuted = is_foreign or best >= _CLEAR_SHARE * sum(scores.values())
    scores[cause] = best * (_REFUTED if is_refuted else _LEADING)


def _votes(hits: Sequence[Hit]) -> list[_Vote]:
    """The first hit of each message with its weights, and further hits whose captured values give other weights."""
    replacing = {name: hit.message for hit in hits for name in hit.message.replaces}
    votes: list[_Vote] = []
    for hit in hits:
        weights = replacing.get(hit.message.id, hit.message).weights(dict(hit.values))
        if weights and all(hit.message.id != other.message.id or weights != its for other, its in votes):
            votes.append((hit, weights))
    return votes


def _combined(votes: Sequence[_Vote]) -> dict[Cause, float]:
    has_error = any(not hit.message.warning for hit, _ in votes)
    combined: dict[Cause, float] = {}
    for hit, weights in votes:
        factor = _WARNING if has_error and hit.message.warning else 1.0
        for cause, weight in weights.items():
            combined[cause] = max(combined.get(cause, 0.0), weight * factor)
    return combined


def _hits_of(cause: Cause, votes: Sequence[_Vote]) -> tuple[Hit, ...]:
    naming = [(weights[cause], hit) for hit, weights in votes if cause in weights]
    return tuple(hit for _, hit in sorted(naming, key=lambda item: -item[0]))
