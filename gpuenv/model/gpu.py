"""One GPU: what it is, its health, its links, and who uses it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpuenv.model.reading import Reading
from gpuenv.model.versions import ComputeCapability


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG instance of a GPU; memory in bytes."""

    uuid: str
    name: str | None = None
    memory_total: int | None = None


class ComputeMode(str, Enum):
    """Who may use a GPU."""

    DEFAULT = "default"
    EXCLUSIVE_THREAD = "exclusive-thread"
    PROHIBITED = "prohibited"
    EXCLUSIVE_PROCESS = "exclusive-process"


class Virtualization(str, Enum):
    """What stands between a GPU and this system."""

    NONE = "none"
    PASSTHROUGH = "passthrough"
    VGPU = "vgpu"
    HOST_VGPU = "host-vgpu"
    HOST_VSGA = "host-vsga"


# Reasons for a low clock that say something of heat, power or a fault; the others are the clock's usual ones.
GRAVE_REASONS = frozenset({"hardware-slowdown", "software-thermal", "hardware-thermal", "hardware-power-brake"})


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """The state of a GPU's memory, heat, power and clock.

    Attributes:
        ecc: whether error correction is on.
        ecc_pending: whether it will be on after the next restart.
        ecc_corrected: corrected memory errors since the driver was loaded.
        ecc_corrected_ever: likewise over the GPU's life.
        ecc_uncorrected: uncorrected memory errors since the driver was loaded.
        ecc_uncorrected_ever: likewise over the GPU's life.
        pages_retired: how many memory pages are retired.
        pages_pending: whether a page waits to be retired, which the next restart does.
        rows_corrected: memory rows remapped after corrected errors.
        rows_uncorrected: memory rows remapped after uncorrected errors.
        rows_pending: whether a row waits to be remapped, which a reset does.
        rows_failed: whether a remapping has failed.
        temperature: degrees Celsius.
        power: watts now.
        power_limit: watts at most.
        clock: MHz of the multiprocessors now.
        clock_most: MHz at most.
        throttle_reasons: why the clock is held down; an idle GPU has ``gpu-idle``.
    """

    ecc: Reading[bool] = Reading()
    ecc_pending: Reading[bool] = Reading()
    ecc_corrected: Reading[int] = Reading()
    ecc_corrected_ever: Reading[int] = Reading()
    ecc_uncorrected: Reading[int] = Reading()
    ecc_uncorrected_ever: Reading[int] = Reading()
    pages_retired: Reading[int] = Reading()
    pages_pending: Reading[bool] = Reading()
    rows_corrected: Reading[int] = Reading()
    rows_uncorrected: Reading[int] = Reading()
    rows_pending: Reading[bool] = Reading()
    rows_failed: Reading[bool] = Reading()
    temperature: Reading[int] = Reading()
    power: Reading[float] = Reading()
    power_limit: Reading[float] = Reading()
    clock: Reading[int] = Reading()
    clock_most: Reading[int] = Reading()
    throttle_reasons: Reading[tuple[str, ...]] = Reading()


@dataclass(frozen=True, slots=True)
class PcieLink:
    """The PCIe link; an idle one trains down, which is no fault.

    Attributes:
        generation: of the link now.
        generation_most: the highest that GPU and slot can do together.
        width: lanes now.
        width_most: lanes at most.
    """

    generation: Reading[int] = Reading()
    generation_most: Reading[int] = Reading()
    width: Reading[int] = Reading()
    width_most: Reading[int] = Reading()


@dataclass(frozen=True, slots=True)
class NvLink:
    """One NVLink of a GPU, by its number."""

    link: int
    active: bool


@dataclass(frozen=True, slots=True)
class Fabric:
    """A GPU's place in an NVSwitch fabric.

    Attributes:
        state: ``not-supported``, ``not-started``, ``in-progress`` or ``completed``; CUDA starts only
            once it is completed.
        status: NVML's return code of the registration, where it is completed.
    """

    state: Reading[str] = Reading()
    status: Reading[int] = Reading()


