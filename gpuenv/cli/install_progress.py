"""Messages about the phases of an install that take long, on a terminal or not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gpuenv.cli.command_errors import progress
from gpuenv.install.plan import Clock

_TEXTS = {  # by the name of the phase; a phase without a text waits for the user, or announces itself
    "plan": "querying the package index",
    "download and unpack": "downloading and unpacking",
    "check of files": "checking the new files",
    "imports before": "importing the frameworks that work now",
    "journal": "recording the change",
    "swap": "moving the files",
    "sync": "writing to the disk",
    "proof": "verifying the install",
    "put back": "restoring the former state",
    "tidying": "deleting what is no longer needed",
}
_FIRST, _INTERVAL = 2.0, 10.0  # seconds from the start of a phase until the first message, and between messages
_STEP = 0.25  # seconds


@contextmanager
def announcing_phases(clock: Clock) -> Iterator[None]:
    """Announces every phase that takes longer than two seconds, and again every ten seconds."""
    ended = threading.Event()
    thread = threading.Thread(target=_announce_phases, args=(clock, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _announce_phases(clock: Clock, ended: threading.Event) -> None:
    since, due = clock.since, _FIRST
    while not ended.wait(_STEP):
        if clock.since != since:
            since, due = clock.since, _FIRST
        passed = time.monotonic() - since
        if passed >= due and clock.part in _TEXTS:
            progress(f"{_TEXTS[clock.part]}: {passed:.0f} s so far")
            due = passed + _INTERVAL
