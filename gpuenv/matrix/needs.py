"""What the resolver must know of a machine, taken out of its Snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from gpuenv.matrix.products import branch_of, capability_by_name, product_by_pci
from gpuenv.matrix.ranges import in_range, within
from gpuenv.matrix.tables import Advisory, Matrix
from gpuenv.model.gpus import gpu_is_absent, is_tegra
from gpuenv.model.nvidia import NVIDIA, Cuda, Nvml, cuda_major_of_wheel
from gpuenv.model.reading import ASSUMED
from gpuenv.model.snapshot import Gpu, LibraryOrigin, Module, PciGpu, Snapshot, SourceState, Toolkit
from gpuenv.model.strings import pattern
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion

# The CUDA wheels that CuPy itself loads or compiles with (the DT_NEEDED entries of its modules, NVRTC and the headers).
_LOADED = pattern(r"nvidia-(?:cuda-nvrtc|cuda-runtime|cublas|cufft|curand|cusolver|cusparse)(?:-cu\d\d)?")
_LOCAL = pattern(r"cu(\d\d)(\d)")


class CudaPackages(NamedTuple):
    """A distribution of the target that brings CUDA libraries, or needs those of one major.

    Attributes:
        source: who says so: its metadata, or a row.
        is_library: whether it is itself one of the CUDA libraries.
        cuda: the minor that it pins, where it pins one.
        cupy: the versions of CuPy that it asks for.
    """

    distribution: str
    version: str
    cuda_major: int
    source: str
    is_library: bool
    cuda: CudaVersion | None = None
    cupy: str | None = None


def cuda_packages(packages: Mapping[str, str], matrix: Matrix) -> tuple[CudaPackages, ...]:
    """Every such distribution of the target, as far as the matrix or its own name and version tell."""
    found = (_cuda_packages_of(name, version, matrix) for name, version in packages.items())
    return tuple(sorted((entry for entry in found if entry is not None), key=lambda entry: entry.distribution))


def _cuda_packages_of(name: str, version: str, matrix: Matrix) -> CudaPackages | None:
    if _LOADED.fullmatch(name):
        major = cuda_major_of_wheel(name, version)
        return None if major is None else CudaPackages(name, version, major, "its name and version", is_library=True)
    build = version.partition("+")[2]
    local = _LOCAL.fullmatch(build)
    if local and any(row.distribution == name for row in matrix.companions):
        cuda = CudaVersion(int(local[1]), int(local[2]))
        return CudaPackages(name, version, cuda.major, "the build in its version", is_library=False, cuda=cuda)
    rows = [] if build else [row for row in matrix.companions if row.distribution == name]
    row = next((row for row in rows if in_range(version, row.versions)), None)
    if row is None:
        return None
    source = matrix.cite(row.source)
    return CudaPackages(name, version, row.cuda_major, source, is_library=False, cuda=row.cuda, cupy=row.cupy)


@lru_cache(maxsize=1024)
def advisories_for(cupy: str, matrix: Matrix) -> tuple[Advisory, ...]:
    """What is known to be bad of a CuPy release."""
    return tuple(row for row in matrix.advisories if within(cupy, row.cupy))


_REFUSED = (Cuda.SYSTEM_DRIVER_MISMATCH, Cuda.COMPAT_NOT_SUPPORTED_ON_DEVICE)
_MOST_COMMON = ("linux", "x86_64")
_BRACKETS = pattern(r"\[([^\]]+)\]$")


class NeededGpu(NamedTuple):
    """A GPU that the choice must serve; ``driven`` is one that the driver itself lists."""

    label: str
    compute_capability: ComputeCapability | None
    driven: bool = False


class Needs(NamedTuple):
    """The facts behind a choice; None is unknown.

    Attributes:
        platform: ``linux-x86_64`` and the like, as the matrix spells it; where one half alone is known, with the most
            common other half.
        platform_assumed: the fact behind that other half, and what it is taken for; None where both are known.
        numpy: version in the target; None for none, too.
        driver: version of the driver; of the one to come, where it only waits for a restart.
        driver_absent: no driver is there, which is not the same as unknown.
        driver_cuda: the CUDA level of the libcuda in use.
        forward_compatible: the libcuda in use is newer than the kernel module's driver.
        windows: driver numbers are those of Windows, also under WSL.
        gpus: every GPU that CUDA programs see; those on the PCI bus where no driver lists any.
        gpus_absent: it is assumed that there is no GPU; where none was seen, one may still come, as to a container.
        gpus_not_there: wherever a GPU would show itself was looked, and there is none.
        toolkits: CUDA toolkits on the host.
        packages: the distributions of the target, other than CuPy.
        brings: those that bring CUDA libraries.
        cupy: the distributions of CuPy that are in the target.
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
    packages: Mapping[str, str]
    brings: tuple[CudaPackages, ...]
    cupy: tuple[str, ...]

    @property
    def likely_platform(self) -> str:
        """The platform; the most common one where nothing is known of it."""
        return self.platform or "-".join(_MOST_COMMON)

    @property
    def without_gpu(self) -> bool:
        """Whether there is no GPU, by what was read or assumed; not whether none is known."""
        return self.gpus_absent or self.gpus_not_there

    @property
    def gpus_label(self) -> str:
        """Every GPU by its name, once."""
        none = "no GPU" if self.without_gpu else "no known GPU"
        return ", ".join(dict.fromkeys(gpu.label for gpu in self.gpus)) or none

    @property
    def container_platform(self) -> str:
        """The platform inside a container: Linux, on whatever system the engine runs."""
        return _spelt("linux", self.likely_platform.partition("-")[2])