@dataclass(frozen=True, slots=True)
class Peer:
    """Another GPU as seen from one.

    Attributes:
        index: the other's NVML index.
        connection: how far they are apart: ``internal``, ``single-switch``, ``multiple-switches``, ``host-bridge``,
            ``node`` or ``system``.
        read: whether one can read the other's memory directly: ``ok``, or why not.
    """

    index: int
    connection: str | None = None
    read: str | None = None


@dataclass(frozen=True, slots=True)
class GpuUser:
    """A compute process that holds a GPU, as far as NVML shows this user.

    Attributes:
        pid: its process number, in the host's counting.
        name: the kernel's short name for it, where this process can see it.
        memory: bytes of the GPU's memory.
    """

    pid: int
    name: str | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, known by UUID or PCI address.

    Attributes:
        index: the NVML index, in PCI order.
        ordinal: the CUDA device number in this process; null where this process does not see the GPU.
        hidden_by: why this process does not see a GPU that the driver has: a variable, a mode or a control group.
        uuid: ``GPU-…``.
        pci: PCI address, ``00000000:17:00.0``.
        name: product name as the driver prints it.
        compute_capability: such as 9.0.
        architecture: ``hopper`` and so on.
        brand: ``geforce``, ``tesla``, ``nvidia`` and so on, as NVIDIA_REQUIRE_CUDA of an image spells it.
        memory_total: bytes.
        memory_free: bytes.
        mig: whether MIG mode is on.
        mig_instances: the instances that exist.
        fault: NVML's return code for a GPU that it could not open.
        compute_mode: who may use it.
        persistence: whether the driver stays loaded while nobody uses it.
        processes: how many compute processes hold it, as far as NVML shows this user.
        users: these processes.
        virtualization: what stands between it and this system.
        health: memory errors, heat, power and clock.
        pcie: the link to the host.
        nvlinks: the links to other GPUs or switches.
        nvlink_count: how many there are; none is a number, no answer is not.
        fabric: its place in an NVSwitch fabric.
        peers: the other GPUs.
    """

    index: Reading[int] = Reading()
    ordinal: Reading[int] = Reading()
    hidden_by: Reading[str] = Reading()
    uuid: Reading[str] = Reading()
    pci: Reading[str] = Reading()
    name: Reading[str] = Reading()
    compute_capability: Reading[ComputeCapability] = Reading()
    architecture: Reading[str] = Reading()
    brand: Reading[str] = Reading()
    memory_total: Reading[int] = Reading()
    memory_free: Reading[int] = Reading()
    mig: Reading[bool] = Reading()
    mig_instances: tuple[MigInstance, ...] = ()
    fault: Reading[int] = Reading()
    compute_mode: Reading[ComputeMode] = Reading()
    persistence: Reading[bool] = Reading()
    processes: Reading[int] = Reading()
    users: tuple[GpuUser, ...] = ()
    virtualization: Reading[Virtualization] = Reading()
    health: GpuHealth = GpuHealth()
    pcie: PcieLink = PcieLink()
    nvlinks: tuple[NvLink, ...] = ()
    nvlink_count: Reading[int] = Reading()
    fabric: Fabric = Fabric()
    peers: tuple[Peer, ...] = ()


@dataclass(frozen=True, slots=True)
class PciGpu:
    """A display or 3D controller on the PCI bus.

    Attributes:
        pci: PCI address, ``0000:17:00.0``.
        vendor: ``10de`` for NVIDIA.
        device: PCI device id, four hexadecimal digits.
        name: product name of the machine's PCI id table, where it has one.
        kernel_driver: the kernel driver bound to it; null when none is.
    """

    pci: str
    vendor: str
    device: str
    name: str | None = None
    kernel_driver: str | None = None
