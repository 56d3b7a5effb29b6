"""``gpuenv run``: streams, signals and exit code pass through unchanged; a failure is explained."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.program import MINIMAL, PROGRAM

RUN = (*PROGRAM, "run", "--no-probe", "--")
PYTHON = sys.executable
OUT_OF_MEMORY = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8 bytes (allocated so far: 9 bytes)."


def run(*command: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*RUN, *command], input=data, capture_output=True, check=False, env=MINIMAL, timeout=60)


def script(code: str) -> tuple[str, str, str]:
    return (PYTHON, "-c", code)


def test_success_adds_nothing() -> None:
    done = run(*script("import sys; print('out'); sys.stderr.write('err\\n')"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"err\n")


@pytest.mark.parametrize("code", [1, 2, 3, 42, 127, 255])
def test_the_exit_code_is_the_programs(code: int) -> None:
    done = run(*script(f"import sys; sys.exit({code})"))
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


def test_bytes_go_through_unchanged_in_both_directions() -> None:
    data = bytes(range(256)) * 9000
    done = run(*script("import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"), data=data)
    assert (done.returncode, done.stdout) == (0, data)


def test_a_failure_is_explained_on_standard_error() -> None:
    done = run(*script(f"import sys; print('step 1'); sys.stderr.write({OUT_OF_MEMORY!r}); sys.exit(7)"))
    assert (done.returncode, done.stdout) == (7, b"step 1\n")
    text = done.stderr.decode()
    assert text.startswith(OUT_OF_MEMORY)
    assert "gpuenv: what this failure means\nout-of-memory (" in text


def test_what_is_said_on_standard_output_is_explained_too() -> None:
    done = run("sh", "-c", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    assert done.returncode == 18
    assert done.stdout == b"Failed to initialize NVML: Driver/library version mismatch\n"
    assert b"driver-library-version-mismatch" in done.stderr


@pytest.mark.parametrize(("out", "number"), [("", 1), ("one\\n", 2), ("half", 2)])
def test_a_line_is_counted_as_it_was_written(out: str, number: int) -> None:
    """Those of standard output first; of a stream that said nothing there is none."""
    code = (
        f"import sys; sys.stdout.write('{out}'); sys.stdout.flush(); sys.stderr.write({OUT_OF_MEMORY!r}); sys.exit(1)"
    )
    assert f"line {number}: {OUT_OF_MEMORY[:40]}" in " ".join(run(*script(code)).stderr.decode().split())


def test_an_unknown_failure_is_left_alone() -> None:
    done = run(*script("raise ValueError('no such thing')"))
    assert done.returncode == 1
    assert done.stderr.decode().endswith("ValueError: no such thing\n")


def test_the_error_of_a_success_is_not_explained() -> None:
    done = run(*script(f"import sys; sys.stderr.write({OUT_OF_MEMORY!r})"))
    assert (done.returncode, done.stderr.decode()) == (0, OUT_OF_MEMORY)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT, signal.SIGTERM])
def test_a_program_that_a_signal_ends_ends_this_one_likewise(number: signal.Signals) -> None:
    done = run(*script(f"import os; os.kill(os.getpid(), {int(number)})"))
    assert done.returncode == -number


def test_a_program_that_is_not_there_ends_as_in_a_shell(tmp_path: Path) -> None:
    done = run("no-such-program-anywhere")
    assert done.returncode == 127
    assert b"no-such-program-anywhere: cannot be run" in done.stderr
    plain = tmp_path / "plain"
    plain.write_text("x", encoding="utf-8")
    assert run(str(plain)).returncode == 126


def test_options_of_the_program_are_its_own() -> None:
    done = subprocess.run(
        [*PROGRAM, "run", "echo", "--help", "-v", "--", "x"], capture_output=True, check=False, env=MINIMAL
    )
    assert (done.returncode, done.stdout) == (0, b"--help -v -- x\n")


def test_output_and_error_that_are_the_same_keep_their_order() -> None:
    code = "import os\nfor n in range(200): os.write(1 + n % 2, b'%d\\n' % n)"
    done = subprocess.run(
        [*RUN, *script(code)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, env=MINIMAL, timeout=60
    )
    assert done.stdout.split() == [b"%d" % number for number in range(200)]


def test_a_reader_that_goes_is_told_to_the_program() -> None:
    process = subprocess.Popen([*RUN, "yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=MINIMAL)
    assert process.stdout is not None
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(30) == -signal.SIGPIPE


def test_a_slow_reader_of_an_end_that_blocks_nobody_gets_every_byte() -> None:
    """Whoever else has it may have set that: it is a state of the open file, not of one process (open(2))."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with subprocess.Popen([*RUN, *script("print('x' * 999_999)")], stdout=writing, env=MINIMAL) as process:
        os.close(writing)
        time.sleep(1)  # the pipe is full by now
        with os.fdopen(reading, "rb") as mine:
            assert len(mine.read()) == 1_000_000
        assert process.wait(30) == 0


