"""Functions shared by the scripts that run under gpuenv's own interpreter."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

_DROP_FROM_BOUNDS = 24  # PR_CAPBSET_DROP of include/uapi/linux/prctl.h
_MAKE_NODES = 27  # CAP_MKNOD of include/uapi/linux/capability.h, whose version 3 has two 32-bit words of each set
_VERSION, _WORDS = 0x20080522, 6
# Traces of a driver. With a GPU on the bus it may be loaded during the queries, which then need the nodes.
_OF_A_DRIVER = ("dev/nvidiactl", "proc/driver/nvidia", "sys/module/nvidia", "dev/dxg", "dev/nvmap")
_BUS, _NVIDIA = "sys/bus/pci/devices", "0x10de"
LONGEST = 8192  # bytes; one record of /dev/kmsg is no longer
_MOST_RECORDS = 100_000  # bounds the reading of a flooded log
LOST = b"(records were lost)"


def emit(key: str, value: object) -> None:
    """Prints one fact and flushes, so that it survives a later crash or hang of this process."""
    body = json.dumps({key: value})
    if "\\udc" in body:  # a file name that is not UTF-8
        replaced = json.dumps({key: value}, ensure_ascii=False).encode("utf-8", "replace")
        body = json.dumps(json.loads(replaced))
    sys.stdout.write(f"gpuenv:{body}\n")
    sys.stdout.flush()


def mapped_file(name: str) -> str | None:
    """The first file mapped by this process whose name begins with ``name``; None without one."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = (line.split(None, 5)[-1].strip() for line in file if name in line)
            return next((path for path in paths if os.path.basename(path).startswith(name)), None)
    except OSError:
        return None


def is_absence(message: str, soname: str) -> bool:
    """Whether the loader's message means that a library is missing, as opposed to one that cannot be loaded.

    The latter may be empty, of another architecture, or need a missing library: glibc's message begins with the name
    of the missing library, musl's names it and then the one that needs it.
    """
    return "No such file" in message and soname in message.partition("(needed by")[0]


def forbid_device_nodes(root: str = "/") -> None:
    """Drops CAP_MKNOD for this thread and its children, if there is no trace of a driver or a GPU.

    Run by root, NVML, libcuda and nvidia-smi create ``/dev/nvidiactl`` where it is missing, even without a kernel
    module behind it (measured without one: 390.157, 470.256.02, 535.261.03 and 550.163.01 do, 340.108 does not).
    A probe must change nothing, and a later one would take the node for a driver's. Without the capability the
    libraries return the same codes (measured with the same five).
    """
    if sys.platform != "linux" or os.geteuid() != 0 or _may_have_driver(root):
        return
    import ctypes  # noqa: PLC0415 - used only here

    try:
        libc = ctypes.CDLL(None)
        libc.prctl(_DROP_FROM_BOUNDS, _MAKE_NODES, 0, 0, 0)
        header, sets = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * _WORDS)()
        if libc.capget(header, sets) != 0:
            return
        for index in range(_WORDS // 2):  # effective, permitted, inheritable
            sets[index] &= ~(1 << _MAKE_NODES)
        libc.capset(header, sets)
    except (OSError, AttributeError):
        return


def _may_have_driver(root: str) -> bool:
    if any(os.path.exists(os.path.join(root, path)) for path in _OF_A_DRIVER):
        return True
    bus = os.path.join(root, _BUS)
    try:
        return any(_vendor(os.path.join(bus, device)) == _NVIDIA for device in os.listdir(bus))
    except OSError:
        return True  # the bus cannot be read


def _vendor(device: str) -> str:
    try:
        with open(os.path.join(device, "vendor")) as file:
            return file.read(16).strip()
    except OSError:
        return _NVIDIA  # unreadable: assume a GPU


def records(descriptor: int) -> Iterator[bytes]:
    """Yields the records of /dev/kmsg from the current position to the newest.

    ``LOST`` replaces records that were overwritten before they were read. Linux, Documentation/ABI/testing/dev-kmsg:
    one read returns one record; a read after the newest would wait, and a read of an overwritten record fails, after
    which the next read returns the oldest record that is left.
    """
    for _ in range(_MOST_RECORDS):
        try:
            record = os.read(descriptor, LONGEST)
        except BlockingIOError:  # no newer record
            return
        except BrokenPipeError:
            record = LOST
        if not record:
            return
        yield record
