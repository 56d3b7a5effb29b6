"""Checks of the installed CuPy: one copy, its files, what an import finds, its interpreter, its dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.packages import (
    delete_fix,
    exclude_fixes,
    install_fixes,
    keep_conda_fixes,
    leftovers_fix,
    pip_fix,
    single_cupy_fixes,
    without_cache,
)
from gpuenv.doctor.fixes.variables import variable_fixes
from gpuenv.doctor.installed_cupy import (
    empty_metadata,
    installed_cuda_major,
    is_clearable,
    is_removable,
    leftover_location,
    removable_cupys,
    stale_metadata,
)
from gpuenv.doctor.registry import CheckContext, Component, NotKnown, Outcome, RepairKind, Symptom, check
from gpuenv.matrix.resolve import changes_text
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import conda_record, is_cupy
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import gpu_is_absent
from gpuenv.model.nvidia import cuda_major_of_wheel
from gpuenv.model.snapshot import CupyInstallation, FileFault, FileState, SourceState, Target
from gpuenv.model.strings import pattern

ONE_CUPY = ("WHL502", "WHL503")  # requirements of a check of the installed CuPy: exactly one is installed
_ANOTHER = Fix("If you mean another environment: gpuenv doctor --python PATH")


@check("WHL502", Cause.MULTIPLE_CUPY_PACKAGES, Cause.MIXED_PIP_CONDA, requires=("ENV401",), repair=RepairKind.REPLACE)
def two_cupys(ctx: CheckContext) -> Outcome:
    """Two CuPy distributions share one environment.

    What it means: every wheel line installs the same module, cupy. The files of the distribution installed last win,
    and removing one removes files of the other. If one line is in two folders of the path, the first hides the second.
    How it is seen: the metadata of the distributions in the target.
    What to do: remove all of them, then install the right one. Installers do not remove distributions outside of the
    environment: remove that folder from PYTHONPATH, or remove the distribution there. If conda installed one and pip
    another, remove pip's and reinstall conda's.
    """
    found = ctx.snapshot.target.cupy
    if len(found) < 2:  # noqa: PLR2004 - two
        return
    names = tuple(dict.fromkeys(entry.distribution for entry in found))
    title = f"{len(names)} CuPy distributions share the target: {' and '.join(names)}"
    if len(names) == 1:
        title = f"{names[0]} is on the target's path {len(found)} times; the first one is used"
    records = {name: conda_record(name, ctx.snapshot.target.conda_packages) for name in names}
    by_conda = tuple(record for record in records.values() if record)
    inside = removable_cupys(ctx.snapshot.target)  # distributions outside have overwritten nothing
    foreign = tuple(name for name, record in records.items() if not record and name in inside)
    mixed = bool(by_conda and foreign)
    if mixed:
        title = f"conda's {', '.join(by_conda)} and pip's {', '.join(foreign)} share the target"
    yield Symptom(
        title,
        tuple(Evidence(entry.distribution, entry.release, entry.location or "its metadata") for entry in found),
        keep_conda_fixes(ctx, foreign) if mixed else single_cupy_fixes(ctx),
        cause=Cause.MIXED_PIP_CONDA if mixed else None,
        # One line twice, such as in a venv with system packages: Python imports the first one completely.
        severity=Severity.WARNING if len(names) == 1 else Severity.ERROR,
    )


@check(
    "WHL503",
    Cause.CUPY_NOT_INSTALLED,
    Cause.CORRUPT_INSTALLATION,
    Cause.TARGET_ENVIRONMENT_BROKEN,
    requires=("ENV401", "WHL501"),
    repair=RepairKind.REPLACE,
    missing=Component.CUPY,
)
def cupy_missing(ctx: CheckContext) -> Outcome:
    """CuPy is not in the target environment.

    What it means: the environment has no CuPy under any name. It may be in another environment, or its files exist
    without the metadata of a distribution because an installation or a removal was interrupted, or conda lists it but
    another program, such as pip, removed its files. Or an upgrade of the system replaced the environment's Python.
    How it is seen: the metadata of the distributions in the target, conda's records, and the file that an import would
    use; nothing is imported.
    What to do: install the wheel that fits, or select another environment with --python; remove leftovers of another
    CuPy first.
    """
    snapshot = ctx.snapshot
    is_assumed = "target.cupy" in snapshot.assumed
    if snapshot.target.cupy:
        return
    if snapshot.source("target").state is not SourceState.ANSWERED and not is_assumed:
        yield NotKnown("the target was not probed")
        return
    if not is_assumed and (site := leftover_location(snapshot.target)) is not None:
        yield Symptom(
            "Files of CuPy exist, but no distribution owns them: an installation or a removal was interrupted",
            evidence_of(snapshot, "target.cupy_module")
            + tuple(Evidence("target.left_metadata", e.path, "has no name") for e in empty_metadata(snapshot.target))
            + evidence_of(snapshot, "target.kind"),
            (
                leftovers_fix(snapshot, site, *(entry.path for entry in empty_metadata(snapshot.target))),
                *(without_cache(install_fixes(ctx, "Then install the wheel that fits.")) or _fixes_after_change(ctx)),
            ),
            cause=Cause.CORRUPT_INSTALLATION,
        )
        return
    if not is_assumed and (recorded := _recorded_alone(ctx)) is not None:
        yield recorded
        return
    if not is_assumed and (replaced := _replaced_python(ctx)) is not None:
        yield replaced
        return
    yield Symptom(
        "CuPy is not in the target environment",
        evidence_of(snapshot, "target.executable", "target.kind"),
        (
            *(
                Fix(f"If you mean {path}, select it.", ("gpuenv", "doctor", "--python", path))
                for path in snapshot.target.environments_near
            ),
            *(install_fixes(ctx, "Install the wheel that fits.") or _fixes_after_change(ctx)),
            *(() if snapshot.target.environments_near else (_ANOTHER,)),
        ),
    )


def _replaced_python(ctx: CheckContext) -> Symptom | None:
    """A virtual environment whose interpreter now is of another release, so that it does not see its packages.

    An upgrade of the distribution replaces the interpreter that the environment links to; the packages are in a folder
    named after the minor release.
    """
    target = ctx.snapshot.target
    created, now = target.venv_python.value, target.python.value
    before = ".".join((created or "").split(".")[:2])
    if "target.python" in ctx.snapshot.assumed or not before or now is None or before == f"{now.major}.{now.minor}":
        return None
    return Symptom(
        f"The environment was created with Python {before}, but its interpreter is Python {now.major}.{now.minor} now",
        evidence_of(ctx.snapshot, "target.executable", "target.python", "target.venv_python"),
        (
            Fix(
                f"Create a new environment, and install the packages again; these are in the folder of Python {before}."
            ),
            *install_fixes(ctx, "Or install CuPy for the new Python; the other packages are still missing then."),
        ),
        cause=Cause.TARGET_ENVIRONMENT_BROKEN,
    )


def _fixes_after_change(ctx: CheckContext) -> tuple[Fix, ...]:
    """How to install CuPy after the smallest change that makes one fit; empty without an NVIDIA GPU."""
    snapshot, better = ctx.snapshot, ctx.resolution.next_better
    is_other_platform = bool(snapshot.amd_gpus) or snapshot.host.os.value == "darwin"
    if better is None or gpu_is_absent(snapshot) or (is_other_platform and not ctx.needs.gpus):
        return ()
    return (Fix(f"With {changes_text(better)}, install {better.candidate.label}: gpuenv install"),)


def _recorded_alone(ctx: CheckContext) -> Symptom | None:
    """CuPy's files are gone but conda still lists it: conda reinstalls only if forced."""
    target = ctx.snapshot.target
    recorded = {name: release for name, release in target.conda_packages.items() if is_cupy(name)}
    if not recorded or target.cupy or target.cupy_module.known:
        return None
    pins = [f"{name}=={release}" for name, release in recorded.items()]
    return Symptom(
        f"Conda lists {' and '.join(recorded)}, but CuPy's files are missing",
        tuple(Evidence(f"target.conda_packages.{name}", release, "conda-meta") for name, release in recorded.items())
        + evidence_of(ctx.snapshot, "target.prefix"),
        (pip_fix(ctx.snapshot, "Reinstall it.", "install", "--force-reinstall", *pins),),
        cause=Cause.CORRUPT_INSTALLATION,
    )


