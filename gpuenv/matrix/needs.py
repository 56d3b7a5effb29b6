"""Extracts the facts that the resolver needs from a Snapshot; it reads nothing else of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from gpuenv.matrix.companions import CudaPackage, cuda_packages, unneeded_libraries
from gpuenv.matrix.products import branch_of, capability_by_name, product_by_pci
from gpuenv.matrix.ranges import within
from gpuenv.matrix.tables import Advisory, Matrix
from gpuenv.model.gpus import gpu_is_absent, is_tegra
from gpuenv.model.nvidia import AMD, NVIDIA, Cuda, Nvml
from gpuenv.model.reading import ASSUMED
from gpuenv.model.snapshot import Gpu, LibraryOrigin, Module, PciGpu, Snapshot, SourceState, Toolkit
from gpuenv.model.strings import pattern
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion


@lru_cache(maxsize=1024)
def advisories_for(cupy: str, matrix: Matrix) -> tuple[Advisory, ...]:
    """Returns the advisories for a CuPy release."""
    return tuple(row for row in matrix.advisories if within(cupy, row.cupy))


_REFUSED = (Cuda.SYSTEM_DRIVER_MISMATCH, Cuda.COMPAT_NOT_SUPPORTED_ON_DEVICE)
_COMPAT = pattern(r"/(?:cuda-)?compat/")  # conda-forge's package cuda-compat has a folder of its name
_MOST_COMMON = ("linux", "x86_64")
_CONSUMER = {"GeForce": "geforce", "TITAN": "titan"}  # by words in the product name
_BRACKETS = pattern(r"\[([^\]]+)\]$")


class NeededGpu(NamedTuple):
    """A GPU that the choice must support; ``driven`` if the driver lists it."""

    label: str
    compute_capability: ComputeCapability | None
    driven: bool = False


class AmdHost(NamedTuple):
    """The AMD GPUs of a machine: their names, known targets, and the ROCm release."""

    names: str
    targets: tuple[str, ...]
    all_known: bool
    rocm: str | None


@dataclass(frozen=True)
class Needs:
    """The facts behind a choice; None is unknown.

    Machines with equal needs have equal resolutions.

    Attributes:
        platform: ``linux-x86_64`` and so on, as in the matrix; if only one half is known, with the most common other
            half.
        platform_assumed: the fact of that other half and its assumed value; None if both are known.
        numpy: version in the target; None also if not installed.
        driver: version of the driver, or of the one that only needs a reboot.
        driver_absent: whether no driver is installed, as opposed to unknown.
        driver_cuda: the CUDA level of the libcuda in use.
        forward_compatible: whether the libcuda in use is newer than the kernel module's driver.
        windows: whether driver numbers are those of Windows, also under WSL.
        gpus: the GPUs visible to CUDA programs; those on the PCI bus if no driver lists any.
        gpus_absent: whether the absence of GPUs is assumed; otherwise one may appear later, as in a container.
        gpus_not_there: whether every source that would show a GPU was read and shows none.
        toolkits: CUDA toolkits on the host.
        packages: the distributions of the target that advisories of the matrix name.
        brings: those that provide CUDA libraries.
        unneeded: CUDA wheels that only CuPy needs, if anything, and the CUDA major of each.
        cupy: the CuPy distributions of the target, each with its release.
        amd: its AMD GPUs, if any.
        assumed: paths of the facts that the caller assumed.
    """

    platform: str | None
    platform_assumed: tuple[str, str] | None
    libc: Libc | None
    python: PythonVersion | None
    implementation: str | None
    numpy: str | None
    driver: DriverVersion | None
    driver_absent: bool
    driver_cuda: CudaVersion | None
    forward_compatible: bool
    windows: bool
    tegra: bool
    gpus: tuple[NeededGpu, ...]
    gpus_absent: bool
    gpus_not_there: bool
    toolkits: tuple[Toolkit, ...]
    packages: frozenset[str]
    brings: tuple[CudaPackage, ...]
    unneeded: tuple[tuple[str, int], ...]
    cupy: tuple[tuple[str, str], ...]
    amd: AmdHost | None
    assumed: tuple[str, ...]

    @cached_property
    def likely_platform(self) -> str:
        """The platform, by default the most common one."""
        return self.platform or "-".join(_MOST_COMMON)

    @property
    def without_gpu(self) -> bool:
        """Whether there is certainly no GPU, as read or assumed."""
        return self.gpus_absent or self.gpus_not_there

    @property
    def driver_label(self) -> str:
        """``driver 580.65.06 (CUDA 13.0)``."""
        level = f" (CUDA {self.driver_cuda})" if self.driver_cuda else ""
        return "no driver" if self.driver_absent else f"driver {self.driver or 'unknown'}{level}"

    @cached_property
    def gpus_label(self) -> str:
        """The distinct names of the GPUs."""
        none = "no GPU" if self.without_gpu else "no known GPU"
        return ", ".join(dict.fromkeys(gpu.label for gpu in self.gpus)) or none

    @cached_property
    def capabilities(self) -> frozenset[ComputeCapability]:
        """Those of the GPUs, as far as known."""
        return frozenset(gpu.compute_capability for gpu in self.gpus if gpu.compute_capability)

    @cached_property
    def brands(self) -> frozenset[str]:
        """The consumer brands among the GPUs, in the words of NVIDIA_REQUIRE_CUDA."""
        return frozenset(brand for gpu in self.gpus for word, brand in _CONSUMER.items() if word in gpu.label)

    @cached_property
    def container_platform(self) -> str:
        """The platform inside a container: Linux on any host system."""
        return _platform_name("linux", self.likely_platform.partition("-")[2])


def needs_of(snapshot: Snapshot, matrix: Matrix) -> Needs:
    """Returns the needs of a machine and its target."""
    host, target = snapshot.host, snapshot.target
    platform, assumed = _platform(host.os.value, host.arch.value or ("aarch64" if is_tegra(snapshot) else None))
    return Needs(
        platform=platform,
        platform_assumed=assumed,
        libc=host.libc.value,
        python=target.python.value,
        implementation=target.implementation.value,
        numpy=target.numpy.value,
        driver=driver_to_come(snapshot, matrix),
        driver_absent=driver_absent(snapshot),
        driver_cuda=_level(snapshot, matrix),
        # A newer libcuda works with an older kernel module.
        forward_compatible=compat_in_use(snapshot, matrix)
        and snapshot.driver.cuda_init.value not in _REFUSED
        and not versions_differ(snapshot, matrix),
        windows=host.os.value == "windows" or bool(host.wsl.value),
        tegra=is_tegra(snapshot),
        gpus=(
            tuple(gpu_listed(gpu, matrix) for gpu in visible_gpus(snapshot))
            or tuple(gpu_on_bus(device, matrix) for device in snapshot.pci_gpus or () if device.vendor == NVIDIA)
        ),
        gpus_absent=snapshot.gpu_count.value == 0 and snapshot.gpu_count.source == ASSUMED,
        gpus_not_there=gpu_is_absent(snapshot),
        toolkits=tuple(kit for kit in snapshot.toolkits if not kit.in_target),
        packages=frozenset(row.package for row in matrix.advisories if row.package and row.package in target.packages),
        brings=cuda_packages(snapshot, matrix),
        unneeded=tuple(unneeded_libraries(snapshot).items()),
        cupy=tuple((entry.distribution, entry.release) for entry in target.cupy),
        amd=_amd_host(snapshot),
        assumed=snapshot.assumed,
    )


def _amd_host(snapshot: Snapshot) -> AmdHost | None:
    on_bus = [gpu for gpu in snapshot.pci_gpus or () if gpu.vendor == AMD]
    if not on_bus and not snapshot.amd_gpus:
        return None
    nodes = snapshot.amd_gpus
    named = [f"{gpu.name or 'an AMD GPU'} ({gpu.gfx})" for gpu in nodes if gpu.gfx]
    named = named or [gpu.name or f"AMD {gpu.device}" for gpu in on_bus] or ["an AMD GPU"]
    targets = tuple(dict.fromkeys(gpu.gfx for gpu in nodes if gpu.gfx))
    all_known = bool(nodes) and len(nodes) >= len(on_bus) and all(gpu.gfx for gpu in nodes)
    return AmdHost(", ".join(dict.fromkeys(named)), targets, all_known, snapshot.rocm.value)


def driver_absent(snapshot: Snapshot) -> bool:
    """Whether every source reports the driver as absent."""
    driver = snapshot.driver
    if "driver.version" in snapshot.assumed:
        return not driver.version.known
    if driver.module.value is Module.LOADED or "driver.cuda" in snapshot.assumed:
        return False
    # nvidia-smi alone does not count: a real driver needs both libraries.
    return all(snapshot.source(name).state is SourceState.ABSENT for name in ("nvml", "libcuda"))


def compat_in_use(snapshot: Snapshot, matrix: Matrix) -> bool:
    """Whether a cuda-compat libcuda is loaded, by its folder or by a level above that of the driver branch."""
    driver = snapshot.driver
    if _COMPAT.search(driver.cuda_library.value or ""):
        return True
    if driver.version.value is None or driver.cuda.value is None or driver.cuda.source != "libcuda":
        return False
    # Only the exact branch: a driver between two known ones (JetPack's 540) may exceed the level of the older one.
    branch = driver.version.value.branch
    return any(row.branch == branch and row.cuda < driver.cuda.value for row in matrix.driver_branches)


def driver_to_come(snapshot: Snapshot, matrix: Matrix) -> DriverVersion | None:
    """Returns the version to decide for: that of the libraries if the driver only needs a reboot.

    Not in a container, where the host's module stays and its libraries replace those of the image.
    """
    driver = snapshot.driver
    needs_reboot = not snapshot.host.contained and versions_differ(snapshot, matrix)
    return (driver.library_version.value if needs_reboot else None) or driver.version.value


def versions_differ(snapshot: Snapshot, matrix: Matrix) -> bool:
    """Whether NVML or CUDA reports different versions of the kernel module and the libraries."""
    driver = snapshot.driver
    if driver.nvml_init.value == Nvml.LIB_RM_VERSION_MISMATCH:
        return True
    if driver.cuda_init.value != Cuda.SYSTEM_DRIVER_MISMATCH:
        return False
    is_system = driver.cuda_origin.value is LibraryOrigin.SYSTEM and not snapshot.host.contained
    return is_system or not compat_in_use(snapshot, matrix)


def cuda_of_branch(driver: DriverVersion, matrix: Matrix) -> CudaVersion | None:
    """Returns the CUDA level of a driver's branch; None if it is newer than the matrix."""
    branch = branch_of(driver, matrix)
    return next((row.cuda for row in matrix.driver_branches if row.branch == branch), None)


