"""CuPys that a target's path leads to and that are not its own: its installers do not reach them. Pure."""

from __future__ import annotations

from gpuenv.model.finding import Fix
from gpuenv.model.snapshot import CupyInstallation, PackagePlace
from gpuenv.model.target import Target


def own_cupys(target: Target) -> tuple[str, ...]:
    """The names of those that the environment's own installers can remove."""
    return tuple(dict.fromkeys(entry.distribution for entry in target.cupy if entry.is_own))


def out_of_the_way(entry: CupyInstallation) -> Fix:
    """How a CuPy that lies outside of the environment no longer meets its imports."""
    what = f"{entry.label} in {entry.location}"
    if entry.place is PackagePlace.PYTHONPATH:
        return Fix(f"Take the folder of {what} off PYTHONPATH.")
    if entry.place is PackagePlace.USER:
        return Fix(f"Remove {what}, or set PYTHONNOUSERSITE=1: these packages of the user's own meet every Python.")
    return Fix(f"{what} is outside of this environment: remove it there, or use an environment without that folder.")
