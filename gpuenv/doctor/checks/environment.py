"""What is around CuPy in the environment: other packages, the cache of compiled kernels, CuPy's variables."""

from __future__ import annotations

import re

from gpuenv.doctor.evidence import evidence_of, packages_as_evidence
from gpuenv.doctor.registry import CheckContext, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import conda_record, is_cupy, is_published, is_rocm, refused_variables
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.snapshot import CupyDependent, Snapshot
from gpuenv.model.strings import pattern

_LOOKALIKE = pattern(r"(cupy|cupy-?(cuda|cu|gpu|rocm|hip|amd|nvidia)[\w.-]*|cu-py|cupy-?python)")
_SYSTEM_VARIABLES = ("sys_platform", "platform_system", "os_name")
_SYSTEMS = {"linux": ("linux", "Linux", "posix"), "windows": ("win32", "Windows", "nt")}


@check("WHL514", Cause.UNTRUSTED_PACKAGE_NAME, requires=("ENV401",))
def lookalike(ctx: CheckContext) -> Outcome:
    """A distribution that is not CuPy's own bears such a name.

    What it means: anybody can publish a package whose name looks like a wheel line of CuPy's. What it installs is not
    CuPy, or not CuPy alone, and ran code when it was installed or imported.
    How it is seen: the names of the distributions in the target against those that CuPy has published.
    What to do: see who has published it before you go on; remove it, and install the line that CuPy names.
    """
    known = {line.name for line in ctx.matrix.wheel_lines}
    packages = ctx.snapshot.target.packages
    odd = {
        name: release
        for name, release in packages.items()
        if _LOOKALIKE.fullmatch(name)
        and name not in known
        and not (is_published(name) or (is_cupy(name) and not name.startswith("cupy-cuda")))
    }
    if not odd:
        return
    yield Symptom(
        f"{', '.join(odd)} is no distribution of CuPy's own",
        packages_as_evidence(odd),
        (
            Fix(f"See who has published it, and remove it where you do not know: pip show {' '.join(odd)}"),
            Fix("The wheels of CuPy are named in its installation guide: cupy-cuda12x, cupy-cuda13x."),
        ),
        Severity.WARNING,
    )


@check("WHL515", Cause.CUPY_API_VERSION_INCOMPATIBLE, requires=("WHL502", "WHL503"))
def needs_another_cupy(ctx: CheckContext) -> Outcome:
    """A library above CuPy needs another CuPy than the one that is there.

    What it means: cuDF, cuML, SpaCy and others name the line and the releases of CuPy that they work with. Beside
    another one they fail when they are imported, or later, with an attribute that is missing.
    How it is seen: the Requires-Dist lines in the metadata of the distributions in the target, those of extras aside.
    Conda's packages go by their own records, in which a CuPy is called cupy whatever line the metadata name: of a CuPy
    of conda's the release alone counts.
    What to do: install the CuPy that the library needs, or a release of the library for this CuPy, or give each an
    environment of its own.
    """
    there = {entry.distribution: entry.release for entry in ctx.snapshot.target.cupy}
    if not there:
        return
    for need in ctx.snapshot.target.needs_of_cupy:
        wanted = _unmet(need, ctx.snapshot)
        if wanted is None:
            continue
        found = ", ".join(f"{name} {release}" for name, release in there.items())
        yield Symptom(
            f"{need.name} {need.release} needs {wanted}, found {found}",
            (Evidence(f"Requires-Dist of {need.name}", need.requirement, "its metadata"),)
            + packages_as_evidence(there),
            (Fix(f"Install {wanted}, or a release of {need.name} that fits this CuPy, or part the two."),),
            Severity.WARNING,
        )


