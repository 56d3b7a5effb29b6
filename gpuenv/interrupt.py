"""Ctrl-C and a polite request to end: what they raise, and when. Imported before the first child is started."""

from __future__ import annotations

import signal

TYPE_CHECKING = False  # importing typing takes as long as starting a child
if TYPE_CHECKING:
    from types import FrameType

_AGAIN = getattr(signal, "SIGALRM", None)  # Windows has none, nor the next
_HANG_UP = getattr(signal, "SIGHUP", None)  # the terminal is closed
# Whatever may raise KeyboardInterrupt in this program: to be held back where a child is started.
INTERRUPTIONS = tuple(number for number in (signal.SIGINT, signal.SIGTERM, _HANG_UP, _AGAIN) if number is not None)
_MOMENT, _MOST_MOMENTS = 0.002, 500  # seconds; how often an interruption is put off
_put_off: list[int] = []
_raised: list[int] = []


def install_signal_handlers() -> None:
    """Treats a polite request to end like Ctrl-C, so that the children are ended too; what is ignored stays so."""
    signal.signal(signal.SIGTERM, interrupt)
    if _HANG_UP is not None and signal.getsignal(_HANG_UP) is signal.SIG_DFL:  # not under nohup
        signal.signal(_HANG_UP, interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt, but not amid an import: it is asked again in a moment.

    An import that is broken off at the wrong place keeps the lock of all imports, and every thread waits for that until
    the end of days (seen with CPython 3.11).
    """
    if _AGAIN is not None and len(_put_off) < _MOST_MOMENTS and _is_importing(frame):
        _put_off.append(number)
        signal.signal(_AGAIN, interrupt)
        signal.setitimer(signal.ITIMER_REAL, _MOMENT)
        return
    _raised.append(number)
    raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether that was raised, whatever others have made of it: Typer 0.28 makes it the exit code 130, silently."""
    return bool(_raised)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
