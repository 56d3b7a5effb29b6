"""What a refreshed matrix changes: for which machines another wheel is named. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuenv.matrix.assume import assume
from gpuenv.matrix.grid import MACHINE, MACHINE_TEXT
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import choose
from gpuenv.model.snapshot import Snapshot

_FREE_THREADED = (*MACHINE[:-1], "python=3.14t")


def different_answers(before: Matrix, after: Matrix) -> Iterator[str]:
    """One text a kind of machine and change, with the driver branches that it holds for."""
    yield from _for(MACHINE, MACHINE_TEXT, before, after)
    yield from _for(_FREE_THREADED, "the same with Python 3.14t", before, after)


def _for(facts: tuple[str, ...], name: str, before: Matrix, after: Matrix) -> Iterator[str]:
    found: dict[tuple[str, str], dict[str, list[int]]] = {}
    base = assume(Snapshot(), facts, after)
    for row in after.generations:
        for capability in row.capabilities:
            machine = assume(base, (f"compute-capability={capability}",), after)
            for branch in after.driver_branches:
                whole = assume(machine, (f"driver={branch.branch}",), after)
                old, new = _answer(whole, before), _answer(whole, after)
                if old != new:
                    found.setdefault((old, new), {}).setdefault(str(capability), []).append(branch.branch)
    for (old, new), kinds in found.items():
        branches = sorted({branch for told in kinds.values() for branch in told})
        where = f"branches {branches[0]} to {branches[-1]}, capabilities {', '.join(kinds)}"
        yield f"{name}, {where}: {old} -> {new}"


def _answer(machine: Snapshot, matrix: Matrix) -> str:
    wheel = choose(machine, matrix)
    return " ".join(wheel.requirements) if wheel else "none"


def different_machines(machines: Mapping[str, Snapshot], before: Matrix, after: Matrix) -> Iterator[str]:
    """One text a machine that another wheel is named for."""
    for name, machine in machines.items():
        old, new = _answer(machine, before), _answer(machine, after)
        if old != new:
            yield f"{name}: {old} -> {new}"
