"""One file a family; importing them registers the checks, in the order in which they run."""

from gpuenv.doctor.checks import sources  # noqa: I001 - the order of runs
from gpuenv.doctor.checks import presence
from gpuenv.doctor.checks import container
from gpuenv.doctor.checks import engine
from gpuenv.doctor.checks import log
from gpuenv.doctor.checks import gpu
from gpuenv.doctor.checks import support
from gpuenv.doctor.checks import state
from gpuenv.doctor.checks import module
from gpuenv.doctor.checks import unstarted
from gpuenv.doctor.checks import driver
from gpuenv.doctor.checks import mismatch
from gpuenv.doctor.checks import target
from gpuenv.doctor.checks import tegra
from gpuenv.doctor.checks import startup
from gpuenv.doctor.checks import initialisation
from gpuenv.doctor.checks import grant
from gpuenv.doctor.checks import wheel
from gpuenv.doctor.checks import cupy
from gpuenv.doctor.checks import installation
from gpuenv.doctor.checks import foreign
from gpuenv.doctor.checks import dependencies
from gpuenv.doctor.checks import fit
from gpuenv.doctor.checks import untaken
from gpuenv.doctor.checks import library
from gpuenv.doctor.checks import refused
from gpuenv.doctor.checks import compilation
from gpuenv.doctor.checks import loading
from gpuenv.doctor.checks import beside
from gpuenv.doctor.checks import cache
from gpuenv.doctor.checks import variables
from gpuenv.doctor.checks import smoke
from gpuenv.doctor.checks import requirement

__all__ = [
    "beside",
    "cache",
    "compilation",
    "container",
    "cupy",
    "dependencies",
    "driver",
    "engine",
    "fit",
    "foreign",
    "gpu",
    "grant",
    "initialisation",
    "installation",
    "library",
    "loading",
    "log",
    "mismatch",
    "module",
    "presence",
    "refused",
    "requirement",
    "smoke",
    "sources",
    "startup",
    "state",
    "support",
    "target",
    "tegra",
    "unstarted",
    "untaken",
    "variables",
    "wheel",
]
