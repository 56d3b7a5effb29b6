"""Where CUDA comes from in what a Dockerfile builds: base image, packages, wheels, other frameworks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpuenv.image.dockerfile.base_images import BaseImage
from gpuenv.image.dockerfile.build_target import BuildTarget
from gpuenv.image.dockerfile.install_requests import Install, Manager
from gpuenv.image.inspect.other_frameworks import Framework, frameworks
from gpuenv.matrix.tables import Flavour, Matrix
from gpuenv.model.strings import parse_integer
from gpuenv.model.versions import CudaVersion

# NVIDIA, CUDA Installation Guide for Linux 13.0, 4.12.2 Meta Packages, table 4 (read 2026-11-21): cuda-libraries and
# cuda-runtime have the libraries, cuda-toolkit all, cuda-libraries-dev the development packages. That those need the
# libraries beside them, and that cuda-nvcc, cuda-minimal-build and cuda-driver-dev have the headers of the runtime, is
# assumed: it can only leave a finding out. Debian and Ubuntu (package lists of Debian 12 and Ubuntu 24.04, 2026-11-21):
# nvidia-cuda-dev has the headers and depends on the libraries, nvidia-cuda-toolkit depends on it.
_OF_DISTRIBUTION = ("nvidia-cuda-toolkit", "nvidia-cuda-dev")
_WITH_LIBRARIES = re.compile(r"(?:cuda|cuda-toolkit|cuda-libraries|cuda-runtime|cuda-libraries-dev)(?:-\d+(?:-\d+)?)?")
_WITH_HEADERS = re.compile(
    r"(?:cuda|cuda-toolkit|cuda-libraries-dev|cuda-libraries-devel|cuda-cudart-dev|cuda-cudart-devel"
    r"|cuda-minimal-build|cuda-nvcc|cuda-driver-dev|nvidia-cuda-toolkit|nvidia-cuda-dev)(?:-\d+(?:-\d+)?)?"
)
_VERSIONED = re.compile(r"(?:cuda|libcublas|libcufft|libcurand|libcusparse|libcusolver)[a-z-]*-(\d{1,3})-(\d{1,3})")
# What CuPy loads, as NVIDIA packages it one by one; a development package needs the libraries beside it.
_PARTS = ("cuda-nvrtc", "libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse")
_PART = re.compile(rf"({'|'.join(_PARTS)})(?:-dev|-devel)?-\d+-\d+")
_WHEEL = re.compile(r"(?:nvidia-(?:cuda-runtime|cuda-nvrtc|cublas)|cuda-toolkit)(?:-cu(\d\d))?")
_OF_CONDA = ("cuda-version", "cudatoolkit", "cuda-toolkit", "pytorch-cuda")  # their versions are CUDA's
# What brings CUDA's libraries along: CuPy's own, pytorch's and NVIDIA's channels' packages for GPUs.
_CONDA_BRINGING = ("cupy", "pytorch-cuda", "pytorch-gpu", "tensorflow-gpu", "rapids", "cudf", "cuml", "libcublas")
_BRINGING = ("ctk",)


@dataclass(frozen=True, slots=True)
class CudaSources:
    """The CUDA of a target, and where it comes from.

    Attributes:
        cuda: of the image itself: its base or its packages.
        cuda_source: what names that version.
        libraries: whether the image itself has CuPy's libraries; also where that is not known.
        lacking: the packages of libraries that are not there, where others of them are.
        headers: whether the image itself has CUDA's headers.
        headers_known: whether it is known of the base and of the packages of CUDA whether they bring headers.
        wheels: the CUDA majors that wheels bring.
        frameworks: other frameworks and the CUDA major that they bring.
    """

    cuda: CudaVersion | None
    cuda_source: str
    libraries: bool
    lacking: tuple[str, ...]
    headers: bool
    headers_known: bool
    wheels: frozenset[int]
    frameworks: tuple[Framework, ...]

    def wheels_of(self, major: int) -> bool:
        """Whether wheels bring the CUDA of a major."""
        return major in self.wheels


def cuda_sources(target: BuildTarget) -> CudaSources:
    """Finds the CUDA of a target."""
    base = target.base
    packages = [entry.name for entry in target.system]
    conda = any(entry.manager is Manager.CONDA and _is_conda_cuda(entry.name) for entry in target.installs)
    cuda, source = base.cuda, base.text
    for entry in target.system:
        match = _VERSIONED.fullmatch(entry.name)
        if match is not None and cuda is None:
            cuda, source = CudaVersion(int(match[1]), int(match[2])), entry.text
    for other in target.copied:
        if other.cuda is not None and cuda is None:
            cuda, source = other.cuda, other.text
    for entry in target.installs:
        pinned = _of_conda(entry) if cuda is None and entry.manager is Manager.CONDA else None
        if pinned is not None:
            cuda, source = pinned, f"conda's {entry.text}"
    images = (base, *target.copied)
    parts = {match[1] for name in packages if (match := _PART.fullmatch(name))}
    whole = any(map(_brings_libraries, images)) or conda or any(_has_libraries(name) for name in packages)
    beside = frameworks(target)
    return CudaSources(
        cuda=cuda,
        cuda_source=source,
        libraries=whole or parts == set(_PARTS),
        lacking=tuple(name for name in _PARTS if name not in parts) if parts and not whole else (),
        headers=any(map(_brings_headers, images)) or conda or any(map(_WITH_HEADERS.fullmatch, packages)),
        headers_known=_tells_of_headers(target, packages),
        wheels=frozenset({*_wheels(target), *(entry.cuda_major for entry in beside)}),
        frameworks=beside,
    )


def _tells_of_headers(target: BuildTarget, packages: Iterable[str]) -> bool:
    """Whether base and packages tell if there are headers; copies from other images do not."""
    plain = target.base.plain and not target.copied and not any(map(_is_dev, packages))
    return plain or target.base.flavour in (Flavour.RUNTIME, Flavour.BASE)


def _is_dev(name: str) -> bool:
    """A development package of another part of CUDA, of which it is not known what else it needs."""
    return _VERSIONED.fullmatch(name) is not None and "-dev" in name


def _brings_libraries(base: BaseImage) -> bool:
    return base.flavour in (Flavour.RUNTIME, Flavour.DEVEL) or _is_open(base)


def _brings_headers(base: BaseImage) -> bool:
    return base.flavour is Flavour.DEVEL or _is_open(base)


def _is_open(base: BaseImage) -> bool:
    """Whether its name does not tell what of CUDA it has."""
    return not base.plain and base.flavour is None


def _has_libraries(name: str) -> bool:
    return name in _OF_DISTRIBUTION or _WITH_LIBRARIES.fullmatch(name) is not None


def _is_conda_cuda(name: str) -> bool:
    return name in _CONDA_BRINGING or (name.startswith("cuda") and name != "cuda-python")


def _of_conda(entry: Install) -> CudaVersion | None:
    """The CUDA that a package of conda's pins: ``cuda-version=12.9``, ``cudatoolkit=11.8``."""
    texts = [each.version for each in entry.specifier or () if each.operator == "=="]
    match = re.match(r"(\d{1,3})\.(\d{1,3})(?!\d)", texts[0]) if entry.name in _OF_CONDA and len(texts) == 1 else None
    return CudaVersion(int(match[1]), int(match[2])) if match else None


