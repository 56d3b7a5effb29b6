"""Whether a machine has an NVIDIA GPU at all, by what its Snapshot shows of the bus and of the driver. Pure."""

from __future__ import annotations

from gpuenv.model.codes import Nvml
from gpuenv.model.driver import Module
from gpuenv.model.gpu import PciGpu
from gpuenv.model.identity import NVIDIA
from gpuenv.model.reading import ASSUMED, PASTED
from gpuenv.model.snapshot import Snapshot

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
    return () if nodes == (CONTROL,) and _answered_by_nobody(snapshot) else nodes


def _answered_by_nobody(snapshot: Snapshot) -> bool:
    """Whether no kernel module is behind the node: NVML and nvidia-smi make it for root, be there a driver or not."""
    driver = snapshot.driver
    if module_loaded(snapshot) or driver.module_version.known or snapshot.host.sandbox.known:
        return False
    return driver.nvml_init.value == Nvml.DRIVER_NOT_LOADED or (driver.module.known and not driver.nvml_init.known)


def seen_to_be_absent(snapshot: Snapshot) -> bool:
    """Whether every place was read in which an NVIDIA GPU would show itself, and none of them shows one.

    Not to be told where the GPU is on no PCI bus (WSL, Tegra, by their facts), where the bus that is shown is not the
    host's (a sandbox, a container on a host with the module at work), where a program may have switched it off, and
    where nobody looked. Whoever assumes a driver means another machine than the one whose bus was read.
    """
    host = snapshot.host
    if nvidia_on_bus(snapshot) != () or snapshot.gpus or driver_sees_gpu(snapshot) or driver_nodes(snapshot):
        return False
    if host.wsl.value or host.tegra.known or host.os.value == "darwin" or _elsewhere(snapshot):
        return False
    if any(block.endswith(SWITCHED_OFF) for block in snapshot.driver.module_blocks.value or ()):
        return False
    return bus_is_own(snapshot)


def bus_is_own(snapshot: Snapshot) -> bool:
    """Whether a PCI bus that shows no NVIDIA GPU is to be believed.

    A sandbox shows a container another bus than the host's; and where the host's kernel has NVIDIA's module at work, it
    has a GPU, since nobody loads it without one.
    """
    at_work = module_loaded(snapshot) or snapshot.driver.module_version.known
    return not (contained(snapshot) and (snapshot.host.sandbox.known or at_work))


def _elsewhere(snapshot: Snapshot) -> bool:
    return bool({"driver.version", "driver.cuda"} & set(snapshot.assumed)) and (
        snapshot.driver.version.known or snapshot.driver.cuda.known
    )
