"""Files that are read whole, within bounds; and a recorded machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv import files
from gpuenv.cli.errors import CommandError
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.numbers import whole_number
from gpuenv.model.unread import reason_of, text_of

if TYPE_CHECKING:
    from gpuenv.model.codec import DecodeError
    from gpuenv.model.snapshot import Snapshot

_LARGEST_SNAPSHOT = 64 * 1024 * 1024


def read_at_most(path: Path, limit: int, kind: str) -> str:
    """The text of a file: of a device or a pipe too, which tell no size beforehand.

    Raises:
        CommandError: for more than ``limit`` bytes.
        OSError: when it cannot be read.
        UnicodeDecodeError: when it is no text.
    """
    try:
        raw = files.read_at_most(path, limit)
    except files.TooLargeError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: larger than any {kind}") from error
    return text_of(raw)


def _in_usual_words(snapshot: Snapshot) -> Snapshot:
    """A Snapshot that was written by hand may spell an operating system as other programs do."""
    from dataclasses import replace

    from gpuenv.model.host import operating_system

    told = snapshot.host.os
    if told.value is None:
        return snapshot
    return replace(snapshot, host=replace(snapshot.host, os=replace(told, value=operating_system(told.value))))


def read_snapshot(path: Path) -> Snapshot:
    """A recorded machine: a Snapshot, or a report that contains one.

    Raises:
        CommandError: with file, line and what was expected.
    """
    import json

    from gpuenv.model.codec import DecodeError, decode
    from gpuenv.model.snapshot import SCHEMA, Snapshot

    try:
        text = read_at_most(path, _LARGEST_SNAPSHOT, "snapshot")
        data = json.loads(text)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {reason_of(error)}") from error
    except json.JSONDecodeError as error:
        raise CommandError(
            ExitCode.USAGE, f"{path}: line {error.lineno}: {error.msg}; expected a snapshot in JSON"
        ) from error
    except (ValueError, RecursionError) as error:  # no text, numbers beyond all measure, nesting without end
        raise CommandError(ExitCode.USAGE, f"{path}: not a snapshot in JSON: {reason_of(error)}") from error
    within = ""
    if isinstance(data, dict) and isinstance(data.get("snapshot"), dict):
        data, within = data["snapshot"], "snapshot"
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise CommandError(
            ExitCode.USAGE,
            f"{path}: expected an object with schema {SCHEMA}, found {found!r}",
            "bring gpuenv up to date: a newer one wrote this" if _is_newer(found, SCHEMA) else None,
        )
    try:
        return _in_usual_words(decode(Snapshot, data))
    except DecodeError as error:
        raise not_of_its_form(path, text, error, within) from error


def not_of_its_form(path: Path, text: str, error: DecodeError, within: str = "") -> CommandError:
    """What is said to a value that is not of its kind: file, line, path and what was expected.

    Args:
        path: the file.
        text: what is in it.
        error: the fault.
        within: the key below which the record stands.
    """
    from gpuenv.model.json_lines import line_of

    line = line_of(text, ".".join(filter(None, (within, error.path))))
    return CommandError(ExitCode.USAGE, f"{path}: line {line}: {error}" if line else f"{path}: {error}")


def _is_newer(found: object, schema: str) -> bool:
    """Whether it is the same kind of document, in a major version that is not known yet."""
    kind, _, major = schema.partition("/")
    told = str(found).partition("/")
    return told[0] == kind and (whole_number(told[2]) or 0) > int(major)
