"""The argument of the rules for images: the contents of an image, and a machine with its GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gpuenv.image import labels
from gpuenv.image.inspect.history import last_cupy
from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.image.inspect.nvidia_require import HostFacts
from gpuenv.image.reference import ImageReferenceError, parse_reference
from gpuenv.matrix.needs import Needs, compat_in_use, cuda_of_branch, needs_of
from gpuenv.matrix.tables import Flavour, Matrix
from gpuenv.model.finding import Evidence
from gpuenv.model.snapshot import Gpu, Snapshot
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion

T = TypeVar("T")
# The brands of a GPU by the beginning of its name after "NVIDIA", for a GPU without a brand from NVML. The brand of a
# data-centre GPU depends on the branch of the driver: a Tesla T4 is of brand NVIDIA in the nvidia-smi -q of
# nvidia-container-toolkit, issue 188 (read 2026-11-21). Names that are not known to be a data-centre GPU's (T400, GB10,
# P106-100) have none: an assumption of either kind would decide too much.
_BRANDS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"GeForce"), ("geforce", "geforcertx")),
    (re.compile(r"TITAN", re.IGNORECASE), ("titan", "titanrtx")),
    (re.compile(r"Quadro RTX"), ("quadrortx", "quadro")),
    (re.compile(r"Quadro"), ("quadro",)),
    (re.compile(r"Tesla"), ("tesla", "nvidia")),
    (re.compile(r"RTX (?:A\d|PRO |\d{4} Ada|\d{4} SFF Ada)"), ("nvidiartx", "quadrortx")),
    (re.compile(r"(?!P10\d-)(?:(?:[ABHKLMPV]\d{1,3}|G[BH]\d{3})[A-Z]?|T4G?)\b(?!-\d+[A-Z]$)"), ("tesla", "nvidia")),
)
_VENDOR = re.compile(r"^NVIDIA\s+", re.IGNORECASE)
# Variables that NVIDIA's Dockerfiles of the flavours set: container-images/cuda, dist/11.4.1, 11.7.1 and 12.6.3, devel,
# as public Dockerfiles that were made from them repeat them (read 2026-11-21).
_DEVEL, _RUNTIME = "NV_CUDA_CUDART_DEV_VERSION", ("NV_CUDA_LIB_VERSION", "NV_LIBCUBLAS_VERSION")
_DEVEL_ALSO = ("NV_NVML_DEV_VERSION", "NV_LIBCUBLAS_DEV_VERSION", "NV_LIBNPP_DEV_VERSION")
_CUDA_LABEL = "com.nvidia.cuda.version"
_COMPAT_VARIABLES = ("_CUDA_COMPAT_PATH", "NV_CUDA_COMPAT_PACKAGE", "NV_CUDA_COMPAT_VERSION")
# Frameworks that use a GPU if there is one, and packages of CUDA.
_SOFTWARE = re.compile(
    r"(?<![\w-])(?:torch|tensorflow|jax|cupy|cudf|cuml|vllm|deepspeed|onnxruntime-gpu|nvidia-cuda-[\w-]+|"
    r"cuda(?:-?toolkit|-runtime|-libraries|-nvcc)[\w-]*)(?![\w-])"
)
_ALPINE = "alpine-minirootfs-"  # the archive in the first step of the official image; apk alone is Wolfi's too
MAINTAINER = "cudatools@nvidia.com"


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of an image, from its metadata; null if unknown.

    Attributes:
        cuda_source: the variable, the label or the source of the matrix's row that has it.
        flavour: the part of CUDA in the image.
        bundled: whether CuPy's own CUDA is installed from wheels.
        uncertain: whether CuPy may be missing, since a condition installs it.
        compat: whether the forward-compatibility libraries are there.
        rocm: the variable that marks an image for AMD GPUs.
        tegra: the variable that marks an image for Tegra.
        for_gpus: whether the metadata mark an image for NVIDIA GPUs.
        software: GPU software with an unknown CUDA.
    """

    cuda: CudaVersion | None = None
    cuda_source: str = ""
    flavour: Flavour | None = None
    line: str | None = None
    cupy: str | None = None
    bundled: bool = False
    uncertain: bool = False
    compat: bool | None = None
    rocm: str | None = None
    tegra: str | None = None
    for_gpus: bool = False
    software: str | None = None
    musl: bool = False

    @property
    def uses_gpu(self) -> bool:
        """Whether the image is known to use a GPU."""
        return self.for_gpus or self.software is not None or self.rocm is not None


