"""Ctrl-C and a polite request to end, held back while a child is started: nobody else knows of it yet."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from gpuenv.interrupt import INTERRUPTIONS

_Handler = Callable[[int, Any], Any]


@contextlib.contextmanager
def interruptions_held_back() -> Iterator[None]:
    """What interrupts the main thread is handed on after the block; elsewhere nothing does, and nothing changes.

    Signals are not blocked, since a child would inherit that; one that is ignored stays so, for a child to inherit it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    former: dict[int, _Handler] = {number: handler for number in INTERRUPTIONS if (handler := _handler(number))}
    try:
        for number in former:
            signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        for number in came:
            former[number](number, None)


def _handler(number: signal.Signals) -> _Handler | None:
    """What this program itself does on a signal; None where the system does something, or nothing."""
    handler = signal.getsignal(number)
    return handler if callable(handler) and not isinstance(handler, signal.Handlers) else None