@pytest.mark.parametrize("standard_error", ["2>&-", "2>/dev/full", "2>&1 >/dev/null | true"])
def test_the_exit_code_is_the_programs_though_nobody_reads_the_explanation(tmp_path: Path, standard_error: str) -> None:
    code = tmp_path / "code"
    program = f"sleep 1; echo {OUT_OF_MEMORY!r}; exit 7"
    shell = ["sh", "-c", f'{{ "$@"; echo $? > {code}; }} {standard_error}', "sh", *RUN, "sh", "-c", program]
    subprocess.run(shell, stdout=subprocess.DEVNULL, check=False, env=MINIMAL, timeout=60)
    deadline = time.monotonic() + 30
    while not code.is_file() or not code.read_text(encoding="utf-8"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert code.read_text(encoding="utf-8") == "7\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_is_handed_on_to_the_program(number: signal.Signals) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda n, f: sys.exit(n + 40))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen(
        [*RUN, *script(code)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=MINIMAL
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.wait(30) == number + 40
    process.stdout.close()


def test_a_terminal_stays_a_terminal() -> None:
    code = "import os, sys; print([s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr)], os.get_terminal_size()[0])"
    text = in_terminal([*RUN, *script(code)])
    assert "[True, True, True]" in text


def test_ctrl_c_reaches_the_program_once() -> None:
    code = (
        "import signal, sys, time\ncount = []\nsignal.signal(2, lambda n, f: count.append(n))\n"
        "print('ready', flush=True)\ntime.sleep(1.5)\nprint('count', len(count)); sys.exit(5)"
    )
    text = in_terminal([*RUN, *script(code)], after=b"ready", keys=b"\x03")
    assert "count 1" in text


def in_terminal(command: list[str], after: bytes = b"", keys: bytes = b"") -> str:
    """What a program writes to a terminal of its own, with keys pressed once it has written something."""
    child, terminal = pty.fork()
    if child == 0:  # the new process
        os.execve(command[0], command, MINIMAL)  # noqa: S606 - no shell
    seen, deadline = b"", time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data
        if keys and after in seen:
            os.write(terminal, keys)
            keys = b""
    os.close(terminal)
    os.waitpid(child, 0)
    return seen.decode()


def test_a_daemon_left_behind_does_not_hold_the_caller() -> None:
    started = time.monotonic()
    done = run("sh", "-c", "sleep 20 & echo started")
    assert (done.returncode, done.stdout) == (0, b"started\n")
    assert time.monotonic() - started < 15


def test_a_flood_is_kept_within_bounds() -> None:
    code = f"import sys\nfor _ in range(64): sys.stdout.write('x' * 1048575 + '\\n')\nsys.exit({OUT_OF_MEMORY!r})"
    done = run(*script(code))
    assert done.returncode == 1
    assert len(done.stdout) == 64 * 1048576
    assert b"out-of-memory (" in done.stderr
