"""The rows of the compatibility matrix. Every row names its source: a binary that was measured or a document."""

# Annotations are no texts here: the compiled matrix is read by them at every start. A named tuple takes a tenth of the
# time of a dataclass to define.

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc


class Platform(NamedTuple):
    """A platform that has wheels.

    Attributes:
        tag: the platform tag in the files' names.
        libc: the oldest C library that the wheels accept.
        libstdcxx: the newest symbol version of the C++ library that they need, as 3.4.19. Null: none, or not measured.
        without: ABI tags that the release has, but not here.
        sass: GPU code embedded in the wheel, as capabilities; ``10.0f`` runs on its whole family. Null: not measured.
        ptx: embedded PTX, which a driver no older than the CUDA it was built with compiles for later GPUs.
        gfx: targets of the code for AMD GPUs. Null: not measured.
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


class Extra(NamedTuple):
    """An extra that brings CUDA: the requirement it adds and the oldest C library that this accepts."""

    requirement: str
    libc: Libc | None = None


class Release(NamedTuple):
    """One CuPy version of a wheel line.

    Attributes:
        pythons: ABI tags, such as cp312 and cp314t.
        platforms: by ``linux-x86_64``, ``linux-aarch64``, ``windows-x86_64`` and so on.
        numpy: the range of NumPy that its metadata asks for.
        requires_python: the range of Python that its metadata asks for.
        extras: extras that bring CUDA libraries.
        yanked: why it was withdrawn; null when it was not.
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
    extras: Mapping[str, Extra] = {}
    yanked: str | None = None
    uploaded: str | None = None
    nvrtc_caps: Mapping[str, ComputeCapability] | None = None
    caps_as_text: bool = False
    built_with: CudaVersion | None = None


class WheelLine(NamedTuple):
    """A distribution of CuPy for a CUDA major version, or for some of its minors.

    Attributes:
        name: ``cupy-cuda12x``.
        first_cuda: the first minor that it serves.
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


class RocmLine(NamedTuple):
    """A distribution for AMD GPUs, built for one ROCm."""

    name: str
    rocm: str
    source: str
    releases: tuple[Release, ...]


class CondaBuild(NamedTuple):
    """A release of CuPy on a conda channel, built with one CUDA and running on every minor of its major.

    Attributes:
        cuda: the CUDA version it was built with.
        platforms: as in a release of a wheel line.
        numpy: the range that its recipe asks for.
        libc: the oldest C library that its compilers build for.
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


class Image(NamedTuple):
    """A container image, and the drivers that its own condition (NVIDIA_REQUIRE_CUDA) admits.

    Attributes:
        cuda: the CUDA version in it; a driver of this level or above is admitted.
        flavour: ``base`` and ``runtime`` have no headers.
        branches: driver branches that are admitted below that level, through the cuda-compat package inside.
        brands: brands of GPUs to which that is restricted.
        platforms: as in a release of a wheel line.
        digest: of its manifest; null where no registry was asked.
        line: the wheel line that is installed in it, for an image of CuPy.
        cupy: its version.
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


class Companion(NamedTuple):
    """A package that brings CUDA libraries of its own into the environment that it shares with CuPy.

    Attributes:
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


