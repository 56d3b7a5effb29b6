"""The content of a paste, before it becomes a Snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuenv.model.snapshot import GpuUser, KernelMessage, Virtualization

ExtractedFact = tuple[str, str, str]
"""What a reader extracts from a line: the output, a fact and its value; the last two are empty without one."""


@dataclass(frozen=True, slots=True)
class ReportedValue:
    """A value that a line of a paste reports.

    Attributes:
        fact: such as ``driver`` or ``env.CUDA_PATH``.
        value: as printed.
        output: the output that the line is from, such as ``nvidia-smi``.
        line: counted from 1.
    """

    fact: str
    value: str
    output: str
    line: int

    @property
    def source(self) -> str:
        """``pasted nvidia-smi, line 3``."""
        return f"pasted {self.output}, line {self.line}"


@dataclass(frozen=True, slots=True)
class PastedGpu:
    """A GPU as one output lists it; None for what the output does not report."""

    index: int | None = None  # NVML's
    name: str | None = None
    name_begins: str | None = None  # the beginning of a name that nvidia-smi truncated
    uuid: str | None = None
    pci: str | None = None
    memory_total: int | None = None  # bytes
    memory_used: int | None = None
    capability: str | None = None
    compute_mode: str | None = None  # as nvidia-smi prints it
    mig: bool | None = None
    mig_pending: bool | None = None
    mig_instances: tuple[tuple[str, str], ...] = ()  # UUID and name of listed instances
    mig_count: int | None = None  # of instances that are counted, not listed
    fault: int | None = None  # NVML's return code for a GPU that could not be opened
    persistence: bool | None = None
    virtualization: Virtualization | None = None
    licensed: bool | None = None
    fabric: str | None = None  # the state of its registration with NVSwitch
    users: tuple[GpuUser, ...] | None = None  # its compute processes
    process: int | None = None  # the last process listed, compute or graphics
    pcie: Mapping[str, int] = field(default_factory=dict)  # fields of PcieLink
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
    """The content of a paste.

    Attributes:
        values: the reported values, in the order of the text.
        gpus: the GPUs by the output that lists them.
        amd: the AMD GPUs that CuPy or torch lists: name, and target of the compiler.
        devices: the devices that lspci lists.
        log: the lines of the kernel log that concern the driver.
        packages: the installed distributions by canonical name: release, and installer (``pip`` or ``conda``).
        listings: the lists of all packages that reach the name of CuPy, so that a CuPy not in them is not installed.
        complete: those of them that also reach the name of NumPy.
        outputs: the recognised outputs.
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
        """The content without these facts; ``log`` is the kernel log."""
        values = tuple(entry for entry in self.values if entry.fact not in facts)
        return replace(self, values=values, log=() if "log" in facts else self.log)

    @property
    def is_empty(self) -> bool:
        """Whether the paste reports nothing, even if an output was recognised."""
        lists = (self.values, self.amd, self.devices, self.log, self.packages, self.listings)
        return not (any(lists) or any(self.gpus.values()))


@dataclass(frozen=True, slots=True)
class Conflict:
    """A fact with contradicting values; the first one is used."""

    fact: str
    values: tuple[ReportedValue, ...]


@dataclass(frozen=True, slots=True)
class MissingFact:
    """A fact that is needed for a decision and that the paste does not report.

    Attributes:
        key: its key for ``--assume``.
        fact: its description.
        ask: the command whose output reports it.
    """

    key: str
    fact: str
    ask: str
