"""Further questions to the resolver: what if, why not, and the fewest answers for several machines."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import NamedTuple

from gpuenv.matrix.alternatives import conda_candidates, judge_images
from gpuenv.matrix.assume import AssumeError, assume, refuse_unread
from gpuenv.matrix.candidates import WheelCandidate, by_preference
from gpuenv.matrix.constraints import fits
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.resolve import judge, resolve, wheel_choice
from gpuenv.matrix.tables import Matrix
from gpuenv.model.documents import AssumedMachine, BetterChoice, Fleet, FleetAnswer, WhatIf, WhyNot
from gpuenv.model.resolution import Candidate, CandidateKind, Change, Rejection
from gpuenv.model.snapshot import Snapshot

LARGEST = 1000  # rows; more than anybody reads


def what_if(snapshot: Snapshot, given: Sequence[str], matrix: Matrix) -> WhatIf:
    """The table of answers.

    Args:
        snapshot: the machine to start from.
        given: texts of the form ``KEY=VALUE,VALUE``, each a dimension of the table. A plus in a value of ``gpu`` stands
            between GPUs of one machine.
        matrix: the rows.

    Raises:
        AssumeError: for a value that cannot be understood, or a table without end.
    """
    dimensions = [tuple(_values(text)) for text in given]
    size = prod(map(len, dimensions))
    if size > LARGEST:
        raise AssumeError(f"--what-if: {size} combinations are more than the {LARGEST} of a table")
    rows = (tuple(value for values in combination for value in values) for combination in product(*dimensions))
    return WhatIf(tuple(_supposed(snapshot, row, matrix) for row in rows), matrix.revision)


def refuse_unread_values(given: Sequence[str]) -> None:
    """Refuses what no matrix would make sense of.

    Raises:
        AssumeError: at the first that cannot be understood.
    """
    for text in given:
        for values in _values(text):
            try:
                refuse_unread(values)
            except AssumeError as error:
                raise _own(error) from error


def _own(error: AssumeError) -> AssumeError:
    return AssumeError(str(error).replace("--assume", "--what-if", 1))


def _values(text: str) -> Iterator[tuple[str, ...]]:
    """One entry a value; several assumptions where it names several GPUs."""
    key, equals, values = text.partition("=")
    choices = [value.strip() for value in values.split(",")]
    if not equals or not key.strip() or not all(choices):
        raise AssumeError(f"--what-if {text}: expected KEY=VALUE,VALUE, such as driver=580,590")
    for value in dict.fromkeys(choices):
        parts = value.split("+") if key.strip() == "gpu" else [value]
        yield tuple(f"{key.strip()}={part.strip()}" for part in parts)


def _supposed(snapshot: Snapshot, given: Sequence[str], matrix: Matrix) -> AssumedMachine:
    try:
        resolution = resolve(assume(snapshot, given, matrix), matrix, wheels_only=True)
    except AssumeError as error:
        raise _own(error) from error
    wheel = resolution.wheel
    candidate = Candidate(CandidateKind.WHEEL, wheel.distribution, wheel.version, wheel.extra) if wheel else None
    # Better are lines of a higher CUDA major than the one that was chosen; all where none was.
    majors = {line.name: line.cuda_major for line in matrix.wheel_lines}
    chosen = wheel.cuda_major if wheel else 0
    better = (
        BetterChoice(entry.candidate, entry.changes)
        for entry in resolution.reachable
        if majors[entry.candidate.name] > chosen
    )
    return AssumedMachine(tuple(given), candidate, wheel.requirements if wheel else (), tuple(better))


_NAMED = re.compile(r"(?P<name>[A-Za-z][\w./-]*|\d\dx)(?:\[(?P<extra>\w+)\])?(?:(?:==?|:)(?P<version>[\w.-]+))?")


class UnknownCandidateError(ValueError):
    """A name that no candidate has; the message tells those that there are."""


class _JudgedCandidate(NamedTuple):
    candidate: Candidate
    rejections: tuple[Rejection, ...]
    changes: tuple[Change, ...] | None


def why_not(snapshot: Snapshot, name: str, matrix: Matrix) -> WhyNot:
    """What stands against a candidate.

    Args:
        snapshot: the machine.
        name: ``cupy-cuda13x``, ``13x``, ``cupy-cuda13x==14.1.0``, ``cupy-cuda13x[ctk]``, ``conda``, or an image.
        matrix: the rows.

    Raises:
        UnknownCandidateError: where no candidate has that name.
    """
    entries = _entries(snapshot, matrix)
    entry = _meant(name, entries)
    alike = [other for other in entries if other.candidate.kind is entry.candidate.kind]
    best = next((other.candidate for other in alike if not other.rejections), None)
    preferred = best if best is not None and best != entry.candidate else None
    changes = entry.changes if entry.rejections else None
    return WhyNot(entry.candidate, entry.rejections, changes, preferred, matrix.revision)


def _entries(snapshot: Snapshot, matrix: Matrix) -> list[_JudgedCandidate]:
    needs = needs_of(snapshot, matrix)
    wheels = (*by_preference(needs, matrix), *conda_candidates(matrix))
    judged = [judge(wheel, needs, matrix) for wheel in wheels]
    found = [_JudgedCandidate(entry.wheel.candidate, entry.rejections, entry.changes) for entry in judged]
    for image in judge_images(needs, matrix):
        repository, _, tag = image.image.reference.partition(":")
        found.append(_JudgedCandidate(Candidate(CandidateKind.IMAGE, repository, tag), image.rejections, None))
    return found


def _meant(name: str, entries: list[_JudgedCandidate]) -> _JudgedCandidate:
    """The first of that name that fits, else the first: they stand in the order of preference."""
    parts = _NAMED.fullmatch(name.strip())
    if parts is None:
        raise UnknownCandidateError(f"--why-not {name}: expected a line such as cupy-cuda13x, a release or an image")
    wanted = parts["name"].lower()
    full = f"cupy-cuda{wanted}" if re.fullmatch(r"\d\dx", wanted) else wanted
    named = [entry for entry in entries if _is_named(entry.candidate, full)]
    if not named:
        known = list(dict.fromkeys(entry.candidate.name for entry in entries))
        near = difflib.get_close_matches(full, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UnknownCandidateError(f"--why-not {name}: not judged{hint} (one of {', '.join(known)})")
    meant = [
        entry
        for entry in named
        if parts["version"] in (None, entry.candidate.version) and parts["extra"] in (None, entry.candidate.extra)
    ]
    if not meant:
        versions = ", ".join(dict.fromkeys(entry.candidate.version for entry in named))
        raise UnknownCandidateError(f"--why-not {name}: no such release is in the matrix (one of {versions})")
    newest = [entry for entry in meant if entry.candidate.version == meant[0].candidate.version]
    return next((entry for entry in newest if not entry.rejections), newest[0])


def _is_named(candidate: Candidate, name: str) -> bool:
    if candidate.kind is CandidateKind.CONDA:
        return name == "conda" or candidate.name.startswith(f"{name}:")
    return candidate.name == name


_EXACT = 3  # answers; a larger set is put together greedily


def resolve_fleet(machines: Mapping[str, Snapshot], matrix: Matrix) -> Fleet:
    """The fewest answers, and the machines that each of them serves."""
    needs = {name: needs_of(snapshot, matrix) for name, snapshot in machines.items()}
    # With the extra before without, unless every machine has a toolkit of its own.
    orders = {by_preference(entry, matrix) for entry in needs.values()}
    first = next(iter(needs.values()))
    order = orders.pop() if len(orders) == 1 else by_preference(first._replace(toolkits=()), matrix)
    serves = {wheel: frozenset(name for name in needs if fits(wheel, needs[name], matrix)) for wheel in order}
    servable = frozenset(name for names in serves.values() for name in names)
    answers: list[FleetAnswer] = []
    left = servable
    for wheel in _smallest(order, serves, servable):
        served = tuple(name for name in needs if name in serves[wheel] & left)
        left -= serves[wheel]
        # The requirements serve the GPUs of all these machines together.
        together = needs[served[0]]._replace(gpus=tuple(gpu for name in served for gpu in needs[name].gpus))
        answers.append(FleetAnswer(wheel.candidate, wheel_choice(wheel, together, matrix).requirements, served))
    return Fleet(tuple(answers), tuple(name for name in needs if name not in servable), matrix.revision)


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
    picked: list[WheelCandidate] = []  # more than a few: always the one that serves most of the rest
    left = servable
    while left:
        picked.append(max(useful.values(), key=lambda wheel: len(serves[wheel] & left)))
        left -= serves[picked[-1]]
    return tuple(picked)
