"""A child leaves no grandchild, zombie or pipe behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, cast

import pytest

from gpuenv.probe.children import ChildGroup, Ending, run_child
from tests.probe.child_programs import DETACHED, ENVIRONMENT, KILL_MARGIN, LONG, SHORT, has_ended, python, run
from tests.support.processes import is_running


def test_a_grandchild_that_holds_the_pipe_is_killed() -> None:
    child = run(["sh", "-c", "sleep 60 & echo $!"])
    assert (child.result.ending, child.result.exit_code) == (Ending.EXITED, 0)
    assert child.elapsed < 2 * KILL_MARGIN
    assert has_ended(int(child.words[0]))


def test_the_grandchildren_of_a_hung_child_are_killed() -> None:
    child = run(["sh", "-c", "sleep 60 & echo $!; wait"], SHORT)
    assert child.result.ending is Ending.TIMED_OUT
    assert child.elapsed < SHORT + KILL_MARGIN
    assert has_ended(int(child.words[0]))


@pytest.mark.filterwarnings(
    "ignore:unclosed file:ResourceWarning"
)  # test_no_pipe_is_left_to_the_garbage_collector covers it
def test_a_grandchild_in_its_own_session_does_not_block() -> None:
    child = python(DETACHED)
    os.kill(int(child.words[0]), signal.SIGKILL)
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(LONG)
    gc.collect()
    assert (child.result.ending, child.result.exit_code) == (Ending.EXITED, 0)
    assert child.elapsed < 2 * KILL_MARGIN


def test_a_crash_is_reported_even_if_a_grandchild_holds_the_pipe() -> None:
    child = run(["sh", "-c", "sleep 60 & kill -SEGV $$"])
    assert (child.result.ending, child.result.signal_name) == (Ending.CRASHED, "SIGSEGV")
    assert child.elapsed < 2 * KILL_MARGIN


@pytest.mark.parametrize(
    ("program", "limit"),
    [
        ("pass", LONG),
        ("time.sleep(60)", 1.5),
        ("os.kill(os.getpid(), signal.SIGKILL)", LONG),
        ("subprocess.Popen(['sleep', '60'])", LONG),
    ],
    ids=["exits", "hangs", "crashes", "leaves a grandchild"],
)
def test_no_child_stays_a_zombie(program: str, limit: float) -> None:
    child = python(f"import os, signal, subprocess, time\nprint(os.getpid(), flush=True)\n{program}\n", limit)
    # An entry in /proc, also of a zombie, remains until its parent reads the exit status.
    assert not Path(f"/proc/{child.words[0]}").exists()


def test_many_children_leave_no_file_descriptor_behind() -> None:
    folder = Path("/proc/self/fd")
    run(["true"])
    gc.collect()
    before = len(list(folder.iterdir()))
    for _ in range(20):
        run(["true"])
    gc.collect()
    assert len(list(folder.iterdir())) <= before + 1


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["true"], id="ends"),
        pytest.param(["sh", "-c", "sleep 60 & echo $!"], id="leaves a grandchild"),
        pytest.param([sys.executable, "-I", "-c", DETACHED], id="leaves a grandchild in a session of its own"),
    ],
)
def test_no_pipe_is_left_to_the_garbage_collector(command: list[str]) -> None:
    program = (
        "import gc, os, signal, threading, time\n"
        "from gpuenv.probe.children import run_child\n"
        f"output = run_child({command!r}, {ENVIRONMENT!r}, time.monotonic() + 10).stdout\n"
        "if output and os.path.exists(f'/proc/{output.strip()}'): os.kill(int(output), signal.SIGKILL)\n"
        "for thread in threading.enumerate()[1:]: thread.join(5)\n"
        "gc.collect()\n"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_group_kills_its_children_and_starts_no_more() -> None:
    group, ended = ChildGroup(), []

    def follow() -> None:
        ended.append(run_child(["sleep", "60"], ENVIRONMENT, time.monotonic() + LONG, group))

    running = threading.Thread(target=follow)
    running.start()
    time.sleep(0.3)
    other = run_child(["true"], ENVIRONMENT, time.monotonic() + LONG)
    group.close()
    running.join(5)
    late = run_child(["sleep", "60"], ENVIRONMENT, time.monotonic() + LONG, group)
    assert (ended[0].ending, ended[0].signal_name) == (Ending.CRASHED, "SIGKILL")
    assert late.ending is Ending.NOT_STARTED
    assert other.ending is Ending.EXITED


def test_closing_a_group_also_kills_a_child_that_another_thread_is_starting() -> None:
    """An interrupted program exits right afterwards, and so does the thread that would have killed the child."""
    group, started, begun = ChildGroup(), [], threading.Event()

    def start() -> subprocess.Popen[bytes]:
        begun.set()
        time.sleep(0.1)  # a fork takes its time on a busy machine
        started.append(subprocess.Popen(["sleep", "60"], start_new_session=True))
        return started[0]

    thread = threading.Thread(target=group.start, args=(start,))
    thread.start()
    begun.wait(LONG)
    group.close()
    assert [is_running(process.pid) for process in started] == [False]
    thread.join(LONG)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
def test_children_of_a_closed_group_have_ended() -> None:
    group = ChildGroup()
    program = f"b = b'.' * {300 << 20}; print('ready', flush=True); import time; time.sleep(60)"
    command = [sys.executable, "-c", program]  # the kernel needs a while to free that memory

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)

    children = [group.start(start) for _ in range(2)]
    for child in children:
        with cast("IO[bytes]", child.stdout) as pipe:
            assert pipe.readline() == b"ready\n"
    group.close()
    assert [child.pid for child in children if is_running(child.pid)] == []
