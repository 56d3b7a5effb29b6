"""The smoke tests on a real GPU: every group at every level, every fault, the examples, rates beside torch.

Needs Python, NumPy, CuPy, pytest and what gpuenv itself needs; torch, numba, jax and NCCL are used where they are. All
that was seen goes into one JSON file, after each test anew: ``smoke-gpu.json`` in the folder that OUT names, else in
the working folder. The deep level comes last: whatever ends it early, all else has been seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from gpuenv.smoke.tasks import GROUPS, PAYLOAD, injectable_faults, select_tests
from tests.gpu.programs import BESIDE, HOG, PLAIN
from tests.gpu.runs import (
    RECORD,
    STARTED,
    TARGET,
    WHOLE,
    gpuenv,
    level,
    smoke,
    told,
    within_budget,
    write_down,
)
from tests.smoke.test_examples import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.gpu

# Why a test may be skipped on a sound machine: what it needs is not there.
EXCUSES = (
    *("is not installed", "needs ", "CPU-only build", "numba ", "has no", "does not report", "NCCL "),
    "shares the host's memory",
    "Windows extends the GPU memory",
    "does not work here even without CuPy",  # another library
)
# The tests that are meant to catch each fault.
MEANT = {
    "no-order": ("streams.order",),
    "no-sync": ("transfer.async",),
    "no-op-kernel": (
        "kernels.raw_kernel", "kernels.grid_stride", "kernels.atomics", "kernels.shared_memory",
        "kernels.cache", "streams.graphs", "streams.order", "health.pattern",
    ),
    "pool-limit": ("memory.pool", "blas.matmul_f64", "transfer.in_place"),
    "illegal-access": ("kernels.raw_kernel", "blas.matmul_f32"),
    "endless-kernel": ("kernels.raw_kernel",),
}  # fmt: skip
TROUBLE = {
    "no-order": ("failed", "wrong-answer"),
    "no-sync": ("failed", "wrong-answer"),
    "no-op-kernel": ("failed", "wrong-answer"),
    "flip-element": ("failed", "wrong-answer"),
    "pool-limit": ("failed", "out-of-memory"),
    "illegal-access": ("crashed", "context-lost"),
    "endless-kernel": ("timed-out", "deadline"),
}
WITHIN = 0.15
# cudaDevAttrKernelExecTimeout (driver_types.h): whether the driver ends a kernel that takes long, as it does for the
# sake of a display; what is then lost is the context.
TIME_LIMIT = "import cupy; print(cupy.cuda.runtime.deviceGetAttribute(17, 0))"


@pytest.fixture(scope="module", autouse=True)
def record() -> Iterator[None]:
    """One JSON file with all that was seen, also after failures."""
    RECORD["date"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    done = gpuenv("probe", "--format", "json")
    RECORD["machine"] = json.loads(done.stdout) if done.stdout else done.stderr
    yield
    RECORD["seconds"]["all"] = time.monotonic() - STARTED
    write_down()


@pytest.fixture(autouse=True)
def kept(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test has seen is there even if the next one never ends."""
    started = time.monotonic()
    yield
    RECORD["seconds"][request.node.name] = time.monotonic() - started
    write_down()


# Levels. The first run of all, for the kernel cache.


def test_the_normal_level_passes_within_its_budget() -> None:
    result = level("normal")
    bad = [line for line in told(result) if not any(excuse in line for excuse in EXCUSES)]
    assert bad == []
    assert (result["status"], result["exit_code"]) == ("passed", 0)
    names = {test["name"] for test in result["tests"]}
    assert names >= {test.name for test in select_tests((), (), _level("normal"))}
    within_budget("normal")


def test_the_quick_level_passes_within_ten_seconds() -> None:
    result = level("quick")
    assert result["status"] == "passed", told(result)
    assert {test["group"] for test in result["tests"]} == set(GROUPS)
    assert within_budget("quick")["duration"] <= 10


def _level(name: str) -> Any:  # noqa: ANN401 - an enum
    from gpuenv.model.smoke_level import SmokeLevel  # noqa: PLC0415 - of use here alone

    return SmokeLevel(name)


def test_every_test_ran_on_a_named_gpu() -> None:
    result = level("normal")
    known = {gpu["uuid"] for gpu in result["gpus"]}
    assert known
    assert {test["gpu"] for test in result["tests"] if test["group"] != "multi"} <= known


