"""A child that is asked twice: to start an interpreter costs more than most of what it is asked."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

from gpuenv.probe.children import ChildGroup, ChildResult, Ending, hear_out, let_go, tell
from gpuenv.probe.listening import Listener, Process, listen

_DONE = b'gpuenv:{"done": true}'  # the last line of what it tells by itself, see protocol.py
# Seconds in which it comes to its question. A wrapper may keep what is said until the end, and a hook may read standard
# input itself: without a question both go on. One that is only slow is asked the rest in a process of its own.
_PATIENCE = 2.0
_FAREWELL = 1.0  # seconds in which a child ends that has nothing else to tell


class Talk:
    """A child that tells what it has to tell, then waits for one line of what else is wanted, tells that, and ends.

    To be closed.
    """

    def __init__(self, process: Process, started: float, deadline: float, group: ChildGroup) -> None:
        """Listens to a child that was started with three pipes.

        Args:
            process: the child.
            started: reading of ``time.monotonic`` when it was.
            deadline: reading of ``time.monotonic`` after which it is killed.
            group: the children that it shall be ended with.
        """
        group.add(process)
        self._process, self._group = process, group
        self._started, self._deadline = started, deadline
        self._listener: Listener | None = None  # it may have threads, and forks are still to be made
        self._heard = 0  # characters of its output that were told
        self._waits = False

    @property
    def waits(self) -> bool:
        """Whether it waits for what else is wanted."""
        return self._waits and self._process.poll() is None

    def first(self) -> ChildResult:
        """What it tells by itself; how it ended, where it does not come to its question soon."""
        listener = self._listener = listen(self._process)
        soon = min(self._deadline, self._started + _PATIENCE)
        if not listener.await_words(_DONE, max(0.0, soon - time.monotonic())):
            let_go(self._process)
            return hear_out(self._process, listener, self._started, self._deadline)
        self._waits = True
        out, err = listener.texts()
        self._heard = out.index(_DONE.decode()) + len(_DONE)
        duration = time.monotonic() - self._started
        return ChildResult(Ending.EXITED, 0, out[: self._heard], err, None, duration, self._started)

    def then(self, wanted: str) -> ChildResult:
        """What it tells when it is told what else is wanted, and how it ended; it is to wait for that.

        Args:
            wanted: one line, which it reads whole.
        """
        assert self._listener is not None  # noqa: S101 - for the type checker
        self._waits = False
        asked = time.monotonic()
        tell(self._process, wanted + "\n")
        result = hear_out(self._process, self._listener, asked, self._deadline)
        return replace(result, stdout=result.stdout[self._heard :])

    def close(self) -> None:
        """Nothing else is wanted of it: it is let go, and killed where it does not end by itself."""
        listener = self._listener or listen(self._process)
        with closing(listener):
            let_go(self._process)
            if self._process.poll() is None:
                hear_out(self._process, listener, self._started, time.monotonic() + _FAREWELL)
        self._group.discard(self._process)
