"""Devices and plans: which test runs on which device, with which deadline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.model.gpus import DEVICE_NODE
from gpuenv.model.reading import Reading, known
from gpuenv.model.smoke import (
    TestStatus,
    Trouble,
)
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.model.snapshot import ComputeMode, MigInstance, Snapshot
from gpuenv.smoke.device_selection import devices_from_cupy, powered_down_gpus, select_devices, visible_devices
from gpuenv.smoke.runner import payload_arguments
from gpuenv.smoke.tasks import (
    DEADLINE,
    GROUPS,
    SmokeOptions,
    derive_seed,
    plan_tasks,
    select_tests,
    skip_for_few_gpus,
    worker_count,
)
from tests.smoke.devices import GIB, M1, M2, A, B, device, gpu

QUICK = select_tests(SmokeOptions())


# Devices.


def test_only_visible_gpus_are_tested() -> None:
    snapshot = Snapshot(gpus=(gpu(A, 0), gpu(B, 1, ordinal=None)))
    (only,) = visible_devices(snapshot, {})
    assert (only.visible, only.uuid, only.index, only.memory_total) == (A, A, 0, 80 * GIB)
    assert not only.exclusive


def test_an_exclusive_gpu_runs_one_test_at_a_time() -> None:
    exclusive = gpu(A, 0, compute_mode=known(ComputeMode.EXCLUSIVE_PROCESS, "nvml"))
    (only,) = visible_devices(Snapshot(gpus=(exclusive,)), {})
    assert only.exclusive
    assert worker_count([only], SmokeLevel.QUICK, 16) == 1


def test_each_mig_instance_is_a_device() -> None:
    split = gpu(A, 0, mig=known(value=True, source="nvml"))
    split = split._replace(mig_instances=(MigInstance(M1, "3g.40gb", 40 * GIB), MigInstance(M2, "1g.10gb", 10 * GIB)))
    both = visible_devices(Snapshot(gpus=(split,)), {})
    assert [entry.visible for entry in both] == [M1, M2]
    assert all(entry.instance for entry in both)
    (one,) = visible_devices(Snapshot(gpus=(split,)), {"CUDA_VISIBLE_DEVICES": M2[:16]})
    assert (one.uuid, one.memory_total) == (M2, 10 * GIB)


@pytest.mark.parametrize(
    "reason",
    [known("CUDA_VISIBLE_DEVICES=-1 ends at -1", "CUDA_VISIBLE_DEVICES"), known(f"{DEVICE_NODE}: gone", "/dev")],
)
def test_mig_instances_of_a_hidden_gpu_are_not_tested(reason: Reading[str]) -> None:
    split = gpu(A, 0, ordinal=None, mig=known(value=True, source="nvml"), hidden_by=reason)
    split = split._replace(mig_instances=(MigInstance(M1, "3g.40gb", 40 * GIB),))
    assert visible_devices(Snapshot(gpus=(split,)), {"CUDA_VISIBLE_DEVICES": "-1"}) == ()
    hidden_by_mig = split._replace(hidden_by=known("MIG mode: a process sees one instance alone", "libcuda"))
    assert [entry.visible for entry in visible_devices(Snapshot(gpus=(hidden_by_mig,)), {})] == [M1]


def test_gpus_without_persistence_mode_power_down_between_tests() -> None:
    off, on = known(value=False, source="nvml"), known(value=True, source="nvml")
    snapshot = Snapshot(gpus=(gpu(A, 0, persistence=off), gpu(B, 1, ordinal=1, persistence=off)))
    both = visible_devices(snapshot, {})
    assert powered_down_gpus(snapshot, both) == (A, B)
    assert powered_down_gpus(snapshot, both[:1]) == (A,), "a GPU without tests is not listed"
    assert powered_down_gpus(Snapshot(gpus=(gpu(A, 0, persistence=on),)), both) == ()
    assert powered_down_gpus(Snapshot(gpus=(gpu(A, 0),)), both) == (), "the persistence mode is unknown"


def test_the_gpu_of_a_jetson_is_selected_by_its_index() -> None:
    """NVML on a Jetson does not find the GPU by its UUID, so every test would have seen no GPU."""
    orin = gpu(A, 0, name=known("Orin (nvgpu)", "nvml"))
    (only,) = visible_devices(Snapshot(gpus=(orin,)), {})
    assert (only.visible, only.uuid) == ("0", A)
    (by_variable,) = visible_devices(Snapshot(gpus=(orin,)), {"CUDA_VISIBLE_DEVICES": "GPU-aaaa"})
    assert by_variable.visible == "GPU-aaaa", "the value of the caller's variable"
    (task,) = plan_tasks(select_tests(SmokeOptions(only=("kernels.raw_kernel",))), [only], SmokeOptions())
    assert payload_arguments(task, None)["uuid"] is None
    assert payload_arguments(replace(task, devices=(device(A),)), None)["uuid"] == A


def test_devices_listed_only_by_cupy_are_selected_by_index() -> None:
    facts: list[dict[str, object]] = [
        {"uuid": A, "name": "X", "capability": "9.0", "memory_total": 5},
        {"uuid": None, "name": "Y"},
    ]
    first, second = devices_from_cupy(facts, {})
    assert (first.visible, first.uuid, first.memory_total) == ("0", A, 5)
    (task,) = plan_tasks(select_tests(SmokeOptions(only=("kernels.raw_kernel",))), [first], SmokeOptions())
    assert payload_arguments(task, None)["uuid"] == A, (
        "indices shift if a GPU is lost, and the next GPU would be tested in its place"
    )
    assert (second.visible, second.uuid) == ("1", None)
    (only,) = devices_from_cupy(facts[:1], {})
    assert payload_arguments(replace(task, devices=(only,)), None)["uuid"] is None, "a single device cannot be confused"
    (second_gpu,) = devices_from_cupy(facts[1:], {"CUDA_VISIBLE_DEVICES": "3"})
    assert second_gpu.visible == "3", "the caller's indices are used"
    (instance,) = devices_from_cupy(facts[:1], {"CUDA_VISIBLE_DEVICES": M1})
    assert (instance.visible, instance.instance) == (M1, True)


def test_a_gpu_is_selected_by_uuid_uuid_prefix_or_index() -> None:
    devices = (device(A, index=0), device(B, index=1))
    for name in (B, B.lower(), "GPU-bbbb", "1"):
        assert select_devices(devices, [name]) == (devices[1],)
    assert select_devices(devices, []) == devices
    assert select_devices(devices, ["0", A]) == (devices[0],)
    with pytest.raises(ValueError, match=r"--gpu 7 matches none of the visible GPUs .*0: GPU-aaaa"):
        select_devices(devices, ["7"])
    with pytest.raises(ValueError, match="matches several"):
        select_devices((device(A), device(A[:-1] + "2")), ["GPU-aaaa"])


# Plans.


def test_each_test_runs_once_per_gpu_and_multi_gpu_tests_once() -> None:
    tasks = plan_tasks(QUICK, [device(A), device(B)], SmokeOptions())
    assert len(tasks) == 2 * (len(GROUPS) - 1) + 1
    (both,) = [task for task in tasks if task.test.group == "multi"]
    assert [entry.uuid for entry in both.devices] == [A, B]
    assert both.gpu is None


def test_a_test_selected_by_name_keeps_the_deadline_of_its_level() -> None:
    """Otherwise rates would be measured in parallel, and 30 seconds of load would have a deadline of 30 seconds."""
    tests = select_tests(SmokeOptions(only=("blas.rates", "health.sustained", "dtype.casting", "blas.matmul_f32")))
    tasks = {task.test.name: task for task in plan_tasks(tests, [device(A)], SmokeOptions())}
    assert {name: (task.level, task.deadline, task.alone) for name, task in tasks.items()} == {
        "blas.rates": (SmokeLevel.NORMAL, DEADLINE[SmokeLevel.NORMAL], True),
        "health.sustained": (SmokeLevel.DEEP, DEADLINE[SmokeLevel.DEEP], True),
        "dtype.casting": (SmokeLevel.NORMAL, 120, False),
        "blas.matmul_f32": (SmokeLevel.QUICK, DEADLINE[SmokeLevel.QUICK], False),
    }
    assert all(task.deadline == 12 for task in plan_tasks(tests, [device(A)], SmokeOptions(timeout=12)))


def test_a_test_that_needs_more_gpus_is_skipped_with_a_reason() -> None:
    tasks = plan_tasks(QUICK, [device(A)], SmokeOptions())
    assert "multi" not in {task.test.group for task in tasks}
    (skipped,) = skip_for_few_gpus(QUICK, [device(A)], SmokeOptions())
    assert (skipped.name, skipped.status, skipped.trouble) == (
        "multi.each", TestStatus.SKIPPED, Trouble.NOT_APPLICABLE,
    )  # fmt: skip
    assert skipped.detail == "needs 2 GPUs; visible: 1"
    assert skip_for_few_gpus(QUICK, [device(A), device(B)], SmokeOptions()) == ()
    assert len(skip_for_few_gpus(QUICK, [device(M1, instance=True), device(M2, instance=True)], SmokeOptions())) == 1


def test_a_test_that_faults_on_purpose_runs_on_request_only() -> None:
    normal = SmokeOptions(level=SmokeLevel.NORMAL)
    names = {test.name for test in select_tests(normal)}
    assert {test.name for test in select_tests(replace(normal, faults=True))} - names == {"streams.async_error"}


def test_skipped_tests_and_groups_are_not_planned() -> None:
    normal = SmokeOptions(level=SmokeLevel.NORMAL)
    rest = select_tests(replace(normal, skip=("fft", "memory.leak")))
    gone = {test.name for test in select_tests(normal)} - {test.name for test in rest}
    assert "memory.leak" in gone
    assert {name.partition(".")[0] for name in gone} == {"fft", "memory"}


def test_the_burn_in_runs_for_the_stated_time_at_any_level() -> None:
    options = SmokeOptions(groups=("fft",), burn_in=900.0)
    tasks = {task.test.name: task for task in plan_tasks(select_tests(options), [device(A)], options)}
    assert tasks["health.sustained"].size["seconds"] == 900.0
    assert tasks["health.sustained"].deadline == 900.0 + DEADLINE[SmokeLevel.DEEP]
    assert set(tasks) == {"fft.complex", "health.sustained"}


def test_a_tested_gpu_has_its_index_and_its_pci_address() -> None:
    (only,) = visible_devices(Snapshot(gpus=(gpu(A, 3),)), {})
    assert (only.record.index, only.record.pci) == (3, "00000000:20:00.0")


def test_equal_options_give_equal_plans() -> None:
    options = SmokeOptions(seed=5, repeat=2)
    first, again = plan_tasks(QUICK, [device(A)], options), plan_tasks(QUICK, [device(A)], options)
    assert first == again
    assert len({task.seed for task in first}) == len(first)
    assert plan_tasks(QUICK[:3], [device(A)], options)[:3] == first[:3], "whatever else is planned"
    assert derive_seed(5, "a.b", 0) != derive_seed(6, "a.b", 0)


def test_the_deadline_is_that_of_the_level_the_test_or_the_options() -> None:
    deep = {
        task.test.name: task
        for task in plan_tasks(
            select_tests(SmokeOptions(level=SmokeLevel.DEEP)), [device(A)], SmokeOptions(level=SmokeLevel.DEEP)
        )
    }
    assert deep["kernels.raw_kernel"].deadline == DEADLINE[SmokeLevel.DEEP]
    assert deep["health.pattern"].deadline == 600
    assert {task.deadline for task in plan_tasks(QUICK, [device(A)], SmokeOptions(timeout=3.5))} == {3.5}


def test_a_level_without_sizes_takes_those_of_the_level_below() -> None:
    (raw,) = select_tests(SmokeOptions(only=("kernels.raw_kernel",)))
    assert raw.size(SmokeLevel.DEEP) == raw.size(SmokeLevel.NORMAL) != raw.size(SmokeLevel.QUICK)
    (sustained,) = select_tests(SmokeOptions(only=("health.sustained",)))
    assert sustained.size(SmokeLevel.NORMAL) is None
    (task,) = plan_tasks([sustained], [device(A)], SmokeOptions())
    assert task.size == sustained.sizes["deep"], "a test selected by name runs at any level"


def test_memory_and_processors_limit_the_number_of_workers() -> None:
    assert worker_count([device(A)], SmokeLevel.QUICK, 16) == 12
    assert worker_count([device(A)], SmokeLevel.QUICK, 2) == 2
    assert worker_count([device(A, memory_total=4 * GIB)], SmokeLevel.QUICK, 16) == 2
    assert worker_count([device(A, memory_total=1 * GIB)], SmokeLevel.DEEP, 16) == 1
    assert worker_count([device(A, memory_total=None)], SmokeLevel.QUICK, 16) == 12


def test_several_gpus_allow_more_workers() -> None:
    assert worker_count([device(A), device(B)], SmokeLevel.QUICK, 64) == 24
    assert worker_count([device(A), device(B)], SmokeLevel.QUICK, 16) == 16
    assert worker_count([device(A, memory_total=4 * GIB), device(B)], SmokeLevel.QUICK, 64) == 4, (
        "the smallest GPU limits all"
    )


def test_the_quick_level_runs_in_parallel_with_enough_processors() -> None:
    tasks = plan_tasks(QUICK, [device(A)], SmokeOptions())
    assert len(tasks) <= worker_count([device(A)], SmokeLevel.QUICK, 16)
