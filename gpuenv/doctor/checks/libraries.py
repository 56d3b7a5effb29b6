"""Checks of the CUDA libraries that CuPy loads, of run-time compilation, and of CuPy's own compiled modules."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuenv.doctor.checks.compatibility import outside_text
from gpuenv.doctor.checks.installation import ONE_CUPY
from gpuenv.doctor.evidence import SEARCH_PATHS, cuda_frameworks, evidence_of, fact, packages_as_evidence
from gpuenv.doctor.fixes.packages import conda_prefix_option, install_fixes, pip_fix
from gpuenv.doctor.fixes.variables import variable_fixes, with_folder_fix, without_folder_of_fixes
from gpuenv.doctor.installed_cupy import (
    InstalledCupy,
    has_cuda_wheels,
    installed_cuda_major,
    installed_cupy,
    is_managed_by_conda,
    uses_pathfinder,
)
from gpuenv.doctor.predicates import is_container_without_gpu
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, RepairKind, Symptom, check
from gpuenv.matrix.candidates import left_out, minors_of, serving_minors
from gpuenv.matrix.products import reads_ptx
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.nvidia import cuda_major_of_wheel, cuda_wheel
from gpuenv.model.reading import ASSUMED
from gpuenv.model.snapshot import Library, Snapshot, SourceState
from gpuenv.model.strings import pattern
from gpuenv.model.versions import CudaVersion

# glibc's messages (elf/dl-lookup.c, elf/dl-version.c): for a symbol, a symbol's version, a whole version.
_UNRESOLVED = pattern(
    r"undefined symbol: (?P<a>\w+)(?:, version (?P<b>lib[\w.-]+)|(?!\w|, version))"
    r"|symbol (?P<c>\w+),? version (?P<d>lib[\w.-]+) not defined in file"
    r"|version [`'](?P<e>lib[\w.-]+)' not found"
)
# Libraries that export functions to others; a longer name before its prefix.
_SYMBOL_PREFIX = pattern(r"_*(nvJitLink|cublasLt|cublas|cusparse|cusolver|curand|cufft|nvrtc|cuda)(?=[A-Z_])")
# glibc's messages for the file itself (elf/dl-load.c), with the probe's additions if it could not be mapped.
_UNLOADABLE = pattern(
    r"(?P<noexec>mounted noexec)|(?P<limit>ulimit -v is \d+ KiB)"
    r"|(?P<reserve>cannot allocate memory in static TLS)"
    r"|(?P<unmapped>failed to map segment"
    r"|cannot (?:allocate memory(?! in static TLS)|change memory protections|enable executable stack))"
    r"|(?P<denied>cannot open shared object file: (?:Permission denied|Operation not permitted))"
    r"|(?P<damaged>file too short|invalid ELF header|wrong ELF class|ELF file|ELF load command|cannot read file data"
    r"|only ET_DYN and ET_EXEC can be loaded|object file has no|Input/output error)"
)
_DRIVER_LIBRARY = pattern(r"libcuda\.so|libnvidia")


class _Refusal(NamedTuple):
    """A symbol or version that the loader did not find in another library."""

    symbol: str  # empty if a whole version is missing
    by: str | None  # the soname of that library, if the loader names it


def _refusal_of(library: Library) -> _Refusal | None:
    """Why the loader refuses a library; None if it loads, is missing, or fails for another reason."""
    found = None if library.path or library.optional else _UNRESOLVED.search(library.error or "")
    if found is None:
        return None
    symbol, by = found["a"] or found["c"] or "", found["b"] or found["d"] or found["e"]
    # Other symbols, such as those of the C++ runtime, do not concern the CUDA libraries.
    return _Refusal(symbol, by) if by or _library_of_symbol(symbol) else None


def _library_of_symbol(symbol: str) -> str | None:
    """The CUDA library of a symbol: nvJitLink for ``__nvJitLinkComplete_12_4``."""
    found = _SYMBOL_PREFIX.match(symbol)
    return found[1] if found else None


_LIMIT = pattern(r"ulimit -v is (\d+) KiB")
_FILE = pattern(r"(/[^:]*): (?:failed|cannot|file too|invalid|wrong|ELF|only|object)")
_FINDER_PREFIX = pattern(r"^Failed to dlopen [^:]*: ")  # added by cuda-pathfinder to the loader's message
# GNU C Library Manual, Dynamic Linking Tunables: optional_static_tls is "the amount of surplus static TLS in bytes".
_MORE_TLS = "export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384"
# Why the loader cannot load an existing file, by group of the pattern, the first that matches; and fixes.
_LOADER_FAULTS = {
    "noexec": (
        "the file system is mounted noexec",
        (Fix("Create the environment on another file system, or mount this one without noexec."),),
    ),
    "limit": (
        "it needs more memory than this process may map",
        (Fix("Raise the limit{limit} in the shell or the job that starts the program: ulimit -v unlimited"),),
    ),
    "reserve": (
        "the reserve of static TLS (thread-local storage) is too small",
        (
            Fix("Try a larger reserve; if it helps, set it where CuPy is started.", shell_line=_MORE_TLS),
            Fix("Or preload nothing (LD_PRELOAD, LD_AUDIT), or import CuPy before the libraries that use the reserve."),
        ),
    ),
    "unmapped": (
        "the loader cannot map it into memory",
        (Fix("Check how their file system is mounted, and what limits the memory of this process: ulimit -a"),),
    ),
    "denied": ("this user may not read the file", (Fix("Let this user read them, or create your own environment."),)),
    "damaged": ("the file is damaged, or of another architecture", (Fix("Reinstall the package of {files}."),)),
}


@check(
    "LIB613",
    Cause.TARGET_ENVIRONMENT_BROKEN,
    Cause.CORRUPT_INSTALLATION,
    requires=ONE_CUPY,
    unless=("WHL510", "WHL512"),
)
def cannot_be_loaded(ctx: CheckContext) -> Outcome:
    """Files of CuPy or of the CUDA libraries exist, but the loader cannot load them.

    What it means: nothing is missing, and reinstalling does not help. Nothing can be loaded from a file system that is
    mounted noexec, as temporary folders and home folders of clusters are; a limit of the address space (ulimit -v) or a
    reserve of static TLS may be too small for the libraries; files of another user may be unreadable; or a file is
    damaged. CuPy reports that the library is not found, or import cupy ends with an ImportError.
    How it is seen: the loader's messages when the target loads each file, the mount options of their file system, and
    the limits of this process.
    What to do: put the environment on a file system without noexec, raise the limit, let this user read the files, or
    reinstall damaged ones.
    """
    target = ctx.snapshot.target
    errors = [("CuPy's compiled module", target.extension.reason)] if not target.extension.known else []
    errors += [(entry.soname, entry.error) for entry in target.libraries if entry.path is None and not entry.optional]
    faults = [(name, error or "", _loader_fault(error)) for name, error in errors]
    kind = next((kind for kind in _LOADER_FAULTS if any(fault == kind for _, _, fault in faults)), None)
    if kind is None:
        return
    why, fixes = _LOADER_FAULTS[kind]
    of_kind = [(name, error) for name, error, fault in faults if fault == kind]
    first, more = of_kind[0][0], len(of_kind) - 1
    limits = [int(found[1]) for _, error in of_kind if (found := _LIMIT.search(error))]
    limit = f" of {limits[0] // 1024} MiB" if limits else ""
    files = ", ".join(dict.fromkeys(found[1] for _, error in of_kind if (found := _FILE.search(error)))) or "the file"
    yield Symptom(
        f"{first}{f' and {more} more' if more else ''} cannot be loaded: {why}",
        tuple(Evidence(name, _FINDER_PREFIX.sub("", error), "the target's loader") for name, error in of_kind)
        + evidence_of(ctx.snapshot, "target.prefix"),
        tuple(fix._replace(text=fix.text.format(limit=limit, files=files)) for fix in fixes),
        cause=Cause.CORRUPT_INSTALLATION if kind == "damaged" else None,
    )


def _loader_fault(error: str | None) -> str | None:
    """The kind of fault in the loader's message; None if it is another one."""
    if not error or _DRIVER_LIBRARY.search(error):  # other checks report a library of the driver
        return None
    found = {match.lastgroup for match in _UNLOADABLE.finditer(error)}
    return next((kind for kind in _LOADER_FAULTS if kind in found), None)


