"""What tests take of the host's memory, and what there is of it: the machine's, and what a container may have."""

from __future__ import annotations

import tracemalloc
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from gpuenv.smoke.payload.expected import find_wrong
from gpuenv.smoke.payload.failures import (
    DEFAULT_MEMORY,
    AvailableMemory,
    fit_size,
    free_host_memory,
    verdict_on_setup_error,
)
from gpuenv.smoke.payload.tests import GpuTest
from gpuenv.smoke.tasks import all_tests
from tests.smoke.payload import gpu_test
from tests.smoke.test_sizes import MEMINFO, Sized

if TYPE_CHECKING:
    from pathlib import Path

AVAILABLE = 5210000 * 1024
MIB = 1 << 20


def test_sizes_are_halved_until_the_host_has_room_for_them_too() -> None:
    """The kernel ends a program that takes more than its container may, and a sound GPU would have crashed."""
    free, total = 79 << 30, 80 << 30
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, host=7 << 30)) == ({"n": 2048}, None)
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, host=5 << 30)) == ({"n": 1024}, None)
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, host=0)) == ({"n": 2048}, None), "nobody knows"
    _, trouble = fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, host=90 << 20))
    assert (trouble.status, trouble.trouble) == ("skipped", "host-memory")
    assert trouble.detail == "needs 96 MiB of the host's memory; 90 MiB are available"
    assert fit_size(GpuTest(), {}, AvailableMemory(free, total, host=100 << 20)) == ({}, None)


def test_what_shares_the_machine_s_memory_has_room_for_both_sides() -> None:
    """Of 5 GiB that a Jetson has free, 2 GiB on the GPU would leave 3 for the 6 of input and answers."""
    free, total = 5 << 30, 8 << 30
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total)) == ({"n": 2048}, None)
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, host=free, shared=True)) == ({"n": 1024}, None)
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, shared=True)) == ({"n": 1024}, None), (
        "nobody knows the host's"
    )


class Fixed(GpuTest):
    """A test of one size."""

    def memory(self, size: dict[str, int]) -> int:
        return size["mib"] << 20


def test_what_a_test_takes_of_the_host_s_memory_is_not_held_by_others_of_the_gpu_s() -> None:
    """The GPU of a Jetson was called busy, and the whole run with it, where its own part had room."""
    free, total = 3 << 30, 8 << 30
    assert fit_size(Fixed(), {"mib": 600}, AvailableMemory(free, total, host=free, shared=True))[1] is None
    _, trouble = fit_size(Fixed(), {"mib": 900}, AvailableMemory(free, total, host=free, shared=True))
    assert (trouble.status, trouble.trouble) == ("skipped", "host-memory")
    assert trouble.detail == "needs 3.8 GiB of the host's memory; 3.0 GiB are available"
    _, trouble = fit_size(Fixed(), {"mib": 3000}, AvailableMemory(free, total, host=free, shared=True))
    assert (trouble.status, trouble.trouble) == ("skipped", "host-memory"), "nor would it have room without others"
    _, trouble = fit_size(Fixed(), {"mib": 1500}, AvailableMemory(1 << 30, total, host=1 << 30, shared=True))
    assert (trouble.status, trouble.trouble) == ("busy", "memory-held-by-others"), "its own part has none"


TELLING = [test.name for test in all_tests() if gpu_test(test.name).memory(dict(next(iter(test.sizes.values()))))]


@cache
def taken(which: str) -> tuple[int, float]:
    """Bytes of the host's memory that input, answers and comparison take at most, and that are reckoned with."""
    test = gpu_test(which)
    levels = ("deep", "normal") if test.SHRINKS else ("normal", "deep")
    size = dict(next(test.LEVELS[level] for level in levels if level in test.LEVELS))
    while test.SHRINKS and test.memory(size) > DEFAULT_MEMORY and size[test.SHRINKS] > 1:
        size[test.SHRINKS] //= 2
    tracemalloc.start()
    try:
        expected = test.expect(test.inputs(np.random.default_rng(7), size))
        find_wrong(expected, {name: np.array(answer.value).astype(answer.dtype) for name, answer in expected.items()})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak, test.HOST * test.memory(size)


