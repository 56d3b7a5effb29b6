"""Another library that computes on the GPU: where it and CuPy fail together, it is asked how it fares without CuPy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Callable, Optional

from gpuenv.smoke.payload.gpu import Skip
from gpuenv.smoke.payload.troubles import found_no_room

SECONDS = 40.0
# Files of the working folder take no part, as in the payload itself.
ELSEWHERE = "import sys\nsys.path[:] = [entry for entry in sys.path if entry]\n"
MARK = "Traceback (most recent call last):"


def together(name: str, program: str, is_shared: Callable[[], bool], work: Callable[[], Any]) -> Any:
    """What the two make of something together.

    Args:
        name: of the library.
        program: what it does by itself, in Python.
        is_shared: whether the GPU lets in a second process; else the program would fail whatever the library can do.
        work: what both do.

    Raises:
        Skip: where the library fails by itself too, which says nothing of CuPy or of the GPU: a build without code for
            this GPU, a compiler that is not there, a NumPy that is too new for it.
    """
    try:
        return work()
    except (Skip, MemoryError):
        raise  # where there is no room, the library finds none by itself either
    except Exception as error:
        if found_no_room(type(error).__name__, str(error)):
            raise
        complaint = complaint_of(program) if is_shared() else None
        if complaint is not None:
            raise Skip("%s does not work here by itself: %s" % (name, complaint)) from None
        raise


def complaint_of(program: str, seconds: float = SECONDS) -> Optional[str]:
    """What a program says that fails in a process of its own; None where it does not fail, or takes too long."""
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-B", "-c", ELSEWHERE + program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return None
    return _error(done.stderr.decode("utf-8", "replace"), done.returncode) if done.returncode else None


def _error(words: str, code: int) -> str:
    """The line with the exception: the first after the last traceback that is not indented."""
    ends = [line for line in words.rpartition(MARK)[2].splitlines() if line[:1].strip()]
    return ends[0][:300] if ends else "it ended with exit code %d" % code
