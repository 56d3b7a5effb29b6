"""What is asked of CuPy and cannot be loaded: its own module, libraries that are optional, a toolkit that is named."""

from __future__ import annotations

from dataclasses import dataclass

from gpuenv.doctor.checks.cupy import ONE_CUPY
from gpuenv.doctor.evidence import fact, readings, searched
from gpuenv.doctor.installed import install_fix, installed_cuda_major, is_condas
from gpuenv.doctor.registry import Facts, Outcome, RepairKind, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.snapshot import Library, Toolkit
from gpuenv.model.text import pattern
from gpuenv.model.versions import CudaVersion

_RUNTIME = pattern(r"(GLIBCXX|CXXABI)_[\d.]+")
_REFUSALS = ("not found (required by", "cannot open shared object", "undefined symbol")  # the loader's own words
_WINDOWS = ("DLL load failed", "Could not find module")  # of Python, and of its ctypes
_OF_A_TOOLKIT = ("bin", "lib", "lib64", "include")
_DRIVERS_OWN = pattern(r"libcuda\.so|libnvidia")
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
def own_module(facts: Facts) -> Outcome:
    """CuPy's own compiled module cannot be loaded.

    What it means: import cupy fails. Where the C++ runtime is named, an older libstdc++ than CuPy was built with is
    found first: by LD_LIBRARY_PATH, by LD_PRELOAD, or since a program that embeds Python has brought it along. Where a
    library of CUDA is named, CuPy is linked with that very release: a build from source, of a distribution or of conda,
    or a wheel before CuPy 13. Windows does not say which DLL it lacks.
    How it is seen: the target's loader is asked for the file of cupy._core; none of its functions is called.
    What to do: take the folder with the old libstdc++ out of LD_LIBRARY_PATH, or in conda install libstdcxx-ng; for a
    library of CUDA, install the CuPy of the CUDA that is there; where something else is named, install CuPy again.
    """
    target, environment = facts.snapshot.target, facts.snapshot.environment
    reason = target.extension.reason or ""
    if facts.snapshot.host.os.value == "windows":
        yield from _lacks_a_dll(facts, reason)
        return
    if target.extension.known or not any(words in reason for words in _REFUSALS) or _DRIVERS_OWN.search(reason):
        return
    lacking = _linked_library(reason)
    if lacking is not None:
        if not any(entry.path is None and not entry.optional for entry in target.libraries):  # else that is told
            yield without_library(facts, lacking, readings(facts.snapshot, "target.extension"))
        return
    runtime = _RUNTIME.search(reason)
    yield Symptom(
        f"CuPy's compiled module cannot be loaded: {reason}",
        readings(facts.snapshot, "target.extension")
        + tuple(
            Evidence(f"environment.{name}", environment.get(name) or "not set", "the environment")
            for name in ("LD_LIBRARY_PATH", "LD_PRELOAD")
        ),
        (
            Fix("Take the folder with the older libstdc++ out of LD_LIBRARY_PATH, or let a newer one stand before it.")
            if runtime
            else Fix("Let the loader find the library that is named, or install CuPy again."),
        ),
        cause=None if runtime else Cause.CORRUPT_INSTALLATION,
    )


def _lacks_a_dll(facts: Facts, reason: str) -> Outcome:
    """Whether a DLL of CUDA is missing: wheels before CuPy 13 are linked with them, and only a toolkit has them.

    With a toolkit the answer is unknown: CuPy adds its folder to the search path, and the probe does not.
    """
    snapshot = facts.snapshot
    major = installed_cuda_major(facts)
    if not any(words in reason for words in _WINDOWS) or snapshot.toolkits or "CUDA_PATH" in snapshot.environment:
        return
    yield Symptom(
        f"A DLL that CuPy's compiled module depends on is not found, and no CUDA toolkit is there: {reason}",
        readings(snapshot, "target.extension") + (Evidence("environment.CUDA_PATH", "not set", "the environment"),),
        (
            Fix(f"Install a toolkit of CUDA {major or 'of its wheel line'}, which sets CUDA_PATH."),
            *install_fix(facts, "Or install the CuPy that brings its libraries along."),
        ),
        cause=Cause.WINDOWS_DLL_LOAD_FAILURE,
    )


@check("LIB608", Cause.CUDA_PATH_WRONG, requires=ONE_CUPY)
def path_to_nowhere(facts: Facts) -> Outcome:
    """CUDA_PATH or CUDA_HOME names no toolkit, a folder inside of one, or one of another CUDA major than CuPy's.

    What it means: CuPy takes the headers and libraries of the toolkit that CUDA_PATH names, and build tools that of
    CUDA_HOME. A folder that is gone sends them elsewhere without a word, and one of another major gives errors of the
    compiler or of the loader.
    How it is seen: the folder of the variable, and the version of the toolkit in it.
    What to do: unset the variable, or let it name a toolkit of the CUDA major of CuPy's wheel line.
    """
    snapshot = facts.snapshot
    for name in snapshot.pointing_nowhere:
        yield Symptom(
            f"{name} names a folder that is not there: {snapshot.environment.get(name, '')}",
            (Evidence(f"environment.{name}", snapshot.environment.get(name, ""), "the environment"),)
            + readings(snapshot, "target.cuda_path"),
            (Fix(f"Unset {name}, or let it name a toolkit that is there.", ("env", "-u", name, "python")),),
            Severity.WARNING,
        )
    yield from _of_another_major(facts)
    yield from _inside_a_toolkit(facts)


