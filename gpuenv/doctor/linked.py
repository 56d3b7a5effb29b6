"""A library of CUDA that CuPy's own modules are linked with and that the loader does not find: why, and the cure. Pure.

Up to CuPy 12 the wheels, and builds from source of any release, are linked with CUDA, so that import cupy fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuenv.doctor.evidence import fact, searched
from gpuenv.doctor.installed import install_fix, is_condas
from gpuenv.doctor.registry import Facts, Symptom
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.pattern import pattern
from gpuenv.model.target import Toolkit
from gpuenv.model.versions import CudaVersion

_MISSING = pattern(
    r"\b(lib(cudart|cublas|cublasLt|cufft|curand|cusolver|cusparse|nvrtc|nvJitLink)\.so\.(\d+(?:\.\d+)?)): cannot open"
)
_OF_CUDA = ("cudart", "cublas", "nvrtc")  # whose sonames bear the release of CUDA, those of the others bear their own
_OF_CONDA = ("cudatoolkit", "cuda-version")
_FIRST_OF_ANY_MINOR = 11  # from here on libcudart bears the name of its major for all minors


@dataclass(frozen=True, slots=True)
class Linked:
    """The library that is missing, and the CUDA that it is of, where its name tells."""

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


def linked_library(said: str) -> Linked | None:
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
