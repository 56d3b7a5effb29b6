"""Processes that a test has started, or what it has started may have left."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuenv.simulate.layout import SimulatedMachine


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def timed(command: list[str], machine: SimulatedMachine) -> tuple[subprocess.CompletedProcess[str], float]:
    """A program on a simulated machine, and the seconds that it took."""
    started = time.monotonic()
    done = subprocess.run(
        command,
        env=machine.environment,
        cwd=machine.root,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done, time.monotonic() - started
