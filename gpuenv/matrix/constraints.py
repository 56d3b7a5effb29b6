"""Constraints on wheels, one function each: a wheel fits, is rejected, or that is unknown.

To add one: a slug in ``ConstraintName``, a function, an entry in ``CONSTRAINTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from gpuenv.matrix.candidates import (
    TEGRA,
    WheelCandidate,
    installable,
    minors_of,
    oldest_libc,
    serves,
    serving_minors,
    supports,
)
from gpuenv.matrix.companions import TOOLKIT, CudaPackage
from gpuenv.matrix.needs import NeededGpu, Needs, advisories_for
from gpuenv.matrix.products import branch_of, generation_for, reads_ptx
from gpuenv.matrix.ranges import in_range
from gpuenv.matrix.tables import CudaMajor, Matrix, Platform, WheelLine
from gpuenv.model.resolution import CandidateKind, Change, ConstraintName, Unusable
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion


class Rejected(NamedTuple):
    """The wheel cannot work; ``change`` would lift this if the user can make it."""

    needed: str
    found: str
    source: str
    change: Change | None = None


class Unknown(NamedTuple):
    """The fact is unknown; choosing this candidate assumes ``value``."""

    fact: str
    value: str


Verdict = Rejected | Unknown | None  # None: it fits
Constraint = Callable[[WheelCandidate, Needs, Matrix], Verdict]


def not_yanked(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The release was not yanked."""
    del needs
    if wheel.release.yanked is None:
        return None
    return Rejected(
        "a release that was not yanked", f"yanked: {wheel.release.yanked}", matrix.cite(wheel.release.source)
    )


