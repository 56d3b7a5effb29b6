"""Wall time and resident memory of commands, measured in turn: what slows the machine down slows them all."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is measured: its name in the table, its argument vector and its whole environment."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path


@dataclass(frozen=True, slots=True)
class Measured:
    """Median seconds and largest resident memory, in bytes, over all rounds."""

    seconds: float
    memory: int


# Starts a command from a process that is small itself: a child's peak counts what its parent had when it was started.
_SMALL = (
    "import os, sys\n"
    "pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\n"
    "print(os.wait4(pid, 0)[2].ru_maxrss)\n"
)


def measure(commands: Sequence[Command], rounds: int) -> dict[str, Measured]:
    """Runs every command once a round, after one round that is not counted.

    Raises:
        RuntimeError: when a command is ended by a signal.
    """
    taken: dict[str, list[float]] = {command.name: [] for command in commands}
    for number in range(rounds + 1):
        for command in commands:
            seconds = _time(command)
            if number:
                taken[command.name].append(seconds)
    return {command.name: Measured(statistics.median(taken[command.name]), _memory(command)) for command in commands}


def _time(command: Command) -> float:
    started = time.perf_counter()
    done = subprocess.run(
        command.argv,
        env=dict(command.environment),
        cwd=command.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode < 0:
        raise RuntimeError(f"{command.name} was ended by signal {-done.returncode}")
    return time.perf_counter() - started


def _memory(command: Command) -> int:
    """The largest resident memory of the command's own process, in bytes."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _SMALL, *command.argv],
        env=dict(command.environment),
        cwd=command.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout.splitlines()[-1]) * 1024
