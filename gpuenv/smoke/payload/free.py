"""How much memory is free: the GPU's, and the host's."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple, Tuple

INTEGRATED = 18  # cudaDevAttrIntegrated (driver_types.h)
MEMINFO = "/proc/meminfo"
MEMBERSHIP, GROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"
# Limit, use, and what of that is files and their names, which the kernel gives away when memory is asked for: CUDA's
# libraries may well be gigabytes (Control Group v2, Memory Interface Files; cgroup-v1/memory, which tells no names).
SECOND = ("memory.max", "memory.current", "")
FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
FILES = ("inactive_file", "active_file", "slab_reclaimable")


class Room(NamedTuple):
    """Bytes that there are for a test.

    ``free`` and ``total`` of the GPU; ``limit`` of the pool, the user's own, or 0; ``host`` that may be taken of the
    host's, or 0 where nobody knows; ``shared`` where the two are one memory.
    """

    free: int
    total: int
    limit: int = 0
    host: int = 0
    shared: bool = False


def room_here(cp: Any) -> Room:
    """What there is for this process, on the current device."""
    limit = int(cp.get_default_memory_pool().get_limit())
    return Room(*free_and_total(cp), limit, host_room(), is_integrated(cp))


def is_integrated(cp: Any) -> bool:
    """Whether the current device's memory is that of the whole machine."""
    return bool(cp.cuda.runtime.deviceGetAttribute(INTEGRATED, cp.cuda.Device().id))


def free_and_total(cp: Any) -> Tuple[int, int]:
    """Bytes, of the current device.

    What CUDA calls free on a GPU that shares the machine's memory is the kernel's MemFree: it counts files that merely
    lie in memory as taken, though the kernel gives their room away when it is asked for.
    """
    free, total = (int(number) for number in cp.cuda.runtime.memGetInfo())
    if is_integrated(cp):
        free = max(free, min(available(MEMINFO), total))
    return free, total


def available(path: str) -> int:
    """Bytes that the kernel can give to programs without swapping; 0 where it does not tell."""
    return _entry(path, "MemAvailable:") * 1024


def host_room(meminfo: str = MEMINFO, membership: str = MEMBERSHIP, groups: str = GROUPS) -> int:
    """Bytes of the host's memory that this process may still take; 0 where nothing tells.

    A container or a batch system may give it a part of what the machine has free, and ends it when it takes more.
    """
    return min((room for room in (available(meminfo), *_left(membership, groups)) if room), default=0)


def _left(membership: str, groups: str) -> Iterator[int]:
    """What the limits of its control groups leave, from its own up; a container sees its own as the topmost."""
    for line in _text(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, place = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        top, names = (groups + "/memory", FIRST) if controllers else (groups, SECOND)
        folder = top + place.rstrip("/")
        while len(folder) >= len(top):
            limit, used = _text("%s/%s" % (folder, names[0])).strip(), _text("%s/%s" % (folder, names[1])).strip()
            if limit.isdigit() and used.isdigit():
                files = sum(_entry(folder + "/memory.stat", names[2] + kind) for kind in FILES)
                yield max(int(limit) - int(used) + files, 1)
            folder = folder.rpartition("/")[0]


def _entry(path: str, name: str) -> int:
    """The number after a name, in a file with one a line; 0 where there is none."""
    lines = [line.split() for line in _text(path).splitlines()]
    return next((int(words[1]) for words in lines if words[:1] == [name] and "".join(words[1:2]).isdigit()), 0)


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
