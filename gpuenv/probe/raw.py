"""What each source said, before anything is settled: typed, and nothing more than it said."""

# Annotations are no texts here: what the children say is read by them at every start.

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuenv.model.snapshot import Source
from gpuenv.probe.raw_kernel import KernelFacts
from gpuenv.probe.raw_target import FileFacts, LibraryFacts, TargetFacts


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
    """A GPU as NVML describes it, in NVML's own numbers; null is what it did not tell.

    Attributes:
        index: NVML's, from 0.
        uuid: ``GPU-...``.
        name: as the driver names it.
        pci: the address on the bus.
        compute_capability: ``9.0``.
        memory: total and free, bytes.
        mig: whether MIG mode is on.
        mig_instances: those that exist.
        compute_mode: number of ``nvmlComputeMode_t``.
        architecture: number of ``nvmlDeviceArchitecture_t``.
        brand: number of ``nvmlBrandType_t``.
        minor: the number in ``/dev/nvidia0``.
        persistence: whether persistence mode is on.
        ecc: now, and after the next restart.
        ecc_corrected: errors since the driver was loaded; likewise ``ecc_uncorrected``.
        ecc_corrected_ever: errors over its whole life; likewise ``ecc_uncorrected_ever``.
        pages_single: pages retired for repeated single-bit errors.
        pages_double: pages retired for a double-bit error.
        pages_pending: whether a page waits for a restart to be retired.
        rows: remapped for corrected and uncorrected errors, whether one is pending, whether one failed.
        temperature: degrees Celsius.
        power: watts that it draws.
        power_limit: watts that it may draw.
        clock: of the multiprocessors, MHz.
        clock_most: the highest, MHz.
        throttle_reasons: bits of ``nvmlClocksThrottleReasons``.
        pcie_generation: of the link as it is now; ``pcie_generation_most``: as it can be.
        pcie_width: lanes, likewise.
        processes: how many compute processes there are.
        users: the first of them.
        virtualization: number of ``nvmlGpuVirtualizationMode_t``.
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
        init: return code of nvmlInit; null where it did not come back.
        message: what goes with a code other than 0.
        library: the file behind libnvidia-ml in that process.
        driver_version: ``580.95.05``.
        cuda: the C interface's number, 12040 for 12.4.
        count: how many GPUs there are.
        peers_took: seconds that the links between the GPUs took to ask.
        failures: the return code of each function that failed and is about no GPU.
        remarks: in words, why such a function gave no answer though it did not fail.
        gpus: those that could be opened, and those that could not.
    """

    init: int | None = None
    message: str | None = None
    library: str | None = None
    driver_version: str | None = None
    cuda: int | None = None
    count: int | None = None
    peers_took: float | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[NvmlGpu, ...] = ()


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A CUDA device as this process sees it.

    Attributes:
        ordinal: CUDA's, which CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER decide.
        name: as libcuda names it.
        pci: the address on the bus.
        uuid: of the GPU, or of its MIG instance.
        compute_capability: ``9.0``.
        memory_total: bytes.
    """

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
        absent: what the loader says where there is no libcuda.
        unloadable: what it says of one that it refuses.
        library: the file behind libcuda in that process.
        cuda: the C interface's number, 12040 for 12.4.
        init: return code of cuInit.
        init_name: its name, ``CUDA_ERROR_NO_DEVICE``.
        count: how many devices there are.
        devices: each of them.
    """

    absent: str | None = None
    unloadable: str | None = None
    library: str | None = None
    cuda: int | None = None
    init: int | None = None
    init_name: str | None = None
    count: int | None = None
    devices: tuple[CudaDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class SmiGpu:
    """A GPU as nvidia-smi prints it.

    Attributes:
        index: NVML's.
        uuid: ``GPU-...``.
        name: as the driver names it.
        pci: the address on the bus.
        compute_capability: ``9.0``.
        memory_total: bytes.
    """

    index: int | None = None
    uuid: str | None = None
    name: str | None = None
    pci: str | None = None
    compute_capability: str | None = None
    memory_total: int | None = None


@dataclass(frozen=True, slots=True)
class SmiFacts:
    """What nvidia-smi says.

    Attributes:
        path: the program.
        driver_version: ``580.95.05``.
        cuda: the CUDA level that it shows, ``13.0``.
        gpus: null where it lists none that makes sense.
        complaint: its own error text.
    """

    path: str | None = None
    driver_version: str | None = None
    cuda: str | None = None
    gpus: tuple[SmiGpu, ...] | None = None
    complaint: str | None = None


@dataclass(frozen=True, slots=True)
class RawFacts:
    """All that was said, before anything is settled.

    Attributes:
        kernel: by the kernel's files.
        nvcc: what the compiler in each toolkit says, by the folder.
        nvml: by NVML.
        cuda: by libcuda.
        smi: by nvidia-smi.
        target: by the target's interpreter.
        target_path: the interpreter; null where there is none.
        target_named_by: who named it: an option, a variable, or PATH.
        target_reason: why it told nothing.
        libraries: by the target's loader.
        files: by the installed files.
        environment: the caller's variables that decide on GPU, CUDA and Python.
        sources: how each asking ended.
    """

    kernel: KernelFacts = KernelFacts()
    nvcc: Mapping[str, str] = field(default_factory=dict)
    nvml: NvmlFacts = NvmlFacts()
    cuda: CudaFacts = CudaFacts()
    smi: SmiFacts = SmiFacts()
    target: TargetFacts = TargetFacts()
    target_path: str | None = None
    target_named_by: str = "the caller"
    target_reason: str | None = None
    libraries: LibraryFacts = LibraryFacts()
    files: FileFacts = FileFacts()
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