class Advisory(NamedTuple):
    """A combination that is known to be bad.

    Attributes:
        cupy: the versions of CuPy that have the fault, as a range.
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


SCHEMA = "gpuenv.matrix/1"


class SourceKind(str, Enum):
    """How a fact was established."""

    BINARY = "binary"
    DOCUMENT = "document"


class MatrixSource(NamedTuple):
    """A binary (``file`` and ``sha256``) or a document (``title`` and ``section``), and when it was read.

    Attributes:
        kind: a binary or a document.
        seen: when it was read, ISO 8601.
        note: what else a reader should know.
        also: further files that were read for the row, each with its sha256.
    """

    kind: SourceKind
    seen: str
    title: str | None = None
    section: str | None = None
    file: str | None = None
    sha256: str | None = None
    note: str | None = None
    also: Mapping[str, str] = {}

    @property
    def citation(self) -> str:
        """One line that lets a reader find it."""
        if self.kind is SourceKind.BINARY:
            return f"{self.file} (sha256 {(self.sha256 or '')[:12]})"
        return f"{self.title}, {self.section}" if self.section else str(self.title)


class BranchState(str, Enum):
    """How NVIDIA supports a driver branch."""

    LONG_TERM = "long-term"
    PRODUCTION = "production"
    NEW_FEATURE = "new-feature"
    ENDED = "ended"


class DriverBranch(NamedTuple):
    """A driver branch.

    Attributes:
        cuda: the CUDA level that its libcuda reports.
        first: its first known release on Linux.
        state: how it is supported; null where no document says.
        until: month in which its support ends or ended.
    """

    branch: int
    cuda: CudaVersion
    source: str
    first: DriverVersion | None = None
    state: BranchState | None = None
    until: str | None = None
    state_source: str | None = None


class CudaMajor(NamedTuple):
    """A CUDA major version: the oldest driver on which minor-version compatibility lets its programs run."""

    major: int
    linux: DriverVersion
    windows: DriverVersion
    source: str


class CudaMinor(NamedTuple):
    """A CUDA minor version.

    Attributes:
        linux: the driver released with it on Linux; null where none is documented.
        windows: the driver released with it on Windows.
        capabilities: the set of compute capabilities that its NVRTC compiles for.
        ptx: the PTX version that its NVRTC writes.
        toolkit_wheels: whether the metapackage cuda-toolkit exists in this minor.
        soname: of its NVRTC on Linux.
        builtins: soname of the library that this NVRTC loads, which has to be of the very minor.
        libc: the oldest C library that its NVRTC wheel for Linux x86_64 accepts.
        cudart: the lowest CUDA level of a driver that its cudart accepts; null: not measured.
    """

    cuda: CudaVersion
    capabilities: tuple[ComputeCapability, ...]
    source: str
    linux: DriverVersion | None = None
    windows: DriverVersion | None = None
    ptx: str | None = None
    toolkit_wheels: bool = False
    soname: str | None = None
    builtins: str | None = None
    libc: Libc | None = None
    cudart: CudaVersion | None = None
    driver_source: str | None = None


class Generation(NamedTuple):
    """GPUs that entered and left driver support together.

    Attributes:
        first_branch: the first driver branch that knows them; null where it is older than the matrix.
        last_branch: the last one; null while support goes on.
    """

    name: str
    capabilities: tuple[ComputeCapability, ...]
    source: str
    first_branch: int | None = None
    last_branch: int | None = None


class Product(NamedTuple):
    """A GPU product by the names it is known under, and its PCI device ids.

    Attributes:
        aliases: further names, such as those that people use.
        pci: device ids, four hexadecimal digits.
    """

    name: str
    compute_capability: ComputeCapability
    source: str
    aliases: tuple[str, ...] = ()
    pci: tuple[str, ...] = ()


class Peak(NamedTuple):
    """What a product does at most, without sparsity, as its data sheet says.

    Attributes:
        names: as the driver names it.
        memory: of its memory, in GB/s (10^9 bytes).
        f16: matrix product in half precision with sums in single, in TFLOP/s (10^12).
        f32: in single precision without TF32.
        f64: in double precision.
    """

    names: tuple[str, ...]
    memory: float
    source: str
    f16: float | None = None
    f32: float | None = None
    f64: float | None = None


class NgcRelease(NamedTuple):
    """A monthly release of one of NVIDIA's framework images, whose tag names no CUDA.

    Attributes:
        image: the last part of its name below nvcr.io/nvidia, such as ``pytorch``.
        release: as its tags begin: 25.12.
        cuda: the CUDA that it is based on.
    """

    image: str
    release: str
    cuda: CudaVersion
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """The whole matrix; the same one only if it is the very same record, so that what follows from it can be kept.

    Attributes:
        schema: name and major version of the form.
        revision: the day of the last change, ISO 8601.
        sources: by the name under which rows cite them.
        older_products: those that no CuPy runs on any more.
    """

    schema: str
    revision: str
    sources: Mapping[str, MatrixSource]
    driver_branches: tuple[DriverBranch, ...]
    cuda_majors: tuple[CudaMajor, ...]
    cuda_minors: tuple[CudaMinor, ...]
    generations: tuple[Generation, ...]
    wheel_lines: tuple[WheelLine, ...]
    products: tuple[Product, ...]
    conda_builds: tuple[CondaBuild, ...] = ()
    images: tuple[Image, ...] = ()
    companions: tuple[Companion, ...] = ()
    advisories: tuple[Advisory, ...] = ()
    rocm_lines: tuple[RocmLine, ...] = ()
    peaks: tuple[Peak, ...] = ()
    ngc_releases: tuple[NgcRelease, ...] = ()
    older_products: tuple[Product, ...] = ()

    def cite(self, source: str) -> str:
        """The citation behind a row's source."""
        return self.sources[source].citation