def visible_gpus(snapshot: Snapshot) -> tuple[Gpu, ...]:
    """Returns the GPUs visible to CUDA programs; all GPUs if libcuda did not answer."""
    return tuple(gpu for gpu in snapshot.gpus if gpu.ordinal.known) or snapshot.gpus


def _level(snapshot: Snapshot, matrix: Matrix) -> CudaVersion | None:
    """Returns the effective CUDA level: that of the branch if libcuda is silent or refuses to start."""
    driver = snapshot.driver
    level = driver.cuda.value if driver.cuda_init.value not in _REFUSED else None
    version = driver_to_come(snapshot, matrix)
    return cuda_of_branch(version, matrix) if level is None and version is not None else level


def _platform(os: str | None, arch: str | None) -> tuple[str | None, tuple[str, str] | None]:
    """Returns the platform and its assumed part."""
    common_os, common_arch = _MOST_COMMON
    if os is None and arch is None:
        return None, ("host.os and host.arch", f"{common_os}-{common_arch}")
    name = _platform_name(os or common_os, arch or common_arch)
    if os is None:
        return name, ("host.os", common_os)
    return name, ("host.arch", common_arch) if arch is None else None


def _platform_name(os: str, arch: str) -> str:
    arch = {"amd64": "x86_64", "x64": "x86_64"}.get(arch.lower(), arch.lower())
    if os == "windows" and arch == "aarch64":
        arch = "arm64"
    if os == "linux" and arch == "arm64":
        arch = "aarch64"
    return f"{os}-{arch}"


def gpu_on_bus(device: PciGpu, matrix: Matrix) -> NeededGpu:
    """Returns a GPU of the PCI bus, identified by its id, else by the product in brackets in the list of ids."""
    product = product_by_pci(device.device, matrix)
    if product is not None:
        return NeededGpu(f"{product.name} at {device.pci}", product.compute_capability)
    name = _BRACKETS.search(device.name or "")
    capability = capability_by_name(name[1], matrix) if name else None
    return NeededGpu(f"{device.name or 'NVIDIA ' + device.device} at {device.pci}", capability)


def gpu_listed(gpu: Gpu, matrix: Matrix) -> NeededGpu:
    """Returns a listed GPU, with its reported compute capability or that of its name."""
    name = gpu.name.value
    capability = gpu.compute_capability.value
    if capability is None and name is not None:
        capability = capability_by_name(name, matrix)
    label = name or gpu.pci.value or "the GPU"
    driven = gpu.name.source in ("nvml", "libcuda")
    return NeededGpu(f"{label} ({capability})" if capability else label, capability, driven)
