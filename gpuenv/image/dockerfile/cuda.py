"""The CUDA of a Dockerfile's target, from base image, packages, wheels and frameworks; and CuPy's wheel lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from gpuenv.image.dockerfile.requirements import LIKE_CUDA, Install, Manager, is_cuda_related
from gpuenv.image.dockerfile.target import BuildTarget
from gpuenv.matrix.companions import cuda_package
from gpuenv.matrix.tables import Flavour, Matrix, Release, WheelLine
from gpuenv.model.cupy import FIRST_UNITED_CUDA, cuda_minor
from gpuenv.model.finding import Severity
from gpuenv.model.strings import parse_integer
from gpuenv.model.versions import CudaVersion

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

# NVIDIA, CUDA Installation Guide for Linux 13.0, 4.12.2 Meta Packages, table 4 (read 2026-11-21): cuda-libraries and
# cuda-runtime have the libraries, cuda-toolkit all, cuda-libraries-dev the development packages. That those need the
# libraries too, and that cuda-nvcc, cuda-minimal-build and cuda-driver-dev have the headers of the runtime, is
# assumed: it can only leave a finding out. Debian and Ubuntu (package lists of Debian 12 and Ubuntu 24.04, 2026-11-21):
# nvidia-cuda-dev has the headers and depends on the libraries, nvidia-cuda-toolkit depends on it.
_DISTRIBUTION_PACKAGES = ("nvidia-cuda-toolkit", "nvidia-cuda-dev")
# A Dockerfile that installs NVRTC, without which no kernel compiles, is assumed to choose the other libraries, too.
_LIBRARY_PACKAGES = re.compile(
    r"(?:cuda|cuda-toolkit|cuda-libraries|cuda-runtime|cuda-libraries-dev|cuda-nvrtc|cuda-nvrtc-dev)(?:-\d+(?:-\d+)?)?"
)
_HEADER_PACKAGES = re.compile(
    r"(?:cuda|cuda-toolkit|cuda-libraries-dev|cuda-libraries-devel|cuda-cudart-dev|cuda-cudart-devel"
    r"|cuda-minimal-build|cuda-nvcc|cuda-driver-dev|nvidia-cuda-toolkit|nvidia-cuda-dev)(?:-\d+(?:-\d+)?)?"
)
_VERSIONED = re.compile(r"(?:cuda|libcublas|libcufft|libcurand|libcusparse|libcusolver)[a-z-]*-(\d{1,3})-(\d{1,3})")
_WHEEL = re.compile(r"(?:nvidia-(?:cuda-runtime|cuda-nvrtc|cublas)|cuda-toolkit)(?:-cu(\d\d))?")
_CONDA_VERSION_PACKAGES = ("cuda-version", "cudatoolkit", "cuda-toolkit", "pytorch-cuda")  # their versions are CUDA's
# Conda packages that depend on CUDA's libraries: of conda-forge and of the channels pytorch and nvidia.
_CONDA_WITH_CUDA = ("cupy", "pytorch-cuda", "pytorch-gpu", "tensorflow-gpu", "rapids", "cudf", "cuml", "libcublas")
# Extras that depend on the CUDA of a major, or are named after it: as uv 0.13 resolved jax 0.4.30 and 0.12.0.1,
# numba-cuda 0.15.0 and 0.30.4, tensorflow 2.15.1 to 2.21.0 (run 2026-11-21).
_EXTRAS = {
    "jax": re.compile(r"cuda(\d\d)(?:[-_]pip)?"),
    "numba-cuda": re.compile(r"cu(\d\d)"),
    "tensorflow": re.compile(r"and-cuda()"),
}
_TENSORFLOW_CUDA_MAJOR = 12
_LINE_OF_MAJOR = re.compile(r"cupy-cuda(\d{1,4})x")


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework with CUDA in its wheels, such as torch.

    Attributes:
        cuda_major: the CUDA major; 0 for a build without CUDA, null if the version is not pinned.
    """

    name: str
    cuda_major: int | None
    cuda: CudaVersion | None = None


