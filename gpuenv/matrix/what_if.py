"""What-if tables, why-not answers, and the smallest set of candidates for several machines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import prod
from typing import NamedTuple, TypeVar

from gpuenv.matrix.alternatives import conda_candidates, judge_images
from gpuenv.matrix.assume import AssumeError, assume, validate_assumptions
from gpuenv.matrix.candidates import WheelCandidate, by_preference
from gpuenv.matrix.constraints import LineVerdicts, fits
from gpuenv.matrix.needs import Needs, needs_of
from gpuenv.matrix.resolve import judge, resolve, wheel_choice
from gpuenv.matrix.tables import Matrix
from gpuenv.model.documents import (
    AssumedMachine,
    BetterChoice,
    Fleet,
    FleetAnswer,
    FleetForcing,
    FleetImage,
    WhatIf,
    WhyNot,
)
from gpuenv.model.resolution import Candidate, CandidateKind, Change, Rejection
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.strings import did_you_mean

MAX_ROWS = 1000
K = TypeVar("K")
V = TypeVar("V")


def what_if(snapshot: Snapshot, dimensions: Sequence[str], matrix: Matrix) -> WhatIf:
    """Returns the table of answers.

    Each dimension is ``KEY=VALUE,VALUE``. A plus in a value of ``gpu`` separates GPUs of one machine.

    Raises:
        AssumeError: for an invalid value or too large a table.
    """
    choices = [tuple(_values(text)) for text in dimensions]
    size = prod(map(len, choices))
    if size > MAX_ROWS:
        raise AssumeError(f"--what-if: {size} combinations are more than {MAX_ROWS}, the limit of a table")
    rows = (tuple(value for values in combination for value in values) for combination in product(*choices))
    return WhatIf(tuple(_resolve_row(snapshot, row, matrix) for row in rows), matrix.revision)


def validate_dimensions(dimensions: Sequence[str]) -> None:
    """Validates the dimensions of a table without a matrix.

    Raises:
        AssumeError: for the first invalid value.
    """
    for text in dimensions:
        for values in _values(text):
            try:
                validate_assumptions(values)
            except AssumeError as error:
                raise _with_own_option(error) from error


def _with_own_option(error: AssumeError) -> AssumeError:
    return AssumeError(str(error).replace("--assume", "--what-if", 1))


def _values(text: str) -> Iterator[tuple[str, ...]]:
    """Yields the assumptions of each value; several for a value with several GPUs."""
    key, equals, values = text.partition("=")
    choices = [value.strip() for value in values.split(",")]
    if not equals or not key.strip() or not all(choices):
        raise AssumeError(f"--what-if {text}: expected KEY=VALUE,VALUE, such as driver=580,590")
    for value in dict.fromkeys(choices):
        parts = value.split("+") if key.strip() == "gpu" else [value]
        yield tuple(f"{key.strip()}={part.strip()}" for part in parts)


def _resolve_row(snapshot: Snapshot, assumptions: Sequence[str], matrix: Matrix) -> AssumedMachine:
    try:
        resolution = resolve(assume(snapshot, assumptions, matrix), matrix, wheels_only=True)
    except AssumeError as error:
        raise _with_own_option(error) from error
    wheel = resolution.wheel
    candidate = Candidate(CandidateKind.WHEEL, wheel.distribution, wheel.version, wheel.extra) if wheel else None
    # Better lines have a higher CUDA major version than the chosen one; without one, all are better.
    majors = {line.name: line.cuda_major for line in matrix.wheel_lines}
    chosen = wheel.cuda_major if wheel else 0
    better = (
        BetterChoice(entry.candidate, entry.changes)
        for entry in resolution.reachable
        if majors[entry.candidate.name] > chosen
    )
    return AssumedMachine(tuple(assumptions), candidate, wheel.requirements if wheel else (), tuple(better))


_NAMED = re.compile(r"(?P<name>[A-Za-z][\w./-]*|\d\dx)(?:\[(?P<extra>\w+)\])?(?:(?:==?|:)(?P<version>[\w.-]+))?")


class UnknownCandidateError(ValueError):
    """A name that matches no candidate; the message lists the known ones."""


class _JudgedCandidate(NamedTuple):
    candidate: Candidate
    rejections: tuple[Rejection, ...]
    changes: tuple[Change, ...] | None


def why_not(snapshot: Snapshot, name: str, matrix: Matrix) -> WhyNot:
    """Returns the reasons against a candidate.

    Its name is ``cupy-cuda13x``, ``13x``, ``cupy-cuda13x==14.1.0``, ``cupy-cuda13x[ctk]``, ``conda``, or an image.

    Raises:
        UnknownCandidateError: no candidate has that name.
    """
    entries = _entries(snapshot, matrix)
    entry = _find_candidate(name, entries)
    same_kind = [other for other in entries if other.candidate.kind is entry.candidate.kind]
    best = next((other.candidate for other in same_kind if not other.rejections), None)
    preferred = best if best is not None and best != entry.candidate else None
    changes = entry.changes if entry.rejections else None
    return WhyNot(entry.candidate, entry.rejections, changes, preferred, matrix.revision)


def _entries(snapshot: Snapshot, matrix: Matrix) -> list[_JudgedCandidate]:
    needs = needs_of(snapshot, matrix)
    wheels, lines = (*by_preference(needs, matrix), *conda_candidates(matrix)), LineVerdicts(needs, matrix)
    judged = [judge(wheel, needs, matrix, lines) for wheel in wheels]
    found = [_JudgedCandidate(entry.wheel.candidate, entry.rejections, entry.changes) for entry in judged]
    for image in judge_images(needs, matrix, lines):
        repository, _, tag = image.image.reference.partition(":")
        found.append(_JudgedCandidate(Candidate(CandidateKind.IMAGE, repository, tag), image.rejections, None))
    return found


def _find_candidate(name: str, entries: list[_JudgedCandidate]) -> _JudgedCandidate:
    """Returns the first entry of that name that fits, else the first; entries are in order of preference."""
    parts = _NAMED.fullmatch(name.strip())
    if parts is None:
        raise UnknownCandidateError(f"--why-not {name}: expected a line such as cupy-cuda13x, a release or an image")
    wanted = parts["name"].lower()
    full = f"cupy-cuda{wanted}" if re.fullmatch(r"\d\dx", wanted) else wanted
    named = [entry for entry in entries if _is_named(entry.candidate, full)]
    if not named:
        known = list(dict.fromkeys(entry.candidate.name for entry in entries))
        hint = did_you_mean(full, known, before="; ")
        raise UnknownCandidateError(f"--why-not {name}: unknown candidate{hint} (one of {', '.join(known)})")
    matching = [
        entry
        for entry in named
        if parts["version"] in (None, entry.candidate.version) and parts["extra"] in (None, entry.candidate.extra)
    ]
    if not matching:
        versions = ", ".join(dict.fromkeys(entry.candidate.version for entry in named))
        raise UnknownCandidateError(f"--why-not {name}: no such release is in the matrix (one of {versions})")
    newest = [entry for entry in matching if entry.candidate.version == matching[0].candidate.version]
    return next((entry for entry in newest if not entry.rejections), newest[0])


def _is_named(candidate: Candidate, name: str) -> bool:
    if candidate.kind is CandidateKind.CONDA:
        return name == "conda" or candidate.name.startswith(f"{name}:")
    return candidate.name == name


_MAX_EXACT = 3  # candidates; a larger set is built greedily


def resolve_fleet(machines: Mapping[str, Snapshot], matrix: Matrix, weights: Mapping[str, int] | None = None) -> Fleet:
    """Returns the smallest set of candidates that serves all, the one that most would choose, and who does not fit it.

    ``weights``: how many machines each name represents; 1 by default.
    """
    kinds: dict[Needs, int] = {}  # machines with equal needs are one kind
    kind_of = {name: kinds.setdefault(needs_of(snapshot, matrix), len(kinds)) for name, snapshot in machines.items()}
    if not kinds:  # no machine could be examined
        return Fleet((), (), matrix.revision)
    # Candidates with the extra come first, unless every machine has a toolkit.
    orders = {by_preference(needs, matrix) for needs in kinds}
    order = orders.pop() if len(orders) == 1 else by_preference(replace(next(iter(kinds)), toolkits=()), matrix)
    serves = {wheel: frozenset(kind for needs, kind in kinds.items() if fits(wheel, needs, matrix)) for wheel in order}
    servable = frozenset(kind for served in serves.values() for kind in served)

    def names_of(of_kinds: Collection[int]) -> tuple[str, ...]:
        return tuple(name for name, kind in kind_of.items() if kind in of_kinds)

    def answer(wheel: WheelCandidate, served: Collection[int]) -> FleetAnswer:
        # The requirements must support the GPUs of all these machines.
        together = [needs for needs, kind in kinds.items() if kind in served]
        gpus = tuple(dict.fromkeys(gpu for needs in together for gpu in needs.gpus))
        requirements = wheel_choice(wheel, replace(together[0], gpus=gpus), matrix).requirements
        return FleetAnswer(wheel.candidate, requirements, names_of(served))

    answers: list[FleetAnswer] = []
    left = servable
    for wheel in _smallest(order, serves, servable):
        answers.append(answer(wheel, serves[wheel] & left))
        left -= serves[wheel]
    best = {kind: next(wheel for wheel in order if kind in serves[wheel]) for kind in servable}
    choosers: Counter[WheelCandidate] = Counter()
    for name, kind in kind_of.items():
        if kind in best:
            choosers[best[kind]] += 1 if weights is None else weights[name]
    preferred = max(order, key=lambda wheel: choosers[wheel]) if choosers else None
    return Fleet(
        tuple(answers),
        names_of(frozenset(kinds.values()) - servable),
        matrix.revision,
        preferred=answer(preferred, serves[preferred]) if preferred else None,
        forcing=tuple(
            FleetForcing(names_of(forcing), rejections, alternative)
            for alternative, rejections, forcing in _forcing(preferred, kinds, best, serves, matrix)
        ),
    )


def _forcing(
    preferred: WheelCandidate | None,
    kinds: Mapping[Needs, int],
    best: Mapping[int, WheelCandidate],
    serves: Mapping[WheelCandidate, frozenset[int]],
    matrix: Matrix,
) -> Iterator[tuple[Candidate, tuple[Rejection, ...], list[int]]]:
    """Yields what serves the kinds that the preferred candidate does not, why, and the kinds with that first reason."""
    found: dict[tuple[object, ...], tuple[Candidate, tuple[Rejection, ...], list[int]]] = {}
    for needs, kind in kinds.items():
        if preferred is not None and kind in best and kind not in serves[preferred]:
            rejections, alternative = judge(preferred, needs, matrix).rejections, best[kind].candidate
            key = alternative, rejections[0].constraint, rejections[0].needed
            found.setdefault(key, (alternative, rejections, []))[2].append(kind)
    yield from found.values()


def resolve_images(machines: Mapping[str, Snapshot], matrix: Matrix) -> tuple[FleetImage, ...]:
    """Returns the smallest set of images that run on all machines on which any does."""
    kinds: dict[Needs, list[str]] = {}
    for name, snapshot in machines.items():
        kinds.setdefault(needs_of(snapshot, matrix), []).append(name)
    serves: dict[str, set[str]] = {}
    for needs, names in kinds.items():
        for entry in judge_images(needs, matrix, LineVerdicts(needs, matrix)):
            if not entry.rejections:
                serves.setdefault(entry.image.reference, set()).update(names)
    left = set[str]().union(*serves.values())
    images = []
    for reference in _smallest(
        tuple(serves), {key: frozenset(names) for key, names in serves.items()}, frozenset(left)
    ):
        images.append(FleetImage(reference, tuple(name for name in machines if name in serves[reference] & left)))
        left -= serves[reference]
    return tuple(images)


def _smallest(order: Sequence[K], serves: Mapping[K, frozenset[V]], servable: frozenset[V]) -> tuple[K, ...]:
    """Returns the smallest set of candidates that fits all machines; of several sets, the most preferred one."""
    useful: dict[frozenset[V], K] = {}
    for candidate in order:
        if serves[candidate]:
            useful.setdefault(serves[candidate], candidate)  # the preferred one of those for the same machines
    for count in range(_MAX_EXACT + 1):
        for chosen in combinations(useful.values(), count):
            if frozenset[V]().union(*(serves[candidate] for candidate in chosen)) == servable:
                return chosen
    picked: list[K] = []  # greedily: the one that fits most of the rest
    left = servable
    while left:
        picked.append(max(useful.values(), key=lambda candidate: len(serves[candidate] & left)))
        left -= serves[picked[-1]]
    return tuple(picked)
