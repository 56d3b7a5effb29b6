"""The rows of the matrix about what can be installed: wheels, conda builds, images, and what they meet."""

# Annotations are no texts here: the compiled matrix is read by them at every start.

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gpuenv.model.versions import ComputeCapability, CudaVersion, Libc


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform that has wheels.

    Attributes:
        tag: the platform tag in the files' names.
        libc: the oldest C library that the wheels accept.
        libstdcxx: the newest symbol version of the C++ library that they need, as 3.4.19. Null: none, or not measured.
        without: ABI tags that the release has, but not here.
        sass: GPU code embedded in the wheel, as capabilities; ``10.0f`` runs on its whole family. Null: not measured.
        ptx: embedded PTX, which a driver no older than the CUDA it was built with compiles for later GPUs.
        gfx: likewise the targets of code for AMD GPUs. Null: not measured.
        hip: soname of the HIP runtime that is needed.
    """

    tag: str
    libc: Libc | None = None
    libstdcxx: str | None = None
    without: tuple[str, ...] = ()
    sass: tuple[str, ...] | None = None
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] | None = None
    hip: str | None = None


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra that brings CUDA: the requirement it adds and the oldest C library that this accepts."""

    requirement: str
    libc: Libc | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """One CuPy version of a wheel line.

    Attributes:
        cupy: the version.
        pythons: ABI tags, such as cp312 and cp314t.
        platforms: by ``linux-x86_64``, ``linux-aarch64``, ``windows-x86_64`` and so on.
        numpy: the range of NumPy that its metadata asks for.
        source: where this was read.
        requires_python: the range of Python that its metadata asks for.
        extras: extras that bring CUDA libraries.
        yanked: why it was withdrawn; null when it was not.
        uploaded: date.
        nvrtc_caps: the highest capability that this CuPy asks NVRTC for, from each NVRTC minor on. Null: not measured.
        caps_as_text: whether this CuPy compares the caps as text, so that they never hold from 10.0 on.
        built_with: the CUDA version it was compiled with. Null: not measured.
    """

    cupy: str
    pythons: tuple[str, ...]
    platforms: Mapping[str, Platform]
    numpy: str
    source: str
    requires_python: str | None = None
    extras: Mapping[str, Extra] = field(default_factory=dict)
    yanked: str | None = None
    uploaded: str | None = None
    nvrtc_caps: Mapping[str, ComputeCapability] | None = None
    caps_as_text: bool = False
    built_with: CudaVersion | None = None


@dataclass(frozen=True, slots=True)
class WheelLine:
    """A distribution of CuPy for a CUDA major version, or for some of its minors.

    Attributes:
        name: ``cupy-cuda12x``.
        cuda_major: the major version.
        first_cuda: the first minor that it serves.
        source: where this was read.
        releases: its versions.
        last_cuda: the last minor that it serves; null: every later one of the major.
    """

    name: str
    cuda_major: int
    first_cuda: CudaVersion
    source: str
    releases: tuple[Release, ...]
    last_cuda: CudaVersion | None = None

    def serves(self, cuda: CudaVersion) -> bool:
        """Whether a CUDA version is of this line."""
        return in_span(cuda, self.cuda_major, self.first_cuda, self.last_cuda)


def in_span(cuda: CudaVersion, major: int, first: CudaVersion, last: CudaVersion | None) -> bool:
    """Whether a CUDA version is of a major, from its first minor on, to a last one where there is one."""
    return cuda.major == major and cuda >= first and (last is None or cuda <= last)


@dataclass(frozen=True, slots=True)
class RocmLine:
    """A distribution for AMD GPUs, built for one ROCm."""

    name: str
    rocm: str
    source: str
    releases: tuple[Release, ...]


@dataclass(frozen=True, slots=True)
class CondaBuild:
    """A release of CuPy on a conda channel, built with one CUDA and running on every minor of its major.

    Attributes:
        cupy: the version.
        cuda: the CUDA version it was built with.
        pythons: ABI tags.
        platforms: as in a release of a wheel line.
        numpy: the range that its recipe asks for.
        libc: the oldest C library that its compilers build for.
        source: where this was read.
        channel: the channel.
    """

    cupy: str
    cuda: CudaVersion
    pythons: tuple[str, ...]
    platforms: tuple[str, ...]
    numpy: str
    libc: Libc
    source: str
    channel: str = "conda-forge"


class Flavour(str, Enum):
    """What an image holds of CUDA."""

    BASE = "base"
    RUNTIME = "runtime"
    DEVEL = "devel"


@dataclass(frozen=True, slots=True)
class Image:
    """A container image, and the drivers that its own condition (NVIDIA_REQUIRE_CUDA) admits.

    Attributes:
        reference: with its tag.
        cuda: the CUDA version in it; a driver of this level or above is admitted.
        flavour: ``base`` and ``runtime`` have no headers.
        branches: driver branches that are admitted below that level, through the cuda-compat package inside.
        brands: brands of GPUs to which that is restricted.
        platforms: as in a release of a wheel line.
        source: where this was read.
        digest: of its manifest; null where no registry was asked.
        line: the wheel line that is installed in it, for an image of CuPy.
        cupy: likewise the version.
    """

    reference: str
    cuda: CudaVersion
    flavour: Flavour
    branches: tuple[int, ...]
    brands: tuple[str, ...]
    platforms: tuple[str, ...]
    source: str
    digest: str | None = None
    line: str | None = None
    cupy: str | None = None


@dataclass(frozen=True, slots=True)
class Companion:
    """A package that brings CUDA libraries of its own into the environment that it shares with CuPy.

    Attributes:
        distribution: its canonical name.
        versions: the versions that this was read from, as a range.
        cuda_major: the CUDA major version that it is built for.
        source: the file whose metadata says so.
        cuda: the minor that it pins, where it pins one.
        pins: what it requires of CUDA, as its metadata says it.
        cupy: the CuPy versions that it asks for; null where it asks for none.
    """

    distribution: str
    versions: str
    cuda_major: int
    source: str
    cuda: CudaVersion | None = None
    pins: tuple[str, ...] = ()
    cupy: str | None = None


@dataclass(frozen=True, slots=True)
class Advisory:
    """A combination that is known to be bad.

    Attributes:
        name: a slug.
        date: when it was reported.
        cupy: the versions of CuPy that have the fault, as a range.
        text: what goes wrong.
        source: who says so.
        package: another package that must be there for it to matter.
        cuda: a CUDA version that must be in use for it to matter.
        mended_by: the version of CuPy that mends it.
    """

    name: str
    date: str
    cupy: str
    text: str
    source: str
    package: str | None = None
    cuda: CudaVersion | None = None
    mended_by: str | None = None
