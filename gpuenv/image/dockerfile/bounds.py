"""One bound for all that a file expands to: variables, loops, and words that a command reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST = 1 << 25  # characters; a rule may expand the same text again
_left: ContextVar[list[int] | None] = ContextVar("left", default=None)


class TooLongError(ValueError):
    """What a file expands to is too long to be judged."""

    def __init__(self) -> None:
        """The message names the limit."""
        super().__init__(f"what it expands to has more than {MOST} characters, which is too long to be judged")


@contextmanager
def bounded() -> Iterator[None]:
    """Bounds the expansions of one file, together with those of the files that it leads to."""
    if _left.get() is not None:
        yield
        return
    token = _left.set([MOST])
    try:
        yield
    finally:
        _left.reset(token)


def spend(characters: int) -> None:
    """Counts characters that an expansion is about to add.

    Raises:
        TooLongError: where they are too many, alone or with those before.
    """
    left = _left.get() or [MOST]
    left[0] -= characters
    if left[0] < 0:
        raise TooLongError
