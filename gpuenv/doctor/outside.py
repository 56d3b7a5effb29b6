"""CuPys that a target's path leads to and that are not its own: its installers do not reach them. Pure."""

from __future__ import annotations

from gpuenv.model.finding import Fix
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.target import CupyInstallation, PackagePlace, Target


def within_reach(entry: CupyInstallation, target: Target) -> bool:
    """Whether the environment's own installers can remove it.

    Outside of virtual environments pip removes from the user's own packages too: they are where it installs for a user
    who may not write elsewhere (pip, User Installs). In a virtual environment it leaves them, and uv does everywhere.
    """
    if entry.place is not PackagePlace.USER:
        return entry.is_own
    managed = target.externally_managed.value
    return target.kind.value == "system" and "pip" in target.packages and not managed


def own_cupys(target: Target) -> tuple[str, ...]:
    """The names of those that the environment's own installers can remove."""
    return tuple(dict.fromkeys(entry.distribution for entry in target.cupy if within_reach(entry, target)))


def out_of_the_way(entry: CupyInstallation) -> Fix:
    """How a CuPy that lies outside of the environment no longer meets its imports."""
    what = f"{entry.label} in {entry.location}"
    if entry.place is PackagePlace.PYTHONPATH:
        return Fix(f"Take the folder of {what} off PYTHONPATH.")
    if entry.place is PackagePlace.USER:
        return Fix(f"Remove {what}, or set PYTHONNOUSERSITE=1: these packages of the user's own meet every Python.")
    return Fix(f"{what} is outside of this environment: remove it there, or use an environment without that folder.")


def numpy_out_of_the_way(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How a NumPy of PYTHONPATH's or of the user's own no longer comes before the environment's; nothing for no such.

    Whatever is installed into the environment then is not what is imported.
    """
    target = snapshot.target
    module = target.numpy_module.value or ""
    prefix, user = target.prefix.value, target.user_site.value
    told = [entry.rstrip("/") for entry in snapshot.environment.get("PYTHONPATH", "").split(":") if entry]
    leads = next((entry for entry in told if module.startswith(f"{entry}/numpy/")), None)
    if leads is not None and not (prefix and module.startswith(f"{prefix}/")):
        return (Fix(f"The NumPy that is imported lies in {leads}: take that folder off PYTHONPATH."),)
    # A virtual environment's own packages come before those of the user.
    if user and target.kind.value != "venv" and module.startswith(f"{user.rstrip('/')}/numpy/"):
        return (
            Fix(f"The NumPy that is imported is the user's own: remove it from {user}, or set PYTHONNOUSERSITE=1."),
        )
    return ()
