"""``--paste``: what somebody pasted into a bug report, in place of this machine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.errors import CommandError, announce
from gpuenv.cli.inputs import Subject
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.paste.records import Conflict

_LARGEST = 16 * 1024 * 1024
_SHOWN = 5


def pasted_machine(subject: Subject, matrix: Matrix) -> Snapshot:
    """The machine that a paste tells of; this one is not asked. What it leaves open is said on standard error.

    Raises:
        CommandError: when it cannot be read, when it has no output that is known, or beside another machine.
    """
    from gpuenv.paste.environments import chosen, read_meant
    from gpuenv.paste.forms import OUTPUTS
    from gpuenv.paste.gaps import gaps
    from gpuenv.paste.merge import conflicts
    from gpuenv.paste.snapshot import to_snapshot

    path = subject.paste
    if path is None or subject.snapshot is not None or subject.no_probe or subject.python is not None:
        raise CommandError(ExitCode.USAGE, "--paste stands alone: without --snapshot, --no-probe and --python")
    meant = chosen(_text(path))
    pasted = read_meant(meant)
    if not pasted.forms:
        read = ", ".join(OUTPUTS)
        hint = f"read are: {read}\nan error message or a log is for: gpuenv explain {shlex.quote(str(path))}"
        raise CommandError(ExitCode.USAGE, f"{_name(path)}: no output that is known is in it", hint)
    announce(f"from the paste: {', '.join(pasted.forms)}; this machine is not asked")
    if meant.note:
        announce(meant.note)
    for conflict in conflicts(pasted)[:_SHOWN]:
        announce(_contradiction(conflict))
    snapshot = to_snapshot(pasted, matrix)
    told = _assumed_keys(subject)
    for gap in gaps(pasted, snapshot):
        if gap.key not in told:
            announce(f"the paste does not say {gap.fact} ({gap.why}); the output of this says it: {gap.ask}")
    return snapshot


def _assumed_keys(subject: Subject) -> set[str]:
    from gpuenv.matrix.assume import assumed_keys

    return assumed_keys(subject.assume)


def _contradiction(conflict: Conflict) -> str:
    told = [f"{entry.value} ({_place(entry.form, entry.line)})" for entry in conflict.said[:_SHOWN]]
    return f"the paste contradicts itself on {conflict.fact}: {' and '.join(told)}; the first one counts"


def _place(form: str, line: int) -> str:
    return f"{form}, line {line}" if line else form


def _name(path: Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _text(path: Path) -> str:
    from gpuenv.paste.read import decoded

    try:
        if str(path) == "-":
            if sys.stdin is None:
                raise CommandError(ExitCode.USAGE, "standard input is closed", "give a file")
            data = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with path.open("rb") as file:
                data = file.read(_LARGEST + 1)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {error.strerror or error}") from error
    if len(data) > _LARGEST:
        raise CommandError(ExitCode.USAGE, f"{_name(path)}: larger than any paste")
    return decoded(data)
