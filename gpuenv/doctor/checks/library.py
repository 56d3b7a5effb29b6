"""The CUDA libraries that CuPy loads at run time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpuenv.doctor.checks.cupy import ONE_CUPY
from gpuenv.doctor.evidence import cuda_bringers, readings, searched, source
from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.doctor.installed import install_fix, installed, installed_cuda_major, uses_pathfinder
from gpuenv.doctor.loader_errors import Refusal, Untaken, library_of_symbol, refusal_of, untaken
from gpuenv.doctor.registry import Facts, NotKnown, Outcome, RepairKind, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.nvidia import cuda_major_of_wheel, cuda_wheel
from gpuenv.model.reading import ASSUMED
from gpuenv.model.snapshot import Library, SourceState
from gpuenv.model.text import pattern

_LIMIT = pattern(r"ulimit -v is (\d+) KiB")
_FILE = pattern(r"(/[^:]*): (?:failed|cannot|file too|invalid|wrong|ELF|only|object)")
_FINDERS = pattern(r"^Failed to dlopen [^:]*: ")  # cuda-pathfinder's, before the loader's own words
# GNU C Library Manual, Dynamic Linking Tunables: optional_static_tls is "the amount of surplus static TLS in bytes".
_MORE = "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384"
_AGAIN = ("gpuenv", "doctor")
_WHY = {
    Untaken.NOEXEC: "the file system is mounted noexec",
    Untaken.LIMIT: "this process may not map as much memory as that needs",
    Untaken.RESERVE: "too little is reserved for the variables that each thread has of its own",
    Untaken.UNMAPPED: "the loader cannot map it into memory",
    Untaken.DENIED: "this user may not read the file",
    Untaken.DAMAGED: "the file is damaged, or of another machine",
}


@check(
    "LIB613",
    Cause.TARGET_ENVIRONMENT_BROKEN,
    Cause.CORRUPT_INSTALLATION,
    requires=ONE_CUPY,
    unless=("WHL510", "WHL512"),
)
def cannot_be_taken(facts: Facts) -> Outcome:
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
    told = list(_untaken_evidence(facts))
    kind = next((kind for kind in Untaken if any(why is kind for _, _, why in told)), None)
    if kind is None:
        return
    of_kind = [(name, words) for name, words, why in told if why is kind]
    first, more = of_kind[0][0], len(of_kind) - 1
    yield Symptom(
        f"{first}{f' and {more} more' if more else ''} cannot be loaded: {_WHY[kind]}",
        tuple(Evidence(name, _FINDERS.sub("", words), "the target's loader") for name, words in of_kind)
        + readings(facts.snapshot, "target.prefix"),
        _untaken_fixes(kind, [words for _, words in of_kind]),
        cause=Cause.CORRUPT_INSTALLATION if kind is Untaken.DAMAGED else None,
    )


def _untaken_evidence(facts: Facts) -> Iterator[tuple[str, str, Untaken]]:
    """What is there and was not taken, the loader's words and why: CuPy's own module, and the libraries it needs."""
    target = facts.snapshot.target
    own = untaken(target.extension.reason) if not target.extension.known else None
    if own is not None:
        yield "CuPy's compiled module", target.extension.reason or "", own
    for library in target.libraries:
        why = untaken(library.error) if library.path is None and not library.optional else None
        if why is not None:
            yield library.soname, library.error or "", why


def _untaken_fixes(kind: Untaken, said: Iterable[str]) -> tuple[Fix, ...]:
    words = list(said)
    files = list(dict.fromkeys(found[1] for text in words if (found := _FILE.search(text))))
    if kind is Untaken.NOEXEC:
        return (Fix("Make the environment on another file system, or have this one mounted without noexec."),)
    if kind is Untaken.LIMIT:
        found = next((found for text in words if (found := _LIMIT.search(text))), None)
        now = f" of {int(found[1]) // 1024} MiB" if found else ""
        return (Fix(f"Raise the limit{now} in the shell or the job that starts the program: ulimit -v unlimited"),)
    if kind is Untaken.RESERVE:
        return (
            Fix("See whether a larger reserve helps; then set that where CuPy is started.", ("env", _MORE, *_AGAIN)),
            Fix("Or leave out what is preloaded (LD_PRELOAD, LD_AUDIT), or import CuPy before what takes the reserve."),
        )
    if kind is Untaken.UNMAPPED:
        return (Fix("See how their file system is mounted, and what limits the memory of this process: ulimit -a"),)
    if kind is Untaken.DENIED:
        return (Fix("Let this user read them, or make an environment of your own."),)
    return (Fix(f"Install again what {', '.join(files) or 'the file'} belongs to."),)


_OTHER_WHEEL = ("WHL504", "WHL505", "WHL509")
_NVRTC = pattern(r"nvidia-cuda-nvrtc(-cu\d\d)?")
_OLD_AND_NEW_NAMES = (12, 13)  # CUDA majors: the names of the second are tried first
_SONAME = pattern(r"(lib\w+\.so\.\d+)")


@check(
    "LIB602", Cause.CORRUPT_INSTALLATION, requires=ONE_CUPY, unless=_OTHER_WHEEL, repair=RepairKind.REINSTALL_CRASHING
)
def loading_crashes(facts: Facts) -> Outcome:
    """Loading a CUDA library crashes or hangs.

    What it means: a library that CuPy would load ends the process, or does not come back. CuPy will do the same at its
    first use.
    How it is seen: a process of the target's interpreter loads them one by one; it was ended by a signal, or by an
    alarm after most of the time that was left. The others are loaded again without it.
    What to do: install the CUDA libraries again; on a slow network file system, give it more time with --timeout.
    """
    state = facts.snapshot.source("libraries")
    if state.state not in (SourceState.CRASHED, SourceState.TIMED_OUT):
        return
    libraries, there = facts.snapshot.target.libraries, facts.snapshot.target.cupy
    loaded = tuple(_evidence(library) for library in libraries)
    lost = [entry.soname for entry in libraries if entry.path is None and (entry.error or "").startswith("loading it")]
    does = "crashes" if state.state is SourceState.CRASHED else "does not end"
    yield Symptom(
        f"Loading {', '.join(lost) or 'the CUDA libraries'} for {there[0].distribution if there else 'CuPy'} {does}",
        source(facts.snapshot, "libraries") + loaded,
        _fixes(facts, again=True),
    )


@check(
    "LIB603",
    Cause.LIBRARY_PATH_CONFLICT,
    Cause.TORCH_CUPY_CONFLICT,
    requires=(*ONE_CUPY, "LIB602"),
    unless=_OTHER_WHEEL,
    repair=RepairKind.REPLACE_WITH_LIBRARIES,
)
def other_major_first(facts: Facts) -> Outcome:
    """CUDA libraries of another major version are found first.

    What it means: from CuPy 14 on, cuda-pathfinder looks for the libraries, and it tries those of CUDA 13 before
    those of CUDA 12. CUDA wheels that another package brought are then loaded into a CuPy of another major.
    How it is seen: the file that cuda-pathfinder loads in the target, against the name that this CuPy needs.
    What to do: remove the CUDA wheels of the other major, or keep CuPy and the package that brought them in
    environments of their own, or install the CuPy of that major.
    """
    astray = [library for library in facts.snapshot.target.libraries if _is_of_other_major(library)]
    if not astray:
        yield from _by_its_own_word(facts)
        yield from _foreseen(facts)
        return
    brought = bringers(facts)
    yield Symptom(
        f"Libraries of another CUDA major are loaded in place of those CuPy needs: {_and_where(astray)}",
        tuple(Evidence(library.soname, str(library.finder_path), "cuda-pathfinder") for library in astray)
        + brought
        + wheels(facts),
        _ways_out(facts),
        cause=Cause.TORCH_CUPY_CONFLICT if brought else None,
    )


def _and_where(astray: Sequence[Library]) -> str:
    """Each with the file that is taken for it; of several the folders alone, for the evidence has every file."""
    if len(astray) == 1:
        return f"{astray[0].soname} ({astray[0].finder_path})"
    folders = dict.fromkeys((library.finder_path or "").rpartition("/")[0] for library in astray)
    return f"{', '.join(library.soname for library in astray)} (those in {', '.join(folders)} are found first)"


def _by_its_own_word(facts: Facts) -> Outcome:
    """An NVRTC of another major than CuPy's, reported by cupy.show_config() without its file."""
    major = installed_cuda_major(facts)
    told = [entry for entry in facts.snapshot.target.libraries if entry.name == "nvrtc" and entry.release]
    astray = [entry for entry in told if major and (entry.release or "").split(".")[0] != str(major)]
    if not astray:
        return
    brought = bringers(facts)
    yield Symptom(
        f"{facts.snapshot.target.cupy[0].distribution} has loaded NVRTC {astray[0].release}, of another CUDA major",
        tuple(Evidence(entry.soname, f"NVRTC {entry.release}", entry.found_via or "NVRTC itself") for entry in astray)
        + brought
        + wheels(facts),
        _ways_out(facts),
        cause=Cause.TORCH_CUPY_CONFLICT if brought else None,
    )


