"""Sizes that fit into what is free, into the pool's limit, and into what the system pins."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpuenv.smoke.payload.answers import judge
from gpuenv.smoke.payload.free import Room, available, host_room
from gpuenv.smoke.payload.harness import HOST, UNTOLD, fitted
from gpuenv.smoke.payload.tests.memory_exhausted import obstacle
from gpuenv.smoke.payload.tests.transfer_rates import longest
from gpuenv.smoke.payload.troubles import GIB, too_little
from tests.smoke.payload import MODULES, CUDARuntimeError, module

if TYPE_CHECKING:
    from pathlib import Path


def test_a_test_does_not_begin_without_room() -> None:
    assert too_little(1 * GIB, 2 * GIB, 80 * GIB) is None
    busy, small = too_little(4 * GIB, 2 * GIB, 80 * GIB), too_little(4 * GIB, 2 * GIB, 4 * GIB)
    assert busy is not None
    assert small is not None
    assert (busy.status, small.status) == ("busy", "skipped")


class Sized:
    """A test whose memory is its size in MiB."""

    SHRINKS = "n"

    @staticmethod
    def memory(size: dict[str, int]) -> int:
        return size["n"] << 20


def test_sizes_are_halved_until_they_fit() -> None:
    free, total = 1 << 30, 80 << 30
    assert fitted(Sized, {"n": 256}, Room(free, total)) == ({"n": 256}, None)
    assert fitted(Sized, {"n": 4096}, Room(free, total)) == ({"n": 512}, None)
    size, trouble = fitted(Sized, {"n": 1 << 20}, Room(free, total))
    assert size["n"] >= (1 << 20) // 128
    assert trouble.status == "busy"
    assert fitted(Sized, {"n": 12}, Room(200 << 20, total))[0] == {"n": 1}, "a size of nothing is none"


@pytest.mark.parametrize("stem", MODULES)
def test_a_size_that_was_halved_to_its_least_is_still_one(stem: str) -> None:
    test = module(stem)
    if not hasattr(test, "SHRINKS"):
        return
    for size in test.LEVELS.values():
        least = {**size, test.SHRINKS: max(size[test.SHRINKS] // 64, 1)}
        assert test.expect(test.inputs(np.random.default_rng(7), least))


def test_sizes_are_halved_until_they_are_within_the_pool_s_limit() -> None:
    """The user's own limit is no fault of the GPU's."""
    free, total = 79 << 30, 80 << 30
    assert fitted(Sized, {"n": 2048}, Room(free, total, 1 << 30)) == ({"n": 1024}, None)
    assert fitted(Sized, {"n": 2048}, Room(free, total, 0)) == ({"n": 2048}, None)
    _, trouble = fitted(Sized, {"n": 2048}, Room(free, total, 1 << 20))
    assert (trouble.status, trouble.trouble) == ("skipped", "too-small")
    assert trouble.detail == "needs 32 MiB; the memory pool's limit is 1 MiB (CUPY_GPU_MEMORY_LIMIT)"


def test_a_test_that_does_not_say_what_it_takes_is_tried_under_any_limit() -> None:
    assert fitted(object(), {}, Room(79 << 30, 80 << 30, 1 << 20)) == ({}, None)


def test_more_than_there_is_is_asked_of_a_gpu_with_memory_of_its_own_alone() -> None:
    """The machine of an integrated GPU stands still (pytorch#174358); one in WSL is given it (microsoft/WSL#11050)."""
    assert obstacle(integrated=False, wsl=False) == ""
    assert "no memory of its own" in obstacle(integrated=True, wsl=False)
    assert "WSL" in obstacle(integrated=False, wsl=True)


MEMINFO = "MemTotal:        7990000 kB\nMemFree:          210000 kB\nMemAvailable:    5210000 kB\nCached: 5000000 kB\n"


def test_what_an_integrated_gpu_can_have_is_what_the_kernel_can_give(tmp_path: Path) -> None:
    """CUDA calls MemFree free, which is little once files have been read (measured on a GB10: unsloth#10704)."""
    (tmp_path / "meminfo").write_text(MEMINFO, encoding="ascii")
    assert available(str(tmp_path / "meminfo")) == 5210000 * 1024
    (tmp_path / "old").write_text(MEMINFO.replace("MemAvailable", "Other"), encoding="ascii")
    assert available(str(tmp_path / "old")) == 0
    assert available(str(tmp_path / "none")) == 0


def test_sizes_are_halved_until_the_host_has_room_for_them_too() -> None:
    """The kernel ends a program that takes more than its container may, and a sound GPU would have crashed."""
    free, total = 79 << 30, 80 << 30
    assert fitted(Sized, {"n": 2048}, Room(free, total, host=7 << 30)) == ({"n": 2048}, None)
    assert fitted(Sized, {"n": 2048}, Room(free, total, host=5 << 30)) == ({"n": 1024}, None)
    assert fitted(Sized, {"n": 2048}, Room(free, total, host=0)) == ({"n": 2048}, None), "nobody knows"
    _, trouble = fitted(Sized, {"n": 2048}, Room(free, total, host=90 << 20))
    assert (trouble.status, trouble.trouble) == ("skipped", "too-small")
    assert trouble.detail == "needs 96 MiB of the host's memory; this program may take 90 MiB more"
    assert fitted(object(), {}, Room(free, total, host=100 << 20)) == ({}, None)


def test_what_shares_the_machine_s_memory_has_room_for_both_sides() -> None:
    """Of 5 GiB that a Jetson has free, 2 GiB on the GPU would leave 3 for the 6 of input and answers."""
    free, total = 5 << 30, 8 << 30
    assert fitted(Sized, {"n": 2048}, Room(free, total)) == ({"n": 2048}, None)
    assert fitted(Sized, {"n": 2048}, Room(free, total, host=free, shared=True)) == ({"n": 1024}, None)


@pytest.mark.parametrize("stem", [stem for stem in MODULES if hasattr(module(stem), "memory")])
def test_no_test_takes_more_of_the_host_s_memory_than_is_reckoned(stem: str) -> None:
    test = module(stem)
    levels = ("deep", "normal") if hasattr(test, "SHRINKS") else ("normal", "deep")
    size = dict(next(test.LEVELS[level] for level in levels if level in test.LEVELS))
    while hasattr(test, "SHRINKS") and test.memory(size) > UNTOLD and size[test.SHRINKS] > 1:
        size[test.SHRINKS] //= 2
    tracemalloc.start()
    try:
        expected = test.expect(test.inputs(np.random.default_rng(7), size))
        judge(expected, {name: np.array(answer.value).astype(answer.dtype) for name, answer in expected.items()})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= getattr(test, "HOST", HOST) * test.memory(size) + UNTOLD / 2


MIB = 1 << 20


def group(folder: Path, limit: str, used: int, names: tuple[str, str, str]) -> None:
    """A control group of memory: its limit, what is used, and 100 MiB of that files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n", encoding="ascii")
    (folder / names[1]).write_text(f"{used * MIB}\n", encoding="ascii")
    (folder / "memory.stat").write_text(
        f"anon 5\n{names[2]}inactive_file {60 * MIB}\n{names[2]}active_file {40 * MIB}\nodd\n", encoding="ascii"
    )


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
    assert host_room(*asked) == 5210000 * 1024
    group(groups / place, str(2048 * MIB), 1500, names)
    assert host_room(*asked) == 648 * MIB
    group(groups / place, str(1000 * MIB), 1200, names)
    assert host_room(*asked) == 1, "more than may be: no room, which is not the same as unknown"
    group(groups / place, "max" if names == SECOND else str((1 << 63) - 4096), 1500, names)
    assert host_room(*asked) == 5210000 * 1024
    assert host_room(str(tmp_path / "none"), str(tmp_path / "none"), str(groups)) == 0


def pinned_up_to(most: int) -> Any:  # noqa: ANN401 - a function
    """A maker of arrays that are no longer than that; it returns their length."""

    def make(count: int) -> int:
        if count > most:
            raise CUDARuntimeError(2)
        return count

    return make


def test_as_much_is_pinned_as_the_system_lets() -> None:
    whole = 1 << 25
    assert longest(pinned_up_to(whole), whole) == whole
    assert longest(pinned_up_to(whole // 3), whole) == whole // 4
    with pytest.raises(CUDARuntimeError):
        longest(pinned_up_to(0), whole)
