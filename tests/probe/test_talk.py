"""A child that is asked twice: what it tells by itself is kept, whatever becomes of the second question."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.snapshot import SourceState
from gpuenv.probe.children import ChildGroup, ChildResult, Ending, start_process
from gpuenv.probe.talk import Talk
from tests.probe.asking import MINIMAL, target_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DONE = """print('gpuenv:{"done": true}', flush=True)\n"""
ANSWERING = f"import sys\nprint('one')\n{DONE}asked = sys.stdin.readline()\nprint('asked', asked.strip())\n"
LONG = 20.0


def talk_with(program: str, seconds: float = LONG) -> Talk:
    group = ChildGroup()
    process = start_process([sys.executable, "-I", "-c", program], MINIMAL, group, listening=True)
    assert not isinstance(process, ChildResult)
    started = time.monotonic()
    return Talk(process, started, started + seconds, group)


@pytest.fixture(autouse=True)
def _nothing_is_left_open() -> Iterator[None]:
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_both_answers_are_told_apart() -> None:
    with closing(talk_with(ANSWERING)) as talk:
        first = talk.first()
        assert (first.ending, first.exit_code) == (Ending.EXITED, 0)
        assert first.stdout.splitlines() == ["one", 'gpuenv:{"done": true}']
        assert talk.waits
        second = talk.then("this")
        assert (second.ending, second.exit_code, second.stdout.strip()) == (Ending.EXITED, 0, "asked this")
        assert not talk.waits


def test_one_that_is_not_asked_again_ends_by_itself() -> None:
    talk = talk_with(f"import os\nprint(os.getpid())\n{ANSWERING}")
    with closing(talk):
        pid = talk.first().stdout.split()[0]
    assert not Path(f"/proc/{pid}").exists()


def test_one_that_does_not_end_is_ended() -> None:
    talk = talk_with(f"import os, time\nprint(os.getpid())\n{DONE}time.sleep(600)\n")
    with closing(talk):
        first = talk.first()
        pid = first.stdout.split()[0]
        assert first.exit_code == 0
        began = time.monotonic()
    assert time.monotonic() - began < 3
    assert not Path(f"/proc/{pid}").exists()


def test_an_end_without_the_last_line_is_told_as_such() -> None:
    with closing(talk_with("import sys\nprint('one')\nsys.exit(3)\n")) as talk:
        first = talk.first()
        assert (first.ending, first.exit_code, first.stdout) == (Ending.EXITED, 3, "one\n")
        assert not talk.waits


def test_so_is_a_crash_and_a_deadline() -> None:
    with closing(talk_with("import os\nprint('one', flush=True)\nos.abort()\n")) as talk:
        first = talk.first()
        assert (first.ending, first.signal_name, first.stdout) == (Ending.CRASHED, "SIGABRT", "one\n")
    with closing(talk_with("import time\nprint('one', flush=True)\ntime.sleep(600)\n", 1.0)) as talk:
        first = talk.first()
        assert (first.ending, first.stdout) == (Ending.TIMED_OUT, "one\n")


def test_a_crash_at_the_second_question_leaves_the_first_answer() -> None:
    program = f"import os, sys\n{DONE}sys.stdin.readline()\nprint('two', flush=True)\nos.abort()\n"
    with closing(talk_with(program)) as talk:
        assert talk.first().ending is Ending.EXITED
        second = talk.then("this")
        assert (second.ending, second.signal_name, second.stdout.strip()) == (Ending.CRASHED, "SIGABRT", "two")


def test_the_deadline_holds_for_the_second_question_too() -> None:
    program = f"import sys, time\n{DONE}sys.stdin.readline()\nprint('two', flush=True)\ntime.sleep(600)\n"
    with closing(talk_with(program, 2.0)) as talk:
        began = time.monotonic()
        talk.first()
        second = talk.then("this")
        assert (second.ending, second.stdout.strip()) == (Ending.TIMED_OUT, "two")
        assert time.monotonic() - began < 4


def test_one_that_has_gone_is_not_asked() -> None:
    with closing(talk_with(DONE)) as talk:
        assert talk.first().exit_code == 0
        until = time.monotonic() + LONG
        while talk.waits and time.monotonic() < until:
            time.sleep(0.01)
        assert not talk.waits


def test_much_before_the_last_line_is_read() -> None:
    program = f"import sys\nsys.stdout.write(('x' * 99 + '\\n') * 20000)\n{DONE}print(len(sys.stdin.readline()))\n"
    with closing(talk_with(program)) as talk:
        assert talk.first().stdout.count("\n") == 20000
        assert talk.then("y" * 30000).stdout.strip() == "30001"


def test_a_listener_without_help_of_the_kernel_does_the_same(tmp_path: Path) -> None:
    """As on macOS and on Linux before 5.3: here in a process whose pidfd_open is not there."""
    told = tmp_path / "told.py"
    told.write_text(
        "import os, sys\n"
        "del os.pidfd_open\n"
        "from tests.probe.test_talk import ANSWERING, talk_with\n"
        "from contextlib import closing\n"
        "from gpuenv.probe.forked import may_fork\n"
        "with closing(talk_with(ANSWERING)) as talk:\n"
        "    assert may_fork(os.environ), 'no thread yet'\n"
        "    print(talk.first().stdout.split()[0], talk.waits, talk.then('this').stdout.strip())\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, told],
        env={**MINIMAL, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "one True asked this\n", done.stderr


def test_a_child_that_reads_standard_input_itself_goes_on_without_a_question() -> None:
    """As a start-up hook may, or a program that it calls."""
    with closing(talk_with(f"import sys\nsys.stdin.read()\nprint('one')\n{DONE}")) as talk:
        first = talk.first()
        assert (first.exit_code, first.stdout.split()[0], talk.waits) == (0, "one", False)
        assert first.duration < LONG / 2


def test_words_that_a_wrapper_keeps_until_the_end_are_told_in_time(tmp_path: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nsaid=$("{sys.executable}" "$@")\nprintf "%s\\n" "$said"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    facts, source = target_of(wrapper)
    assert (source.state, facts.executable) == (SourceState.ANSWERED, sys.executable)


def test_nothing_is_listened_to_before_all_children_are_there() -> None:
    """Where the kernel cannot tell of an end, threads listen, and beside a thread no fork is made."""
    before = threading.active_count()
    with closing(talk_with(ANSWERING)):
        assert threading.active_count() == before
