"""A lack of processes, threads, files or memory is reported with a fix instead of as an internal error."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpuenv.cli.command_errors import resource_error
from gpuenv.model.exit_codes import ExitCode
from tests.cli.program import MINIMAL

if TYPE_CHECKING:
    from pathlib import Path

RESOURCE_ERRORS = [
    (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "no more processes"),
    (RuntimeError("can't start new thread"), "no more processes"),
    (OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/proc/self/status"), "no more files"),
    (MemoryError(), "out of memory"),
    (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "out of memory"),
    (ImportError("_ssl.so: failed to map segment from shared object"), "out of memory"),
]
# A slow reader, and ordinary errors.
OTHER_ERRORS = (
    BlockingIOError(errno.EAGAIN, "write could not complete without blocking", 17),
    RuntimeError("dictionary changed size during iteration"),
    ImportError("No module named 'pynvml'"),
    PermissionError(errno.EACCES, os.strerror(errno.EACCES)),
    ValueError("can't start new thread"),
)


@pytest.mark.parametrize(("error", "message"), RESOURCE_ERRORS)
def test_a_lack_of_resources_is_reported_with_a_fix(error: Exception, message: str) -> None:
    command_error = resource_error(error)
    assert command_error is not None
    assert command_error.exit_code == ExitCode.COULD_NOT_CHECK
    assert command_error.remedy
    assert message in command_error.message
    assert command_error.message.endswith(str(error) or "gpuenv cannot run")


@pytest.mark.parametrize("error", OTHER_ERRORS, ids=lambda error: type(error).__name__)
def test_other_errors_are_not_resource_errors(error: Exception) -> None:
    assert resource_error(error) is None


@pytest.mark.parametrize("command", ["doctor", "probe", "smoke", "preflight", "install --yes --offline"])
def test_a_command_without_threads_ends_in_could_not_check(command: str, tmp_path: Path) -> None:
    program = (
        "import sys, threading\n"
        "from gpuenv.cli.main import run\n"
        "threading.stack_size(1 << 46)\n"  # more than the address space
        "sys.exit(run(sys.argv[1:]))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, *command.split(), "--python", sys.executable],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=MINIMAL,
        timeout=60,
    )
    assert result.returncode == ExitCode.COULD_NOT_CHECK, result.stderr
    assert result.stdout == ""
    assert "no more processes or threads can be started" in result.stderr
    assert "internal error" not in result.stderr