def platform(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The release has wheels for this operating system and architecture."""
    if wheel.platform(needs) is not None:
        return Unknown(*needs.platform_assumed) if needs.platform_assumed else None
    return Rejected(" or ".join(wheel.release.platforms), needs.likely_platform, matrix.cite(wheel.release.source))


def libc(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The C library has the family of the wheels and is no older than they require."""
    row = wheel.platform(needs)
    if row is None or row.libc is None:
        return None
    if needs.libc is None:
        of_cuda = _libc_of_cuda(wheel, needs, matrix)
        return Unknown("host.libc", f"at least {max(row.libc, of_cuda) if of_cuda else row.libc}")
    if supports(needs.libc, row.libc):
        return None
    return Rejected(f"at least {row.libc}", str(needs.libc), matrix.cite(wheel.release.source))


def python(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The release has a wheel for this Python."""
    row = wheel.platform(needs)
    tags = _offered_tags(wheel.release.pythons, row.without if row else ())
    known, is_cpython = needs.python, needs.implementation in (None, "cpython")
    if known and is_cpython and known.tag in tags:
        return None
    offered = _python_list(tags)
    if known is None:
        return Unknown("target.python", f"one of {offered}")
    source = matrix.cite(wheel.release.source)
    if not is_cpython:
        return Rejected(f"CPython {offered}", str(needs.implementation), source)
    return Rejected(f"Python {offered}", str(known), source, Change("target.python", offered, str(known)))


@lru_cache(maxsize=256)
def _offered_tags(tags: tuple[str, ...], without: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(tag for tag in tags if tag not in without)


@lru_cache(maxsize=256)
def _python_list(tags: tuple[str, ...]) -> str:
    """``3.10, 3.11`` for ``cp310`` and ``cp311``."""
    return ", ".join(f"{tag[2]}.{tag[3:]}" for tag in tags)


# The first Python whose wheels of NumPy all need a newer C library than CuPy's: NumPy 2.3.2 to 2.5.5 for Python 3.14
# and 3.15, x86_64 and aarch64, are manylinux_2_27; 2.2.6 for Python 3.13 is manylinux_2_17 (files of the index).
_NUMPY_PYTHON, _NUMPY_LIBC = PythonVersion(3, 14), Libc("glibc", 2, 27)
_NUMPY_SOURCE = "the platform tags of NumPy's wheels, 2.3.2 to 2.5.5"


def numpy(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The installed NumPy is in the range that CuPy requires; without one, NumPy has wheels for this C library."""
    if needs.numpy is None and _lacks_numpy_wheels(wheel, needs):
        older = _python_list(tuple(tag for tag in wheel.release.pythons if PythonVersion.parse(tag) < _NUMPY_PYTHON))
        change = Change("target.python", older, str(needs.python)) if older else None
        needed = f"at least {_NUMPY_LIBC} for NumPy's wheels for Python {needs.python}"
        return Rejected(needed, str(needs.libc), _NUMPY_SOURCE, change)
    fitting = needs.numpy is None or in_range(needs.numpy, wheel.release.numpy)
    if fitting is None:
        return Unknown("target.numpy", wheel.release.numpy)
    if fitting or needs.numpy is None:
        return None
    change = Change("target.numpy", wheel.release.numpy, needs.numpy)
    return Rejected(f"NumPy {wheel.release.numpy}", needs.numpy, matrix.cite(wheel.release.source), change)


def _lacks_numpy_wheels(wheel: WheelCandidate, needs: Needs) -> bool:
    """Whether NumPy has wheels for another Python or C library alone; conda has builds of its own."""
    if wheel.kind is not CandidateKind.WHEEL or needs.python is None or needs.libc is None:
        return False
    is_linux = needs.likely_platform.startswith("linux-") and needs.libc.family == _NUMPY_LIBC.family
    is_old = needs.python >= _NUMPY_PYTHON and needs.libc < _NUMPY_LIBC
    return is_linux and is_old and needs.python.tag in wheel.release.pythons  # else ``python`` rejects it


_Constraints = tuple[tuple[ConstraintName, Constraint], ...]

INSTALLABLE: _Constraints = (
    (ConstraintName.NOT_YANKED, not_yanked),
    (ConstraintName.PLATFORM, platform),
    (ConstraintName.LIBC, libc),
    (ConstraintName.PYTHON, python),
    (ConstraintName.NUMPY, numpy),
)


_FIRST_COMPATIBLE_MAJOR = 11  # minor-version compatibility begins with CUDA 11 (CUDA Compatibility)


def driver_minimum(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The driver supports the line's CUDA major version (minor-version or forward compatibility)."""
    row = _major_row(wheel.line.cuda_major, matrix)
    minimum = oldest_driver(wheel.line, matrix, windows=needs.windows)
    if needs.tegra:
        return _jetpack_minimum(wheel, needs, row, matrix.cite(row.source))
    wanted = f">= {minimum}"
    if needs.driver is None and needs.driver_cuda is None and not needs.driver_absent:
        return Unknown("driver.version", wanted)
    least = wheel.line.first_cuda if row.major < _FIRST_COMPATIBLE_MAJOR else CudaVersion(row.major, 0)
    if _driver_runs(least, needs, minimum) and not needs.driver_absent:
        return None
    source = matrix.cite(row.source)
    if needs.driver is not None and needs.driver >= minimum and not needs.driver_absent:  # the libcuda in use decides
        of_libcuda = Change("driver.cuda", f">= {least}", str(needs.driver_cuda))
        found = f"CUDA {needs.driver_cuda} (driver {needs.driver})"
        return Rejected(f"libcuda of CUDA {of_libcuda.needed}", found, source, of_libcuda)
    found = needs.driver_label
    ranges = [generation_for(gpu.compute_capability, matrix) for gpu in needs.gpus]
    lasts = [entry.last_branch for entry in ranges if entry is not None and entry.last_branch is not None]
    if lasts and min(lasts) < minimum.branch:
        return Rejected(f"driver {wanted}", found, source)  # such a driver no longer supports a GPU of the machine
    bound = f", branch {min(lasts)} or older" if lasts else ""
    now = "none" if needs.driver_absent else str(needs.driver or f"CUDA {needs.driver_cuda}")
    change = Change("driver.version", wanted + bound, now)
    return Rejected(f"driver {wanted}", found, source, change)


@lru_cache(maxsize=64)
def _major_row(major: int, matrix: Matrix) -> CudaMajor:
    return next(row for row in matrix.cuda_majors if row.major == major)


def _jetpack_minimum(wheel: WheelCandidate, needs: Needs, row: CudaMajor, source: str) -> Verdict:
    """On Tegra the CUDA level decides: the driver comes with JetPack and has other version numbers.

    JetPack's libraries have that level too, and a line for one minor version needs that version.
    """
    least = wheel.line.first_cuda if wheel.line.last_cuda else CudaVersion(row.major, 0)
    if needs.driver_cuda is None:
        return Unknown("driver.cuda", f">= {least}")
    if needs.driver_cuda >= least:
        return None
    needed = f"a JetPack with CUDA {least if wheel.line.last_cuda else row.major}"
    return Rejected(
        needed,
        f"CUDA {needs.driver_cuda}",
        source,
        Change("JetPack", needed.removeprefix("a JetPack "), str(needs.driver_cuda)),
    )


def oldest_driver(line: WheelLine, matrix: Matrix, *, windows: bool = False) -> DriverVersion:
    """Returns the minimum of the line's major version, or the driver of its only minor version if that is older."""
    return _oldest_driver(line.cuda_major, line.last_cuda, matrix, windows)


@lru_cache(maxsize=64)
def _oldest_driver(major: int, only: CudaVersion | None, matrix: Matrix, windows: bool) -> DriverVersion:  # noqa: FBT001
    row = _major_row(major, matrix)
    minors = [minor for minor in matrix.cuda_minors if minor.cuda == only]
    native = [driver for minor in minors if (driver := minor.windows if windows else minor.linux) is not None]
    return min((row.windows if windows else row.linux, *native))


def _driver_runs(least: CudaVersion, needs: Needs, minimum: DriverVersion) -> bool:
    """Whether libcuda has at least this CUDA level and, without a compat package, the driver is new enough."""
    by_level = needs.driver_cuda is None or needs.driver_cuda >= least
    if needs.forward_compatible or needs.driver is None:
        return by_level
    return by_level and needs.driver >= minimum


def driver_supports_gpu(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The driver branch is neither too new nor too old for a GPU; a GPU that the driver lists passes."""
    del wheel
    if needs.driver is None or needs.tegra:
        return None
    branch = branch_of(needs.driver, matrix)
    for gpu in needs.gpus:
        row = None if gpu.driven else generation_for(gpu.compute_capability, matrix)
        wanted = row.wants(branch) if row else None
        if row is not None and wanted is not None:
            change = Change("driver.version", wanted, str(needs.driver))
            source = matrix.cite(row.source)
            return Rejected(f"driver {wanted} for {gpu.label}", f"driver {needs.driver}", source, change)
    return None


def gpu_present(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """A GPU exists, or its absence is uncertain."""
    if not needs.without_gpu:
        return None
    minors = minors_of(wheel, matrix)
    covered = _covered(wheel, matrix)
    wanted = f"of compute capability {covered[0]} to {covered[-1]}" if covered else "that it makes code for"
    source = matrix.cite(minors[-1].source if minors else wheel.line.source)
    return Rejected(f"a GPU {wanted}", "no GPU", source, Change("gpus", wanted, "none"))


def nvrtc_compiles_for_gpu(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """Some NVRTC of the line's major version compiles for every GPU with this CuPy."""
    minors = minors_of(wheel, matrix)
    serving = serving_minors(wheel, needs, matrix)
    if not serving:
        source = matrix.cite(minors[-1].source if minors else wheel.line.source)
        unserved = _unserved(wheel, needs, matrix)
        return Rejected(_compiled_for(wheel, unserved, matrix), _labels(unserved), source)
    if not needs.gpus or any(gpu.compute_capability is None for gpu in needs.gpus):
        supported = sorted({capability for row in serving for capability in row.capabilities})
        return Unknown("gpus[].compute_capability", f"one of {', '.join(map(str, supported))}")
    return None


def _unserved(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> tuple[NeededGpu, ...]:
    """Returns the GPUs that no minor version supports; all if only different minor versions support them."""
    known = tuple(gpu for gpu in needs.gpus if gpu.compute_capability)
    unserved = (gpu for gpu in known if gpu.compute_capability and not serves(wheel, gpu.compute_capability, matrix))
    return tuple(unserved) or known


def _compiled_for(wheel: WheelCandidate, gpus: tuple[NeededGpu, ...], matrix: Matrix) -> str:
    """Returns a short text of the supported compute capabilities: a minimum, a maximum, or the condition."""
    covered = _covered(wheel, matrix)
    unserved = [gpu.compute_capability for gpu in gpus if gpu.compute_capability]
    nvrtc = f"(NVRTC {wheel.line.cuda_major}, CuPy {wheel.release.cupy})"
    if covered and all(capability < covered[0] for capability in unserved):
        return f"compute capability >= {covered[0]} {nvrtc}"
    if covered and all(capability > covered[-1] for capability in unserved):
        return f"compute capability <= {covered[-1]} {nvrtc}"
    whom = "every GPU" if len(gpus) > 1 else f"compute capability {unserved[0]}"
    return f"one NVRTC {wheel.line.cuda_major} that CuPy {wheel.release.cupy} lets compile for {whom}"


@lru_cache(maxsize=1024)
def _covered(wheel: WheelCandidate, matrix: Matrix) -> tuple[ComputeCapability, ...]:
    return tuple(sorted({capability for row in minors_of(wheel, matrix) for capability in row.capabilities}))


def _labels(gpus: tuple[NeededGpu, ...]) -> str:
    return ", ".join(dict.fromkeys(gpu.label for gpu in gpus)) or "no GPU"


def wheel_has_code_for_gpu(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The wheel's code runs on every GPU, directly or compiled by the driver."""
    row = wheel.platform(needs)
    known = [gpu for gpu in needs.gpus if gpu.compute_capability]
    if row is None or not known:
        return None
    if row.sass is None:
        return Unknown("the GPU code in this platform's wheel", f"made for {_labels(tuple(known))}")
    unsupported = _without_code(row.sass, known)
    if not unsupported:
        return None
    wrote, by_driver = wheel.release.built_with, _without_code((*row.sass, *_made_of_ptx(row, known)), known)
    if wrote is not None and not by_driver and not needs.driver_absent:
        if needs.driver_cuda is None:
            return Unknown("driver.cuda", f">= {wrote}")
        if reads_ptx(needs.driver_cuda, wrote):
            return None
    needed = f"a GPU that runs the wheel's code, {', '.join(row.sass)}"
    return Rejected(needed, _labels(unsupported), matrix.cite(wheel.release.source))


def _without_code(codes: tuple[str, ...], gpus: Collection[NeededGpu]) -> tuple[NeededGpu, ...]:
    return tuple(gpu for gpu in gpus if not _any_runs(codes, gpu.compute_capability))


@lru_cache(maxsize=1024)
def _any_runs(codes: tuple[str, ...], gpu: ComputeCapability | None) -> bool:
    return any(runs(code, gpu) for code in codes)


def _made_of_ptx(row: Platform, gpus: Collection[NeededGpu]) -> list[str]:
    """Returns the code that a driver compiles from the PTX."""
    oldest = min(map(_made_for, row.ptx), default=None)
    capabilities = [gpu.compute_capability for gpu in gpus if gpu.compute_capability]
    return [str(capability) for capability in capabilities if oldest is not None and capability >= oldest]


def runs(code: str, gpu: ComputeCapability | None) -> bool:
    """Whether a cubin runs on a GPU: on its own capability and later minor versions of its major."""
    made_for = _made_for(code)
    if gpu is None or code.endswith("a") or gpu in TEGRA:
        return gpu == made_for
    return gpu.major == made_for.major and gpu.minor >= made_for.minor


@lru_cache(maxsize=256)
def _made_for(code: str) -> ComputeCapability:
    return ComputeCapability.parse(code)


def extra_fits_platform(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """CUDA wheels of the extra support this C library and the GPUs; otherwise pip silently selects an older CuPy."""
    if wheel.extra is not None and needs.tegra:
        return Unknown("the GPU code in the CUDA wheels for aarch64", "made for Tegra")
    serving, offered = serving_minors(wheel, needs, matrix), minors_of(wheel, matrix)
    floor = _libc_of_cuda(wheel, needs, matrix)
    if floor is None or installable(serving or offered, wheel, needs):
        return None  # if the C library is unknown, ``libc`` reports the assumption
    of_gpu = f" with CUDA {serving[0].cuda} or newer" if 0 < len(serving) < len(offered) else ""
    source = serving[0].toolkit_source if serving else None
    needed = f"at least {floor} for [{wheel.extra}]{of_gpu}"
    return Rejected(needed, str(needs.libc), matrix.cite(source or wheel.release.source))


def _libc_of_cuda(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Libc | None:
    """Returns the oldest C library for CUDA wheels of the extra that support the GPUs."""
    rows = serving_minors(wheel, needs, matrix) or minors_of(wheel, matrix)
    return min((floor for row in rows if (floor := oldest_libc(row, wheel))), default=None) if wheel.extra else None


def agrees_with_packages(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """No other package of the environment provides CUDA libraries that would replace CuPy's."""
    for other in needs.brings:
        conflict = _conflict(wheel, needs, other, matrix)
        if conflict is not None:
            wanted, found = conflict
            change = Change(f"target.packages.{other.distribution}", wanted, other.version)
            needed = f"{other.distribution} {wanted}"
            return Rejected(needed, f"{other.distribution} {other.version} {found}", other.source, change)
    unknown = next((other for other in needs.brings if other.cuda_major is None and other.cupy is None), None)
    if unknown is not None and wheel.release.extras:
        return Unknown(f"the CUDA of {unknown.distribution} {unknown.version}", f"CUDA {wheel.line.cuda_major}")
    return None


def _conflict(wheel: WheelCandidate, needs: Needs, other: CudaPackage, matrix: Matrix) -> tuple[str, str] | None:
    """Returns what the other package would have to be, and what it is; None without a conflict."""
    major, found = wheel.line.cuda_major, f"built for CUDA {other.cuda or other.cuda_major}"
    if other.cupy is not None and in_range(wheel.release.cupy, other.cupy) is False:
        return f"that allows CuPy {wheel.release.cupy}", f"that requires CuPy {other.cupy}"
    if other.cuda_major is None:
        return None
    # A CuPy without extras does not search packages for CUDA libraries. A conda environment has one CUDA for all.
    # The extra requires cuda-toolkit, and an environment has one version of it.
    searches = bool(wheel.release.extras) or (wheel.kind is CandidateKind.CONDA and not other.is_library)
    is_bound = other.cupy is not None or (searches and not other.is_library)
    is_bound = is_bound or (wheel.extra is not None and other.distribution == TOOLKIT)
    if (is_bound and other.cuda_major != major) or (searches and other.cuda_major > major):
        return f"built for CUDA {major} or absent", found
    if not searches:
        return None
    if other.cuda is not None and other.cuda.major == major:
        serving = {row.cuda for row in serving_minors(wheel, needs, matrix)}
        if serving and other.cuda not in serving:
            return f"built for CUDA {min(serving)} or newer", found
    return None


def unusable_packages(needs: Needs, matrix: Matrix) -> Iterator[Unusable]:
    """Yields installed packages whose CUDA major version runs on no such driver, or no longer supports a GPU.

    CUDA's libraries, whose users are unknown, are not among them. On Tegra the packages are JetPack's own.
    """
    if needs.tegra or needs.driver_absent or needs.without_gpu:
        return
    for package in needs.brings:
        row = next((entry for entry in matrix.cuda_majors if entry.major == package.cuda_major), None)
        if package.is_library or row is None:
            continue
        label, minimum = f"{package.distribution} {package.version}", row.windows if needs.windows else row.linux
        read = needs.driver is not None or needs.driver_cuda is not None
        if read and not _driver_runs(CudaVersion(row.major, 0), needs, minimum):
            is_old = needs.driver is None or needs.driver < minimum
            needed = f"driver >= {minimum}" if is_old else f"libcuda of CUDA >= {row.major}.0"
            yield Unusable(label, row.major, needed, needs.driver_label, matrix.cite(row.source))
            continue
        minors = [minor for minor in matrix.cuda_minors if minor.cuda.major == row.major]
        if not minors:
            continue
        oldest = min(capability for minor in minors for capability in minor.capabilities)
        removed = tuple(gpu for gpu in needs.gpus if gpu.compute_capability and gpu.compute_capability < oldest)
        if removed:
            needed, source = f"compute capability >= {oldest}", matrix.cite(minors[-1].source)
            yield Unusable(label, row.major, needed, _labels(removed), source)


def no_advisory(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """No advisory applies to the release or its combination with installed packages."""
    for row in advisories_for(wheel.release.cupy, matrix):
        if row.cuda is None and (row.package is None or row.package in needs.packages):
            also = f" with {row.package}" if row.package else ""
            needed = f"CuPy {row.mended_by} or newer{also}" if row.mended_by else f"another CuPy{also}"
            return Rejected(needed, f"{row.text} ({row.date})", matrix.cite(row.source))
    return None


# These read the CUDA versions of the line only, so that a verdict holds for all its releases.
OF_LINE: _Constraints = (
    (ConstraintName.DRIVER_MINIMUM, driver_minimum),
    (ConstraintName.DRIVER_SUPPORTS_GPU, driver_supports_gpu),
)
OF_RELEASE: _Constraints = (
    (ConstraintName.GPU_PRESENT, gpu_present),
    (ConstraintName.NVRTC_COMPILES_FOR_GPU, nvrtc_compiles_for_gpu),
    (ConstraintName.WHEEL_HAS_CODE_FOR_GPU, wheel_has_code_for_gpu),
    (ConstraintName.EXTRA_FITS_PLATFORM, extra_fits_platform),
    (ConstraintName.AGREES_WITH_PACKAGES, agrees_with_packages),
    (ConstraintName.NO_ADVISORY, no_advisory),
)
CONSTRAINTS = (*INSTALLABLE, *OF_LINE, *OF_RELEASE)


_Objection = tuple[ConstraintName, Rejected | Unknown]


class LineVerdicts:
    """The verdicts of a machine on whole lines; a container on the machine has the same."""

    def __init__(self, needs: Needs, matrix: Matrix) -> None:
        self._needs, self._matrix = needs, matrix
        self._known: dict[tuple[int, CudaVersion | None], tuple[_Objection, ...]] = {}

    def of(self, wheel: WheelCandidate) -> tuple[_Objection, ...]:
        """Returns the constraints of the wheel's line that are not met, or not known to be."""
        key = wheel.line.cuda_major, wheel.line.last_cuda
        if key not in self._known:
            self._known[key] = tuple(_objections(OF_LINE, wheel, self._needs, self._matrix))
        return self._known[key]


def objections(wheel: WheelCandidate, needs: Needs, matrix: Matrix, lines: LineVerdicts | None) -> Iterator[_Objection]:
    """Yields the constraints that are not met, or not known to be.

    ``lines`` are the verdicts on whole lines, shared with the machine's other candidates.
    """
    yield from _objections(INSTALLABLE, wheel, needs, matrix)
    yield from (lines or LineVerdicts(needs, matrix)).of(wheel)
    yield from _objections(OF_RELEASE, wheel, needs, matrix)


def _objections(constraints: _Constraints, wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Iterator[_Objection]:
    for name, constraint in constraints:
        verdict = constraint(wheel, needs, matrix)
        if verdict is not None:
            yield name, verdict


def fits(wheel: WheelCandidate, needs: Needs, matrix: Matrix, lines: LineVerdicts | None = None) -> bool:
    """Whether a wheel meets all constraints; those that reject whole lines are evaluated first."""
    of_line = (lines or LineVerdicts(needs, matrix)).of(wheel)
    of_release = _objections((*INSTALLABLE, *OF_RELEASE), wheel, needs, matrix)
    return not any(isinstance(verdict, Rejected) for _, verdict in chain(of_line, of_release))
