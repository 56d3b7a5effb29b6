"""A lack of open files ends every command with one reason and a remedy, never with a verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuenv.model.exit_codes import ExitCode
from tests.cli.program import PROGRAM

COMMANDS = ("doctor", "preflight", "preflight --retry-elsewhere", "resolve", "probe", "smoke", "install --dry-run")


def run_with_open_files(limit: int, command: str) -> subprocess.CompletedProcess[str]:
    shell = ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *PROGRAM, *command.split()]
    return subprocess.run(shell, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("limit", "command"), [*((limit, "doctor") for limit in (10, 14, 28)), *((40, command) for command in COMMANDS)]
)
def test_a_low_limit_of_open_files_is_no_verdict(limit: int, command: str) -> None:
    result = run_with_open_files(limit, command)
    assert result.returncode == ExitCode.COULD_NOT_CHECK, result.stdout + result.stderr
    assert result.stdout == ""
    reason, remedy = result.stderr.splitlines()
    assert "open files" in reason
    assert remedy == "Raise the limit of open files: ulimit -n 1024."


def test_the_lowest_sufficient_limit_changes_no_verdict() -> None:
    verdicts = [run_with_open_files(limit, "resolve --no-probe --format json") for limit in (80, 1024)]
    assert verdicts[0].returncode == verdicts[1].returncode != ExitCode.COULD_NOT_CHECK
    assert verdicts[0].stdout == verdicts[1].stdout


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="root starts the process of a user")
def test_a_child_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    """fork(2) fails with EAGAIN at the user's limit of processes; what is not started has not answered."""
    code = (
        "import os, resource, sys, time; sys.path[:0] = sys.argv[1].split(':')\n"
        "from gpuenv.probe.children import run_child\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (0, 0)); os.setgroups([]); os.setgid(54321); os.setuid(54321)\n"
        "try: print(run_child(['/bin/true'], {}, time.monotonic() + 9).ending)\n"
        "except BlockingIOError: print('no process')"
    )
    command = [sys.executable, "-c", code, ":".join(sys.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("no process\n", "")
