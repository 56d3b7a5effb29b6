"""How a program learns that it runs on a pretend machine: ``gpuenv simulate`` says so in a variable."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "GPUENV_SIMULATED"  # the name of the machine
RUNS_NO_KERNEL = "a simulated GPU runs no kernel"


def is_simulated(environment: Mapping[str, str]) -> bool:
    """Whether the GPUs that this process sees are a stub driver's."""
    return bool(environment.get(VARIABLE))
