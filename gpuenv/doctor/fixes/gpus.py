"""How a GPU is named in a finding and in a command, and what to do about a board that does not start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuenv.model.finding import Fix
from gpuenv.model.gpus import accessible_gpus
from gpuenv.model.nvidia import pci_key
from gpuenv.model.snapshot import Gpu

_MOST = 4  # resets that are told one by one; the restart of the machine is one step


def called(gpu: Gpu) -> str:
    """A GPU among others: its NVML index, else its address on the bus, and its product."""
    product = gpu.name.value or "without a name"
    if gpu.index.value is not None:
        return f"GPU {gpu.index.value} ({product})"
    address = pci_key(gpu.pci.value)
    return f"GPU at {address} ({product})" if address else f"GPU ({product})"


def with_uuid(gpus: Sequence[Gpu], uuid: str | None) -> tuple[int, Gpu | None]:
    """The GPU of this UUID and its index in the list; (0, None) if there is none."""
    found = ((place, gpu) for place, gpu in enumerate(gpus) if uuid and gpu.uuid.value == uuid)
    return next(found, (0, None))


def option_of(gpu: Gpu) -> str | None:
    """The nvidia-smi selector: the address, else the index, which may change with a restart."""
    address = pci_key(gpu.pci.value)
    if address is not None:
        return address
    return None if gpu.index.value is None else str(gpu.index.value)


def showing(gpus: Iterable[Gpu], every: Sequence[Gpu]) -> tuple[str, ...]:
    """The variables, ``NAME=VALUE``, with which programs see only ``gpus`` of ``every``; empty if these have no index.

    NVML's index follows the bus, and CUDA's own numbers do not: by default, the fastest GPU comes first (CUDA
    Programming Guide, CUDA Environment Variables, CUDA_DEVICE_ORDER). What this process may not open CUDA does not
    count.
    """
    counted = sorted(gpu.index.value for gpu in accessible_gpus(every) if gpu.index.value is not None)
    numbers = [str(counted.index(gpu.index.value)) for gpu in gpus if gpu.index.value in counted]
    return ("CUDA_DEVICE_ORDER=PCI_BUS_ID", f"CUDA_VISIBLE_DEVICES={','.join(numbers)}") if numbers else ()


def resets(text: str, named: Iterable[str | None]) -> tuple[Fix, ...]:
    """Resets of these GPUs by their selectors, one command each; empty where one has no selector.

    The manual of nvidia-smi, --gpu-reset: -i names the device, by its index, UUID or PCI bus id; without it, all GPUs
    are reset (read 2026-11-22).
    """
    options = tuple(dict.fromkeys(named))
    known = [option for option in options if option is not None]
    if len(known) != len(options) or len(known) > _MOST:
        return ()
    return tuple(Fix(text, ("sudo", "nvidia-smi", "--gpu-reset", "-i", option)) for option in known)


# What to do about a board that the driver finds and cannot start: of the doctor's checks, and of the same words alone.
# Pure data.

CONNECT_POWER = (
    Fix("Switch the machine off, and connect every power cable of the GPU, of the kind that its maker names."),
)
GIVE_ROOM = (
    Fix("Turn on Above 4G Decoding in the machine's firmware; for a virtual machine, a larger 64-bit window."),
    Fix("Or let the kernel hand the addresses out anew: start it with pci=realloc."),
)
# NVIDIA, driver README, PCI-Express Runtime D3 (RTD3) Power Management: NVreg_DynamicPowerManagement.
WAKE_UP = (
    Fix("Switch the machine off wholly, take it off its power for a moment, and start it: a restart may not do it."),
    Fix(
        "Where it comes back on a laptop, keep the GPU out of the deepest sleep: options nvidia "
        "NVreg_DynamicPowerManagement=0x00, in a file below /etc/modprobe.d."
    ),
    Fix("Where it comes back on a board in a slot, check its seating, power and cooling, and have it replaced."),
)