_OTHER_WHEEL = ("WHL504", "WHL505", "WHL509")
_NVRTC = pattern(r"nvidia-cuda-nvrtc(-cu\d\d)?")
_OLD_AND_NEW_NAMES = (12, 13)  # CUDA majors: the names of the second are tried first
_SONAME = pattern(r"(lib\w+\.so\.\d+)")


@check(
    "LIB602", Cause.CORRUPT_INSTALLATION, requires=ONE_CUPY, unless=_OTHER_WHEEL, repair=RepairKind.REINSTALL_CRASHING
)
def loading_crashes(ctx: CheckContext) -> Outcome:
    """Loading a CUDA library crashes or hangs.

    What it means: a library that CuPy loads ends the process, or does not return. CuPy will crash or hang at its first
    use.
    How it is seen: a process of the target's interpreter loads them one by one; it was ended by a signal, or by an
    alarm after most of the remaining time. The others are loaded again without it.
    What to do: reinstall the CUDA libraries; on a slow network file system, give it more time with --timeout.
    """
    state = ctx.snapshot.source("libraries")
    if state.state not in (SourceState.CRASHED, SourceState.TIMED_OUT):
        return
    libraries, installed = ctx.snapshot.target.libraries, ctx.snapshot.target.cupy
    loaded = tuple(_evidence(library) for library in libraries)
    crashing = [
        entry.soname for entry in libraries if entry.path is None and (entry.error or "").startswith("loading it")
    ]
    fault = "crashes" if state.state is SourceState.CRASHED else "hangs"
    yield Symptom(
        f"Loading {', '.join(crashing) or 'the CUDA libraries'} "
        f"for {installed[0].distribution if installed else 'CuPy'} {fault}",
        evidence_of(ctx.snapshot, "libraries") + loaded,
        _library_fixes(ctx, reinstall=has_cuda_wheels(ctx.snapshot.target)),
    )


@check(
    "LIB603",
    Cause.LIBRARY_PATH_CONFLICT,
    Cause.TORCH_CUPY_CONFLICT,
    requires=(*ONE_CUPY, "LIB602"),
    unless=_OTHER_WHEEL,
    repair=RepairKind.REPLACE_WITH_LIBRARIES,
)
def other_major_first(ctx: CheckContext) -> Outcome:
    """CUDA libraries of another major version are found first.

    What it means: from CuPy 14 on, cuda-pathfinder looks for the libraries, and it tries those of CUDA 13 before those
    of CUDA 12. CUDA wheels of another package are then loaded into a CuPy of another major.
    How it is seen: the file that cuda-pathfinder loads in the target is compared with the name that this CuPy needs.
    What to do: remove the CUDA wheels of the other major, or keep CuPy and the package that needs them in separate
    environments, or install the CuPy of that major.
    """
    wrong = [
        library
        for library in ctx.snapshot.target.libraries
        if (found := _SONAME.search(library.finder_path or "")) and not library.soname.startswith(found[1])
    ]
    if not wrong:
        yield from _loaded_nvrtc(ctx)
        yield from _predicted(ctx)
        return
    title = f"Libraries of another CUDA major are loaded instead of those that CuPy needs: {_with_files(wrong)}"
    yield _of_other_major(
        ctx,
        title if _has_own_major(ctx, wrong) else _only_other_major(ctx),
        tuple(Evidence(library.soname, str(library.finder_path), "cuda-pathfinder") for library in wrong),
        _wheels_as_evidence(ctx),
    )


def _of_other_major(
    ctx: CheckContext, title: str, first: tuple[Evidence, ...], last: tuple[Evidence, ...] = ()
) -> Symptom:
    users = _frameworks(ctx)
    cause = Cause.TORCH_CUPY_CONFLICT if users else None
    return Symptom(title, first + users + last, _other_major_fixes(ctx), cause=cause)


def _has_own_major(ctx: CheckContext, wrong: Sequence[Library]) -> bool:
    """Whether libraries of CuPy's CUDA major are installed as well."""
    major, packages = installed_cuda_major(ctx.snapshot.target), ctx.snapshot.target.packages
    majors = {cuda_major_of_wheel(name, release) for name, release in packages.items()}
    majors |= {kit.toolkit.value.major for kit in ctx.snapshot.toolkits if kit.toolkit.value}
    return major in majors or any(library.path not in (None, library.finder_path) for library in wrong)


def _only_other_major(ctx: CheckContext) -> str:
    """``cupy-cuda12x needs CUDA 12; only 13.0 is installed``."""
    releases = dict.fromkeys(".".join(entry.value.split(".")[:2]) for entry in _nvrtcs(ctx))
    found = f"only {' and '.join(releases)} is installed" if releases else "only another major is installed"
    return f"{ctx.snapshot.target.cupy[0].distribution} needs CUDA {installed_cuda_major(ctx.snapshot.target)}; {found}"


def _with_files(wrong: Sequence[Library]) -> str:
    """Each library with the file that is loaded instead; several with the folders only (the evidence has the files)."""
    if len(wrong) == 1:
        return f"{wrong[0].soname} ({wrong[0].finder_path})"
    folders = dict.fromkeys((library.finder_path or "").rpartition("/")[0] for library in wrong)
    return f"{', '.join(library.soname for library in wrong)} (those in {', '.join(folders)} are found first)"


def _loaded_nvrtc(ctx: CheckContext) -> Outcome:
    """An NVRTC of another major than CuPy's, reported by cupy.show_config() without its file."""
    major = installed_cuda_major(ctx.snapshot.target)
    reported = [entry for entry in ctx.snapshot.target.libraries if entry.name == "nvrtc" and entry.release]
    wrong = [entry for entry in reported if major and (entry.release or "").split(".")[0] != str(major)]
    if not wrong:
        return
    yield _of_other_major(
        ctx,
        f"{ctx.snapshot.target.cupy[0].distribution} loaded NVRTC {wrong[0].release}, of another CUDA major",
        tuple(Evidence(entry.soname, f"NVRTC {entry.release}", entry.found_via or "NVRTC itself") for entry in wrong),
        _wheels_as_evidence(ctx),
    )


def _predicted(ctx: CheckContext) -> Outcome:
    """What the packages imply if no library was looked up, as in a paste or with assumptions.

    cuda-pathfinder tries the names of CUDA 13 before those of CUDA 12: shown with cupy-cuda12x 14 and both in wheels.
    """
    target, major = ctx.snapshot.target, installed_cuda_major(ctx.snapshot.target)
    nvrtcs = {name: cuda_major_of_wheel(name, of) for name, of in target.packages.items() if _NVRTC.fullmatch(name)}
    newer = {name: target.packages[name] for name, of in nvrtcs.items() if (major, of) == _OLD_AND_NEW_NAMES}
    if not newer or target.libraries or not uses_pathfinder(target.cupy[0].release):
        return
    if ctx.snapshot.source("libraries").state is not SourceState.NOT_ASKED:
        return
    names = ", ".join(f"{name} {release}" for name, release in newer.items())
    title = f"{target.cupy[0].distribution} loads installed CUDA wheels of another major version: {names}"
    yield _of_other_major(ctx, title, packages_as_evidence(newer))


