"""An interruption while a child starts, after which neither the interruption nor the child is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from gpuenv.probe.children import ChildGroup, deferred_interruptions, run_child

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def raising_handlers() -> Iterator[None]:
    """Both signals raise, as in the program; the former handlers are restored afterwards."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    former = [signal.signal(number, signal.default_int_handler) for number in numbers]
    yield
    for number, handler in zip(numbers, former, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_deferred_interruption_arrives_after_the_block(number: int) -> None:
    reached = []

    def interrupted() -> None:
        with deferred_interruptions():
            os.kill(os.getpid(), number)
            reached.append(number)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == [number]
    assert signal.getsignal(number) is signal.default_int_handler


def test_a_failure_in_the_block_leaves_the_handlers_as_they_were() -> None:
    with pytest.raises(FileNotFoundError), deferred_interruptions():
        raise FileNotFoundError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_ignored_and_default_signals_are_unchanged(handler: signal.Handlers) -> None:
    signal.signal(signal.SIGTERM, handler)
    with deferred_interruptions():
        assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler


def test_other_threads_do_not_change_signal_handlers() -> None:
    handlers = []

    def record_handler() -> None:
        with deferred_interruptions():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=record_handler)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]


def test_a_child_whose_start_is_interrupted_is_killed_with_its_group() -> None:
    group, started = ChildGroup(), []

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        started.append(process)
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    with pytest.raises(KeyboardInterrupt):
        group.start(start)
    group.close()
    assert started[0].wait(10) == -signal.SIGKILL


def test_a_child_inherits_ignored_signals() -> None:
    """As under ``nohup``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    result = run_child([sys.executable, "-c", code], dict(os.environ), deadline=float("inf"))
    assert result.stdout == "True\n"
