"""One file a family; importing them registers the checks, in the order in which they run."""

# ruff: noqa: F401, I001 - imported in the order of runs, for that alone
from gpuenv.doctor.checks import (
    sources,
    gpu_presence,
    container,
    gpu,
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
