"""What the kernel's files and the file system said: typed, and nothing more than they said."""

# Annotations are no texts here: what the children say is read by them at every start.

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuenv.model.snapshot import CdiFile, DeviceNode, DkmsBuild, PciGpu


@dataclass(frozen=True, slots=True)
class KernelModules:
    """Kernel modules; null is what could not be seen."""

    nvidia_loaded: bool | None = None
    nouveau_loaded: bool | None = None
    module_installed: bool | None = None


@dataclass(frozen=True, slots=True)
class Uname:
    """The kernel's own names."""

    os: str | None = None
    kernel: str | None = None
    arch: str | None = None


@dataclass(frozen=True, slots=True)
class RawTegra:
    """The release line of a Jetson's root file system, or its board, or its kernel; and who told it."""

    told: str
    source: str


@dataclass(frozen=True, slots=True)
class DriverGpu:
    """A GPU in the list of the kernel module."""

    name: str | None = None
    uuid: str | None = None
    pci: str | None = None


@dataclass(frozen=True, slots=True)
class RawToolkit:
    """A CUDA toolkit's folder.

    Attributes:
        path: the folder.
        found_via: how it was found.
        toolkit: its version by the most trusted of its files.
        source: that file.
        others: what its other files say, the most trusted first.
        nvcc: whether its compiler may be run.
        has_nvrtc: whether NVRTC lies in it.
        has_headers: whether the headers of the CUDA runtime lie in it.
    """

    path: str
    found_via: str
    toolkit: str | None = None
    source: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    nvcc: bool = False
    has_nvrtc: bool = False
    has_headers: bool = False


@dataclass(frozen=True, slots=True)
class RawLibrary:
    """A file of libcuda or libnvidia-ml; ``mounted`` tells whether it is a mount, where the mounts are to be seen."""

    path: str
    mounted: bool | None = None


@dataclass(frozen=True, slots=True)
class AmdNode:
    """A node of AMD's compute driver, in the kernel's own numbers; the memory in bytes."""

    node: int
    name: str | None = None
    properties: Mapping[str, int] = field(default_factory=dict)
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class RawLog:
    """Lines of the kernel's log, the newest last, or why there are none to be had."""

    source: str | None = None
    lines: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RawRules:
    """The control group's rules for NVIDIA's devices, or why they are not to be had."""

    rules: tuple[str, ...] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RawEngine:
    """Where Docker's program is, and what its configuration says."""

    program: str | None = None
    configured: bool = False
    runtimes: tuple[str, ...] | None = None
    default_runtime: str | None = None


@dataclass(frozen=True, slots=True)
class RawContainerToolkit:
    """The NVIDIA container toolkit: whether its program is there, and the package's release."""

    there: bool = False
    release: str | None = None


@dataclass(frozen=True, slots=True)
class RawMps:
    """Where clients of MPS look for its daemon, whether the caller said so, and whether it has left its pipe there."""

    folder: str
    told: bool = False
    daemon: bool = False


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What the kernel's files and the file system say; null is what could not be seen, or what they do not say.

    ``kernel.py`` lists the files behind each fact. Sizes are in bytes.

    Attributes:
        uname: the kernel's own names.
        distribution: ``debian 12``, from os-release.
        container: what contains this process, as ``model.host.Container`` names it.
        wsl: whether this is the Windows Subsystem for Linux.
        tegra: what says that this is a Jetson.
        modules: which of the modules are loaded or installed.
        sys_version: the loaded module's version, from ``/sys/module/nvidia/version``.
        proc_version: likewise from the banner in ``/proc/driver/nvidia/version``.
        pci_gpus: display and 3D controllers on the PCI bus.
        device_nodes: NVIDIA's nodes in ``/dev``.
        driver_gpus: the module's own list.
        toolkits: the CUDA toolkits.
        pointing_nowhere: CUDA_PATH and CUDA_HOME, where they name a folder that is not there.
        sandbox: ``gvisor`` where that kernel stands in for Linux.
        secure_boot: whether the firmware lets signed kernels alone start.
        lockdown: the kernel's lockdown mode.
        module_signatures: whether the kernel refuses modules without a valid signature.
        suspends: how often it has gone to sleep since its start.
        image: ``ostree`` where the root is an image of that kind.
        dkms: the builds of the driver's module that DKMS knows.
        module_files: the driver's modules of other kernels, below their names, where the running kernel has none.
        module_blocks: what keeps the module from being loaded.
        libraries: the files of libcuda and libnvidia-ml where the loader may find them.
        amd_nodes: the nodes of AMD's compute driver.
        rocm: ROCm's release, by what told it.
        device_rules: the control group's rules for NVIDIA's devices.
        cdi_files: the descriptions of devices for container engines.
        engine: what Docker's configuration says.
        container_toolkit: the NVIDIA container toolkit.
        mounted_requests: the GPUs that a container asks for by mounts instead of a variable.
        mps: NVIDIA's Multi-Process Service.
        kernel_log: the lines of the kernel's log that concern the driver.
    """

    uname: Uname = Uname()
    distribution: str | None = None
    container: str | None = None
    wsl: bool | None = None
    tegra: RawTegra | None = None
    modules: KernelModules | None = None
    sys_version: str | None = None
    proc_version: str | None = None
    pci_gpus: tuple[PciGpu, ...] | None = None
    device_nodes: tuple[DeviceNode, ...] = ()
    driver_gpus: tuple[DriverGpu, ...] = ()
    toolkits: tuple[RawToolkit, ...] = ()
    pointing_nowhere: tuple[str, ...] = ()
    sandbox: str | None = None
    secure_boot: bool | None = None
    lockdown: str | None = None
    module_signatures: bool | None = None
    suspends: int | None = None
    image: str | None = None
    dkms: tuple[DkmsBuild, ...] = ()
    module_files: tuple[str, ...] | None = None
    module_blocks: tuple[str, ...] | None = None
    libraries: tuple[RawLibrary, ...] = ()
    amd_nodes: tuple[AmdNode, ...] = ()
    rocm: Mapping[str, str] = field(default_factory=dict)
    device_rules: RawRules | None = None
    cdi_files: tuple[CdiFile, ...] = ()
    engine: RawEngine | None = None
    container_toolkit: RawContainerToolkit | None = None
    mounted_requests: tuple[str, ...] = ()
    mps: RawMps | None = None
    kernel_log: RawLog | None = None
