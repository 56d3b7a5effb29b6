"""What a paste says, before it is a Snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuenv.model.gpu import GpuUser, Virtualization
from gpuenv.model.host import KernelMessage


@dataclass(frozen=True, slots=True)
class Said:
    """One fact that a line states.

    Attributes:
        fact: its name, such as ``driver`` or ``env.CUDA_PATH``.
        value: as it stands there.
        form: the output that it stands in, such as ``nvidia-smi``.
        line: its line, from 1 on.
    """

    fact: str
    value: str
    form: str
    line: int


@dataclass(frozen=True, slots=True)
class PastedGpu:
    """A GPU as one output tells of it; null is what it does not say.

    Attributes:
        index: NVML's.
        name: as the driver names it.
        name_begins: the beginning of a name that nvidia-smi has cut.
        uuid: ``GPU-...``.
        pci: the address on the bus.
        memory_total: bytes.
        memory_used: bytes.
        capability: compute capability.
        compute_mode: in the words of nvidia-smi.
        mig: whether MIG mode is on.
        mig_instances: the instances that are listed: UUID and name.
        mig_count: how many instances there are, where they are counted and not listed.
        fault: NVML's return code for one that could not be opened.
        persistence: whether the driver stays loaded while nobody uses it.
        virtualization: what stands between it and the system.
        fabric: how far its registration with NVSwitch has come.
        users: the processes that compute on it.
        process: the one that was named last, be it one of these or not.
        health: of GpuHealth, what is told.
    """

    index: int | None = None
    name: str | None = None
    name_begins: str | None = None
    uuid: str | None = None
    pci: str | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    capability: str | None = None
    compute_mode: str | None = None
    mig: bool | None = None
    mig_instances: tuple[tuple[str, str], ...] = ()
    mig_count: int | None = None
    fault: int | None = None
    persistence: bool | None = None
    virtualization: Virtualization | None = None
    fabric: str | None = None
    users: tuple[GpuUser, ...] | None = None
    process: int | None = None
    health: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PastedDevice:
    """A display or 3D controller; an id or an address that is not told is empty.

    Attributes:
        pci: the address.
        name: the product.
        vendor: four hexadecimal digits.
        device: likewise.
        kernel_driver: what holds it.
        modules: the modules of the running kernel that know it; none where that is not told.
    """

    pci: str
    name: str | None
    vendor: str
    device: str
    kernel_driver: str | None = None
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pasted:
    """Everything that a paste says.

    Attributes:
        said: the facts, in the order of the text.
        gpus: the GPUs by the output that lists them.
        amd: the GPUs of AMD that CuPy or torch names: name, and the compiler's target.
        devices: what lspci lists.
        log: the lines of the kernel's log that concern the driver.
        packages: installed distributions by canonical name, and what installed them: ``pip`` or ``conda``.
        listings: the outputs that list a whole environment, so that what is not in them is not there.
        whole: those of them that go on to the name of NumPy.
        forms: the outputs that were recognised.
    """

    said: tuple[Said, ...] = ()
    gpus: Mapping[str, tuple[PastedGpu, ...]] = field(default_factory=dict)
    amd: tuple[tuple[str | None, str | None], ...] = ()
    devices: tuple[PastedDevice, ...] = ()
    log: tuple[KernelMessage, ...] = ()
    packages: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    listings: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()

    def without(self, facts: Collection[str]) -> Pasted:
        """What it says but for these facts, of which ``log`` is one."""
        said = tuple(entry for entry in self.said if entry.fact not in facts)
        return replace(self, said=said, log=() if "log" in facts else self.log)

    @property
    def is_empty(self) -> bool:
        """Whether it tells nothing, be an output recognised or not."""
        return not (
            self.said
            or any(self.gpus.values())
            or self.amd
            or self.devices
            or self.log
            or self.packages
            or self.listings
        )


@dataclass(frozen=True, slots=True)
class Conflict:
    """A fact that the paste states in two ways; the first is what is used."""

    fact: str
    said: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """A fact that is needed to decide and that the paste does not say.

    Attributes:
        key: the name that ``--assume`` has for it.
        fact: what it is.
        why: what it decides.
        ask: the command whose output has it.
    """

    key: str
    fact: str
    why: str
    ask: str