@dataclass(frozen=True, slots=True)
class CudaSources:
    """The CUDA of a target.

    Attributes:
        versions: each CUDA of the base image and the packages, with the text that names it.
        libraries: whether base image or packages have, or may have, the CUDA libraries.
        headers: whether base image or packages have, or may have, the CUDA headers.
        severity: the severity of a finding that CUDA is missing: an error if every install is known, a warning if the
            unknown ones do not look like CUDA, null otherwise.
    """

    versions: tuple[tuple[CudaVersion, str], ...]
    wheels: frozenset[int]
    libraries: bool
    headers: bool
    severity: Severity | None
    frameworks: tuple[Framework, ...]

    @property
    def cuda(self) -> CudaVersion | None:
        """The CUDA of the base image, else of the first package."""
        return self.versions[0][0] if self.versions else None

    def serves(self, line: WheelLine) -> bool:
        """Whether a wheel line of CuPy works with any of these CUDA versions."""
        return line.cuda_major in self.wheels or any(line.serves(cuda) for cuda, _ in self.versions)


def cuda_sources(target: BuildTarget) -> CudaSources:
    """Finds the CUDA of a target."""
    images = (target.base, *target.copied)
    conda = [each for each in target.installs if each.manager is Manager.CONDA]
    packages = [each.name for each in target.system]
    from_conda = any(
        each.name in _CONDA_WITH_CUDA or (each.name.startswith("cuda") and each.name != "cuda-python") for each in conda
    )
    found = frameworks(target)
    versions = [(image.cuda, image.text) for image in images]
    versions += [(_package_cuda(each.name), each.text) for each in target.system]
    versions += [(_conda_cuda(each, target.matrix), f"conda's {each.text}") for each in conda]
    return CudaSources(
        versions=tuple((cuda, text) for cuda, text in versions if cuda is not None),
        wheels=frozenset({*_wheel_cuda_majors(target), *(each.cuda_major for each in found if each.cuda_major)}),
        libraries=from_conda
        or any(image.may_have(Flavour.RUNTIME) for image in images)
        or any(name in _DISTRIBUTION_PACKAGES or _LIBRARY_PACKAGES.fullmatch(name) for name in packages),
        headers=from_conda
        or any(image.may_have(Flavour.DEVEL) for image in images)
        or any(map(_package_has_headers, packages)),
        severity=None if any(each.cuda_major is None for each in found) else _severity(target),
        frameworks=found,
    )


def _package_cuda(name: str) -> CudaVersion | None:
    match = _VERSIONED.fullmatch(name)
    return CudaVersion(int(match[1]), int(match[2])) if match else None


def _package_has_headers(name: str) -> bool:
    """Whether a package has the headers; also a development package of another part of CUDA, which may need them."""
    return _HEADER_PACKAGES.fullmatch(name) is not None or (_package_cuda(name) is not None and "-dev" in name)


def _severity(target: BuildTarget) -> Severity | None:
    """The severity of missing CUDA, by the likelihood that an unknown install has it."""
    doubts = [each for each in target.unknown if not each.possible]
    if any(map(is_cuda_related, (install for each in target.unknown for install in each.possible))):
        return None
    if any(each.is_file or LIKE_CUDA.search(each.what) for each in doubts):
        return None
    return Severity.WARNING if doubts else Severity.ERROR


def _conda_cuda(entry: Install, matrix: Matrix) -> CudaVersion | None:
    """The CUDA that a conda package pins: ``cuda-version=12.9``; for ``=12``, the newest known minor."""
    texts = [each.version for each in entry.specifier or () if each.operator == "=="]
    match = (
        re.match(r"(\d{1,3})(?:\.(\d{1,3}))?(?!\d)", texts[0])
        if entry.name in _CONDA_VERSION_PACKAGES and len(texts) == 1
        else None
    )
    if match is None:
        return None
    if match[2] is not None:
        return CudaVersion(int(match[1]), int(match[2]))
    return max((row.cuda for row in matrix.cuda_minors if row.cuda.major == int(match[1])), default=None)


