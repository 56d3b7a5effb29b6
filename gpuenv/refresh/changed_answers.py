"""Which machines a new matrix answers differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuenv.matrix.assume import assume
from gpuenv.matrix.grid import MACHINE, MACHINE_TEXT
from gpuenv.matrix.resolve import choose
from gpuenv.matrix.tables import Matrix
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.versions import ComputeCapability

_FREE_THREADED = (*MACHINE[:-1], "python=3.14t")


class ChangedAnswer(NamedTuple):
    """Another recommended wheel for a kind of machine with some driver branches."""

    machine: str
    branches: str
    capabilities: str
    before: str
    after: str

    @property
    def text(self) -> str:
        """One line."""
        scope = f"branches {self.branches}, capabilities {self.capabilities}"
        return f"{self.machine}, {scope}: {self.before} -> {self.after}"


class ChangedMachine(NamedTuple):
    """Another recommended wheel for a recorded machine or a machine profile."""

    machine: str
    before: str
    after: str

    @property
    def text(self) -> str:
        """One line."""
        return f"{self.machine}: {self.before} -> {self.after}"


def changed_answers(before: Matrix, after: Matrix) -> Iterator[ChangedAnswer]:
    """Yields the kinds of machines whose recommended wheel changes, with their driver branches."""
    yield from _changed_answers_for(MACHINE, MACHINE_TEXT, before, after)
    yield from _changed_answers_for(_FREE_THREADED, "the same with Python 3.14t", before, after)


def _changed_answers_for(facts: tuple[str, ...], name: str, before: Matrix, after: Matrix) -> Iterator[ChangedAnswer]:
    found: dict[tuple[str, str], dict[ComputeCapability, list[int]]] = {}
    base = assume(Snapshot(), facts, after)
    for row in after.generations:
        for capability in row.capabilities:
            machine = assume(base, (f"compute-capability={capability}",), after)
            for branch in after.driver_branches:
                complete = assume(machine, (f"driver={branch.branch}",), after)
                old, new = _answer(complete, before), _answer(complete, after)
                if old != new:
                    found.setdefault((old, new), {}).setdefault(capability, []).append(branch.branch)
    order = sorted(row.branch for row in after.driver_branches)
    for (old, new), kinds in found.items():
        for branches in dict.fromkeys(tuple(sorted(entry)) for entry in kinds.values()):
            same = sorted(kind for kind, entry in kinds.items() if tuple(sorted(entry)) == branches)
            yield ChangedAnswer(name, _ranges(branches, order), ", ".join(map(str, same)), old, new)


def _ranges(branches: Sequence[int], order: Sequence[int]) -> str:
    """``525 to 580, 620``: branches without one between them are a range."""
    runs: list[list[int]] = []
    for branch in branches:
        if runs and order.index(branch) == order.index(runs[-1][-1]) + 1:
            runs[-1].append(branch)
        else:
            runs.append([branch])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def _answer(machine: Snapshot, matrix: Matrix) -> str:
    wheel = choose(machine, matrix)
    return " ".join(wheel.requirements) if wheel else "none"


def changed_machines(machines: Mapping[str, Snapshot], before: Matrix, after: Matrix) -> Iterator[ChangedMachine]:
    """Yields the machines whose recommended wheel changes."""
    for name, machine in machines.items():
        old, new = _answer(machine, before), _answer(machine, after)
        if old != new:
            yield ChangedMachine(name, old, new)
