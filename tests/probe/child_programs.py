"""Child programs for tests, and their run times."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

from gpuenv.probe.children import ChildResult, run_child
from tests.support.processes import is_running

LONG = 20.0  # a deadline that no test may reach
SHORT = 0.6
KILL_MARGIN = 1.0  # beyond the deadline, on a busy machine
MIB = 1024 * 1024
ENVIRONMENT = {"PATH": os.defpath}
DETACHED = "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid, flush=True)"


@dataclass(frozen=True, slots=True)
class Timed:
    """The result of a child, and how long the caller waited."""

    result: ChildResult
    elapsed: float

    @property
    def words(self) -> list[str]:
        """What the child printed."""
        return self.result.stdout.split()


def python(program: str, limit: float = LONG) -> Timed:
    return run([sys.executable, "-I", "-c", program], limit)


def run(command: list[str], limit: float = LONG) -> Timed:
    started = time.monotonic()
    result = run_child(command, ENVIRONMENT, started + limit)
    return Timed(result, time.monotonic() - started)


def has_ended(pid: int) -> bool:
    """Whether a killed process disappears within two seconds."""
    until = time.monotonic() + 2
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_running(pid)
