"""The answers for a machine under several suppositions, all combined. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from gpuenv.matrix.assume import AssumeError, assume
from gpuenv.matrix.assume_early import refuse_unread
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.answers import Better, Supposed, WhatIf
from gpuenv.model.resolution import Candidate, CandidateKind, Resolution
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
    size = 1
    for values in dimensions:
        size *= len(values)
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
    told = [value.strip() for value in values.split(",")]
    if not equals or not key.strip() or not all(told):
        raise AssumeError(f"--what-if {text}: expected KEY=VALUE,VALUE, such as driver=580,590")
    for value in dict.fromkeys(told):
        parts = value.split("+") if key.strip() == "gpu" else [value]
        yield tuple(f"{key.strip()}={part.strip()}" for part in parts)


def _supposed(snapshot: Snapshot, given: Sequence[str], matrix: Matrix) -> Supposed:
    try:
        resolution = resolve(assume(snapshot, given, matrix), matrix, wheels_only=True)
    except AssumeError as error:
        raise _own(error) from error
    wheel = resolution.wheel
    candidate = Candidate(CandidateKind.WHEEL, wheel.distribution, wheel.version, wheel.extra) if wheel else None
    return Supposed(tuple(given), candidate, wheel.requirements if wheel else (), tuple(_better(resolution, matrix)))


def _better(resolution: Resolution, matrix: Matrix) -> Iterator[Better]:
    """Lines of a higher CUDA major than the one that was chosen; all where none was."""
    majors = {line.name: line.cuda_major for line in matrix.wheel_lines}
    chosen = resolution.wheel.cuda_major if resolution.wheel else 0
    for entry in resolution.reachable:
        if majors[entry.candidate.name] > chosen:
            yield Better(entry.candidate, entry.changes)
