"""Wall time and resident memory of commands, measured in turn so that a slow machine affects all of them."""

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
    """A measured command: its name in the table, its arguments, environment and working folder."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of each round, and the peak resident memory in bytes."""

    rounds: tuple[float, ...]
    memory: int

    @property
    def seconds(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds)

    def ratio(self, other: Measured) -> float:
        """Returns the median of the ratios of each round."""
        return statistics.median(
            seconds / reference for seconds, reference in zip(self.rounds, other.rounds, strict=True)
        )


def measure(commands: Sequence[Command], rounds: int) -> dict[str, Measured]:
    """Runs every command once a round, after an uncounted first round.

    Raises:
        RuntimeError: If a signal ends a command.
    """
    rounds_by_name: dict[str, list[float]] = {command.name: [] for command in commands}
    for number in range(rounds + 1):
        for command in commands:
            seconds = _time(command)
            if number:
                rounds_by_name[command.name].append(seconds)
    return {
        command.name: Measured(
            tuple(rounds_by_name[command.name]), peak_memory(command.argv, command.environment, command.folder)
        )
        for command in commands
    }


def _time(command: Command) -> float:
    started = time.perf_counter()
    result = subprocess.run(
        command.argv,
        env=dict(command.environment),
        cwd=command.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if result.returncode < 0:
        raise RuntimeError(f"{command.name} was ended by signal {-result.returncode}")
    return time.perf_counter() - started