@check(
    "LIB601",
    Cause.CUDA_LIBRARY_MISSING,
    Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
    requires=(*ONE_CUPY, "LIB602", "LIB603"),
    unless=(*_OTHER_WHEEL, "LIB613"),
    repair=RepairKind.REPLACE_WITH_LIBRARIES,
    decisive=True,
)
def library_missing(ctx: CheckContext) -> Outcome:
    """A CUDA library that CuPy loads at run time is not found.

    What it means: the wheels of CuPy do not contain NVRTC, cuBLAS, cuFFT and the others; they come from a toolkit, from
    conda or from CUDA wheels in the environment, and must be of the wheel line's CUDA major. From CuPy 13 on, import
    cupy succeeds without them; the first kernel or matrix product fails.
    How it is seen: the target's own loader loads each library, in the order in which CuPy searches.
    What to do: install the extra ctk of the same CuPy (from 14 on), or a toolkit of the same major; if you have a
    toolkit of another major, install the wheel line of that major.
    """
    snapshot = ctx.snapshot
    needed = [entry for entry in snapshot.target.libraries if not entry.optional and entry.name != "nvrtc-builtins"]
    missing = [library for library in needed if library.path is None and _refusal_of(library) is None]
    reason = _undetermined_reason(ctx, needed, missing)
    if reason is not None:
        yield NotKnown(reason)
        return
    if not missing:
        return
    major, others = installed_cuda_major(ctx.snapshot.target), _cuda_of_other_major(ctx)
    evidence = tuple(_evidence(library) for library in needed) + others
    # Some names are the same in two majors (libcurand.so.10, libcusparse.so.12): NVRTC's is not.
    if others and major is not None and any(library.name == "nvrtc" for library in missing):
        yield Symptom(
            f"{snapshot.target.cupy[0].distribution} needs the libraries of CUDA {major}, "
            "but those installed are of another major version",
            evidence,
            _matching_cupy_fixes(ctx),
            cause=Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
        )
        return
    sonames = ", ".join(library.soname for library in missing)
    yield Symptom(
        f"CUDA libraries that CuPy loads are not found: {sonames}",
        evidence + evidence_of(snapshot, *SEARCH_PATHS),
        _library_fixes(ctx),
    )


def _undetermined_reason(ctx: CheckContext, needed: Sequence[Library], missing: Sequence[Library]) -> str | None:
    """Why it is unknown whether a needed library is missing; None if it is known."""
    snapshot, state = ctx.snapshot, ctx.snapshot.source("libraries")
    cupy, is_probed = snapshot.target.cupy, state.state is SourceState.ANSWERED
    if not is_probed and not snapshot.target.libraries:
        why, major = "the target's libraries were not probed", installed_cuda_major(ctx.snapshot.target)
        if cupy and "target.cupy" in snapshot.assumed:
            why = f"{cupy[0].distribution} is assumed, so the libraries that it loads were not probed"
            why += f"; --assume toolkit={major}.0 assumes a toolkit that has them" if major else ""
        return state.detail or why
    if not cupy:
        return "which CuPy the libraries are for is unknown"
    if not needed:
        return f"which CUDA libraries {cupy[0].distribution} loads is unknown"
    if not missing:
        is_partial = not is_probed and any(library.found_via != ASSUMED for library in needed)
        return (state.detail or "not all of the target's libraries were probed") if is_partial else None
    if _pathfinder_missing(ctx):
        return "CUDA wheels are installed, but cuda.pathfinder, which finds them, cannot be imported"
    return None


def _cuda_of_other_major(ctx: CheckContext) -> tuple[Evidence, ...]:
    """Toolkits, NVRTC wheels and frameworks of another CUDA major than CuPy's."""
    major = installed_cuda_major(ctx.snapshot.target)
    toolkits = tuple(
        Evidence("a toolkit", f"CUDA {kit.toolkit.value} in {kit.path}", kit.found_via)
        for kit in ctx.snapshot.toolkits
        if kit.toolkit.value and kit.toolkit.value.major != major and kit.has_nvrtc and not kit.in_target
    )
    frameworks = tuple(
        Evidence(f"target.packages.{entry.distribution}", f"{entry.version}, CUDA {entry.cuda_major}", entry.source)
        for entry in ctx.needs.brings
        if not entry.is_library and entry.cuda_major != major
    )
    return toolkits + _nvrtcs(ctx) + frameworks


def _pathfinder_missing(ctx: CheckContext) -> bool:
    """Whether CuPy would find its CUDA wheels by a cuda.pathfinder that is missing; other checks report that."""
    target, major = ctx.snapshot.target, installed_cuda_major(ctx.snapshot.target)
    needs_it = any("cuda-pathfinder" in text for text in target.cupy[0].requires)
    is_missing = "cuda-pathfinder" not in target.packages or target.pathfinder_hidden_by.known
    wheels = (cuda_major_of_wheel(name, release) for name, release in target.packages.items() if _NVRTC.fullmatch(name))
    return needs_it and is_missing and major in wheels


def _evidence(library: Library) -> Evidence:
    """The library's path, "not found", or another error, such as a missing dependency."""
    error = library.error or ""
    why_not = "not found" if not error or error.startswith(library.soname) else error
    return Evidence(library.soname, library.path or why_not, library.found_via or "the target's loader")


def _matching_cupy_fixes(ctx: CheckContext) -> tuple[Fix, ...]:
    """The CuPy of the installed CUDA, or libraries for the installed CuPy."""
    installed, chosen = installed_cupy(ctx), ctx.resolution.wheel
    if chosen is None or (installed is not None and chosen.distribution == installed.cupy.distribution):
        return _library_fixes(ctx)
    return (*install_fixes(ctx, "Install the CuPy that fits."), *_library_fixes(ctx, is_alternative=True))


def _library_fixes(ctx: CheckContext, *, reinstall: bool = False, is_alternative: bool = False) -> tuple[Fix, ...]:
    installed = installed_cupy(ctx)
    is_windows = ctx.snapshot.host.os.value == "windows"
    path = "set CUDA_PATH to it" if is_windows else "add its lib64 folder to the loader's path"
    major = installed_cuda_major(ctx.snapshot.target)
    rest = f"nstall a CUDA {f'{major} ' if major else ''}toolkit, and {path}."
    toolkit = Fix(f"Or i{rest}")
    wheel = ctx.resolution.wheel
    if not reinstall and not is_alternative and wheel is not None and wheel.extra is not None:
        return (*install_fixes(ctx, "Install the CuPy that includes its libraries."), toolkit)
    if installed is not None and installed.exact and installed.wheel.release.extras:
        extra = next(iter(installed.wheel.release.extras))
        requirement = f"{installed.cupy.distribution}[{extra}]=={installed.cupy.release}"
        options = ("--force-reinstall",) if reinstall else ()
        what = f"{installed.cupy.distribution} with its libraries" if is_alternative else "it with its libraries"
        text = f"{'Or keep' if is_alternative else 'Install'} {what}: {requirement}"
        return (pip_fix(ctx.snapshot, text, "install", *options, requirement), toolkit)
    return (toolkit if is_alternative else Fix(f"I{rest}"),)


def _nvrtcs(ctx: CheckContext) -> tuple[Evidence, ...]:
    """NVRTC distributions of another CUDA major: they represent the CUDA wheels of that major."""
    cupy_major = installed_cuda_major(ctx.snapshot.target)
    packages = ctx.snapshot.target.packages.items()
    return packages_as_evidence(
        {n: r for n, r in packages if _NVRTC.fullmatch(n) and cuda_major_of_wheel(n, r) not in (None, cupy_major)}
    )


def _wheels_as_evidence(ctx: CheckContext) -> tuple[Evidence, ...]:
    """Evidence of CUDA wheels of another major: their NVRTC, or all of them without one."""
    packages = ctx.snapshot.target.packages
    return _nvrtcs(ctx) or packages_as_evidence({name: packages[name] for name in _wheels_of_other_major(ctx)})


