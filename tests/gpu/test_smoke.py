"""The smoke tests on a real GPU: every group at every level, every fault, the examples, and rates like those of torch.

Needs Python, NumPy, CuPy, pytest and the dependencies of gpuenv; torch, numba, jax and NCCL are used if installed. The
results are written to one JSON file after each test: ``smoke-gpu.json`` in the folder OUT, else in the working folder.
The deep level comes last, so that an early end loses no other result.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from gpuenv.smoke.tasks import GROUPS, PAYLOAD, SmokeOptions, injectable_faults, select_tests
from tests.gpu.programs import HOLD_MEMORY, MEASURE_RATES, RUN_ON_LOCAL_CPUS
from tests.gpu.runs import (
    RECORD,
    STARTED,
    TARGET,
    TOTAL_LIMIT,
    details,
    gpuenv,
    level,
    smoke,
    within_budget,
    write_record,
)
from tests.smoke.test_examples import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.gpu

# Reasons to skip a test on a healthy machine: unmet needs.
EXCUSES = (
    *("is not installed", "needs ", "CPU-only build", "numba ", "has no", "does not report", "NCCL "),
    "shares the host's memory",
    "Windows extends the GPU memory",
    "does not work here even without CuPy",  # another library
)
# The tests that catch each fault.
CATCHING_TESTS = {
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
OUTCOMES = {
    "no-order": ("failed", "wrong-answer"),
    "no-sync": ("failed", "wrong-answer"),
    "no-op-kernel": ("failed", "wrong-answer"),
    "flip-element": ("failed", "wrong-answer"),
    "pool-limit": ("failed", "out-of-memory"),
    "illegal-access": ("crashed", "context-lost"),
    "endless-kernel": ("timed-out", "deadline"),
}
TOLERANCE = 0.15
# cudaDevAttrKernelExecTimeout (driver_types.h): whether the driver ends a long kernel, as it does on a GPU with a
# display; the context is lost then.
TIME_LIMIT = "import cupy; print(cupy.cuda.runtime.deviceGetAttribute(17, 0))"


@pytest.fixture(scope="module", autouse=True)
def record() -> Iterator[None]:
    """One JSON file with all results, also after failures."""
    RECORD["date"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    process = gpuenv("probe", "--format", "json")
    RECORD["machine"] = json.loads(process.stdout) if process.stdout else process.stderr
    yield
    RECORD["seconds"]["all"] = time.monotonic() - STARTED
    write_record()


@pytest.fixture(autouse=True)
def record_each_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Write the record after each test, in case the next one never ends."""
    started = time.monotonic()
    yield
    RECORD["seconds"][request.node.name] = time.monotonic() - started
    write_record()


# Levels. The first run fills the kernel cache.


def test_the_normal_level_passes_within_its_budget() -> None:
    result = level("normal")
    bad = [line for line in details(result) if not any(excuse in line for excuse in EXCUSES)]
    assert bad == []
    assert (result["status"], result["exit_code"]) == ("passed", 0)
    names = {test["name"] for test in result["tests"]}
    assert names >= {test.name for test in select_tests(SmokeOptions(level=_level("normal")))}
    within_budget("normal")


def test_the_quick_level_passes_within_ten_seconds() -> None:
    result = level("quick")
    assert result["status"] == "passed", details(result)
    assert {test["group"] for test in result["tests"]} == set(GROUPS)
    assert within_budget("quick")["duration"] <= 10


def _level(name: str) -> Any:  # noqa: ANN401 - an enum
    from gpuenv.model.smoke_level import SmokeLevel  # noqa: PLC0415 - used only here

    return SmokeLevel(name)


