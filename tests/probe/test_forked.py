"""Forks of a process with one thread, as the program itself makes them: each test is such a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import json, sys, time
from gpuenv.probe.children import ChildGroup, follow
from gpuenv.probe.forked import fork_script, may_fork
script, seconds, closed = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "closed"
import os
assert may_fork(os.environ)
sys.stdout.write("before ")
group = ChildGroup()
started = time.monotonic()
process = fork_script(script, "one", "two")
if closed:
    group.add(process)
    group.close()
result = follow(process, started, started + seconds, group)
print(json.dumps([result.ending.value, result.exit_code, result.stdout, result.stderr, result.duration]))
"""


def forked(folder: Path, script: str, *, seconds: float = 20, closed: bool = False) -> list[Any]:
    """How a forked script ended: ending, exit code, output, complaints and duration in seconds."""
    (folder / "script.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM, str(folder / "script.py"), str(seconds), "closed" if closed else "open"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    before, _, answer = done.stdout.partition(" ")
    assert before == "before", "what this process has written is written once"
    told: list[Any] = json.loads(answer)
    return told


def test_a_script_tells_and_ends(tmp_path: Path) -> None:
    program = "import sys\nprint(__name__, sys.argv[1:], sys.stdin.read() == '')\nprint('oh', file=sys.stderr)\n"
    ending, code, out, err, _ = forked(tmp_path, program)
    assert (ending, code, out, err) == ("exited", 0, "__main__ ['one', 'two'] True\n", "oh\n")


@pytest.mark.parametrize(
    ("end", "code"),
    [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('why')", 1), ("raise ValueError('x')", 1), ("os._exit(7)", 7)],
)
def test_its_exit_code_is_its_own(tmp_path: Path, end: str, code: int) -> None:
    ending, found, _, err, _ = forked(tmp_path, f"import os, sys\n{end}\n")
    assert (ending, found) == ("exited", code)
    assert ("ValueError: x" in err) == ("ValueError" in end)


@pytest.mark.parametrize(("number", "end"), [(11, "import ctypes\nctypes.string_at(0)"), (6, "import os\nos.abort()")])
def test_a_crash_is_the_child_s_alone(tmp_path: Path, number: int, end: str) -> None:
    ending, code, out, _, _ = forked(tmp_path, f"print('told', flush=True)\n{end}\n")
    assert (ending, code, out) == ("crashed", -number, "told\n")


def test_one_that_hangs_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    program = (
        "import subprocess, time\nprint(subprocess.Popen(['sleep', '100']).pid, flush=True)\n"
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(100)\n"
    )
    ending, code, out, _, duration = forked(tmp_path, program, seconds=0.7)
    assert (ending, code) == ("timed-out", None)
    assert 0.6 < duration < 5
    until = time.monotonic() + 10
    while time.monotonic() < until and _runs(int(out)):
        time.sleep(0.05)
    assert not _runs(int(out))


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - of the kernel
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_one_whose_group_was_closed_is_ended_at_once(tmp_path: Path) -> None:
    ending, code, _, _, duration = forked(tmp_path, "import time\ntime.sleep(100)\n", closed=True)
    assert (ending, code) == ("crashed", -9)
    assert duration < 10


def test_it_has_no_file_of_its_parent_s(tmp_path: Path) -> None:
    with (tmp_path / "held").open("w", encoding="utf-8"):
        _, _, out, _, _ = forked(tmp_path, "import os\nprint(sorted(os.listdir('/proc/self/fd')))\n")
    assert out == "['0', '1', '2', '3']\n", "the last one is the folder's own"


def test_a_second_thread_or_another_environment_forbids_it() -> None:
    program = (
        "import os, threading\nfrom gpuenv.probe.forked import may_fork\n"
        "print(may_fork(dict(os.environ)), may_fork({**os.environ, 'X': '1'}))\n"
        "thread = threading.Thread(target=threading.Event().wait, daemon=True)\nthread.start()\n"
        "print(may_fork(dict(os.environ)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.split() == ["True", "False", "False"]