def _foreseen(facts: Facts) -> Outcome:
    """What a list of packages implies where no library was looked for: a paste, or assumptions.

    cuda-pathfinder tries the names of CUDA 13 before those of CUDA 12: shown with cupy-cuda12x 14 and both in wheels.
    """
    target, major = facts.snapshot.target, installed_cuda_major(facts)
    told = {name: cuda_major_of_wheel(name, of) for name, of in target.packages.items() if _NVRTC.fullmatch(name)}
    newer = tuple(
        Evidence(f"target.packages.{name}", target.packages[name], "its metadata")
        for name, of in told.items()
        if (major, of) == _OLD_AND_NEW_NAMES
    )
    if not newer or target.libraries or not uses_pathfinder(target.cupy[0].release):
        return
    if facts.snapshot.source("libraries").state is not SourceState.NOT_ASKED:
        return
    brought = bringers(facts)
    there = ", ".join(f"{entry.fact.removeprefix('target.packages.')} {entry.value}" for entry in newer)
    yield Symptom(
        f"{target.cupy[0].distribution} loads the CUDA wheels of another major version that are there: {there}",
        newer + brought,
        _ways_out(facts),
        cause=Cause.TORCH_CUPY_CONFLICT if brought else None,
    )


def _is_of_other_major(library: Library) -> bool:
    found = _SONAME.search(library.finder_path or "")
    return found is not None and not library.soname.startswith(found[1])


