"""The installed CuPy: is it there once, its files, what an import finds, its interpreter, what it depends on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.packages import install_fix, keep_condas, only_one, out_of_the_way, pip_fix
from gpuenv.doctor.installed import (
    empty_metadata,
    installed_cuda_major,
    is_clearable,
    left_in,
    other_releases,
    own_cupys,
    within_reach,
)
from gpuenv.doctor.registry import Absence, CheckContext, NotKnown, Outcome, RepairKind, Symptom, check
from gpuenv.matrix.resolve import changes_text
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import conda_record, is_cupy
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import gpu_is_absent
from gpuenv.model.nvidia import cuda_major_of_wheel
from gpuenv.model.snapshot import CupyInstallation, FileFault, FileState, SourceState, Target
from gpuenv.model.strings import pattern

ONE_CUPY = ("WHL502", "WHL503")  # what a check of the installed CuPy requires: there is one, and no second
_ANOTHER = Fix("If another environment is meant, name it: gpuenv doctor --python PATH")


@check("WHL502", Cause.MULTIPLE_CUPY_PACKAGES, Cause.MIXED_PIP_CONDA, requires=("ENV401",), repair=RepairKind.REPLACE)
def two_cupys(ctx: CheckContext) -> Outcome:
    """Two CuPy distributions share one environment.

    What it means: every wheel line installs the same module, cupy. The files of the one installed last win, and
    removing one removes files of the other. One line twice, in two folders of the path, hides the second.
    How it is seen: the metadata of the distributions in the target.
    What to do: remove all of them, then install the right one. What lies outside of the environment, its installers do
    not reach: take that folder off PYTHONPATH, or remove it there. Where one of them is conda's and another pip's,
    remove pip's, and let conda put in its own anew.
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
    own = own_cupys(ctx.snapshot.target)  # what lies elsewhere has overwritten nothing
    foreign = tuple(name for name, record in records.items() if not record and name in own)
    mixed = bool(by_conda and foreign)
    if mixed:
        title = f"conda's {', '.join(by_conda)} and pip's {', '.join(foreign)} share the target"
    yield Symptom(
        title,
        tuple(Evidence(entry.distribution, entry.release, entry.location or "its metadata") for entry in found),
        keep_condas(ctx, foreign) if mixed else only_one(ctx),
        cause=Cause.MIXED_PIP_CONDA if mixed else None,
        # One line twice, in a venv over the system's packages, say: Python imports the first one whole.
        severity=Severity.WARNING if len(names) == 1 else Severity.ERROR,
    )


@check(
    "WHL503",
    Cause.CUPY_NOT_INSTALLED,
    Cause.CORRUPT_INSTALLATION,
    requires=("ENV401", "WHL501"),
    repair=RepairKind.REPLACE,
    absence=Absence.CUPY,
)
def cupy_missing(ctx: CheckContext) -> Outcome:
    """CuPy is not in the target environment.

    What it means: the environment that was examined has no CuPy, under whatever name. It may be in another one. Or its
    files are there without the metadata of a distribution: an installation or a removal was cut short. Or conda has it
    on record, and something else, pip say, has removed its files.
    How it is seen: the metadata of the distributions in the target, conda's records, and the file that an import would
    take; nothing is imported.
    What to do: install the wheel that fits, or name the environment that you mean with --python; remove what is left of
    another one first.
    """
    snapshot = ctx.snapshot
    told = "target.cupy" in snapshot.assumed
    if snapshot.target.cupy:
        return
    if snapshot.source("target").state is not SourceState.ANSWERED and not told:
        yield NotKnown("the target was not asked")
        return
    if not told and (site := left_in(snapshot.target)) is not None:
        yield Symptom(
            "Files of CuPy are there, but no distribution owns them: an installation or a removal was cut short",
            evidence_of(snapshot, "target.cupy_module")
            + tuple(Evidence("target.left_metadata", e.path, "tells no name") for e in empty_metadata(snapshot.target))
            + evidence_of(snapshot, "target.kind"),
            (
                Fix(f"Remove the folders cupy, cupyx and cupy_backends, and its metadata, from {site}."),
                *(install_fix(ctx, "Then install the wheel that fits.") or _later(ctx)),
            ),
            cause=Cause.CORRUPT_INSTALLATION,
        )
        return
    if not told and (recorded := _recorded_alone(ctx)) is not None:
        yield recorded
        return
    yield Symptom(
        "CuPy is not in the target environment",
        evidence_of(snapshot, "target.executable", "target.kind"),
        (
            *(
                Fix(f"If {path} is meant, name it.", ("gpuenv", "doctor", "--python", path))
                for path in snapshot.target.environments_near
            ),
            *(install_fix(ctx, "Install the wheel that fits.") or _later(ctx)),
            *(() if snapshot.target.environments_near else (_ANOTHER,)),
        ),
    )