_ESSENTIAL = pattern(r"\.(so(\.[\d.]+)?|pyd?|json|h|hpp|cuh|inl)$")
_BINARY = pattern(r"\.(so(\.[\d.]+)?|pyd)$")
_UNUSED_FOLDERS = {"tests", "testing", "test", "doc", "docs", "licenses"}
_GONE = (FileState.MISSING, FileState.UNREADABLE)
_CHANGED = (FileState.WRONG_SIZE, FileState.CHANGED)
_PERMISSIONS = Fix("Let this user enter their folders and read them, or create your own environment.")
_SHOWN = 5
# CUDA as conda-forge and NVIDIA's channel package it.
_CONDA_CUDA = pattern(r"(cudatoolkit|cuda-(nvrtc|cudart)|lib(cublas|cufft|curand|cusolver|cusparse|nvjitlink))")


@check("WHL510", Cause.CORRUPT_INSTALLATION, requires=ONE_CUPY, repair=RepairKind.REINSTALL)
def damaged_files(ctx: CheckContext) -> Outcome:
    """Installed files of CuPy or of the CUDA wheels are missing or changed.

    What it means: an installation was interrupted, the disk was full, files were deleted to make an image smaller, or
    another distribution that owns the same files was removed or installed over them. Missing files fail when they are
    used, often with an error that names something else.
    How it is seen: every file in the RECORD of these distributions is looked up and its size compared; with --deep its
    digest too. Tests and documentation do not count, and a changed text file is only a warning.
    What to do: reinstall the distributions named in the finding, with --force-reinstall.
    """
    target = ctx.snapshot.target
    is_assumed = "target.cupy" in ctx.snapshot.assumed
    if (
        not target.file_faults_count.known
        and not is_assumed
        and ctx.snapshot.source("files").state is not SourceState.NOT_ASKED
    ):
        yield NotKnown(target.file_faults_count.reason or "the files were not checked")
        return
    paths = ((entry, PurePosixPath(entry.path)) for entry in target.file_faults)
    essential = [
        entry for entry, path in paths if _ESSENTIAL.search(path.name) and _UNUSED_FOLDERS.isdisjoint(path.parts)
    ]
    broken = [
        entry
        for entry in essential
        if entry.state in _GONE or (entry.state is not FileState.OWNED_TWICE and bool(_BINARY.search(entry.path)))
    ]
    for found, severity in ((broken, Severity.ERROR), ([e for e in essential if e not in broken], Severity.WARNING)):
        if found:
            yield _damaged(ctx, found, severity)


