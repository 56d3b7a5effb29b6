"""Whether a machine has NVIDIA GPUs at all, and which of them a process sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuenv.model.nvidia import NVIDIA, Nvml
from gpuenv.model.reading import ASSUMED, PASTED
from gpuenv.model.snapshot import Gpu, Module, PciGpu, Snapshot
from gpuenv.model.strings import pattern

# The line by which programs switch a laptop's GPU off: some of them take it off the bus as well.
SWITCHED_OFF = "alias nvidia off"
CONTROL = "/dev/nvidiactl"
_OWN_LIBRARIES = ("nvml", "libcuda", ASSUMED)
_TEGRA_NAMES = ("nvgpu", "Orin", "Thor", "Tegra", "Xavier")


def nvidia_on_bus(snapshot: Snapshot) -> tuple[PciGpu, ...] | None:
    """NVIDIA GPUs on the PCI bus; None where the bus is not to be seen."""
    if snapshot.pci_gpus is None:
        return None
    return tuple(gpu for gpu in snapshot.pci_gpus if gpu.vendor == NVIDIA)


def driver_sees_gpu(snapshot: Snapshot) -> bool:
    """Whether the driver's own libraries show this process at least one GPU.

    The kernel's list does not count: a container sees the host's. Nor does nvidia-smi, but in a paste, where it stands
    for the library that it asks.
    """
    source = snapshot.gpu_count.source or ""
    counted = snapshot.gpu_count.value if source in _OWN_LIBRARIES or source.startswith(PASTED) else 0
    return bool(counted or snapshot.visible_count.value)


def module_loaded(snapshot: Snapshot) -> bool:
    """Whether the nvidia kernel module is known to be loaded."""
    return snapshot.driver.module.value is Module.LOADED


def is_tegra(snapshot: Snapshot) -> bool:
    """Whether this is a Jetson: by its root file system or kernel, or by the name of its GPU inside a container."""
    names = " ".join(gpu.name.value or "" for gpu in snapshot.gpus)
    return snapshot.host.tegra.known or any(mark in names for mark in _TEGRA_NAMES)


def contained(snapshot: Snapshot) -> bool:
    """Whether this process is in a container."""
    return snapshot.host.contained


def driver_nodes(snapshot: Snapshot) -> tuple[str, ...]:
    """The paths of the driver's device nodes; Tegra's own are not among them, for they are there without a GPU too."""
    nodes = tuple(node.path for node in snapshot.driver.device_nodes if node.path != "/dev/nvmap")
    driver = snapshot.driver
    if nodes != (CONTROL,) or module_loaded(snapshot) or driver.module_version.known or snapshot.host.sandbox.known:
        return nodes
    # NVML and nvidia-smi make this one for root, be there a driver or not.
    is_without_module = driver.nvml_init.value == Nvml.DRIVER_NOT_LOADED
    return () if is_without_module or (driver.module.known and not driver.nvml_init.known) else nodes


def seen_to_be_absent(snapshot: Snapshot) -> bool:
    """Whether every place was read in which an NVIDIA GPU would show itself, and none of them shows one.

    Not to be told where the GPU is on no PCI bus (WSL, Tegra, by their facts), where the bus that is shown is not the
    host's (a sandbox, a container on a host with the module at work), where a program may have switched it off, and
    where nothing was read. An assumed driver means another machine than the one whose bus was read.
    """
    host = snapshot.host
    if nvidia_on_bus(snapshot) != () or snapshot.gpus or driver_sees_gpu(snapshot) or driver_nodes(snapshot):
        return False
    if host.wsl.value or host.tegra.known or host.os.value == "darwin":
        return False
    driver = snapshot.driver
    if {"driver.version", "driver.cuda"} & set(snapshot.assumed) and (driver.version.known or driver.cuda.known):
        return False
    if any(block.endswith(SWITCHED_OFF) for block in driver.module_blocks.value or ()):
        return False
    return bus_is_own(snapshot)


def bus_is_own(snapshot: Snapshot) -> bool:
    """Whether a PCI bus that shows no NVIDIA GPU is to be believed.

    A sandbox shows a container another bus than the host's; and where the host's kernel has NVIDIA's module at work, it
    has a GPU, since the module is not loaded without one.
    """
    at_work = module_loaded(snapshot) or snapshot.driver.module_version.known
    return not (contained(snapshot) and (snapshot.host.sandbox.known or at_work))


# How hidden_by begins where the kernel keeps a GPU's device node from this process: CUDA does not count it then.
CONTROL_GROUP, DEVICE_NODE, PERMISSION = "control group", "device node", "permission"
_OLD_INSTANCE = pattern(r"MIG-(GPU-[0-9a-f-]+)/\d+/\d+")


class VisibleEntries(NamedTuple):
    """What the variable's list comes to.

    Attributes:
        entries: the entries that count: ordinals as they are, UUIDs in full.
        invalid: the entry at which the list ends, where it names nothing.
        twice: an entry that is there a second time, where one is.
    """

    entries: tuple[str, ...]
    invalid: str | None = None
    twice: str | None = None


def parse_visible(value: str, count: int, uuids: Sequence[str]) -> VisibleEntries:
    """Reads the list up to the first entry that names nothing.

    Entries are ordinals, or UUIDs of GPUs or MIG instances, which may be shortened to a unique beginning; before R470
    a MIG instance was written ``MIG-GPU-<uuid>/<GPU instance>/<compute instance>`` (CUDA Programming Guide, CUDA
    Environment Variables, read November 2026). Of the old form only the GPU can be looked up.

    Args:
        value: the variable's value.
        count: how many GPUs there are.
        uuids: those of the GPUs and of their MIG instances.
    """
    found: list[str] = []
    for entry in map(str.strip, value.split(",")):
        named = _named(entry, count, uuids)
        if named is None:
            return VisibleEntries(tuple(found), invalid=entry)
        if named in found:
            return VisibleEntries((), twice=entry)
        found.append(named)
    return VisibleEntries(tuple(found))


def visible_entries(value: str, gpus: Sequence[Gpu]) -> int:
    """How many entries of the variable name a GPU that is there; the list ends at the first that does not."""
    counted = to_be_opened(gpus)
    return len(parse_visible(value, len(counted), uuids_of(counted)).entries)


def is_old_instance(value: str) -> bool:
    """Whether the list begins with a MIG instance in the form of before R470, of which the GPU alone is looked up."""
    return _OLD_INSTANCE.fullmatch(value.split(",", maxsplit=1)[0].strip()) is not None


def to_be_opened(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Those that this process may open: CUDA gives ordinals to them alone, from zero."""
    return tuple(
        gpu for gpu in gpus if not (gpu.hidden_by.value or "").startswith((CONTROL_GROUP, DEVICE_NODE, PERMISSION))
    )


def uuids_of(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Those of GPUs and of their MIG instances."""
    instances = (instance.uuid for gpu in gpus for instance in gpu.mig_instances)
    return (*(gpu.uuid.value or "" for gpu in gpus), *instances)


def _named(entry: str, count: int, uuids: Sequence[str]) -> str | None:
    """The entry in full, or None where it names nothing."""
    if entry.isdecimal() and entry.isascii():
        return str(int(entry)) if len(entry) <= len(str(count)) + 1 and int(entry) < count else None
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    if old := _OLD_INSTANCE.fullmatch(entry):
        return entry if old[1] in uuids else None
    fitting = [uuid for uuid in uuids if uuid.lower().startswith(entry.lower())]
    return fitting[0] if len(fitting) == 1 else None


VARIABLE = "GPUENV_SIMULATED"  # the name of the machine
RUNS_NO_KERNEL = "a simulated GPU runs no kernel"


def is_simulated(environment: Mapping[str, str]) -> bool:
    """Whether the GPUs that this process sees are a stub driver's."""
    return bool(environment.get(VARIABLE))
