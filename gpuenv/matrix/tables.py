"""Tables of the compatibility matrix. Every row cites its source: a measured binary or a document."""

# No postponed annotations: every start decodes the compiled matrix with them. Defining a named tuple takes a tenth of
# the time of a dataclass.

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion


class Platform(NamedTuple):
    """A platform with wheels.

    Attributes:
        tag: the platform tag in the files' names.
        libc: the oldest C library that the wheels support.
        libstdcxx: the newest symbol version of the C++ library that they need, as 3.4.19. Null: none, or not measured.
        without: ABI tags of the release that this platform lacks.
        sass: GPU code embedded in the wheel, as capabilities; ``10.0f`` runs on its whole family. Null: not measured.
        ptx: embedded PTX, which a driver no older than the CUDA it was built with compiles for later GPUs.
        gfx: targets of the code for AMD GPUs. Null: not measured.
        hip: soname of the required HIP runtime.
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
    """An extra that provides CUDA: the requirement it adds and the oldest C library that this supports."""

    requirement: str
    libc: Libc | None = None


class Release(NamedTuple):
    """One CuPy version of a wheel line.

    Attributes:
        pythons: ABI tags, such as cp312 and cp314t.
        platforms: by ``linux-x86_64``, ``linux-aarch64``, ``windows-x86_64`` and so on.
        numpy: the NumPy range in its metadata.
        requires_python: the Python range in its metadata.
        extras: extras that provide CUDA libraries.
        yanked: the reason if it was yanked; null otherwise.
        nvrtc_caps: the highest capability that this CuPy requests, from each NVRTC minor on. Null: not measured.
        caps_as_text: whether this CuPy compares the caps as text, so that they have no effect from 10.0 on.
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
        first_cuda: the first supported minor version.
        last_cuda: the last supported minor version; null: all later ones of the major.
    """

    name: str
    cuda_major: int
    first_cuda: CudaVersion
    source: str
    releases: tuple[Release, ...]
    last_cuda: CudaVersion | None = None

    def serves(self, cuda: CudaVersion) -> bool:
        """Whether the line supports a CUDA version."""
        is_in_span = cuda >= self.first_cuda and (self.last_cuda is None or cuda <= self.last_cuda)
        return cuda.major == self.cuda_major and is_in_span


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
        numpy: the range in its recipe.
        libc: the oldest C library that its compilers target.
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
    """The part of CUDA in an image."""

    BASE = "base"
    RUNTIME = "runtime"
    DEVEL = "devel"


class Image(NamedTuple):
    """A container image and the drivers that its NVIDIA_REQUIRE_CUDA admits.

    Attributes:
        cuda: its CUDA version; admits drivers of this level or above.
        flavour: ``base`` and ``runtime`` have no headers.
        branches: driver branches admitted below that level, through the image's cuda-compat package.
        brands: GPU brands that this is restricted to.
        platforms: as in a release of a wheel line.
        digest: of its manifest; null if no registry was queried.
        line: the installed wheel line of a CuPy image.
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
    """A package that provides its own CUDA libraries in an environment with CuPy.

    Attributes:
        versions: the versions that this applies to, as a range.
        cuda_major: the CUDA major version that it is built for.
        source: the file with the metadata.
        cuda: the minor version that it pins, if any.
        pins: its CUDA requirements as in its metadata.
        cupy: the CuPy versions that it requires; null without a requirement.
    """

    distribution: str
    versions: str
    cuda_major: int
    source: str
    cuda: CudaVersion | None = None
    pins: tuple[str, ...] = ()
    cupy: str | None = None


class Advisory(NamedTuple):
    """A known bad combination.

    Attributes:
        cupy: the affected CuPy versions, as a range.
        package: another package without which it does not apply.
        cuda: a CUDA version without which it does not apply.
        mended_by: the CuPy version that fixes it.
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
        note: further information.
        also: further files read for the row, with their sha256.
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
        """The citation in one line."""
        if self.kind is SourceKind.BINARY:
            return f"{self.file} (sha256 {(self.sha256 or '')[:12]})"
        return f"{self.title}, {self.section}" if self.section else str(self.title)


SOURCE_KEYS = ("source", "driver_source", "state_source", "toolkit_source")
"""The fields of rows that name a source."""


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
        state: its support status; null if undocumented.
        until: month in which its support ends.
    """

    branch: int
    cuda: CudaVersion
    source: str
    first: DriverVersion | None = None
    state: BranchState | None = None
    until: str | None = None
    state_source: str | None = None


