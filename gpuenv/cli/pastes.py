"""Reads texts from files and standard input, and the machine that ``--paste`` describes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gpuenv.cli.command_errors import CommandError, announce
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import Lines, error_reason

if TYPE_CHECKING:
    from io import BufferedReader

    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.snapshot import Snapshot

_CHUNK = 1 << 19  # bytes
_LARGEST_PASTE = 16 * 1024 * 1024
_MAX_CONFLICTS = 5  # contradictions of a paste, and values of each, that are announced


def standard_input() -> BufferedReader:
    """Standard input.

    Raises:
        CommandError: when it is closed.
    """
    if sys.stdin is None:
        raise CommandError(ExitCode.USAGE, "standard input is closed", "name a file")
    return cast("BufferedReader", sys.stdin.buffer)


def read_chunks(name: str) -> Iterator[bytes]:
    """The bytes of a file, or of standard input for ``-``, in chunks.

    Raises:
        CommandError: when it cannot be read.
    """
    try:
        if name == "-":
            descriptor = standard_input().fileno()
            yield from iter(lambda: os.read(descriptor, _CHUNK), b"")
            return
        with Path(name).open("rb") as file:
            yield from iter(lambda: file.read(_CHUNK), b"")
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{name}: cannot be read: {error_reason(error)}") from error


@cache
def pasted_text(path: Path) -> str:
    """The text of a paste; standard input is read once.

    Raises:
        CommandError: when it cannot be read, or is too large.
    """
    from gpuenv.paste.reader import decoded

    data = bytearray()
    for chunk in read_chunks(str(path)):
        data += chunk
        if len(data) > _LARGEST_PASTE:
            raise CommandError(
                ExitCode.USAGE, f"{_name(path)}: too large for a paste (over {_LARGEST_PASTE >> 20} MiB)"
            )
    return decoded(bytes(data))


def pasted_machine(path: Path, assumptions: Sequence[str], matrix: Matrix) -> Snapshot:
    """The machine that a paste describes; announces the facts that neither it nor the assumptions state.

    Raises:
        CommandError: when the paste cannot be read or contains no known output.
    """
    from gpuenv.matrix.assume import assumed_keys
    from gpuenv.paste.merge import conflicts
    from gpuenv.paste.outputs import OUTPUTS
    from gpuenv.paste.partial_snapshot import gaps, to_snapshot
    from gpuenv.paste.selection import read_selection, select_environment

    environment = select_environment(pasted_text(path))
    content = read_selection(environment)
    if not content.outputs:
        outputs = ", ".join(OUTPUTS)
        command = f"gpuenv explain {shlex.quote(str(path))}"
        hint = Lines((f"supported outputs: {outputs}", f"for an error message or a log: {command}"))
        raise CommandError(ExitCode.USAGE, f"{_name(path)}: no known output found", hint)
    announce(f"from the paste: {', '.join(content.outputs)}; this machine is not probed")
    if environment.note:
        announce(environment.note)
    for conflict in conflicts(content)[:_MAX_CONFLICTS]:
        values = [
            f"{entry.value} ({entry.output}{f', line {entry.line}' if entry.line else ''})"
            for entry in conflict.values[:_MAX_CONFLICTS]
        ]
        announce(f"the paste contradicts itself on {conflict.fact}: {' and '.join(values)}; the first value is used")
    snapshot = to_snapshot(content, matrix)
    assumed = assumed_keys(assumptions)
    missing = [gap for gap in gaps(content, snapshot) if gap.key not in assumed]
    if missing:
        facts, commands = (", ".join(gap.fact for gap in missing), "; ".join(gap.ask for gap in missing))
        announce(f"the paste does not contain {facts}; ask for the output of: {commands}")
    return snapshot


def _name(path: Path) -> str:
    return "standard input" if str(path) == "-" else str(path)
