"""Signal handlers for SIGINT, SIGTERM and SIGHUP, which raise KeyboardInterrupt. Imported before any child starts."""

from __future__ import annotations

import signal

TYPE_CHECKING = False  # importing typing takes as long as starting a child
if TYPE_CHECKING:
    from types import FrameType

_RETRY = getattr(signal, "SIGALRM", None)  # neither this nor SIGHUP exists on Windows
_HANG_UP = getattr(signal, "SIGHUP", None)  # the terminal was closed
# Every signal that may raise KeyboardInterrupt here: blocked while a child is started.
INTERRUPTIONS = tuple(number for number in (signal.SIGINT, signal.SIGTERM, _HANG_UP, _RETRY) if number is not None)
_DELAY, _MAX_DELAYS = 0.002, 500  # seconds; how often an interrupt is delayed
_delayed: list[int] = []
_raised: list[int] = []


def install_signal_handlers() -> None:
    """Handles SIGTERM and SIGHUP like Ctrl-C, so that children are ended too; ignored signals stay ignored."""
    signal.signal(signal.SIGTERM, interrupt)
    if _HANG_UP is not None and signal.getsignal(_HANG_UP) is signal.SIG_DFL:  # not under nohup
        signal.signal(_HANG_UP, interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt, delayed while a module is being imported.

    An import that is interrupted at the wrong point keeps the import lock, and every other thread waits for it forever
    (seen with CPython 3.11).
    """
    if _RETRY is not None and len(_delayed) < _MAX_DELAYS and _is_importing(frame):
        _delayed.append(number)
        signal.signal(_RETRY, interrupt)
        signal.setitimer(signal.ITIMER_REAL, _DELAY)
        return
    _raised.append(number)
    raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether KeyboardInterrupt was raised; Typer 0.28 swallows it and returns the exit code 130."""
    return bool(_raised)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