def test_every_test_ran_on_a_listed_gpu() -> None:
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
    expected = {
        *("transfer.h2d_pageable", "transfer.h2d_pinned", "transfer.d2h_pageable", "transfer.d2h_pinned"),
        *("transfer.device_copy", "blas.matmul_f16", "blas.matmul_f32", "blas.matmul_f64", "fft.fft_c64"),
        *("streams.launch_latency", "kernels.compile_cold", "kernels.compile_warm", "streams.overlap"),
        *("blas.numpy_matmul_f32", "fft.numpy_fft", "streams.side_by_side", "transfer.profile_h2d"),
        *("transfer.profile_kernel", "transfer.profile_d2h", "transfer.profile_wait"),
    }
    assert expected <= set(measured)
    assert all(measured[name] > 0 for name in expected - {"streams.overlap", "streams.side_by_side"})
    assert measured["kernels.compile_warm"] < measured["kernels.compile_cold"]


def test_a_burn_in_compares_every_product_while_nvml_watches() -> None:
    result = smoke("burn-in", "--only", "health.sustained", "--burn-in", "10")
    assert result["status"] == "passed", details(result)
    for test in result["tests"]:
        measured = {name: entry["value"] for name, entry in test["measured"].items()}
        assert measured["products_compared"] > 100
        assert measured["sustained_f16_first"] > measured["sustained_f32_first"] * 0.9
        assert "temperature_most" in measured or test["gpu"] is None or "MIG" in test["gpu"] or is_tegra()
        assert measured.get("ecc_uncorrected_new", 0) == 0


def is_tegra() -> bool:
    return Path("/etc/nv_tegra_release").exists()


def test_a_minimum_is_met_or_missed() -> None:
    met = smoke("minimum met", "kernels", "--min-rate", "copy=1MB/s")
    assert (met["exit_code"], met["rejected"]) == (0, [])
    missed = smoke("minimum missed", "kernels", "--min-rate", "copy=1000TB/s")
    assert missed["exit_code"] == 5
    assert all("transfer.device_copy is below the required minimum" in reason for reason in missed["rejected"])
    assert {entry["against"] for entry in missed["compared"] if entry["worse"]} >= {"minimum"}


def test_each_gpu_has_an_index_an_address_and_a_verdict() -> None:
    for gpu in level("normal")["gpus"]:
        assert gpu["status"] == "passed"
        assert is_tegra() or (gpu["index"] is not None and gpu["pci"])


# Faults.


def test_a_deliberate_fault_needs_a_request() -> None:
    assert "streams.async_error" not in {test["name"] for test in level("normal")["tests"]}
    result = smoke("a fault on purpose", "--only", "streams.async_error", "--faults")
    assert result["status"] == "passed" or "MPS" in str(details(result)), details(result)


def catching_tests(fault: str) -> tuple[str, ...]:

    quick = tuple(test.name for test in select_tests(SmokeOptions()) if test.gpus == 1)
    return quick if fault == "flip-element" else CATCHING_TESTS[fault]


def kernels_are_ended() -> bool:
    process = subprocess.run([TARGET, "-c", TIME_LIMIT], capture_output=True, text=True, timeout=60, check=True)
    return process.stdout.strip() != "0"


@pytest.mark.parametrize("fault", sorted(injectable_faults(), key=lambda name: (name == "endless-kernel", name)))
def test_an_injected_fault_is_caught_by_its_tests(fault: str) -> None:
    only = [part for name in catching_tests(fault) for part in ("--only", name)]
    limit = ["--timeout", "12"] if fault == "endless-kernel" else []
    result = smoke(f"fault {fault}", *only, *limit, GPUENV_SMOKE_FAULT=fault)
    outcomes = {test["name"]: (test["status"], test["trouble"]) for test in result["tests"]}
    kernel_was_ended = (
        fault == "endless-kernel"
        and outcomes != dict.fromkeys(catching_tests(fault), OUTCOMES[fault])
        and kernels_are_ended()
    )
    assert outcomes == dict.fromkeys(
        catching_tests(fault), OUTCOMES["illegal-access" if kernel_was_ended else fault]
    ), details(result)
    assert (result["exit_code"], result["fault"]) == (5, fault)


def test_the_gpu_works_after_all_faults() -> None:
    result = smoke("after the faults", "kernels", "blas")
    assert result["status"] == "passed", details(result)