def conda_major(target: BuildTarget) -> int | None:
    """The CUDA major that conda's packages pin without a minor: ``cuda-version=13``; none where they pin none."""
    entries = (entry for entry in target.installs if entry.manager is Manager.CONDA and entry.name == _OF_CONDA[0])
    pinned = [each.version for entry in entries for each in entry.specifier or () if each.operator == "=="]
    majors = {parse_integer(text.removesuffix(".*")) for text in pinned}
    return next(iter(majors)) if len(majors) == 1 else None


def _wheels(target: BuildTarget) -> set[int]:
    """The majors of CUDA that wheels of NVIDIA's own, and CuPy's extra, bring."""
    majors: set[int] = set()
    for entry in target.installs:
        match = _WHEEL.fullmatch(entry.name) if entry.manager is Manager.PIP else None
        if match is not None:
            version = entry.exact or next((each.version for each in entry.specifier or ()), "")
            major = parse_integer(match[1] or version.partition(".")[0])
            majors.add(_newest_major(target.matrix) if major is None else major)
        line = next((row for row in target.matrix.wheel_lines if row.name == entry.name), None)
        if line is not None and any(extra in entry.extras for extra in _BRINGING):
            fitting = [row for row in line.releases if entry.specifier is None or entry.specifier.contains(row.cupy)]
            if any(set(row.extras) & entry.extras for row in fitting):
                majors.add(line.cuda_major)
    return majors


def _newest_major(matrix: Matrix) -> int:
    return max(row.major for row in matrix.cuda_majors)