def _damaged(ctx: CheckContext, found: list[FileFault], severity: Severity) -> Symptom:
    names = sorted({name for entry in found for name in entry.distributions})
    states = sorted({_STATE_TEXTS[entry.state] for entry in found})
    count = "1 file" if len(found) == 1 else f"{len(found)} files"
    if ctx.snapshot.target.file_faults_count.value != len(ctx.snapshot.target.file_faults):
        count = f"At least {count}"
    return Symptom(
        f"{count} of {', '.join(names)} {'is' if len(found) == 1 else 'are'} {' or '.join(states)}",
        tuple(Evidence(entry.path, _STATE_TEXTS[entry.state], "RECORD") for entry in found[:_SHOWN]),
        (_PERMISSIONS,)
        if all(entry.state is FileState.UNREADABLE for entry in found)
        else _reinstall_fixes(ctx, names, from_cache=not any(entry.state in _CHANGED for entry in found)),
        severity,
    )


def _reinstall_fixes(ctx: CheckContext, names: list[str], *, from_cache: bool) -> tuple[Fix, ...]:
    """The fixes that reinstall packages with faulty files, by default with the installer's cache.

    If CUDA wheels of two majors share files, the ones that CuPy does not use are removed first, unless a framework
    needs them.
    """
    packages, cupy_major = ctx.snapshot.target.packages, installed_cuda_major(ctx.snapshot.target)
    majors = {name: cuda_major_of_wheel(name, packages[name]) for name in names if name in packages}
    needed = {entry.cuda_major for entry in ctx.needs.brings if not entry.is_library}
    kept = {None, cupy_major, *needed}
    others = [name for name, major in majors.items() if cupy_major in majors.values() and major not in kept]
    pins = [f"{name}=={packages[name]}" for name in majors if name not in others]
    if not pins:
        return (Fix("Reinstall them; their metadata does not contain the release."),)
    text = "Then reinstall the others." if others else "Reinstall them."
    reinstall = pip_fix(ctx.snapshot, text, "install", "--force-reinstall", "--no-deps", *pins)
    reinstall = reinstall if from_cache else without_cache((reinstall,))[0]
    if not others:
        return (reinstall,)
    # A package that the matrix does not know may load them, so the user decides.
    text = "Remove the wheels of a CUDA major other than CuPy's, if nothing else needs them."
    return (pip_fix(ctx.snapshot, text, "uninstall", "-y", *others)._replace(safe=False), reinstall)


