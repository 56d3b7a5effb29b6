"""Devices and plans: which test runs where, with which deadline."""

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

QUICK = select_tests((), (), SmokeLevel.QUICK)


# Devices.


def test_the_gpus_that_a_program_sees_are_tested() -> None:
    snapshot = Snapshot(gpus=(gpu(A, 0), gpu(B, 1, ordinal=None)))
    (only,) = visible_devices(snapshot, {})
    assert (only.visible, only.uuid, only.index, only.memory_total) == (A, A, 0, 80 * GIB)
    assert not only.exclusive


def test_an_exclusive_gpu_is_known_as_such() -> None:
    alone = gpu(A, 0, compute_mode=known(ComputeMode.EXCLUSIVE_PROCESS, "nvml"))
    (only,) = visible_devices(Snapshot(gpus=(alone,)), {})
    assert only.exclusive
    assert worker_count([only], SmokeLevel.QUICK, 16) == 1


def test_mig_instances_are_devices_of_their_own() -> None:
    split = gpu(A, 0, mig=known(value=True, source="nvml"))
    split = split._replace(mig_instances=(MigInstance(M1, "3g.40gb", 40 * GIB), MigInstance(M2, "1g.10gb", 10 * GIB)))
    both = visible_devices(Snapshot(gpus=(split,)), {})
    assert [entry.visible for entry in both] == [M1, M2]
    assert all(entry.instance for entry in both)
    (one,) = visible_devices(Snapshot(gpus=(split,)), {"CUDA_VISIBLE_DEVICES": M2[:16]})
    assert (one.uuid, one.memory_total) == (M2, 10 * GIB)


@pytest.mark.parametrize(
    "hidden",
    [known("CUDA_VISIBLE_DEVICES=-1 ends at -1", "CUDA_VISIBLE_DEVICES"), known(f"{DEVICE_NODE}: gone", "/dev")],
)
def test_instances_of_a_gpu_that_is_kept_away_are_not_tested(hidden: Reading[str]) -> None:
    split = gpu(A, 0, ordinal=None, mig=known(value=True, source="nvml"), hidden_by=hidden)
    split = split._replace(mig_instances=(MigInstance(M1, "3g.40gb", 40 * GIB),))
    assert visible_devices(Snapshot(gpus=(split,)), {"CUDA_VISIBLE_DEVICES": "-1"}) == ()
    beside = split._replace(hidden_by=known("MIG mode: a process sees one instance alone", "libcuda"))
    assert [entry.visible for entry in visible_devices(Snapshot(gpus=(beside,)), {})] == [M1]


def test_gpus_without_persistence_are_taken_down_when_nobody_is_left() -> None:
    off, on = known(value=False, source="nvml"), known(value=True, source="nvml")
    snapshot = Snapshot(gpus=(gpu(A, 0, persistence=off), gpu(B, 1, ordinal=1, persistence=off)))
    both = visible_devices(snapshot, {})
    assert powered_down_gpus(snapshot, both) == (A, B)
    assert powered_down_gpus(snapshot, both[:1]) == (A,), "one that no test runs on is left alone"
    assert powered_down_gpus(Snapshot(gpus=(gpu(A, 0, persistence=on),)), both) == ()
    assert powered_down_gpus(Snapshot(gpus=(gpu(A, 0),)), both) == (), "nobody knows"


def test_the_gpu_of_a_jetson_goes_by_its_number() -> None:
    """Under its UUID its own NVML does not find it, and each test would have been shown no GPU."""
    orin = gpu(A, 0, name=known("Orin (nvgpu)", "nvml"))
    (only,) = visible_devices(Snapshot(gpus=(orin,)), {})
    assert (only.visible, only.uuid) == ("0", A)
    (named,) = visible_devices(Snapshot(gpus=(orin,)), {"CUDA_VISIBLE_DEVICES": "GPU-aaaa"})
    assert named.visible == "GPU-aaaa", "what the caller's own programs go by"
    (task,) = plan_tasks(select_tests((), ("kernels.raw_kernel",), SmokeLevel.QUICK), [only], SmokeOptions())
    assert payload_arguments(task, None)["uuid"] is None
    assert payload_arguments(replace(task, devices=(device(A),)), None)["uuid"] == A