def _frameworks(ctx: CheckContext) -> tuple[Evidence, ...]:
    """Frameworks that depend on CUDA libraries, without those that the matrix knows to use CuPy's major."""
    major = installed_cuda_major(ctx.snapshot.target)
    same = {entry.distribution for entry in ctx.needs.brings if not entry.is_library and entry.cuda_major == major}
    return tuple(
        entry for entry in cuda_frameworks(ctx.snapshot) if entry.fact.removeprefix("target.packages.") not in same
    )


def _other_major_fixes(ctx: CheckContext) -> tuple[Fix, ...]:
    """Removes the wheels, or, if a framework needs them, changes CuPy's line or separates the two."""
    needed = tuple(entry.fact.removeprefix("target.packages.") for entry in _frameworks(ctx))
    names = _wheels_of_other_major(ctx)
    if needed:
        return _framework_fixes(ctx, needed, names)
    if not names:
        return install_fixes(ctx, "Install the CuPy that fits.")
    removal = pip_fix(ctx.snapshot, "Remove the CUDA wheels of the other major.", "uninstall", "-y", *names)
    return (removal, *install_fixes(ctx, "Or install the CuPy that fits."))


def _framework_fixes(ctx: CheckContext, needed: tuple[str, ...], names: tuple[str, ...]) -> tuple[Fix, ...]:
    """CuPy follows the framework, unless this driver cannot run the framework's CUDA: then the framework is removed."""
    level, packages, labels = ctx.needs.driver_cuda, ctx.snapshot.target.packages, " and ".join(needed)
    majors = [cuda_major_of_wheel(name, packages[name]) or 0 for name in names]
    removal = f"emove {labels} with the CUDA wheels of its major"
    separation = f"eep CuPy and {labels} in separate environments."
    arguments = ("uninstall", "-y", *needed, *names)
    if level is not None and majors and min(majors) > level.major:
        first = pip_fix(ctx.snapshot, f"R{removal}, for which this driver is too old.", *arguments)
        install = install_fixes(ctx, "Or install the CuPy that fits.")
        return (first._replace(safe=False), *install, Fix(f"Or k{separation}"))
    install = install_fixes(ctx, "Install the CuPy that fits.")
    last = pip_fix(ctx.snapshot, f"Or r{removal}, if you need only CuPy.", *arguments)._replace(safe=False)
    return (*install, Fix(f"Or k{separation}" if install else f"K{separation}"), last)


def _wheels_of_other_major(ctx: CheckContext) -> tuple[str, ...]:
    """All CUDA wheels of the other major: one that stays is still loaded first."""
    cupy_major, packages = installed_cuda_major(ctx.snapshot.target), ctx.snapshot.target.packages
    majors = {name: major for name, release in packages.items() if (major := cuda_major_of_wheel(name, release))}
    of_nvrtc = {majors[name] for name in majors if _NVRTC.fullmatch(name)} - {cupy_major}
    others = of_nvrtc or {*majors.values()} - {cupy_major}
    return tuple(name for name, major in majors.items() if major in others) if cupy_major is not None else ()


_RELEASE = pattern(r"_(\d{1,3})_(\d{1,3})$")  # how nvJitLink's symbols end: __nvJitLinkComplete_12_4


@check(
    "LIB611",
    Cause.LIBRARY_PATH_CONFLICT,
    Cause.TORCH_CUPY_CONFLICT,
    requires=(*ONE_CUPY, "LIB602", "LIB603"),
    repair=RepairKind.ADD,
)
def incompatible_library(ctx: CheckContext) -> Outcome:
    """A CUDA library exists, but cannot be loaded together with another one that is found first.

    What it means: CUDA's libraries use each other, and one needs another of its own release or newer. If an older
    nvJitLink is installed with a newer cuSPARSE, or LD_LIBRARY_PATH points to one, the loader refuses cuSPARSE. CuPy
    then reports that the library is not found.
    How it is seen: the loader's messages when the target loads each library: a missing symbol or version.
    What to do: install the older library in the release of the one that needs it, or let that release be found first.
    """
    refused = [(library, refusal) for library in ctx.snapshot.target.libraries if (refusal := _refusal_of(library))]
    if not refused:
        return
    refusal = refused[0][1]
    provider = _provider(ctx, refusal)
    users = cuda_frameworks(ctx.snapshot) if _is_of_wheel(provider) else ()
    name = provider.soname if provider else refusal.by or "library"
    sonames = ", ".join(entry.soname for entry, _ in refused)
    found = f"{provider.release or 'unknown'} in {provider.path}" if provider else "unknown"
    yield Symptom(
        f"{sonames} cannot be loaded: the {name} that is found first is of another release",
        tuple(Evidence(entry.soname, entry.error or "", "the target's loader") for entry, _ in refused)
        + (Evidence(name, found, "the library itself"),)
        + users
        + evidence_of(ctx.snapshot, "environment.LD_LIBRARY_PATH"),
        _same_release(ctx, refusal, provider),
        cause=Cause.TORCH_CUPY_CONFLICT if users else None,
    )


def _provider(ctx: CheckContext, refusal: _Refusal) -> Library | None:
    """The library that lacks the symbol, by its soname or by the symbol's prefix, if known."""
    found = (entry for entry in ctx.snapshot.target.libraries if entry.path)
    if refusal.by:
        return next((entry for entry in found if entry.soname == refusal.by), None)
    return next((entry for entry in found if entry.name == _library_of_symbol(refusal.symbol)), None)


def _is_of_wheel(library: Library | None) -> bool:
    return library is not None and "/site-packages/" in (library.path or "")


def _same_release(ctx: CheckContext, refusal: _Refusal, provider: Library | None) -> tuple[Fix, ...]:
    first = without_folder_of_fixes(ctx.snapshot, (provider and provider.path) or "") or (
        Fix("Let the loader find the libraries of one CUDA release first; LD_LIBRARY_PATH decides if it is set."),
    )
    release, major = _RELEASE.search(refusal.symbol), installed_cuda_major(ctx.snapshot.target)
    if provider is None or not _is_of_wheel(provider) or major is None or release is None:
        return first
    wheel = cuda_wheel(provider.name.lower(), major)
    if wheel not in ctx.snapshot.target.packages:
        return first
    requirement = f"{wheel}>={release[1]}.{release[2]},<{int(release[1]) + 1}"
    return (
        pip_fix(ctx.snapshot, "Install the release that is needed.", "install", requirement),
        Fix("If another package pins the older one: keep CuPy and that package in separate environments."),
    )


_LIBRARIES = ("LIB602", "LIB603", "LIB601")
_BUNDLED = "/cupy/_core/include/cupy/_cuda/"
# Those for 12.2 to 12.6 in the wheel of cupy-cuda12x 13.5.1 need vector_types.h of the runtime; those for 12.8 do not.
_INCOMPLETE = pattern(r"/_cuda/cuda-12\.[2-6]/?$")
_AS_PTX = "CUPY_COMPILE_WITH_PTX"
_MINOR = pattern(r"\.so\.(\d+\.\d+)")


@check("LIB604", Cause.NVRTC_BUILTINS_MISMATCH, requires=_LIBRARIES, repair=RepairKind.REINSTALL)
def builtins(ctx: CheckContext) -> Outcome:
    """NVRTC does not find its builtins library, or finds that of another release.

    What it means: NVRTC consists of two files, libnvrtc.so and libnvrtc-builtins.so, which must be of the same release.
    The wheels of some releases (13.0) do not contain the path of the second, and only cuda-pathfinder knows it. Without
    it the first kernel that is compiled fails with NVRTC_ERROR_BUILTIN_OPERATION_FAILURE.
    How it is seen: NVRTC compiles an empty program in the target, which needs no GPU; then the loaded file is looked
    up.
    What to do: reinstall NVRTC, or install the release of the other CUDA libraries, and keep LD_LIBRARY_PATH to one
    CUDA release.
    """
    nvrtc, found = _library(ctx, "nvrtc"), _library(ctx, "nvrtc-builtins")
    if nvrtc is None or nvrtc.path is None or found is None:
        return
    release = _MINOR.search(found.soname)
    if found.path is not None and (release is None or nvrtc.release in (None, release[1])):
        return
    error = found.error or f"{found.path} is not of NVRTC's release {nvrtc.release}"
    yield Symptom(
        f"NVRTC cannot use its builtins: {error}",
        (
            _loaded(nvrtc),
            Evidence(found.soname, found.path or "not found", "NVRTC's compilation of an empty program"),
            *evidence_of(ctx.snapshot, "environment.LD_LIBRARY_PATH"),
        ),
        _nvrtc_fixes(ctx, nvrtc),
    )


