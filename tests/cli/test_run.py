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

from tests.cli.program import MINIMAL, PROGRAM, gpuenv

RUN = (*PROGRAM, "run", "--no-probe", "--")
PYTHON = sys.executable
OUT_OF_MEMORY = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8 bytes (allocated so far: 9 bytes)."


def run(*command: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*RUN, *command], input=data, capture_output=True, check=False, env=MINIMAL, timeout=60)


def python_command(code: str) -> tuple[str, str, str]:
    return (PYTHON, "-c", code)


def test_a_success_adds_no_output() -> None:
    result = run(*python_command("import sys; print('out'); sys.stderr.write('err\\n')"))
    assert (result.returncode, result.stdout, result.stderr) == (0, b"out\n", b"err\n")


def test_options_before_run_change_nothing_for_the_program() -> None:
    path = ":/bin:/usr/bin"  # gpuenv itself searches absolute folders alone
    show = ("run", "--no-probe", "--", "/bin/sh", "-c", "echo $PATH")
    for options in ([], ["--no-color"]):
        result = gpuenv(*options, *show, environment={"PATH": path})
        assert (result.returncode, result.stdout, result.stderr) == (0, f"{path}\n", "")


@pytest.mark.parametrize("code", [1, 2, 3, 42, 127, 255])
def test_the_exit_code_is_that_of_the_program(code: int) -> None:
    result = run(*python_command(f"import sys; sys.exit({code})"))
    assert (result.returncode, result.stdout, result.stderr) == (code, b"", b"")


def test_input_and_output_pass_through_unchanged() -> None:
    data = bytes(range(256)) * 9000
    result = run(
        *python_command("import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"), data=data
    )
    assert (result.returncode, result.stdout) == (0, data)


def test_a_failure_is_explained_on_standard_error() -> None:
    result = run(*python_command(f"import sys; print('step 1'); sys.stderr.write({OUT_OF_MEMORY!r}); sys.exit(7)"))
    assert (result.returncode, result.stdout) == (7, b"step 1\n")
    text = result.stderr.decode()
    assert text.startswith(OUT_OF_MEMORY)
    assert "gpuenv: what this failure means\nout-of-memory (" in text


def test_an_error_on_standard_output_is_explained() -> None:
    result = run("sh", "-c", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    assert result.returncode == 18
    assert result.stdout == b"Failed to initialize NVML: Driver/library version mismatch\n"
    assert b"driver-library-version-mismatch" in result.stderr


@pytest.mark.parametrize(("out", "number"), [("", 1), ("one\\n", 2), ("half", 2)])
def test_line_numbers_count_both_streams(out: str, number: int) -> None:
    """Lines of standard output come first; an empty stream has none."""
    code = (
        f"import sys; sys.stdout.write('{out}'); sys.stdout.flush(); sys.stderr.write({OUT_OF_MEMORY!r}); sys.exit(1)"
    )
    assert f"line {number}: {OUT_OF_MEMORY[:40]}" in " ".join(run(*python_command(code)).stderr.decode().split())


def test_an_unknown_failure_is_not_explained() -> None:
    result = run(*python_command("raise ValueError('no such thing')"))
    assert result.returncode == 1
    assert result.stderr.decode().endswith("ValueError: no such thing\n")


def test_an_error_message_of_a_successful_program_is_not_explained() -> None:
    result = run(*python_command(f"import sys; sys.stderr.write({OUT_OF_MEMORY!r})"))
    assert (result.returncode, result.stderr.decode()) == (0, OUT_OF_MEMORY)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT, signal.SIGTERM])
def test_run_ends_by_the_signal_that_ended_the_program(number: signal.Signals) -> None:
    result = run(*python_command(f"import os; os.kill(os.getpid(), {int(number)})"))
    assert result.returncode == -number


def test_a_missing_program_ends_in_the_code_of_a_shell(tmp_path: Path) -> None:
    result = run("no-such-program-anywhere")
    assert result.returncode == 127
    assert b"no-such-program-anywhere: cannot be run" in result.stderr
    plain = tmp_path / "plain"
    plain.write_text("x", encoding="utf-8")
    assert run(str(plain)).returncode == 126


