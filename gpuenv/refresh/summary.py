"""What a refresh changes: rows, answers for kinds of machines, and answers for the machine profiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from gpuenv.matrix.tables import Matrix, SourceKind
from gpuenv.refresh.changed_answers import ChangedAnswer, ChangedMachine
from gpuenv.refresh.row_edits import Additions


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
        yield f"! new line {line.name}: releases {', '.join(line.releases)}; not added: {line.reason}"


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
