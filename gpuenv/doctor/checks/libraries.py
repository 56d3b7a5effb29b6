"""The CUDA libraries that CuPy loads, what run-time compilation needs, and CuPy's own compiled modules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuenv.doctor.checks.fit import told_outside
from gpuenv.doctor.checks.installation import ONE_CUPY
from gpuenv.doctor.evidence import SEARCHED, cuda_bringers, evidence_of, fact, packages_as_evidence
from gpuenv.doctor.fixes.packages import condas_prefix, install_fix, pip_fix
from gpuenv.doctor.installed import Installed, installed, installed_cuda_major, is_condas, uses_pathfinder
from gpuenv.doctor.predicates import without_gpu
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, RepairKind, Symptom, check
from gpuenv.matrix.candidates import left_out, minors_of, serving_minors
from gpuenv.matrix.products import reads_ptx
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.nvidia import cuda_major_of_wheel, cuda_wheel
from gpuenv.model.reading import ASSUMED
from gpuenv.model.snapshot import Library, SourceState
from gpuenv.model.strings import pattern
from gpuenv.model.versions import CudaVersion

# glibc's own words (elf/dl-lookup.c, elf/dl-version.c): of a symbol, of a symbol's version, of a version as a whole.
_REFUSED = pattern(
    r"undefined symbol: (?P<a>\w+)(?:, version (?P<b>lib[\w.-]+)|(?!\w|, version))"
    r"|symbol (?P<c>\w+),? version (?P<d>lib[\w.-]+) not defined in file"
    r"|version [`'](?P<e>lib[\w.-]+)' not found"
)
# Those that export functions to the others; a longer name before the one that it begins with.
_OF_LIBRARY = pattern(r"_*(nvJitLink|cublasLt|cublas|cusparse|cusolver|curand|cufft|nvrtc|cuda)(?=[A-Z_])")
# Likewise, of the file itself (elf/dl-load.c), with what the probe adds where it could not be mapped.
_UNTAKEN = pattern(
    r"(?P<noexec>mounted noexec)|(?P<limit>ulimit -v is \d+ KiB)"
    r"|(?P<reserve>cannot allocate memory in static TLS)"
    r"|(?P<unmapped>failed to map segment"
    r"|cannot (?:allocate memory(?! in static TLS)|change memory protections|enable executable stack))"
    r"|(?P<denied>cannot open shared object file: (?:Permission denied|Operation not permitted))"
    r"|(?P<damaged>file too short|invalid ELF header|wrong ELF class|ELF file|ELF load command|cannot read file data"
    r"|only ET_DYN and ET_EXEC can be loaded|object file has no|Input/output error)"
)
_DRIVERS_OWN = pattern(r"libcuda\.so|libnvidia")


class Refusal(NamedTuple):
    """What the loader did not find in another library."""

    symbol: str  # empty where a whole version is missing
    by: str | None  # the soname of that library, if the loader names it


def refusal_of(library: Library) -> Refusal | None:
    """Why the loader refuses a library that is there; None where it loads, is not there, or fails otherwise."""
    found = None if library.path or library.optional else _REFUSED.search(library.error or "")
    if found is None:
        return None
    symbol, by = found["a"] or found["c"] or "", found["b"] or found["d"] or found["e"]
    # A symbol of the C++ runtime's, say, is no matter of CUDA's libraries among themselves.
    return Refusal(symbol, by) if by or library_of_symbol(symbol) else None


def library_of_symbol(symbol: str) -> str | None:
    """The CUDA library whose symbol it is: ``__nvJitLinkComplete_12_4`` is of nvJitLink."""
    found = _OF_LIBRARY.match(symbol)
    return found[1] if found else None


_LIMIT = pattern(r"ulimit -v is (\d+) KiB")
_FILE = pattern(r"(/[^:]*): (?:failed|cannot|file too|invalid|wrong|ELF|only|object)")
_FINDERS = pattern(r"^Failed to dlopen [^:]*: ")  # cuda-pathfinder's, before the loader's own words
# GNU C Library Manual, Dynamic Linking Tunables: optional_static_tls is "the amount of surplus static TLS in bytes".
_MORE_TLS = ("env", "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384", "gpuenv", "doctor")
# Why the loader cannot load a file that is there, by the groups of the pattern, the first one that matches; and fixes.
_LOADER_FAULTS = {
    "noexec": (
        "the file system is mounted noexec",
        (Fix("Make the environment on another file system, or have this one mounted without noexec."),),
    ),
    "limit": (
        "this process may not map as much memory as that needs",
        (Fix("Raise the limit{limit} in the shell or the job that starts the program: ulimit -v unlimited"),),
    ),
    "reserve": (
        "too little is reserved for the variables that each thread has of its own",
        (
            Fix("See whether a larger reserve helps; then set that where CuPy is started.", _MORE_TLS),
            Fix("Or leave out what is preloaded (LD_PRELOAD, LD_AUDIT), or import CuPy before what takes the reserve."),
        ),
    ),
    "unmapped": (
        "the loader cannot map it into memory",
        (Fix("See how their file system is mounted, and what limits the memory of this process: ulimit -a"),),
    ),
    "denied": (
        "this user may not read the file",
        (Fix("Let this user read them, or make an environment of your own."),),
    ),
    "damaged": ("the file is damaged, or of another machine", (Fix("Install again what {files} belongs to."),)),
}


@check(
    "LIB613",
    Cause.TARGET_ENVIRONMENT_BROKEN,
    Cause.CORRUPT_INSTALLATION,
    requires=ONE_CUPY,
    unless=("WHL510", "WHL512"),
)
def cannot_be_taken(ctx: CheckContext) -> Outcome:
    """Files of CuPy or of the CUDA libraries are there, and the loader cannot take them.

    What it means: nothing is missing, and to install it again does not help. Nothing can be loaded from a file
    system that is mounted noexec, as temporary folders and home folders of clusters are; a limit of the address
    space (ulimit -v) that is smaller than the libraries keeps them out, or a reserve of static TLS that is; files
    that another user has put there may not be readable; or a file is damaged. CuPy says that the library is not
    found, or import cupy ends with an ImportError.
    How it is seen: the loader's own words when the target loads each file, how their file system is mounted, and the
    limit of this process.
    What to do: put the environment on a file system without noexec, raise the limit, let this user read the files, or
    put damaged ones in anew.
    """
    target = ctx.snapshot.target
    refused = [("CuPy's compiled module", target.extension.reason)] if not target.extension.known else []
    refused += [(entry.soname, entry.error) for entry in target.libraries if entry.path is None and not entry.optional]
    faults = [(name, words or "", _loader_fault(words)) for name, words in refused]
    kind = next((kind for kind in _LOADER_FAULTS if any(fault == kind for _, _, fault in faults)), None)
    if kind is None:
        return
    why, fixes = _LOADER_FAULTS[kind]
    of_kind = [(name, words) for name, words, fault in faults if fault == kind]
    first, more = of_kind[0][0], len(of_kind) - 1
    limits = [int(found[1]) for _, words in of_kind if (found := _LIMIT.search(words))]
    limit = f" of {limits[0] // 1024} MiB" if limits else ""
    files = ", ".join(dict.fromkeys(found[1] for _, words in of_kind if (found := _FILE.search(words)))) or "the file"
    yield Symptom(
        f"{first}{f' and {more} more' if more else ''} cannot be loaded: {why}",
        tuple(Evidence(name, _FINDERS.sub("", words), "the target's loader") for name, words in of_kind)
        + evidence_of(ctx.snapshot, "target.prefix"),
        tuple(fix._replace(text=fix.text.format(limit=limit, files=files)) for fix in fixes),
        cause=Cause.CORRUPT_INSTALLATION if kind == "damaged" else None,
    )


def _loader_fault(words: str | None) -> str | None:
    """Why a file that is there cannot be loaded, by the loader's words; None where that is not what they say."""
    if not words or _DRIVERS_OWN.search(words):  # other checks report a library of the driver
        return None
    found = {match.lastgroup for match in _UNTAKEN.finditer(words)}
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

    What it means: a library that CuPy would load ends the process, or does not come back. CuPy will do the same at its
    first use.
    How it is seen: a process of the target's interpreter loads them one by one; it was ended by a signal, or by an
    alarm after most of the time that was left. The others are loaded again without it.
    What to do: install the CUDA libraries again; on a slow network file system, give it more time with --timeout.
    """
    state = ctx.snapshot.source("libraries")
    if state.state not in (SourceState.CRASHED, SourceState.TIMED_OUT):
        return
    libraries, there = ctx.snapshot.target.libraries, ctx.snapshot.target.cupy
    loaded = tuple(_evidence(library) for library in libraries)
    lost = [entry.soname for entry in libraries if entry.path is None and (entry.error or "").startswith("loading it")]
    does = "crashes" if state.state is SourceState.CRASHED else "does not end"
    yield Symptom(
        f"Loading {', '.join(lost) or 'the CUDA libraries'} for {there[0].distribution if there else 'CuPy'} {does}",
        evidence_of(ctx.snapshot, "libraries") + loaded,
        _fixes(ctx, again=True),
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

    What it means: from CuPy 14 on, cuda-pathfinder looks for the libraries, and it tries those of CUDA 13 before
    those of CUDA 12. CUDA wheels that another package brought are then loaded into a CuPy of another major.
    How it is seen: the file that cuda-pathfinder loads in the target, against the name that this CuPy needs.
    What to do: remove the CUDA wheels of the other major, or keep CuPy and the package that brought them in
    environments of their own, or install the CuPy of that major.
    """
    astray = [
        library
        for library in ctx.snapshot.target.libraries
        if (found := _SONAME.search(library.finder_path or "")) and not library.soname.startswith(found[1])
    ]
    if not astray:
        yield from _by_its_own_word(ctx)
        yield from _foreseen(ctx)
        return
    yield _of_other_major(
        ctx,
        f"Libraries of another CUDA major are loaded in place of those CuPy needs: {_and_where(astray)}",
        tuple(Evidence(library.soname, str(library.finder_path), "cuda-pathfinder") for library in astray),
        wheels(ctx),
    )