def _later(ctx: CheckContext) -> tuple[Fix, ...]:
    """What to install once something else has changed; nothing on a machine that has no NVIDIA GPU."""
    snapshot, better = ctx.snapshot, ctx.resolution.next_better
    instead = bool(snapshot.amd_gpus) or snapshot.host.os.value == "darwin"
    if better is None or gpu_is_absent(snapshot) or (instead and not ctx.needs.gpus):
        return ()
    return (Fix(f"Once there is {changes_text(better)}, install {better.candidate.label}: gpuenv install"),)


def _recorded_alone(ctx: CheckContext) -> Symptom | None:
    """CuPy's files are gone and conda still lists it: conda reinstalls nothing unless it is forced to."""
    target = ctx.snapshot.target
    recorded = {name: release for name, release in target.conda_packages.items() if is_cupy(name)}
    if not recorded or target.cupy or target.cupy_module.known:
        return None
    named = [f"{name}=={release}" for name, release in recorded.items()]
    return Symptom(
        f"Conda has {' and '.join(recorded)} on record, and CuPy's files are not there",
        tuple(Evidence(f"target.conda_packages.{name}", release, "conda-meta") for name, release in recorded.items())
        + evidence_of(ctx.snapshot, "target.prefix"),
        (pip_fix(ctx.snapshot, "Have its files put in anew.", "install", "--force-reinstall", *named),),
        cause=Cause.CORRUPT_INSTALLATION,
    )


_USED = pattern(r"\.(so(\.[\d.]+)?|pyd?|json|h|hpp|cuh|inl)$")
_BINARY = pattern(r"\.(so(\.[\d.]+)?|pyd)$")
_NOT_USED = {"tests", "testing", "test", "doc", "docs", "licenses"}
_GONE = (FileState.MISSING, FileState.UNREADABLE)
_REACH = Fix("Let this user enter their folders and read them, or make an environment of your own.")
_SHOWN = 5
# CUDA as conda-forge and NVIDIA's channel package it.
_CONDA_CUDA = pattern(r"(cudatoolkit|cuda-(nvrtc|cudart)|lib(cublas|cufft|curand|cusolver|cusparse|nvjitlink))")


@check("WHL510", Cause.CORRUPT_INSTALLATION, requires=ONE_CUPY, repair=RepairKind.REINSTALL)
def files_at_fault(ctx: CheckContext) -> Outcome:
    """Installed files of CuPy or of the CUDA wheels are missing or changed.

    What it means: an installation was interrupted, a disk was full, files were deleted to make an image smaller, or
    another distribution that owns the same files was removed or installed over them. What is missing fails when it is
    used, often with an error that names something else.
    How it is seen: every file that the RECORD of these distributions names is looked for, and its size compared; with
    --deep its digest too. Tests and documentation do not count, and a changed text file is a warning only.
    What to do: install the distributions named again, with --force-reinstall.
    """
    target = ctx.snapshot.target
    told = "target.cupy" in ctx.snapshot.assumed
    if (
        not target.file_faults_count.known
        and not told
        and ctx.snapshot.source("files").state is not SourceState.NOT_ASKED
    ):
        yield NotKnown(target.file_faults_count.reason or "nobody looked at the files")
        return
    paths = ((entry, PurePosixPath(entry.path)) for entry in target.file_faults)
    used = [entry for entry, path in paths if _USED.search(path.name) and _NOT_USED.isdisjoint(path.parts)]
    broken = [
        entry
        for entry in used
        if entry.state in _GONE or (entry.state is not FileState.OWNED_TWICE and bool(_BINARY.search(entry.path)))
    ]
    for found, severity in ((broken, Severity.ERROR), ([e for e in used if e not in broken], Severity.WARNING)):
        if found:
            yield _at_fault(ctx, found, severity)


