"""What keeps the driver's kernel module from being loaded, and how to let it through. Pure.

modprobe.d(5): a blacklist line has modprobe ignore the module's own aliases, by which the kernel asks for it; by its
name it can be loaded all the same. modprobe(8): modprobe.blacklist= is such a line. The kernel's module_blacklist=, an
install line with a command that does nothing, and an alias for the module's own name keep it out by every name.
dracut.cmdline(7): rd.driver.blacklist= is for the initial RAM disk.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.remedies import family, initial_disk
from gpuenv.model.finding import Fix
from gpuenv.model.presence import SWITCHED_OFF
from gpuenv.model.snapshot import Snapshot

_OF_THE_INITIAL_DISK = "/proc/cmdline: rd.driver.blacklist="
# canonical/nvidia-prime, prime-select, _blacklist_nvidia; others write the same line into files of their own below /etc
# (system76-power.conf, and blacklist-nvidia.conf, which EnvyControl's extension for GNOME reads; seen 2026-11-22).
_OF_PRIME_SELECT = ("/lib/modprobe.d/blacklist-nvidia.conf: ", "/usr/lib/modprobe.d/blacklist-nvidia.conf: ")


def blocks(snapshot: Snapshot) -> tuple[str, ...]:
    """What keeps it out of the system that runs; not what concerns the initial RAM disk alone."""
    found = snapshot.driver.module_blocks.value or ()
    return tuple(block for block in found if not block.startswith(_OF_THE_INITIAL_DISK))


def keeps_out(block: str) -> bool:
    """Whether it keeps the module out by every name, and not by its aliases alone."""
    _, _, line = block.partition(": ")
    return not line.startswith(("blacklist", "modprobe.blacklist="))


def by_prime_select(snapshot: Snapshot) -> bool:
    """Whether Ubuntu's prime-select has switched the GPU off: its line, in its file, on its system."""
    ours = family(snapshot) == "ubuntu"
    return ours and any(b.startswith(_OF_PRIME_SELECT) and b.endswith(SWITCHED_OFF) for b in blocks(snapshot))


def switched_off(snapshot: Snapshot) -> tuple[str, ...]:
    """The lines by which programs switch a laptop's GPU off."""
    return tuple(block for block in blocks(snapshot) if _is_switched_off(block))


def let_through(snapshot: Snapshot) -> Iterator[Fix]:
    """How the blocks are taken out; nothing where there is none."""
    found = blocks(snapshot)
    if not found:
        return
    if by_prime_select(snapshot):
        yield Fix("Switch the GPU on again, then restart.", ("sudo", "prime-select", "on-demand"))
        return
    tool = " (or switch the GPU on with the program that wrote it)" if any(map(_is_switched_off, found)) else ""
    yield Fix(f"Take out what keeps the module from being loaded{tool}: {'; '.join(found)}")
    at_boot = all(block.startswith("/proc/cmdline") for block in found)
    words = "make the boot loader's configuration anew" if at_boot else "make the initial RAM disk anew"
    yield Fix(f"Then {words}, and restart.", None if at_boot else initial_disk(snapshot))


def _is_switched_off(block: str) -> bool:
    return block.endswith(SWITCHED_OFF)
