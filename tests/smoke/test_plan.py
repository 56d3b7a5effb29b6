"""Plans, devices, comparisons, health and the printed result: pure functions over records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.data import data_path
from gpuenv.matrix.load import load
from gpuenv.matrix.peaks import peaks_of
from gpuenv.model.causes import Cause
from gpuenv.model.codec import decode, encode
from gpuenv.model.reading import known, missing
from gpuenv.model.smoke import (
    Level,
    Quantity,
    SmokeResult,
    TestedGpu,
    TestResult,
    TestStatus,
    Trouble,
    overall,
)
from gpuenv.model.snapshot import ComputeMode, Gpu, GpuHealth, MigInstance, Snapshot
from gpuenv.model.versions import ComputeCapability
from gpuenv.report.smoke import smoke_lines
from gpuenv.smoke.baseline import beside_peaks, beside_sisters, compare
from gpuenv.smoke.catalogue import GROUPS, PAYLOAD, chosen
from gpuenv.smoke.devices import Device, devices_of, picked, seen_by_cupy
from gpuenv.smoke.kernel_log import KernelLog
from gpuenv.smoke.plan import DEADLINE, Wish, at_once, plan, seed_of, too_few
from gpuenv.smoke.state import state_tests, xids

A, B = "GPU-aaaaaaaa-1111-1111-1111-111111111111", "GPU-bbbbbbbb-2222-2222-2222-222222222222"
M1, M2 = "MIG-cccccccc-3333-3333-3333-333333333333", "MIG-dddddddd-4444-4444-4444-444444444444"
GIB = 1 << 30
QUICK = chosen((), (), Level.QUICK)


def gpu(uuid: str, index: int, *, ordinal: int | None = 0, **more: object) -> Gpu:
    base = Gpu(
        index=known(index, "nvml"),
        ordinal=known(ordinal, "libcuda") if ordinal is not None else missing("this process does not see the GPU"),
        uuid=known(uuid, "nvml"),
        pci=known(f"00000000:{17 + index}:00.0", "nvml"),
        name=known("NVIDIA H100", "nvml"),
        compute_capability=known(ComputeCapability(9, 0), "nvml"),
        memory_total=known(80 * GIB, "nvml"),
    )
    return replace(base, **more)  # type: ignore[arg-type]


def device(uuid: str, **more: object) -> Device:
    return replace(Device(uuid, uuid, "NVIDIA H100", "9.0", 80 * GIB, 0), **more)  # type: ignore[arg-type]


# Devices.


def test_the_gpus_that_a_program_sees_are_tested() -> None:
    snapshot = Snapshot(gpus=(gpu(A, 0), gpu(B, 1, ordinal=None)))
    (only,) = devices_of(snapshot, {})
    assert (only.visible, only.uuid, only.index, only.memory_total) == (A, A, 0, 80 * GIB)
    assert not only.exclusive


def test_an_exclusive_gpu_is_known_as_such() -> None:
    alone = gpu(A, 0, compute_mode=known(ComputeMode.EXCLUSIVE_PROCESS, "nvml"))
    (only,) = devices_of(Snapshot(gpus=(alone,)), {})
    assert only.exclusive
    assert at_once([only], Level.QUICK, 16) == 1


def test_mig_instances_are_devices_of_their_own() -> None:
    split = gpu(A, 0, mig=known(value=True, source="nvml"))
    split = replace(split, mig_instances=(MigInstance(M1, "3g.40gb", 40 * GIB), MigInstance(M2, "1g.10gb", 10 * GIB)))
    both = devices_of(Snapshot(gpus=(split,)), {})
    assert [entry.visible for entry in both] == [M1, M2]
    assert all(entry.instance for entry in both)
    (one,) = devices_of(Snapshot(gpus=(split,)), {"CUDA_VISIBLE_DEVICES": M2[:16]})
    assert (one.uuid, one.memory_total) == (M2, 10 * GIB)


def test_devices_that_cupy_alone_sees_are_named_by_uuid_or_by_number() -> None:
    facts: list[dict[str, object]] = [
        {"uuid": A, "name": "X", "capability": "9.0", "memory_total": 5},
        {"uuid": None, "name": "Y"},
    ]
    first, second = seen_by_cupy(facts, {})
    assert (first.visible, first.memory_total) == (A, 5)
    assert (second.visible, second.uuid) == ("1", None)
    (hidden,) = seen_by_cupy(facts[1:], {"CUDA_VISIBLE_DEVICES": "3"})
    assert hidden.visible == "3", "the caller's own numbers count"
    (instance,) = seen_by_cupy(facts[:1], {"CUDA_VISIBLE_DEVICES": M1})
    assert (instance.visible, instance.instance) == (M1, True)


def test_a_gpu_is_picked_by_uuid_its_beginning_or_its_index() -> None:
    there = (device(A, index=0), device(B, index=1))
    for name in (B, B.lower(), "GPU-bbbb", "1"):
        assert picked(there, [name]) == (there[1],)
    assert picked(there, []) == there
    assert picked(there, ["0", A]) == (there[0],)
    with pytest.raises(ValueError, match=r"--gpu 7 is none of the GPUs .*0: GPU-aaaa"):
        picked(there, ["7"])
    with pytest.raises(ValueError, match="stands for several"):
        picked((device(A), device(A[:-1] + "2")), ["GPU-aaaa"])


# Plans.


def test_each_test_runs_once_on_each_gpu_and_those_of_several_gpus_once() -> None:
    tasks = plan(QUICK, [device(A), device(B)], Wish())
    assert len(tasks) == 2 * (len(GROUPS) - 1) + 1
    (both,) = [task for task in tasks if task.test.group == "multi"]
    assert [entry.uuid for entry in both.devices] == [A, B]
    assert both.gpu is None


def test_what_needs_more_gpus_than_there_are_is_told() -> None:
    tasks = plan(QUICK, [device(A)], Wish())
    assert "multi" not in {task.test.group for task in tasks}
    (lacking,) = too_few(QUICK, [device(A)], Wish())
    assert (lacking.name, lacking.status, lacking.trouble) == (
        "multi.each", TestStatus.SKIPPED, Trouble.NOT_APPLICABLE,
    )  # fmt: skip
    assert lacking.detail == "needs 2 GPUs; visible here: 1"
    assert too_few(QUICK, [device(A), device(B)], Wish()) == ()
    assert len(too_few(QUICK, [device(M1, instance=True), device(M2, instance=True)], Wish())) == 1


def test_a_plan_is_the_same_for_the_same_wish() -> None:
    wish = Wish(seed=5, repeat=2)
    once, again = plan(QUICK, [device(A)], wish), plan(QUICK, [device(A)], wish)
    assert once == again
    assert len({task.seed for task in once}) == len(once)
    assert plan(QUICK[:3], [device(A)], wish)[:3] == once[:3], "whatever else is run beside"
    assert seed_of(5, "a.b", 0) != seed_of(6, "a.b", 0)


def test_a_deadline_is_the_level_s_the_test_s_or_the_caller_s() -> None:
    deep = {task.test.name: task for task in plan(chosen((), (), Level.DEEP), [device(A)], Wish(Level.DEEP))}
    assert deep["kernels.raw_kernel"].deadline == DEADLINE[Level.DEEP]
    assert deep["health.pattern"].deadline == 600
    assert {task.deadline for task in plan(QUICK, [device(A)], Wish(timeout=3.5))} == {3.5}


def test_a_level_without_sizes_of_its_own_takes_those_of_the_one_before() -> None:
    (raw,) = chosen((), ("kernels.raw_kernel",), Level.QUICK)
    assert raw.size(Level.DEEP) == raw.size(Level.NORMAL) != raw.size(Level.QUICK)
    (sustained,) = chosen((), ("health.sustained",), Level.QUICK)
    assert sustained.size(Level.NORMAL) is None
    (task,) = plan([sustained], [device(A)], Wish())
    assert task.size == sustained.sizes["deep"], "a test that is named runs at any level"


def test_no_more_tests_run_at_once_than_the_memory_and_the_processors_bear() -> None:
    assert at_once([device(A)], Level.QUICK, 16) == 6
    assert at_once([device(A)], Level.QUICK, 2) == 2
    assert at_once([device(A, memory_total=4 * GIB)], Level.QUICK, 16) == 2
    assert at_once([device(A, memory_total=1 * GIB)], Level.DEEP, 16) == 1
    assert at_once([device(A, memory_total=None)], Level.QUICK, 16) == 6


# Comparisons.


def test(name: str, uuid: str, **measured: float) -> TestResult:
    group, _, unit = name.partition(".")
    found = {key: Quantity(value, {"time": "s", "share": "1"}.get(key, "B/s")) for key, value in measured.items()}
    return TestResult(f"{group}.{unit}", group, uuid, TestStatus.PASSED, 1.0, measured=found)


test.__test__ = False  # type: ignore[attr-defined]  # no test of pytest's


def result(*tests: TestResult, **more: object) -> SmokeResult:
    gpus = tuple(
        TestedGpu(uuid, "NVIDIA H100", "9.0", 80 * GIB) for uuid in dict.fromkeys(t.gpu for t in tests) if uuid
    )
    base = SmokeResult(overall(tests), 0, Level.NORMAL, 1, gpus, tests, 12.0, 60.0)
    return replace(base, **more)  # type: ignore[arg-type]


def test_a_rate_that_fell_and_a_time_that_grew_are_worse() -> None:
    before = result(test("transfer.rates", A, h2d=100.0, d2h=100.0, time=1.0, share=0.9, old=5.0))
    now = result(test("transfer.rates", A, h2d=84.0, d2h=86.0, time=2.1, share=0.1, new=7.0))
    found = {entry.name: entry for entry in compare(now, before)}
    assert set(found) == {"transfer.h2d", "transfer.d2h", "transfer.time"}
    assert {name for name, entry in found.items() if entry.worse} == {"transfer.h2d", "transfer.time"}
    assert found["transfer.h2d"].ratio == pytest.approx(0.84)
    assert compare(before, before)[0].worse is False


def test_repeated_numbers_count_by_their_median() -> None:
    tests = [test("a.b", A, rate=value) for value in (10.0, 100.0, 101.0)]
    (found,) = compare(result(*tests), result(test("a.b", A, rate=100.0)))
    assert found.ratio == 1.0


def test_a_gpu_is_held_against_its_data_sheet() -> None:
    peaks = {"NVIDIA H200": {"blas.rate": 100.0, "blas.other": 5.0}}
    tests = [test("blas.rates", A, rate=80.0), test("blas.rates", B, rate=30.0)]
    found = beside_peaks(tests, [TestedGpu(A, "NVIDIA H200"), TestedGpu(B, "NVIDIA H200")], peaks)
    assert [(entry.gpu, entry.against, entry.ratio, entry.worse) for entry in found] == [
        (A, "data-sheet", 0.8, False),
        (B, "data-sheet", 0.3, True),
    ]
    assert beside_peaks(tests, [TestedGpu(A, "NVIDIA H200 MIG 1g.18gb"), TestedGpu(B, None)], peaks) == ()


def test_the_peaks_of_the_matrix_are_of_numbers_that_are_measured() -> None:
    peaks = peaks_of(load(data_path("matrix.yaml")))
    assert len(peaks) > 10
    named = {name for numbers in peaks.values() for name in numbers}
    assert named == {"blas.matmul_f16", "blas.matmul_f32", "blas.matmul_f64", "transfer.device_copy"}
    files = (PAYLOAD / "tests/blas_rates.py", PAYLOAD / "tests/transfer_rates.py")
    written = "".join(path.read_text(encoding="utf-8") for path in files)
    assert 'gpu.measure("matmul_" + name' in written
    assert 'gpu.measure("device_copy"' in written
    assert all(1e11 < value < 1e16 for numbers in peaks.values() for value in numbers.values())


def test_a_gpu_is_held_against_its_sisters() -> None:
    tests = [test("a.b", A, rate=50.0), test("a.b", B, rate=100.0), test("a.b", "GPU-c", rate=98.0)]
    gpus = [TestedGpu(uuid, "H100") for uuid in (A, B, "GPU-c")]
    (slow,) = beside_sisters(tests, gpus)
    assert (slow.gpu, slow.against, slow.baseline) == (A, "sisters", 99.0)
    assert beside_sisters(tests, [TestedGpu(A, "A100"), *gpus[1:]]) == ()


# Health.


def health(**readings: object) -> GpuHealth:
    return GpuHealth(**{name: known(value, "nvml") for name, value in readings.items()})  # type: ignore[arg-type]


def state(before: GpuHealth, after: GpuHealth, *messages: str) -> TestResult:
    old, new = Snapshot(gpus=(gpu(A, 0, health=before),)), Snapshot(gpus=(gpu(A, 0, health=after),))
    (found,) = state_tests(old, new, messages, [device(A)], 0.5)
    return found


SOUND = health(ecc=True, ecc_uncorrected=3, temperature=40, rows_pending=False, throttle_reasons=("gpu-idle",))


def test_a_gpu_that_is_as_it_was_passes_and_is_measured() -> None:
    found = state(SOUND, SOUND)
    assert (found.status, found.trouble) == (TestStatus.PASSED, None)
    assert found.measured == {"temperature": Quantity(40.0, "C")}


@pytest.mark.parametrize(
    ("after", "cause", "words"),
    [
        (replace(SOUND, ecc_uncorrected=known(5, "nvml")), Cause.GPU_HARDWARE_FAULT, "2 uncorrected memory errors"),
        (
            replace(SOUND, rows_pending=known(value=True, source="nvml")),
            Cause.GPU_HARDWARE_FAULT,
            "waits to be remapped",
        ),
        (replace(SOUND, rows_failed=known(value=True, source="nvml")), Cause.GPU_HARDWARE_FAULT, "remapping a row"),
        (
            replace(SOUND, throttle_reasons=known(("hardware-thermal",), "nvml")),
            Cause.GPU_THROTTLED,
            "hardware-thermal",
        ),
    ],
)
def test_what_grew_worse_during_the_tests_is_a_failure(after: GpuHealth, cause: Cause, words: str) -> None:
    found = state(SOUND, after)
    assert (found.status, found.cause) == (TestStatus.FAILED, cause)
    assert words in (found.detail or "")


def test_old_errors_are_not_this_run_s() -> None:
    old = replace(SOUND, rows_pending=known(value=True, source="nvml"), ecc_uncorrected=known(9, "nvml"))
    assert state(old, old).status is TestStatus.PASSED


def test_a_gpu_of_which_nothing_is_known_is_not_called_healthy() -> None:
    assert state(GpuHealth(), GpuHealth()).status is TestStatus.SKIPPED


def test_messages_of_the_driver_are_of_one_gpu_and_those_of_programs_are_none() -> None:
    lines = (
        "4,1,2,-;NVRM: Xid (PCI:0000:11:00): 79, pid=1, GPU has fallen off the bus.",
        "4,1,2,-;NVRM: Xid (PCI:0000:11:00): 31, pid=2, MMU Fault",
        "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE",
        "6,1,2,-;usb 1-1: new device",
    )
    assert xids(lines, "00000000:11:00.0") == [79]
    assert xids(lines, "00000000:3B:00.0") == [48]
    assert xids(lines, None) == []


def test_a_log_that_may_not_be_read_is_no_empty_one(tmp_path: object) -> None:
    log = KernelLog(f"{tmp_path}/kmsg")
    assert log.lines() is None
    log.close()


# The printed result.


def text(shown: SmokeResult, *, verbose: bool = False) -> str:
    return "\n".join(line.text for line in smoke_lines(shown, verbose=verbose))


def test_a_passed_run_is_short_and_has_its_numbers() -> None:
    printed = text(result(test("transfer.rates", A, h2d=24.1e9), test("kernels.x", A, time=3.2e-6)))
    assert printed.startswith("PASSED: ")
    assert "2 tests passed" in printed
    assert "24.1 GB/s" in printed
    assert "3.2 us" in printed
    assert "exit code 0" in printed


def test_what_did_not_pass_is_named_with_its_reason_and_cause() -> None:
    lost = TestResult(
        "kernels.x", "kernels", A, TestStatus.CRASHED, 2.0, "the CUDA context is lost", trouble=Trouble.CONTEXT_LOST,
        cause=Cause.ILLEGAL_MEMORY_ACCESS,
    )  # fmt: skip
    printed = text(result(test("a.b", A), lost, exit_code=5, fault="illegal-access"))
    assert printed.startswith("FAILED: ")
    assert "crashed   kernels.x, 2.0 s: the CUDA context is lost" in printed
    assert "gpuenv explain illegal-memory-access" in printed
    assert "planted on purpose: illegal-access" in printed


def test_every_test_is_listed_on_demand_and_a_budget_that_was_missed_is_told() -> None:
    shown = result(test("a.b", A), duration=99.0)
    assert "passed    a.b" in text(shown, verbose=True)
    assert "more than the 60 s" in text(shown)


def test_lines_are_short_and_in_ascii() -> None:
    for line in text(result(test("a.b", A, rate=1.0)), verbose=True).splitlines():
        line.encode("ascii")
        assert len(line) <= 100


def test_a_result_is_read_again_as_it_was_written() -> None:
    whole = result(test("a.b", A, rate=1.5), versions={"cupy": "14.2.0"})
    assert decode(SmokeResult, encode(whole)) == whole
