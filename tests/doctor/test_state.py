"""The state of the GPUs: what is a finding, how severe it is, and what is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.doctor.checks import state
from gpuenv.doctor.registry import CheckFunction, Facts, Symptom
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import Severity
from gpuenv.model.reading import known, missing
from gpuenv.model.snapshot import ComputeMode, Fabric, Gpu, GpuHealth, GpuUser, NvLink, Snapshot

GIB = 1 << 30
EMPTY = Gpu(
    index=known(0, "nvml"),
    ordinal=known(0, "libcuda"),
    name=known("NVIDIA H100 80GB HBM3", "nvml"),
    memory_total=known(80 * GIB, "nvml"),
    memory_free=known(79 * GIB, "nvml"),
    compute_mode=known(ComputeMode.DEFAULT, "nvml"),
    processes=known(0, "nvml"),
)
SECOND = replace(EMPTY, index=known(1, "nvml"), ordinal=known(1, "libcuda"))
HELD = replace(
    EMPTY,
    compute_mode=known(ComputeMode.EXCLUSIVE_PROCESS, "nvml"),
    processes=known(1, "nvml"),
    users=(GpuUser(4711, "python3", 9 * GIB),),
)


def found(matrix: Matrix, function: CheckFunction, snapshot: Snapshot) -> list[Symptom]:
    facts = Facts(snapshot, needs_of(snapshot, matrix), matrix, resolve(snapshot, matrix))
    return [symptom for symptom in function(facts) if isinstance(symptom, Symptom)]


EVERY = (state.compute_mode, state.memory_errors, state.nvlink_down, state.held_down, state.memory_taken)


@pytest.mark.parametrize("function", EVERY)
def test_a_healthy_gpu_and_an_unknown_one_are_no_findings(matrix: Matrix, function: CheckFunction) -> None:
    assert found(matrix, function, Snapshot(gpus=(EMPTY, SECOND))) == []
    assert found(matrix, function, Snapshot(gpus=(Gpu(),))) == []
    assert found(matrix, function, Snapshot()) == []


def test_a_gpu_that_another_process_holds_is_an_error_and_with_an_open_one_a_warning(matrix: Matrix) -> None:
    (alone,) = found(matrix, state.compute_mode, Snapshot(gpus=(HELD,)))
    assert alone.severity is Severity.ERROR
    assert any("4711 (python3), 9216 MiB" in entry.value for entry in alone.evidence)
    (beside,) = found(matrix, state.compute_mode, Snapshot(gpus=(HELD, SECOND)))
    assert beside.severity is Severity.WARNING
    assert "CUDA_VISIBLE_DEVICES=1" in beside.fix[0].text


@pytest.mark.parametrize(
    ("name", "variables", "closed"),
    [
        ("nvidia-cuda-mps", {}, False),
        (None, {"CUDA_MPS_PIPE_DIRECTORY": "/run/mps"}, False),
        (None, {}, True),
        ("python3", {"CUDA_MPS_PIPE_DIRECTORY": "/run/mps"}, True),
    ],
)
def test_the_server_of_mps_lets_others_in(
    matrix: Matrix,
    name: str | None,
    variables: dict[str, str],
    closed: bool,  # noqa: FBT001 - a column
) -> None:
    gpu = replace(HELD, users=(GpuUser(4711, name, None),))
    snapshot = Snapshot(gpus=(gpu,), environment=variables)
    assert bool(found(matrix, state.compute_mode, snapshot)) is closed


def test_a_gpu_that_this_process_does_not_see_is_not_its_affair(matrix: Matrix) -> None:
    hidden = replace(HELD, ordinal=Gpu().ordinal)
    assert (
        found(matrix, state.compute_mode, Snapshot(gpus=(hidden, replace(SECOND, ordinal=known(0, "libcuda"))))) == []
    )


@pytest.mark.parametrize(
    ("health", "severity"),
    [
        (GpuHealth(rows_failed=known(value=True, source="nvml")), Severity.ERROR),
        (GpuHealth(rows_pending=known(value=True, source="nvml")), Severity.WARNING),
        (GpuHealth(pages_pending=known(value=True, source="nvml")), Severity.WARNING),
        (GpuHealth(ecc_uncorrected=known(1, "nvml")), Severity.WARNING),
        (GpuHealth(ecc_corrected=known(10**6, "nvml"), ecc_uncorrected_ever=known(3, "nvml")), None),
        (GpuHealth(rows_uncorrected=known(2, "nvml"), pages_retired=known(5, "nvml")), None),
    ],
)
def test_memory_errors_that_wait_are_warnings_and_those_past_mending_errors(
    matrix: Matrix, health: GpuHealth, severity: Severity | None
) -> None:
    symptoms = found(matrix, state.memory_errors, Snapshot(gpus=(replace(EMPTY, health=health),)))
    assert [symptom.severity for symptom in symptoms] == ([] if severity is None else [severity])


@pytest.mark.parametrize(
    ("registration", "up", "findings"),
    [("completed", 17, 1), ("completed", 18, 0), ("completed", 0, 0), ("not-supported", 12, 0), (None, 12, 0)],
)
def test_a_link_is_missed_only_where_every_link_leads_to_a_switch(
    matrix: Matrix, registration: str | None, up: int, findings: int
) -> None:
    links = tuple(NvLink(number, active=number < up) for number in range(18))
    fabric = Fabric(known(registration, "nvml")) if registration else Fabric()
    gpu = replace(EMPTY, nvlinks=links, fabric=fabric)
    assert len(found(matrix, state.nvlink_down, Snapshot(gpus=(gpu,)))) == findings


@pytest.mark.parametrize(("up", "of"), [(3, 4), (1, 2)])
def test_a_single_bridge_carries_all_links(matrix: Matrix, up: int, of: int) -> None:
    gpu = replace(EMPTY, nvlinks=tuple(NvLink(number, active=number < up) for number in range(of)))
    (symptom,) = found(matrix, state.nvlink_down, Snapshot(gpus=(gpu,)))
    assert symptom.severity is Severity.WARNING
    without = replace(EMPTY, nvlinks=tuple(NvLink(number, active=False) for number in range(of)))
    assert found(matrix, state.nvlink_down, Snapshot(gpus=(without,))) == []


def test_a_gpu_with_fewer_links_up_than_its_twin_has_lost_one(matrix: Matrix) -> None:
    def linked(up: int) -> Gpu:
        return replace(EMPTY, nvlinks=tuple(NvLink(number, active=number < up) for number in range(18)))

    assert found(matrix, state.nvlink_down, Snapshot(gpus=(linked(12), linked(12)))) == []
    (symptom,) = found(matrix, state.nvlink_down, Snapshot(gpus=(linked(12), linked(11))))
    assert "7 of 18" in symptom.title


@pytest.mark.parametrize(
    ("reasons", "findings"),
    [
        (("hardware-thermal",), 1),
        (("gpu-idle", "hardware-power-brake"), 1),
        (("gpu-idle",), 0),
        (("software-power-cap", "application-clocks"), 0),
        ((), 0),
    ],
)
def test_only_heat_and_want_of_power_hold_a_gpu_down(matrix: Matrix, reasons: tuple[str, ...], findings: int) -> None:
    gpu = replace(EMPTY, health=GpuHealth(throttle_reasons=known(reasons, "nvml")))
    assert len(found(matrix, state.held_down, Snapshot(gpus=(gpu,)))) == findings


@pytest.mark.parametrize(
    ("reason", "words"), [("software-thermal", "Cool it"), ("hardware-power-brake", "power cable")]
)
def test_what_holds_it_down_is_what_is_seen_to(matrix: Matrix, reason: str, words: str) -> None:
    gpu = replace(EMPTY, health=GpuHealth(throttle_reasons=known((reason,), "nvml")))
    (symptom,) = found(matrix, state.held_down, Snapshot(gpus=(gpu,)))
    assert words in symptom.fix[1].text


def test_a_full_first_gpu_is_a_warning_that_names_the_freest(matrix: Matrix) -> None:
    full = replace(EMPTY, memory_free=known(GIB, "nvml"))
    (symptom,) = found(matrix, state.memory_taken, Snapshot(gpus=(full, SECOND)))
    assert symptom.severity is Severity.WARNING
    assert "CUDA_VISIBLE_DEVICES=1" in symptom.fix[1].text
    other = replace(SECOND, memory_free=known(GIB, "nvml"))
    assert found(matrix, state.memory_taken, Snapshot(gpus=(EMPTY, other))) == []


def test_another_gpu_is_named_in_the_order_of_the_bus_which_is_not_cuda_s_own(matrix: Matrix) -> None:
    slower = replace(EMPTY, ordinal=known(1, "libcuda"))
    fastest = replace(EMPTY, index=known(1, "nvml"), ordinal=known(0, "libcuda"), memory_free=known(GIB, "nvml"))
    (full,) = found(matrix, state.memory_taken, Snapshot(gpus=(slower, fastest)))
    assert full.fix[1].text.endswith(": CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0.")
    (held,) = found(matrix, state.compute_mode, Snapshot(gpus=(HELD, SECOND)))
    assert held.fix[0].text.endswith(": CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1.")


def test_what_this_process_may_not_open_has_no_number(matrix: Matrix) -> None:
    closed = replace(EMPTY, ordinal=missing("x"), hidden_by=known("control group", "x"))
    full = replace(SECOND, ordinal=known(0, "libcuda"), memory_free=known(GIB, "nvml"))
    free = replace(EMPTY, index=known(2, "nvml"), ordinal=known(1, "libcuda"))
    (symptom,) = found(matrix, state.memory_taken, Snapshot(gpus=(closed, full, free)))
    assert symptom.fix[1].text.endswith("CUDA_VISIBLE_DEVICES=1.")
