"""A machine, its driver and GPUs, and a target environment, as they were read: the input of every decision.

The paths (``driver.version``, ``gpus[].name`` and so on) are a contract: additions only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gpuenv.model.reading import Reading
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion

SCHEMA = "gpuenv.snapshot/1"


class SourceState(str, Enum):
    """How the asking of one source ended."""

    ANSWERED = "answered"
    ABSENT = "absent"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    NOT_ASKED = "not-asked"


@dataclass(frozen=True, slots=True)
class Source:
    """One source that was asked.

    Attributes:
        name: ``kernel``, ``nvml``, ``libcuda``, ``nvidia-smi``, ``target`` or ``libraries``.
        state: how it ended.
        detail: the file that answered, the error, or the signal.
        duration: seconds.
    """

    name: str
    state: SourceState
    detail: str | None = None
    duration: float = 0.0


class Module(str, Enum):
    """The state of the ``nvidia`` kernel module."""

    LOADED = "loaded"
    NOT_LOADED = "not-loaded"
    NOT_INSTALLED = "not-installed"


class Container(str, Enum):
    """What this process is contained in."""

    NONE = "none"
    DOCKER = "docker"
    PODMAN = "podman"
    KUBERNETES = "kubernetes"
    APPTAINER = "apptainer"
    LXC = "lxc"
    NSPAWN = "systemd-nspawn"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Host:
    """The operating system. ``tegra`` is the release line of a Jetson's root file system."""

    os: Reading[str] = Reading()
    distribution: Reading[str] = Reading()
    kernel: Reading[str] = Reading()
    arch: Reading[str] = Reading()
    libc: Reading[Libc] = Reading()
    container: Reading[Container] = Reading()
    wsl: Reading[bool] = Reading()
    tegra: Reading[str] = Reading()


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file: ``accessible`` tells whether this process may read and write it."""

    path: str
    accessible: bool
    mode: str
    owner: str


@dataclass(frozen=True, slots=True)
class Driver:
    """The NVIDIA driver.

    Attributes:
        version: the version in use.
        cuda: the newest CUDA version that the libcuda in use supports (not a toolkit, not a runtime).
        branch: the driver branch, such as 580.
        module: state of the kernel module.
        module_version: the kernel module's version.
        library_version: the version in the file name of the user-space library.
        flavor: ``open`` or ``proprietary`` kernel module.
        nouveau: whether the nouveau module is loaded.
        nvml_library: file that the loader takes for ``libnvidia-ml.so.1``.
        cuda_library: file that the loader takes for ``libcuda.so.1``.
        nvml_init: return code of ``nvmlInit`` (0 is success).
        cuda_init: return code of ``cuInit`` (0 is success).
        device_nodes: device files under ``/dev`` that belong to the driver.
    """

    version: Reading[DriverVersion] = Reading()
    cuda: Reading[CudaVersion] = Reading()
    branch: Reading[int] = Reading()
    module: Reading[Module] = Reading()
    module_version: Reading[DriverVersion] = Reading()
    library_version: Reading[DriverVersion] = Reading()
    flavor: Reading[str] = Reading()
    nouveau: Reading[bool] = Reading()
    nvml_library: Reading[str] = Reading()
    cuda_library: Reading[str] = Reading()
    nvml_init: Reading[int] = Reading()
    cuda_init: Reading[int] = Reading()
    device_nodes: tuple[DeviceNode, ...] = ()


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


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """The state of a GPU's memory, heat, power and clock.

    Attributes:
        ecc: whether error correction is on.
        ecc_uncorrected: uncorrected memory errors since the driver was loaded.
        ecc_uncorrected_ever: likewise over the GPU's life.
        pages_pending: whether a page waits to be retired, which the next restart does.
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
    ecc_uncorrected: Reading[int] = Reading()
    ecc_uncorrected_ever: Reading[int] = Reading()
    pages_pending: Reading[bool] = Reading()
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
    """The PCIe link now and at most; an idle one trains down, which is no fault."""

    generation: Reading[int] = Reading()
    generation_most: Reading[int] = Reading()
    width: Reading[int] = Reading()
    width_most: Reading[int] = Reading()


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, known by UUID or PCI address.

    Attributes:
        index: the NVML index, in PCI order.
        ordinal: the CUDA device number in this process; null where this process does not see the GPU.
        uuid: ``GPU-…``.
        pci: PCI address, ``00000000:17:00.0``.
        name: product name as the driver prints it.
        compute_capability: such as 9.0.
        memory_total: bytes.
        memory_free: bytes.
        mig: whether MIG mode is on.
        mig_instances: the instances that exist.
        fault: NVML's return code for a GPU that it could not open.
        compute_mode: who may use it.
        persistence: whether the driver stays loaded while nobody uses it.
        processes: how many compute processes hold it, as far as NVML shows this user.
        virtualization: what stands between it and this system.
        health: memory errors, heat, power and clock.
        pcie: the link.
    """

    index: Reading[int] = Reading()
    ordinal: Reading[int] = Reading()
    uuid: Reading[str] = Reading()
    pci: Reading[str] = Reading()
    name: Reading[str] = Reading()
    compute_capability: Reading[ComputeCapability] = Reading()
    memory_total: Reading[int] = Reading()
    memory_free: Reading[int] = Reading()
    mig: Reading[bool] = Reading()
    mig_instances: tuple[MigInstance, ...] = ()
    fault: Reading[int] = Reading()
    compute_mode: Reading[ComputeMode] = Reading()
    persistence: Reading[bool] = Reading()
    processes: Reading[int] = Reading()
    virtualization: Reading[Virtualization] = Reading()
    health: GpuHealth = GpuHealth()
    pcie: PcieLink = PcieLink()


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


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A CUDA toolkit on the host; it says nothing of the driver.

    Attributes:
        path: its folder, links resolved.
        found_via: ``CUDA_PATH``, ``CUDA_HOME``, ``PATH`` or the folder searched.
        toolkit: its CUDA version.
        has_nvrtc: whether NVRTC's library is in it.
        has_headers: whether the CUDA headers are in it.
    """

    path: str
    found_via: str
    toolkit: Reading[CudaVersion] = Reading()
    has_nvrtc: bool = False
    has_headers: bool = False