def _nvrtc_fixes(ctx: CheckContext, nvrtc: Library) -> tuple[Fix, ...]:
    packages = ctx.snapshot.target.packages
    wheels = [name for name in packages if _NVRTC.fullmatch(name)]
    if wheels and _is_of_wheel(nvrtc):
        requirements = [f"{name}=={packages[name]}" for name in wheels]
        text, options = "Reinstall NVRTC.", ("--force-reinstall", "--no-deps")
        return (pip_fix(ctx.snapshot, text, "install", *options, *requirements),)
    return without_folder_of_fixes(ctx.snapshot, nvrtc.path or "") or (
        Fix("Let the loader find NVRTC and its builtins in the folder of one CUDA toolkit."),
    )


@check("LIB605", Cause.CUDA_HEADERS_MISSING, Cause.CUDA_PATH_WRONG, requires=_LIBRARIES, repair=RepairKind.ADD)
def headers_missing(ctx: CheckContext) -> Outcome:
    """The CUDA headers that run-time compilation needs are not found.

    What it means: CuPy compiles most kernels at first use, and they include CUDA's headers. CuPy 14 contains none of
    them; CuPy 13.6 contains those of CUDA 11, 12.0 and 12.1. An image of the kind "runtime" has none either.
    How it is seen: CuPy's own code, and cuda-pathfinder, list the folders to search; then the headers are looked up
    there.
    What to do: set CUDA_PATH to the installed toolkit, or install the wheel with the headers of the CUDA runtime, of
    NVRTC's minor release, or a whole toolkit.
    """
    target = ctx.snapshot.target
    folders = target.headers.value
    if folders is None or target.headers_cuda.known:
        return
    if any(_BUNDLED in folder and not _INCOMPLETE.search(folder) for folder in folders):
        return
    # A toolkit with headers, of CuPy's major, to which no variable points.
    major = installed_cuda_major(ctx.snapshot.target)
    kits = (kit for kit in ctx.needs.toolkits if kit.has_headers and not _variables(ctx))
    unnamed = next((kit for kit in kits if kit.toolkit.value and kit.toolkit.value.major == major), None)
    title = f"CuPy finds no CUDA headers to compile its kernels: {_without_headers(ctx, folders)}"
    yield Symptom(
        f"CuPy does not find the CUDA headers of the toolkit in {unnamed.path}" if unnamed else title,
        evidence_of(ctx.snapshot, "target.headers", "target.cuda_path")
        + tuple(Evidence(f"environment.{name}", value, "the environment") for name, value in _variables(ctx)),
        (*(variable_fixes(ctx.snapshot, "CUDA_PATH", unnamed.path) if unnamed else ()), _headers_fix(ctx)),
        cause=Cause.CUDA_PATH_WRONG if unnamed else None,
    )


def _without_headers(ctx: CheckContext, folders: Sequence[str]) -> str:
    """Why no headers are found: their wheel is missing, or the folders lack them."""
    major = installed_cuda_major(ctx.snapshot.target)
    wheel = cuda_wheel("cuda-runtime", major) if major else None
    if not folders and wheel and wheel not in ctx.snapshot.target.packages:
        return f"{wheel} is not installed"
    return f"none in {', '.join(folders)}" if folders else "no folder for them exists"


def _headers_fix(ctx: CheckContext) -> Fix:
    major = installed_cuda_major(ctx.snapshot.target)
    nvrtc = _library(ctx, "nvrtc")
    if major is None or nvrtc is None or nvrtc.release is None:
        return Fix("Install the headers of the CUDA runtime, of NVRTC's release, or a whole CUDA toolkit.")
    requirement = f"{cuda_wheel('cuda-runtime', major)}=={nvrtc.release}.*"
    return pip_fix(ctx.snapshot, "Install the headers of NVRTC's release.", "install", requirement)


@check("LIB606", Cause.CUDA_PATH_WRONG, Cause.LIBRARY_PATH_CONFLICT, requires=(*_LIBRARIES, "LIB605"))
def headers_other_major_toolkit(ctx: CheckContext) -> Outcome:
    """The CUDA headers that are found first have another major version than NVRTC.

    What it means: headers and compiler must match. Most headers of another minor release compile, but those of another
    major may not: NVRTC 12.4 compiles the cuda_fp16.h of CUDA 13.0, but fails on its cuda_fp8.h.
    How it is seen: CUDART_VERSION in the header that is found first is compared with the release that NVRTC reports.
    What to do: set CUDA_PATH to a toolkit of NVRTC's major, or unset it, and remove the other nvcc from PATH.
    """
    target, nvrtc = ctx.snapshot.target, _library(ctx, "nvrtc")
    headers = target.headers_cuda.value
    if headers is None or nvrtc is None or nvrtc.release is None:
        return
    if nvrtc.release.split(".")[0] == str(headers.major):
        yield from _conda_not_activated(ctx, nvrtc)
        return
    variables = _variables(ctx)
    yield Symptom(
        f"NVRTC is of CUDA {nvrtc.release}, but the CUDA headers that it finds first are of {headers}",
        evidence_of(ctx.snapshot, "target.headers_cuda")
        + (_loaded(nvrtc),)
        + evidence_of(ctx.snapshot, "target.cuda_path")
        + tuple(Evidence(f"environment.{name}", value, "the environment") for name, value in variables),
        _toolkit_fixes(ctx, "CUDA_PATH", int(nvrtc.release.split(".")[0])),
        Severity.WARNING,
        cause=None if variables else Cause.LIBRARY_PATH_CONFLICT,
    )


def _conda_not_activated(ctx: CheckContext, nvrtc: Library) -> Outcome:
    """Conda's own compiler with the headers of the system, because the environment is not activated."""
    target = ctx.snapshot.target
    prefix = target.prefix.value
    folders = [folder for folder in target.headers.value or () if _BUNDLED not in folder]
    if target.kind.value != "conda" or prefix is None or not folders or str(target.headers_cuda.value) == nvrtc.release:
        return
    activated = ctx.snapshot.environment.get("CONDA_PREFIX") == prefix
    if activated or not (nvrtc.path or "").startswith(f"{prefix}/") or folders[0].startswith(f"{prefix}/"):
        return
    yield Symptom(
        f"NVRTC {nvrtc.release} is conda's, but the CUDA headers that it finds first are the system's, "
        f"of {target.headers_cuda.value}: the environment is not activated",
        evidence_of(ctx.snapshot, "target.headers", "target.headers_cuda")
        + (_loaded(nvrtc), *evidence_of(ctx.snapshot, "environment.CONDA_PREFIX")),
        (Fix("Activate the environment before Python starts.", shell_line=f"conda activate {shlex.quote(prefix)}"),),
        Severity.WARNING,
        cause=Cause.LIBRARY_PATH_CONFLICT,
    )