_STATE_TEXTS = {
    FileState.MISSING: "missing",
    FileState.UNREADABLE: "unreadable for this user",
    FileState.WRONG_SIZE: "of the wrong size",
    FileState.CHANGED: "changed",
    FileState.OWNED_TWICE: "claimed by two distributions",
}


@check("WHL520", Cause.CORRUPT_INSTALLATION, requires=("ENV401",), repair=RepairKind.CLEAR)
def left_metadata(ctx: CheckContext) -> Outcome:
    """Metadata of another release of a distribution is next to its own.

    What it means: an update was interrupted after the new files were installed, so one folder has metadata of two
    releases. Python imports the files; pip, uv and other programs may use the older metadata, and refuse or change
    something without need.
    How it is seen: two metadata folders of one name in one folder of the path; the right one is that whose RECORD
    matches the files.
    What to do: remove the folder of the stale metadata, whose path the finding names.
    """
    packages = ctx.snapshot.target.packages
    stale = stale_metadata(ctx.snapshot.target)
    if not stale:
        return
    text = ", ".join(f"{entry.name} {entry.release} (installed: {packages[entry.name]})" for entry in stale)
    yield Symptom(
        f"Stale metadata of other releases: {text}",
        tuple(Evidence(entry.path, entry.release or "", "its metadata") for entry in stale),
        tuple(
            delete_fix(ctx.snapshot, f"Delete {entry.path}.", entry.path)._replace(
                safe=is_clearable(entry, ctx.snapshot.target)
            )
            for entry in stale
        ),
        Severity.WARNING,
    )


@check("WHL511", Cause.CUPY_SHADOWED, requires=ONE_CUPY)
def shadowed(ctx: CheckContext) -> Outcome:
    """Another file or folder named cupy is imported instead of CuPy.

    What it means: Python imports the first module of that name on its path: your own script cupy.py, or a folder cupy
    with an __init__.py, hides the installed one.
    How it is seen: Python's own finders determine which file an import would use in the current folder; nothing is
    imported. A program started as "python script.py" searches the script's folder instead.
    What to do: rename the file, remove its __pycache__, or start the program in another folder.
    """
    target = ctx.snapshot.target
    module = target.cupy_module.value
    installed = [entry.module for entry in target.cupy if entry.module]
    if module is None or not installed or module in installed:
        return
    yield Symptom(
        f"import cupy finds {module}, not the installed CuPy",
        evidence_of(ctx.snapshot, "target.cupy_module")
        + tuple(Evidence(entry.distribution, entry.module or "", "its metadata") for entry in target.cupy),
        (Fix("Rename that file or folder, or start the program in another folder."),),
        # A file in the working directory affects only programs that are started there.
        Severity.ERROR if _on_path(ctx, module) else Severity.WARNING,
    )


