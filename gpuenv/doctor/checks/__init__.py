"""One file for each family of checks; importing them registers the checks in the order in which they run."""

# ruff: noqa: F401, I001 - the imports register the checks, in the order of runs
from gpuenv.doctor.checks import (
    transaction,
    sources,
    gpu_presence,
    container,
    gpu,
    health,
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
