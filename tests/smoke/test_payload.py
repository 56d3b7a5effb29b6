"""What every test of the payload brings, and the payload's own rules: pure functions, without CuPy."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.smoke import Level, TestStatus, Trouble
from gpuenv.smoke.catalogue import GROUPS, PAYLOAD, all_tests, chosen
from gpuenv.smoke.demos import DEMOS, sources
from gpuenv.smoke.faults import FAULTS
from gpuenv.smoke.payload import faults
from gpuenv.smoke.payload.common import delay
from gpuenv.smoke.payload.free import available
from gpuenv.smoke.payload.harness import (
    LIBRARY_ERRORS,
    before_it_began,
    cuda_status,
    different,
    first_line,
    fitted,
    found_no_room,
    lacking,
    missing_module,
    uuid_text,
    wanted_bytes,
)
from gpuenv.smoke.payload.surroundings import through_mps
from gpuenv.smoke.payload.tests.memory_exhausted import obstacle
from gpuenv.smoke.payload.tests.transfer_rates import longest
from gpuenv.smoke.payload.troubles import GIB, LOST, classify, lack_of_memory, too_little
from tests.smoke.payload import MODULES, module

if TYPE_CHECKING:
    from pathlib import Path

NEEDS = re.compile(r"gpus:\d|module:\w+|cupy:\d+|numpy:[\d.]+|capability:\d+\.\d")


@pytest.mark.parametrize("stem", MODULES)
def test_a_test_brings_all_that_it_must(stem: str) -> None:
    test = module(stem)
    assert stem.startswith(f"{test.GROUP}_")
    assert test.GROUP in GROUPS
    assert 5 < len(test.TITLE) < 70
    assert len(test.TOLERANCE) > 4
    assert test.__doc__.endswith(".")
    assert set(test.LEVELS) <= {level.value for level in Level}
    assert test.LEVELS
    assert all(NEEDS.fullmatch(need) for need in test.NEEDS)
    shrinks = getattr(test, "SHRINKS", None)
    assert shrinks is None or all(isinstance(size[shrinks], int) for size in test.LEVELS.values())
    if hasattr(test, "memory"):
        assert all(test.memory(size) > 0 for size in test.LEVELS.values())


def test_the_catalogue_is_what_the_files_say() -> None:
    found = {test.name.replace(".", "_"): test for test in all_tests()}
    assert sorted(found) == list(MODULES)
    for stem, test in found.items():
        own = module(stem)
        assert (test.group, test.title, list(test.needs), dict(test.sizes)) == (
            own.GROUP, own.TITLE, own.NEEDS, own.LEVELS,
        )  # fmt: skip
        assert list(test.alone) == getattr(own, "ALONE", [])
        assert set(test.alone) <= {level.value for level in Level}


def test_the_quick_level_has_one_test_a_group() -> None:
    quick = Counter(test.group for test in chosen((), (), Level.QUICK))
    assert quick == dict.fromkeys(GROUPS, 1)


def test_a_deeper_level_has_all_that_a_lower_one_has() -> None:
    names = [{test.name for test in chosen((), (), level)} for level in Level]
    assert names[0] < names[1] < names[2]
    assert len(names[2]) > 60


def test_nothing_of_the_quick_level_runs_alone() -> None:
    assert [test.name for test in chosen((), (), Level.QUICK) if "quick" in test.alone] == []


def test_a_source_without_its_kernels_bodies_is_still_a_source() -> None:
    source = 'int f() { return 1; }\nextern "C" __global__ void k(int *x) { if (x) { *x = 1; } }\nint g;'
    assert faults.emptied(source) == 'int f() { return 1; }\nextern "C" __global__ void k(int *x) {}\nint g;'


@pytest.mark.parametrize("stem", [stem for stem in MODULES if hasattr(module(stem), "KERNELS")])
def test_every_kernel_can_be_made_to_do_nothing(stem: str) -> None:
    for source in module(stem).KERNELS.values():
        count = source.count("__global__")
        assert count >= 1
        emptied = faults.emptied(source)
        assert len(re.findall(r"__global__[^{}]*\{\}", emptied)) == count
        assert emptied.count("{") == emptied.count("}")


def test_the_runner_knows_the_faults() -> None:
    assert faults.FAULTS == FAULTS
    assert set(FAULTS) == {
        "no-order", "no-sync", "no-op-kernel", "flip-element", "illegal-access", "endless-kernel", "pool-limit",
    }  # fmt: skip


# What an exception means.


@pytest.mark.parametrize("status", sorted(LOST))
def test_an_error_after_which_nothing_works_is_a_lost_context(status: int) -> None:
    trouble = classify("CUDARuntimeError", status, "cudaErrorX: words")
    assert (trouble.status, trouble.trouble) == ("crashed", "context-lost")


@pytest.mark.parametrize(
    ("kind", "status", "text", "told"),
    [
        ("CUDARuntimeError", 46, "all CUDA-capable devices are busy", ("busy", "device-unavailable")),
        ("CUDARuntimeError", 35, "insufficient driver", ("skipped", "no-device")),
        ("CUDARuntimeError", 100, "no device", ("skipped", "no-device")),
        ("ImportError", None, "libcuda.so.1: cannot open shared object file: No", ("skipped", "no-device")),
        ("ImportError", None, "libcublas.so.12: cannot open shared object file", ("failed", "error")),
        ("CUDADriverError", 209, "no kernel image", ("failed", "error")),
        ("ValueError", None, "whatever", ("failed", "error")),
        ("TypeError", 35.5, "a status that is none", ("failed", "error")),
    ],
)
def test_exceptions_are_told_apart(kind: str, status: Any, text: str, told: tuple[str, str]) -> None:  # noqa: ANN401
    trouble = classify(kind, status, text)
    assert (trouble.status, trouble.trouble) == told
    assert text in trouble.detail


def test_the_words_are_those_of_the_result() -> None:
    said = [classify("X", status, "t") for status in (46, 35, 700, 214, 209, None)]
    said += [lack_of_memory(1, 0, 0, 80 * GIB, 0), lack_of_memory(1, 0, 79 * GIB, 80 * GIB, 0)]
    for trouble in said:
        TestStatus(trouble.status)
        Trouble(trouble.trouble)
        assert trouble.cause is None or trouble.cause in {cause.value for cause in Cause}


@pytest.mark.parametrize(
    ("wanted", "own", "free", "limit", "told"),
    [
        (2 * GIB, 0, 0.5 * GIB, 0, "memory-held-by-others"),  # 78 GiB are somebody else's
        (100 * GIB, 0, 79 * GIB, 0, "out-of-memory"),  # more than the GPU has
        (40 * GIB, 41 * GIB, 38 * GIB, 0, "out-of-memory"),  # too much together
        (2 * GIB, 0.5 * GIB, 79 * GIB, 1 * GIB, "out-of-memory"),  # the pool's limit
        (0, 1 * GIB, 0.1 * GIB, 0, "memory-held-by-others"),  # nobody knows how much was asked for
    ],
)
def test_whose_fault_a_lack_of_memory_is(wanted: float, own: float, free: float, limit: float, told: str) -> None:
    trouble = lack_of_memory(wanted, own, free, 80 * GIB, limit)
    assert trouble.trouble == told
    assert trouble.status == ("busy" if told == "memory-held-by-others" else "failed")


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
    assert fitted(Sized, {"n": 256}, free, total) == ({"n": 256}, None)
    assert fitted(Sized, {"n": 4096}, free, total) == ({"n": 512}, None)
    size, trouble = fitted(Sized, {"n": 1 << 20}, free, total)
    assert size["n"] >= (1 << 20) // 128
    assert trouble.status == "busy"
    assert fitted(Sized, {"n": 12}, 200 << 20, total)[0] == {"n": 1}, "a size of nothing is none"


@pytest.mark.parametrize("stem", MODULES)
def test_a_size_that_was_halved_to_its_least_is_still_one(stem: str) -> None:
    test = module(stem)
    if not hasattr(test, "SHRINKS"):
        return
    for size in test.LEVELS.values():
        least = {**size, test.SHRINKS: max(size[test.SHRINKS] // 64, 1)}
        assert test.expect(test.inputs(np.random.default_rng(7), least))


@pytest.mark.parametrize("stem", [stem for stem in MODULES if "CUPY_TF32" in getattr(module(stem), "ENVIRONMENT", {})])
def test_a_test_of_single_precision_is_not_overruled_by_the_caller_s_variable(stem: str) -> None:
    """Which many set to 1 for the libraries' sake: they heed it above all that a program says."""
    asked = module(stem).ENVIRONMENT
    assert asked["CUPY_TF32"] == "1" or asked["NVIDIA_TF32_OVERRIDE"] == "0"