@check(
    "LIB601",
    Cause.CUDA_LIBRARY_MISSING,
    Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
    requires=(*ONE_CUPY, "LIB602", "LIB603"),
    unless=(*_OTHER_WHEEL, "LIB613"),
    repair=RepairKind.REPLACE_WITH_LIBRARIES,
    decisive=True,
)
def library_missing(facts: Facts) -> Outcome:
    """A CUDA library that CuPy loads at run time is not found.

    What it means: the wheels of CuPy do not contain NVRTC, cuBLAS, cuFFT and the others; they come from a toolkit, from
    conda or from CUDA wheels in the environment, and must be of the wheel line's CUDA major. From CuPy 13 on, import
    cupy succeeds without them; the first kernel or product fails.
    How it is seen: the target's own loader is asked for each library, in the order in which CuPy itself looks.
    What to do: install the extra ctk of the same CuPy (from 14 on), or a toolkit of the same major; if a toolkit of
    another major is what you have, install the wheel line of that major.
    """
    snapshot = facts.snapshot
    state = snapshot.source("libraries")
    if state.state is not SourceState.ANSWERED and not snapshot.target.libraries:
        yield NotKnown(state.detail or _not_asked(facts))
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
    if _finder_is_gone(facts):
        yield NotKnown("the CUDA wheels are there, and cuda.pathfinder, which would find them, cannot be imported")
        return
    others = _other_toolkits(facts) + _nvrtcs(facts) + _frameworks(facts)
    evidence = tuple(_evidence(library) for library in needed) + others
    # Some names are the same in two majors (libcurand.so.10, libcusparse.so.12): NVRTC tells.
    major = installed_cuda_major(facts)
    if others and major is not None and any(library.name == "nvrtc" for library in missing):
        yield Symptom(
            f"{snapshot.target.cupy[0].distribution} needs the libraries of CUDA {major}, "
            "but those there are of another major version",
            evidence,
            _of_what_is_there(facts),
            cause=Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
        )
        return
    named = ", ".join(library.soname for library in missing)
    yield Symptom(
        f"CUDA libraries that CuPy loads are not found: {named}", evidence + searched(facts.snapshot), _fixes(facts)
    )