@pytest.mark.parametrize("which", TELLING)
def test_no_test_takes_more_of_the_host_s_memory_than_is_reckoned(which: str) -> None:
    peak, reckoned = taken(which)
    assert peak <= reckoned + DEFAULT_MEMORY / 2


@pytest.mark.parametrize("which", TELLING)
def test_no_test_is_left_out_for_far_more_of_the_host_s_memory_than_it_takes(which: str) -> None:
    """Of 8 GiB, as many a container has, 9 were reckoned for transforms that take 2."""
    test, (peak, reckoned) = gpu_test(which), taken(which)
    most = max(test.memory(size) for size in test.LEVELS.values()) * test.HOST
    assert most <= 512 * MIB or reckoned <= 3.5 * peak


def test_a_lack_of_the_host_s_memory_that_python_tells_is_no_failure_of_the_gpu() -> None:
    """A system that promises no more than it has (vm.overcommit_memory, ulimit -v) refuses, and ends nobody."""
    with pytest.raises(MemoryError) as refused:
        np.empty(1 << 60, dtype=np.uint8)
    told = verdict_on_setup_error(refused.value)
    assert (told.status, told.trouble) == ("skipped", "host-memory")
    assert "Unable to allocate" in told.detail
    assert verdict_on_setup_error(ValueError("Unable to allocate")).status == "failed"


def group(folder: Path, limit: str, used: int, names: tuple[str, str, str]) -> None:
    """A control group of memory: its limit, what is used, and 100 MiB of that files and, if it tells, their names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n", encoding="ascii")
    (folder / names[1]).write_text(f"{used * MIB}\n", encoding="ascii")
    files = {"inactive_file": 60, "active_file": 10, "slab_reclaimable": 30} if names == SECOND else {}
    files = files or {"total_inactive_file": 60, "total_active_file": 40}
    told = "".join(f"{name} {count * MIB}\n" for name, count in files.items())
    (folder / "memory.stat").write_text(f"anon 5\n{told}slab_unreclaimable {7 * MIB}\nodd\n", encoding="ascii")


SECOND = ("memory.max", "memory.current", "")
FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")


@pytest.mark.parametrize(
    ("membership", "place", "names"),
    [
        ("0::/\n", ".", SECOND),
        ("0::/slurm/job_7/step_0\n", "slurm/job_7", SECOND),
        ("5:cpu,cpuacct:/x\n3:memory:/\n", "memory", FIRST),
        ("3:cpuset,memory:/docker/0123abcd\n", "memory", FIRST),  # the host's folder, which the container does not see
    ],
)
def test_a_part_of_the_machine_s_memory_is_all_that_there_is(
    tmp_path: Path, membership: str, place: str, names: tuple[str, str, str]
) -> None:
    meminfo, own, groups = tmp_path / "meminfo", tmp_path / "cgroup", tmp_path / "groups"
    meminfo.write_text(MEMINFO, encoding="ascii")
    own.write_text(membership, encoding="ascii")
    asked = (str(meminfo), str(own), str(groups))
    assert free_host_memory(*asked) == AVAILABLE
    group(groups / place, str(2048 * MIB), 1500, names)
    assert free_host_memory(*asked) == 648 * MIB
    group(groups / place, str(1000 * MIB), 1200, names)
    assert free_host_memory(*asked) == 1, "more than may be: no room, which is not the same as unknown"
    group(groups / place, "max" if names == SECOND else str((1 << 63) - 4096), 1500, names)
    assert free_host_memory(*asked) == AVAILABLE
    assert free_host_memory(str(tmp_path / "none"), str(tmp_path / "none"), str(groups)) == 0
