"""Which machines a new matrix answers differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import choose
from gpuenv.matrix.row_lookup import MACHINE, MACHINE_TEXT
from gpuenv.matrix.tables import Matrix
from gpuenv.model.snapshot import Snapshot

_FREE_THREADED = (*MACHINE[:-1], "python=3.14t")


class ChangedAnswer(NamedTuple):
    """Another recommended wheel for a kind of machine, on a range of driver branches."""

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
        yield ChangedAnswer(name, f"{branches[0]} to {branches[-1]}", ", ".join(kinds), old, new)


def _answer(machine: Snapshot, matrix: Matrix) -> str:
    wheel = choose(machine, matrix)
    return " ".join(wheel.requirements) if wheel else "none"


def changed_machines(machines: Mapping[str, Snapshot], before: Matrix, after: Matrix) -> Iterator[ChangedMachine]:
    """Yields the machines whose recommended wheel changes."""
    for name, machine in machines.items():
        old, new = _answer(machine, before), _answer(machine, after)
        if old != new:
            yield ChangedMachine(name, old, new)