@dataclass(frozen=True, slots=True)
class CupyInstallation:
    """A CuPy distribution in the target; ``release`` as in its metadata."""

    distribution: str
    release: str
    location: str | None = None


@dataclass(frozen=True, slots=True)
class Library:
    """A CUDA library that CuPy loads at run time.

    Attributes:
        name: ``nvrtc``, ``cublas`` and so on.
        soname: the name that was looked for, such as ``libnvrtc.so.12``.
        path: the file that would be loaded; null when there is none.
        found_via: ``loader``, or the place that cuda-pathfinder names.
        finder_path: the file that cuda-pathfinder loads first, which may be of another CUDA major version.
    """

    name: str
    soname: str
    path: str | None = None
    found_via: str | None = None
    finder_path: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The environment CuPy lives in or shall live in.

    Attributes:
        executable: its interpreter.
        prefix: ``sys.prefix``.
        kind: ``venv``, ``conda`` or ``system``.
        python: its Python version.
        implementation: ``cpython``, ``pypy`` and so on.
        platform: ``linux-x86_64`` and so on, as the interpreter itself says.
        externally_managed: whether the system forbids installing into it.
        cupy: every CuPy distribution there.
        numpy: NumPy's release.
        packages: the distributions there that have to do with GPUs, by canonical name.
        libraries: the CUDA libraries that this CuPy would load.
    """

    executable: Reading[str] = Reading()
    prefix: Reading[str] = Reading()
    kind: Reading[str] = Reading()
    python: Reading[PythonVersion] = Reading()
    implementation: Reading[str] = Reading()
    platform: Reading[str] = Reading()
    externally_managed: Reading[bool] = Reading()
    cupy: tuple[CupyInstallation, ...] = ()
    numpy: Reading[str] = Reading()
    packages: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[Library, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that was read, in one record.

    Attributes:
        gpu_count: how many GPUs the driver has, asked of each source.
        visible_count: how many CUDA devices this process sees.
        pci_gpus: display and 3D controllers on the PCI bus; null where the bus could not be read.
        environment: the CUDA-related environment variables.
        sources: who was asked, and how that ended.
        assumed: paths of the facts that the caller replaced.
    """

    schema: str = SCHEMA
    gpuenv_version: str = ""
    taken_at: str | None = None
    host: Host = Host()
    driver: Driver = Driver()
    gpus: tuple[Gpu, ...] = ()
    gpu_count: Reading[int] = Reading()
    visible_count: Reading[int] = Reading()
    pci_gpus: tuple[PciGpu, ...] | None = None
    toolkits: tuple[Toolkit, ...] = ()
    target: Target = Target()
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    assumed: tuple[str, ...] = ()

    def source(self, name: str) -> Source:
        """How the asking of a source ended; ``not-asked`` where it was not."""
        for source in self.sources:
            if source.name == name:
                return source
        return Source(name, SourceState.NOT_ASKED)
