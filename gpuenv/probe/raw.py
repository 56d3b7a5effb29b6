"""What each source said, before anything is settled: typed, and nothing more than it said."""

# Annotations are no texts here: what the children say is read by them at every start.

from collections.abc import Mapping
from dataclasses import field

from gpuenv.model.record import dataclass
from gpuenv.model.snapshot import CdiFile, DeviceNode, DkmsBuild, PciGpu, Source
from gpuenv.probe.raw_target import FileFacts, LibraryFacts, TargetFacts


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
    """What Docker's configuration says."""

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
    """What the kernel's files and the file system say."""

    uname: Uname = Uname()
    distribution: str | None = None
    container: str | None = None
    wsl: bool | None = None
    tegra: str | None = None
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
    dkms: tuple[DkmsBuild, ...] = ()
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


@dataclass(frozen=True, slots=True)
class RawMigInstance:
    """A MIG instance as NVML lists it."""

    uuid: str
    name: str | None = None
    memory_total: int | None = None


@dataclass(frozen=True, slots=True)
class RawUser:
    """A compute process as NVML lists it; memory in bytes."""

    pid: int
    name: str | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class NvmlGpu:
    """A GPU as NVML describes it, in NVML's own numbers (power in watts).

    Attributes:
        memory: total and free, bytes.
        minor: the number in ``/dev/nvidia0``.
        ecc: now, and after the next restart.
        pages_single: pages retired for repeated single-bit errors.
        pages_double: pages retired for a double-bit error.
        rows: remapped for corrected and uncorrected errors, whether one is pending, whether one failed.
        nvlinks: number and state of each link.
        fabric: state of the registration, and its status.
        peers: of each other GPU its index, the nearest common ancestor and the status of reading its memory.
        failures: the return code of each function that failed.
        remarks: in words, why a function gave no answer though it did not fail.
    """

    index: int
    uuid: str | None = None
    name: str | None = None
    pci: str | None = None
    compute_capability: str | None = None
    memory: tuple[int, ...] | None = None
    mig: bool | None = None
    mig_instances: tuple[RawMigInstance, ...] = ()
    compute_mode: int | None = None
    architecture: int | None = None
    brand: int | None = None
    minor: int | None = None
    persistence: bool | None = None
    ecc: tuple[bool, ...] | None = None
    ecc_corrected: int | None = None
    ecc_corrected_ever: int | None = None
    ecc_uncorrected: int | None = None
    ecc_uncorrected_ever: int | None = None
    pages_single: int | None = None
    pages_double: int | None = None
    pages_pending: bool | None = None
    rows: tuple[int, ...] | None = None
    temperature: int | None = None
    power: float | None = None
    power_limit: float | None = None
    clock: int | None = None
    clock_most: int | None = None
    throttle_reasons: int | None = None
    pcie_generation: int | None = None
    pcie_generation_most: int | None = None
    pcie_width: int | None = None
    pcie_width_most: int | None = None
    processes: int | None = None
    users: tuple[RawUser, ...] = ()
    virtualization: int | None = None
    nvlinks: tuple[tuple[int, ...], ...] = ()
    fabric: tuple[int, ...] | None = None
    peers: tuple[tuple[int | None, ...], ...] = ()
    failures: Mapping[str, int] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NvmlFacts:
    """What NVML says.

    Attributes:
        cuda: the C interface's number, 12040 for 12.4.
        asking: the call in hand when it last spoke.
        peers_took: seconds that the links between the GPUs took to ask.
        failures: the return code of each function that failed and is about no GPU.
        remarks: in words, why such a function gave no answer though it did not fail.
    """

    init: int | None = None
    message: str | None = None
    library: str | None = None
    driver_version: str | None = None
    cuda: int | None = None
    count: int | None = None
    asking: str | None = None
    peers_took: float | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[NvmlGpu, ...] = ()


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A CUDA device as this process sees it."""

    ordinal: int
    name: str | None = None
    pci: str | None = None
    uuid: str | None = None
    compute_capability: str | None = None
    memory_total: int | None = None


@dataclass(frozen=True, slots=True)
class CudaFacts:
    """What libcuda says.

    Attributes:
        cuda: the C interface's number, 12040 for 12.4.
        asking: the call in hand when it last spoke.
    """

    absent: str | None = None
    unloadable: str | None = None
    library: str | None = None
    cuda: int | None = None
    init: int | None = None
    init_name: str | None = None
    count: int | None = None
    asking: str | None = None
    devices: tuple[CudaDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class SmiGpu:
    """A GPU as nvidia-smi prints it."""

    index: int | None = None
    uuid: str | None = None
    name: str | None = None
    pci: str | None = None
    compute_capability: str | None = None
    memory_total: int | None = None


@dataclass(frozen=True, slots=True)
class SmiFacts:
    """What nvidia-smi says; ``complaint`` is its own error text."""

    path: str | None = None
    driver_version: str | None = None
    cuda: str | None = None
    gpus: tuple[SmiGpu, ...] | None = None
    complaint: str | None = None


@dataclass(frozen=True, slots=True)
class RawFacts:
    """All that was said; ``sources`` says how each asking ended, ``nvcc`` what the compiler in each toolkit says."""

    kernel: KernelFacts = KernelFacts()
    nvcc: Mapping[str, str] = field(default_factory=dict)
    nvml: NvmlFacts = NvmlFacts()
    cuda: CudaFacts = CudaFacts()
    smi: SmiFacts = SmiFacts()
    target: TargetFacts = TargetFacts()
    target_path: str | None = None
    target_reason: str | None = None
    libraries: LibraryFacts = LibraryFacts()
    files: FileFacts = FileFacts()
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
