"""Sizes that fit into free memory, the limit of the memory pool, and pinned memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpuenv.smoke.payload.cupy_device import Busy, Skip, allocate_pinned
from gpuenv.smoke.payload.failures import GIB, AvailableMemory, available_memory, fit_size, verdict_on_gpu_memory
from gpuenv.smoke.payload.tests import GpuTest
from gpuenv.smoke.tasks import PAYLOAD
from tests.smoke.payload import NAMES, CUDARuntimeError, gpu_test

if TYPE_CHECKING:
    from pathlib import Path


def test_a_test_does_not_start_without_enough_gpu_memory() -> None:
    assert verdict_on_gpu_memory(1 * GIB, 2 * GIB, 80 * GIB) is None
    busy, small = verdict_on_gpu_memory(4 * GIB, 2 * GIB, 80 * GIB), verdict_on_gpu_memory(4 * GIB, 2 * GIB, 4 * GIB)
    assert busy is not None
    assert small is not None
    assert (busy.status, small.status) == ("busy", "skipped")


class Sized(GpuTest):
    """A test that needs its size in MiB."""

    SHRINKS = "n"

    def memory(self, size: dict[str, int]) -> int:
        return size["n"] << 20


def test_sizes_are_halved_until_they_fit() -> None:
    free, total = 1 << 30, 80 << 30
    assert fit_size(Sized(), {"n": 256}, AvailableMemory(free, total)) == ({"n": 256}, None)
    assert fit_size(Sized(), {"n": 4096}, AvailableMemory(free, total)) == ({"n": 512}, None)
    size, trouble = fit_size(Sized(), {"n": 1 << 20}, AvailableMemory(free, total))
    assert size["n"] >= (1 << 20) // 128
    assert trouble.status == "busy"
    assert fit_size(Sized(), {"n": 12}, AvailableMemory(200 << 20, total))[0] == {"n": 1}, "a size is at least 1"


@pytest.mark.parametrize("which", [which for which in NAMES if gpu_test(which).SHRINKS])
def test_the_smallest_halved_size_still_has_answers(which: str) -> None:
    test = gpu_test(which)
    for size in test.LEVELS.values():
        smallest = {**size, test.SHRINKS: max(size[test.SHRINKS] // 64, 1)}
        assert test.expect(test.inputs(np.random.default_rng(7), smallest))


def test_sizes_are_halved_until_they_fit_into_the_memory_pool() -> None:
    """The user's limit is not a fault of the GPU."""
    free, total = 79 << 30, 80 << 30
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, 1 << 30)) == ({"n": 1024}, None)
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, 0)) == ({"n": 2048}, None)
    _, trouble = fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, 1 << 20))
    assert (trouble.status, trouble.trouble) == ("skipped", "too-small")
    assert trouble.detail == "needs 32 MiB; the memory pool's limit is 1 MiB (CUPY_GPU_MEMORY_LIMIT)"


def test_a_test_without_an_estimate_runs_under_any_limit() -> None:
    assert fit_size(GpuTest(), {}, AvailableMemory(79 << 30, 80 << 30, 1 << 20)) == ({}, None)


def test_only_a_gpu_with_dedicated_memory_is_exhausted() -> None:
    """An integrated GPU would freeze its machine (pytorch#174358); WSL grants the memory (microsoft/WSL#11050)."""
    obstacle = gpu_test("memory.exhausted").obstacle
    assert obstacle(integrated=False, wsl=False) == ""
    assert "shares the host's memory" in obstacle(integrated=True, wsl=False)
    assert "WSL" in obstacle(integrated=False, wsl=True)


MEMINFO = "MemTotal:        7990000 kB\nMemFree:          210000 kB\nMemAvailable:    5210000 kB\nCached: 5000000 kB\n"


def test_the_free_memory_of_an_integrated_gpu_is_memavailable(tmp_path: Path) -> None:
    """CUDA reports MemFree, which is small once files have been read (measured on a GB10: unsloth#10704)."""
    (tmp_path / "meminfo").write_text(MEMINFO, encoding="ascii")
    assert available_memory(str(tmp_path / "meminfo")) == 5210000 * 1024
    (tmp_path / "old").write_text(MEMINFO.replace("MemAvailable", "Other"), encoding="ascii")
    assert available_memory(str(tmp_path / "old")) == 0
    assert available_memory(str(tmp_path / "none")) == 0


def pinning_at_most(most: int) -> Any:  # noqa: ANN401 - a function
    """An allocator of up to that many elements; it returns their number."""

    def make(count: int) -> int:
        if count > most:
            raise CUDARuntimeError(2)
        return count

    return make


def test_pinned_memory_is_halved_until_it_can_be_allocated() -> None:
    size = 1 << 25
    assert allocate_pinned(pinning_at_most(size), size) == size
    assert allocate_pinned(pinning_at_most(size // 3), size) == size // 4
    with pytest.raises(CUDARuntimeError):
        allocate_pinned(pinning_at_most(0), size)


def test_no_test_requires_a_fixed_amount_of_pinned_memory() -> None:
    """A system may pin less memory; CUDA reports that like a lack of GPU memory."""
    for path in (PAYLOAD / "tests").glob("*.py"):
        assert "empty_pinned" not in path.read_text(encoding="utf-8")


def test_a_lack_of_managed_memory_skips_the_test() -> None:
    allocate = gpu_test("memory.managed").allocate
    assert allocate(lambda: 7) == 7

    def refused(status: int) -> None:
        raise CUDARuntimeError(status)

    with pytest.raises(Skip, match="has no managed memory"):
        allocate(lambda: refused(801))
    with pytest.raises(CUDARuntimeError):
        allocate(lambda: refused(700))


@pytest.mark.parametrize(
    ("losses", "leak"),
    [
        ([0], 0),
        ([-(1 << 30)], -(1 << 30)),
        ([1 << 30, 0], 0),
        ([1 << 30, 1 << 29], 1 << 29),
        ([1 << 29, 1 << 30], 1 << 29),
    ],
)
def test_a_single_loss_of_memory_to_others_is_not_a_leak(losses: list[int], leak: int) -> None:
    assert gpu_test("memory.leak").leaked(iter(losses).__next__, lambda: 0) == leak


@pytest.mark.parametrize(("losses", "idle"), [([1 << 30, 1 << 30], 1 << 20), ([1 << 30, 1 << 28], 0)])
def test_a_neighbour_that_grows_while_memory_is_watched_is_busy(losses: list[int], idle: int) -> None:
    with pytest.raises(Busy, match="another program takes memory"):
        gpu_test("memory.leak").leaked(iter(losses).__next__, lambda: idle)