def _not_asked(facts: Facts) -> str:
    there, major = facts.snapshot.target.cupy, installed_cuda_major(facts)
    if not there or "target.cupy" not in facts.snapshot.assumed:
        return "the target's libraries were not asked for"
    said = f"{there[0].distribution} is assumed, and nobody was asked for the libraries that it loads"
    return f"{said}; --assume toolkit={major}.0 assumes a toolkit that has them" if major else said


def _finder_is_gone(facts: Facts) -> bool:
    """Whether CuPy would find its CUDA wheels by a cuda.pathfinder that is missing; other checks report that."""
    target, major = facts.snapshot.target, installed_cuda_major(facts)
    needs_it = any("cuda-pathfinder" in words for words in target.cupy[0].requires)
    gone = "cuda-pathfinder" not in target.packages or target.pathfinder_hidden_by.known
    wheels = (cuda_major_of_wheel(name, release) for name, release in target.packages.items() if _NVRTC.fullmatch(name))
    return needs_it and gone and major in wheels


def _evidence(library: Library) -> Evidence:
    return Evidence(library.soname, library.path or _why_not(library), library.found_via or "the target's loader")


def _why_not(library: Library) -> str:
    """Not found; or what else keeps it from being loaded, such as a library that it needs itself."""
    error = library.error or ""
    return "not found" if not error or error.startswith(library.soname) else error


def _other_toolkits(facts: Facts) -> tuple[Evidence, ...]:
    """Toolkits on the host whose NVRTC is of another major."""
    return tuple(
        Evidence("a toolkit", f"CUDA {kit.toolkit.value} in {kit.path}", kit.found_via)
        for kit in facts.snapshot.toolkits
        if kit.toolkit.value
        and kit.toolkit.value.major != installed_cuda_major(facts)
        and kit.has_nvrtc
        and not kit.in_target
    )


def _frameworks(facts: Facts) -> tuple[Evidence, ...]:
    """Installed frameworks that contain or depend on CUDA of another major."""
    major = installed_cuda_major(facts)
    return tuple(
        Evidence(f"target.packages.{entry.distribution}", f"{entry.version}, CUDA {entry.cuda_major}", entry.source)
        for entry in facts.needs.brings
        if not entry.is_library and entry.cuda_major != major
    )


def _of_what_is_there(facts: Facts) -> tuple[Fix, ...]:
    """The CuPy of the CUDA that is there; first of all the libraries for the one that is installed, by its extra."""
    there, chosen = installed(facts), facts.resolution.wheel
    if chosen is None or (there is not None and chosen.distribution == there.cupy.distribution):
        return _fixes(facts)
    if there is not None and there.exact and there.wheel.release.extras:
        return (*_fixes(facts), *install_fix(facts, "Or install the CuPy that fits."))
    return (*install_fix(facts, "Install the CuPy that fits."), *_fixes(facts, other=True))