@check(
    "LIB610",
    Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    Cause.GPU_REMOVED_FROM_TOOLKIT,
    Cause.CUPY_TOO_OLD_FOR_GPU,
    requires=("LIB602", "LIB603", "WHL505"),
    repair=RepairKind.REPLACE_WITH_LIBRARIES,
    compares_with_gpu=True,
)
def nvrtc_outside_gpu(ctx: CheckContext) -> Outcome:
    """The loaded NVRTC does not support this GPU, although another one of its major version would.

    What it means: a wheel line uses any NVRTC of its CUDA major, depending on what is installed. An older minor release
    does not know a newer GPU: CUDA 12.4 does not support Blackwell, CUDA 12.8 does. import cupy succeeds, but the first
    kernel fails with "invalid value for --gpu-architecture", or finds no code for the device.
    How it is seen: the release that NVRTC reports, and the GPUs that this release compiles for, as measured.
    What to do: install an NVRTC that supports the GPU, or the CuPy that includes one.
    """
    installed, nvrtc = installed_cupy(ctx), _library(ctx, "nvrtc")
    if (
        installed is None
        or nvrtc is None
        or nvrtc.path is None
        or nvrtc.release is None
        or is_container_without_gpu(ctx.snapshot)
    ):
        return
    row = next((row for row in minors_of(installed.wheel, ctx.matrix) if str(row.cuda) == nvrtc.release), None)
    gpus = left_out(installed.wheel, ctx.needs, row, ctx.matrix) if row else ()
    if row is not None and _is_one(ctx.snapshot.environment.get(_AS_PTX, "")):
        # PTX of the newest that NVRTC knows is compiled by the driver for GPUs that are newer still.
        oldest = min(row.capabilities)
        gpus = tuple(gpu for gpu in gpus if gpu.compute_capability and gpu.compute_capability < oldest)
    if row is None or not gpus:
        return
    cause, what = outside_text(set(row.capabilities), gpus, f"NVRTC {row.cuda}", installed)
    yield Symptom(
        f"{what} this GPU: {', '.join(dict.fromkeys(gpu.label for gpu in gpus))}",
        tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in gpus)
        + (
            _loaded(nvrtc),
            Evidence("compiled for", ", ".join(map(str, sorted(row.capabilities))), ctx.matrix.cite(row.source)),
        ),
        tuple(_other_nvrtc_fixes(ctx, installed, nvrtc)),
        cause=cause,
    )


def _other_nvrtc_fixes(ctx: CheckContext, installed: InstalledCupy, nvrtc: Library) -> Iterator[Fix]:
    """Finds the installed one first, or installs a CuPy that includes one, or a toolkit."""
    serving = serving_minors(installed.wheel, ctx.needs, ctx.matrix)
    by_variable = without_folder_of_fixes(ctx.snapshot, nvrtc.path or "")
    known = {row.cuda for row in serving}
    suitable = [kit for kit in ctx.snapshot.toolkits if kit.has_nvrtc and kit.toolkit.value in known]
    has_fix = bool(by_variable and suitable)
    if has_fix:
        first, *origin = by_variable
        yield first._replace(text=f"{first.text[:-1]}: the toolkit in {suitable[0].path} supports the GPU.")
        yield from origin
    wheel = ctx.resolution.wheel
    same = wheel and (wheel.distribution, wheel.version) == (installed.cupy.distribution, installed.cupy.release)
    if wheel is not None and (wheel.extra or not same):  # the same CuPy would find the same NVRTC
        install = install_fixes(ctx, f"{'Or install' if has_fix else 'Install'} the CuPy that includes such an NVRTC.")
        has_fix = has_fix or bool(install)
        yield from install
    if serving:
        versions = sorted(known)
        interval = f"{versions[0]} to {versions[-1]}" if len(versions) > 1 else str(versions[0])
        text = f"{'Or install' if has_fix else 'Install'} a toolkit of CUDA {interval}"
        yield Fix(f"{text}, and let CUDA_PATH and the loader find it first.")


@check("LIB612", Cause.NVRTC_OUTPUT_INVALID, requires=("LIB602", "LIB603", "WHL504"), compares_with_gpu=True)
def ptx_newer_than_driver(ctx: CheckContext) -> Outcome:
    """CuPy gives PTX to a driver that is older than the NVRTC that writes it.

    What it means: by default NVRTC makes finished code for the GPU, which any driver of the major version runs. With
    CUPY_COMPILE_WITH_PTX=1 CuPy uses PTX instead, and a driver reads only that of its own CUDA or older (NVRTC, section
    Versioning; cupy/cuda/compiler.py). Kernels then fail with CUDA_ERROR_UNSUPPORTED_PTX_VERSION.
    How it is seen: the variable, the release that NVRTC reports, and the CUDA level of the driver.
    What to do: unset the variable, or install a driver as new as NVRTC.
    """
    nvrtc, level = _library(ctx, "nvrtc"), ctx.needs.driver_cuda
    value = ctx.snapshot.environment.get(_AS_PTX, "")
    if not _is_one(value) or nvrtc is None or nvrtc.release is None or level is None:
        return
    if reads_ptx(level, CudaVersion.parse(nvrtc.release)):
        return
    yield Symptom(
        f"NVRTC {nvrtc.release} writes PTX, but the driver reads only that of CUDA {level} or older",
        (
            *evidence_of(ctx.snapshot, f"environment.{_AS_PTX}"),
            _loaded(nvrtc),
            *evidence_of(ctx.snapshot, "driver.cuda"),
        ),
        (*variable_fixes(ctx.snapshot, _AS_PTX), Fix(f"Or update the driver to one of CUDA {nvrtc.release} or newer.")),
    )


_FORCE_JIT, _DISABLE_JIT = "CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT"


@check("LIB614", Cause.NO_KERNEL_IMAGE, requires=("WHL503", "GPU202"), compares_with_gpu=True, of_process=True)
def ptx_compilation_switched(ctx: CheckContext) -> Outcome:
    """A variable forces or forbids the driver to compile PTX.

    What it means: with CUDA_FORCE_PTX_JIT=1 the driver ignores the finished code in programs and libraries and compiles
    their PTX; what has none does not load. With CUDA_DISABLE_PTX_JIT=1 it compiles no PTX; what has no finished code
    for this GPU does not load. The variables are for testing builds (CUDA Programming Guide, CUDA Environment
    Variables, read November 2026). Which libraries fail is not known in advance.
    How it is seen: the variables. With CUPY_COMPILE_WITH_PTX=1 CuPy's own kernels are PTX, which the second forbids.
    What to do: unset the variable, and set it only in the shell in which a build is tested.
    """
    environment = ctx.snapshot.environment
    if _is_one(environment.get(_FORCE_JIT, "")):
        yield Symptom(
            f"{_FORCE_JIT}=1: the driver ignores the finished code of CuPy and CUDA's libraries; what has no PTX fails",
            evidence_of(ctx.snapshot, f"environment.{_FORCE_JIT}"),
            variable_fixes(ctx.snapshot, _FORCE_JIT),
            Severity.WARNING,
        )
    if _is_one(environment.get(_DISABLE_JIT, "")):
        only_ptx = _is_one(environment.get(_AS_PTX, ""))
        effect = "but CuPy's kernels are PTX" if only_ptx else "and what has no finished code for this GPU fails"
        yield Symptom(
            f"{_DISABLE_JIT}=1: the driver compiles no PTX, {effect}",
            evidence_of(
                ctx.snapshot, f"environment.{_DISABLE_JIT}", *((f"environment.{_AS_PTX}",) if only_ptx else ())
            ),
            variable_fixes(ctx.snapshot, _DISABLE_JIT),
            Severity.WARNING if only_ptx else Severity.NOTE,
        )


def _is_one(value: str) -> bool:
    """Whether CuPy reads a switch as on."""
    try:
        return int(value) == 1
    except ValueError:
        return False


def _variables(ctx: CheckContext) -> list[tuple[str, str]]:
    environment = ctx.snapshot.environment
    return [(name, environment[name]) for name in ("CUDA_PATH", "CUDA_HOME") if name in environment]


def _loaded(nvrtc: Library) -> Evidence:
    return Evidence(nvrtc.soname, f"{nvrtc.release or 'unknown'} in {nvrtc.path}", "NVRTC itself")


