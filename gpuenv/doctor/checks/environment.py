"""Checks of CuPy's surroundings in the environment: other packages, the kernel cache, CuPy's variables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuenv.doctor.evidence import evidence_of, packages_as_evidence
from gpuenv.doctor.fixes.variables import change_fix, own_folder, variable_fixes
from gpuenv.doctor.registry import CheckContext, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import conda_record, is_cupy, is_published, is_rocm, refused_variables
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.markers import environment_markers
from gpuenv.model.snapshot import Container, Dependent, Snapshot
from gpuenv.model.strings import pattern

_LOOKALIKE = pattern(r"(cupy|cupy-?(cuda|cu|gpu|rocm|hip|amd|nvidia)[\w.-]*|cu-py|cupy-?python)")


@check("WHL514", Cause.UNTRUSTED_PACKAGE_NAME, requires=("ENV401",))
def lookalike(ctx: CheckContext) -> Outcome:
    """A distribution with a name like CuPy's is not CuPy's own.

    What it means: anyone can publish a package whose name looks like a wheel line of CuPy. It installs something other
    than CuPy, or more than CuPy, and its code ran when it was installed or imported.
    How it is seen: the names of the distributions in the target are compared with those that CuPy has published.
    What to do: find out who published it before you continue; remove it, and install one of CuPy's wheel lines.
    """
    known = {line.name for line in ctx.matrix.wheel_lines}
    packages = ctx.snapshot.target.packages
    unknown = {
        name: release
        for name, release in packages.items()
        if _LOOKALIKE.fullmatch(name)
        and name not in known
        and not (is_published(name) or (is_cupy(name) and not name.startswith("cupy-cuda")))
    }
    if not unknown:
        return
    yield Symptom(
        f"{', '.join(unknown)} is not a distribution of CuPy",
        packages_as_evidence(unknown),
        (
            Fix(f"Find out who published it, and remove it if you do not know it: pip show {' '.join(unknown)}"),
            Fix("CuPy's installation guide lists its wheels: cupy-cuda12x, cupy-cuda13x."),
        ),
        Severity.WARNING,
    )


@check("WHL515", Cause.CUPY_API_VERSION_INCOMPATIBLE, requires=("WHL502", "WHL503"))
def needs_another_cupy(ctx: CheckContext) -> Outcome:
    """A library that uses CuPy needs another CuPy release or wheel line than the installed one.

    What it means: cuDF, cuML, spaCy and others declare the line and the releases of CuPy that they work with. With
    another one they fail when they are imported, or later, with a missing attribute.
    How it is seen: the Requires-Dist lines in the metadata of the distributions in the target, without those of extras.
    Conda's packages follow their own records, in which CuPy is called cupy whatever line the metadata names: for
    conda's CuPy only the release counts.
    What to do: install the CuPy that the library needs, or a release of the library for this CuPy, or give each an
    environment of its own.
    """
    installed = {entry.distribution: entry.release for entry in ctx.snapshot.target.cupy}
    if not installed:
        return
    for need in ctx.snapshot.target.needs_of_cupy:
        needed = _unmet(need, ctx.snapshot)
        if needed is None:
            continue
        found = ", ".join(f"{name} {release}" for name, release in installed.items())
        yield Symptom(
            f"{need.name} {need.release} needs {needed}, found {found}",
            (Evidence(f"Requires-Dist of {need.name}", need.requirement, "its metadata"),)
            + packages_as_evidence(installed),
            (Fix(f"Install {needed}, or a release of {need.name} that fits this CuPy, or separate the two."),),
            Severity.WARNING,
        )


def _unmet(need: Dependent, snapshot: Snapshot) -> str | None:
    """The CuPy that is needed and not installed; None if it is, if the requirement is invalid, or is not for CuPy."""
    target = snapshot.target
    installed = {entry.distribution: entry.release for entry in target.cupy}
    by_conda = all(conda_record(name, target.conda_packages) for name in installed)
    try:
        requirement = Requirement(need.requirement)
        name: str = canonicalize_name(requirement.name)
        if not is_cupy(name) or (requirement.marker and not requirement.marker.evaluate(environment_markers(snapshot))):
            return None
        name = "cupy" if by_conda else name
        release = installed.get(name) or ("" if name != "cupy" else next(iter(installed.values())))
        met = bool(release) and requirement.specifier.contains(release, prereleases=True)
    except ValueError:  # invalid requirement, version or marker
        return None
    return None if met else f"{name}{requirement.specifier}"


_CPU_BUILDS = frozenset(("tensorflow-cpu", "tensorflow-intel", "torch-cpu", "jaxlib-cpu"))


@check("WHL516", Cause.CPU_ONLY_FRAMEWORK, requires=("ENV401", "DRV106", "GPU201", "CTR301"))
def framework_without_gpu(ctx: CheckContext) -> Outcome:
    """A framework next to CuPy is a build for the CPU only.

    What it means: the machine has a GPU and CuPy uses it, but this framework cannot: arrays cannot be shared without a
    copy, and its computations silently run on the CPU.
    How it is seen: the local version (+cpu) or the name of the distribution; for JAX, that none of its CUDA plug-ins is
    installed. A jaxlib of conda is left out: only its build string shows whether it is for CUDA.
    What to do: install its build for the CUDA major that CuPy uses, if you want it to use the GPU.
    """
    packages = ctx.snapshot.target.packages
    found = {name: release for name, release in packages.items() if release.endswith("+cpu") or name in _CPU_BUILDS}
    has_plugin = any(re.fullmatch(r"jax-(cuda|rocm)\d*-(plugin|pjrt)", name) for name in packages)
    not_of_conda = packages.keys() - ctx.snapshot.target.conda_packages.keys()
    if "jax" in packages and "jaxlib" in not_of_conda and not has_plugin and "+cuda" not in packages["jaxlib"]:
        found["jaxlib"] = packages["jaxlib"]
    if not found or not ctx.snapshot.target.cupy or not ctx.snapshot.visible_count.value:
        return
    yield Symptom(
        f"{' and '.join(found)} {'is' if len(found) == 1 else 'are'} built for the CPU only",
        packages_as_evidence(found),
        (Fix("To use the GPU, install its build for the CUDA major that CuPy uses."),),
        Severity.NOTE,
    )


_FULL = pattern(r"the file system of (.+) is full")
_NO_TEMPORARY = "there is no folder for temporary files"  # in which CuPy puts sources during compilation


@check("CCH701", Cause.KERNEL_CACHE_UNWRITABLE, requires=("WHL503",))  # the same for every CuPy
def unwritable(ctx: CheckContext) -> Outcome:
    """CuPy cannot write its kernel cache.

    What it means: CuPy writes every kernel that it compiles to a folder, and fails with a file system error if it
    cannot: the first operation that needs a new kernel fails. Usual causes are a home folder that is missing or
    read-only, as in many containers, a full disk, and a container without a folder for temporary files.
    How it is seen: the permissions of the folder of CUPY_CACHE_DIR, or ~/.cupy/kernel_cache, and of those for temporary
    files are checked for this user; nothing is written.
    What to do: change the folder's owner to this user, or set CUPY_CACHE_DIR to a folder that only this user can write
    to, since CuPy runs the kernels in it; or keep kernels in memory with CUPY_CACHE_IN_MEMORY=1.
    """
    target = ctx.snapshot.target
    if not target.kernel_cache_fault.known or not target.cupy:
        return
    refused = refused_variables(ctx.snapshot.environment, target.cupy[0].release)
    if any(wrong.name == "CUPY_CACHE_DIR" for wrong in refused):
        return  # ENV402 reports that variable: import cupy already fails
    yield Symptom(
        f"CuPy cannot write its kernel cache: {target.kernel_cache_fault.value}",
        evidence_of(ctx.snapshot, "target.kernel_cache", "target.kernel_cache_fault", "environment.CUPY_CACHE_DIR"),
        tuple(_cache_fixes(ctx.snapshot)),
    )


def _cache_fixes(snapshot: Snapshot) -> Iterator[Fix]:
    """How to get a folder of one's own: never one that others can write to, since CuPy runs the kernels in it."""
    cache, fault = snapshot.target.kernel_cache.value or "", snapshot.target.kernel_cache_fault.value or ""
    is_windows = snapshot.host.os.value == "windows"
    if fault.startswith(_NO_TEMPORARY):
        own = "mkdir -p -m 700 ~/tmp && export TMPDIR=~/tmp"
        yield Fix(
            "Use a folder of your own.", shell_line=r'$env:TEMP = "$env:LOCALAPPDATA\Temp"' if is_windows else own
        )
        if snapshot.host.container.value is Container.DOCKER:
            yield Fix("Or start the container with one.", ("docker", "run", "--tmpfs", "/tmp", "IMAGE"))  # noqa: S108 - its own
        return
    home, full = cache.rpartition("/")[0], _FULL.fullmatch(fault)
    if full:
        yield Fix("See which file system is full, and delete what is not needed.", ("df", "-h", full[1]))
    elif "CUPY_CACHE_DIR" in snapshot.environment:
        yield from variable_fixes(snapshot, "CUPY_CACHE_DIR", text="Unset it: CuPy then uses ~/.cupy/kernel_cache.")
    elif is_windows:
        line = r'$env:CUPY_CACHE_DIR = "$env:LOCALAPPDATA\cupy-cache"'
        yield Fix("Use a folder of your account.", shell_line=line)
    elif fault.startswith(home) and home.endswith("/.cupy"):
        yield Fix("Make the folder your own: root has created it, as with sudo.", shell_line=own_folder(home))
    else:
        line = 'export CUPY_CACHE_DIR="$(mktemp -d)"'
        yield Fix("Use a new folder of your own, until the home folder is writable.", shell_line=line)
    yield change_fix(snapshot, "CUPY_CACHE_IN_MEMORY", "1", "Or keep kernels in memory.")