def _fixes(facts: Facts, *, again: bool = False, other: bool = False) -> tuple[Fix, ...]:
    there = installed(facts)
    found = "CUDA_PATH name it" if facts.snapshot.host.os.value == "windows" else "the loader find its lib64 folder"
    major = installed_cuda_major(facts)
    what = f"nstall a CUDA {f'{major} ' if major else ''}toolkit, and let {found}."
    toolkit = Fix(f"Or i{what}")
    if there is not None and there.exact and there.wheel.release.extras:
        extra = next(iter(there.wheel.release.extras))
        requirement = f"{there.cupy.distribution}[{extra}]=={there.cupy.release}"
        options = ("--force-reinstall",) if again else ()
        return (
            pip_fix(
                facts.snapshot, f"Install the libraries beside it: {requirement}", "install", *options, requirement
            ),
            toolkit,
        )
    chosen = facts.resolution.wheel
    if chosen is not None and chosen.extra is not None and not other:
        return (*install_fix(facts, "Install the release that brings its libraries along."), toolkit)
    return (toolkit if other else Fix(f"I{what}"),)


_NVRTC_WHEEL = pattern(r"nvidia-cuda-nvrtc(-cu\d\d)?")


def _nvrtcs(facts: Facts) -> tuple[Evidence, ...]:
    """NVRTC of another major among the distributions of the target: it stands for the CUDA wheels of that major."""
    own = installed_cuda_major(facts)
    return tuple(
        _told(facts, name)
        for name, release in facts.snapshot.target.packages.items()
        if _NVRTC_WHEEL.fullmatch(name) and cuda_major_of_wheel(name, release) not in (None, own)
    )


def wheels(facts: Facts) -> tuple[Evidence, ...]:
    """The evidence for them: their NVRTC, or all of them where there is none."""
    return _nvrtcs(facts) or tuple(_told(facts, name) for name in _names(facts))


def bringers(facts: Facts) -> tuple[Evidence, ...]:
    """The frameworks that depend on them; those that the matrix knows to use CuPy's own major are left out."""
    own = installed_cuda_major(facts)
    same = {entry.distribution for entry in facts.needs.brings if not entry.is_library and entry.cuda_major == own}
    return tuple(
        entry for entry in cuda_bringers(facts.snapshot) if entry.fact.removeprefix("target.packages.") not in same
    )


def _ways_out(facts: Facts) -> tuple[Fix, ...]:
    """Removes them, or, where a framework needs them, changes CuPy's line or separates the two."""
    needed, names = tuple(entry.fact.removeprefix("target.packages.") for entry in bringers(facts)), _names(facts)
    if needed:
        return _with_a_framework(facts, needed, names)
    if not names:
        return install_fix(facts, "Install the CuPy that fits.")
    removal = pip_fix(facts.snapshot, "Remove the CUDA wheels of the other major.", "uninstall", "-y", *names)
    return (removal, *install_fix(facts, "Or install the CuPy that fits."))


def _with_a_framework(facts: Facts, needed: tuple[str, ...], names: tuple[str, ...]) -> tuple[Fix, ...]:
    """CuPy follows the framework, unless this driver cannot run the framework's CUDA: then the framework is removed."""
    level, told, said = facts.needs.driver_cuda, facts.snapshot.target.packages, " and ".join(needed)
    majors = [cuda_major_of_wheel(name, told[name]) or 0 for name in names]
    words = f"emove {said} with the CUDA wheels of its major"
    apart = f"eep CuPy and {said} in environments of their own."
    gone = ("uninstall", "-y", *needed, *names)
    if level is not None and majors and min(majors) > level.major:
        first = pip_fix(facts.snapshot, f"R{words}, for which this driver is too old.", *gone)
        return (replace(first, safe=False), *install_fix(facts, "Or install the CuPy that fits."), Fix(f"Or k{apart}"))
    followed = install_fix(facts, "Install the CuPy that fits.")
    alone = replace(pip_fix(facts.snapshot, f"Or r{words}, where CuPy alone is needed.", *gone), safe=False)
    return (*followed, Fix(f"Or k{apart}" if followed else f"K{apart}"), alone)