def test_sizes_are_halved_until_they_are_within_the_pool_s_limit() -> None:
    """The user's own limit is no fault of the GPU's."""
    free, total = 79 << 30, 80 << 30
    assert fitted(Sized, {"n": 2048}, free, total, 1 << 30) == ({"n": 1024}, None)
    assert fitted(Sized, {"n": 2048}, free, total, 0) == ({"n": 2048}, None)
    _, trouble = fitted(Sized, {"n": 2048}, free, total, 1 << 20)
    assert (trouble.status, trouble.trouble) == ("skipped", "too-small")
    assert trouble.detail == "needs 32 MiB; the memory pool's limit is 1 MiB (CUPY_GPU_MEMORY_LIMIT)"


def test_a_test_that_does_not_say_what_it_takes_is_tried_under_any_limit() -> None:
    assert fitted(object(), {}, 79 << 30, 80 << 30, 1 << 20) == ({}, None)


# The classes as CuPy 12 to 14 name them.
NO_ROOM = {
    "CUBLASError": "CUBLAS_STATUS_ALLOC_FAILED",
    "CUSOLVERError": "CUSOLVER_STATUS_ALLOC_FAILED",
    "CuSparseError": "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES: insufficient resources",
    "CuFFTError": "CUFFT_ALLOC_FAILED",
    "CURANDError": "CURAND_STATUS_ALLOCATION_FAILED",
}


