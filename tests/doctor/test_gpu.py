"""Lost GPUs, and hardware events in the kernel log."""

from __future__ import annotations

import pytest

from gpuenv.doctor.checks.gpu import gpu_lost
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import Reading, known, missing
from gpuenv.model.snapshot import Container, KernelMessage, Snapshot, Source, SourceState
from tests.doctor.kernel_hosts import findings, log, working
from tests.doctor.test_gpu_state import IDLE, SECOND, run_check
from tests.support.diagnosis import diagnosis_of


@pytest.mark.parametrize(
    ("variables", "severity"), [({}, Severity.ERROR), ({"CUDA_VISIBLE_DEVICES": "0"}, Severity.WARNING)]
)
def test_a_lost_gpu_is_an_error_unless_a_variable_leaves_it_out(variables: dict[str, str], severity: Severity) -> None:
    lost = SECOND._replace(ordinal=missing("lost"), fault=known(15, "nvml"))
    driver = Snapshot().driver._replace(cuda_init=known(0, "libcuda"))
    snapshot = Snapshot(gpus=(IDLE, lost), driver=driver, environment=variables)
    (symptom,) = run_check(gpu_lost, snapshot)
    assert (symptom.severity, symptom.hardware_fault) == (severity, True)


@pytest.mark.parametrize("xid", [48, 79, 95])
def test_a_hardware_event_of_a_working_gpu_is_a_warning(xid: int) -> None:
    (finding,) = findings(working()._replace(kernel_log=log("NVRM: Xid", xid=xid)))
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
def test_a_reset_names_the_gpus_of_the_events(places: list[str | None], reset: list[str]) -> None:
    """Without -i, nvidia-smi resets all GPUs (its manual, --gpu-reset)."""
    result = known(tuple(KernelMessage("NVRM: Xid", 64, place) for place in places), "/dev/kmsg")
    (finding,) = findings(working()._replace(kernel_log=result))
    commands = [fix.command for fix in finding.fix if fix.command and "--gpu-reset" in fix.command]
    assert commands == [("sudo", "nvidia-smi", "--gpu-reset", "-i", place) for place in reset]
    assert "estart the machine" in " ".join(fix.text for fix in finding.fix)


def test_a_gpu_that_has_fallen_off_the_bus_is_not_reset() -> None:
    (finding,) = findings(working()._replace(kernel_log=log("NVRM: Xid", xid=79)))
    assert not [fix for fix in finding.fix if fix.command]
    assert "power it off and on" in finding.fix[0].text


@pytest.mark.parametrize("xid", [13, 31, 43, 63, 94, None])
def test_an_xid_that_an_application_can_cause_is_not_a_fault(xid: int | None) -> None:
    assert findings(working()._replace(kernel_log=log("NVRM: Xid", xid=xid))) == []


def test_a_hardware_event_is_the_cause_if_cuda_does_not_start() -> None:
    (finding,) = findings(working(cuda=999)._replace(kernel_log=log("NVRM: Xid", xid=79)))
    assert (finding.code, finding.severity, finding.primary) == ("GPU209", Severity.ERROR, True)


@pytest.mark.parametrize(("code", "expected"), [(34, "DRV109"), (804, "DRV111")])
def test_an_old_hardware_event_does_not_explain_a_wrong_libcuda(code: int, expected: str) -> None:
    snapshot = working(cuda=code)._replace(kernel_log=log("NVRM: Xid", xid=74))
    severities = {finding.code: (finding.severity, finding.primary) for finding in findings(snapshot)}
    assert severities == {expected: (Severity.ERROR, True), "GPU209": (Severity.WARNING, False)}
    of_other = working(cuda=code, container=Container.DOCKER)
    of_other = of_other._replace(kernel_log=log("NVRM: Xid", xid=74, pci="0000:81:00.0"))
    assert [finding.code for finding in findings(of_other)] == [expected]


def test_another_gpu_of_the_host_does_not_concern_a_container() -> None:
    snapshot = working(container=Container.DOCKER)._replace(kernel_log=log("NVRM: Xid", xid=79, pci="0000:81:00.0"))
    assert findings(snapshot) == []
    assert [f.code for f in findings(snapshot._replace(host=working().host))] == ["GPU209"]


def test_a_lost_gpu_is_reported_once_with_its_event() -> None:
    snapshot = working(cuda=101)._replace(kernel_log=log("NVRM: Xid (PCI:0000:01:00): 79", xid=79))
    with_lost_gpu = snapshot._replace(gpus=(snapshot.gpus[0]._replace(fault=known(int(Nvml.GPU_IS_LOST), "nvml")),))
    (finding,) = findings(with_lost_gpu)
    assert finding.code == "GPU203"
    assert "NVRM: Xid (PCI:0000:01:00): 79" in {entry.value for entry in finding.evidence}


@pytest.mark.parametrize(
    ("lost", "title"),
    [
        ([2], "GPU 2 (NVIDIA L4) has fallen off the bus"),
        ([0, 3], "GPU 0 (NVIDIA L4), GPU 3 (NVIDIA L4) have fallen off the bus"),
    ],
)
def test_the_gpu_that_fell_off_the_bus_is_named(lost: list[int], title: str) -> None:
    gpu = working().gpus[0]
    gpus = tuple(
        gpu._replace(index=known(n, "nvml"), pci=known(f"00000000:{n + 1:02X}:00.0", "nvml")) for n in range(4)
    )
    fault = known(int(Nvml.GPU_IS_LOST), "nvml")
    seen = tuple(gpu._replace(fault=fault) if number in lost else gpu for number, gpu in enumerate(gpus))
    (finding,) = findings(working(cuda=101)._replace(gpus=seen, gpu_count=known(4, "nvml")))
    assert (finding.code, finding.title) == ("GPU203", title)
    facts = [entry.fact for entry in finding.evidence if entry.value == str(int(Nvml.GPU_IS_LOST))]
    assert facts == [f"NVML's return code for GPU {number} at 0000:{number + 1:02x}:00.0" for number in lost]


def test_an_unreadable_kernel_log_leaves_the_check_unknown() -> None:
    snapshot = working()._replace(kernel_log=Reading(reason="/dev/kmsg: Operation not permitted"))
    runs = {run.code: run for run in diagnosis_of(snapshot).checks}
    assert runs["GPU209"].reason == "unknown: /dev/kmsg: Operation not permitted"


def test_a_hanging_driver_is_reported_with_its_hardware_event() -> None:
    snapshot = working()._replace(kernel_log=log("NVRM: Xid (PCI:0000:01:00): 79", xid=79))
    hung = snapshot._replace(sources=(*snapshot.sources[:2], Source("libcuda", SourceState.TIMED_OUT)))
    (finding,) = findings(hung)
    assert finding.code == "DRV100"
    assert "NVRM: Xid (PCI:0000:01:00): 79" in {entry.value for entry in finding.evidence}
