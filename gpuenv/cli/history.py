"""Reports of earlier runs, from a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.errors import CommandError
from gpuenv.files import read_regular
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.report.html import Earlier

_MOST = 200
_LARGEST = 16 * 1024 * 1024


def read_history(folder: Path | None) -> tuple[Earlier, ...]:
    """The last reports in JSON of a folder, the oldest first; other files are passed over.

    Raises:
        CommandError: when the folder cannot be read.
    """
    if folder is None:
        return ()
    try:
        paths = [path for path in folder.iterdir() if path.suffix == ".json" and path.is_file()]
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"--history {folder}: {error.strerror or error}") from error
    found = [entry for path in paths if (entry := _read(path)) is not None]
    return tuple(sorted(found, key=lambda entry: (entry.taken_at, entry.name))[-_MOST:])


def _read(path: Path) -> Earlier | None:
    from gpuenv.report.html import earlier

    try:
        return earlier(path.name, json.loads(read_regular(path, _LARGEST)))
    except (OSError, ValueError, RecursionError):
        return None
