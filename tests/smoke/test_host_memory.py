"""Host memory and processors: what tests need, and what the machine or container allows."""

from __future__ import annotations

import os
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
from gpuenv.smoke.processors import processor_count, time_limits
from gpuenv.smoke.tasks import all_tests
from tests.smoke.payload import gpu_test
from tests.smoke.test_sizes import MEMINFO, Sized

if TYPE_CHECKING:
    from pathlib import Path

AVAILABLE = 5210000 * 1024
MIB = 1 << 20


def test_sizes_are_halved_until_they_fit_into_host_memory() -> None:
    """The kernel kills a process that exceeds the limit of its container, and a healthy GPU would seem to crash."""
    free, total = 79 << 30, 80 << 30
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, host=7 << 30)) == ({"n": 2048}, None)
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, host=5 << 30)) == ({"n": 1024}, None)
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, host=0)) == ({"n": 2048}, None), (
        "the free host memory is unknown"
    )
    _, trouble = fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, host=90 << 20))
    assert (trouble.status, trouble.trouble) == ("skipped", "host-memory")
    assert trouble.detail == "needs 96 MiB of the host's memory; 90 MiB are available"
    assert fit_size(GpuTest(), {}, AvailableMemory(free, total, host=100 << 20)) == ({}, None)


def test_an_integrated_gpu_needs_memory_for_both_sides() -> None:
    """With 5 GiB free on a Jetson, 2 GiB on the GPU would leave 3 GiB for 6 GiB of input and answers."""
    free, total = 5 << 30, 8 << 30
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total)) == ({"n": 2048}, None)
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, host=free, shared=True)) == ({"n": 1024}, None)
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, shared=True)) == ({"n": 1024}, None), (
        "the free host memory is unknown"
    )


class Fixed(GpuTest):
    """A test with a single size."""

    def memory(self, size: dict[str, int]) -> int:
        return size["mib"] << 20


def test_a_lack_of_shared_memory_for_the_host_side_is_not_a_busy_gpu() -> None:
    """The GPU of a Jetson was reported as busy although its own part fitted."""
    free, total = 3 << 30, 8 << 30
    assert fit_size(Fixed(), {"mib": 600}, AvailableMemory(free, total, host=free, shared=True))[1] is None
    _, trouble = fit_size(Fixed(), {"mib": 900}, AvailableMemory(free, total, host=free, shared=True))
    assert (trouble.status, trouble.trouble) == ("skipped", "host-memory")
    assert trouble.detail == "needs 3.8 GiB of the host's memory; 3.0 GiB are available"
    _, trouble = fit_size(Fixed(), {"mib": 3000}, AvailableMemory(free, total, host=free, shared=True))
    assert (trouble.status, trouble.trouble) == ("skipped", "host-memory"), (
        "it would not fit without other processes either"
    )
    _, trouble = fit_size(Fixed(), {"mib": 1500}, AvailableMemory(1 << 30, total, host=1 << 30, shared=True))
    assert (trouble.status, trouble.trouble) == ("busy", "memory-held-by-others"), "its own part does not fit"


WITH_ESTIMATE = [test.name for test in all_tests() if gpu_test(test.name).memory(dict(next(iter(test.sizes.values()))))]


@cache
def peak_and_estimate(which: str) -> tuple[int, float]:
    """Peak host memory of input, answers and comparison, and the estimate, in bytes."""
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


@pytest.mark.long
@pytest.mark.parametrize("which", WITH_ESTIMATE)
def test_no_test_exceeds_its_estimate_of_host_memory(which: str) -> None:
    peak, estimate = peak_and_estimate(which)
    assert peak <= estimate + DEFAULT_MEMORY / 2


@pytest.mark.long
@pytest.mark.parametrize("which", WITH_ESTIMATE)
def test_no_estimate_of_host_memory_is_far_too_high(which: str) -> None:
    """For transforms that take 2 GiB, 9 GiB were estimated: more than many containers have."""
    test, (peak, estimate) = gpu_test(which), peak_and_estimate(which)
    most = max(test.memory(size) for size in test.LEVELS.values()) * test.HOST
    assert most <= 512 * MIB or estimate <= 3.5 * peak


