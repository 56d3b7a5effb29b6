"""A machine, its driver and GPUs, and a target environment, as they were read: the input of every decision.

The paths (``driver.version``, ``gpus[].name`` and so on) are a contract: additions only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from gpuenv.model.driver import DeviceNode, DkmsBuild, Driver, DriverLibrary, LibraryOrigin, Module
from gpuenv.model.gpu import (
    ComputeMode,
    Fabric,
    Gpu,
    GpuHealth,
    GpuUser,
    MigInstance,
    NvLink,
    PcieLink,
    PciGpu,
    Peer,
    Virtualization,
)
from gpuenv.model.host import AmdGpu, CdiFile, Container, ContainerSupport, Grant, Host, KernelMessage, Mps
from gpuenv.model.reading import Reading
from gpuenv.model.target import (
    CupyInstallation,
    FileFault,
    FileState,
    JupyterKernel,
    LeftMetadata,
    Library,
    NeedOfCupy,
    PackagePlace,
    Target,
    Toolkit,
)

__all__ = [
    "SCHEMA",
    "AmdGpu",
    "CdiFile",
    "ComputeMode",
    "Container",
    "ContainerSupport",
    "CupyInstallation",
    "DeviceNode",
    "DkmsBuild",
    "Driver",
    "DriverLibrary",
    "Fabric",
    "FileFault",
    "FileState",
    "Gpu",
    "GpuHealth",
    "GpuUser",
    "Grant",
    "Host",
    "JupyterKernel",
    "KernelMessage",
    "LeftMetadata",
    "Library",
    "LibraryOrigin",
    "MigInstance",
    "Module",
    "Mps",
    "NeedOfCupy",
    "NvLink",
    "PackagePlace",
    "PciGpu",
    "PcieLink",
    "Peer",
    "Snapshot",
    "Source",
    "SourceState",
    "Target",
    "Toolkit",
    "Virtualization",
]

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
        name: ``kernel``, ``nvml``, ``libcuda``, ``nvidia-smi``, ``nvcc``, ``target``, ``libraries`` or
            ``files``.
        state: how it ended.
        detail: the file that answered, the error, or the signal.
        duration: seconds.
        started: seconds between the beginning of the probing and of this asking.
    """

    name: str
    state: SourceState
    detail: str | None = None
    duration: float = 0.0
    started: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that was read, in one record.

    Attributes:
        schema: name and major version of the form.
        gpuenv_version: of the program that read it.
        taken_at: when, ISO 8601 by UTC; null where nothing was asked.
        host: the operating system.
        driver: the NVIDIA driver.
        gpus: one record a GPU, in the order of the first source that lists any.
        gpu_count: how many GPUs the driver has, asked of each source.
        visible_count: how many CUDA devices this process sees.
        pci_gpus: display and 3D controllers on the PCI bus; null where the bus could not be read.
        toolkits: the CUDA toolkits on the host and in the target.
        pointing_nowhere: the variables CUDA_PATH and CUDA_HOME, where they name a folder that is not there.
        amd_gpus: the AMD GPUs that the kernel's KFD nodes tell of.
        rocm: the ROCm release on the host.
        kernel_log: the lines of the kernel's log that concern the driver, the newest last; at most 50.
        container_support: what gives containers their GPUs.
        grant: the GPUs that a scheduler or a container engine has granted to this process.
        mps: NVIDIA's Multi-Process Service.
        target: the target environment.
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
    pointing_nowhere: tuple[str, ...] = ()
    amd_gpus: tuple[AmdGpu, ...] = ()
    rocm: Reading[str] = Reading()
    kernel_log: Reading[tuple[KernelMessage, ...]] = Reading()
    container_support: ContainerSupport = ContainerSupport()
    grant: Grant = Grant()
    mps: Mps = Mps()
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

    def assuming(self, *paths: str) -> Snapshot:
        """The same with the facts of these paths marked as the caller's."""
        return replace(self, assumed=tuple(dict.fromkeys((*self.assumed, *paths))))
