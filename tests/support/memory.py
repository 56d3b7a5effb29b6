"""The largest resident memory of a program's own process."""

from __future__ import annotations

import subprocess
import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Starts a program from a process that is small itself: a child's peak counts what its parent had when it was started.
_SMALL = (
    "import os, sys\n"
    "pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\n"
    "sys.stderr.write('\\n%d' % os.wait4(pid, 0)[2].ru_maxrss)\n"
)


def peak_memory(
    argv: Sequence[str | Path],
    environment: Mapping[str, str],
    folder: Path | None = None,
    output: int | IO[bytes] = subprocess.DEVNULL,
) -> int:
    """Runs a program and returns its peak memory in bytes.

    Args:
        argv: the program, by its path, and its arguments.
        environment: its whole environment.
        folder: where it runs.
        output: where its standard output goes.
    """
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _SMALL, *argv],
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        check=True,
    )
    return int(result.stderr.splitlines()[-1]) * 1024