def _names(facts: Facts) -> tuple[str, ...]:
    """All of them: each library is looked for by itself, and one that stays is still loaded first."""
    own, packages = installed_cuda_major(facts), facts.snapshot.target.packages
    majors = {name: major for name, release in packages.items() if (major := cuda_major_of_wheel(name, release))}
    of_nvrtc = {majors[name] for name in majors if _NVRTC_WHEEL.fullmatch(name)} - {own}
    others = of_nvrtc or {*majors.values()} - {own}
    return tuple(name for name, major in majors.items() if major in others) if own is not None else ()


def _told(facts: Facts, name: str) -> Evidence:
    return Evidence(f"target.packages.{name}", facts.snapshot.target.packages[name], "its metadata")


_RELEASE = pattern(r"_(\d{1,3})_(\d{1,3})$")  # how nvJitLink's symbols end: __nvJitLinkComplete_12_4


@check(
    "LIB611",
    Cause.LIBRARY_PATH_CONFLICT,
    Cause.TORCH_CUPY_CONFLICT,
    requires=(*ONE_CUPY, "LIB602", "LIB603"),
    repair=RepairKind.ADD,
)
def refused(facts: Facts) -> Outcome:
    """A CUDA library that CuPy loads is there, and cannot be loaded together with another one that is found first.

    What it means: CUDA's libraries use each other, and one needs another that is of its own release or newer. Where an
    older nvJitLink is installed beside a newer cuSPARSE, or LD_LIBRARY_PATH leads to one, the loader refuses cuSPARSE.
    CuPy itself then says that the library is not found.
    How it is seen: the loader's own words when the target loads each library: a symbol or a version that is not there.
    What to do: install the library that lacks it in the release of the one that needs it, or let that be found first.
    """
    told = [(library, refusal) for library in facts.snapshot.target.libraries if (refusal := refusal_of(library))]
    if not told:
        return
    refusal = told[0][1]
    provider = _provider(facts, refusal)
    bringers = cuda_bringers(facts.snapshot) if _is_wheels(provider) else ()
    named = provider.soname if provider else refusal.by or "library"
    sonames = ", ".join(entry.soname for entry, _ in told)
    found = f"{provider.release or 'unknown'} in {provider.path}" if provider else "unknown"
    yield Symptom(
        f"{sonames} cannot be loaded: the {named} that is found first is of another release",
        tuple(Evidence(entry.soname, entry.error or "", "the target's loader") for entry, _ in told)
        + (Evidence(named, found, "its own word"),)
        + bringers
        + searched(facts.snapshot)[:1],
        _same_release(facts, refusal, provider),
        cause=Cause.TORCH_CUPY_CONFLICT if bringers else None,
    )


def _provider(facts: Facts, refusal: Refusal) -> Library | None:
    """The library that lacks the symbol, by its soname or by the symbol's prefix, where that is known."""
    for entry in facts.snapshot.target.libraries:
        if entry.path and (
            entry.soname == refusal.by if refusal.by else entry.name == library_of_symbol(refusal.symbol)
        ):
            return entry
    return None


def _is_wheels(library: Library | None) -> bool:
    return library is not None and "/site-packages/" in (library.path or "")


def _same_release(facts: Facts, refusal: Refusal, provider: Library | None) -> tuple[Fix, ...]:
    first = Fix("Let the loader find the libraries of one CUDA release first: LD_LIBRARY_PATH decides where set.")
    release, major = _RELEASE.search(refusal.symbol), installed_cuda_major(facts)
    if provider is None or not _is_wheels(provider) or major is None or release is None:
        return (first,)
    wheel = cuda_wheel(provider.name.lower(), major)
    if wheel not in facts.snapshot.target.packages:
        return (first,)
    wanted = f"{wheel}>={release[1]}.{release[2]},<{int(release[1]) + 1}"
    return (
        pip_fix(facts.snapshot, "Install it in the release that is needed.", "install", wanted),
        Fix("Where another package pins the older one: keep CuPy and that package in environments of their own."),
    )
