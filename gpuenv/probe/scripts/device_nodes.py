"""Keeps the driver's libraries from making device nodes where there is no driver.

Run by root, NVML, libcuda and nvidia-smi make ``/dev/nvidiactl`` where it is missing, also where no kernel module would
answer behind it (measured without one: 390.157, 470.256.02, 535.261.03 and 550.163.01 do, 340.108 does not). To ask
shall change nothing, and whoever asks next would take the node for a driver's. Without the right to make nodes they
answer what they answer with it (measured with the same five).
"""

from __future__ import annotations

import os
import sys

_DROP_FROM_BOUNDS = 24  # PR_CAPBSET_DROP of include/uapi/linux/prctl.h
_MAKE_NODES = 27  # CAP_MKNOD of include/uapi/linux/capability.h, whose version 3 has two words of each set
_VERSION, _WORDS = 0x20080522, 6
# What is there with a driver; with a GPU on the bus it may come while the libraries ask, who then need the nodes.
_OF_A_DRIVER = ("dev/nvidiactl", "proc/driver/nvidia", "sys/module/nvidia", "dev/dxg", "dev/nvmap")
_BUS, _NVIDIA = "sys/bus/pci/devices", "0x10de"


def make_none(root: str = "/") -> None:
    """Takes the right to make nodes from this thread and its children, where no driver and no GPU is to be seen."""
    if sys.platform != "linux" or os.geteuid() != 0 or _may_be_driven(root):
        return
    import ctypes  # noqa: PLC0415 - of use here alone

    try:
        libc = ctypes.CDLL(None)
        libc.prctl(_DROP_FROM_BOUNDS, _MAKE_NODES, 0, 0, 0)
        header, sets = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * _WORDS)()
        if libc.capget(header, sets) != 0:
            return
        for place in range(_WORDS // 2):  # effective, permitted, inheritable
            sets[place] &= ~(1 << _MAKE_NODES)
        libc.capset(header, sets)
    except (OSError, AttributeError):
        return


def _may_be_driven(root: str) -> bool:
    if any(os.path.exists(os.path.join(root, path)) for path in _OF_A_DRIVER):
        return True
    bus = os.path.join(root, _BUS)
    try:
        return any(_vendor(os.path.join(bus, device)) == _NVIDIA for device in os.listdir(bus))
    except OSError:
        return True  # nobody knows what is on it


def _vendor(device: str) -> str:
    try:
        with open(os.path.join(device, "vendor")) as file:
            return file.read(16).strip()
    except OSError:
        return _NVIDIA  # likewise