@dataclass(frozen=True, slots=True)
class HostGpu:
    """A GPU; the label is its name and compute capability.

    ``facts`` are those that requirements name, once for each brand that it may have; ``listed`` is whether the driver
    lists it.
    """

    label: str
    compute_capability: ComputeCapability | None
    facts: tuple[HostFacts, ...]
    brand_source: str = ""
    listed: bool = False

    @property
    def brands(self) -> tuple[str, ...]:
        """The possible brands; empty if unknown."""
        return tuple(entry.brand for entry in self.facts if entry.brand is not None)

    @property
    def brand(self) -> str:
        """The brands as text."""
        return " or ".join(self.brands) or "unknown"


@dataclass(frozen=True, slots=True)
class RuleContext:
    """The argument of a rule: an image and a machine.

    The GPUs are all of the machine's, including those hidden from this process; ``level`` is the CUDA level of the
    driver itself, not of a compatibility package.
    """

    image: ImageFacts
    contents: Contents
    snapshot: Snapshot
    needs: Needs
    gpus: tuple[HostGpu, ...]
    driver: DriverVersion | None
    level: CudaVersion | None
    matrix: Matrix

    @property
    def host(self) -> HostFacts:
        """The facts of the machine that requirements name, without a GPU."""
        return HostFacts(*(None if value is None else str(value) for value in (self.level, self.driver)))

    @property
    def driver_text(self) -> str:
        """The driver as text: ``driver 550.54.15 (CUDA 12.4)``."""
        return f"driver {self.driver or 'unknown'}" + (f" (CUDA {self.level})" if self.level else "")

    @property
    def gpu_evidence(self) -> tuple[Evidence, ...]:
        """Each kind of GPU once."""
        return tuple(dict.fromkeys(Evidence("gpus[]", gpu.label, "") for gpu in self.gpus))


def make_rule_context(image: ImageFacts, snapshot: Snapshot, matrix: Matrix) -> RuleContext:
    """The context for an image on a machine."""
    needs = needs_of(snapshot, matrix)
    driver, level = snapshot.driver.version.value, needs.driver_cuda
    if driver is not None and compat_in_use(snapshot, matrix):
        level = cuda_of_branch(driver, matrix)
    ctx = RuleContext(image, contents_of(image, matrix), snapshot, needs, (), driver, level, matrix)
    gpus = tuple(_host_gpu(gpu, ctx.host) for gpu in snapshot.gpus) or tuple(
        HostGpu(gpu.label, gpu.compute_capability, _facts(ctx.host, gpu.compute_capability)) for gpu in needs.gpus
    )
    return replace(ctx, gpus=gpus)


def _host_gpu(gpu: Gpu, host: HostFacts) -> HostGpu:
    capability = gpu.compute_capability.value
    brands, source = brands_of(gpu)
    name = gpu.name.value or gpu.pci.value or "the GPU"
    label = f"{name} ({capability})" if capability else name
    return HostGpu(label, capability, _facts(host, capability, brands), source, gpu.name.source in ("nvml", "libcuda"))


def _facts(host: HostFacts, capability: ComputeCapability | None, brands: Sequence[str] = ()) -> tuple[HostFacts, ...]:
    arch = str(capability) if capability else None
    return tuple(replace(host, arch=arch, brand=brand) for brand in brands or (None,))


def brands_of(gpu: Gpu) -> tuple[tuple[str, ...], str]:
    """The possible brands of a GPU, and their source: NVML, else the product's name."""
    if gpu.brand.value is not None:
        return (gpu.brand.value,), gpu.brand.source or ""
    product = _VENDOR.sub("", gpu.name.value or "")
    found = next((brands for pattern, brands in _BRANDS if pattern.match(product)), ())
    return found, "its name" if found else ""


