"""The rows of the compatibility matrix. Every row names its source: a binary that was measured or a document."""

# Annotations are no texts here: the compiled matrix is read by them at every start.

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gpuenv.matrix.packages import Advisory, Companion, CondaBuild, Image, RocmLine, WheelLine
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc

SCHEMA = "gpuenv.matrix/1"


class SourceKind(str, Enum):
    """How a fact was established."""

    BINARY = "binary"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class MatrixSource:
    """A binary (``file`` and ``sha256``) or a document (``title`` and ``section``), and when it was read.

    Attributes:
        kind: a binary or a document.
        seen: when it was read, ISO 8601.
        title: the document's title.
        section: and its section.
        file: the binary's file name.
        sha256: its digest.
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
    also: Mapping[str, str] = field(default_factory=dict)

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


@dataclass(frozen=True, slots=True)
class DriverBranch:
    """A driver branch.

    Attributes:
        branch: its number.
        cuda: the CUDA level that its libcuda reports.
        source: of the level.
        first: its first known release on Linux.
        state: how it is supported; null where no document says.
        until: month in which its support ends or ended.
        state_source: of the state.
    """

    branch: int
    cuda: CudaVersion
    source: str
    first: DriverVersion | None = None
    state: BranchState | None = None
    until: str | None = None
    state_source: str | None = None


@dataclass(frozen=True, slots=True)
class CudaMajor:
    """A CUDA major version: the oldest driver on which minor-version compatibility lets its programs run."""

    major: int
    linux: DriverVersion
    windows: DriverVersion
    source: str


@dataclass(frozen=True, slots=True)
class CudaMinor:
    """A CUDA minor version.

    Attributes:
        cuda: the version.
        linux: the driver released with it on Linux; null where none is documented.
        windows: likewise on Windows.
        capabilities: the set of compute capabilities that its NVRTC compiles for.
        ptx: the PTX version that its NVRTC writes.
        toolkit_wheels: whether the metapackage cuda-toolkit exists in this minor.
        soname: of its NVRTC on Linux.
        builtins: soname of the library that this NVRTC loads, which has to be of the very minor.
        libc: the oldest C library that its NVRTC wheel for Linux x86_64 accepts.
        cudart: the lowest CUDA level of a driver that its cudart accepts; null: not measured.
        driver_source: source of the drivers.
        source: source of the rest.
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


@dataclass(frozen=True, slots=True)
class Generation:
    """GPUs that entered and left driver support together.

    Attributes:
        name: as NVIDIA calls it.
        capabilities: their compute capabilities.
        source: where this was read.
        first_branch: the first driver branch that knows them; null where it is older than the matrix.
        last_branch: the last one; null while support goes on.
    """

    name: str
    capabilities: tuple[ComputeCapability, ...]
    source: str
    first_branch: int | None = None
    last_branch: int | None = None


@dataclass(frozen=True, slots=True)
class Product:
    """A GPU product by the names it is known under, and its PCI device ids.

    Attributes:
        name: as NVIDIA sells it.
        compute_capability: of the GPU.
        source: where this was read.
        aliases: further names, such as those that people use.
        pci: device ids, four hexadecimal digits.
    """

    name: str
    compute_capability: ComputeCapability
    source: str
    aliases: tuple[str, ...] = ()
    pci: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Peak:
    """What a product does at most, without sparsity, as its data sheet says.

    Attributes:
        names: as the driver names it.
        memory: of its memory, in GB/s (10^9 bytes).
        source: where this was read.
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


@dataclass(frozen=True, slots=True)
class NgcRelease:
    """A monthly release of one of NVIDIA's framework images, whose tag names no CUDA.

    Attributes:
        image: the last part of its name below nvcr.io/nvidia, such as ``pytorch``.
        release: as its tags begin: 25.12.
        cuda: the CUDA that it is based on.
        source: where this was read.
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
        driver_branches: of the driver.
        cuda_majors: of CUDA.
        cuda_minors: of CUDA.
        generations: of GPUs.
        wheel_lines: of CuPy for CUDA.
        products: GPUs by name.
        older_products: those that no CuPy runs on any more.
        conda_builds: of CuPy.
        images: container images.
        companions: packages that bring CUDA libraries.
        advisories: combinations that are known to be bad.
        rocm_lines: of CuPy for AMD GPUs.
        peaks: what products do at most.
        ngc_releases: of NVIDIA's framework images.
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
