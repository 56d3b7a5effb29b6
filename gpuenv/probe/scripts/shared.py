"""What the scripts share that run under gpuenv's own interpreter."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

_DROP_FROM_BOUNDS = 24  # PR_CAPBSET_DROP of include/uapi/linux/prctl.h
_MAKE_NODES = 27  # CAP_MKNOD of include/uapi/linux/capability.h, whose version 3 has two words of each set
_VERSION, _WORDS = 0x20080522, 6
# What is there with a driver; with a GPU on the bus it may come while the libraries ask, who then need the nodes.
_OF_A_DRIVER = ("dev/nvidiactl", "proc/driver/nvidia", "sys/module/nvidia", "dev/dxg", "dev/nvmap")
_BUS, _NVIDIA = "sys/bus/pci/devices", "0x10de"
LONGEST = 8192  # bytes; one record of /dev/kmsg is no longer
_MOST_RECORDS = 100_000  # a flood is not read for ever
LOST = b"(records were lost)"


def tell(key: str, value: object) -> None:
    """Prints one fact at once, so that it survives whatever happens to this process next."""
    body = json.dumps({key: value})
    if "\\udc" in body:  # a file's name that is no text
        replaced = json.dumps({key: value}, ensure_ascii=False).encode("utf-8", "replace")
        body = json.dumps(json.loads(replaced))
    sys.stdout.write(f"gpuenv:{body}\n")
    sys.stdout.flush()


def mapped_file(name: str) -> str | None:
    """The file that this process has mapped first of those whose names begin so; None where there is none."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = (line.split(None, 5)[-1].strip() for line in file if name in line)
            return next((path for path in paths if os.path.basename(path).startswith(name)), None)
    except OSError:
        return None


def make_none(root: str = "/") -> None:
    """Takes the right to make nodes from this thread and its children, where no driver and no GPU is to be seen.

    Run by root, NVML, libcuda and nvidia-smi make ``/dev/nvidiactl`` where it is missing, also where no kernel module
    would answer behind it (measured without one: 390.157, 470.256.02, 535.261.03 and 550.163.01 do, 340.108 does not).
    To ask shall change nothing, and whoever asks next would take the node for a driver's. Without the right to make
    nodes they answer what they answer with it (measured with the same five).
    """
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


def records(descriptor: int) -> Iterator[bytes]:
    """Every record of /dev/kmsg from here to the newest one.

    ``LOST`` stands where some were overwritten before they were read. Linux, Documentation/ABI/testing/dev-kmsg: one
    read gives one record; a read behind the newest would wait, and one of a record that was overwritten meanwhile
    fails and goes on behind it.
    """
    for _ in range(_MOST_RECORDS):
        try:
            record = os.read(descriptor, LONGEST)
        except BlockingIOError:  # that was the newest
            return
        except BrokenPipeError:
            record = LOST
        if not record:
            return
        yield record
