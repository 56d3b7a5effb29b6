"""The folder in which CuPy keeps the kernels that it has compiled."""

from __future__ import annotations

from gpuenv.doctor.evidence import readings
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import refused_variables
from gpuenv.model.finding import Evidence, Fix, Severity

_NO_TEMPORARY = "there is no folder for temporary files"  # in which CuPy puts a source while it is compiled


@check("CCH701", Cause.KERNEL_CACHE_UNWRITABLE, requires=("WHL503",))  # the same, whichever CuPy it is
def unwritable(facts: Facts) -> Outcome:
    """CuPy cannot write its kernel cache.

    What it means: CuPy writes every kernel that it compiles to a folder, and fails with an error of the file system
    where it cannot: the first operation that needs a new kernel ends there. A home folder that is missing or read-only,
    as in many containers, and a full disk are usual causes; so is a container without any folder for temporary files.
    How it is seen: the folder of CUPY_CACHE_DIR, or ~/.cupy/kernel_cache, and those for temporary files are looked at
    with the rights of this user; nothing is written.
    What to do: let CUPY_CACHE_DIR name a folder that this user may write, or keep kernels in memory with
    CUPY_CACHE_IN_MEMORY=1.
    """
    target = facts.snapshot.target
    if not target.kernel_cache_fault.known or not target.cupy:
        return
    told = facts.snapshot.environment.get("CUPY_CACHE_DIR")
    refused = refused_variables(facts.snapshot.environment, target.cupy[0].release)
    if any(wrong.name == "CUPY_CACHE_DIR" for wrong in refused):
        return  # that variable is told by itself: import cupy ends there already
    temporary = (target.kernel_cache_fault.value or "").startswith(_NO_TEMPORARY)
    name, folder = ("TMPDIR", "/var/cupy-tmp") if temporary else ("CUPY_CACHE_DIR", "/tmp/cupy-cache")  # noqa: S108 - an example
    if facts.snapshot.host.os.value == "windows":
        name, folder = ("TEMP", r"C:\cupy-tmp") if temporary else ("CUPY_CACHE_DIR", r"%LOCALAPPDATA%\cupy-cache")
    yield Symptom(
        f"CuPy cannot write its kernel cache: {target.kernel_cache_fault.value}",
        readings(facts.snapshot, "target.kernel_cache", "target.kernel_cache_fault")
        + (Evidence("environment.CUPY_CACHE_DIR", told or "not set", "the environment"),),
        (
            Fix(f"Name a folder that this user may write: {name}={folder}."),
            Fix("Or keep kernels in memory: CUPY_CACHE_IN_MEMORY=1."),
        ),
    )


@check("CCH702", Cause.KERNEL_CACHE_RACE, requires=("WHL503", "CCH701"))
def shared(facts: Facts) -> Outcome:
    """Several users share one kernel cache.

    What it means: a kernel that one user has compiled is loaded by the other: what one may not read fails, and whoever
    may write there decides what the others run. Files that were left by root (sudo, a container) are of this kind.
    How it is seen: the folder, or files in it, belong to other users.
    What to do: give each user, and in a cluster each job, a folder of its own with CUPY_CACHE_DIR; remove what others
    have left.
    """
    target = facts.snapshot.target
    if not target.kernel_cache_owners.value or not target.cupy:
        return
    yield Symptom(
        f"CuPy's kernel cache, {target.kernel_cache.value}, belongs to other users in whole or in part",
        readings(facts.snapshot, "target.kernel_cache", "target.kernel_cache_owners"),
        (Fix("Name a folder of your own: CUPY_CACHE_DIR=$HOME/.cupy/kernel_cache, or one a job."),),
        Severity.WARNING,
    )
