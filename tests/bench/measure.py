"""Wall time and resident memory of commands, measured in turn: what slows the machine down slows them all."""

from __future__ import annotations

import statistics
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.memory import peak_memory

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
    """Seconds of each round, and the largest resident memory in bytes."""

    rounds: tuple[float, ...]
    memory: int

    @property
    def seconds(self) -> float:
        """The median of all rounds."""
        return statistics.median(self.rounds)

    def ratio(self, other: Measured) -> float:
        """This over the other, round by round, in the median: a round slows both down alike."""
        return statistics.median(own / its for own, its in zip(self.rounds, other.rounds, strict=True))


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
    return {
        command.name: Measured(
            tuple(taken[command.name]), peak_memory(command.argv, command.environment, command.folder)
        )
        for command in commands
    }


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
