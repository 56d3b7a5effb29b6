"""How many processors the tests may use at the same time."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_MEMBERSHIP, _GROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"
# The first is of version 2 (cgroup-v2, CPU Interface Files), the others are of version 1 (sched-bwc, Management).
_QUOTA_AND_PERIOD = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")


def processor_count(membership: str = _MEMBERSHIP, groups: str = _GROUPS) -> int:
    """Returns how many processors this process may use.

    A batch system or a container may restrict it to some of them, or to a part of their time (docker --cpus, limits of
    Kubernetes).
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min((allowed, *time_limits(membership, groups)))


def time_limits(membership: str, groups: str) -> Iterator[int]:
    """Yields the limits on processor time of its control groups, upwards, in whole processors."""
    for line in _text(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = f"{groups}/cpu" if controllers else groups
        folder = top + path.rstrip("/")
        while len(folder) >= len(top):  # a container sees its own group as the root
            numbers = " ".join(_text(f"{folder}/{name}") for name in _QUOTA_AND_PERIOD).split()
            if len(numbers) == 2 and all(map(str.isdecimal, numbers)):  # noqa: PLR2004 - neither "max" nor -1
                yield max(1, math.ceil(int(numbers[0]) / int(numbers[1])))
            folder = folder.rpartition("/")[0]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