def _of_other_major(
    ctx: CheckContext, title: str, first: tuple[Evidence, ...], last: tuple[Evidence, ...] = ()
) -> Symptom:
    brought = bringers(ctx)
    cause = Cause.TORCH_CUPY_CONFLICT if brought else None
    return Symptom(title, first + brought + last, _ways_out(ctx), cause=cause)


def _and_where(astray: Sequence[Library]) -> str:
    """Each with the file that is taken for it; of several the folders alone, for the evidence has every file."""
    if len(astray) == 1:
        return f"{astray[0].soname} ({astray[0].finder_path})"
    folders = dict.fromkeys((library.finder_path or "").rpartition("/")[0] for library in astray)
    return f"{', '.join(library.soname for library in astray)} (those in {', '.join(folders)} are found first)"


def _by_its_own_word(ctx: CheckContext) -> Outcome:
    """An NVRTC of another major than CuPy's, reported by cupy.show_config() without its file."""
    major = installed_cuda_major(ctx)
    told = [entry for entry in ctx.snapshot.target.libraries if entry.name == "nvrtc" and entry.release]
    astray = [entry for entry in told if major and (entry.release or "").split(".")[0] != str(major)]
    if not astray:
        return
    yield _of_other_major(
        ctx,
        f"{ctx.snapshot.target.cupy[0].distribution} has loaded NVRTC {astray[0].release}, of another CUDA major",
        tuple(Evidence(entry.soname, f"NVRTC {entry.release}", entry.found_via or "NVRTC itself") for entry in astray),
        wheels(ctx),
    )


