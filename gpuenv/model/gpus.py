"""Presence and visibility of NVIDIA GPUs, and the targets of AMD's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuenv.model.nvidia import NVIDIA, Nvml
from gpuenv.model.reading import ASSUMED, PASTED
from gpuenv.model.snapshot import Gpu, Module, PciGpu, Snapshot
from gpuenv.model.strings import pattern

# The modprobe line that programs use to turn off a laptop's GPU; some also remove it from the bus.
TURNED_OFF = "alias nvidia off"
CONTROL = "/dev/nvidiactl"
_OWN_LIBRARIES = ("nvml", "libcuda", ASSUMED)
_TEGRA_NAMES = ("nvgpu", "Orin", "Thor", "Tegra", "Xavier")
_GFX = pattern(r"gfx[1-9]\d?[0-9a-f]{2}")


def is_gfx(text: str) -> bool:
    """Whether a text is the target of an AMD GPU, such as ``gfx90a`` or ``gfx1100``."""
    return _GFX.fullmatch(text) is not None


def nvidia_on_bus(snapshot: Snapshot) -> tuple[PciGpu, ...] | None:
    """Returns the NVIDIA GPUs on the PCI bus; None if the bus is not visible."""
    if snapshot.pci_gpus is None:
        return None
    return tuple(gpu for gpu in snapshot.pci_gpus if gpu.vendor == NVIDIA)


def driver_sees_gpu(snapshot: Snapshot) -> bool:
    """Whether the driver's libraries show this process at least one GPU.

    The kernel's list does not count, because a container sees the host's. nvidia-smi counts only in a paste, where it
    represents NVML.
    """
    source = snapshot.gpu_count.source or ""
    count = snapshot.gpu_count.value if source in _OWN_LIBRARIES or source.startswith(PASTED) else 0
    return bool(count or snapshot.visible_count.value)


def module_loaded(snapshot: Snapshot) -> bool:
    """Whether the nvidia kernel module is known to be loaded."""
    return snapshot.driver.module.value is Module.LOADED


def is_tegra(snapshot: Snapshot) -> bool:
    """Whether this is a Jetson, by its root file system or kernel or, in a container, by the name of its GPU."""
    names = " ".join(gpu.name.value or "" for gpu in snapshot.gpus)
    return snapshot.host.tegra.known or any(mark in names for mark in _TEGRA_NAMES)


def is_contained(snapshot: Snapshot) -> bool:
    """Whether this process is in a container."""
    return snapshot.host.contained


def driver_nodes(snapshot: Snapshot) -> tuple[str, ...]:
    """Returns the paths of the driver's device nodes, without Tegra's, which exist even without a GPU."""
    nodes = tuple(node.path for node in snapshot.driver.device_nodes if node.path != "/dev/nvmap")
    driver = snapshot.driver
    if nodes != (CONTROL,) or module_loaded(snapshot) or driver.module_version.known or snapshot.host.sandbox.known:
        return nodes
    # NVML and nvidia-smi create this one for root even without a driver.
    is_without_module = driver.nvml_init.value == Nvml.DRIVER_NOT_LOADED
    return () if is_without_module or (driver.module.known and not driver.nvml_init.known) else nodes


def gpu_is_absent(snapshot: Snapshot) -> bool:
    """Whether every source that would show an NVIDIA GPU was read and none shows one.

    False if the absence is uncertain: a GPU outside the PCI bus (WSL, Tegra), a bus that is not the host's (a sandbox,
    a container on a host with the module loaded), a GPU that a program may have turned off, or nothing read. An
    assumed driver means another machine than the one whose bus was read.
    """
    host = snapshot.host
    if nvidia_on_bus(snapshot) != () or snapshot.gpus or driver_sees_gpu(snapshot) or driver_nodes(snapshot):
        return False
    if host.wsl.value or host.tegra.known or host.os.value == "darwin":
        return False
    driver = snapshot.driver
    if {"driver.version", "driver.cuda"} & set(snapshot.assumed) and (driver.version.known or driver.cuda.known):
        return False
    if any(block.endswith(TURNED_OFF) for block in driver.module_blocks.value or ()):
        return False
    return bus_is_reliable(snapshot)


def bus_is_reliable(snapshot: Snapshot) -> bool:
    """Whether a PCI bus without NVIDIA GPUs is trustworthy.

    A sandbox and Docker Desktop show a container another bus than the host's; and a host with a loaded NVIDIA module
    has a GPU, because the module does not load without one.
    """
    has_module = module_loaded(snapshot) or snapshot.driver.module_version.known
    has_other_bus = snapshot.host.sandbox.known or in_docker_desktop(snapshot)
    return not (is_contained(snapshot) and (has_other_bus or has_module))


def in_docker_desktop(snapshot: Snapshot) -> bool:
    """Whether this container runs in Docker Desktop's own virtual machine, which shows no GPU of the host.

    Docker, GPU support in Docker Desktop (read November 2026): only on Windows with the WSL 2 backend, whose kernel is
    WSL's. The machine on Linux, on macOS and with Hyper-V has a kernel of LinuxKit.
    """
    return is_contained(snapshot) and (snapshot.host.kernel.value or "").endswith("-linuxkit")


HIDDEN_HOST = "the container shows neither the PCI bus nor a module of the driver, so the host may have no GPU"


def host_is_hidden(snapshot: Snapshot) -> bool:
    """Whether nothing that a container shows would reveal a GPU of the host, as with an empty ``/sys``.

    Under WSL, on a Jetson and in a sandbox the PCI bus is no source in the first place.
    """
    host = snapshot.host
    is_seen = snapshot.pci_gpus is not None or module_loaded(snapshot) or snapshot.driver.module_version.known
    has_other_sources = bool(host.wsl.value) or is_tegra(snapshot) or host.sandbox.known or in_docker_desktop(snapshot)
    return is_contained(snapshot) and not is_seen and not has_other_sources and not driver_sees_gpu(snapshot)


# Prefixes of hidden_by if the kernel denies this process the GPU's device node: CUDA does not count such a GPU.
CONTROL_GROUP, DEVICE_NODE, PERMISSION = "control group", "device node", "permission"
_ORDINAL = pattern(r"\+?([0-9]+)")  # the driver reads a number as strtol does, and ignores what follows: "0 1" is 0
_OLD_INSTANCE = pattern(r"MIG-(GPU-[0-9a-f-]+)/\d+/\d+")


class VisibleEntries(NamedTuple):
    """The parsed value of CUDA_VISIBLE_DEVICES.

    Attributes:
        entries: the effective entries: ordinals, and full UUIDs.
        invalid: the first entry that names no GPU, which ends the list.
        twice: a repeated entry.
    """

    entries: tuple[str, ...]
    invalid: str | None = None
    twice: str | None = None


def parse_visible(value: str, count: int, uuids: Sequence[str]) -> VisibleEntries:
    """Parses CUDA_VISIBLE_DEVICES up to the first entry that names no GPU.

    Entries are ordinals, or UUIDs of GPUs or MIG instances, which may be shortened to a unique prefix; before R470 a
    MIG instance was written ``MIG-GPU-<uuid>/<GPU instance>/<compute instance>`` (CUDA Programming Guide, CUDA
    Environment Variables, read November 2026). Only the GPU of the old form can be looked up. ``uuids`` are those of
    the GPUs and their MIG instances.
    """
    found: list[str] = []
    for entry in map(str.strip, value.split(",")):
        name = _resolve_entry(entry, count, uuids)
        if name is None:
            return VisibleEntries(tuple(found), invalid=entry)
        if name in found:
            return VisibleEntries((), twice=entry)
        found.append(name)
    return VisibleEntries(tuple(found))


def visible_entries(value: str, gpus: Sequence[Gpu]) -> int:
    """Returns the number of entries that name an existing GPU, up to the first that does not."""
    accessible = accessible_gpus(gpus)
    return len(parse_visible(value, len(accessible), uuids_of(accessible)).entries)


def is_old_instance(value: str) -> bool:
    """Whether the list starts with a MIG instance in the form used before R470, which names the GPU."""
    return _OLD_INSTANCE.fullmatch(value.split(",", maxsplit=1)[0].strip()) is not None


def accessible_gpus(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Returns the GPUs that this process may open; CUDA numbers only these."""
    return tuple(
        gpu for gpu in gpus if not (gpu.hidden_by.value or "").startswith((CONTROL_GROUP, DEVICE_NODE, PERMISSION))
    )


def uuids_of(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Returns the UUIDs of GPUs and their MIG instances."""
    instances = (instance.uuid for gpu in gpus for instance in gpu.mig_instances)
    return (*(gpu.uuid.value or "" for gpu in gpus), *instances)


def _resolve_entry(entry: str, count: int, uuids: Sequence[str]) -> str | None:
    """Returns the full entry; None if it names no GPU."""
    number = _ORDINAL.match(entry)
    if number:
        return str(int(number[1])) if len(number[1]) <= len(str(count)) + 1 and int(number[1]) < count else None
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    if old := _OLD_INSTANCE.fullmatch(entry):
        return entry if old[1] in uuids else None
    matching = [uuid for uuid in uuids if uuid.lower().startswith(entry.lower())]
    return matching[0] if len(matching) == 1 else None


SIMULATED = "GPUENV_SIMULATED"  # the name of the machine
RUNS_NO_KERNEL = "a simulated GPU runs no kernel"


def is_simulated(environment: Mapping[str, str]) -> bool:
    """Whether this process sees the GPUs of a stub driver."""
    return bool(environment.get(SIMULATED))
