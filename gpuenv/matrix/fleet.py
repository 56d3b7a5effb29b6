"""One answer for several machines, or the fewest answers that serve them all. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from gpuenv.matrix.candidates import WheelCandidate, by_preference
from gpuenv.matrix.constraints import fits
from gpuenv.matrix.needs import Needs, needs_of
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import wheel_choice
from gpuenv.model.answers import Fleet, Shared
from gpuenv.model.snapshot import Snapshot

_EXACT = 3  # answers; a larger set is put together greedily


def resolve_fleet(machines: Mapping[str, Snapshot], matrix: Matrix) -> Fleet:
    """The fewest answers, and the machines that each of them serves.

    Args:
        machines: by a name of each.
        matrix: the rows.
    """
    needs = {name: needs_of(snapshot, matrix) for name, snapshot in machines.items()}
    order = by_preference(next(iter(needs.values())), matrix) if len(needs) == 1 else _order(needs, matrix)
    serves = {wheel: frozenset(name for name in needs if fits(wheel, needs[name], matrix)) for wheel in order}
    servable = frozenset(name for names in serves.values() for name in names)
    answers: list[Shared] = []
    left = servable
    for wheel in _smallest(order, serves, servable):
        served = tuple(name for name in needs if name in serves[wheel] & left)
        left -= serves[wheel]
        answers.append(_shared(wheel, served, needs, matrix))
    return Fleet(tuple(answers), tuple(name for name in needs if name not in servable), matrix.revision)


def _order(needs: Mapping[str, Needs], matrix: Matrix) -> tuple[WheelCandidate, ...]:
    """With the extra before without, unless every machine has a toolkit of its own."""
    firsts = {by_preference(entry, matrix) for entry in needs.values()}
    return firsts.pop() if len(firsts) == 1 else by_preference(replace(next(iter(needs.values())), toolkits=()), matrix)


def _smallest(
    order: Sequence[WheelCandidate], serves: Mapping[WheelCandidate, frozenset[str]], servable: frozenset[str]
) -> tuple[WheelCandidate, ...]:
    """The fewest candidates that serve all; of several such sets the one whose members are preferred most."""
    useful: dict[frozenset[str], WheelCandidate] = {}
    for wheel in order:
        if serves[wheel]:
            useful.setdefault(serves[wheel], wheel)  # the preferred one of those that serve the same machines
    for count in range(_EXACT + 1):
        for chosen in combinations(useful.values(), count):
            if frozenset(name for wheel in chosen for name in serves[wheel]) == servable:
                return chosen
    return _greedy(list(useful.values()), serves, servable)


def _greedy(
    useful: Sequence[WheelCandidate], serves: Mapping[WheelCandidate, frozenset[str]], servable: frozenset[str]
) -> tuple[WheelCandidate, ...]:
    chosen: list[WheelCandidate] = []
    left = servable
    while left:
        best = max(useful, key=lambda wheel: len(serves[wheel] & left))
        chosen.append(best)
        left -= serves[best]
    return tuple(chosen)


def _shared(wheel: WheelCandidate, served: tuple[str, ...], needs: Mapping[str, Needs], matrix: Matrix) -> Shared:
    """The requirements serve the GPUs of all machines together."""
    gpus = tuple(gpu for name in served for gpu in needs[name].gpus)
    together = replace(needs[served[0]], gpus=gpus)
    return Shared(wheel.candidate, wheel_choice(wheel, together, matrix).requirements, served)
