"""``run_child`` with real misbehaving processes: it returns in time and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuenv.probe.children import Ending, run_child
from tests.probe.child_programs import ENVIRONMENT, KILL_MARGIN, LONG, MIB, SHORT, python, run
from tests.support.processes import is_running


def test_a_childs_streams_and_exit_code_are_separate() -> None:
    output = python("import sys; print('out'); print('complaint', file=sys.stderr); sys.exit(3)").result
    assert (output.ending, output.exit_code, output.stdout, output.stderr) == (Ending.EXITED, 3, "out\n", "complaint\n")
    assert output.signal_name is None
    assert output.error is None
    assert 0 < output.duration < LONG


def test_a_child_gets_exactly_the_given_environment() -> None:
    result = run_child(["env"], {"PATH": os.defpath, "ONLY": "this"}, time.monotonic() + LONG)
    assert sorted(result.stdout.splitlines()) == sorted([f"PATH={os.defpath}", "ONLY=this"])


def test_a_childs_standard_input_is_empty() -> None:
    """Even if the caller's standard input is a terminal or, as here, a pipe that stays open."""
    caller = (
        "import time\n"
        "from gpuenv.probe.children import run_child\n"
        f"print(run_child(['cat'], {ENVIRONMENT!r}, time.monotonic() + 5).ending.value)\n"
    )
    command = [sys.executable, "-c", caller]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.read() == "exited\n"


def test_a_hung_child_is_killed_at_the_deadline_and_its_output_is_kept() -> None:
    child = python("import os, time; print(os.getpid(), flush=True); time.sleep(60)", SHORT)
    assert child.result.ending is Ending.TIMED_OUT
    assert child.result.exit_code is None
    assert child.result.signal_name is None
    assert SHORT <= child.elapsed < SHORT + KILL_MARGIN
    assert not is_running(int(child.words[0]))


def test_a_child_that_ignores_termination_signals_is_killed() -> None:
    child = python(
        "import os, signal, time\n"
        "for name in ('SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'):\n"
        "    signal.signal(getattr(signal, name), signal.SIG_IGN)\n"
        "print(os.getpid(), flush=True)\n"
        "while True: time.sleep(60)\n",
        SHORT,
    )
    assert child.result.ending is Ending.TIMED_OUT
    assert child.elapsed < SHORT + KILL_MARGIN
    assert not is_running(int(child.words[0]))


def test_a_passed_deadline_kills_at_once() -> None:
    child = run(["sleep", "60"], -5.0)
    assert child.result.ending is Ending.TIMED_OUT
    assert child.elapsed < KILL_MARGIN


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGKILL"])
def test_a_crash_is_reported_with_its_signal_and_the_output_is_kept(name: str) -> None:
    program = (
        "import os, resource, signal\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "print('before', flush=True)\n"
        f"os.kill(os.getpid(), signal.{name})\n"
        "import time; time.sleep(60)\n"
    )
    result = python(program).result
    assert result.ending is Ending.CRASHED
    assert result.signal_name == name
    assert result.exit_code == -getattr(signal, name)
    assert result.stdout == "before\n"


def test_a_read_of_a_null_pointer_is_a_crash() -> None:
    program = "import ctypes, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); ctypes.string_at(0)"
    result = python(program).result
    assert (result.ending, result.signal_name) == (Ending.CRASHED, "SIGSEGV")


def test_a_real_time_signal_is_named_by_its_number() -> None:
    result = python("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 1)").result
    assert result.ending is Ending.CRASHED
    assert result.signal_name == f"signal {signal.SIGRTMIN + 1}"