def _inside_a_toolkit(facts: Facts) -> Outcome:
    """A variable that names a folder of the toolkit, where CuPy and build tools look for its bin and include again."""
    environment = facts.snapshot.environment
    for name in ("CUDA_PATH", "CUDA_HOME"):
        told = environment.get(name, "").rstrip("/\\")
        root, _, last = told.replace("\\", "/").rpartition("/")
        if not root or last.lower() not in _OF_A_TOOLKIT or name in facts.snapshot.pointing_nowhere:
            continue
        right = told[: len(root)]
        yield Symptom(
            f"{name} names the folder {last} of a toolkit, and not the toolkit: {told}",
            (Evidence(f"environment.{name}", told, "the environment"),) + readings(facts.snapshot, "target.cuda_path"),
            (Fix(f"Let it name the toolkit itself: {name}={right}", ("env", f"{name}={right}", "python")),),
            # On Windows CuPy adds its folder bin to those that are searched, and import cupy ends where there is none.
            Severity.ERROR if facts.snapshot.host.os.value == "windows" and name == "CUDA_PATH" else Severity.WARNING,
        )


def _of_another_major(facts: Facts) -> Outcome:
    snapshot = facts.snapshot
    line = snapshot.target.cupy[0].distribution if snapshot.target.cupy else ""
    major = installed_cuda_major(facts)
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
def optional_library(facts: Facts) -> Outcome:
    """An optional library was asked for, and CuPy does not find it.

    What it means: CuPy works without cuTENSOR, NCCL and cuSPARSELt, but what was asked of them fails, or is slower than
    it could be, and a wheel of another CUDA major brings a library that CuPy does not look for.
    How it is seen: CUPY_ACCELERATORS, or a distribution that brings the library, against what CuPy's own code and the
    loader find.
    What to do: install the library for the CUDA major of CuPy's wheel line.
    """
    snapshot = facts.snapshot
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
        yield _missing(name, told.get(name), asked, wheels)


def _missing(name: str, library: Library | None, asked: list[str], wheels: dict[str, str]) -> Symptom:
    by = [f"CUPY_ACCELERATORS={','.join(asked)}"] if asked else []
    by += [f"{package} {release}" for package, release in wheels.items()]
    return Symptom(
        f"{name} is asked for by {' and '.join(by)}, and CuPy does not find it",
        (Evidence(library.soname if library else name, (library and library.error) or "not found", "the loader"),)
        + tuple(Evidence(f"target.packages.{package}", release, "its metadata") for package, release in wheels.items())
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


@dataclass(frozen=True, slots=True)
class Linked:
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


def without_library(facts: Facts, lacking: Linked, evidence: tuple[Evidence, ...]) -> Symptom:
    """CuPy's modules cannot be loaded without it: it is elsewhere, of another CUDA, or nowhere."""
    cupy = facts.snapshot.target.cupy[0]
    there = [kit for kit in facts.snapshot.toolkits if kit.toolkit.known]
    same = [kit for kit in there if lacking.is_of(kit.toolkit.value)]
    of_conda = {name: facts.snapshot.target.conda_packages.get(name) for name in _OF_CONDA}
    others = tuple(Evidence("a toolkit", f"CUDA {kit.toolkit.value} in {kit.path}", kit.found_via) for kit in there)
    others += tuple(Evidence(f"target.packages.{n}", r, "conda's records") for n, r in of_conda.items() if r)
    told = evidence + others + searched(facts.snapshot)
    if same:
        where = f"{same[0].path}, where the loader does not look"
        return Symptom(
            f"{cupy.distribution} is linked with {lacking.soname}, which may be in {where}",
            told + fact("toolkits[].toolkit", same[0].toolkit),
            _found(same[0]),
            cause=Cause.CUDA_LIBRARY_MISSING,
        )
    if others and lacking.cuda is not None:
        return Symptom(
            f"{cupy.distribution} is linked with {lacking.soname} of {lacking.cuda_label}, "
            "and the CUDA that is there is another one",
            told,
            _other_line(facts, lacking),
            cause=Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
        )
    return Symptom(
        f"{cupy.distribution} is linked with {lacking.soname}, which is not found",
        told,
        (Fix(f"Install {lacking.cuda_label}, and let the loader find its lib64 folder."),)
        + install_fix(facts, "Or install the CuPy that fits."),
        cause=Cause.CUDA_LIBRARY_MISSING,
    )


def _found(kit: Toolkit) -> tuple[Fix, ...]:
    folder = f"{kit.path.rstrip('/')}/lib64"
    return (Fix("Let the loader find its libraries.", ("env", f"LD_LIBRARY_PATH={folder}", "python")),)


def _other_line(facts: Facts, lacking: Linked) -> tuple[Fix, ...]:
    """The CuPy of the CUDA that is there, or the CUDA that CuPy is linked with."""
    other = install_fix(facts, "Install the CuPy that fits.")
    if is_condas(facts.snapshot.target) and facts.snapshot.target.conda_packages.get("cudatoolkit"):
        prefix = facts.snapshot.target.prefix.value
        named = (f"--prefix={prefix}",) if prefix else ()
        pinned = ("conda", "install", *named, f"cudatoolkit={lacking.cuda}")
        return (Fix("Let conda put in the CUDA that this build is linked with.", pinned), *other)
    whole = f"nstall {lacking.cuda_label}, and let the loader find its libraries."
    return (*other, Fix(f"{'Or i' if other else 'I'}{whole}"))
