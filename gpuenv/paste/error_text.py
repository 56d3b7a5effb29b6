"""Explains an error text with the facts of a machine, which may be those that the text itself states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuenv.doctor.diagnose import diagnose
from gpuenv.explain.explainer import explanation, reports_fault, verdict_of
from gpuenv.explain.explanation_types import Explanation
from gpuenv.explain.match import Scanner
from gpuenv.explain.text_facts import TextFacts
from gpuenv.matrix.assume import AssumeError, assume, assumed_keys
from gpuenv.matrix.tables import Matrix
from gpuenv.model.snapshot import Snapshot
from gpuenv.paste.content import PasteContent
from gpuenv.paste.fields import FAILURES
from gpuenv.paste.partial_snapshot import known_keys, to_snapshot
from gpuenv.paste.reader import decoded
from gpuenv.paste.selection import read_selection, select_environment

HEAD = 1 << 18  # bytes that are searched for pasted outputs


class ScannedText(NamedTuple):
    """A scanned text, and its beginning, where people paste tool outputs."""

    scanner: Scanner
    head: bytes


class StatedMachine(NamedTuple):
    """The machine that a text states.

    Attributes:
        content: the pasted outputs.
        facts: facts in its other lines, as ``--assume`` takes them.
        note: which of several environments is used; None if there is only one.
    """

    content: PasteContent
    facts: tuple[str, ...]
    note: str | None


def scan_text(chunks: Iterable[bytes]) -> ScannedText:
    """Scans a text, in chunks of at most a MiB, to its end."""
    scanner, head = Scanner(), bytearray()
    for chunk in chunks:
        scanner.feed(chunk)
        head += chunk[: HEAD - len(head)]
    scanner.close()
    return ScannedText(scanner, bytes(head))


def stated_machine(text: ScannedText) -> StatedMachine:
    """The machine that the text states."""
    selection = select_environment(decoded(text.head))
    content = read_selection(selection).without(FAILURES)  # the error itself is not a tool output
    if not selection.note:
        return StatedMachine(content, text.scanner.stated.facts, None)
    lines = TextFacts()
    for line in selection.text.splitlines():
        lines.look(line)
    return StatedMachine(content, lines.facts, selection.note)


def explain_text(
    text: ScannedText,
    get_machine: Callable[[], tuple[Snapshot, Matrix]],
    clock: Callable[[], float],
    *,
    is_of_text: bool,
    assumed: Sequence[str] = (),
    name: str | None = None,
) -> Explanation:
    """Explains a text with the facts of a machine; a text without any known message needs no machine.

    Args:
        text: the scanned text.
        get_machine: returns the machine, with the assumptions applied, and the matrix; called only if facts can decide.
        clock: the time in seconds.
        is_of_text: whether the machine is the one that the text states: its pasted outputs, then its other facts;
            assumptions override both.
        assumed: the assumptions, as ``--assume`` takes them.
        name: the file of the text, which the commands for a pasted machine name.
    """
    scanner = text.scanner
    if not reports_fault(scanner):
        return explanation(scanner)
    stated = stated_machine(text) if is_of_text else None
    if stated is None:
        snapshot, matrix = get_machine()
    elif stated.content.is_empty and not stated.facts and not assumed:
        return explanation(scanner)
    else:
        base, matrix = get_machine()
        snapshot = _with_facts(base, stated, assumed, matrix)
    is_pasted = stated is not None and not stated.content.is_empty
    diagnosis = diagnose(snapshot, matrix, clock)
    verdict = verdict_of(diagnosis, snapshot, pasted=is_pasted)
    found = explanation(scanner, verdict, paste=name if is_pasted else None)
    if stated is None or stated.note is None:
        return found
    return replace(found, facts=stated.facts, notes=(*found.notes, stated.note))


def _with_facts(base: Snapshot, stated: StatedMachine, assumed: Sequence[str], matrix: Matrix) -> Snapshot:
    """The pasted machine, else ``base``, completed by the other facts of the text; assumptions override both."""
    if stated.content.is_empty:
        return with_stated(base, stated.facts, assumed, matrix)
    snapshot = to_snapshot(stated.content, matrix)
    keys = known_keys(snapshot)
    more = [fact for fact in stated.facts if fact.partition("=")[0] not in keys]
    return assume(with_stated(snapshot, more, assumed, matrix), assumed, matrix)


def with_stated(snapshot: Snapshot, stated: Iterable[str], assumed: Iterable[str], matrix: Matrix) -> Snapshot:
    """The snapshot with the facts that a text states; assumed ones and invalid ones are skipped."""
    keys = assumed_keys(assumed)
    for text in stated:
        if text.partition("=")[0] in keys:
            continue
        try:
            snapshot = assume(snapshot, (text,), matrix)
        except AssumeError:
            continue
    return snapshot
