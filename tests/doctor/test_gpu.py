"""The state of the GPUs, and hardware events in the kernel log."""

from __future__ import annotations

import pytest

from gpuenv.doctor.checks import gpu as checks
from gpuenv.doctor.diagnose import diagnose
from gpuenv.doctor.registry import CheckContext, CheckFunction, Symptom
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import Reading, known, missing
from gpuenv.model.snapshot import (
    ComputeMode,
    Container,
    Fabric,
    Gpu,
    GpuHealth,
    GpuUser,
    KernelMessage,
    NvLink,
    Snapshot,
    Source,
    SourceState,
)
from tests.doctor.kernel_hosts import findings, log, working

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


def run_check(matrix: Matrix, function: CheckFunction, snapshot: Snapshot) -> list[Symptom]:
    ctx = CheckContext(snapshot, needs_of(snapshot, matrix), matrix, resolve(snapshot, matrix))
    return [symptom for symptom in function(ctx) if isinstance(symptom, Symptom)]


CHECKS = (checks.compute_mode, checks.memory_errors, checks.nvlink_down, checks.clock_throttled, checks.memory_full)


@pytest.mark.parametrize("function", CHECKS)
def test_healthy_and_unknown_gpus_have_no_findings(matrix: Matrix, function: CheckFunction) -> None:
    assert run_check(matrix, function, Snapshot(gpus=(IDLE, SECOND))) == []
    assert run_check(matrix, function, Snapshot(gpus=(Gpu(),))) == []
    assert run_check(matrix, function, Snapshot()) == []


def test_an_exclusive_gpu_in_use_is_an_error_unless_another_gpu_is_free(matrix: Matrix) -> None:
    (alone,) = run_check(matrix, checks.compute_mode, Snapshot(gpus=(EXCLUSIVE,)))
    assert alone.severity is Severity.ERROR
    assert any("4711 (python3), 9216 MiB" in entry.value for entry in alone.evidence)
    (others,) = run_check(matrix, checks.compute_mode, Snapshot(gpus=(EXCLUSIVE, SECOND)))
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
    matrix: Matrix,
    name: str | None,
    variables: dict[str, str],
    closed: bool,  # noqa: FBT001 - a column
) -> None:
    gpu = EXCLUSIVE._replace(users=(GpuUser(4711, name, None),))
    snapshot = Snapshot(gpus=(gpu,), environment=variables)
    assert bool(run_check(matrix, checks.compute_mode, snapshot)) is closed


def test_a_gpu_that_is_invisible_to_this_process_is_ignored(matrix: Matrix) -> None:
    hidden = EXCLUSIVE._replace(ordinal=Gpu().ordinal)
    assert (
        run_check(matrix, checks.compute_mode, Snapshot(gpus=(hidden, SECOND._replace(ordinal=known(0, "libcuda")))))
        == []
    )


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
def test_memory_that_must_not_be_used_is_an_error(matrix: Matrix, health: GpuHealth, severity: Severity | None) -> None:
    symptoms = run_check(matrix, checks.memory_errors, Snapshot(gpus=(IDLE._replace(health=health),)))
    assert [symptom.severity for symptom in symptoms] == ([] if severity is None else [severity])


@pytest.mark.parametrize(
    ("registration", "up", "findings"),
    [("completed", 17, 1), ("completed", 18, 0), ("completed", 0, 0), ("not-supported", 12, 0), (None, 12, 0)],
)
def test_an_inactive_link_counts_only_with_a_registered_fabric(
    matrix: Matrix, registration: str | None, up: int, findings: int
) -> None:
    links = tuple(NvLink(number, active=number < up) for number in range(18))
    fabric = Fabric(known(registration, "nvml")) if registration else Fabric()
    gpu = IDLE._replace(nvlinks=links, fabric=fabric)
    symptoms = run_check(matrix, checks.nvlink_down, Snapshot(gpus=(gpu,)))
    assert [symptom.severity for symptom in symptoms] == [Severity.WARNING] * findings  # a process with one GPU


@pytest.mark.parametrize(
    ("variables", "severity"), [({}, Severity.ERROR), ({"CUDA_VISIBLE_DEVICES": "0"}, Severity.WARNING)]
)
def test_a_lost_gpu_is_an_error_unless_a_variable_leaves_it_out(
    matrix: Matrix, variables: dict[str, str], severity: Severity
) -> None:
    lost = SECOND._replace(ordinal=missing("lost"), fault=known(15, "nvml"))
    driver = Snapshot().driver._replace(cuda_init=known(0, "libcuda"))
    snapshot = Snapshot(gpus=(IDLE, lost), driver=driver, environment=variables)
    (symptom,) = run_check(matrix, checks.gpu_lost, snapshot)
    assert (symptom.severity, symptom.hardware_fault) == (severity, True)


def test_a_fabric_link_down_is_an_error_for_a_process_with_several_gpus(matrix: Matrix) -> None:
    links = tuple(NvLink(number, active=number != 7) for number in range(18))
    gpu = IDLE._replace(nvlinks=links, fabric=Fabric(known("completed", "nvml")))
    other = SECOND._replace(ordinal=known(1, "libcuda"))
    (symptom,) = run_check(matrix, checks.nvlink_down, Snapshot(gpus=(gpu, other)))
    assert (symptom.severity, symptom.cause, symptom.hardware_fault) == (Severity.ERROR, Cause.GPU_HARDWARE_FAULT, True)


