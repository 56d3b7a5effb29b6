"""The kernel's messages from now on, where this user may read them."""

from __future__ import annotations

import contextlib
import os

from gpuenv.probe.scripts.kernel_buffer import records


class KernelLog:
    """Remembers where the log ends now; ``lines`` gives what has come since.

    In a container there may be a pipe or a terminal in its place: neither has an end to start from, and what is read
    from them is taken from somebody else.
    """

    def __init__(self, path: str = "/dev/kmsg") -> None:
        """Nothing is read where the log may not be, or is none."""
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            try:
                os.lseek(self._descriptor, 0, os.SEEK_END)
            except OSError:
                self.close()

    def lines(self) -> tuple[str, ...] | None:
        """The messages since; None where the log may not be read."""
        if self._descriptor is None:
            return None
        try:
            return tuple(record.decode("utf-8", "replace") for record in records(self._descriptor))
        except OSError:
            return None

    def close(self) -> None:
        """Lets go of the log."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