@check("WHL519", Cause.CUPY_SHADOWED, requires=(*ONE_CUPY, "WHL511"))
def pathfinder_hidden(ctx: CheckContext) -> Outcome:
    """Another file or folder named cuda hides the cuda.pathfinder that CuPy needs.

    What it means: CuPy 14 imports cuda.pathfinder. Your own script cuda.py, or a folder cuda with an __init__.py and
    without pathfinder, comes first, and import cupy ends with a ModuleNotFoundError.
    How it is seen: Python's own finders determine which file an import of cuda would use in the current folder; nothing
    is imported.
    What to do: rename the file, remove its __pycache__, or start the program in another folder.
    """
    target = ctx.snapshot.target
    module = target.pathfinder_hidden_by.value
    if module is None or not target.cupy or not any("cuda-pathfinder" in text for text in target.cupy[0].requires):
        return
    yield Symptom(
        f"import cuda.pathfinder finds {module}, so CuPy cannot be imported",
        evidence_of(ctx.snapshot, "target.pathfinder_hidden_by")
        + tuple(Evidence(f"Requires-Dist of {entry.distribution}", "cuda-pathfinder", "") for entry in target.cupy[:1]),
        (Fix("Rename that file or folder, or start the program in another folder."),),
        Severity.ERROR if _on_path(ctx, module) else Severity.WARNING,
    )


@check("WHL518", Cause.NUMPY_INCOMPATIBLE, requires=(*ONE_CUPY, "WHL511"))
def numpy_shadowed(ctx: CheckContext) -> Outcome:
    """The imported NumPy is not NumPy, or is for another interpreter.

    What it means: Python imports the first module of that name on its path: a script called numpy.py, or the packages
    of another Python that PYTHONPATH adds, as environment modules of clusters do. CuPy needs NumPy, so import cupy
    fails too.
    How it is seen: Python's own finders determine which file an import would use in the current folder, and the names
    of its extension modules are compared with those that this interpreter loads.
    What to do: unset PYTHONPATH, rename the file, or start the program in another folder.
    """
    target = ctx.snapshot.target
    module = target.numpy_module.value
    if not target.cupy or not target.numpy_fault.known or module is None:
        return
    yield Symptom(
        f"This interpreter cannot import NumPy: {target.numpy_fault.value}",
        evidence_of(ctx.snapshot, "target.numpy_module", "target.numpy_fault", "target.numpy"),
        (
            *(variable_fixes(ctx.snapshot, "PYTHONPATH") if _is_in_pythonpath(ctx, module) else ()),
            Fix("Rename that file or folder, or start the program in another folder."),
        ),
        Severity.ERROR if _on_path(ctx, module) else Severity.WARNING,
    )


def _on_path(ctx: CheckContext, module: str) -> bool:
    """Whether a folder of PYTHONPATH or of the environment contains the module."""
    prefix = ctx.snapshot.target.prefix.value
    return _is_in_pythonpath(ctx, module) or bool(prefix and _is_within(ctx, module, prefix))


def _is_in_pythonpath(ctx: CheckContext, module: str) -> bool:
    separator = ";" if ctx.snapshot.host.os.value == "windows" else ":"
    folders = ctx.snapshot.environment.get("PYTHONPATH", "").split(separator)
    return any(_is_within(ctx, module, folder) for folder in folders if folder)


def _is_within(ctx: CheckContext, module: str, folder: str) -> bool:
    kind = PureWindowsPath if ctx.snapshot.host.os.value == "windows" else PurePosixPath
    return kind(module).is_relative_to(folder)


