"""What to do about a board that the driver finds and cannot start: of the doctor's checks, and of the same words alone.

Pure data.
"""

from __future__ import annotations

from gpuenv.model.finding import Fix

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
