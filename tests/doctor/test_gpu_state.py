"""The state of the GPUs: memory, links, clock, modes and limits."""

from __future__ import annotations

import pytest

from gpuenv.doctor.checks import gpu_state as checks
from gpuenv.doctor.registry import CheckContext, CheckFunction, Symptom
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.reading import known, missing
from gpuenv.model.snapshot import (
    ComputeMode,
    DeviceNode,
    Driver,
    Fabric,
    Gpu,
    GpuHealth,
    GpuUser,
    Grant,
    NvLink,
    PcieLink,
    Snapshot,
    Virtualization,
)
from tests.doctor.kernel_hosts import findings, working
from tests.support.matrix import MATRIX

GIB = 1 << 30
IDLE = Gpu(
    index=known(0, "nvml"),
    ordinal=known(0, "libcuda"),
    name=known("NVIDIA H100 80GB HBM3", "nvml"),
    memory_total=known(80 * GIB, "nvml"),
    memory_free=known(79 * GIB, "nvml"),
    compute_mode=known(ComputeMode.DEFAULT, "nvml"),
    processes=known(0, "nvml"),
)
SECOND = IDLE._replace(index=known(1, "nvml"), ordinal=known(1, "libcuda"))
EXCLUSIVE = IDLE._replace(
    compute_mode=known(ComputeMode.EXCLUSIVE_PROCESS, "nvml"),
    processes=known(1, "nvml"),
    users=(GpuUser(4711, "python3", 9 * GIB),),
)


def run_check(function: CheckFunction, snapshot: Snapshot) -> list[Symptom]:
    ctx = CheckContext(snapshot, needs_of(snapshot, MATRIX), MATRIX, resolve(snapshot, MATRIX))
    return [symptom for symptom in function(ctx) if isinstance(symptom, Symptom)]


CHECKS = (checks.compute_mode, checks.memory_errors, checks.nvlink_down, checks.clock_throttled, checks.memory_full)


@pytest.mark.parametrize("function", CHECKS)
def test_healthy_and_unknown_gpus_have_no_findings(function: CheckFunction) -> None:
    assert run_check(function, Snapshot(gpus=(IDLE, SECOND))) == []
    assert run_check(function, Snapshot(gpus=(Gpu(),))) == []
    assert run_check(function, Snapshot()) == []


def test_an_exclusive_gpu_in_use_is_an_error_unless_another_gpu_is_free() -> None:
    (alone,) = run_check(checks.compute_mode, Snapshot(gpus=(EXCLUSIVE,)))
    assert alone.severity is Severity.ERROR
    assert any("4711 (python3), 9216 MiB" in entry.value for entry in alone.evidence)
    (others,) = run_check(checks.compute_mode, Snapshot(gpus=(EXCLUSIVE, SECOND)))
    assert others.severity is Severity.WARNING
    assert others.fix[0].command == ("ps", "-o", "user,pid,etime,args", "-p", "4711")
    assert "export CUDA_VISIBLE_DEVICES=1" in (others.fix[1].shell_line or "")
    assert (others.fix[2].command or ())[:2] == ("sudo", "nvidia-smi")


@pytest.mark.parametrize(
    ("name", "variables", "closed"),
    [
        ("nvidia-cuda-mps", {}, False),
        (None, {"CUDA_MPS_PIPE_DIRECTORY": "/run/mps"}, False),
        (None, {}, True),
        ("python3", {"CUDA_MPS_PIPE_DIRECTORY": "/run/mps"}, True),
    ],
)
def test_a_gpu_held_by_the_mps_server_is_not_an_error(
    name: str | None,
    variables: dict[str, str],
    closed: bool,  # noqa: FBT001 - a column
) -> None:
    gpu = EXCLUSIVE._replace(users=(GpuUser(4711, name, None),))
    snapshot = Snapshot(gpus=(gpu,), environment=variables)
    assert bool(run_check(checks.compute_mode, snapshot)) is closed


def test_a_gpu_that_is_invisible_to_this_process_is_ignored() -> None:
    hidden = EXCLUSIVE._replace(ordinal=Gpu().ordinal)
    assert run_check(checks.compute_mode, Snapshot(gpus=(hidden, SECOND._replace(ordinal=known(0, "libcuda"))))) == []


@pytest.mark.parametrize(
    ("health", "severity"),
    [
        (GpuHealth(rows_failed=known(value=True, source="nvml")), Severity.ERROR),
        (GpuHealth(rows_pending=known(value=True, source="nvml")), Severity.ERROR),
        (GpuHealth(pages_pending=known(value=True, source="nvml")), Severity.ERROR),
        (GpuHealth(ecc_uncorrected=known(1, "nvml")), Severity.WARNING),
        (GpuHealth(ecc_corrected=known(10**6, "nvml"), ecc_uncorrected_ever=known(3, "nvml")), None),
        (GpuHealth(rows_uncorrected=known(2, "nvml"), pages_retired=known(5, "nvml")), None),
    ],
)
def test_memory_that_must_not_be_used_is_an_error(health: GpuHealth, severity: Severity | None) -> None:
    symptoms = run_check(checks.memory_errors, Snapshot(gpus=(IDLE._replace(health=health),)))
    assert [symptom.severity for symptom in symptoms] == ([] if severity is None else [severity])