def _foreseen(ctx: CheckContext) -> Outcome:
    """What a list of packages implies where no library was looked for: a paste, or assumptions.

    cuda-pathfinder tries the names of CUDA 13 before those of CUDA 12: shown with cupy-cuda12x 14 and both in wheels.
    """
    target, major = ctx.snapshot.target, installed_cuda_major(ctx)
    told = {name: cuda_major_of_wheel(name, of) for name, of in target.packages.items() if _NVRTC.fullmatch(name)}
    newer = {name: target.packages[name] for name, of in told.items() if (major, of) == _OLD_AND_NEW_NAMES}
    if not newer or target.libraries or not uses_pathfinder(target.cupy[0].release):
        return
    if ctx.snapshot.source("libraries").state is not SourceState.NOT_ASKED:
        return
    there = ", ".join(f"{name} {release}" for name, release in newer.items())
    title = f"{target.cupy[0].distribution} loads the CUDA wheels of another major version that are there: {there}"
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
    cupy succeeds without them; the first kernel or product fails.
    How it is seen: the target's own loader is asked for each library, in the order in which CuPy itself looks.
    What to do: install the extra ctk of the same CuPy (from 14 on), or a toolkit of the same major; if a toolkit of
    another major is what you have, install the wheel line of that major.
    """
    snapshot = ctx.snapshot
    state = snapshot.source("libraries")
    if state.state is not SourceState.ANSWERED and not snapshot.target.libraries:
        why, cupy, major = (
            "the target's libraries were not asked for",
            snapshot.target.cupy,
            installed_cuda_major(ctx),
        )
        if cupy and "target.cupy" in snapshot.assumed:
            why = f"{cupy[0].distribution} is assumed, and nobody was asked for the libraries that it loads"
            why += f"; --assume toolkit={major}.0 assumes a toolkit that has them" if major else ""
        yield NotKnown(state.detail or why)
        return
    if not snapshot.target.cupy:
        yield NotKnown("which CuPy the libraries are for was not told")
        return
    needed = [entry for entry in snapshot.target.libraries if not entry.optional and entry.name != "nvrtc-builtins"]
    if not needed:
        yield NotKnown(f"which CUDA libraries {snapshot.target.cupy[0].distribution} loads is not known")
        return
    missing = [library for library in needed if library.path is None and refusal_of(library) is None]
    if not missing:
        if state.state is not SourceState.ANSWERED and any(library.found_via != ASSUMED for library in needed):
            yield NotKnown(state.detail or "not all of the target's libraries were asked for")
        return
    if _finder_is_gone(ctx):
        yield NotKnown("the CUDA wheels are there, and cuda.pathfinder, which would find them, cannot be imported")
        return
    major = installed_cuda_major(ctx)
    others = tuple(
        Evidence("a toolkit", f"CUDA {kit.toolkit.value} in {kit.path}", kit.found_via)
        for kit in snapshot.toolkits
        if kit.toolkit.value and kit.toolkit.value.major != major and kit.has_nvrtc and not kit.in_target
    )
    others += _nvrtcs(ctx)
    others += tuple(
        Evidence(f"target.packages.{entry.distribution}", f"{entry.version}, CUDA {entry.cuda_major}", entry.source)
        for entry in ctx.needs.brings
        if not entry.is_library and entry.cuda_major != major
    )
    evidence = tuple(_evidence(library) for library in needed) + others
    # Some names are the same in two majors (libcurand.so.10, libcusparse.so.12): NVRTC tells.
    if others and major is not None and any(library.name == "nvrtc" for library in missing):
        yield Symptom(
            f"{snapshot.target.cupy[0].distribution} needs the libraries of CUDA {major}, "
            "but those there are of another major version",
            evidence,
            _of_what_is_there(ctx),
            cause=Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
        )
        return
    named = ", ".join(library.soname for library in missing)
    yield Symptom(
        f"CUDA libraries that CuPy loads are not found: {named}",
        evidence + evidence_of(ctx.snapshot, *SEARCHED),
        _fixes(ctx),
    )


def _finder_is_gone(ctx: CheckContext) -> bool:
    """Whether CuPy would find its CUDA wheels by a cuda.pathfinder that is missing; other checks report that."""
    target, major = ctx.snapshot.target, installed_cuda_major(ctx)
    needs_it = any("cuda-pathfinder" in words for words in target.cupy[0].requires)
    gone = "cuda-pathfinder" not in target.packages or target.pathfinder_hidden_by.known
    wheels = (cuda_major_of_wheel(name, release) for name, release in target.packages.items() if _NVRTC.fullmatch(name))
    return needs_it and gone and major in wheels


def _evidence(library: Library) -> Evidence:
    """Where it is; or not found; or what else keeps it from being loaded, such as a library that it needs itself."""
    error = library.error or ""
    why_not = "not found" if not error or error.startswith(library.soname) else error
    return Evidence(library.soname, library.path or why_not, library.found_via or "the target's loader")


def _of_what_is_there(ctx: CheckContext) -> tuple[Fix, ...]:
    """The CuPy of the CUDA that is there; first of all the libraries for the one that is installed, by its extra."""
    there, chosen = installed(ctx), ctx.resolution.wheel
    if chosen is None or (there is not None and chosen.distribution == there.cupy.distribution):
        return _fixes(ctx)
    if there is not None and there.exact and there.wheel.release.extras:
        return (*_fixes(ctx), *install_fix(ctx, "Or install the CuPy that fits."))
    return (*install_fix(ctx, "Install the CuPy that fits."), *_fixes(ctx, other=True))


def _fixes(ctx: CheckContext, *, again: bool = False, other: bool = False) -> tuple[Fix, ...]:
    there = installed(ctx)
    found = "CUDA_PATH name it" if ctx.snapshot.host.os.value == "windows" else "the loader find its lib64 folder"
    major = installed_cuda_major(ctx)
    what = f"nstall a CUDA {f'{major} ' if major else ''}toolkit, and let {found}."
    toolkit = Fix(f"Or i{what}")
    if there is not None and there.exact and there.wheel.release.extras:
        extra = next(iter(there.wheel.release.extras))
        requirement = f"{there.cupy.distribution}[{extra}]=={there.cupy.release}"
        options = ("--force-reinstall",) if again else ()
        return (
            pip_fix(ctx.snapshot, f"Install the libraries beside it: {requirement}", "install", *options, requirement),
            toolkit,
        )
    chosen = ctx.resolution.wheel
    if chosen is not None and chosen.extra is not None and not other:
        return (*install_fix(ctx, "Install the release that brings its libraries along."), toolkit)
    return (toolkit if other else Fix(f"I{what}"),)


def _nvrtcs(ctx: CheckContext) -> tuple[Evidence, ...]:
    """NVRTC of another major among the distributions of the target: it stands for the CUDA wheels of that major."""
    own = installed_cuda_major(ctx)
    told = ctx.snapshot.target.packages.items()
    return packages_as_evidence(
        {n: r for n, r in told if _NVRTC.fullmatch(n) and cuda_major_of_wheel(n, r) not in (None, own)}
    )


def wheels(ctx: CheckContext) -> tuple[Evidence, ...]:
    """The evidence for them: their NVRTC, or all of them where there is none."""
    return _nvrtcs(ctx) or packages_as_evidence({n: ctx.snapshot.target.packages[n] for n in _names(ctx)})


def bringers(ctx: CheckContext) -> tuple[Evidence, ...]:
    """The frameworks that depend on them; those that the matrix knows to use CuPy's own major are left out."""
    own = installed_cuda_major(ctx)
    same = {entry.distribution for entry in ctx.needs.brings if not entry.is_library and entry.cuda_major == own}
    return tuple(
        entry for entry in cuda_bringers(ctx.snapshot) if entry.fact.removeprefix("target.packages.") not in same
    )


def _ways_out(ctx: CheckContext) -> tuple[Fix, ...]:
    """Removes them, or, where a framework needs them, changes CuPy's line or separates the two."""
    needed, names = tuple(entry.fact.removeprefix("target.packages.") for entry in bringers(ctx)), _names(ctx)
    if needed:
        return _with_a_framework(ctx, needed, names)
    if not names:
        return install_fix(ctx, "Install the CuPy that fits.")
    removal = pip_fix(ctx.snapshot, "Remove the CUDA wheels of the other major.", "uninstall", "-y", *names)
    return (removal, *install_fix(ctx, "Or install the CuPy that fits."))