@pytest.mark.parametrize(("up", "of"), [(3, 4), (1, 2)])
def test_a_bridge_with_some_inactive_links_is_a_warning(matrix: Matrix, up: int, of: int) -> None:
    gpu = IDLE._replace(nvlinks=tuple(NvLink(number, active=number < up) for number in range(of)))
    (symptom,) = run_check(matrix, checks.nvlink_down, Snapshot(gpus=(gpu,)))
    assert symptom.severity is Severity.WARNING
    all_inactive = IDLE._replace(nvlinks=tuple(NvLink(number, active=False) for number in range(of)))
    assert run_check(matrix, checks.nvlink_down, Snapshot(gpus=(all_inactive,))) == []


def test_a_gpu_with_fewer_active_links_than_its_peer_is_reported(matrix: Matrix) -> None:
    def linked(up: int) -> Gpu:
        return IDLE._replace(nvlinks=tuple(NvLink(number, active=number < up) for number in range(18)))

    assert run_check(matrix, checks.nvlink_down, Snapshot(gpus=(linked(12), linked(12)))) == []
    (symptom,) = run_check(matrix, checks.nvlink_down, Snapshot(gpus=(linked(12), linked(11))))
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
def test_only_heat_and_power_brake_count_as_throttling(
    matrix: Matrix, reasons: tuple[str, ...], fix_text: str | None
) -> None:
    gpu = IDLE._replace(health=GpuHealth(throttle_reasons=known(reasons, "nvml")))
    symptoms = run_check(matrix, checks.clock_throttled, Snapshot(gpus=(gpu,)))
    assert len(symptoms) == (0 if fix_text is None else 1)
    assert all((fix_text or "") in symptom.fix[1].text for symptom in symptoms)


def test_a_full_first_gpu_is_a_warning_that_names_a_free_gpu(matrix: Matrix) -> None:
    full = IDLE._replace(memory_free=known(GIB, "nvml"))
    (symptom,) = run_check(matrix, checks.memory_full, Snapshot(gpus=(full, SECOND)))
    assert symptom.severity is Severity.WARNING
    assert "CUDA_VISIBLE_DEVICES=1" in (symptom.fix[0].shell_line or "")
    full_second = SECOND._replace(memory_free=known(GIB, "nvml"))
    assert run_check(matrix, checks.memory_full, Snapshot(gpus=(IDLE, full_second))) == []


def test_a_suggested_gpu_is_numbered_in_pci_bus_order(matrix: Matrix) -> None:
    slower = IDLE._replace(ordinal=known(1, "libcuda"))
    fastest = IDLE._replace(index=known(1, "nvml"), ordinal=known(0, "libcuda"), memory_free=known(GIB, "nvml"))
    (full,) = run_check(matrix, checks.memory_full, Snapshot(gpus=(slower, fastest)))
    assert full.fix[0].shell_line == "export CUDA_DEVICE_ORDER=PCI_BUS_ID; export CUDA_VISIBLE_DEVICES=0"
    (held,) = run_check(matrix, checks.compute_mode, Snapshot(gpus=(EXCLUSIVE, SECOND)))
    assert held.fix[1].shell_line == "export CUDA_DEVICE_ORDER=PCI_BUS_ID; export CUDA_VISIBLE_DEVICES=1"


def test_an_inaccessible_gpu_has_no_cuda_ordinal(matrix: Matrix) -> None:
    inaccessible = IDLE._replace(ordinal=missing("x"), hidden_by=known("control group", "x"))
    full = SECOND._replace(ordinal=known(0, "libcuda"), memory_free=known(GIB, "nvml"))
    free = IDLE._replace(index=known(2, "nvml"), ordinal=known(1, "libcuda"))
    (symptom,) = run_check(matrix, checks.memory_full, Snapshot(gpus=(inaccessible, full, free)))
    assert (symptom.fix[0].shell_line or "").endswith("CUDA_VISIBLE_DEVICES=1")


@pytest.mark.parametrize("xid", [48, 79, 95])
def test_a_hardware_event_of_a_working_gpu_is_a_warning(matrix: Matrix, xid: int) -> None:
    (finding,) = findings(working()._replace(kernel_log=log("NVRM: Xid", xid=xid)), matrix)
    assert (finding.code, finding.cause, finding.severity) == ("GPU209", Cause.GPU_HARDWARE_FAULT, Severity.WARNING)
    assert f"Xid {xid} (" in finding.title
    assert "NVIDIA L4 at 0000:01:00.0" in finding.title