@pytest.mark.parametrize(
    ("registration", "up", "findings"),
    [("completed", 17, 1), ("completed", 18, 0), ("completed", 0, 0), ("not-supported", 12, 0), (None, 12, 0)],
)
def test_an_inactive_link_counts_only_with_a_registered_fabric(
    registration: str | None, up: int, findings: int
) -> None:
    links = tuple(NvLink(number, active=number < up) for number in range(18))
    fabric = Fabric(known(registration, "nvml")) if registration else Fabric()
    gpu = IDLE._replace(nvlinks=links, fabric=fabric)
    symptoms = run_check(checks.nvlink_down, Snapshot(gpus=(gpu,)))
    assert [symptom.severity for symptom in symptoms] == [Severity.WARNING] * findings  # a process with one GPU


def test_a_fabric_link_down_is_an_error_for_a_process_with_several_gpus() -> None:
    links = tuple(NvLink(number, active=number != 7) for number in range(18))
    gpu = IDLE._replace(nvlinks=links, fabric=Fabric(known("completed", "nvml")))
    other = SECOND._replace(ordinal=known(1, "libcuda"))
    (symptom,) = run_check(checks.nvlink_down, Snapshot(gpus=(gpu, other)))
    assert (symptom.severity, symptom.cause, symptom.hardware_fault) == (Severity.ERROR, Cause.GPU_HARDWARE_FAULT, True)


@pytest.mark.parametrize(("up", "of"), [(3, 4), (1, 2)])
def test_a_bridge_with_some_inactive_links_is_a_warning(up: int, of: int) -> None:
    gpu = IDLE._replace(nvlinks=tuple(NvLink(number, active=number < up) for number in range(of)))
    (symptom,) = run_check(checks.nvlink_down, Snapshot(gpus=(gpu,)))
    assert symptom.severity is Severity.WARNING
    all_inactive = IDLE._replace(nvlinks=tuple(NvLink(number, active=False) for number in range(of)))
    assert run_check(checks.nvlink_down, Snapshot(gpus=(all_inactive,))) == []


def test_a_gpu_with_fewer_active_links_than_its_peer_is_reported() -> None:
    def linked(up: int) -> Gpu:
        return IDLE._replace(nvlinks=tuple(NvLink(number, active=number < up) for number in range(18)))

    assert run_check(checks.nvlink_down, Snapshot(gpus=(linked(12), linked(12)))) == []
    (symptom,) = run_check(checks.nvlink_down, Snapshot(gpus=(linked(12), linked(11))))
    assert "7 of 18" in symptom.title


@pytest.mark.parametrize(
    ("reasons", "fix_text"),
    [
        (("hardware-thermal",), "Cool it"),
        (("software-thermal",), "Cool it"),
        (("gpu-idle", "hardware-power-brake"), "power cable"),
        (("gpu-idle",), None),
        (("software-power-cap", "application-clocks"), None),
        ((), None),
    ],
)
def test_only_heat_and_power_brake_count_as_throttling(reasons: tuple[str, ...], fix_text: str | None) -> None:
    gpu = IDLE._replace(health=GpuHealth(throttle_reasons=known(reasons, "nvml")))
    symptoms = run_check(checks.clock_throttled, Snapshot(gpus=(gpu,)))
    assert len(symptoms) == (0 if fix_text is None else 1)
    assert all((fix_text or "") in symptom.fix[1].text for symptom in symptoms)


def test_a_full_first_gpu_is_a_warning_that_names_a_free_gpu() -> None:
    full = IDLE._replace(memory_free=known(GIB, "nvml"))
    (symptom,) = run_check(checks.memory_full, Snapshot(gpus=(full, SECOND)))
    assert symptom.severity is Severity.WARNING
    assert "CUDA_VISIBLE_DEVICES=1" in (symptom.fix[0].shell_line or "")
    full_second = SECOND._replace(memory_free=known(GIB, "nvml"))
    assert run_check(checks.memory_full, Snapshot(gpus=(IDLE, full_second))) == []


def test_a_suggested_gpu_is_numbered_in_pci_bus_order() -> None:
    slower = IDLE._replace(ordinal=known(1, "libcuda"))
    fastest = IDLE._replace(index=known(1, "nvml"), ordinal=known(0, "libcuda"), memory_free=known(GIB, "nvml"))
    (full,) = run_check(checks.memory_full, Snapshot(gpus=(slower, fastest)))
    assert full.fix[0].shell_line == "export CUDA_DEVICE_ORDER=PCI_BUS_ID; export CUDA_VISIBLE_DEVICES=0"
    (held,) = run_check(checks.compute_mode, Snapshot(gpus=(EXCLUSIVE, SECOND)))
    assert held.fix[1].shell_line == "export CUDA_DEVICE_ORDER=PCI_BUS_ID; export CUDA_VISIBLE_DEVICES=1"