def test_options_after_the_program_are_passed_to_it() -> None:
    result = subprocess.run(
        [*PROGRAM, "run", "echo", "--help", "-v", "--", "x"], capture_output=True, check=False, env=MINIMAL
    )
    assert (result.returncode, result.stdout) == (0, b"--help -v -- x\n")


def test_output_and_error_in_one_pipe_keep_their_order() -> None:
    code = "import os\nfor n in range(200): os.write(1 + n % 2, b'%d\\n' % n)"
    result = subprocess.run(
        [*RUN, *python_command(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env=MINIMAL,
        timeout=60,
    )
    assert result.stdout.split() == [b"%d" % number for number in range(200)]


def test_a_closed_pipe_ends_the_program_by_sigpipe() -> None:
    process = subprocess.Popen([*RUN, "yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=MINIMAL)
    assert process.stdout is not None
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(30) == -signal.SIGPIPE


def test_a_slow_reader_of_a_non_blocking_pipe_gets_every_byte() -> None:
    """O_NONBLOCK belongs to the open file, so another process may have set it (open(2))."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with subprocess.Popen([*RUN, *python_command("print('x' * 999_999)")], stdout=writing, env=MINIMAL) as process:
        os.close(writing)
        time.sleep(1)  # the pipe is full by now
        with os.fdopen(reading, "rb") as reader:
            assert len(reader.read()) == 1_000_000
        assert process.wait(30) == 0


@pytest.mark.parametrize("standard_error", ["2>&-", "2>/dev/full", "2>&1 >/dev/null | true"])
def test_an_unread_explanation_does_not_change_the_exit_code(tmp_path: Path, standard_error: str) -> None:
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
def test_signals_are_forwarded_to_the_program(number: signal.Signals) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda n, f: sys.exit(n + 40))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen(
        [*RUN, *python_command(code)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=MINIMAL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.wait(30) == number + 40
    process.stdout.close()


def test_a_terminal_stays_a_terminal() -> None:
    code = "import os, sys; print([s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr)], os.get_terminal_size()[0])"
    text = run_in_terminal([*RUN, *python_command(code)])
    assert "[True, True, True]" in text


def test_ctrl_c_reaches_the_program_once() -> None:
    code = (
        "import signal, sys, time\ncount = []\nsignal.signal(2, lambda n, f: count.append(n))\n"
        "print('ready', flush=True)\ntime.sleep(1.5)\nprint('count', len(count)); sys.exit(5)"
    )
    text = run_in_terminal([*RUN, *python_command(code)], after=b"ready", keys=b"\x03")
    assert "count 1" in text


def run_in_terminal(command: list[str], after: bytes = b"", keys: bytes = b"") -> str:
    """The output of a program in a new terminal; keys are pressed once it has printed a text."""
    child, terminal = pty.fork()
    if child == 0:  # the new process
        os.execve(command[0], command, MINIMAL)  # noqa: S606 - no shell
    output, deadline = b"", time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            break
        if not data:
            break
        output += data
        if keys and after in output:
            os.write(terminal, keys)
            keys = b""
    os.close(terminal)
    os.waitpid(child, 0)
    return output.decode()


def test_a_daemon_of_the_program_does_not_block_run() -> None:
    started = time.monotonic()
    result = run("sh", "-c", "sleep 20 & echo started")
    assert (result.returncode, result.stdout) == (0, b"started\n")
    assert time.monotonic() - started < 15


def test_an_error_after_64_mib_of_output_is_explained() -> None:
    code = f"import sys\nfor _ in range(64): sys.stdout.write('x' * 1048575 + '\\n')\nsys.exit({OUT_OF_MEMORY!r})"
    result = run(*python_command(code))
    assert result.returncode == 1
    assert len(result.stdout) == 64 * 1048576
    assert b"out-of-memory (" in result.stderr