def test_devices_that_cupy_alone_sees_are_named_by_their_numbers() -> None:
    facts: list[dict[str, object]] = [
        {"uuid": A, "name": "X", "capability": "9.0", "memory_total": 5},
        {"uuid": None, "name": "Y"},
    ]
    first, second = devices_from_cupy(facts, {})
    assert (first.visible, first.uuid, first.memory_total) == ("0", A, 5)
    (task,) = plan_tasks(select_tests((), ("kernels.raw_kernel",), SmokeLevel.QUICK), [first], SmokeOptions())
    assert payload_arguments(task, None)["uuid"] == A, (
        "numbers move up where a GPU goes, and the next would pass for it"
    )
    assert (second.visible, second.uuid) == ("1", None)
    (only,) = devices_from_cupy(facts[:1], {})
    assert payload_arguments(replace(task, devices=(only,)), None)["uuid"] is None, "there is none to be mixed up with"
    (hidden,) = devices_from_cupy(facts[1:], {"CUDA_VISIBLE_DEVICES": "3"})
    assert hidden.visible == "3", "the caller's own numbers count"
    (instance,) = devices_from_cupy(facts[:1], {"CUDA_VISIBLE_DEVICES": M1})
    assert (instance.visible, instance.instance) == (M1, True)


def test_a_gpu_is_picked_by_uuid_its_beginning_or_its_index() -> None:
    there = (device(A, index=0), device(B, index=1))
    for name in (B, B.lower(), "GPU-bbbb", "1"):
        assert select_devices(there, [name]) == (there[1],)
    assert select_devices(there, []) == there
    assert select_devices(there, ["0", A]) == (there[0],)
    with pytest.raises(ValueError, match=r"--gpu 7 matches none of the visible GPUs .*0: GPU-aaaa"):
        select_devices(there, ["7"])
    with pytest.raises(ValueError, match="matches several"):
        select_devices((device(A), device(A[:-1] + "2")), ["GPU-aaaa"])


# Plans.


def test_each_test_runs_once_on_each_gpu_and_those_of_several_gpus_once() -> None:
    tasks = plan_tasks(QUICK, [device(A), device(B)], SmokeOptions())
    assert len(tasks) == 2 * (len(GROUPS) - 1) + 1
    (both,) = [task for task in tasks if task.test.group == "multi"]
    assert [entry.uuid for entry in both.devices] == [A, B]
    assert both.gpu is None


def test_a_test_that_is_asked_for_by_name_has_the_deadline_of_its_sizes_and_runs_alone_as_with_them() -> None:
    """Else two rates would be taken at once, and thirty seconds of load be given thirty seconds."""
    named = select_tests((), ("blas.rates", "health.sustained", "dtype.casting", "blas.matmul_f32"), SmokeLevel.QUICK)
    tasks = {task.test.name: task for task in plan_tasks(named, [device(A)], SmokeOptions())}
    assert {name: (task.level, task.deadline, task.alone) for name, task in tasks.items()} == {
        "blas.rates": (SmokeLevel.NORMAL, DEADLINE[SmokeLevel.NORMAL], True),
        "health.sustained": (SmokeLevel.DEEP, DEADLINE[SmokeLevel.DEEP], True),
        "dtype.casting": (SmokeLevel.NORMAL, 120, False),
        "blas.matmul_f32": (SmokeLevel.QUICK, DEADLINE[SmokeLevel.QUICK], False),
    }
    assert all(task.deadline == 12 for task in plan_tasks(named, [device(A)], SmokeOptions(timeout=12)))


