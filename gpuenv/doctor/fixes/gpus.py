"""How a GPU is named in findings and commands, and fixes for a board that does not start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuenv.model.finding import Fix
from gpuenv.model.nvidia import pci_key
from gpuenv.model.snapshot import Gpu, Snapshot
from gpuenv.model.strings import pattern

_MOST_RESETS = 4  # more resets than this are not listed: restarting the machine is one step


def gpu_label(gpu: Gpu) -> str:
    """NVML index or bus address of a GPU, and its product."""
    product = gpu.name.value or "unknown product"
    if gpu.index.value is not None:
        return f"GPU {gpu.index.value} ({product})"
    address = pci_key(gpu.pci.value)
    return f"GPU at {address} ({product})" if address else f"GPU ({product})"


def find_gpu(gpus: Sequence[Gpu], uuid: str | None) -> tuple[int, Gpu | None]:
    """The GPU of this UUID and its index in the list; (0, None) if it is not listed."""
    found = ((index, gpu) for index, gpu in enumerate(gpus) if uuid and gpu.uuid.value == uuid)
    return next(found, (0, None))


def smi_selector(gpu: Gpu) -> str | None:
    """The nvidia-smi selector: the address, else the index, which may change with a restart."""
    address = pci_key(gpu.pci.value)
    if address is not None:
        return address
    return None if gpu.index.value is None else str(gpu.index.value)


def reset_fixes(text: str, selectors: Iterable[str | None]) -> tuple[Fix, ...]:
    """Resets of these GPUs by their selectors, one command each; empty if one has no selector.

    The manual of nvidia-smi, --gpu-reset: -i names the device, by its index, UUID or PCI bus id; without it, all GPUs
    are reset (read 2026-11-22).
    """
    options = tuple(dict.fromkeys(selectors))
    known = [option for option in options if option is not None]
    if len(known) != len(options) or len(known) > _MOST_RESETS:
        return ()
    return tuple(Fix(text, ("sudo", "nvidia-smi", "--gpu-reset", "-i", option)) for option in known)


# Boards without NVSwitch: those in a PCIe slot, and those connected by bridges alone.
_SLOT_BOARD = pattern(r"\bPCI[Ee]\b|\bNVL\b|GeForce|RTX|Quadro|TITAN|\b(?:T4|L4|L40S?|A2|A10|A16|A30|A40)\b")


def is_slot_board(gpu: Gpu) -> bool:
    """Whether a GPU is a board in a slot, by its product; others are modules on a baseboard, or unknown."""
    return _SLOT_BOARD.search(gpu.name.value or "") is not None


# The manual of nvidia-smi, -d: the row remapper of Ampere and newer, and the retired pages of older GPUs.
SHOW_REMAPPING = Fix(
    "Then see whether a remapping has failed: if so, have the GPU replaced.",
    ("nvidia-smi", "-q", "-d", "ROW_REMAPPER,PAGE_RETIREMENT"),
)


def look_for_xid(snapshot: Snapshot) -> tuple[Fix, ...]:
    """Where the driver reports what happened to a GPU; empty if the kernel log was read and has such an event."""
    if any(message.xid for message in snapshot.kernel_log.value or ()):
        return ()
    return (Fix("Look for Xid messages of the driver in the kernel log.", ("sudo", "dmesg")),)


# Fixes for a board that the driver finds and cannot start, for checks and for error messages.

CONNECT_POWER = (
    Fix("Switch the machine off, and connect every power cable of the GPU, of the kind that its vendor specifies."),
)
ENLARGE_PCI_WINDOW = (
    Fix("Turn on Above 4G Decoding in the machine's firmware; for a virtual machine, a larger 64-bit window."),
    Fix("Or let the kernel reassign the addresses: boot with pci=realloc."),
)
# NVIDIA, driver README, PCI-Express Runtime D3 (RTD3) Power Management: NVreg_DynamicPowerManagement.
POWER_CYCLE = (
    Fix("Switch the machine off, unplug it for a moment, and start it: a restart may not be enough."),
    Fix(
        "If it happens again on a laptop, disable the GPU's deepest sleep state: options nvidia "
        "NVreg_DynamicPowerManagement=0x00, in a file in /etc/modprobe.d."
    ),
    Fix("If it happens again with a board in a slot, check its seating, power and cooling, and have it replaced."),
)