@check("CCH702", Cause.KERNEL_CACHE_RACE, requires=("WHL503", "CCH701"))
def shared(ctx: CheckContext) -> Outcome:
    """Several users share one kernel cache.

    What it means: a kernel that one user has compiled is loaded by the others: a file that they may not read fails, and
    a user with write access decides what they run. Files left by root (sudo, a container) have the same effect.
    How it is seen: the folder, or files in it, belong to other users.
    What to do: give each user, and in a cluster each job, a separate folder with CUPY_CACHE_DIR; remove the files of
    other users.
    """
    target = ctx.snapshot.target
    if not target.kernel_cache_owners.value or not target.cupy:
        return
    yield Symptom(
        f"CuPy's kernel cache, {target.kernel_cache.value}, belongs wholly or partly to other users",
        evidence_of(ctx.snapshot, "target.kernel_cache", "target.kernel_cache_owners"),
        tuple(_own_cache_fixes(ctx.snapshot)),
        Severity.WARNING,
    )


def _own_cache_fixes(snapshot: Snapshot) -> Iterator[Fix]:
    cache = snapshot.target.kernel_cache.value or ""
    if "CUPY_CACHE_DIR" in snapshot.environment:
        text = "Unset it: CuPy then uses ~/.cupy/kernel_cache, which no other user shares."
        yield from variable_fixes(snapshot, "CUPY_CACHE_DIR", text=text)
    elif snapshot.host.os.value != "windows":
        yield Fix("Make the folder and its files your own.", shell_line=own_folder(cache))
    yield change_fix(snapshot, "CUPY_CACHE_IN_MEMORY", "1", "Or keep kernels in memory.")


@check("ENV402", Cause.CUPY_VARIABLE_INVALID, requires=("WHL503",))
def variable_refused(ctx: CheckContext) -> Outcome:
    """A CuPy variable has an invalid value.

    What it means: CuPy reads its variables when it is imported, and fails with a ValueError at an invalid value; an
    invalid memory limit fails the first allocation. Nothing else is broken.
    How it is seen: the variables whose names begin with CUPY_ are compared with the values that CuPy accepts.
    What to do: unset or correct the variable where the shell, the job script, the container or the notebook sets it.
    """
    cupy = ctx.snapshot.target.cupy
    if not cupy or any(is_rocm(entry.distribution) for entry in cupy):
        return
    for wrong in refused_variables(ctx.snapshot.environment, cupy[0].release):
        yield Symptom(
            f"{wrong.name}={wrong.value or '(empty)'}: CuPy does not accept this value",
            (
                Evidence(f"environment.{wrong.name}", repr(wrong.value), "the environment"),
                Evidence("accepted", wrong.taken, f"CuPy {cupy[0].release}"),
            ),
            variable_fixes(ctx.snapshot, wrong.name, text=f"Unset it, or set it to {wrong.taken}."),
        )