def _at_fault(ctx: CheckContext, found: list[FileFault], severity: Severity) -> Symptom:
    names = sorted({name for entry in found for name in entry.distributions})
    states = sorted({_WORDS[entry.state] for entry in found})
    many = "1 file" if len(found) == 1 else f"{len(found)} files"
    if ctx.snapshot.target.file_faults_count.value != len(ctx.snapshot.target.file_faults):
        many = f"At least {many}"
    return Symptom(
        f"{many} of {', '.join(names)} {'is' if len(found) == 1 else 'are'} {' or '.join(states)}",
        tuple(Evidence(entry.path, _WORDS[entry.state], "RECORD") for entry in found[:_SHOWN]),
        (_REACH,) if all(entry.state is FileState.UNREADABLE for entry in found) else _anew(ctx, names),
        severity,
    )


def _anew(ctx: CheckContext, names: list[str]) -> tuple[Fix, ...]:
    """Reinstalls them. Of CUDA wheels of two majors that share files, the one that CuPy does not use is removed first.

    Where a framework needs that one, both stay.
    """
    packages, own = ctx.snapshot.target.packages, installed_cuda_major(ctx)
    majors = {name: cuda_major_of_wheel(name, packages[name]) for name in names if name in packages}
    needed = {entry.cuda_major for entry in ctx.needs.brings if not entry.is_library}
    others = [name for name, major in majors.items() if own in majors.values() and major not in {None, own, *needed}]
    again = [f"{name}=={packages[name]}" for name in majors if name not in others]
    if not again:
        return (Fix("Install them again; their metadata does not tell the release."),)
    words = "Then install the others again." if others else "Install them again."
    anew = pip_fix(ctx.snapshot, words, "install", "--force-reinstall", "--no-deps", *again)
    if not others:
        return (anew,)
    # A package that the matrix does not know may load them: whoever installed it knows.
    gone = "Remove what is of another CUDA major than CuPy, if nothing else needs it."
    return (pip_fix(ctx.snapshot, gone, "uninstall", "-y", *others)._replace(safe=False), anew)


_WORDS = {
    FileState.MISSING: "missing",
    FileState.UNREADABLE: "out of this user's reach",
    FileState.WRONG_SIZE: "of another size than installed",
    FileState.CHANGED: "changed",
    FileState.OWNED_TWICE: "claimed by two distributions",
}


@check("WHL520", Cause.CORRUPT_INSTALLATION, requires=("ENV401",), repair=RepairKind.CLEAR)
def left_metadata(ctx: CheckContext) -> Outcome:
    """Metadata of another release of a distribution lie beside its own.

    What it means: an update was cut short after the new files had come, so that two releases of one distribution are
    told in one folder. Python imports the files that are there; pip, uv and whatever asks for a version may take the
    older one's word, and refuse or change what need not be changed.
    How it is seen: two metadata folders of one name in one folder of the path; those are the right ones whose RECORD
    is of the files there.
    What to do: remove the folder of the older one's metadata.
    """
    there = ctx.snapshot.target.packages
    left = other_releases(ctx.snapshot.target)
    if not left:
        return
    told = ", ".join(f"{entry.name} {entry.release} (there is {there[entry.name]})" for entry in left)
    yield Symptom(
        f"Metadata of other releases were left beside those of what is there: {told}",
        tuple(Evidence(entry.path, entry.release or "", "its metadata") for entry in left),
        tuple(Fix(f"Remove {entry.path}.", safe=is_clearable(entry, ctx.snapshot.target)) for entry in left),
        Severity.WARNING,
    )


@check("WHL511", Cause.CUPY_SHADOWED, requires=ONE_CUPY)
def shadowed(ctx: CheckContext) -> Outcome:
    """Another file or folder named cupy is imported in place of CuPy.

    What it means: Python takes the first module of that name on its path: a script of your own called cupy.py, or a
    folder cupy with an __init__.py, hides the one that is installed. Then nothing of CuPy's is there.
    How it is seen: Python's own finders are asked which file an import would take from the folder where this command
    runs; nothing is imported. A program started as "python script.py" looks in the script's folder instead.
    What to do: give the file another name, remove its __pycache__, or start the program from another folder.
    """
    target = ctx.snapshot.target
    module = target.cupy_module.value
    installed = [entry.module for entry in target.cupy if entry.module]
    if module is None or not installed or module in installed:
        return
    yield Symptom(
        f"import cupy takes {module}, not the CuPy that is installed",
        evidence_of(ctx.snapshot, "target.cupy_module")
        + tuple(Evidence(entry.distribution, entry.module or "", "its metadata") for entry in target.cupy),
        (Fix("Give that file or folder another name, or start the program from another folder."),),
        # What lies in the folder of work is met by programs that are started from there alone.
        Severity.ERROR if _on_path(ctx, module) else Severity.WARNING,
    )


