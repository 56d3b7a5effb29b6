"""The operating system, what contains this process, and what grants it GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpuenv.model.reading import Reading
from gpuenv.model.versions import Libc


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


def operating_system(name: str) -> str:
    """``linux``, ``windows`` or ``darwin``, however people and programs write it (``Windows``, ``macOS``)."""
    lowered = name.strip().lower()
    return {"macos": "darwin", "win32": "windows"}.get(lowered, lowered)


def architecture(name: str) -> str:
    """``x86_64`` or ``aarch64``, however people and programs write it (``amd64``, ``arm64``)."""
    lowered = name.strip().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(lowered, lowered)


@dataclass(frozen=True, slots=True)
class Host:
    """The operating system.

    Attributes:
        os: ``linux``, ``windows`` or ``darwin``.
        distribution: ``debian 12``, from os-release.
        kernel: the kernel's release.
        arch: ``x86_64`` or ``aarch64``, as the target's interpreter sees it.
        libc: the C library that the target is linked with.
        container: what this process is contained in.
        sandbox: ``gvisor`` where that kernel stands in for Linux; its files tell nothing of the driver.
        wsl: whether this is the Windows Subsystem for Linux.
        tegra: the release line of a Jetson's root file system.
        secure_boot: whether the firmware lets signed kernels alone start, which then refuse unsigned modules.
        lockdown: the kernel's lockdown mode: ``none``, ``integrity`` or ``confidentiality``.
        module_signatures: whether the kernel refuses modules without a valid signature.
        suspends: how often it has gone to sleep since its start.
        image: ``ostree`` where the root is an image onto which packages are layered, as in Fedora Silverblue.
    """

    os: Reading[str] = Reading()
    distribution: Reading[str] = Reading()
    kernel: Reading[str] = Reading()
    arch: Reading[str] = Reading()
    libc: Reading[Libc] = Reading()
    container: Reading[Container] = Reading()
    sandbox: Reading[str] = Reading()
    wsl: Reading[bool] = Reading()
    tegra: Reading[str] = Reading()
    secure_boot: Reading[bool] = Reading()
    lockdown: Reading[str] = Reading()
    module_signatures: Reading[bool] = Reading()
    suspends: Reading[int] = Reading()
    image: Reading[str] = Reading()

    @property
    def contained(self) -> bool:
        """Whether this process is known to be in a container."""
        return self.container.value not in (None, Container.NONE)


@dataclass(frozen=True, slots=True)
class KernelMessage:
    """A line of the kernel's log that concerns the driver.

    Attributes:
        text: the line without its time stamp.
        xid: the number of the Xid event that it reports.
        pci: PCI address of the GPU that it names.
    """

    text: str
    xid: int | None = None
    pci: str | None = None


@dataclass(frozen=True, slots=True)
class CdiFile:
    """A file that describes devices for container engines (Container Device Interface).

    Attributes:
        path: the file.
        kind: ``nvidia.com/gpu`` and so on; null where the file could not be understood.
        devices: the names of its devices.
    """

    path: str
    kind: str | None = None
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerSupport:
    """What gives containers their GPUs: inside one, its rules; on a host, what the engine knows.

    Attributes:
        device_rules: the control group's rules for devices, as version 1 shows them.
        docker: Docker's program on this host.
        has_toolkit: whether the NVIDIA container toolkit is there.
        toolkit: release of the NVIDIA container toolkit.
        runtimes: the runtimes that the engine's configuration names.
        default_runtime: the one that is used where none is asked for.
        cdi_files: the files of the Container Device Interface.
    """

    device_rules: Reading[tuple[str, ...]] = Reading()
    docker: Reading[str] = Reading()
    has_toolkit: Reading[bool] = Reading()
    toolkit: Reading[str] = Reading()
    runtimes: Reading[tuple[str, ...]] = Reading()
    default_runtime: Reading[str] = Reading()
    cdi_files: tuple[CdiFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """The GPUs that a scheduler or a container engine has granted to this process.

    Attributes:
        by: ``slurm``, ``kubernetes``, ``container-engine`` and so on.
        gpus: how many; null where all there are, or nobody said.
        devices: their indices or UUIDs, as the grantor names them.
    """

    by: Reading[str] = Reading()
    gpus: Reading[int] = Reading()
    devices: Reading[tuple[str, ...]] = Reading()


@dataclass(frozen=True, slots=True)
class Mps:
    """NVIDIA's Multi-Process Service.

    Attributes:
        pipe_directory: where clients look for its control daemon.
        daemon: whether a control daemon has left its pipe there.
    """

    pipe_directory: Reading[str] = Reading()
    daemon: Reading[bool] = Reading()


@dataclass(frozen=True, slots=True)
class AmdGpu:
    """An AMD GPU as the kernel's KFD nodes describe it.

    Attributes:
        node: the number of its KFD node.
        name: the code name that the kernel gives, such as ``aldebaran``.
        gfx: the compiler's target, such as ``gfx90a``.
        pci: PCI address.
        memory_total: bytes of its own memory.
    """

    node: int
    name: str | None = None
    gfx: str | None = None
    pci: str | None = None
    memory_total: int | None = None