def _unmet(need: CupyDependent, snapshot: Snapshot) -> str | None:
    """What is needed and not there; None where it is, where it cannot be understood, or is no CuPy."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - 8 ms, and few need CuPy
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - likewise

    target = snapshot.target
    there = {entry.distribution: entry.release for entry in target.cupy}
    by_conda = all(conda_record(name, target.conda_packages) for name in there)
    try:
        requirement = Requirement(need.requirement)
        name = (
            "cupy" if by_conda and is_cupy(canonicalize_name(requirement.name)) else canonicalize_name(requirement.name)
        )
        if not is_cupy(name) or (requirement.marker and not requirement.marker.evaluate(_markers(snapshot))):
            return None
        release = there.get(name) or ("" if name != "cupy" else next(iter(there.values())))
        met = bool(release) and requirement.specifier.contains(release, prereleases=True)
    except ValueError:  # no requirement, no version, or a marker that compares what cannot be compared
        return None
    return None if met else f"{name}{requirement.specifier}"


def _markers(snapshot: Snapshot) -> dict[str, str]:
    """The variables of environment markers (PEP 508), as far as they are known of the target."""
    host, target = snapshot.host, snapshot.target
    python = target.python.value
    told = dict(zip(_SYSTEM_VARIABLES, _SYSTEMS.get(host.os.value or "", ()), strict=False))
    if python is not None:
        told |= {"python_version": f"{python.major}.{python.minor}", "python_full_version": str(python).rstrip("t")}
    if host.arch.value is not None and host.os.value == "linux":
        told["platform_machine"] = host.arch.value
    return told


_OF_CPU = frozenset(("tensorflow-cpu", "tensorflow-intel", "torch-cpu", "jaxlib-cpu"))


@check("WHL516", Cause.CPU_ONLY_FRAMEWORK, requires=("ENV401", "DRV106", "GPU201", "CTR301"))
def framework_without_gpu(ctx: CheckContext) -> Outcome:
    """A framework beside CuPy is a build for the CPU alone.

    What it means: the machine has a GPU and CuPy uses it, but this framework cannot: arrays cannot be shared without a
    copy, and its computations run on the processor, silently.
    How it is seen: the local version (+cpu) or the name of the distribution; for JAX, that none of its CUDA plug-ins is
    there.
    What to do: install its build for the CUDA major that CuPy uses, where a GPU is meant.
    """
    packages = ctx.snapshot.target.packages
    found = {name: release for name, release in packages.items() if release.endswith("+cpu") or name in _OF_CPU}
    plugged = any(re.fullmatch(r"jax-(cuda|rocm)\d*-(plugin|pjrt)", name) for name in packages)
    if "jax" in packages and "jaxlib" in packages and not plugged and "+cuda" not in packages["jaxlib"]:
        found["jaxlib"] = packages["jaxlib"]
    if not found or not ctx.snapshot.target.cupy or not ctx.snapshot.visible_count.value:
        return
    yield Symptom(
        f"{' and '.join(found)} {'is' if len(found) == 1 else 'are'} built for the CPU alone",
        packages_as_evidence(found),
        (Fix("Where it shall use the GPU, install its build for the CUDA major that CuPy uses."),),
        Severity.NOTE,
    )


_NO_TEMPORARY = "there is no folder for temporary files"  # in which CuPy puts a source while it is compiled


@check("CCH701", Cause.KERNEL_CACHE_UNWRITABLE, requires=("WHL503",))  # the same, whichever CuPy it is
def unwritable(ctx: CheckContext) -> Outcome:
    """CuPy cannot write its kernel cache.

    What it means: CuPy writes every kernel that it compiles to a folder, and fails with an error of the file system
    where it cannot: the first operation that needs a new kernel ends there. A home folder that is missing or read-only,
    as in many containers, and a full disk are usual causes; so is a container without any folder for temporary files.
    How it is seen: the folder of CUPY_CACHE_DIR, or ~/.cupy/kernel_cache, and those for temporary files are looked at
    with the rights of this user; nothing is written.
    What to do: let CUPY_CACHE_DIR name a folder that this user may write, or keep kernels in memory with
    CUPY_CACHE_IN_MEMORY=1.
    """
    target = ctx.snapshot.target
    if not target.kernel_cache_fault.known or not target.cupy:
        return
    refused = refused_variables(ctx.snapshot.environment, target.cupy[0].release)
    if any(wrong.name == "CUPY_CACHE_DIR" for wrong in refused):
        return  # that variable is told by itself: import cupy ends there already
    temporary = (target.kernel_cache_fault.value or "").startswith(_NO_TEMPORARY)
    name, folder = ("TMPDIR", "/var/cupy-tmp") if temporary else ("CUPY_CACHE_DIR", "/tmp/cupy-cache")  # noqa: S108 - an example
    if ctx.snapshot.host.os.value == "windows":
        name, folder = ("TEMP", r"C:\cupy-tmp") if temporary else ("CUPY_CACHE_DIR", r"%LOCALAPPDATA%\cupy-cache")
    yield Symptom(
        f"CuPy cannot write its kernel cache: {target.kernel_cache_fault.value}",
        evidence_of(ctx.snapshot, "target.kernel_cache", "target.kernel_cache_fault", "environment.CUPY_CACHE_DIR"),
        (
            Fix(f"Name a folder that this user may write: {name}={folder}."),
            Fix("Or keep kernels in memory: CUPY_CACHE_IN_MEMORY=1."),
        ),
    )


@check("CCH702", Cause.KERNEL_CACHE_RACE, requires=("WHL503", "CCH701"))
def shared(ctx: CheckContext) -> Outcome:
    """Several users share one kernel cache.

    What it means: a kernel that one user has compiled is loaded by the other: what one may not read fails, and whoever
    may write there decides what the others run. Files that were left by root (sudo, a container) are of this kind.
    How it is seen: the folder, or files in it, belong to other users.
    What to do: give each user, and in a cluster each job, a folder of its own with CUPY_CACHE_DIR; remove what others
    have left.
    """
    target = ctx.snapshot.target
    if not target.kernel_cache_owners.value or not target.cupy:
        return
    yield Symptom(
        f"CuPy's kernel cache, {target.kernel_cache.value}, belongs to other users in whole or in part",
        evidence_of(ctx.snapshot, "target.kernel_cache", "target.kernel_cache_owners"),
        (Fix("Name a folder of your own: CUPY_CACHE_DIR=$HOME/.cupy/kernel_cache, or one a job."),),
        Severity.WARNING,
    )


@check("ENV402", Cause.CUPY_VARIABLE_INVALID, requires=("WHL503",))
def variable_refused(ctx: CheckContext) -> Outcome:
    """A variable of CuPy's has a value that CuPy refuses.

    What it means: CuPy reads its variables when it is imported, and ends with a ValueError at a value that it cannot
    read; a wrong memory limit ends the first allocation. Nothing else is broken.
    How it is seen: the variables of the caller whose names begin with CUPY_, against what CuPy takes.
    What to do: unset the variable or correct it where the shell, the job script, the container or the notebook sets it.
    """
    cupy = ctx.snapshot.target.cupy
    if not cupy or any(is_rocm(entry.distribution) for entry in cupy):
        return
    for wrong in refused_variables(ctx.snapshot.environment, cupy[0].release):
        yield Symptom(
            f"{wrong.name}={wrong.value or '(empty)'}: CuPy refuses this value",
            (
                Evidence(f"environment.{wrong.name}", repr(wrong.value), "the environment"),
                Evidence("taken", wrong.taken, f"CuPy {cupy[0].release}"),
            ),
            (Fix(f"Unset it, or correct it: {wrong.taken}.", ("env", "-u", wrong.name, "gpuenv", "doctor")),),
        )