@pytest.mark.parametrize("kind", NO_ROOM)
def test_a_library_that_finds_no_room_is_understood(kind: str) -> None:
    assert kind in LIBRARY_ERRORS
    assert found_no_room(kind, NO_ROOM[kind])
    assert not found_no_room(kind, "CUBLAS_STATUS_EXECUTION_FAILED")
    assert not found_no_room("ValueError", NO_ROOM[kind])


def test_what_a_test_needs_is_looked_for() -> None:
    assert lacking(["cupy:14"], "14.0.0rc1", "9.0", 1, "2.5.2") is None
    assert lacking(["cupy:14"], "13.6.0", "9.0", 1, "2.5.2") == "needs CuPy 14 or more; here: 13.6.0"
    assert lacking(["capability:8.0"], "14.2.0", "10.0", 1, "2.5.2") is None
    assert lacking(["capability:8.0"], "14.2.0", "7.5", 1, "2.5.2") == "needs compute capability 8.0 or more; here: 7.5"
    assert lacking(["gpus:2"], "14.2.0", "7.5", 1, "2.5.2") == "needs visible GPUs 2 or more; here: 1"
    assert lacking(["numpy:2.1.2"], "14.2.0", "9.0", 1, "2.1.2") is None
    assert lacking(["numpy:2.1.2"], "14.2.0", "9.0", 1, "2.1.1") == "needs NumPy 2.1.2 or more; here: 2.1.1"
    assert missing_module(["module:json"]) is None
    trouble = missing_module(["module:no_such_module"])
    assert trouble is not None
    assert trouble.status == "skipped"


def test_a_uuid_is_printed_as_the_driver_prints_it() -> None:
    raw = bytes(range(16))
    assert uuid_text(raw) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert uuid_text(bytes(16)) is None
    assert uuid_text(b"") is None


def test_other_bits_are_found_where_the_numbers_are_equal() -> None:
    assert different({"x": np.array([0.0])}, {"x": np.array([-0.0])})
    assert not different({"x": np.array([np.nan])}, {"x": np.array([np.nan])})


class CUDARuntimeError(RuntimeError):
    """As CuPy's, by name and attribute."""

    def __init__(self, status: int) -> None:
        super().__init__("words")
        self.status = status


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


class CUBLASError(CUDARuntimeError):
    """A library that numbers its errors in its own way."""