class CudaMajor(NamedTuple):
    """A CUDA major version and the oldest drivers for minor-version compatibility."""

    major: int
    linux: DriverVersion
    windows: DriverVersion
    source: str


class CudaMinor(NamedTuple):
    """A CUDA minor version.

    Attributes:
        linux: the driver released with it on Linux; null if undocumented.
        windows: the driver released with it on Windows.
        capabilities: the set of compute capabilities that its NVRTC compiles for.
        ptx: the PTX version that its NVRTC writes.
        toolkit_wheels: whether the metapackage cuda-toolkit has this minor version.
        soname: of its NVRTC on Linux.
        builtins: soname of the library that this NVRTC loads, which must have the same minor version.
        libc: the oldest C library that its NVRTC wheel for Linux x86_64 supports.
        toolkit_libc: the oldest one that all wheels of its toolkit that CuPy loads support. Null: not measured.
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
    toolkit_libc: Libc | None = None
    cudart: CudaVersion | None = None
    driver_source: str | None = None
    toolkit_source: str | None = None


class Generation(NamedTuple):
    """GPUs with the same range of driver support.

    Attributes:
        first_branch: the first driver branch that supports them; null if older than the matrix.
        last_branch: the last one; null while supported.
    """

    name: str
    capabilities: tuple[ComputeCapability, ...]
    source: str
    first_branch: int | None = None
    last_branch: int | None = None

    def wants(self, branch: int) -> str | None:
        """Returns the required driver branch as text; None if this one is supported."""
        if self.last_branch is not None and branch > self.last_branch:
            return f"branch {self.last_branch} or older"
        if self.first_branch is not None and branch < self.first_branch:
            return f"branch {self.first_branch} or newer"
        return None


class Product(NamedTuple):
    """A GPU product with its names and PCI device ids.

    Attributes:
        aliases: further names in common use.
        pci: device ids, four hexadecimal digits.
    """

    name: str
    compute_capability: ComputeCapability
    source: str
    aliases: tuple[str, ...] = ()
    pci: tuple[str, ...] = ()


class AmdProduct(NamedTuple):
    """A GPU of AMD and the target that compilers make code for, such as ``gfx942``."""

    name: str
    gfx: str
    source: str


class Peak(NamedTuple):
    """Theoretical peaks of a product without sparsity, from its data sheet.

    Attributes:
        names: as reported by the driver.
        memory: of its memory, in GB/s (10^9 bytes).
        f16: matrix product in half precision with single-precision sums, in TFLOP/s (10^12).
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
    """A monthly release of NVIDIA's framework images, whose tags do not name their CUDA.

    Attributes:
        release: prefix of the tags: 25.12.
        cuda: the CUDA that they are based on.
        images: their names below nvcr.io/nvidia, such as ``pytorch``.
        python: their Python; null if undocumented.
    """

    release: str
    cuda: CudaVersion
    images: tuple[str, ...]
    source: str
    python: PythonVersion | None = None


class BaseImageKind(str, Enum):
    """What a base image is for.

    ``nvidia`` is nvidia/cuda itself, ``on-nvidia`` an image made from it, ``plain`` one without CUDA.
    """

    PLAIN = "plain"
    NVIDIA = "nvidia"
    ON_NVIDIA = "on-nvidia"
    TEGRA = "tegra"
    ROCM = "rocm"


class BaseImageRule(NamedTuple):
    """Facts in the name of a base image; for each fact, the first rule that contains it decides.

    Attributes:
        pattern: a regular expression for the whole of ``NAME:TAG``. Its groups ``cuda`` (12.4, 12-4, 124), ``flavour``
            and ``python`` (3.11, 311) are facts; ``image`` and ``release`` name a row of ngc_releases.
        cuda: the CUDA of every image that the pattern matches.
        flavour: the flavour of each of them.
        python: the Python of each of them.
    """

    pattern: str
    source: str
    kind: BaseImageKind | None = None
    cuda: CudaVersion | None = None
    flavour: Flavour | None = None
    python: PythonVersion | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """The compatibility matrix; compares by identity, so that results can be cached.

    Attributes:
        schema: name and major version of the format.
        revision: date of the last change, ISO 8601.
        sources: by the name that rows cite.
        older_products: those that no CuPy supports.
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
    base_images: tuple[BaseImageRule, ...] = ()
    older_products: tuple[Product, ...] = ()
    amd_products: tuple[AmdProduct, ...] = ()

    def cite(self, source: str) -> str:
        """Returns the citation of a row's source."""
        return self.sources[source].citation
