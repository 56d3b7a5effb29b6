"""Wheel candidates and their matrix rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.version import Version

from gpuenv.matrix.companions import TOOLKIT, CudaRole
from gpuenv.matrix.needs import NeededGpu, Needs, advisories_for
from gpuenv.matrix.ranges import version_of
from gpuenv.matrix.tables import CudaMinor, Extra, Matrix, Platform, Release, WheelLine
from gpuenv.model.nvidia import cuda_wheel, cuda_wheel_requirement
from gpuenv.model.resolution import Candidate, CandidateKind
from gpuenv.model.versions import ComputeCapability, CudaVersion, Libc

# CuPy never lowers these Tegra capabilities to the cap (cupy.cuda.compiler), and on Tegra a cubin runs on its own
# capability alone (CUDA C++ Programming Guide, Binary Compatibility).
TEGRA = frozenset(map(ComputeCapability.parse, ("3.2", "5.3", "6.2", "7.2", "8.7")))

_FIRST_OF_THREE_DIGITS = 10


@dataclass(frozen=True, slots=True, eq=False)
class WheelCandidate:
    """One release of a line, with or without an extra; compares by identity.

    Attributes:
        bare: with an extra, the same release without it.
    """

    line: WheelLine
    release: Release
    extra: str | None
    kind: CandidateKind = CandidateKind.WHEEL
    bare: WheelCandidate | None = None

    @property
    def candidate(self) -> Candidate:
        """Its record in a Resolution."""
        return Candidate(self.kind, self.line.name, self.release.cupy, self.extra)

    @property
    def brings(self) -> Extra | None:
        """The row of the extra."""
        return self.release.extras[self.extra] if self.extra else None

    def platform(self, needs: Needs) -> Platform | None:
        """Returns the row of the platform, if any."""
        return self.release.platforms.get(needs.likely_platform)


@lru_cache(maxsize=4)
def wheel_candidates(matrix: Matrix) -> tuple[WheelCandidate, ...]:
    """Returns every line, release and extra; always the same records, so that caches work."""
    found: list[WheelCandidate] = []
    for line in matrix.wheel_lines:
        for release in line.releases:
            bare = WheelCandidate(line, release, None)
            found += (WheelCandidate(line, release, extra, bare=bare) for extra in release.extras)
            found.append(bare)
    return tuple(found)


def by_preference(needs: Needs, matrix: Matrix) -> tuple[WheelCandidate, ...]:
    """Returns every candidate in order of preference."""
    kept = _lines_to_keep(needs)
    if (
        not needs.toolkits
        and not needs.tegra
        and not kept
        and not any(entry.role is CudaRole.NEEDED_LIBRARY for entry in needs.brings)
    ):
        return _usual_order(matrix)

    def rank(wheel: WheelCandidate) -> tuple[bool, _Rank]:
        is_kept = wheel.line.name in kept
        return is_kept, _rank(wheel, has_toolkit=_has_toolkit(wheel, needs, matrix), tegra=needs.tegra)

    return tuple(sorted(wheel_candidates(matrix), key=rank, reverse=True))


def _lines_to_keep(needs: Needs) -> frozenset[str]:
    """The installed lines, if nothing is known of the driver and the GPUs: another CUDA may need a newer driver."""
    is_known = needs.driver or needs.driver_cuda or needs.gpus
    return frozenset() if is_known else frozenset(name for name, _ in needs.cupy)


@lru_cache(maxsize=4)
def _usual_order(matrix: Matrix) -> tuple[WheelCandidate, ...]:
    return tuple(sorted(wheel_candidates(matrix), key=_rank, reverse=True))


def is_complete(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> bool:
    """Whether CuPy has its CUDA libraries: a toolkit or other packages have them, or the extra installs them."""
    return _rank(wheel, has_toolkit=_has_toolkit(wheel, needs, matrix), tegra=needs.tegra)[0]


def _has_toolkit(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> bool:
    bare = wheel.bare or wheel
    return host_toolkit(wheel, needs, matrix) is not None or shares_libraries(bare, needs, matrix)


_Rank = tuple[bool, Version, CudaVersion, bool]


def _rank(wheel: WheelCandidate, *, has_toolkit: bool = False, tegra: bool = False) -> _Rank:
    """The sort key, best last: with CUDA libraries, newest CuPy, newest CUDA, the extra unless a toolkit fits.

    On Tegra the toolkit is JetPack's: no document says that the CUDA wheels behind the extra run there.
    """
    has_extra = wheel.extra is not None
    complete = has_toolkit or (has_extra and not tegra)
    wants_extra = not has_toolkit and not tegra
    return complete, version_of(wheel.release.cupy), wheel.line.first_cuda, has_extra == wants_extra


@lru_cache(maxsize=1024)
def minors_of(wheel: WheelCandidate, matrix: Matrix) -> tuple[CudaMinor, ...]:
    """Returns the CUDA minor versions that a candidate can use, oldest first; with an extra, those it can install."""
    rows = (row for row in matrix.cuda_minors if wheel.line.serves(row.cuda))
    usable = (row for row in rows if row.toolkit_wheels or wheel.extra is None)
    return tuple(sorted(usable, key=lambda row: row.cuda))


def serving_minors(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> tuple[CudaMinor, ...]:
    """Returns the CUDA minor versions whose NVRTC compiles for every GPU with this CuPy."""
    return _serving_all(wheel, needs.capabilities, matrix)


def serves(wheel: WheelCandidate, gpu: ComputeCapability, matrix: Matrix) -> bool:
    """Whether some CUDA minor version supports a single GPU."""
    return bool(_serving_all(wheel, frozenset((gpu,)), matrix))


def _serving_all(
    wheel: WheelCandidate, capabilities: frozenset[ComputeCapability], matrix: Matrix
) -> tuple[CudaMinor, ...]:
    """Returns the minor versions for the bare release that the extra can install."""
    rows = _serving(wheel.bare or wheel, capabilities, matrix)
    return rows if wheel.extra is None else tuple(row for row in rows if row.toolkit_wheels)


def installable(rows: Sequence[CudaMinor], wheel: WheelCandidate, needs: Needs) -> tuple[CudaMinor, ...]:
    """Returns those of the CUDA minor versions that an extra can install with the C library, if that is known."""
    return tuple(row for row in rows if wheel.extra is None or _is_for_libc(row, wheel, needs))


def _is_for_libc(row: CudaMinor, wheel: WheelCandidate, needs: Needs) -> bool:
    """Whether the C library is new enough for the CUDA wheels of a minor version; true if either is unknown."""
    floor = oldest_libc(row, wheel)
    if floor is None or needs.libc is None or not needs.likely_platform.startswith("linux-"):
        return True
    return supports(needs.libc, floor)


def oldest_libc(row: CudaMinor, wheel: WheelCandidate) -> Libc | None:
    """Returns the oldest C library for the CUDA wheels of a minor version; if not measured, that of the extra."""
    return row.toolkit_libc or (wheel.brings.libc if wheel.brings else None)


def supports(libc: Libc, floor: Libc) -> bool:
    """Whether a C library has the family that wheels need and is no older than they need."""
    return libc.family == floor.family and libc >= floor


def left_out(wheel: WheelCandidate, needs: Needs, row: CudaMinor, matrix: Matrix) -> tuple[NeededGpu, ...]:
    """Returns the GPUs that the NVRTC of one CUDA minor version does not compile for with this CuPy."""
    compiled_for, cap = _compiled_for(matrix)[row.cuda], _cap(_caps(wheel.release), row.cuda)
    return tuple(
        gpu
        for gpu in needs.gpus
        if gpu.compute_capability and not _serves(compiled_for, cap, wheel.release, gpu.compute_capability)
    )


@lru_cache(maxsize=65536)  # releases times sets of capabilities: a fleet of mixed machines has hundreds of sets
def _serving(bare: WheelCandidate, capabilities: frozenset[ComputeCapability], matrix: Matrix) -> tuple[CudaMinor, ...]:
    known_bad = [row.cuda for row in advisories_for(bare.release.cupy, matrix) if row.cuda is not None]
    compiled_for, caps = _compiled_for(matrix), _caps(bare.release)

    def serves_all(nvrtc: CudaVersion) -> bool:
        cap = _cap(caps, nvrtc)
        return all(_serves(compiled_for[nvrtc], cap, bare.release, gpu) for gpu in capabilities)

    return tuple(row for row in minors_of(bare, matrix) if row.cuda not in known_bad and serves_all(row.cuda))


@lru_cache(maxsize=4)
def _compiled_for(matrix: Matrix) -> dict[CudaVersion, frozenset[ComputeCapability]]:
    """Returns the capabilities of each minor version as sets, for thousands of lookups."""
    return {row.cuda: frozenset(row.capabilities) for row in matrix.cuda_minors}


def _serves(
    compiled_for: frozenset[ComputeCapability], cap: ComputeCapability | None, release: Release, gpu: ComputeCapability
) -> bool:
    """CuPy requests the GPU's capability, limited by its cap; a cubin runs on its own major version only."""
    capped = cap is not None and cap < gpu and gpu not in TEGRA
    if release.caps_as_text and gpu.major >= _FIRST_OF_THREE_DIGITS:
        capped = False  # as text, "120" is less than "90"
    requested = cap if capped and cap is not None else gpu
    return requested.major == gpu.major and requested in compiled_for