def _library(ctx: CheckContext, name: str) -> Library | None:
    return next((entry for entry in ctx.snapshot.target.libraries if entry.name == name), None)


_LIBSTDCXX = pattern(r"/[^\s:]*/libstdc\+\+\.so[.\d]*")
_RUNTIME = pattern(r"(GLIBCXX|CXXABI)_[\d.]+")
_REFUSALS = ("not found (required by", "cannot open shared object", "undefined symbol")  # the loader's messages
_WINDOWS_ERRORS = ("DLL load failed", "Could not find module")  # of Python, and of its ctypes
_TOOLKIT_FOLDERS = ("bin", "lib", "lib64", "include")
# The optional library that only CuPy uses, also its name in CUPY_ACCELERATORS; others depend on NCCL for themselves.
_CUTENSOR, _CUTENSOR_WHEEL = "cutensor", pattern(r"cutensor(-cu\d\d)?")


@check(
    "LIB607",
    Cause.LIBSTDCXX_MISMATCH,
    Cause.CORRUPT_INSTALLATION,
    Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
    Cause.CUDA_LIBRARY_MISSING,
    Cause.WINDOWS_DLL_LOAD_FAILURE,
    requires=(*ONE_CUPY, "WHL510", "WHL512"),
    unless=("LIB613",),
    repair=RepairKind.REPLACE,
)
def compiled_module(ctx: CheckContext) -> Outcome:
    """CuPy's own compiled module cannot be loaded.

    What it means: import cupy fails. If the message names the C++ runtime, a libstdc++ older than the one CuPy was
    built with is found first: by LD_LIBRARY_PATH, by LD_PRELOAD, or because a program that embeds Python has loaded it.
    If it names a CUDA library, CuPy is linked with that release, as are builds from source, builds of Linux
    distributions and conda, and wheels before CuPy 13. Windows does not say which DLL is missing.
    How it is seen: the target's loader loads the file of cupy._core; none of its functions is called.
    What to do: remove the folder with the old libstdc++ from LD_LIBRARY_PATH, or in conda install libstdcxx-ng; for a
    CUDA library, install the CuPy of the installed CUDA; otherwise, reinstall CuPy.
    """
    target = ctx.snapshot.target
    reason = target.extension.reason or ""
    if ctx.snapshot.host.os.value == "windows":
        yield from _missing_dll(ctx, reason)
        return
    if target.extension.known or not any(refusal in reason for refusal in _REFUSALS) or _DRIVER_LIBRARY.search(reason):
        return
    missing = _linked_library(reason)
    if missing is not None:
        if not any(entry.path is None and not entry.optional for entry in target.libraries):  # else LIB601 reports them
            yield _without_library(ctx, missing, evidence_of(ctx.snapshot, "target.extension"))
        return
    runtime = _RUNTIME.search(reason)
    yield Symptom(
        f"CuPy's compiled module cannot be loaded: {reason}",
        evidence_of(ctx.snapshot, "target.extension", "environment.LD_LIBRARY_PATH", "environment.LD_PRELOAD"),
        _runtime_fixes(ctx.snapshot, reason)
        if runtime
        else (Fix("Let the loader find the library in the message, or reinstall CuPy."),),
        cause=None if runtime else Cause.CORRUPT_INSTALLATION,
    )


def _runtime_fixes(snapshot: Snapshot, reason: str) -> tuple[Fix, ...]:
    """How to keep the loader from the older libstdc++ that its message names."""
    path = found[0] if (found := _LIBSTDCXX.search(reason)) else ""
    preloaded = re.split(r"[ :]+", snapshot.environment.get("LD_PRELOAD", ""))
    if path in preloaded:
        rest = " ".join(entry for entry in preloaded if entry not in ("", path))
        return variable_fixes(snapshot, "LD_PRELOAD", rest or None, f"Remove {path} from LD_PRELOAD.")
    return without_folder_of_fixes(snapshot, path) or (Fix("Let the loader find a newer libstdc++ first."),)


def _missing_dll(ctx: CheckContext, reason: str) -> Outcome:
    """Reports a missing CUDA DLL: wheels before CuPy 13 are linked with them, and only a toolkit has them.

    With a toolkit it is undetermined: CuPy adds its folder to the search path, the probe does not.
    """
    snapshot = ctx.snapshot
    major = installed_cuda_major(ctx.snapshot.target)
    if (
        not any(error in reason for error in _WINDOWS_ERRORS)
        or snapshot.toolkits
        or "CUDA_PATH" in snapshot.environment
    ):
        return
    yield Symptom(
        f"A DLL that CuPy's compiled module needs is not found, and no CUDA toolkit is installed: {reason}",
        evidence_of(snapshot, "target.extension", "environment.CUDA_PATH"),
        (
            Fix(f"Install a toolkit of CUDA {major or 'of its wheel line'}, which sets CUDA_PATH."),
            *install_fixes(ctx, "Or install the CuPy that includes its libraries."),
        ),
        cause=Cause.WINDOWS_DLL_LOAD_FAILURE,
    )


@check("LIB608", Cause.CUDA_PATH_WRONG, requires=ONE_CUPY)
def path_to_nowhere(ctx: CheckContext) -> Outcome:
    """CUDA_PATH or CUDA_HOME does not point to a toolkit of CuPy's CUDA major.

    What it means: CuPy uses the headers and libraries of the toolkit in CUDA_PATH, and build tools those of CUDA_HOME.
    If the folder does not exist, they silently use others; a folder inside of a toolkit, or a toolkit of another major,
    causes errors of the compiler or of the loader.
    How it is seen: the folder in the variable, and the version of the toolkit in it.
    What to do: unset the variable, or set it to a toolkit of the CUDA major of CuPy's wheel line.
    """
    snapshot = ctx.snapshot
    for name in snapshot.pointing_nowhere:
        yield Symptom(
            f"{name} is set to a folder that does not exist: {snapshot.environment.get(name, '')}",
            (Evidence(f"environment.{name}", snapshot.environment.get(name, ""), "the environment"),)
            + evidence_of(snapshot, "target.cuda_path"),
            _toolkit_fixes(ctx, name, installed_cuda_major(ctx.snapshot.target)),
            Severity.WARNING,
        )
    yield from _other_major_toolkit(ctx)
    yield from _inside_a_toolkit(ctx)


def _inside_a_toolkit(ctx: CheckContext) -> Outcome:
    """A variable set to a folder inside of a toolkit, in which CuPy and build tools look for bin and include."""
    environment = ctx.snapshot.environment
    for name in ("CUDA_PATH", "CUDA_HOME"):
        value = environment.get(name, "").rstrip("/\\")
        root, _, last = value.replace("\\", "/").rpartition("/")
        if not root or last.lower() not in _TOOLKIT_FOLDERS or name in ctx.snapshot.pointing_nowhere:
            continue
        toolkit = value[: len(root)]
        yield Symptom(
            f"{name} is set to the folder {last} of a toolkit instead of the toolkit: {value}",
            (Evidence(f"environment.{name}", value, "the environment"),)
            + evidence_of(ctx.snapshot, "target.cuda_path"),
            variable_fixes(ctx.snapshot, name, toolkit, "Set it to the toolkit itself."),
            # On Windows CuPy adds its folder bin to the search path, and import cupy fails if there is none.
            Severity.ERROR if ctx.snapshot.host.os.value == "windows" and name == "CUDA_PATH" else Severity.WARNING,
        )


def _toolkit_fixes(ctx: CheckContext, name: str, major: int | None) -> tuple[Fix, ...]:
    """Sets a variable to an installed toolkit of a CUDA major, or unsets it."""
    snapshot = ctx.snapshot
    kits = (kit for kit in snapshot.toolkits if kit.has_headers and not kit.in_target and kit.found_via != name)
    kit = next((kit for kit in kits if kit.toolkit.value and kit.toolkit.value.major == major), None)
    if kit is not None:
        return variable_fixes(snapshot, name, kit.path, f"Set {name} to the installed toolkit of CUDA {major}.")
    if name in snapshot.environment:
        return variable_fixes(snapshot, name)
    return (Fix(f"Install a toolkit of CUDA {major}, and set {name} to it."),)


