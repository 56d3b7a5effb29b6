"""Which machines a new matrix answers differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import choose
from gpuenv.matrix.row_lookup import MACHINE, MACHINE_TEXT
from gpuenv.matrix.tables import Matrix
from gpuenv.model.snapshot import Snapshot

_FREE_THREADED = (*MACHINE[:-1], "python=3.14t")


def changed_answers(before: Matrix, after: Matrix) -> Iterator[str]:
    """Yields one text per kind of machine and change, with its driver branches."""
    yield from _changed_answers_for(MACHINE, MACHINE_TEXT, before, after)
    yield from _changed_answers_for(_FREE_THREADED, "the same with Python 3.14t", before, after)


def _changed_answers_for(facts: tuple[str, ...], name: str, before: Matrix, after: Matrix) -> Iterator[str]:
    found: dict[tuple[str, str], dict[str, list[int]]] = {}
    base = assume(Snapshot(), facts, after)
    for row in after.generations:
        for capability in row.capabilities:
            machine = assume(base, (f"compute-capability={capability}",), after)
            for branch in after.driver_branches:
                complete = assume(machine, (f"driver={branch.branch}",), after)
                old, new = _answer(complete, before), _answer(complete, after)
                if old != new:
                    found.setdefault((old, new), {}).setdefault(str(capability), []).append(branch.branch)
    for (old, new), kinds in found.items():
        branches = sorted({branch for of_kind in kinds.values() for branch in of_kind})
        scope = f"branches {branches[0]} to {branches[-1]}, capabilities {', '.join(kinds)}"
        yield f"{name}, {scope}: {old} -> {new}"


def _answer(machine: Snapshot, matrix: Matrix) -> str:
    wheel = choose(machine, matrix)
    return " ".join(wheel.requirements) if wheel else "none"


def changed_machines(machines: Mapping[str, Snapshot], before: Matrix, after: Matrix) -> Iterator[str]:
    """Yields one text per machine whose recommended wheel changes."""
    for name, machine in machines.items():
        old, new = _answer(machine, before), _answer(machine, after)
        if old != new:
            yield f"{name}: {old} -> {new}"
