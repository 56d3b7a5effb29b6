"""How far a refresh is, on terminals of any width, and where there is no standard error."""

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
    "from gpuenv.cli.matrix_refresh import Bar\n"
    "bar = Bar()\nbar.start(2, 3_000_000)\n"
    "for name in ('nvidia-cuda-nvrtc 13.4.17', 'cupy-cuda13x 14.2.0, for Windows and Linux'):\n"
    "    bar.measure(name, 1_500_000)\n"
    "bar.end()"
)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_of_the_bar_is_broken(columns: int) -> None:
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run([sys.executable, "-c", CODE], stderr=theirs, check=False, env=environment, timeout=60)
    os.close(theirs)
    shown = os.read(mine, 65536).decode()
    os.close(mine)
    assert done.returncode == 0
    assert "[##########..........] 1/2" in shown
    assert max(len(line) for line in shown.replace("\n", "\r").split("\r")) <= columns


def test_nobody_need_look_at_it() -> None:
    done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", CODE], check=False, timeout=60)
    assert done.returncode == 0
