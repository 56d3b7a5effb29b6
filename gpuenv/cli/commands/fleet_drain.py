"""``gpuenv fleet drain``."""

from __future__ import annotations

import time
from enum import Enum
from typing import Annotated

import typer

from gpuenv.cli import options
from gpuenv.cli.fleet_source import MaxAge, Source, parse_age, read_fleet
from gpuenv.cli.sources import get_matrix


class Scheduler(str, Enum):
    """Schedulers whose commands can be printed."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"


def drain(
    source: Source,
    scheduler: Annotated[Scheduler, typer.Option("--for", help="The scheduler of the commands.")] = Scheduler.SLURM,
    max_age: MaxAge = None,
    matrix: options.MatrixFile = None,
    output: options.OutputFile = None,
) -> None:
    """Print the commands that take broken nodes out of service.

    A node is broken if its driver or a GPU is. No command is run.

    Exit code: 0.
    """
    from gpuenv.cli.output import write_result
    from gpuenv.fleet.analysis import FleetOptions, analyse
    from gpuenv.fleet.drain import kubernetes_commands, slurm_commands

    fleet_options = FleetOptions(time.time(), parse_age(max_age))
    fleet = analyse(read_fleet(source), get_matrix(matrix), fleet_options)
    lines = slurm_commands(fleet) if scheduler is Scheduler.SLURM else kubernetes_commands(fleet)
    write_result("".join(f"{line}\n" for line in lines), output)
