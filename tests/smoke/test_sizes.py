"""Sizes that fit into what is free, into the pool's limit, and into what the system pins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpuenv.smoke.payload.cupy_device import Skip, allocate_pinned
from gpuenv.smoke.payload.failures import GIB, AvailableMemory, available_memory, fit_size, verdict_on_gpu_memory
from gpuenv.smoke.payload.tests import GpuTest
from gpuenv.smoke.tasks import PAYLOAD
from tests.smoke.payload import NAMES, CUDARuntimeError, gpu_test

if TYPE_CHECKING:
    from pathlib import Path


def test_a_test_does_not_begin_without_room() -> None:
    assert verdict_on_gpu_memory(1 * GIB, 2 * GIB, 80 * GIB) is None
    busy, small = verdict_on_gpu_memory(4 * GIB, 2 * GIB, 80 * GIB), verdict_on_gpu_memory(4 * GIB, 2 * GIB, 4 * GIB)
    assert busy is not None
    assert small is not None
    assert (busy.status, small.status) == ("busy", "skipped")


class Sized(GpuTest):
    """A test whose memory is its size in MiB."""

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
    assert fit_size(Sized(), {"n": 12}, AvailableMemory(200 << 20, total))[0] == {"n": 1}, "a size of nothing is none"


@pytest.mark.parametrize("which", [which for which in NAMES if gpu_test(which).SHRINKS])
def test_a_size_that_was_halved_to_its_least_is_still_one(which: str) -> None:
    test = gpu_test(which)
    for size in test.LEVELS.values():
        least = {**size, test.SHRINKS: max(size[test.SHRINKS] // 64, 1)}
        assert test.expect(test.inputs(np.random.default_rng(7), least))


def test_sizes_are_halved_until_they_are_within_the_pool_s_limit() -> None:
    """The user's own limit is no fault of the GPU's."""
    free, total = 79 << 30, 80 << 30
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, 1 << 30)) == ({"n": 1024}, None)
    assert fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, 0)) == ({"n": 2048}, None)
    _, trouble = fit_size(Sized(), {"n": 2048}, AvailableMemory(free, total, 1 << 20))
    assert (trouble.status, trouble.trouble) == ("skipped", "too-small")
    assert trouble.detail == "needs 32 MiB; the memory pool's limit is 1 MiB (CUPY_GPU_MEMORY_LIMIT)"


def test_a_test_that_does_not_say_what_it_takes_is_tried_under_any_limit() -> None:
    assert fit_size(GpuTest(), {}, AvailableMemory(79 << 30, 80 << 30, 1 << 20)) == ({}, None)


def test_more_than_there_is_is_asked_of_a_gpu_with_memory_of_its_own_alone() -> None:
    """The machine of an integrated GPU stands still (pytorch#174358); one in WSL is given it (microsoft/WSL#11050)."""
    obstacle = gpu_test("memory.exhausted").obstacle
    assert obstacle(integrated=False, wsl=False) == ""
    assert "shares the host's memory" in obstacle(integrated=True, wsl=False)
    assert "WSL" in obstacle(integrated=False, wsl=True)


MEMINFO = "MemTotal:        7990000 kB\nMemFree:          210000 kB\nMemAvailable:    5210000 kB\nCached: 5000000 kB\n"


def test_what_an_integrated_gpu_can_have_is_what_the_kernel_can_give(tmp_path: Path) -> None:
    """CUDA calls MemFree free, which is little once files have been read (measured on a GB10: unsloth#10704)."""
    (tmp_path / "meminfo").write_text(MEMINFO, encoding="ascii")
    assert available_memory(str(tmp_path / "meminfo")) == 5210000 * 1024
    (tmp_path / "old").write_text(MEMINFO.replace("MemAvailable", "Other"), encoding="ascii")
    assert available_memory(str(tmp_path / "old")) == 0
    assert available_memory(str(tmp_path / "none")) == 0


def pinned_up_to(most: int) -> Any:  # noqa: ANN401 - a function
    """A maker of arrays that are no longer than that; it returns their length."""

    def make(count: int) -> int:
        if count > most:
            raise CUDARuntimeError(2)
        return count

    return make


def test_as_much_is_pinned_as_the_system_lets() -> None:
    whole = 1 << 25
    assert allocate_pinned(pinned_up_to(whole), whole) == whole
    assert allocate_pinned(pinned_up_to(whole // 3), whole) == whole // 4
    with pytest.raises(CUDARuntimeError):
        allocate_pinned(pinned_up_to(0), whole)


def test_no_test_insists_on_an_amount_of_pinned_memory() -> None:
    """A system that pins less is sound; CUDA tells of it as it tells of a lack of the GPU's own memory."""
    for path in (PAYLOAD / "tests").glob("*.py"):
        assert "empty_pinned" not in path.read_text(encoding="utf-8")


def test_managed_memory_that_is_refused_says_nothing_of_the_gpu() -> None:
    lent = gpu_test("memory.managed").lent
    assert lent(lambda: 7) == 7

    def refused(status: int) -> None:
        raise CUDARuntimeError(status)

    with pytest.raises(Skip, match="has no managed memory"):
        lent(lambda: refused(801))
    with pytest.raises(CUDARuntimeError):
        lent(lambda: refused(700))


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ([0], 0),
        ([-(1 << 30)], -(1 << 30)),
        ([1 << 30, 0], 0),
        ([1 << 30, 1 << 29], 1 << 29),
        ([1 << 29, 1 << 30], 1 << 29),
    ],
)
def test_memory_that_others_take_once_is_no_leak(gone: list[int], told: int) -> None:
    assert gpu_test("memory.leak").leaked(iter(gone).__next__) == told
