"""How to make a difference between two machines go away: what is to be changed, and not what comes of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuenv.doctor.packages import pip_fix
from gpuenv.doctor.pixi_way import for_pixi
from gpuenv.model.difference import Difference
from gpuenv.model.finding import Fix
from gpuenv.model.snapshot import Snapshot

_VERSION = "driver.version"
# Facts that nobody sets: they come with the driver's release.
_OF_THE_RELEASE = (_VERSION, "driver.cuda", "driver.branch", "driver.library_version", "driver.module_version")


def undo(difference: Difference, every: Sequence[Difference], here: Snapshot) -> Fix:
    """The step that makes this machine like the one on which it works.

    Args:
        difference: the likeliest one.
        every: all that differs, for what this one comes of.
        here: this machine.
    """
    family, _, name = difference.fact.rpartition(".")
    if family == "target.packages":
        return _package(here, name, difference.there)
    if family == "environment":
        return _variable(name, difference.there)
    if difference.fact in _OF_THE_RELEASE:
        return _driver(difference, every)
    instead = _instead(difference)
    if family.startswith("gpus[]"):
        return Fix(f"Try a GPU as it is there ({difference.fact}: {instead}).")
    if family == "host":
        return Fix(f"Try a system as it is there ({difference.fact}: {instead}).")
    return Fix(f"Make {difference.fact} as it is there: {instead}.")


def _package(here: Snapshot, name: str, release: str | None) -> Fix:
    if release is None:
        step = pip_fix(here, f"Try without {name}, which is not there.", "uninstall", "-y", name)
    else:
        step = pip_fix(here, f"Install {name} {release}, as it is there.", "install", f"{name}=={release}")
    (step,) = for_pixi((step,), here.target)
    return replace(step, safe=False)  # it is an attempt


def _variable(name: str, value: str | None) -> Fix:
    if value is None:
        return Fix(f"Try without {name}, which is not set there.", ("env", "-u", name, "python"))
    return Fix(f"Set {name} as it is there: {value}")


def _driver(difference: Difference, every: Sequence[Difference]) -> Fix:
    """Another driver; of the same one, another libcuda that is loaded."""
    version = next((entry for entry in every if entry.fact == _VERSION), None)
    if version is not None:
        return Fix(f"Try the driver that is there: {_instead(version)}.")
    there, here = difference.shown
    if difference.fact == "driver.cuda":
        return Fix(f"Let the same libcuda be loaded as there: it is of CUDA {there}, and here of {here}.")
    return Fix(f"Try the driver that is there ({difference.fact}: {_instead(difference)}).")


def _instead(difference: Difference) -> str:
    there, here = difference.shown
    return f"{there} instead of {here}"