def _other_major_toolkit(ctx: CheckContext) -> Outcome:
    snapshot = ctx.snapshot
    line = snapshot.target.cupy[0].distribution if snapshot.target.cupy else ""
    major = installed_cuda_major(ctx.snapshot.target)
    for kit in snapshot.toolkits:
        release = kit.toolkit.value
        if kit.found_via != "CUDA_PATH" or release is None or major in (None, release.major):
            continue
        value = snapshot.environment.get("CUDA_PATH", kit.path)
        yield Symptom(
            f"CUDA_PATH is set to a toolkit of CUDA {release}, but {line} is for CUDA {major}",
            (Evidence("environment.CUDA_PATH", value, "the environment"),) + fact("toolkits[].toolkit", kit.toolkit),
            _toolkit_fixes(ctx, "CUDA_PATH", major),
            Severity.WARNING,
        )


@check("LIB609", Cause.OPTIONAL_LIBRARY_MISSING, requires=ONE_CUPY)
def optional_library(ctx: CheckContext) -> Outcome:
    """An optional library was requested, but CuPy does not find it.

    What it means: CuPy works without cuTENSOR, NCCL and cuSPARSELt, but operations that need them fail, or are slower;
    a wheel of another CUDA major contains a library that CuPy does not look for.
    How it is seen: CUPY_ACCELERATORS, or a distribution of the library, is compared with what CuPy's own code and the
    loader find.
    What to do: install the library for the CUDA major of CuPy's wheel line.
    """
    snapshot = ctx.snapshot
    accelerators = [name.strip() for name in snapshot.environment.get("CUPY_ACCELERATORS", "").split(",")]
    is_requested = _CUTENSOR in accelerators
    libraries = snapshot.target.libraries
    library = next((entry for entry in libraries if entry.optional and entry.name == _CUTENSOR), None)
    wheels = {p: r for p, r in snapshot.target.packages.items() if _CUTENSOR_WHEEL.fullmatch(p)}
    # Without any library or folder, CuPy's own code could not look for optional libraries at all.
    if not (libraries or snapshot.target.cuda_path.known) or not (is_requested or wheels):
        return
    if (library is None and not is_requested) or (library is not None and library.path is not None):
        return  # this CuPy does not use it, or finds it
    sources = [f"CUPY_ACCELERATORS={_CUTENSOR}"] if is_requested else []
    sources += [f"{package} {release}" for package, release in wheels.items()]
    variable = (Evidence("environment.CUPY_ACCELERATORS", _CUTENSOR, "the environment"),) if is_requested else ()
    found = Evidence(library.soname if library else _CUTENSOR, (library and library.error) or "not found", "the loader")
    yield Symptom(
        f"{_CUTENSOR} is requested by {' and '.join(sources)}, but CuPy does not find it",
        (found, *packages_as_evidence(wheels), *variable),
        (Fix(f"Install the {_CUTENSOR} of the CUDA major of CuPy's wheel line, or do not request it."),),
        Severity.WARNING,
    )


# A missing CUDA library with which CuPy's own modules are linked: why, and the fixes. Wheels up to CuPy 12, and builds
# from source of any release, are linked with CUDA, so that import cupy fails.

_MISSING = pattern(
    r"\b(lib(cudart|cublas|cublasLt|cufft|curand|cusolver|cusparse|nvrtc|nvJitLink)\.so\.(\d+(?:\.\d+)?)): cannot open"
)
_NUMBERED_AS_CUDA = ("cudart", "cublas", "nvrtc")  # their sonames contain the release of CUDA, others their own
_CONDA_TOOLKITS = ("cudatoolkit", "cuda-version")
_FIRST_OF_ANY_MINOR = 11  # from here on libcudart is named after its major


class _LinkedLibrary(NamedTuple):
    """The missing library, and its CUDA version if the soname contains one."""

    soname: str
    cuda: CudaVersion | None

    def is_of(self, release: CudaVersion | None) -> bool:
        """Whether a CUDA release has this library."""
        if release is None or self.cuda is None:
            return False
        same_major = release.major == self.cuda.major
        return same_major and (self.cuda.major >= _FIRST_OF_ANY_MINOR or release.minor == self.cuda.minor)

    @property
    def cuda_label(self) -> str:
        """``CUDA 10.2``, ``CUDA 11`` if any minor is suitable."""
        if self.cuda is None:
            return "its CUDA"
        return f"CUDA {self.cuda.major if self.cuda.major >= _FIRST_OF_ANY_MINOR else self.cuda}"


def _linked_library(message: str) -> _LinkedLibrary | None:
    """The CUDA library that the loader does not find, from its message."""
    found = _MISSING.search(message)
    if found is None:
        return None
    release = found[3] if "." in found[3] else f"{found[3]}.0"
    return _LinkedLibrary(found[1], CudaVersion.parse(release) if found[2] in _NUMBERED_AS_CUDA else None)


def _without_library(ctx: CheckContext, missing: _LinkedLibrary, evidence: tuple[Evidence, ...]) -> Symptom:
    """A library without which CuPy's modules cannot be loaded is elsewhere, of another CUDA, or missing."""
    cupy = ctx.snapshot.target.cupy[0]
    toolkits = [kit for kit in ctx.snapshot.toolkits if kit.toolkit.known]
    same = [kit for kit in toolkits if missing.is_of(kit.toolkit.value)]
    of_conda = {name: ctx.snapshot.target.conda_packages.get(name) for name in _CONDA_TOOLKITS}
    others = tuple(Evidence("a toolkit", f"CUDA {kit.toolkit.value} in {kit.path}", kit.found_via) for kit in toolkits)
    others += tuple(Evidence(f"target.packages.{n}", r, "conda's records") for n, r in of_conda.items() if r)
    evidence += others + evidence_of(ctx.snapshot, *SEARCH_PATHS)
    if same:
        where = f"{same[0].path}, which the loader does not search"
        folder = f"{same[0].path.rstrip('/')}/lib64"
        return Symptom(
            f"{cupy.distribution} is linked with {missing.soname}, which may be in {where}",
            evidence + fact("toolkits[].toolkit", same[0].toolkit),
            (with_folder_fix(ctx.snapshot, folder, "Let the loader find its libraries."),),
            cause=Cause.CUDA_LIBRARY_MISSING,
        )
    if others and missing.cuda is not None:
        # The CuPy of the installed CUDA, or the CUDA that CuPy is linked with.
        other, target = install_fixes(ctx, "Install the CuPy that fits."), ctx.snapshot.target
        pinned = ("conda", "install", *conda_prefix_option(target), f"cudatoolkit={missing.cuda}")
        toolkit = f"nstall {missing.cuda_label}, and let the loader find its libraries."
        fixes = (*other, Fix(f"{'Or i' if other else 'I'}{toolkit}"))
        if is_managed_by_conda(target) and target.conda_packages.get("cudatoolkit"):
            fixes = (Fix("Install the CUDA that this build is linked with.", pinned), *other)
        return Symptom(
            f"{cupy.distribution} is linked with {missing.soname} of {missing.cuda_label}, "
            "but another CUDA is installed",
            evidence,
            fixes,
            cause=Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
        )
    return Symptom(
        f"{cupy.distribution} is linked with {missing.soname}, which is not found",
        evidence,
        (Fix(f"Install {missing.cuda_label}, and add its lib64 folder to the loader's path."),)
        + install_fixes(ctx, "Or install the CuPy that fits."),
        cause=Cause.CUDA_LIBRARY_MISSING,
    )