def test_a_memory_error_of_the_host_is_not_a_failure_of_the_gpu() -> None:
    """A system that does not overcommit (vm.overcommit_memory, ulimit -v) refuses an allocation and kills nothing."""
    with pytest.raises(MemoryError) as refused:
        np.empty(1 << 60, dtype=np.uint8)
    verdict = verdict_on_setup_error(refused.value)
    assert (verdict.status, verdict.trouble) == ("skipped", "host-memory")
    assert "Unable to allocate" in verdict.detail
    assert verdict_on_setup_error(ValueError("Unable to allocate")).status == "failed"


def write_control_group(folder: Path, limit: str, used_mib: int, file_names: tuple[str, str, str]) -> None:
    """Write a memory control group: its limit and usage, of which 100 MiB are reclaimable files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file_names[0]).write_text(f"{limit}\n", encoding="ascii")
    (folder / file_names[1]).write_text(f"{used_mib * MIB}\n", encoding="ascii")
    files = {"inactive_file": 60, "active_file": 10, "slab_reclaimable": 30} if file_names == CGROUP_V2 else {}
    files = files or {"total_inactive_file": 60, "total_active_file": 40}
    lines = "".join(f"{name} {count * MIB}\n" for name, count in files.items())
    (folder / "memory.stat").write_text(f"anon 5\n{lines}slab_unreclaimable {7 * MIB}\nodd\n", encoding="ascii")


CGROUP_V2 = ("memory.max", "memory.current", "")
CGROUP_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")


@pytest.mark.parametrize(
    ("membership", "folder_name", "file_names"),
    [
        ("0::/\n", ".", CGROUP_V2),
        ("0::/slurm/job_7/step_0\n", "slurm/job_7", CGROUP_V2),
        ("5:cpu,cpuacct:/x\n3:memory:/\n", "memory", CGROUP_V1),
        ("3:cpuset,memory:/docker/0123abcd\n", "memory", CGROUP_V1),  # a folder of the host, absent in the container
    ],
)
def test_the_limit_of_a_control_group_bounds_the_free_memory(
    tmp_path: Path, membership: str, folder_name: str, file_names: tuple[str, str, str]
) -> None:
    meminfo, membership_file, groups = tmp_path / "meminfo", tmp_path / "cgroup", tmp_path / "groups"
    meminfo.write_text(MEMINFO, encoding="ascii")
    membership_file.write_text(membership, encoding="ascii")
    paths = (str(meminfo), str(membership_file), str(groups))
    assert free_host_memory(*paths) == AVAILABLE
    write_control_group(groups / folder_name, str(2048 * MIB), 1500, file_names)
    assert free_host_memory(*paths) == 648 * MIB
    write_control_group(groups / folder_name, str(1000 * MIB), 1200, file_names)
    assert free_host_memory(*paths) == 1, "above the limit: no free memory, which differs from unknown"
    write_control_group(
        groups / folder_name, "max" if file_names == CGROUP_V2 else str((1 << 63) - 4096), 1500, file_names
    )
    assert free_host_memory(*paths) == AVAILABLE
    assert free_host_memory(str(tmp_path / "none"), str(tmp_path / "none"), str(groups)) == 0


@pytest.mark.parametrize(
    ("membership", "files", "limits"),
    [
        ("0::/\n", {"cpu.max": "50000 100000"}, [1]),
        ("0::/pod/main\n", {"pod/main/cpu.max": "max 100000", "pod/cpu.max": "250000 100000"}, [3]),
        ("0::/pod/main\n", {"pod/main/cpu.max": "400000 100000", "pod/cpu.max": "200000 100000"}, [4, 2]),
        ("0::/\n", {}, []),
        (
            "5:cpu,cpuacct:/docker/0123abcd\n3:memory:/\n0::/\n",  # a folder of the host, absent in the container
            {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "20000"},
            [3],
        ),
        ("5:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, []),
    ],
)
def test_a_limit_on_processor_time_is_a_number_of_processors(
    tmp_path: Path, membership: str, files: dict[str, str], limits: list[int]
) -> None:
    """Otherwise the tests of a container with little processor time would time out on a healthy GPU."""
    membership_file, groups = tmp_path / "cgroup", tmp_path / "groups"
    membership_file.write_text(membership, encoding="ascii")
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(f"{text}\n", encoding="ascii")
    assert list(time_limits(str(membership_file), str(groups))) == limits
    assert 1 <= processor_count(str(membership_file), str(groups)) <= min((os.cpu_count() or 1, *limits))
