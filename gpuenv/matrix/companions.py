"""The CUDA of the packages in a target: by their requirements, their names and builds, else by a row of the matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from gpuenv.matrix.ranges import in_range
from gpuenv.matrix.tables import Companion, Matrix
from gpuenv.model.cupy import cuda_major, is_cupy
from gpuenv.model.dependencies import Package, applies, needed, parse
from gpuenv.model.markers import environment_markers
from gpuenv.model.nvidia import cuda_major_of_wheel, cuda_wheel
from gpuenv.model.snapshot import Dependent, Snapshot
from gpuenv.model.strings import pattern
from gpuenv.model.versions import CudaVersion

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# The CUDA wheels that CuPy loads or compiles with (the DT_NEEDED entries of its modules, NVRTC and the headers).
_LOADED = pattern(r"nvidia-(?:cuda-nvrtc|cuda-runtime|cublas|cufft|curand|cusolver|cusparse)(?:-cu\d\d)?")
# Libraries whose names contain a CUDA version; those of several versions work in one environment.
_LIBRARIES = pattern(r"nvidia-.*|cuda-(?:toolkit|bindings|pathfinder|python|core)|cutensor.*|cusparselt.*|libcu.*")
TOOLKIT = "cuda-toolkit"  # the metapackage of CUDA's wheels; an environment has one version of it
_LOCAL = pattern(r"cu(\d\d)(\d)")
_NAMED = pattern(r"-cu(?:da)?(\d\d)\b")
_EXACT = pattern(r"==(\d{1,4})\.(\d{1,4})(?:\.\d+)*(?:\.\*)?")
_EXTRA = pattern(r"""extra *== *['"]([\w.-]+)['"]""")
# Their versions are those of CUDA; an open range of the others says nothing about CUDA.
_BY_CUDA_VERSION = ("cuda-toolkit", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime")
_MAJORS, _MINORS = range(11, 20), range(20)
# Distributions with rows in the matrix that conda builds, by the names of its packages: a row is about the wheels.
_CONDA_NAMES = {"torch": "pytorch"}
_CUDA_OF_CONDA = pattern(r"cupy|cupy-core|_*cuda.*|lib(cublas|cufft|curand|cusolver|cusparse|nvjitlink|nvrtc).*")
_CONDA_PREFIX = pattern(r"^=?(\d[\d.]*?)(?:\.?\*)?$")


class CudaRole(Enum):
    """What a distribution has to do with CUDA libraries."""

    USER = "needs them"
    LIBRARY = "is one"
    NEEDED_LIBRARY = "is one that another package than CuPy is known to need"


class CudaPackage(NamedTuple):
    """A distribution of the target that provides CUDA libraries, or needs those of one major version.

    Attributes:
        cuda_major: None if unknown.
        source: its metadata, or a matrix row.
        cuda: the minor version that it pins, if any.
        cupy: the versions of CuPy that it requires, of the line for its CUDA; None if it requires no CuPy.
    """

    distribution: str
    version: str
    cuda_major: int | None
    source: str
    role: CudaRole
    cuda: CudaVersion | None = None
    cupy: str | None = None

    @property
    def is_library(self) -> bool:
        """Whether it is itself a CUDA library."""
        return self.role is not CudaRole.USER


def cuda_packages(snapshot: Snapshot, matrix: Matrix) -> tuple[CudaPackage, ...]:
    """Returns the packages of the target that decide which CUDA fits.

    CUDA libraries are among them only if another package than CuPy needs them, as far as that is known.
    """
    target = snapshot.target
    dependents = [entry for entry in target.cuda_dependents or () if entry.name not in target.conda_packages]
    of_cupy = [entry for entry in target.needs_of_cupy if entry.name not in target.conda_packages]
    packages = {**{entry.name: entry.release for entry in (*dependents, *of_cupy)}, **target.packages}
    markers = environment_markers(snapshot)
    free = frozenset[str]() if target.cuda_dependents is None else _unneeded(packages, dependents, markers)
    lines = dict[str, list[str]]()
    for entry in (*dependents, *of_cupy):
        lines.setdefault(entry.name, []).append(entry.requirement)
    in_conda = frozenset(name for name, of_conda in _CONDA_NAMES.items() if of_conda in target.conda_packages)
    found = [
        cuda_package(name, version, matrix, lines.get(name, ()), markers)
        for name, version in packages.items()
        if name not in free and (name in lines or name not in in_conda)
    ]
    known = [entry for entry in found if entry is not None]
    known += (package for entry in target.conda_needs if (package := _of_conda(entry)) is not None)
    if target.cuda_dependents is not None:
        if TOOLKIT in packages and TOOLKIT not in free:
            version = packages[TOOLKIT]
            major = cuda_major_of_wheel(TOOLKIT, version)
            known.append(CudaPackage(TOOLKIT, version, major, "its version", CudaRole.LIBRARY))
        known = [entry._replace(role=CudaRole.NEEDED_LIBRARY) if entry.is_library else entry for entry in known]
    return tuple(sorted(known, key=lambda entry: entry.distribution))


def unneeded_libraries(snapshot: Snapshot) -> dict[str, int]:
    """Returns the CUDA wheels of the target that only CuPy needs, if anything, and the CUDA major of each.

    Empty if the requirements of the target's packages were not read.
    """
    target = snapshot.target
    if target.cuda_dependents is None:
        return {}
    dependents = [entry for entry in target.cuda_dependents if entry.name not in target.conda_packages]
    packages = {**{entry.name: entry.release for entry in dependents}, **target.packages}
    free = sorted(_unneeded(packages, dependents, environment_markers(snapshot)))
    majors = {name: cuda_major_of_wheel(name, packages[name]) for name in free if name not in target.conda_packages}
    return {name: major for name, major in majors.items() if major is not None}


def follows_cuda_of_conda(name: str) -> bool:
    """Whether a conda package is CuPy or one of CUDA's own, which conda may change together with cuda-version."""
    return _CUDA_OF_CONDA.fullmatch(name) is not None


def _of_conda(need: Dependent) -> CudaPackage | None:
    """Returns a conda package whose requirement on cuda-version admits one CUDA major alone."""
    if follows_cuda_of_conda(need.name):
        return None
    clauses = need.requirement.split(" ")[1:2]
    texts = (clause for text in clauses for clause in text.split(",") if clause)
    try:
        # Without an operator or with "=" alone, the clause is the beginning of a version (conda's MatchSpec).
        span = SpecifierSet(",".join(_CONDA_PREFIX.sub(r"==\1.*", text) for text in texts))
    except InvalidSpecifier:
        return None
    majors = [major for major in _MAJORS if any(span.contains(f"{major}.{minor}") for minor in _MINORS)]
    if len(majors) != 1:
        return None
    return CudaPackage(need.name, need.release, majors[0], "its conda record", CudaRole.USER)


def _unneeded(
    packages: Mapping[str, str], dependents: Iterable[Dependent], markers: Mapping[str, str]
) -> frozenset[str]:
    """Returns the CUDA wheels that only CuPy needs, if anything."""
    wheels = [name for name, version in packages.items() if cuda_major_of_wheel(name, version) is not None]
    lines: dict[str, list[str]] = {name: [] for name in packages}
    for entry in dependents:
        lines[entry.name].append(entry.requirement)
    installed = [
        Package(name, packages[name], tuple(texts), tuple(sorted(set(_EXTRA.findall(" ".join(texts))))))
        for name, texts in lines.items()
        if not is_cupy(name)
    ]
    return frozenset(wheels) - needed(wheels, installed, markers)


def cuda_package(
    name: str, version: str, matrix: Matrix, lines: Sequence[str] = (), markers: Mapping[str, str] | None = None
) -> CudaPackage | None:
    """Returns what is known of a distribution; None if it neither provides nor needs CUDA.

    ``lines`` are the requirements in its metadata on CuPy and on CUDA's wheels. The rows of the matrix count if
    metadata, name and build do not decide.
    """
    if is_cupy(name) or _LIBRARIES.fullmatch(name):
        major = cuda_major_of_wheel(name, version) if _LOADED.fullmatch(name) else None
        return None if major is None else CudaPackage(name, version, major, "its name and version", CudaRole.LIBRARY)
    build = version.partition("+")[2]
    local = _LOCAL.fullmatch(build)
    rows = [row for row in matrix.companions if row.distribution == name]
    if local and rows:
        cuda = CudaVersion(int(local[1]), int(local[2]))
        return CudaPackage(name, version, cuda.major, "the build in its version", CudaRole.USER, cuda=cuda)
    if lines:
        major, minor, cupy = _by_metadata(name, lines, markers or {})
        if major is not None or cupy is not None:
            return CudaPackage(name, version, major, "its metadata", CudaRole.USER, cuda=minor, cupy=cupy)
        if any("cuda-bindings" not in line for line in lines):
            return None  # its CUDA is for other platforms, or an extra that is not in use
    return None if build else _by_row_or_name(name, version, rows, matrix)


def _by_row_or_name(name: str, version: str, rows: Sequence[Companion], matrix: Matrix) -> CudaPackage | None:
    row = next((row for row in rows if in_range(version, row.versions)), None)
    if row is not None:
        source = matrix.cite(row.source)
        return CudaPackage(name, version, row.cuda_major, source, CudaRole.USER, cuda=row.cuda, cupy=row.cupy)
    major, _ = cuda_of(name, ())
    if major is not None:
        return CudaPackage(name, version, major, "its name", CudaRole.USER)
    return CudaPackage(name, version, None, "no row of the matrix", CudaRole.USER) if rows else None


def _by_metadata(
    name: str, lines: Sequence[str], markers: Mapping[str, str]
) -> tuple[int | None, CudaVersion | None, str | None]:
    """Returns CUDA major, minor, and the range of CuPy that a distribution requires, without its extras."""
    found = (parse(line) for line in lines)
    applying = [entry for entry in found if entry is not None and applies(entry, frozenset(), markers)]
    cupy = next((str(entry.specifier) for entry in applying if is_cupy(canonicalize_name(entry.name))), None)
    return (*cuda_of(name, applying), cupy)


def cuda_of(name: str, requirements: Iterable[Requirement]) -> tuple[int | None, CudaVersion | None]:
    """Returns the CUDA major that a distribution is for, and the minor if it pins one.

    Its own name decides, as of cudf-cu12, then the CuPy and the CUDA wheels that it requires.
    """
    named = _NAMED.search(name)
    major = int(named[1]) if named else None
    minor = None
    for entry in requirements:
        wheel, specifier = canonicalize_name(entry.name), str(entry.specifier)
        if is_cupy(wheel):
            major = major or cuda_major(wheel)
            continue
        exact = _EXACT.fullmatch(specifier)
        if exact is None or wheel == "cuda-bindings":
            major = major or _major_in_range(wheel, entry)
            continue
        of_pin = cuda_major_of_wheel(wheel, f"{exact[1]}.{exact[2]}")
        major = major or of_pin
        # NVRTC and the toolkit count as CUDA does; cuBLAS has numbers of its own.
        if of_pin is not None and wheel in ("cuda-toolkit", cuda_wheel("cuda-nvrtc", of_pin)):
            minor = None if specifier.endswith(f"{of_pin}.*") else CudaVersion(int(exact[1]), int(exact[2]))
    return major, minor


def _major_in_range(wheel: str, entry: Requirement) -> int | None:
    """Returns the CUDA major in the name of a wheel, else the only one that a range of versions admits."""
    by_name = cuda_major_of_wheel(wheel, "0") or None
    if by_name is not None or wheel not in _BY_CUDA_VERSION:
        return by_name
    majors = [
        major for major in _MAJORS if any(entry.specifier.contains(f"{major}.{minor}") for minor in (0, 1, 9, 99))
    ]
    return majors[0] if len(majors) == 1 else None
