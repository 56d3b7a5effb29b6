"""Makes files and folders outlive a power cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from gpuenv.probe.children import Ending, run_child

_LONGEST = 600.0  # seconds; a slow disk with gigabytes to write


def write_out(folder: Path, paths: Iterable[Path]) -> None:
    """Writes out what the system still holds for some files and folders on the file system of a folder.

    One call for the whole file system (sync(1) of coreutils, ``--file-system``) is a hundred times faster than one for
    each of thousands of files, which is what is done where there is no such program.

    Raises:
        OSError: when the disk cannot take them.
    """
    program = shutil.which("sync")
    if program is not None:
        command = [program, "-f", str(folder)]
        result = run_child(command, {"LC_ALL": "C"}, time.monotonic() + _LONGEST)
        if result.ending is Ending.EXITED and result.exit_code == 0:
            return
    for path in paths:
        with contextlib.suppress(PermissionError, FileNotFoundError):
            _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