def test_an_inaccessible_gpu_has_no_cuda_ordinal() -> None:
    inaccessible = IDLE._replace(ordinal=missing("x"), hidden_by=known("control group", "x"))
    full = SECOND._replace(ordinal=known(0, "libcuda"), memory_free=known(GIB, "nvml"))
    free = IDLE._replace(index=known(2, "nvml"), ordinal=known(1, "libcuda"))
    (symptom,) = run_check(checks.memory_full, Snapshot(gpus=(inaccessible, full, free)))
    assert (symptom.fix[0].shell_line or "").endswith("CUDA_VISIBLE_DEVICES=1")


ENABLED = "MIG mode is pending: it will be enabled by the next reset"
DISABLED = "MIG mode is pending: it will be disabled by the next reset"
UNLICENSED = "this virtual GPU has no licence and will be slowed down"


def pcie(width: int, most: int) -> Gpu:
    return IDLE._replace(pcie=PcieLink(width=known(width, "nvml"), width_most=known(most, "nvml")))


def power(limit: float, default: float) -> Gpu:
    health = GpuHealth(power_limit=known(limit, "nvml"), power_limit_default=known(default, "nvml"))
    return IDLE._replace(health=health)


def mig(*, now: bool, pending: bool) -> Gpu:
    return IDLE._replace(mig=known(now, "nvml"), mig_pending=known(pending, "nvml"))


def vgpu(kind: Virtualization, *, licensed: bool) -> Gpu:
    return IDLE._replace(virtualization=known(kind, "nvml"), licensed=known(licensed, "nvml"))


def inforom(*, valid: bool) -> Gpu:
    return IDLE._replace(health=GpuHealth(inforom_valid=known(valid, "nvml")))


@pytest.mark.parametrize(
    ("check", "gpu", "title"),
    [
        (checks.pcie_link_narrow, pcie(1, 16), "its PCIe link has 1 of 16 lanes"),
        (checks.pcie_link_narrow, pcie(4, 16), "its PCIe link has 4 of 16 lanes"),
        (checks.pcie_link_narrow, pcie(8, 16), None),
        (checks.pcie_link_narrow, pcie(1, 1), None),
        (checks.power_limit_low, power(100, 400), "its power limit is 100 W, and 400 W by default"),
        (checks.power_limit_low, power(250, 400), None),
        (checks.power_limit_low, power(200, 400), None),
        (checks.mig_mode_pending, mig(now=False, pending=True), ENABLED),
        (checks.mig_mode_pending, mig(now=True, pending=False), DISABLED),
        (checks.mig_mode_pending, mig(now=True, pending=True), None),
        (checks.vgpu_unlicensed, vgpu(Virtualization.VGPU, licensed=False), UNLICENSED),
        (checks.vgpu_unlicensed, vgpu(Virtualization.VGPU, licensed=True), None),
        (checks.vgpu_unlicensed, vgpu(Virtualization.PASSTHROUGH, licensed=False), None),
        (checks.inforom_corrupt, inforom(valid=False), "its infoROM is corrupt"),
        (checks.inforom_corrupt, inforom(valid=True), None),
        (checks.inforom_corrupt, IDLE, None),
    ],
)  # fmt: skip
def test_a_silent_fault_is_a_warning(check: CheckFunction, gpu: Gpu, title: str | None) -> None:
    symptoms = run_check(check, Snapshot(gpus=(gpu,)))
    assert [symptom.title.partition(": ")[2] for symptom in symptoms] == ([] if title is None else [title])
    assert {symptom.severity for symptom in symptoms} <= {Severity.WARNING}


CLOSED = DeviceNode("/dev/nvidia1", accessible=False, mode="crw-------", owner="root:root")
OPEN = DeviceNode("/dev/nvidia0", accessible=True, mode="crw-rw-rw-", owner="root:root")
SHARED = Snapshot(
    gpus=(IDLE,), driver=Driver(cuda_init=known(0, "libcuda"), device_nodes=(OPEN, CLOSED)), grant=Grant()
)


def test_a_device_node_that_this_user_may_not_open_is_named() -> None:
    snapshot = working()
    driver = snapshot.driver._replace(device_nodes=(*snapshot.driver.device_nodes, CLOSED))
    (finding,) = findings(snapshot._replace(driver=driver))
    assert finding.code == "CTR308"
    assert finding.title == "This user may not open /dev/nvidia1: CUDA does not list this GPU"
    assert finding.evidence[0].value == "crw------- root:root"


@pytest.mark.parametrize(
    "snapshot",
    [
        SHARED._replace(grant=Grant(gpus=known(1, "SLURM_JOB_GPUS"))),
        SHARED._replace(driver=SHARED.driver._replace(cuda_init=known(100, "libcuda"))),
        SHARED._replace(driver=SHARED.driver._replace(device_nodes=(OPEN, CLOSED._replace(mode="crw-rw-rw-")))),
        SHARED._replace(driver=SHARED.driver._replace(device_nodes=(OPEN, CLOSED._replace(path="/dev/nvidia-caps")))),
    ],
    ids=["granted", "another-check", "control-group", "another-device"],
)
def test_closed_nodes_by_design_are_no_finding(snapshot: Snapshot) -> None:
    assert run_check(checks.gpu_node_closed, snapshot) == []
