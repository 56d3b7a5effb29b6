"""How a GPU is called in a finding, and named in a command. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpuenv.model.finding import Fix
from gpuenv.model.gpu import Gpu
from gpuenv.model.identity import pci_key

_MOST = 4  # resets that are told one by one; the restart of the machine is one step


def called(gpu: Gpu) -> str:
    """A GPU among others: its NVML index, else its address on the bus, and its product."""
    product = gpu.name.value or "without a name"
    if gpu.index.value is not None:
        return f"GPU {gpu.index.value} ({product})"
    address = pci_key(gpu.pci.value)
    return f"GPU at {address} ({product})" if address else f"GPU ({product})"


def option_of(gpu: Gpu) -> str | None:
    """What names it to nvidia-smi; the address before the index, which may change with a restart."""
    address = pci_key(gpu.pci.value)
    if address is not None:
        return address
    return None if gpu.index.value is None else str(gpu.index.value)


def resets(text: str, named: Iterable[str | None]) -> tuple[Fix, ...]:
    """Resets of these GPUs and of no other, each by a command of its own; none where one has no name.

    The manual of nvidia-smi, --gpu-reset: -i names the device, by its index, UUID or PCI bus id; without it, all GPUs
    are reset (read 2026-11-22).

    Args:
        text: what to do.
        named: what names each to nvidia-smi.
    """
    options = tuple(dict.fromkeys(named))
    known = [option for option in options if option is not None]
    if len(known) != len(options) or len(known) > _MOST:
        return ()
    return tuple(Fix(text, ("sudo", "nvidia-smi", "--gpu-reset", "-i", option)) for option in known)
