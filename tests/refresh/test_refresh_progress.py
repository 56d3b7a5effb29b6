"""The progress bar of a refresh, on terminals of any width and without standard error."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

CODE = (
    "from gpuenv.cli.refresh_context import ProgressBar\n"
    "bar = ProgressBar()\nbar.start_queries(4, 'the package index with uv')\n"
    "for _ in range(4):\n"
    "    bar.answered()\n"
    "bar.start(2, 3_000_000)\n"
    "for name in ('nvidia-cuda-nvrtc 13.4.17', 'cupy-cuda13x 14.2.0, for Windows and Linux'):\n"
    "    bar.measure(name, 1_500_000)\n"
    "bar.end()"
)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_of_the_bar_exceeds_the_terminal_width(columns: int) -> None:
    terminal, stderr = pty.openpty()
    fcntl.ioctl(stderr, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    result = subprocess.run([sys.executable, "-c", CODE], stderr=stderr, check=False, env=environment, timeout=60)
    os.close(stderr)
    output = os.read(terminal, 65536).decode()
    os.close(terminal)
    assert result.returncode == 0
    assert "querying the package index with uv: 4 queries" in " ".join(output.split())
    assert "[###############.....] 3/4" in output
    assert "[##########..........] 1/2" in output
    assert max(len(line) for line in output.replace("\n", "\r").split("\r")) <= columns


def test_queries_without_a_terminal_take_few_lines() -> None:
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60)
    lines = [line for line in result.stderr.splitlines() if "quer" in line]
    assert lines == [
        "gpuenv: querying the package index with uv: 4 queries",
        "gpuenv: answered: 4 of 4 queries, 0 s",
    ]


def test_the_bar_works_without_standard_error() -> None:
    result = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", CODE], check=False, timeout=60)
    assert result.returncode == 0