def contents_of(image: ImageFacts, matrix: Matrix) -> Contents:
    """The contents of an image, from its variables, labels, history and name."""
    name = _image_name(image)
    row = next((row for row in matrix.images if row.reference == name), None)
    cuda, source = _cuda(image)
    if cuda is None and row is not None:
        cuda, source = row.cuda, matrix.cite(row.source)
    line = image.labels.get(labels.LINE) or (row.line if row else None)
    cupy = image.labels.get(labels.CUPY) or (row.cupy if row else None)
    installed = None if line else last_cupy(image.history)
    if installed is not None:
        line, cupy = installed.line, installed.release
    named = any(name.startswith("NVIDIA_") for name in image.environment)
    return Contents(
        cuda=cuda,
        cuda_source=source,
        flavour=_flavour(image) or (row.flavour if row else None),
        line=line,
        cupy=cupy,
        bundled=installed is not None and installed.bundled,
        uncertain=installed is not None and installed.uncertain,
        compat=_compat(image),
        rocm=_first_set(image, "ROCM_VERSION", "ROCM_PATH", "ROCM_HOME"),
        tegra=_first_set(image, "L4T_VERSION", "NVIDIA_REQUIRE_JETPACK"),
        for_gpus=cuda is not None or line is not None or named,
        software=_software(image),
        musl=_is_alpine(name, image.history),
    )


def _first_set(image: ImageFacts, *names: str) -> str | None:
    """The first of these variables that the image sets."""
    return next((name for name in names if name in image.environment), None)


def _software(image: ImageFacts) -> str | None:
    """A framework that a Dockerfile installs, or GPU software in a step of the history."""
    matches = (match[0] for step in image.history if (match := _SOFTWARE.search(step)))
    return next(iter((*image.frameworks, *matches)), None)


def _image_name(image: ImageFacts) -> str:
    """Name and tag of an image; empty for a file, and for an invalid name in a FROM."""
    if image.source not in ("registry", "engine", "dockerfile"):
        return ""
    try:
        reference = parse_reference(image.reference)
    except ImageReferenceError:
        return ""
    return f"{reference.familiar}:{reference.tag or 'latest'}"


def _is_alpine(name: str, history: tuple[str, ...]) -> bool:
    in_name = name.startswith("alpine:") or "alpine" in name.rpartition(":")[2]
    return in_name or any(_ALPINE in step for step in history)


def _cuda(image: ImageFacts) -> tuple[CudaVersion | None, str]:
    """The CUDA of an image: by gpuenv's own label or the base's variables, before a label that may be outdated.

    Images of NGC with cuBLAS 13.3 have com.nvidia.cuda.version=9.0 (docker inspect in public, read November 2026).
    """
    environment = image.environment
    carried = "CUDA" if image.source == "dockerfile" else f"label {_CUDA_LABEL}"
    candidates = (
        (f"label {labels.CUDA}", image.labels.get(labels.CUDA)),
        ("CUDA_VERSION", environment.get("CUDA_VERSION")),
        (carried, image.labels.get(_CUDA_LABEL)),
        ("NV_CUDA_CUDART_VERSION", environment.get("NV_CUDA_CUDART_VERSION", "").partition("-")[0]),
    )
    versions = ((parse_or_none(CudaVersion.parse, text), name) for name, text in candidates)
    return next(((version, name) for version, name in versions if version is not None), (None, ""))


def parse_or_none(parse: Callable[[str], T], text: str | None) -> T | None:
    """Parses an untrusted version; None if it is invalid."""
    try:
        return parse(text) if text else None
    except ValueError:
        return None


def _flavour(image: ImageFacts) -> Flavour | None:
    environment = image.environment
    if _DEVEL in environment or any(name in environment for name in _DEVEL_ALSO):
        return Flavour.DEVEL
    if any(name in environment for name in _RUNTIME):
        return Flavour.RUNTIME
    return Flavour.BASE if "NV_CUDA_CUDART_VERSION" in environment else None


def _compat(image: ImageFacts) -> bool | None:
    if any(name in image.environment for name in _COMPAT_VARIABLES):
        return True
    if any("cuda-compat-" in step for step in image.history):
        return True
    # Images of nvidia/cuda have the package, also where no variable says so: container-images/cuda, base Dockerfile of
    # dist/12.6.3 as repeated in public (read 2026-11-21), and those that the matrix cites.
    if MAINTAINER in image.labels.get("maintainer", "") and "CUDA_VERSION" in image.environment:
        return True
    return None if "CUDA_VERSION" in image.environment else False