def _with_a_framework(ctx: CheckContext, needed: tuple[str, ...], names: tuple[str, ...]) -> tuple[Fix, ...]:
    """CuPy follows the framework, unless this driver cannot run the framework's CUDA: then the framework is removed."""
    level, told, said = ctx.needs.driver_cuda, ctx.snapshot.target.packages, " and ".join(needed)
    majors = [cuda_major_of_wheel(name, told[name]) or 0 for name in names]
    words = f"emove {said} with the CUDA wheels of its major"
    apart = f"eep CuPy and {said} in environments of their own."
    gone = ("uninstall", "-y", *needed, *names)
    if level is not None and majors and min(majors) > level.major:
        first = pip_fix(ctx.snapshot, f"R{words}, for which this driver is too old.", *gone)
        return (first._replace(safe=False), *install_fix(ctx, "Or install the CuPy that fits."), Fix(f"Or k{apart}"))
    followed = install_fix(ctx, "Install the CuPy that fits.")
    alone = pip_fix(ctx.snapshot, f"Or r{words}, where CuPy alone is needed.", *gone)._replace(safe=False)
    return (*followed, Fix(f"Or k{apart}" if followed else f"K{apart}"), alone)


def _names(ctx: CheckContext) -> tuple[str, ...]:
    """All of them: each library is looked for by itself, and one that stays is still loaded first."""
    own, packages = installed_cuda_major(ctx), ctx.snapshot.target.packages
    majors = {name: major for name, release in packages.items() if (major := cuda_major_of_wheel(name, release))}
    of_nvrtc = {majors[name] for name in majors if _NVRTC.fullmatch(name)} - {own}
    others = of_nvrtc or {*majors.values()} - {own}
    return tuple(name for name, major in majors.items() if major in others) if own is not None else ()


_RELEASE = pattern(r"_(\d{1,3})_(\d{1,3})$")  # how nvJitLink's symbols end: __nvJitLinkComplete_12_4


@check(
    "LIB611",
    Cause.LIBRARY_PATH_CONFLICT,
    Cause.TORCH_CUPY_CONFLICT,
    requires=(*ONE_CUPY, "LIB602", "LIB603"),
    repair=RepairKind.ADD,
)
def refused(ctx: CheckContext) -> Outcome:
    """A CUDA library that CuPy loads is there, and cannot be loaded together with another one that is found first.

    What it means: CUDA's libraries use each other, and one needs another that is of its own release or newer. Where an
    older nvJitLink is installed beside a newer cuSPARSE, or LD_LIBRARY_PATH leads to one, the loader refuses cuSPARSE.
    CuPy itself then says that the library is not found.
    How it is seen: the loader's own words when the target loads each library: a symbol or a version that is not there.
    What to do: install the library that lacks it in the release of the one that needs it, or let that be found first.
    """
    told = [(library, refusal) for library in ctx.snapshot.target.libraries if (refusal := refusal_of(library))]
    if not told:
        return
    refusal = told[0][1]
    provider = _provider(ctx, refusal)
    bringers = cuda_bringers(ctx.snapshot) if _is_wheels(provider) else ()
    named = provider.soname if provider else refusal.by or "library"
    sonames = ", ".join(entry.soname for entry, _ in told)
    found = f"{provider.release or 'unknown'} in {provider.path}" if provider else "unknown"
    yield Symptom(
        f"{sonames} cannot be loaded: the {named} that is found first is of another release",
        tuple(Evidence(entry.soname, entry.error or "", "the target's loader") for entry, _ in told)
        + (Evidence(named, found, "its own word"),)
        + bringers
        + evidence_of(ctx.snapshot, "environment.LD_LIBRARY_PATH"),
        _same_release(ctx, refusal, provider),
        cause=Cause.TORCH_CUPY_CONFLICT if bringers else None,
    )


def _provider(ctx: CheckContext, refusal: Refusal) -> Library | None:
    """The library that lacks the symbol, by its soname or by the symbol's prefix, where that is known."""
    for entry in ctx.snapshot.target.libraries:
        if entry.path and (
            entry.soname == refusal.by if refusal.by else entry.name == library_of_symbol(refusal.symbol)
        ):
            return entry
    return None


def _is_wheels(library: Library | None) -> bool:
    return library is not None and "/site-packages/" in (library.path or "")


def _same_release(ctx: CheckContext, refusal: Refusal, provider: Library | None) -> tuple[Fix, ...]:
    first = Fix("Let the loader find the libraries of one CUDA release first: LD_LIBRARY_PATH decides where set.")
    release, major = _RELEASE.search(refusal.symbol), installed_cuda_major(ctx)
    if provider is None or not _is_wheels(provider) or major is None or release is None:
        return (first,)
    wheel = cuda_wheel(provider.name.lower(), major)
    if wheel not in ctx.snapshot.target.packages:
        return (first,)
    wanted = f"{wheel}>={release[1]}.{release[2]},<{int(release[1]) + 1}"
    return (
        pip_fix(ctx.snapshot, "Install it in the release that is needed.", "install", wanted),
        Fix("Where another package pins the older one: keep CuPy and that package in environments of their own."),
    )


_LIBRARIES = ("LIB602", "LIB603", "LIB601")
_BUNDLED = "/cupy/_core/include/cupy/_cuda/"
# Those for 12.2 to 12.6 in the wheel of cupy-cuda12x 13.5.1 want vector_types.h of the runtime; those for 12.8 do not.
_WANTING = pattern(r"/_cuda/cuda-12\.[2-6]/?$")
_AS_PTX = "CUPY_COMPILE_WITH_PTX"
_MINOR = pattern(r"\.so\.(\d+\.\d+)")