@check("WHL513", Cause.MIXED_PIP_CONDA, requires=("ENV401", "WHL502"))
def pip_and_conda(ctx: CheckContext) -> Outcome:
    """Pip and conda have each installed CuPy, or the CUDA that it loads, into one environment.

    What it means: neither knows the other's files: an update by one breaks the packages of the other, and the loaded
    libraries come from two CUDA releases.
    How it is seen: conda's records, the metadata of the distributions, and the paths of the loaded libraries.
    What to do: let one of them install CuPy together with its CUDA: conda install cupy, or pip with the extra ctk in an
    environment without conda's CUDA packages.
    """
    target = ctx.snapshot.target
    conda_cupy = {name: release for name, release in target.conda_packages.items() if is_cupy(name)}
    pip_cupy = {entry.distribution: entry.release for entry in target.cupy} if target.conda_packages else {}
    foreign = {name: release for name, release in pip_cupy.items() if not conda_record(name, target.conda_packages)}
    conda_cuda = {name: release for name, release in target.conda_packages.items() if _CONDA_CUDA.fullmatch(name)}
    places = {entry.found_via for entry in target.libraries if entry.path} & {"site-packages", "conda"}
    if foreign and conda_cupy:
        title = f"pip installed {', '.join(foreign)} in addition to conda's {', '.join(conda_cupy)}"
        severity = Severity.ERROR
    elif foreign and conda_cuda and len(places) > 1:
        title = f"{', '.join(foreign)} loads CUDA libraries of both pip's wheels and conda's packages"
        severity = Severity.WARNING
    else:
        return
    involved = foreign | conda_cupy | conda_cuda
    yield Symptom(
        title,
        tuple(
            Evidence(
                f"target.packages.{name}",
                release,
                "conda's records" if name in target.conda_packages else "its metadata",
            )
            for name, release in involved.items()
        ),
        keep_conda_fixes(ctx, tuple(foreign)),
        severity,
    )


_TAG_HYPHENS = 2  # in cp312-cp312-linux_x86_64


@check("WHL512", Cause.PYTHON_UNSUPPORTED, Cause.PLATFORM_WHEEL_MISSING, requires=ONE_CUPY, repair=RepairKind.REPLACE)
def for_another_interpreter(ctx: CheckContext) -> Outcome:
    """CuPy is installed for another interpreter or platform.

    What it means: CuPy's compiled modules name the Python and the platform for which they are built, such as
    cpython-312 and x86_64. They were installed by another Python's pip, by pip's option --platform, by copying a folder
    from another machine, or are found by PYTHONPATH; this interpreter does not load them.
    How it is seen: the names of the extension modules in cupy/_core are compared with those that this interpreter
    loads, and the tags of the wheel with its platform.
    What to do: install CuPy with this interpreter's own pip.
    """
    target = ctx.snapshot.target
    for entry in target.cupy:
        if entry.for_this_interpreter is False:
            foreign = _foreign_platforms(entry, target.platform.value)
            what = f"another platform: {', '.join(foreign)}" if foreign else f"another interpreter: {_tags(entry)}"
            yield Symptom(
                f"{entry.distribution} in {entry.location} is for {what}",
                (evidence_of(ctx.snapshot, "target.platform") if foreign else ())
                + evidence_of(ctx.snapshot, "target.python")
                + (Evidence(entry.distribution, _tags(entry), "its extension modules and tags"),),
                _with_this_interpreter(ctx, entry),
                cause=Cause.PLATFORM_WHEEL_MISSING if foreign else None,
            )


def _with_this_interpreter(ctx: CheckContext, entry: CupyInstallation) -> tuple[Fix, ...]:
    """Removes it and installs a CuPy for this interpreter; one outside of the environment is removed from the path."""
    target = ctx.snapshot.target
    install = install_fixes(ctx, "Install it with this interpreter.")  # removes a CuPy of another line too
    if not is_removable(entry, target):
        has_other = any(other.is_own and other.for_this_interpreter is not False for other in target.cupy)
        return tuple(dict.fromkeys((*exclude_fixes(ctx.snapshot, entry), *(() if has_other else install))))
    remove = pip_fix(ctx.snapshot, "Remove it.", "uninstall", "-y", entry.distribution)
    rest = (leftovers_fix(ctx.snapshot, entry.location),) if entry.location else ()
    return (remove, *rest, *(fix for fix in install if fix.command != remove.command or not fix.command))


