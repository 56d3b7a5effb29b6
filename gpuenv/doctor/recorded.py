"""A CuPy that conda has on record alone. Pure."""

from __future__ import annotations

from gpuenv.doctor.evidence import fact
from gpuenv.doctor.packages import pip_fix
from gpuenv.doctor.registry import Facts, Symptom
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence
from gpuenv.model.lines import is_cupy


def recorded_alone(facts: Facts) -> Symptom | None:
    """What is told where its files are gone: conda takes it for installed, and puts nothing in unless it is forced."""
    target = facts.snapshot.target
    recorded = {name: release for name, release in target.conda_packages.items() if is_cupy(name)}
    if not recorded or target.cupy or target.cupy_module.known:
        return None
    named = [f"{name}=={release}" for name, release in recorded.items()]
    return Symptom(
        f"Conda has {' and '.join(recorded)} on record, and CuPy's files are not there",
        tuple(Evidence(f"target.conda_packages.{name}", release, "conda-meta") for name, release in recorded.items())
        + fact("target.prefix", target.prefix),
        (pip_fix(facts.snapshot, "Have its files put in anew.", "install", "--force-reinstall", *named),),
        cause=Cause.CORRUPT_INSTALLATION,
    )
