"""Runs a function with a deadline: a name server or a peer that trickles may hold a thread for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Work(threading.Thread, Generic[T]):
    """A daemon thread, abandoned if it does not end in time."""

    def __init__(self, function: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self.results: list[T] = []
        self.errors: list[BaseException] = []

    def run(self) -> None:
        """Keeps the result, or what was raised, for the waiting thread."""
        try:
            self.results.append(self._function())
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
            self.errors.append(error)


def within(seconds: float, function: Callable[[], T]) -> T:
    """The result of the function, within a deadline.

    Raises:
        TimeoutError: where it has not ended in time; it is left to itself.
    """
    work = _Work(function)
    work.start()
    work.join(seconds)
    if work.errors:
        raise work.errors[0]
    if not work.results:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return work.results[0]