@check("WHL519", Cause.CUPY_SHADOWED, requires=(*ONE_CUPY, "WHL511"))
def pathfinder_hidden(ctx: CheckContext) -> Outcome:
    """Another file or folder named cuda hides the cuda.pathfinder that CuPy needs.

    What it means: CuPy 14 imports cuda.pathfinder. A script of your own called cuda.py, or a folder cuda with an
    __init__.py and without pathfinder, comes first, and import cupy ends with a ModuleNotFoundError.
    How it is seen: Python's own finders are asked which file an import of cuda would take from the folder where this
    command runs; nothing is imported.
    What to do: give the file another name, remove its __pycache__, or start the program from another folder.
    """
    target = ctx.snapshot.target
    module = target.pathfinder_hidden_by.value
    if module is None or not target.cupy or not any("cuda-pathfinder" in words for words in target.cupy[0].requires):
        return
    yield Symptom(
        f"import cuda.pathfinder takes {module}, so CuPy cannot be imported",
        evidence_of(ctx.snapshot, "target.pathfinder_hidden_by")
        + tuple(Evidence(f"Requires-Dist of {entry.distribution}", "cuda-pathfinder", "") for entry in target.cupy[:1]),
        (Fix("Give that file or folder another name, or start the program from another folder."),),
        Severity.ERROR if _on_path(ctx, module) else Severity.WARNING,
    )


@check("WHL518", Cause.NUMPY_INCOMPATIBLE, requires=(*ONE_CUPY, "WHL511"))
def numpy_shadowed(ctx: CheckContext) -> Outcome:
    """What is imported as NumPy is not NumPy, or is for another interpreter.

    What it means: Python takes the first module of that name on its path: a script called numpy.py, or the packages of
    another Python that PYTHONPATH brings along, as environment modules of clusters do. CuPy needs NumPy, so import cupy
    fails too.
    How it is seen: Python's own finders are asked which file an import would take from the folder where this command
    runs, and the names of the extension modules beside it against those that this interpreter loads.
    What to do: unset PYTHONPATH, give the file another name, or start the program from another folder.
    """
    target = ctx.snapshot.target
    module = target.numpy_module.value
    if not target.cupy or not target.numpy_fault.known or module is None:
        return
    yield Symptom(
        f"This interpreter cannot import NumPy: {target.numpy_fault.value}",
        evidence_of(ctx.snapshot, "target.numpy_module", "target.numpy_fault", "target.numpy"),
        (
            Fix("Where PYTHONPATH brings it, unset that.", ("env", "-u", "PYTHONPATH", "gpuenv", "doctor")),
            Fix("Or give that file or folder another name, or start the program from another folder."),
        ),
        Severity.ERROR if _on_path(ctx, module) else Severity.WARNING,
    )


def _on_path(ctx: CheckContext, module: str) -> bool:
    """Whether a folder of PYTHONPATH or of the environment itself holds the module."""
    told = ctx.snapshot.environment.get("PYTHONPATH", "").split(":")
    prefix = ctx.snapshot.target.prefix.value
    folders = [*(entry for entry in told if entry), *([prefix] if prefix else [])]
    return any(PurePosixPath(module).is_relative_to(folder) for folder in folders)


@check("WHL513", Cause.MIXED_PIP_CONDA, requires=("ENV401", "WHL502"))
def pip_and_conda(ctx: CheckContext) -> Outcome:
    """Pip and conda have each put CuPy, or the CUDA that it loads, into one environment.

    What it means: neither knows of the other's files: an update by one breaks what the other has installed, and the
    libraries that are loaded come from two CUDA releases.
    How it is seen: conda's records beside the metadata of the distributions, and the paths of the libraries loaded.
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
        title = f"pip has installed {', '.join(foreign)} beside conda's {', '.join(conda_cupy)}"
        severity = Severity.ERROR
    elif foreign and conda_cuda and len(places) > 1:
        title = f"{', '.join(foreign)} loads CUDA libraries of pip's wheels and of conda's packages together"
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
        keep_condas(ctx, tuple(foreign)),
        severity,
    )


_PARTS_OF_A_TAG = 2  # hyphens in cp312-cp312-linux_x86_64


@check("WHL512", Cause.PYTHON_UNSUPPORTED, Cause.PLATFORM_WHEEL_MISSING, requires=ONE_CUPY, repair=RepairKind.REPLACE)
def for_another_interpreter(ctx: CheckContext) -> Outcome:
    """CuPy is installed for another interpreter or another platform than this one.

    What it means: CuPy's compiled modules name the Python and the platform that they are built for, such as cpython-312
    and x86_64. They were put here by another Python's pip, by pip's option --platform, by a folder that was copied from
    another machine, or by PYTHONPATH; this interpreter does not load them.
    How it is seen: the names of the extension modules in cupy/_core, against those that this interpreter loads, and the
    tags of the wheel.
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
    """Removes it and installs a CuPy for this interpreter; one outside of the environment is taken off the path."""
    target = ctx.snapshot.target
    anew = install_fix(ctx, "Install it with this interpreter.")  # that of another line removes this one too
    if not within_reach(entry, target):
        own = any(other.is_own and other.for_this_interpreter is not False for other in target.cupy)
        return tuple(dict.fromkeys((out_of_the_way(entry), *(() if own else anew))))
    remove = pip_fix(ctx.snapshot, "Remove it.", "uninstall", "-y", entry.distribution)
    return (remove, *(fix for fix in anew if fix.command != remove.command or not fix.command))