@pytest.mark.parametrize(
    ("places", "reset"),
    [
        (["0000:01:00.0"], ["0000:01:00.0"]),
        (["0000:01:00.0", "0000:41:00.0", "0000:01:00.0"], ["0000:01:00.0", "0000:41:00.0"]),
        (["0000:01:00.0", None], []),
        ([f"0000:{n}1:00.0" for n in range(8)], []),
    ],
    ids=["one", "two", "unknown", "all of eight"],
)
def test_a_reset_names_the_gpus_of_the_events(matrix: Matrix, places: list[str | None], reset: list[str]) -> None:
    """Without -i, nvidia-smi resets all GPUs (its manual, --gpu-reset)."""
    result = known(tuple(KernelMessage("NVRM: Xid", 64, place) for place in places), "/dev/kmsg")
    (finding,) = findings(working()._replace(kernel_log=result), matrix)
    commands = [fix.command for fix in finding.fix if fix.command and "--gpu-reset" in fix.command]
    assert commands == [("sudo", "nvidia-smi", "--gpu-reset", "-i", place) for place in reset]
    assert "estart the machine" in " ".join(fix.text for fix in finding.fix)


def test_a_gpu_that_has_fallen_off_the_bus_is_not_reset(matrix: Matrix) -> None:
    (finding,) = findings(working()._replace(kernel_log=log("NVRM: Xid", xid=79)), matrix)
    assert not [fix for fix in finding.fix if fix.command]
    assert "power it off and on" in finding.fix[0].text


@pytest.mark.parametrize("xid", [13, 31, 43, 63, 94, None])
def test_an_xid_that_an_application_can_cause_is_not_a_fault(matrix: Matrix, xid: int | None) -> None:
    assert findings(working()._replace(kernel_log=log("NVRM: Xid", xid=xid)), matrix) == []


def test_a_hardware_event_is_the_cause_if_cuda_does_not_start(matrix: Matrix) -> None:
    (finding,) = findings(working(cuda=999)._replace(kernel_log=log("NVRM: Xid", xid=79)), matrix)
    assert (finding.code, finding.severity, finding.primary) == ("GPU209", Severity.ERROR, True)


def test_another_gpu_of_the_host_does_not_concern_a_container(matrix: Matrix) -> None:
    snapshot = working(container=Container.DOCKER)._replace(kernel_log=log("NVRM: Xid", xid=79, pci="0000:81:00.0"))
    assert findings(snapshot, matrix) == []
    assert [f.code for f in findings(snapshot._replace(host=working().host), matrix)] == ["GPU209"]


def test_a_lost_gpu_is_reported_once_with_its_event(matrix: Matrix) -> None:
    snapshot = working(cuda=101)._replace(kernel_log=log("NVRM: Xid (PCI:0000:01:00): 79", xid=79))
    with_lost_gpu = snapshot._replace(gpus=(snapshot.gpus[0]._replace(fault=known(int(Nvml.GPU_IS_LOST), "nvml")),))
    (finding,) = findings(with_lost_gpu, matrix)
    assert finding.code == "GPU203"
    assert "NVRM: Xid (PCI:0000:01:00): 79" in {entry.value for entry in finding.evidence}


@pytest.mark.parametrize(
    ("lost", "title"),
    [
        ([2], "GPU 2 (NVIDIA L4) has fallen off the bus"),
        ([0, 3], "GPU 0 (NVIDIA L4), GPU 3 (NVIDIA L4) have fallen off the bus"),
    ],
)
def test_the_gpu_that_fell_off_the_bus_is_named(matrix: Matrix, lost: list[int], title: str) -> None:
    gpu = working().gpus[0]
    gpus = tuple(
        gpu._replace(index=known(n, "nvml"), pci=known(f"00000000:{n + 1:02X}:00.0", "nvml")) for n in range(4)
    )
    fault = known(int(Nvml.GPU_IS_LOST), "nvml")
    seen = tuple(gpu._replace(fault=fault) if number in lost else gpu for number, gpu in enumerate(gpus))
    (finding,) = findings(working(cuda=101)._replace(gpus=seen, gpu_count=known(4, "nvml")), matrix)
    assert (finding.code, finding.title) == ("GPU203", title)
    facts = [entry.fact for entry in finding.evidence if entry.value == str(int(Nvml.GPU_IS_LOST))]
    assert facts == [f"NVML's return code for GPU {number} at 0000:{number + 1:02x}:00.0" for number in lost]


def test_an_unreadable_kernel_log_leaves_the_check_unknown(matrix: Matrix) -> None:
    snapshot = working()._replace(kernel_log=Reading(reason="/dev/kmsg: Operation not permitted"))
    runs = {run.code: run for run in diagnose(snapshot, matrix, resolve(snapshot, matrix), lambda: 0.0).checks}
    assert runs["GPU209"].reason == "unknown: /dev/kmsg: Operation not permitted"


def test_a_hanging_driver_is_reported_with_its_hardware_event(matrix: Matrix) -> None:
    snapshot = working()._replace(kernel_log=log("NVRM: Xid (PCI:0000:01:00): 79", xid=79))
    hung = snapshot._replace(sources=(*snapshot.sources[:2], Source("libcuda", SourceState.TIMED_OUT)))
    (finding,) = findings(hung, matrix)
    assert finding.code == "DRV100"
    assert "NVRM: Xid (PCI:0000:01:00): 79" in {entry.value for entry in finding.evidence}