def needs_of(snapshot: Snapshot, matrix: Matrix) -> Needs:
    """The needs of a machine and its target."""
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
        packages=target.packages,
        brings=cuda_packages(target.packages, matrix),
        cupy=tuple(dict.fromkeys(entry.distribution for entry in target.cupy)),
    )


def driver_absent(snapshot: Snapshot) -> bool:
    """Whether there is no driver, as far as every source can tell; not whether none was seen."""
    driver = snapshot.driver
    if "driver.version" in snapshot.assumed:
        return not driver.version.known
    if driver.module.value is Module.LOADED or "driver.cuda" in snapshot.assumed:
        return False
    # What nvidia-smi alone says is no driver: the real one needs both libraries.
    return all(snapshot.source(name).state is SourceState.ABSENT for name in ("nvml", "libcuda"))


def compat_in_use(snapshot: Snapshot, matrix: Matrix) -> bool:
    """Whether a cuda-compat libcuda is loaded: by its folder, or by a level above that of the driver's branch."""
    driver = snapshot.driver
    if "/compat/" in (driver.cuda_library.value or ""):
        return True
    if driver.version.value is None or driver.cuda.value is None or driver.cuda.source != "libcuda":
        return False
    # The very branch: a driver between two known ones (JetPack's 540) may have more than the older one's level.
    branch = driver.version.value.branch
    return any(row.branch == branch and row.cuda < driver.cuda.value for row in matrix.driver_branches)


def driver_to_come(snapshot: Snapshot, matrix: Matrix) -> DriverVersion | None:
    """The version to decide for: that of the libraries, where a restart is all that they wait for.

    In a container they are no measure: there the host's module stays, and its libraries are put in their place.
    """
    driver = snapshot.driver
    waits = not snapshot.host.contained and versions_differ(snapshot, matrix)
    return (driver.library_version.value if waits else None) or driver.version.value


def versions_differ(snapshot: Snapshot, matrix: Matrix) -> bool:
    """Whether NVML or CUDA says that the kernel module and the libraries are of different versions."""
    driver = snapshot.driver
    if driver.nvml_init.value == Nvml.LIB_RM_VERSION_MISMATCH:
        return True
    if driver.cuda_init.value != Cuda.SYSTEM_DRIVER_MISMATCH:
        return False
    of_the_system = driver.cuda_origin.value is LibraryOrigin.SYSTEM and not snapshot.host.contained
    return of_the_system or not compat_in_use(snapshot, matrix)


def cuda_of_branch(driver: DriverVersion, matrix: Matrix) -> CudaVersion | None:
    """The CUDA level of a driver's branch; None for one that is newer than the matrix."""
    branch = branch_of(driver, matrix)
    return next((row.cuda for row in matrix.driver_branches if row.branch == branch), None)


def visible_gpus(snapshot: Snapshot) -> tuple[Gpu, ...]:
    """The GPUs that CUDA programs see here; all of them where libcuda could not be asked."""
    seen = tuple(gpu for gpu in snapshot.gpus if gpu.ordinal.known)
    return seen or snapshot.gpus


def _level(snapshot: Snapshot, matrix: Matrix) -> CudaVersion | None:
    """The CUDA level to count on: that of the branch where no libcuda tells, or the one in use refuses to start."""
    driver = snapshot.driver
    level = driver.cuda.value if driver.cuda_init.value not in _REFUSED else None
    version = driver_to_come(snapshot, matrix)
    return cuda_of_branch(version, matrix) if level is None and version is not None else level


def _platform(os: str | None, arch: str | None) -> tuple[str | None, tuple[str, str] | None]:
    """The platform, and what of it is assumed."""
    if os is None and arch is None:
        return None, ("host.os and host.arch", "-".join(_MOST_COMMON))
    if os is None or arch is None:
        common_os, common_arch = _MOST_COMMON
        assumed = ("host.os", common_os) if os is None else ("host.arch", common_arch)
        return _spelt(os or common_os, arch or common_arch), assumed
    return _spelt(os, arch), None


def _spelt(os: str, arch: str) -> str:
    arch = {"amd64": "x86_64", "x64": "x86_64"}.get(arch.lower(), arch.lower())
    if os == "windows" and arch == "aarch64":
        arch = "arm64"
    if os == "linux" and arch == "arm64":
        arch = "aarch64"
    return f"{os}-{arch}"


def gpu_on_bus(device: PciGpu, matrix: Matrix) -> NeededGpu:
    """A GPU of the PCI bus: by its id, else by the product that the list of ids has in brackets."""
    product = product_by_pci(device.device, matrix)
    if product is not None:
        return NeededGpu(f"{product.name} at {device.pci}", product.compute_capability)
    name = _BRACKETS.search(device.name or "")
    capability = capability_by_name(name[1], matrix) if name else None
    return NeededGpu(f"{device.name or 'NVIDIA ' + device.device} at {device.pci}", capability)


def gpu_listed(gpu: Gpu, matrix: Matrix) -> NeededGpu:
    """A GPU that a source lists: by its own word, else by its name."""
    name = gpu.name.value
    capability = gpu.compute_capability.value
    if capability is None and name is not None:
        capability = capability_by_name(name, matrix)
    label = name or gpu.pci.value or "the GPU"
    driven = gpu.name.source in ("nvml", "libcuda")
    return NeededGpu(f"{label} ({capability})" if capability else label, capability, driven)