@check("LIB604", Cause.NVRTC_BUILTINS_MISMATCH, requires=_LIBRARIES, repair=RepairKind.REINSTALL)
def builtins(ctx: CheckContext) -> Outcome:
    """NVRTC does not find its builtins library, or finds that of another release.

    What it means: NVRTC is two files, libnvrtc.so and libnvrtc-builtins.so, and the second must be of the very release
    of the first. The wheels of some releases (13.0) do not say where it lies, and only cuda-pathfinder knows.
    Without it the first kernel that is compiled fails with NVRTC_ERROR_BUILTIN_OPERATION_FAILURE.
    How it is seen: NVRTC compiles an empty program in the target, for which no GPU is needed; then the file that is
    loaded is looked up.
    What to do: install NVRTC again, or take the release that the other CUDA libraries are of, and let
    LD_LIBRARY_PATH hold one CUDA release only.
    """
    nvrtc, found = _library(ctx, "nvrtc"), _library(ctx, "nvrtc-builtins")
    if nvrtc is None or nvrtc.path is None or found is None:
        return
    release = _MINOR.search(found.soname)
    if found.path is not None and (release is None or nvrtc.release in (None, release[1])):
        return
    said = found.error or f"{found.path} is not of NVRTC's release {nvrtc.release}"
    yield Symptom(
        f"NVRTC cannot use its builtins: {said}",
        (
            _loaded(nvrtc),
            Evidence(found.soname, found.path or "not found", "NVRTC's compilation of an empty program"),
            *evidence_of(ctx.snapshot, "environment.LD_LIBRARY_PATH"),
        ),
        (_nvrtc_fix(ctx, nvrtc),),
    )


def _nvrtc_fix(ctx: CheckContext, nvrtc: Library) -> Fix:
    packages = ctx.snapshot.target.packages
    wheels = [name for name in packages if re.fullmatch(r"nvidia-cuda-nvrtc(-cu\d\d)?", name)]
    if wheels and "/site-packages/" in (nvrtc.path or ""):
        requirements = [f"{name}=={packages[name]}" for name in wheels]
        return pip_fix(ctx.snapshot, "Install NVRTC again.", "install", "--force-reinstall", "--no-deps", *requirements)
    return Fix("Let the loader find NVRTC and its builtins in one folder, that of one CUDA toolkit.")


@check("LIB605", Cause.CUDA_HEADERS_MISSING, Cause.CUDA_PATH_WRONG, requires=_LIBRARIES, repair=RepairKind.ADD)
def headers_missing(ctx: CheckContext) -> Outcome:
    """The CUDA headers that run-time compilation needs are not found.

    What it means: CuPy compiles most of its kernels when they are first used, and they include CUDA's headers. CuPy 14
    brings none of them; CuPy 13.6 brings those of CUDA 11 and of 12.0 and 12.1. An image of the kind "runtime" has none
    either.
    How it is seen: CuPy's own code, and cuda-pathfinder, are asked in which folders they would be; then they are looked
    for there.
    What to do: let CUDA_PATH name the toolkit that is there, or install the wheel with the headers of the CUDA runtime,
    of NVRTC's minor release, or a whole toolkit.
    """
    target = ctx.snapshot.target
    folders = target.headers.value
    if folders is None or target.headers_cuda.known:
        return
    if any(_BUNDLED in folder and not _WANTING.search(folder) for folder in folders):
        return
    searched = ", ".join(folders) or "no folder at all"
    # A toolkit with headers, of CuPy's major, that no variable names: CuPy was not led to it.
    major = installed_cuda_major(ctx)
    kits = (kit for kit in ctx.needs.toolkits if kit.has_headers and not _variables(ctx))
    unnamed = next((kit for kit in kits if kit.toolkit.value and kit.toolkit.value.major == major), None)
    named = ("env", f"CUDA_PATH={unnamed.path}", "python") if unnamed else ()
    yield Symptom(
        f"CUDA's headers are not found: {searched} was searched"
        + (f", and the toolkit in {unnamed.path} was not" if unnamed else ""),
        evidence_of(ctx.snapshot, "target.headers", "target.cuda_path")
        + tuple(Evidence(f"environment.{name}", value, "the environment") for name, value in _variables(ctx)),
        (
            *((Fix("Let CUDA_PATH name the toolkit that is there, before Python starts.", named),) if unnamed else ()),
            _headers_fix(ctx),
        ),
        cause=Cause.CUDA_PATH_WRONG if unnamed else None,
    )


def _headers_fix(ctx: CheckContext) -> Fix:
    major = installed_cuda_major(ctx)
    nvrtc = _library(ctx, "nvrtc")
    if major is None or nvrtc is None or nvrtc.release is None:
        return Fix("Install the headers of the CUDA runtime, of NVRTC's release, or a whole CUDA toolkit.")
    wanted = f"{cuda_wheel('cuda-runtime', major)}=={nvrtc.release}.*"
    return pip_fix(ctx.snapshot, "Install the headers of NVRTC's release.", "install", wanted)


@check("LIB606", Cause.CUDA_PATH_WRONG, Cause.LIBRARY_PATH_CONFLICT, requires=(*_LIBRARIES, "LIB605"))
def headers_of_another_major(ctx: CheckContext) -> Outcome:
    """The CUDA headers that are met first are of another major version than NVRTC.

    What it means: headers and compiler go together. Most headers of another minor release compile; those of another
    major need not: NVRTC 12.4 compiles the cuda_fp16.h of CUDA 13.0, and fails on its cuda_fp8.h.
    How it is seen: CUDART_VERSION in the header that is found first, against NVRTC's own word.
    What to do: let CUDA_PATH name a toolkit of NVRTC's major, or unset it, and take the other nvcc from PATH.
    """
    target, nvrtc = ctx.snapshot.target, _library(ctx, "nvrtc")
    headers = target.headers_cuda.value
    if headers is None or nvrtc is None or nvrtc.release is None:
        return
    if nvrtc.release.split(".")[0] == str(headers.major):
        yield from _of_conda_not_activated(ctx, nvrtc)
        return
    variables = _variables(ctx)
    yield Symptom(
        f"NVRTC is of CUDA {nvrtc.release}, and the CUDA headers that it meets first are of {headers}",
        evidence_of(ctx.snapshot, "target.headers_cuda")
        + (_loaded(nvrtc),)
        + evidence_of(ctx.snapshot, "target.cuda_path")
        + tuple(Evidence(f"environment.{name}", value, "the environment") for name, value in variables),
        (Fix(f"Let CUDA_PATH name a toolkit of CUDA {nvrtc.release.split('.')[0]}: its headers are taken then."),),
        Severity.WARNING,
        cause=None if variables else Cause.LIBRARY_PATH_CONFLICT,
    )