def test_what_needs_more_gpus_than_there_are_is_told() -> None:
    tasks = plan_tasks(QUICK, [device(A)], SmokeOptions())
    assert "multi" not in {task.test.group for task in tasks}
    (lacking,) = skip_for_few_gpus(QUICK, [device(A)], SmokeOptions())
    assert (lacking.name, lacking.status, lacking.trouble) == (
        "multi.each", TestStatus.SKIPPED, Trouble.NOT_APPLICABLE,
    )  # fmt: skip
    assert lacking.detail == "needs 2 GPUs; visible: 1"
    assert skip_for_few_gpus(QUICK, [device(A), device(B)], SmokeOptions()) == ()
    assert len(skip_for_few_gpus(QUICK, [device(M1, instance=True), device(M2, instance=True)], SmokeOptions())) == 1


def test_a_plan_is_the_same_for_the_same_order() -> None:
    order = SmokeOptions(seed=5, repeat=2)
    once, again = plan_tasks(QUICK, [device(A)], order), plan_tasks(QUICK, [device(A)], order)
    assert once == again
    assert len({task.seed for task in once}) == len(once)
    assert plan_tasks(QUICK[:3], [device(A)], order)[:3] == once[:3], "whatever else is run beside"
    assert derive_seed(5, "a.b", 0) != derive_seed(6, "a.b", 0)


def test_a_deadline_is_the_level_s_the_test_s_or_the_caller_s() -> None:
    deep = {
        task.test.name: task
        for task in plan_tasks(select_tests((), (), SmokeLevel.DEEP), [device(A)], SmokeOptions(level=SmokeLevel.DEEP))
    }
    assert deep["kernels.raw_kernel"].deadline == DEADLINE[SmokeLevel.DEEP]
    assert deep["health.pattern"].deadline == 600
    assert {task.deadline for task in plan_tasks(QUICK, [device(A)], SmokeOptions(timeout=3.5))} == {3.5}


def test_a_level_without_sizes_of_its_own_takes_those_of_the_one_before() -> None:
    (raw,) = select_tests((), ("kernels.raw_kernel",), SmokeLevel.QUICK)
    assert raw.size(SmokeLevel.DEEP) == raw.size(SmokeLevel.NORMAL) != raw.size(SmokeLevel.QUICK)
    (sustained,) = select_tests((), ("health.sustained",), SmokeLevel.QUICK)
    assert sustained.size(SmokeLevel.NORMAL) is None
    (task,) = plan_tasks([sustained], [device(A)], SmokeOptions())
    assert task.size == sustained.sizes["deep"], "a test that is named runs at any level"


def test_no_more_tests_run_at_once_than_the_memory_and_the_processors_bear() -> None:
    assert worker_count([device(A)], SmokeLevel.QUICK, 16) == 12
    assert worker_count([device(A)], SmokeLevel.QUICK, 2) == 2
    assert worker_count([device(A, memory_total=4 * GIB)], SmokeLevel.QUICK, 16) == 2
    assert worker_count([device(A, memory_total=1 * GIB)], SmokeLevel.DEEP, 16) == 1
    assert worker_count([device(A, memory_total=None)], SmokeLevel.QUICK, 16) == 12


def test_several_gpus_bear_more_tests_at_once() -> None:
    assert worker_count([device(A), device(B)], SmokeLevel.QUICK, 64) == 24
    assert worker_count([device(A), device(B)], SmokeLevel.QUICK, 16) == 16
    assert worker_count([device(A, memory_total=4 * GIB), device(B)], SmokeLevel.QUICK, 64) == 4, (
        "each what the smallest bears"
    )


def test_the_whole_quick_level_runs_side_by_side_where_there_are_processors_enough() -> None:
    tasks = plan_tasks(QUICK, [device(A)], SmokeOptions())
    assert len(tasks) <= worker_count([device(A)], SmokeLevel.QUICK, 16)