# Bytes: at most the contexts of large GPUs, then less than the reserve of a test on a small GPU.
FREE_BYTES = (600 << 20, 320 << 20)


def test_a_gpu_with_its_memory_held_by_others_is_busy() -> None:
    tests: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    with subprocess.Popen(
        [TARGET, "-c", HOLD_MEMORY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        for free_bytes in FREE_BYTES:
            holder.stdin.write(f"{free_bytes}\n")
            holder.stdin.flush()
            assert holder.stdout.readline().strip() == "full"
            result = smoke(f"busy, {free_bytes >> 20} MiB left", "--only", "health.pattern", "--only", "blas.rates")
            tests += result["tests"]
            if result["status"] == "busy":
                break
        holder.kill()
    assert {test["status"] for test in tests} <= {"busy", "passed"}, details(result)
    assert "busy" in {test["status"] for test in tests}
    assert {test["cause"] for test in tests if test["status"] == "busy"} == {"gpu-busy"}
    assert result["exit_code"] == 5


# The example programs: parts of the printed lines that show the mistake or its fix.

EXPECTED_OUTPUT = {
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
# Output of a mistake that had no effect.
OUTPUT_WITHOUT_THE_MISTAKE = {
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
        outputs = dict(zip(names, pool.map(run, names), strict=True))
    RECORD["examples"] = {
        name: {"exit_code": process.returncode, "text": process.stdout} for name, process in outputs.items()
    }
    assert {name: process.returncode for name, process in outputs.items()} == dict.fromkeys(names, 0)
    for name, process in outputs.items():
        assert [part for part in EXPECTED_OUTPUT[name] if part not in process.stdout] == [], (name, process.stdout)
        assert name not in OUTPUT_WITHOUT_THE_MISTAKE or OUTPUT_WITHOUT_THE_MISTAKE[name] not in process.stdout


# Rates compared with those of another program in the same run.


class Rates(NamedTuple):
    """The rates of gpuenv before and after another program's, since clocks and the bus vary."""

    before: dict[str, Any]
    other: subprocess.CompletedProcess[str]
    after: dict[str, Any]


@pytest.fixture(scope="module")
def rates(tmp_path_factory: pytest.TempPathFactory) -> Rates:
    names = ("--only", "transfer.rates", "--only", "blas.rates", "--level", "normal")
    baseline = str(tmp_path_factory.mktemp("rates") / "baseline.json")
    before = smoke("rates before", *names, "--save-baseline", baseline)
    command = [TARGET, "-c", RUN_ON_LOCAL_CPUS, str(PAYLOAD), MEASURE_RATES]
    other = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return Rates(before, other, smoke("rates after", *names, "--compare", baseline))


def test_a_repeated_run_is_within_its_baseline(rates: Rates) -> None:
    compared = [entry for entry in rates.after["compared"] if entry["against"] == "baseline"]
    assert len(compared) >= 8
    on_the_gpu = [entry for entry in compared if "numpy" not in entry["name"] and "pageable" not in entry["name"]]
    assert [entry for entry in on_the_gpu if entry["worse"]] == []


def test_rates_are_within_15_percent_of_another_programs(rates: Rates) -> None:
    """The better of the two runs of gpuenv counts."""
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
    assert {name: ratio for name, ratio in ratios.items() if not 1 - TOLERANCE <= ratio <= 1 + TOLERANCE} == {}


# The longest test.


def test_the_deep_level_passes() -> None:
    result = level("deep")
    bad = [line for line in details(result) if not any(excuse in line for excuse in EXCUSES)]
    assert bad == []
    assert result["status"] == "passed"
    tested = [test["measured"].get("memory_tested") for test in result["tests"] if test["name"] == "health.pattern"]
    assert all(entry["value"] > 0 for entry in tested if entry)


def test_all_tests_take_at_most_eight_minutes() -> None:
    assert time.monotonic() - STARTED <= TOTAL_LIMIT, RECORD["seconds"]