def _foreign_platforms(entry: CupyInstallation, platform: str | None) -> tuple[str, ...]:
    """The platforms of a wheel's tags, if none of them is the interpreter's own: ``linux_aarch64``."""
    system, _, rest = (platform or "").partition("-")
    machine = rest.rpartition("-")[2]
    platforms = tuple(dict.fromkeys(tag.rpartition("-")[2] for tag in entry.tags if tag.count("-") == _TAG_HYPHENS))
    universal = "universal2"  # for both architectures of Apple
    matching = [
        name
        for name in platforms
        if name == "any" or (system in name and (machine == universal or name.endswith((machine, universal))))
    ]
    return platforms if platform and not matching else ()


def _tags(entry: CupyInstallation) -> str:
    return ", ".join(entry.tags) or "none of its modules can be loaded"


# Dependencies whose releases the target reports; NumPy has a check of its own.
_PREFIXES = ("cuda-", "fastrlock", "nvidia-")


class _Unmet(NamedTuple):
    """A requirement of CuPy that is not met."""

    text: str
    name: str
    release: str | None  # the installed one
    breaks: bool  # whether it is missing or too old; one that is too new may work


@check("WHL517", Cause.CORRUPT_INSTALLATION, requires=("WHL502", "WHL503"), repair=RepairKind.ADD)
def dependency_missing(ctx: CheckContext) -> Outcome:
    """A distribution that CuPy needs is missing, or its release does not meet the requirement.

    What it means: CuPy was installed without its dependencies (--no-deps, a copied folder), or they were removed or
    replaced later: CuPy 14 finds CUDA by cuda-pathfinder, older releases need fastrlock. If one is missing or too old,
    import cupy fails; a newer one may work.
    How it is seen: the Requires-Dist lines in CuPy's metadata, without those of extras, are compared with the installed
    releases.
    What to do: install the dependency into the target, in a release that CuPy's metadata allows.
    """
    target = ctx.snapshot.target
    unmet = list(_unmet(target))
    if not unmet:
        return
    cupy = target.cupy[0]
    text = " and ".join(f"{entry.text} (found {entry.release or 'none'})" for entry in unmet)
    yield Symptom(
        f"{cupy.label} needs {text}",
        tuple(Evidence(f"Requires-Dist of {cupy.distribution}", entry.text, "its metadata") for entry in unmet)
        + tuple(Evidence(f"target.packages.{entry.name}", entry.release or "none", "its metadata") for entry in unmet),
        (pip_fix(ctx.snapshot, "Install it.", "install", *(entry.text.replace(" ", "") for entry in unmet)),),
        Severity.ERROR if any(entry.breaks for entry in unmet) else Severity.WARNING,
    )


def _unmet(target: Target) -> Iterator[_Unmet]:
    cupy = target.cupy[0] if target.cupy else None
    lines = [text for text in (cupy.requires if cupy else ()) if text.lower().replace("_", "-").startswith(_PREFIXES)]
    if not lines:
        return
    installed = {**target.conda_packages, **target.packages}
    for text in lines:
        try:
            requirement = Requirement(text)
            if requirement.marker is not None:
                continue
            name = canonicalize_name(requirement.name)
            release = installed.get(name)
            if release is None or not requirement.specifier.contains(release, prereleases=True):
                minimum = SpecifierSet(",".join(str(part) for part in requirement.specifier if part.operator == ">="))
                breaks = release is None or not minimum.contains(release, prereleases=True)
                yield _Unmet(text, name, release, breaks)
        except (InvalidRequirement, InvalidVersion):
            continue  # not comparable
