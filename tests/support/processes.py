"""Processes that a test started directly or indirectly."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuenv.simulate.layout import SimulatedMachine


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def run_timed(command: list[str], machine: SimulatedMachine) -> tuple[subprocess.CompletedProcess[str], float]:
    """Runs a program on a simulated machine; returns its result and duration in seconds."""
    started = time.monotonic()
    result = subprocess.run(
        command,
        env=machine.environment,
        cwd=machine.root,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return result, time.monotonic() - started
