"""One file for each family of checks; importing them registers the checks in the order in which they run."""

# ruff: noqa: F401, I001 - the imports register the checks, in the order of runs
from gpuenv.doctor.registry import REGISTERED, Check
from gpuenv.doctor.checks import (
    transaction,
    sources,
    gpu_presence,
    container,
    gpu,
    gpu_state,
    driver,
    target,
    initialisation,
    wheel,
    installation,
    compatibility,
    libraries,
    environment,
    smoke,
    requirement,
)


def all_checks() -> tuple[Check, ...]:
    """Every check, in the order in which they run."""
    return tuple(REGISTERED.values())


def find_check(code: str) -> Check | None:
    """The check with a code; None for a code of a plug-in or of a rule for images."""
    return REGISTERED.get(code)