_Caps = tuple[tuple[CudaVersion, ComputeCapability], ...]


def _caps(release: Release) -> _Caps:
    """Returns the caps of a release and the NVRTC versions from which they apply, the newest first."""
    steps = ((CudaVersion.parse(start), cap) for start, cap in (release.nvrtc_caps or {}).items())
    return tuple(sorted(steps, key=lambda step: step[0], reverse=True))


def _cap(caps: _Caps, nvrtc: CudaVersion) -> ComputeCapability | None:
    return next((cap for start, cap in caps if start <= nvrtc), None)


# What the extra [ctk] installs: the extras of cuda-toolkit that the metadata of CuPy 14.2.0 names.
_LIBRARIES = ("cublas", "cuda-nvrtc", "cuda-runtime", "cufft", "curand", "cusolver", "cusparse")
_TOOLKIT_EXTRAS = {"cuda-nvrtc": "nvrtc", "cuda-runtime": "cudart"}  # where the extra has another name than the wheel


def shares_libraries(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> bool:
    """Whether this CuPy uses the CUDA wheels that other packages of the target need, with what they lack of its own.

    The extra would move them to the versions of one CUDA toolkit.
    """
    if wheel.extra is not None or not wheel.release.extras:  # an older CuPy does not search packages for libraries
        return False
    return nvrtc_of_others(wheel, needs) in [row.cuda for row in serving_minors(wheel, needs, matrix)]


def lacking_libraries(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> tuple[str, ...]:
    """Returns requirements on the CUDA wheels of the line's major version that no other package needs.

    They are of the CUDA version of the others' NVRTC if possible: cuSOLVER and cuSPARSE cannot be loaded with an older
    nvJitLink.
    """
    present, major = library_versions(wheel, needs), wheel.line.cuda_major
    lacking = [library for library in _LIBRARIES if library not in present]
    nvrtc = nvrtc_of_others(wheel, needs)
    rows = (row for row in serving_minors(wheel, needs, matrix) if row.cuda == nvrtc and row.toolkit_wheels)
    has_toolkit = any(_is_for_libc(row, wheel, needs) for row in rows)
    if lacking and has_toolkit and all(entry.distribution != TOOLKIT for entry in needs.brings):
        extras = ",".join(sorted(_TOOLKIT_EXTRAS.get(library, library) for library in lacking))
        return (f"{TOOLKIT}[{extras}]=={nvrtc}.*",)
    return tuple(cuda_wheel_requirement(library, major) for library in lacking)


def nvrtc_of_others(wheel: WheelCandidate, needs: Needs) -> CudaVersion | None:
    """Returns the CUDA version of the NVRTC that other packages of the target need, if any of this major version."""
    try:
        return CudaVersion.parse(library_versions(wheel, needs).get("cuda-nvrtc", ""))
    except ValueError:  # none, or metadata with another version
        return None


def library_versions(wheel: WheelCandidate, needs: Needs) -> dict[str, str]:
    """Returns the versions of the CUDA wheels that other packages need, of the line's major version, by library."""
    versions = {entry.distribution: entry.version for entry in needs.brings if entry.role is CudaRole.NEEDED_LIBRARY}
    names = {library: cuda_wheel(library, wheel.line.cuda_major) for library in _LIBRARIES}
    return {library: versions[name] for library, name in names.items() if name in versions}


def other_cupys(wheel: WheelCandidate, needs: Needs) -> tuple[str, ...]:
    """Returns the other CuPy distributions of the target, which own the same files."""
    return tuple(dict.fromkeys(name for name, _ in needs.cupy if name != wheel.line.name))


def replaced_by(wheel: WheelCandidate, needs: Needs) -> tuple[str, ...]:
    """Returns what to remove: other CuPys, and unneeded CUDA wheels of another major, which would be found first."""
    strays = (name for name, major in needs.unneeded if major != wheel.line.cuda_major)
    return (*other_cupys(wheel, needs), *strays)


def host_toolkit(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> str | None:
    """Returns the folder of a host toolkit with libraries, headers and a fitting version for this candidate."""
    if not needs.toolkits:
        return None
    minors = {row.cuda for row in serving_minors(wheel.bare or wheel, needs, matrix)}
    for toolkit in needs.toolkits:
        if toolkit.toolkit.value in minors and toolkit.has_nvrtc and toolkit.has_headers:
            return toolkit.path
    return None