def _of_conda_not_activated(ctx: CheckContext, nvrtc: Library) -> Outcome:
    """Conda's own compiler, and the headers of the system: what activating sets has not been set."""
    target = ctx.snapshot.target
    prefix = target.prefix.value
    folders = [folder for folder in target.headers.value or () if _BUNDLED not in folder]
    if target.kind.value != "conda" or prefix is None or not folders or str(target.headers_cuda.value) == nvrtc.release:
        return
    activated = ctx.snapshot.environment.get("CONDA_PREFIX") == prefix
    if activated or not (nvrtc.path or "").startswith(f"{prefix}/") or folders[0].startswith(f"{prefix}/"):
        return
    yield Symptom(
        f"NVRTC {nvrtc.release} is conda's, and the CUDA headers that it meets first are the system's, "
        f"of {target.headers_cuda.value}: the environment is not activated",
        evidence_of(ctx.snapshot, "target.headers", "target.headers_cuda")
        + (
            _loaded(nvrtc),
            *evidence_of(ctx.snapshot, "environment.CONDA_PREFIX"),
        ),
        (Fix("Activate the environment before Python starts.", ("conda", "run", f"--prefix={prefix}", "python")),),
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
    """The NVRTC that is loaded makes no code for this GPU, although another one of its major version would.

    What it means: a wheel line takes any NVRTC of its CUDA major, and what is installed decides which one it gets. An
    older minor release does not know a newer GPU: CUDA 12.4 knows no Blackwell, CUDA 12.8 does. import cupy succeeds,
    and the first kernel fails with "invalid value for --gpu-architecture", or finds no code for the device.
    How it is seen: NVRTC's own word on its release, and what that release compiles for, as measured.
    What to do: install an NVRTC that knows the GPU, or the CuPy that brings one along.
    """
    there, nvrtc = installed(ctx), _library(ctx, "nvrtc")
    if there is None or nvrtc is None or nvrtc.path is None or nvrtc.release is None or without_gpu(ctx.snapshot):
        return
    row = next((row for row in minors_of(there.wheel, ctx.matrix) if str(row.cuda) == nvrtc.release), None)
    gpus = left_out(there.wheel, ctx.needs, row, ctx.matrix) if row else ()
    if row is not None and _is_one(ctx.snapshot.environment.get(_AS_PTX, "")):
        # PTX of the newest that NVRTC knows is compiled by the driver for GPUs that are newer still.
        oldest = min(row.capabilities)
        gpus = tuple(gpu for gpu in gpus if gpu.compute_capability and gpu.compute_capability < oldest)
    if row is None or not gpus:
        return
    cause, what = told_outside(set(row.capabilities), gpus, f"NVRTC {row.cuda}", there)
    yield Symptom(
        f"{what} this GPU: {', '.join(dict.fromkeys(gpu.label for gpu in gpus))}",
        tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in gpus)
        + (
            _loaded(nvrtc),
            Evidence("compiled for", ", ".join(map(str, sorted(row.capabilities))), ctx.matrix.cite(row.source)),
        ),
        tuple(_to_another_nvrtc(ctx, there, nvrtc)),
        cause=cause,
    )


def _to_another_nvrtc(ctx: CheckContext, there: Installed, nvrtc: Library) -> Iterator[Fix]:
    """To the one that is there and found too late; by a CuPy that brings one; or by a toolkit."""
    serving = serving_minors(there.wheel, ctx.needs, ctx.matrix)
    first = (nvrtc.path or "").rpartition("/")[0]
    led = first in ctx.snapshot.environment.get("LD_LIBRARY_PATH", "").split(":")
    known = {row.cuda for row in serving}
    fitting = [kit for kit in ctx.snapshot.toolkits if kit.has_nvrtc and kit.toolkit.value in known]
    instead = led and bool(fitting)
    if instead:
        yield Fix(f"Take {first} out of LD_LIBRARY_PATH: the toolkit in {fitting[0].path} knows the GPU.")
    wheel = ctx.resolution.wheel
    same = wheel and (wheel.distribution, wheel.version) == (there.cupy.distribution, there.cupy.release)
    if wheel is not None and (wheel.extra or not same):  # the very same would find the same NVRTC
        brought = install_fix(ctx, f"{'Or install' if instead else 'Install'} the CuPy that brings such an NVRTC.")
        instead = instead or bool(brought)
        yield from brought
    if serving:
        versions = sorted(known)
        named = f"{versions[0]} to {versions[-1]}" if len(versions) > 1 else str(versions[0])
        words = f"{'Or install' if instead else 'Install'} a toolkit of CUDA {named}"
        yield Fix(f"{words}, and let CUDA_PATH and the loader find it first.")


@check("LIB612", Cause.NVRTC_OUTPUT_INVALID, requires=("LIB602", "LIB603", "WHL504"), compares_with_gpu=True)
def ptx_newer_than_driver(ctx: CheckContext) -> Outcome:
    """CuPy is told to hand PTX to a driver that is older than the NVRTC that writes it.

    What it means: CuPy has NVRTC make finished code for the GPU, which any driver of the major version runs. With
    CUPY_COMPILE_WITH_PTX=1 it takes PTX instead, and a driver reads that of its own CUDA or older only (NVRTC, section
    Versioning; cupy/cuda/compiler.py). Kernels then fail with CUDA_ERROR_UNSUPPORTED_PTX_VERSION.
    How it is seen: the variable, NVRTC's own word on its release, and the CUDA level of the driver.
    What to do: unset the variable, or take a driver as new as NVRTC.
    """
    nvrtc, level = _library(ctx, "nvrtc"), ctx.needs.driver_cuda
    told = ctx.snapshot.environment.get(_AS_PTX, "")
    if not _is_one(told) or nvrtc is None or nvrtc.release is None or level is None:
        return
    if reads_ptx(level, CudaVersion.parse(nvrtc.release)):
        return
    yield Symptom(
        f"NVRTC {nvrtc.release} writes PTX, and the driver reads that of CUDA {level} at most",
        (
            *evidence_of(ctx.snapshot, f"environment.{_AS_PTX}"),
            _loaded(nvrtc),
            *evidence_of(ctx.snapshot, "driver.cuda"),
        ),
        (Fix("Unset CUPY_COMPILE_WITH_PTX."), Fix(f"Or update the driver to one of CUDA {nvrtc.release} or newer.")),
    )


def _is_one(told: str) -> bool:
    """How CuPy reads its switches."""
    try:
        return int(told) == 1
    except ValueError:
        return False


def _variables(ctx: CheckContext) -> list[tuple[str, str]]:
    environment = ctx.snapshot.environment
    return [(name, environment[name]) for name in ("CUDA_PATH", "CUDA_HOME") if name in environment]


def _loaded(nvrtc: Library) -> Evidence:
    return Evidence(nvrtc.soname, f"{nvrtc.release or 'unknown'} in {nvrtc.path}", "NVRTC itself")


def _library(ctx: CheckContext, name: str) -> Library | None:
    return next((entry for entry in ctx.snapshot.target.libraries if entry.name == name), None)


