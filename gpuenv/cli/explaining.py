"""What ``explain`` and ``run`` share: a text, and what is known of its machine, to an explanation."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.inputs import Subject, get_both, refuse_unread

if TYPE_CHECKING:
    from gpuenv.explain.records import Explanation
    from gpuenv.explain.scan import Scanner
    from gpuenv.explain.weigh import Verdict
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.paste.environments import Chosen
    from gpuenv.paste.records import Pasted

_HEAD = 1 << 18  # bytes in which pasted outputs are looked for


@dataclass(frozen=True, slots=True)
class Text:
    """A text that was read: what was seen in it, and its beginning, where people paste what they have."""

    scanner: Scanner
    head: bytes


def scanned(pieces: Iterable[bytes]) -> Text:
    """A text, read to its end."""
    from gpuenv.explain.scan import Scanner

    scanner, head = Scanner(), bytearray()
    for piece in pieces:
        scanner.feed(piece)
        head += piece[: _HEAD - len(head)]
    scanner.close()
    return Text(scanner, bytes(head))


def explained(text: Text, subject: Subject, matrix: Path | None) -> Explanation:
    """What the text says, with the machine that is meant; nobody is asked where the text says nothing.

    Where no machine is meant, what is pasted beside the error stands for it, then what the text states in passing;
    what the caller assumes goes before both.

    Raises:
        CommandError: when the machine's facts or the matrix cannot be read or understood.
    """
    from gpuenv.explain.answer import explanation, says_something
    from gpuenv.explain.situation import marks_of

    scanner, stated = text.scanner, text.scanner.stated.facts
    alone = subject.no_probe and not subject.assume
    meant = _meant(text.head) if subject.no_probe and says_something(scanner) else None
    pasted = _pasted(meant) if meant else None
    if meant and meant.note:
        stated = _stated(meant.text)
    if (alone and not stated and pasted is None) or not says_something(scanner):
        refuse_unread(subject, matrix)
        return explanation(scanner)
    snapshot, rows = get_both(subject, matrix)
    if subject.no_probe:
        snapshot = (
            with_stated(snapshot, stated, subject.assume, rows)
            if pasted is None
            else _told(pasted, stated, subject.assume, rows)
        )
    told = explanation(scanner, marks_of(snapshot, rows, scanner.hits), _verdict(snapshot, rows))
    return replace(told, facts=stated, notes=(meant.note,)) if meant and meant.note else told


def _meant(head: bytes) -> Chosen:
    """The part of the text that is of the environment that is meant."""
    from gpuenv.paste.environments import chosen
    from gpuenv.paste.read import decoded

    return chosen(decoded(head))


def _pasted(meant: Chosen) -> Pasted | None:
    """The outputs that stand beside an error, where there are any; the error itself is none."""
    from gpuenv.paste.environments import read_meant
    from gpuenv.paste.fields import FAILURES

    pasted = read_meant(meant).without(FAILURES)
    return None if pasted.is_empty else pasted


def _stated(text: str) -> tuple[str, ...]:
    """The facts that the lines of one environment state in passing."""
    from gpuenv.explain.stated import Stated

    stated = Stated()
    for line in text.splitlines():
        stated.look(line)
    return stated.facts


def _told(pasted: Pasted, stated: Iterable[str], assumed: Sequence[str], matrix: Matrix) -> Snapshot:
    """What the text tells of its machine, under what the caller assumes."""
    from gpuenv.matrix.assume import assume
    from gpuenv.paste.snapshot import known_keys, to_snapshot

    base = to_snapshot(pasted, matrix)
    known = known_keys(base)
    left = [fact for fact in stated if fact.partition("=")[0] not in known]
    return assume(with_stated(base, left, assumed, matrix), assumed, matrix)


def with_stated(snapshot: Snapshot, stated: Iterable[str], assumed: Iterable[str], matrix: Matrix) -> Snapshot:
    """The facts that the text states itself, where the caller assumes nothing else; one that makes no sense is left."""
    from gpuenv.matrix.assume import AssumeError, assume, assumed_keys

    told = assumed_keys(assumed)
    for text in stated:
        if text.partition("=")[0] in told:
            continue
        try:
            snapshot = assume(snapshot, (text,), matrix)
        except AssumeError:
            continue
    return snapshot


def _verdict(snapshot: Snapshot, matrix: Matrix) -> Verdict:
    from gpuenv.doctor.diagnose import diagnose
    from gpuenv.explain.answer import verdict_of
    from gpuenv.matrix.resolve import resolve
    from gpuenv.model.snapshot import SourceState

    diagnosis = diagnose(snapshot, matrix, resolve(snapshot, matrix), time.monotonic)
    probed = snapshot.source("kernel").state is not SourceState.NOT_ASKED  # a paste has other sources
    return verdict_of(diagnosis, probed=probed)
