"""A machine as its profile describes it: what there is, and what is right to say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Module(Enum):
    """The kernel module that has the GPU."""

    OPEN = "open"
    PROPRIETARY = "proprietary"
    NONE = "none"
    INSTALLED_NOT_LOADED = "installed-not-loaded"
    NOUVEAU = "nouveau"

    @property
    def loaded(self) -> bool:
        """Whether NVIDIA's own module is loaded."""
        return self in (Module.OPEN, Module.PROPRIETARY)


class Container(Enum):
    """The engine that started the container, or none."""

    NONE = "none"
    DOCKER = "docker"
    KUBERNETES = "kubernetes"
    APPTAINER = "apptainer"


class Shown(Enum):
    """How far a GPU on the PCI bus is shown to a process of this machine."""

    NVML = "nvml"
    """NVML and libcuda list it, as does the kernel module."""
    COUNTED = "counted"
    """NVML counts it and may not open it, as under the device control group of a job; nvidia-smi leaves it out."""
    KERNEL = "kernel"
    """The kernel module lists it, and the libraries do not: it was given to somebody else, or could not be started."""
    BUS = "bus"
    """The kernel module has not taken it: it is none that this driver supports."""


class Planted(Enum):
    """What is the matter with a library that the loader finds first."""

    EMPTY = "empty"
    """A file of no bytes, which the loader refuses."""
    ABORTS = "aborts"
    """A real library that ends the process when it is loaded."""


@dataclass(frozen=True, slots=True)
class HostSpec:
    """The operating system and what of it can be seen.

    Attributes:
        arch: architecture.
        kernel: the kernel's release.
        distribution: ``debian 12``.
        container: what the process is contained in.
        kernel_files: whether the driver's files in ``/proc`` and ``/sys`` are to be seen.
    """

    arch: str
    kernel: str | None
    distribution: str
    container: Container
    kernel_files: bool


@dataclass(frozen=True, slots=True)
class DeviceNodeSpec:
    """An ordinary file in the place of a device node."""

    name: str
    mode: int


@dataclass(frozen=True, slots=True)
class CompatSpec:
    """A libcuda of a cuda-compat package, which the loader finds first."""

    version: str
    cuda: int


@dataclass(frozen=True, slots=True)
class DriverSpec:
    """The driver.

    Attributes:
        module: the kernel module that has the GPU.
        version: what the kernel module and NVML say.
        built: what ``/proc/driver/nvidia/version`` says after the version: builder and date.
        library: the version in the names of the user-space files.
        cuda: the CUDA level, as the driver's number.
        folder: where the libraries lie below the root; None for the distribution's usual place.
        nvml: whether NVML is there.
        libcuda: whether libcuda is there.
        smi: whether nvidia-smi is there.
        nodes: the device nodes; None for those that a loaded module has.
        compat: a libcuda of a cuda-compat package beside it.
    """

    module: Module
    version: str
    built: str
    library: str
    cuda: int
    folder: str | None
    nvml: bool
    libcuda: bool
    smi: bool
    nodes: tuple[DeviceNodeSpec, ...] | None
    compat: CompatSpec | None


@dataclass(frozen=True, slots=True)
class MigSpec:
    """MIG instances of one kind on one GPU."""

    profile: str
    memory: int
    count: int


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One GPU.

    Attributes:
        name: as NVML has it.
        capability: compute capability.
        memory: bytes; None where NVML has no number.
        pci: address, as sysfs writes it.
        device: PCI device id.
        pci_class: PCI class.
        uuid: with its ``GPU-``.
        on_bus: whether the PCI bus shows it.
        shown: how far one on the bus is shown.
        mig: its MIG instances; None where it knows no MIG mode.
    """

    name: str
    capability: str
    memory: int | None
    pci: str
    device: str
    pci_class: str
    uuid: str
    on_bus: bool
    shown: Shown
    mig: tuple[MigSpec, ...] | None


@dataclass(frozen=True, slots=True)
class PciSpec:
    """Another device on the PCI bus.

    Attributes:
        pci: the address on the bus.
        pci_class: the code of its class, as the kernel writes it.
        vendor: four hexadecimal digits.
        device: likewise.
        kernel_driver: the kernel driver that holds it.
    """

    pci: str
    pci_class: str
    vendor: str
    device: str
    kernel_driver: str | None


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """The target environment; distributions are given as requirements: ``cupy-cuda12x==14.2.0``.

    Attributes:
        packages: what is installed in it.
        elsewhere: what lies in a second folder, which a .pth file puts on the path behind the first.
        lib64: whether the path has the folder of the distributions once more through the link ``lib64``, as Fedora's
            Python has it.
    """

    packages: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()
    lib64: bool = False


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is right to say of a machine.

    Attributes:
        exit_code: of doctor.
        status: of doctor.
        primary: the cause to cure first.
        causes: all causes.
        wheel: the distribution that ``resolve`` names; None where none fits.
        facts: what ``probe`` says, by path: ``driver.cuda_origin``, ``amd_gpus.0.gfx``; ``none`` is a fact that is
            missing.
    """

    exit_code: int
    status: str
    primary: str | None
    causes: tuple[str, ...]
    wheel: str | None
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Profile:
    """A machine, its target environment and what is right to say of them.

    Attributes:
        name: the file's name without its ending.
        about: one sentence.
        source: where the facts come from.
        inferred: what follows from a rule and has not been seen.
        host: the operating system.
        driver: what of the driver is there, and how it behaves.
        gpus: those of NVIDIA.
        other_devices: further ones on the PCI bus.
        toolkit: the CUDA toolkit in ``/usr/local``, whose libraries the loader finds; None where there is none.
        found_first: broken libraries in ``/usr/local/lib``, by file name, which the loader finds before all others.
        files: further files below the driver root, by path.
        links: links below the driver root, by path, with where each leads.
        environment: variables of the caller.
        stub: raw keys of the stub driver, which win over the derived ones.
        target: the target environment.
        timeout: seconds to hand to ``--timeout``; None leaves the default.
        expect: what the doctor and the resolver must say.
    """

    name: str
    about: str
    source: tuple[str, ...]
    inferred: tuple[str, ...]
    host: HostSpec
    driver: DriverSpec
    gpus: tuple[GpuSpec, ...]
    other_devices: tuple[PciSpec, ...]
    toolkit: str | None
    found_first: Mapping[str, Planted]
    files: Mapping[str, str]
    links: Mapping[str, str]
    environment: Mapping[str, str]
    stub: Mapping[str, str]
    target: TargetSpec
    timeout: float | None
    expect: Expectation