_RUNTIME = pattern(r"(GLIBCXX|CXXABI)_[\d.]+")
_REFUSALS = ("not found (required by", "cannot open shared object", "undefined symbol")  # the loader's own words
_WINDOWS = ("DLL load failed", "Could not find module")  # of Python, and of its ctypes
_OF_A_TOOLKIT = ("bin", "lib", "lib64", "include")
# The distributions that bring an optional library for CuPy alone, by its name; NCCL comes with others, for themselves.
_BRINGERS = {"cutensor": pattern(r"cutensor(-cu\d\d)?")}
_ACCELERATORS = {"cutensor": "cutensor"}  # names in CUPY_ACCELERATORS that need a library


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
def own_module(ctx: CheckContext) -> Outcome:
    """CuPy's own compiled module cannot be loaded.

    What it means: import cupy fails. Where the C++ runtime is named, an older libstdc++ than CuPy was built with is
    found first: by LD_LIBRARY_PATH, by LD_PRELOAD, or since a program that embeds Python has brought it along. Where a
    library of CUDA is named, CuPy is linked with that very release: a build from source, of a distribution or of conda,
    or a wheel before CuPy 13. Windows does not say which DLL it lacks.
    How it is seen: the target's loader is asked for the file of cupy._core; none of its functions is called.
    What to do: take the folder with the old libstdc++ out of LD_LIBRARY_PATH, or in conda install libstdcxx-ng; for a
    library of CUDA, install the CuPy of the CUDA that is there; where something else is named, install CuPy again.
    """
    target = ctx.snapshot.target
    reason = target.extension.reason or ""
    if ctx.snapshot.host.os.value == "windows":
        yield from _lacks_a_dll(ctx, reason)
        return
    if target.extension.known or not any(words in reason for words in _REFUSALS) or _DRIVERS_OWN.search(reason):
        return
    lacking = _linked_library(reason)
    if lacking is not None:
        if not any(entry.path is None and not entry.optional for entry in target.libraries):  # else that is told
            yield without_library(ctx, lacking, evidence_of(ctx.snapshot, "target.extension"))
        return
    runtime = _RUNTIME.search(reason)
    yield Symptom(
        f"CuPy's compiled module cannot be loaded: {reason}",
        evidence_of(ctx.snapshot, "target.extension", "environment.LD_LIBRARY_PATH", "environment.LD_PRELOAD"),
        (
            Fix("Take the folder with the older libstdc++ out of LD_LIBRARY_PATH, or let a newer one stand before it.")
            if runtime
            else Fix("Let the loader find the library that is named, or install CuPy again."),
        ),
        cause=None if runtime else Cause.CORRUPT_INSTALLATION,
    )


def _lacks_a_dll(ctx: CheckContext, reason: str) -> Outcome:
    """Whether a DLL of CUDA is missing: wheels before CuPy 13 are linked with them, and only a toolkit has them.

    With a toolkit the answer is unknown: CuPy adds its folder to the search path, and the probe does not.
    """
    snapshot = ctx.snapshot
    major = installed_cuda_major(ctx)
    if not any(words in reason for words in _WINDOWS) or snapshot.toolkits or "CUDA_PATH" in snapshot.environment:
        return
    yield Symptom(
        f"A DLL that CuPy's compiled module depends on is not found, and no CUDA toolkit is there: {reason}",
        evidence_of(snapshot, "target.extension", "environment.CUDA_PATH"),
        (
            Fix(f"Install a toolkit of CUDA {major or 'of its wheel line'}, which sets CUDA_PATH."),
            *install_fix(ctx, "Or install the CuPy that brings its libraries along."),
        ),
        cause=Cause.WINDOWS_DLL_LOAD_FAILURE,
    )


@check("LIB608", Cause.CUDA_PATH_WRONG, requires=ONE_CUPY)
def path_to_nowhere(ctx: CheckContext) -> Outcome:
    """CUDA_PATH or CUDA_HOME names no toolkit, a folder inside of one, or one of another CUDA major than CuPy's.

    What it means: CuPy takes the headers and libraries of the toolkit that CUDA_PATH names, and build tools that of
    CUDA_HOME. A folder that is gone sends them elsewhere without a word, and one of another major gives errors of the
    compiler or of the loader.
    How it is seen: the folder of the variable, and the version of the toolkit in it.
    What to do: unset the variable, or let it name a toolkit of the CUDA major of CuPy's wheel line.
    """
    snapshot = ctx.snapshot
    for name in snapshot.pointing_nowhere:
        yield Symptom(
            f"{name} names a folder that is not there: {snapshot.environment.get(name, '')}",
            (Evidence(f"environment.{name}", snapshot.environment.get(name, ""), "the environment"),)
            + evidence_of(snapshot, "target.cuda_path"),
            (Fix(f"Unset {name}, or let it name a toolkit that is there.", ("env", "-u", name, "python")),),
            Severity.WARNING,
        )
    yield from _of_another_major(ctx)
    yield from _inside_a_toolkit(ctx)


def _inside_a_toolkit(ctx: CheckContext) -> Outcome:
    """A variable that names a folder of the toolkit, where CuPy and build tools look for its bin and include again."""
    environment = ctx.snapshot.environment
    for name in ("CUDA_PATH", "CUDA_HOME"):
        told = environment.get(name, "").rstrip("/\\")
        root, _, last = told.replace("\\", "/").rpartition("/")
        if not root or last.lower() not in _OF_A_TOOLKIT or name in ctx.snapshot.pointing_nowhere:
            continue
        right = told[: len(root)]
        yield Symptom(
            f"{name} names the folder {last} of a toolkit, and not the toolkit: {told}",
            (Evidence(f"environment.{name}", told, "the environment"),) + evidence_of(ctx.snapshot, "target.cuda_path"),
            (Fix(f"Let it name the toolkit itself: {name}={right}", ("env", f"{name}={right}", "python")),),
            # On Windows CuPy adds its folder bin to those that are searched, and import cupy ends where there is none.
            Severity.ERROR if ctx.snapshot.host.os.value == "windows" and name == "CUDA_PATH" else Severity.WARNING,
        )


def _of_another_major(ctx: CheckContext) -> Outcome:
    snapshot = ctx.snapshot
    line = snapshot.target.cupy[0].distribution if snapshot.target.cupy else ""
    major = installed_cuda_major(ctx)
    for kit in snapshot.toolkits:
        release = kit.toolkit.value
        if kit.found_via != "CUDA_PATH" or release is None or major in (None, release.major):
            continue
        told = snapshot.environment.get("CUDA_PATH", kit.path)
        yield Symptom(
            f"CUDA_PATH names a toolkit of CUDA {release}, and {line} is for CUDA {major}",
            (Evidence("environment.CUDA_PATH", told, "the environment"),) + fact("toolkits[].toolkit", kit.toolkit),
            (Fix(f"Unset it, or let it name a toolkit of CUDA {major}.", ("env", "-u", "CUDA_PATH", "python")),),
            Severity.WARNING,
        )


