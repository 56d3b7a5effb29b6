"""Makes files and folders outlive a power cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from gpuenv.probe.children import ChildGroup, Ending, run_child

_LONGEST = 600.0  # seconds; a slow disk with gigabytes to write


class Writing:
    """A writing-out that is under way while something else is done; nothing waits for it where that fails."""

    def __init__(self, folder: Path, paths: Iterable[Path]) -> None:
        """Begins; what ``write_out`` says of the arguments holds."""
        self._group = ChildGroup()
        self._error: OSError | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._write, args=(folder, paths), daemon=True)
        self._thread.start()

    def _write(self, folder: Path, paths: Iterable[Path]) -> None:
        try:
            write_out(folder, takewhile(lambda _: not self._stopped, paths), self._group)
        except OSError as error:
            self._error = error

    def finish(self) -> None:
        """Waits until all of it is on the disk.

        Raises:
            OSError: when the disk cannot take it.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Ends it, whatever is written by then."""
        self._stopped = True
        self._group.close()


def everything_in(folder: Path) -> Iterator[Path]:
    """A folder with all that it holds."""
    for place, _, names in os.walk(folder):
        yield Path(place)
        yield from (Path(place, name) for name in names)


def write_out(folder: Path, paths: Iterable[Path], group: ChildGroup | None = None) -> None:
    """Writes out what the system still holds for some files and folders on the file system of a folder.

    One call for the whole file system (sync(1) of coreutils, ``--file-system``) is a hundred times faster than one for
    each of thousands of files, which is what is done where there is no such program.

    Args:
        folder: any on that file system.
        paths: the files and folders.
        group: the children that are ended when nobody waits for them any longer.

    Raises:
        OSError: when the disk cannot take them.
    """
    program = shutil.which("sync")
    if program is not None:
        command = [program, "-f", str(folder)]
        result = run_child(command, {"LC_ALL": "C"}, time.monotonic() + _LONGEST, group)
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