def _foreign_platforms(entry: CupyInstallation, platform: str | None) -> tuple[str, ...]:
    """The platforms of a wheel's tags, where none of them is the interpreter's own: ``linux_aarch64``."""
    system, _, rest = (platform or "").partition("-")
    machine = rest.rpartition("-")[2]
    told = tuple(dict.fromkeys(tag.rpartition("-")[2] for tag in entry.tags if tag.count("-") == _PARTS_OF_A_TAG))
    either = "universal2"  # of Apple's two machines
    own = [
        name
        for name in told
        if name == "any" or (system in name and (machine == either or name.endswith((machine, either))))
    ]
    return told if platform and not own else ()


def _tags(entry: CupyInstallation) -> str:
    return ", ".join(entry.tags) or "no module of it can be loaded"


# Those that the target tells of by their names; NumPy has a check of its own.
_LISTED = ("cuda-", "fastrlock", "nvidia-")


class _Unmet(NamedTuple):
    """A requirement of CuPy that is not met."""

    words: str
    name: str
    release: str | None  # the installed one
    lacking: bool  # whether it is missing or too old; one that is too new may work


@check("WHL517", Cause.CORRUPT_INSTALLATION, requires=("WHL502", "WHL503"), repair=RepairKind.ADD)
def dependency_missing(ctx: CheckContext) -> Outcome:
    """A distribution that CuPy needs is not there, or is of another release.

    What it means: CuPy was installed without what it requires (--no-deps, a copied folder), or that was removed or
    replaced later: CuPy 14 finds CUDA by cuda-pathfinder, older ones need fastrlock. Without it, or with one that is
    too old, import cupy fails; a newer one than CuPy foresees may do.
    How it is seen: the Requires-Dist lines in CuPy's metadata, those of extras aside, against what is installed.
    What to do: install what is missing into the target, in a release that CuPy's metadata allows.
    """
    target = ctx.snapshot.target
    unmet = list(_unmet(target))
    if not unmet:
        return
    cupy = target.cupy[0]
    told = " and ".join(f"{entry.words} (found {entry.release or 'none'})" for entry in unmet)
    yield Symptom(
        f"{cupy.label} needs {told}",
        tuple(Evidence(f"Requires-Dist of {cupy.distribution}", entry.words, "its metadata") for entry in unmet)
        + tuple(Evidence(f"target.packages.{entry.name}", entry.release or "none", "its metadata") for entry in unmet),
        (pip_fix(ctx.snapshot, "Install it.", "install", *(entry.words.replace(" ", "") for entry in unmet)),),
        Severity.ERROR if any(entry.lacking for entry in unmet) else Severity.WARNING,
    )


def _unmet(target: Target) -> Iterator[_Unmet]:
    cupy = target.cupy[0] if target.cupy else None
    wanted = [words for words in (cupy.requires if cupy else ()) if words.lower().replace("_", "-").startswith(_LISTED)]
    if not wanted:
        return
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - 8 ms, and not all have needs
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - likewise

    there = {**target.conda_packages, **target.packages}
    for words in wanted:
        try:
            requirement = Requirement(words)
            if requirement.marker is not None:
                continue
            name = canonicalize_name(requirement.name)
            release = there.get(name)
            if release is None or not requirement.specifier.contains(release, prereleases=True):
                least = SpecifierSet(",".join(str(part) for part in requirement.specifier if part.operator == ">="))
                lacking = release is None or not least.contains(release, prereleases=True)
                yield _Unmet(words, name, release, lacking)
        except (InvalidRequirement, InvalidVersion):
            continue  # nothing can be said of it
