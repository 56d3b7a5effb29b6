"""The kernel's messages from now on, where this user may read them."""

from __future__ import annotations

import contextlib
import os

_LONGEST = 8192  # bytes of one record, as the kernel gives it
_MOST = 100_000  # records: a flood is not read for ever


class KernelLog:
    """Remembers where the log ends now; ``lines`` gives what has come since."""

    def __init__(self, path: str = "/dev/kmsg") -> None:
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def lines(self) -> tuple[str, ...] | None:
        """The messages since; None where the log may not be read."""
        if self._descriptor is None:
            return None
        found: list[str] = []
        try:
            while len(found) < _MOST and (record := self._next()):
                found.append(record)
        except BlockingIOError:
            pass  # the end of the log
        except OSError:
            return None
        return tuple(found)

    def _next(self) -> str:
        try:
            record = os.read(self._descriptor or 0, _LONGEST)
        except BrokenPipeError:
            return "(records were lost)"  # overwritten before they were read; the next read goes on after them
        return record.decode("utf-8", "replace")

    def close(self) -> None:
        """Lets go of the log."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