@check("LIB609", Cause.OPTIONAL_LIBRARY_MISSING, requires=ONE_CUPY)
def optional_library(ctx: CheckContext) -> Outcome:
    """An optional library was asked for, and CuPy does not find it.

    What it means: CuPy works without cuTENSOR, NCCL and cuSPARSELt, but what was asked of them fails, or is slower than
    it could be, and a wheel of another CUDA major brings a library that CuPy does not look for.
    How it is seen: CUPY_ACCELERATORS, or a distribution that brings the library, against what CuPy's own code and the
    loader find.
    What to do: install the library for the CUDA major of CuPy's wheel line.
    """
    snapshot = ctx.snapshot
    accelerators = {word.strip() for word in snapshot.environment.get("CUPY_ACCELERATORS", "").split(",")}
    told = {entry.name: entry for entry in snapshot.target.libraries if entry.optional}
    # Whether CuPy's own code could be asked for optional libraries at all.
    looked_for = bool(told) or snapshot.target.cuda_path.known or bool(snapshot.target.libraries)
    for name, wheel in _BRINGERS.items():
        asked = [word for word, library in _ACCELERATORS.items() if library == name and word in accelerators]
        wheels = {p: r for p, r in snapshot.target.packages.items() if wheel.fullmatch(p)}
        if (name in told and told[name].path is not None) or not (asked or wheels) or not looked_for:
            continue
        if name not in told and not asked:
            continue  # this CuPy has no use for it
        library = told.get(name)
        by = [f"CUPY_ACCELERATORS={','.join(asked)}"] if asked else []
        by += [f"{package} {release}" for package, release in wheels.items()]
        found = Evidence(library.soname if library else name, (library and library.error) or "not found", "the loader")
        yield Symptom(
            f"{name} is asked for by {' and '.join(by)}, and CuPy does not find it",
            (found, *packages_as_evidence(wheels))
            + tuple(Evidence("environment.CUPY_ACCELERATORS", word, "the environment") for word in asked),
            (Fix(f"Install the {name} of the CUDA major of CuPy's wheel line, or do not ask for it."),),
            Severity.WARNING,
        )


# A library of CUDA that CuPy's own modules are linked with and that the loader does not find: why, and the cure.
# Up to CuPy 12 the wheels, and builds from source of any release, are linked with CUDA, so that import cupy fails.

_MISSING = pattern(
    r"\b(lib(cudart|cublas|cublasLt|cufft|curand|cusolver|cusparse|nvrtc|nvJitLink)\.so\.(\d+(?:\.\d+)?)): cannot open"
)
_OF_CUDA = ("cudart", "cublas", "nvrtc")  # whose sonames bear the release of CUDA, those of the others bear their own
_OF_CONDA = ("cudatoolkit", "cuda-version")
_FIRST_OF_ANY_MINOR = 11  # from here on libcudart bears the name of its major for all minors


class Linked(NamedTuple):
    """The missing library, and its CUDA version where the soname contains one."""

    soname: str
    cuda: CudaVersion | None

    def is_of(self, release: CudaVersion | None) -> bool:
        """Whether a CUDA has this very library."""
        if release is None or self.cuda is None:
            return False
        same_major = release.major == self.cuda.major
        return same_major and (self.cuda.major >= _FIRST_OF_ANY_MINOR or release.minor == self.cuda.minor)

    @property
    def cuda_label(self) -> str:
        """``CUDA 10.2``, ``CUDA 11`` where any minor will do."""
        if self.cuda is None:
            return "its CUDA"
        return f"CUDA {self.cuda.major if self.cuda.major >= _FIRST_OF_ANY_MINOR else self.cuda}"


def _linked_library(said: str) -> Linked | None:
    """The library of CUDA that the loader does not find, by its own words."""
    found = _MISSING.search(said)
    if found is None:
        return None
    release = found[3] if "." in found[3] else f"{found[3]}.0"
    return Linked(found[1], CudaVersion.parse(release) if found[2] in _OF_CUDA else None)


def without_library(ctx: CheckContext, lacking: Linked, evidence: tuple[Evidence, ...]) -> Symptom:
    """CuPy's modules cannot be loaded without it: it is elsewhere, of another CUDA, or nowhere."""
    cupy = ctx.snapshot.target.cupy[0]
    there = [kit for kit in ctx.snapshot.toolkits if kit.toolkit.known]
    same = [kit for kit in there if lacking.is_of(kit.toolkit.value)]
    of_conda = {name: ctx.snapshot.target.conda_packages.get(name) for name in _OF_CONDA}
    others = tuple(Evidence("a toolkit", f"CUDA {kit.toolkit.value} in {kit.path}", kit.found_via) for kit in there)
    others += tuple(Evidence(f"target.packages.{n}", r, "conda's records") for n, r in of_conda.items() if r)
    told = evidence + others + evidence_of(ctx.snapshot, *SEARCHED)
    if same:
        where = f"{same[0].path}, where the loader does not look"
        folder = f"{same[0].path.rstrip('/')}/lib64"
        return Symptom(
            f"{cupy.distribution} is linked with {lacking.soname}, which may be in {where}",
            told + fact("toolkits[].toolkit", same[0].toolkit),
            (Fix("Let the loader find its libraries.", ("env", f"LD_LIBRARY_PATH={folder}", "python")),),
            cause=Cause.CUDA_LIBRARY_MISSING,
        )
    if others and lacking.cuda is not None:
        # The CuPy of the CUDA that is there, or the CUDA that CuPy is linked with.
        other, target = install_fix(ctx, "Install the CuPy that fits."), ctx.snapshot.target
        pinned = ("conda", "install", *condas_prefix(target), f"cudatoolkit={lacking.cuda}")
        whole = f"nstall {lacking.cuda_label}, and let the loader find its libraries."
        fixes = (*other, Fix(f"{'Or i' if other else 'I'}{whole}"))
        if is_condas(target) and target.conda_packages.get("cudatoolkit"):
            fixes = (Fix("Let conda put in the CUDA that this build is linked with.", pinned), *other)
        return Symptom(
            f"{cupy.distribution} is linked with {lacking.soname} of {lacking.cuda_label}, "
            "and the CUDA that is there is another one",
            told,
            fixes,
            cause=Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
        )
    return Symptom(
        f"{cupy.distribution} is linked with {lacking.soname}, which is not found",
        told,
        (Fix(f"Install {lacking.cuda_label}, and let the loader find its lib64 folder."),)
        + install_fix(ctx, "Or install the CuPy that fits."),
        cause=Cause.CUDA_LIBRARY_MISSING,
    )
