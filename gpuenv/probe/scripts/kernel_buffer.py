"""The records of the kernel's own log, /dev/kmsg: the one place that reads them.

Linux, Documentation/ABI/testing/dev-kmsg: one read gives one record; a read behind the newest would wait, and one of a
record that was overwritten meanwhile fails and goes on behind it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

LONGEST = 8192  # bytes; one record is no longer
_MOST = 100_000  # a flood is not read for ever
LOST = b"(records were lost)"


def records(descriptor: int) -> Iterator[bytes]:
    """Every record from here to the newest one; ``LOST`` stands where some were overwritten before they were read."""
    for _ in range(_MOST):
        try:
            record = os.read(descriptor, LONGEST)
        except BlockingIOError:  # that was the newest
            return
        except BrokenPipeError:
            record = LOST
        if not record:
            return
        yield record