def test_a_library_s_number_is_not_taken_for_cuda_s() -> None:
    assert cuda_status(CUDARuntimeError(700)) == 700
    assert cuda_status(CUBLASError(700)) is None
    assert cuda_status(ValueError()) is None


def test_no_room_for_a_context_is_not_the_test_s_fault() -> None:
    assert before_it_began(CUDARuntimeError(2)).status == "busy"
    assert before_it_began(CUDARuntimeError(35)).status == "skipped"
    assert before_it_began(CUBLASError(2)).status == "failed"


def test_how_much_was_asked_for_is_read_from_cupy_s_words() -> None:
    said = "Out of memory allocating 2,129,920 bytes (allocated so far: 512 bytes, limit set to: 1,048,576 bytes)."
    assert wanted_bytes(MemoryError(said)) == 2129920
    assert wanted_bytes(MemoryError("Out of memory")) == 0
    assert wanted_bytes(MemoryError("allocating")) == 0


def test_the_original_error_of_an_import_is_the_one_that_is_told() -> None:
    frame = "=" * 60
    framed = (
        f"\n{frame}\nFailed to import CuPy.\n\nadvice\n\nOriginal error:\n  ImportError: libx.so: not there\n{frame}\n"
    )
    assert first_line(ImportError(framed)) == "ImportError: libx.so: not there"
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"


# Demonstrations.


@pytest.mark.parametrize("name", DEMOS)
def test_a_demonstration_is_of_a_cause_and_has_a_mistake_and_a_cure(name: str) -> None:
    assert name in {cause.value for cause in Cause}
    parts = sources(DEMOS[name])
    assert parts["mistake"] != parts["cure"]
    assert len(parts["WHY"]) > 40
    shown = [text for title, text in parts.items() if title != "WHY"]  # that is wrapped
    assert all(len(line) <= 76 for line in "\n".join(shown).splitlines())


FORKED = """
import os, signal
from types import SimpleNamespace as Thing
from gpuenv.smoke.payload.demos import fork_after_cuda_init

parent = os.getpid()

def arange(count):
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGSEGV)
    return Thing(sum=lambda: count)

cuda = Thing(Device=lambda: Thing(synchronize=lambda: None))
print(fork_after_cuda_init.mistake(Thing(arange=arange, cuda=cuda)))
"""


def test_a_forked_child_that_cuda_ends_is_shown_and_not_waited_for() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False, timeout=20)
    assert done.stdout == "('in the child: nothing', False)\n", done.stderr


# What a caller may have set.


@pytest.mark.parametrize("stem", [stem for stem in MODULES if getattr(module(stem), "KERNELS", None) is delay.KERNELS])
def test_where_a_slow_kernel_is_not_waited_for_launches_return_at_once(stem: str) -> None:
    assert module(stem).ENVIRONMENT["CUDA_LAUNCH_BLOCKING"] == "0"


LOSING = [f"tests.{stem}" for stem in MODULES if hasattr(module(stem), "LOSES_CONTEXT")]
LOSING += ["demos.async_error_surfaced_late", "demos.illegal_memory_access"]


@pytest.mark.parametrize("name", LOSING)
def test_a_fault_that_is_made_on_purpose_leaves_no_core_file(name: str) -> None:
    made = importlib.import_module(f"gpuenv.smoke.payload.{name}")
    assert made.LOSES_CONTEXT
    assert made.ENVIRONMENT["CUDA_ENABLE_COREDUMP_ON_EXCEPTION"] == "0"


@pytest.mark.parametrize(
    ("told", "pipe", "shared"),
    [(1, False, True), (0, True, False), (None, True, True), (None, False, False)],
)
def test_whether_others_share_the_context_is_told_by_cuda_else_by_the_daemon_s_pipe(
    tmp_path: Path, told: int | None, *, pipe: bool, shared: bool
) -> None:
    if pipe:
        (tmp_path / "control").touch()
    assert through_mps(told, {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}) is shared


def test_the_payload_holds_no_other_files() -> None:
    assert {path.suffix for path in PAYLOAD.rglob("*") if path.is_file() and "__pycache__" not in path.parts} == {".py"}