def _wheel_cuda_majors(target: BuildTarget) -> set[int]:
    """The CUDA majors of NVIDIA's wheels and of CuPy's extra ctk."""
    majors: set[int] = set()
    for entry in target.installs:
        match = _WHEEL.fullmatch(entry.name) if entry.manager is Manager.PIP else None
        if match is not None:
            version = entry.exact or next((each.version for each in entry.specifier or ()), "")
            major = parse_integer(match[1] or version.partition(".")[0])
            majors.add(max(row.major for row in target.matrix.cuda_majors) if major is None else major)
        line = wheel_line(entry.name, target.matrix)
        if line is not None and "ctk" in entry.extras:
            majors |= {line.cuda_major for row in _admitted(line, entry.specifier) if "ctk" in row.extras}
    return majors


def frameworks(target: BuildTarget) -> tuple[Framework, ...]:
    """The frameworks that pip installs, with the CUDA of their index or of their pinned version."""
    companions = {row.distribution for row in target.matrix.companions}
    installs = [each for each in target.installs if each.manager is Manager.PIP]
    found = (_framework(each, target.matrix) for each in installs if each.name in companions or each.name in _EXTRAS)
    return tuple({each.name: each for each in found if each is not None}.values())


def _framework(install: Install, matrix: Matrix) -> Framework | None:
    pattern = _EXTRAS.get(install.name)
    named = [match[1] for extra in install.extras if pattern is not None and (match := pattern.fullmatch(extra))]
    if named:
        return Framework(install.name, int(named[0] or _TENSORFLOW_CUDA_MAJOR))
    suffix = re.search(r"-cu(?:da)?(\d\d)(?:-plugin)?$", install.name)
    if suffix is not None:
        return Framework(install.name, int(suffix[1]))
    if install.name in _EXTRAS:
        return None  # without such an extra, their wheels have no CUDA
    if install.index_cuda is not None and "+" not in (install.exact or ""):
        return Framework(install.name, install.index_cuda.major, install.index_cuda)
    package = cuda_package(install.name, install.exact, matrix) if install.exact is not None else None
    return Framework(install.name, package.cuda_major if package else None, package.cuda if package else None)


def wheel_line(name: str, matrix: Matrix) -> WheelLine | None:
    """The wheel line of a distribution: the matrix's, or a former line without releases.

    A former line for a CUDA minor from 11.2 on is assumed to run wherever cupy-cuda11x does.
    """
    found = next((line for line in matrix.wheel_lines if line.name == name), None)
    cuda = cuda_minor(name)
    if found is not None or cuda is None:
        return found
    united = cuda >= FIRST_UNITED_CUDA
    return WheelLine(name, cuda.major, FIRST_UNITED_CUDA if united else cuda, "its name", (), None if united else cuda)


def is_no_line(name: str, matrix: Matrix) -> bool:
    """Whether a name looks like a CuPy wheel line and is none; later majors than the matrix's may exist."""
    match = _LINE_OF_MAJOR.fullmatch(name)
    later = match is not None and int(match[1]) > max(line.cuda_major for line in matrix.wheel_lines)
    return name.startswith("cupy-cuda") and wheel_line(name, matrix) is None and not later


def _admitted(line: WheelLine, specifier: SpecifierSet | None) -> list[Release]:
    """The releases of a line that a specifier admits.

    Without ``prereleases``, packaging 24 parses the version of ``===latest``, and raises.
    """
    return [row for row in line.releases if specifier is None or specifier.contains(row.cupy, prereleases=True)]


def release_of(target: BuildTarget, install: Install) -> Release | None:
    """The release that would be installed: the pinned one, else the newest that specifier and Python admit."""
    line = wheel_line(install.name, target.matrix)
    if line is None or install.specifier is None:
        return None
    rows = _admitted(line, install.specifier)
    if install.exact is None:
        tag = None if target.python is None else target.python.tag
        rows = [row for row in rows if row.yanked is None and (tag is None or tag in row.pythons)]
    return max(rows, key=lambda row: Version(row.cupy), default=None)
