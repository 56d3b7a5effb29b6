"""What a refresh changes: rows, answers for kinds of machines, and answers for the machine profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from gpuenv.matrix.assume import assume
from gpuenv.matrix.grid import MACHINE, MACHINE_TEXT
from gpuenv.matrix.resolve import choose
from gpuenv.matrix.tables import Matrix, SourceKind
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.versions import ComputeCapability
from gpuenv.refresh.row_edits import Additions

_FREE_THREADED = (*MACHINE[:-1], "python=3.14t")
_NOT_ADDED = "which CUDA or ROCm versions and drivers it runs with is documented, not measured; add the line by hand"


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a refresh.

    Attributes:
        matrix: the file that was read.
        revision: of that file.
        changes: one line per difference between the package index and the matrix.
        outdated: the documents that a person has to read again.
        undocumented: the CUDA minor versions without a documented driver.
        outcome: what was written; null if there is nothing to write.
    """

    matrix: str
    revision: str
    changes: tuple[str, ...]
    answers: tuple[ChangedAnswer, ...] = ()
    machines: tuple[ChangedMachine, ...] = ()
    outdated: tuple[str, ...] = ()
    undocumented: tuple[str, ...] = ()
    outcome: str | None = None

    @property
    def text(self) -> Iterator[str]:
        """Lines of text."""
        if self.changes:
            yield from self.changes
        else:
            yield self._up_to_date
        if self.outcome:
            yield from _listed("Kinds of machines", "kind of machine", (row.text for row in self.answers))
            yield from _listed("Machine profiles", "machine profile", (row.text for row in self.machines))
        yield from self._documents
        if self.outcome:
            yield self.outcome

    @property
    def markdown(self) -> Iterator[str]:
        """Lines of Markdown, such as the text of a pull request."""
        yield from ("## New on the package index", "")
        if self.changes:
            yield from ("```diff", *self.changes, "```")
        else:
            yield self._up_to_date
        if self.outcome:
            yield from ("", "## Kinds of machines that now resolve differently", "")
            yield from _table(
                ("kind of machine", "driver branches", "capabilities", "before", "after"),
                ((*row[:3], f"`{row.before}`", f"`{row.after}`") for row in self.answers),
            )
            yield from ("", "## Machine profiles that now resolve differently", "")
            yield from _table(
                ("machine profile", "before", "after"),
                ((row.machine, f"`{row.before}`", f"`{row.after}`") for row in self.machines),
            )
        if documents := list(self._documents):
            yield from ("", "## Documents", "", "```text", *documents, "```")
        if self.outcome:
            yield from ("", self.outcome)

    @property
    def _up_to_date(self) -> str:
        return f"{self.matrix}: revision {self.revision} is up to date"

    @property
    def _documents(self) -> Iterator[str]:
        yield from self.outdated
        if self.undocumented:
            yield f"CUDA {', '.join(self.undocumented)}: no document names the driver released with it."


def _listed(kinds: str, kind: str, lines: Iterator[str]) -> Iterator[str]:
    found = [f"  {line}" for line in lines]
    yield f"{kinds} that now resolve differently:" if found else f"No {kind} resolves differently."
    yield from found


def _table(heading: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    lines = [_table_row(row) for row in rows]
    if not lines:
        yield "None."
        return
    yield _table_row(heading)
    yield _table_row(("---",) * len(heading))
    yield from lines


def _table_row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def change_lines(additions: Additions) -> Iterator[str]:
    """Yields one line per change, as in a diff: ``+`` new, ``-`` withdrawn, ``!`` not added."""
    yield from (f"+ {row.name}: {row.source['file']} (sha256 {row.source['sha256'][:12]})" for row in additions.rows)
    yield from (f"+ CUDA {cuda}: the wheels of the toolkit are available" for cuda in additions.toolkits)
    yield from (f"- {line} {version}: yanked: {reason}" for line, version, reason in additions.yanked)
    yield from (f"+ {line} {version}: no longer yanked" for line, version in additions.restored)
    for line in additions.lines:
        yield f"! new line {line.name}: releases {', '.join(line.releases)}; not added: {_NOT_ADDED}"


def outdated_lines(matrix: Matrix, today: str, most_days: int) -> Iterator[str]:
    """Lists outdated documents behind rows: these are not refreshed, so a person has to read them again."""
    now = date.fromisoformat(today)
    old = [
        f"  {name}: {source.citation} (read {source.seen})"
        for name, source in matrix.sources.items()
        if source.kind is SourceKind.DOCUMENT and (now - date.fromisoformat(source.seen)).days > most_days
    ]
    if old:
        yield f"Documents that were read more than {most_days} days ago; read them again:"
        yield from old


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