def test_every_rate_is_measured() -> None:
    measured = {
        f"{test['group']}.{name}": entry["value"]
        for test in level("normal")["tests"]
        for name, entry in test["measured"].items()
    }
    wanted = {
        *("transfer.h2d_pageable", "transfer.h2d_pinned", "transfer.d2h_pageable", "transfer.d2h_pinned"),
        *("transfer.device_copy", "blas.matmul_f16", "blas.matmul_f32", "blas.matmul_f64", "fft.fft_c64"),
        *("streams.launch_latency", "kernels.compile_cold", "kernels.compile_warm", "streams.overlap"),
        *("blas.numpy_matmul_f32", "fft.numpy_fft"),
    }
    assert wanted <= set(measured)
    assert all(measured[name] > 0 for name in wanted - {"streams.overlap"})
    assert measured["kernels.compile_warm"] < measured["kernels.compile_cold"]


# Faults.


def meant(fault: str) -> tuple[str, ...]:
    from gpuenv.model.smoke_level import SmokeLevel  # noqa: PLC0415 - of use here alone

    quick = tuple(test.name for test in select_tests((), (), SmokeLevel.QUICK) if test.gpus == 1)
    return quick if fault == "flip-element" else MEANT[fault]


def kernels_are_ended() -> bool:
    done = subprocess.run([TARGET, "-c", TIME_LIMIT], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip() != "0"


@pytest.mark.parametrize("fault", sorted(injectable_faults(), key=lambda name: (name == "endless-kernel", name)))
def test_a_planted_fault_is_caught_by_the_tests_meant_for_it(fault: str) -> None:
    only = [part for name in meant(fault) for part in ("--only", name)]
    limit = ["--timeout", "12"] if fault == "endless-kernel" else []
    result = smoke(f"fault {fault}", *only, *limit, GPUENV_SMOKE_FAULT=fault)
    found = {test["name"]: (test["status"], test["trouble"]) for test in result["tests"]}
    ended = fault == "endless-kernel" and found != dict.fromkeys(meant(fault), TROUBLE[fault]) and kernels_are_ended()
    assert found == dict.fromkeys(meant(fault), TROUBLE["illegal-access" if ended else fault]), told(result)
    assert (result["exit_code"], result["fault"]) == (5, fault)


def test_after_all_faults_the_gpu_works() -> None:
    result = smoke("after the faults", "kernels", "blas")
    assert result["status"] == "passed", told(result)


# Bytes: no more than the contexts of large GPUs take, and then less than what a test leaves alone beside a small one.
LEFT = (600 << 20, 320 << 20)


def test_a_gpu_whose_memory_others_hold_is_busy_and_not_broken() -> None:
    tests: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    with subprocess.Popen([TARGET, "-c", HOG], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hog:
        assert hog.stdin is not None
        assert hog.stdout is not None
        for left in LEFT:
            hog.stdin.write(f"{left}\n")
            hog.stdin.flush()
            assert hog.stdout.readline().strip() == "full"
            result = smoke(f"busy, {left >> 20} MiB left", "--only", "health.pattern", "--only", "blas.rates")
            tests += result["tests"]
            if result["status"] == "busy":
                break
        hog.kill()
    assert {test["status"] for test in tests} <= {"busy", "passed"}, told(result)
    assert "busy" in {test["status"] for test in tests}
    assert {test["cause"] for test in tests if test["status"] == "busy"} == {"gpu-busy"}
    assert result["exit_code"] == 5


# The example programs. Of each line that an example prints, what shows the mistake or its fix.

SHOWN = {
    "async_error_surfaced_late": ("reported by the copy, which is correct: ",),
    "cross_device_array": ("not copied: ", "copied: the sum is 90, on GPU 1"),
    "cufft_plan_failure": ("every piece: CuFFTError: ", "the spectrum starts with 8"),
    "dtype_mismatch": ("an array of float64: twice 1.1 is ", "an array of float32: twice 1.1 is 2.200000"),
    "fork_after_cuda_init": ("fork: ", "spawn: the sum is 45"),
    "illegal_memory_access": ("with a check: 1 element is set", "without a check: "),
    "implicit_host_device_conversion": ("mixed: TypeError: ", "copied explicitly: the sum is 20"),
    "invalid_kernel_launch": (
        "one block of 5000 threads: CUDA",
        "20 blocks of 256 threads: the last element is 4999",
    ),
    "library_not_initialized": ("handle 0: CUBLASError: ", "twice 0 to 3 is [0.0, 2.0, 4.0, 6.0]"),
    "memory_pool_retention": ("arrays hold 0 MiB, the pool 256 MiB", "arrays hold 0 MiB, the pool 0 MiB"),
    "numpy_semantics_difference": ("NumPy: IndexError: ", "CuPy: element 12 of 10 is 2", "1 index is out of bounds"),
    "out_of_memory": ("at once: OutOfMemoryError: ", "in pieces: the sum is 59999997"),
    "stream_race": ("without an event: ", "with an event: the sum of 1000 ones is 1000"),
}
# What is printed where the mistake has gone right.
WRONG = {
    "dtype_mismatch": "is 2.2\n",
    "fork_after_cuda_init": "fork: the sum",
    "illegal_memory_access": "without a check: 1 element",
    "stream_race": "without an event: the sum of 1000 ones is 1000",
}


def test_every_example_shows_its_mistake_and_its_fix() -> None:
    gpus = len(level("normal")["gpus"])
    names = [path.stem for path in EXAMPLES if gpus > 1 or path.stem != "cross_device_array"]
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_LAUNCH_BLOCKING"}

    def run(name: str) -> subprocess.CompletedProcess[str]:
        command = [TARGET, str(EXAMPLES[0].with_name(f"{name}.py"))]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)

    with ThreadPoolExecutor(6) as pool:
        shown = dict(zip(names, pool.map(run, names), strict=True))
    RECORD["examples"] = {name: {"exit_code": done.returncode, "text": done.stdout} for name, done in shown.items()}
    assert {name: done.returncode for name, done in shown.items()} == dict.fromkeys(names, 0)
    for name, done in shown.items():
        assert [words for words in SHOWN[name] if words not in done.stdout] == [], (name, done.stdout)
        assert name not in WRONG or WRONG[name] not in done.stdout


# Rates beside those of another program in the same run.


class Rates(NamedTuple):
    """Ours before and after those of another program: clocks and the bus waver."""

    before: dict[str, Any]
    other: subprocess.CompletedProcess[str]
    after: dict[str, Any]


@pytest.fixture(scope="module")
def rates(tmp_path_factory: pytest.TempPathFactory) -> Rates:
    names = ("--only", "transfer.rates", "--only", "blas.rates", "--level", "normal")
    baseline = str(tmp_path_factory.mktemp("rates") / "baseline.json")
    before = smoke("rates before", *names, "--save-baseline", baseline)
    command = [TARGET, "-c", BESIDE, str(PAYLOAD), PLAIN]
    other = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return Rates(before, other, smoke("rates after", *names, "--compare", baseline))


def test_the_same_run_again_is_within_its_own_baseline(rates: Rates) -> None:
    compared = [entry for entry in rates.after["compared"] if entry["against"] == "baseline"]
    assert len(compared) >= 8
    on_the_gpu = [entry for entry in compared if "numpy" not in entry["name"] and "pageable" not in entry["name"]]
    assert [entry for entry in on_the_gpu if entry["worse"]] == []


def test_rates_are_within_15_percent_of_another_program_s(rates: Rates) -> None:
    """The better of ours counts."""
    assert rates.other.returncode == 0, rates.other.stderr
    other = json.loads(rates.other.stdout.splitlines()[-1])
    best: dict[str, float] = {}
    for result in (rates.before, rates.after):
        for test in result["tests"]:
            for name, entry in test["measured"].items():
                key = f"{test['group']}.{name}"
                best[key] = max(best.get(key, 0.0), entry["value"])
    ratios = {name: best.get(name, 0.0) / rate for name, rate in other["rates"].items()}
    RECORD["rates"] = {"program": other["program"], "theirs": other["rates"], "ours": best, "ratios": ratios}
    assert {name: ratio for name, ratio in ratios.items() if not 1 - WITHIN <= ratio <= 1 + WITHIN} == {}


# What takes longest.


def test_the_deep_level_passes() -> None:
    result = level("deep")
    bad = [line for line in told(result) if not any(excuse in line for excuse in EXCUSES)]
    assert bad == []
    assert result["status"] == "passed"
    tested = [test["measured"].get("memory_tested") for test in result["tests"] if test["name"] == "health.pattern"]
    assert all(entry["value"] > 0 for entry in tested if entry)


def test_all_of_it_takes_eight_minutes_at_most() -> None:
    assert time.monotonic() - STARTED <= WHOLE, RECORD["seconds"]