def test_a_flood_of_output_is_read_in_bounded_memory() -> None:
    flood = "import os\nblock = b'x' * (1 << 20)\nfor pipe in (1, 2) * 50: os.write(pipe, block)\n"
    reader = (
        "import resource, sys, time\n"
        "from gpuenv.probe.children import run_child\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"result = run_child([sys.executable, '-I', '-c', {flood!r}], {{}}, time.monotonic() + {LONG})\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(result.ending.value, result.exit_code, len(result.stdout), len(result.stderr), after - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", reader], capture_output=True, text=True, check=True, timeout=LONG)
    ending, code, out, err, grown = done.stdout.split()
    assert (ending, code) == ("exited", "0")
    assert MIB < int(out) < 50 * MIB
    assert MIB < int(err) < 50 * MIB
    assert int(grown) * 1024 < 50 * MIB, "the child prints 100 MiB"


def test_endless_output_ends_at_the_deadline() -> None:
    child = run(["yes"], SHORT)
    assert child.result.ending is Ending.TIMED_OUT
    assert child.elapsed < SHORT + KILL_MARGIN
    assert child.result.stdout.startswith("y\ny\n")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "No such file"),
        ("folder", "Permission denied"),
        ("without permission", "Permission denied"),
        ("no program", "Exec format error"),
        ("interpreter missing", "No such file"),
        ("dangling link", "No such file"),
        ("name too long", "File name too long"),
    ],
)
def test_a_program_that_cannot_be_started_has_the_systems_reason(tmp_path: Path, kind: str, reason: str) -> None:
    path = tmp_path / "program"
    if kind == "folder":
        path.mkdir()
    elif kind == "dangling link":
        path.symlink_to(tmp_path / "nothing")
    elif kind == "name too long":
        path = tmp_path / ("x" * 300)
    elif kind != "missing":
        path.write_text("#!/nowhere/python\n" if kind == "interpreter missing" else "just text\n", encoding="utf-8")
        path.chmod(0o644 if kind == "without permission" else 0o755)
    child = run([str(path)])
    assert child.result.ending is Ending.NOT_STARTED
    assert child.result.exit_code is None
    assert (child.result.stdout, child.result.stderr) == ("", "")
    assert reason in (child.result.error or "")
    assert child.elapsed < KILL_MARGIN


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    result = python(r"import os; os.write(1, b'before \xff\xfe\x80 after\n'); os.write(2, b'\xc3(')").result
    assert result.stdout.startswith("before ")
    assert result.stdout.endswith(" after\n")
    assert result.stderr.endswith("(")
    (result.stdout + result.stderr).encode("utf-8")


@pytest.mark.parametrize(
    ("program", "out", "err", "ending"),
    [
        ("print('out'); sys.stderr.write('err')", "out\n", "err", Ending.EXITED),
        (
            "print('o' * 3_000_000); sys.stderr.write('e' * 3_000_000)",
            "o" * 3_000_000 + "\n",
            "e" * 3_000_000,
            Ending.EXITED,
        ),
        ("print('before', flush=True); time.sleep(60)", "before\n", "", Ending.TIMED_OUT),
        ("os.close(1); os.close(2); time.sleep(60)", "", "", Ending.TIMED_OUT),
        ("os.kill(os.getpid(), 9)", "", "", Ending.CRASHED),
    ],
    ids=["writes and ends", "writes much", "writes and stays", "stays silent", "is killed"],
)
def test_standard_error_is_passed_on_as_it_arrives(program: str, out: str, err: str, ending: Ending) -> None:
    pieces: list[str] = []
    command = [sys.executable, "-I", "-c", f"import os, sys, time\n{program}\n"]
    deadline = time.monotonic() + (1.5 if ending is Ending.TIMED_OUT else LONG)
    result = run_child(command, ENVIRONMENT, deadline, None, pieces.append)
    assert (result.stdout, result.stderr, result.ending) == (out, err, ending)
    assert "".join(pieces) == err


def test_a_text_larger_than_a_pipe_is_written_to_standard_input() -> None:
    text = "x" * 1_000_000
    result = run_child(["wc", "-c"], ENVIRONMENT, time.monotonic() + LONG, stdin=text)
    assert result.stdout.strip() == str(len(text))
    assert run_child(["true"], ENVIRONMENT, time.monotonic() + LONG, stdin=text).exit_code == 0


def test_a_deadline_beyond_the_kernels_maximum_works() -> None:
    assert python("print('here')", 1e12).words == ["here"]
