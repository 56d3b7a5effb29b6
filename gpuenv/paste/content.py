"""What a paste says, before it is a Snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuenv.model.snapshot import GpuUser, KernelMessage, Virtualization

ExtractedFact = tuple[str, str, str]
"""What a reader finds in a line: its output, a fact and the value; the last two are empty if it states none."""


@dataclass(frozen=True, slots=True)
class ReportedValue:
    """One fact that a line states: its name, such as ``driver`` or ``env.CUDA_PATH``, and the value as it stands there.

    ``form`` is the output, such as ``nvidia-smi``; lines count from 1.
    """

    fact: str
    value: str
    output: str
    line: int


@dataclass(frozen=True, slots=True)
class PastedGpu:
    """A GPU as one output lists it; None is what it does not say."""

    index: int | None = None  # NVML's
    name: str | None = None
    name_begins: str | None = None  # the beginning of a name that nvidia-smi has cut
    uuid: str | None = None
    pci: str | None = None
    memory_total: int | None = None  # bytes
    memory_used: int | None = None
    capability: str | None = None
    compute_mode: str | None = None  # in the words of nvidia-smi
    mig: bool | None = None
    mig_instances: tuple[tuple[str, str], ...] = ()  # UUID and name of those that are listed
    mig_count: int | None = None  # of those that are counted and not listed
    fault: int | None = None  # NVML's return code for a GPU that could not be opened
    persistence: bool | None = None
    virtualization: Virtualization | None = None
    fabric: str | None = None  # how far its registration with NVSwitch has come
    users: tuple[GpuUser, ...] | None = None  # the processes that compute on it
    process: int | None = None  # the one that was named last, whether it computes or draws
    health: Mapping[str, Any] = field(default_factory=dict)  # fields of GpuHealth


@dataclass(frozen=True, slots=True)
class PastedDevice:
    """A display or 3D controller; vendor and device are four hexadecimal digits, or empty."""

    pci: str
    name: str | None
    vendor: str
    device: str
    kernel_driver: str | None = None
    modules: tuple[str, ...] = ()  # the modules of the running kernel that know it


@dataclass(frozen=True, slots=True)
class PasteContent:
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

    values: tuple[ReportedValue, ...] = ()
    gpus: Mapping[str, tuple[PastedGpu, ...]] = field(default_factory=dict)
    amd: tuple[tuple[str | None, str | None], ...] = ()
    devices: tuple[PastedDevice, ...] = ()
    log: tuple[KernelMessage, ...] = ()
    packages: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    listings: tuple[str, ...] = ()
    complete: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def without(self, facts: Collection[str]) -> PasteContent:
        """What it says but for these facts, of which ``log`` is one."""
        values = tuple(entry for entry in self.values if entry.fact not in facts)
        return replace(self, values=values, log=() if "log" in facts else self.log)

    @property
    def is_empty(self) -> bool:
        """Whether it states nothing, even if an output was recognised."""
        lists = (self.values, self.amd, self.devices, self.log, self.packages, self.listings)
        return not (any(lists) or any(self.gpus.values()))


@dataclass(frozen=True, slots=True)
class Conflict:
    """A fact that the paste states in two ways; the first is what is used."""

    fact: str
    values: tuple[ReportedValue, ...]


@dataclass(frozen=True, slots=True)
class MissingFact:
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
