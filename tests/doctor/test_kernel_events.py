"""What the kernel's log tells of a GPU, each event with what looks like it and is healthy. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.nvidia import HARDWARE, Nvml
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import Container, KernelMessage, Source, SourceState
from tests.doctor.kernel_hosts import findings, log, working


@pytest.mark.parametrize("xid", sorted(HARDWARE))
def test_a_hardware_event_of_a_gpu_that_works_is_a_warning(matrix: Matrix, xid: int) -> None:
    (finding,) = findings(replace(working(), kernel_log=log("NVRM: Xid", xid=xid)), matrix)
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
    ids=["one", "two", "nobody knows which", "all of eight"],
)
def test_a_reset_names_the_gpus_of_the_events(matrix: Matrix, places: list[str | None], reset: list[str]) -> None:
    """Without -i, nvidia-smi resets all GPUs: its manual, --gpu-reset."""
    told = known(tuple(KernelMessage("NVRM: Xid", 79, place) for place in places), "/dev/kmsg")
    (finding,) = findings(replace(working(), kernel_log=told), matrix)
    commands = [fix.command for fix in finding.fix if fix.command and "--gpu-reset" in fix.command]
    assert commands == [("sudo", "nvidia-smi", "--gpu-reset", "-i", place) for place in reset]
    assert "estart the machine" in " ".join(fix.text for fix in finding.fix)


@pytest.mark.parametrize("xid", [8, 13, 31, 32, 43, 44, 45, 46, 63, 69, 92, 94, 109, 119, 120, 154, None])
def test_an_event_that_an_application_may_cause_is_no_fault(matrix: Matrix, xid: int | None) -> None:
    assert findings(replace(working(), kernel_log=log("NVRM: Xid", xid=xid)), matrix) == []


def test_a_hardware_event_is_the_cause_where_cuda_does_not_start(matrix: Matrix) -> None:
    (finding,) = findings(replace(working(cuda=999), kernel_log=log("NVRM: Xid", xid=79)), matrix)
    assert (finding.code, finding.severity, finding.primary) == ("GPU209", Severity.ERROR, True)


def test_another_gpu_of_the_host_is_not_a_containers_affair(matrix: Matrix) -> None:
    snapshot = replace(working(container=Container.DOCKER), kernel_log=log("NVRM: Xid", xid=79, pci="0000:81:00.0"))
    assert findings(snapshot, matrix) == []
    assert [f.code for f in findings(replace(snapshot, host=working().host), matrix)] == ["GPU209"]


def test_a_gpu_that_nvml_calls_lost_is_told_once_with_its_event(matrix: Matrix) -> None:
    snapshot = replace(working(cuda=101), kernel_log=log("NVRM: Xid (PCI:0000:01:00): 79", xid=79))
    lost = replace(snapshot, gpus=(replace(snapshot.gpus[0], fault=known(int(Nvml.GPU_IS_LOST), "nvml")),))
    (finding,) = findings(lost, matrix)
    assert finding.code == "GPU203"
    assert "NVRM: Xid (PCI:0000:01:00): 79" in {entry.value for entry in finding.evidence}


@pytest.mark.parametrize(
    ("lost", "title"),
    [
        ([2], "GPU 2 (NVIDIA L4) has fallen off the bus"),
        ([0, 3], "GPU 0 (NVIDIA L4), GPU 3 (NVIDIA L4) have fallen off the bus"),
    ],
)
def test_it_is_told_which_of_several_has_fallen_off_the_bus(matrix: Matrix, lost: list[int], title: str) -> None:
    one = working().gpus[0]
    gpus = tuple(
        replace(one, index=known(n, "nvml"), pci=known(f"00000000:{n + 1:02X}:00.0", "nvml")) for n in range(4)
    )
    gone = known(int(Nvml.GPU_IS_LOST), "nvml")
    seen = tuple(replace(gpu, fault=gone) if place in lost else gpu for place, gpu in enumerate(gpus))
    (finding,) = findings(replace(working(cuda=101), gpus=seen, gpu_count=known(4, "nvml")), matrix)
    assert (finding.code, finding.title) == ("GPU203", title)
    places = [entry.fact for entry in finding.evidence if entry.value == str(int(Nvml.GPU_IS_LOST))]
    assert places == [f"NVML's return code for GPU {place} at 0000:{place + 1:02x}:00.0" for place in lost]


def test_a_log_that_cannot_be_read_is_not_called_clean(matrix: Matrix) -> None:
    snapshot = replace(working(), kernel_log=Reading(reason="/dev/kmsg: Operation not permitted"))
    runs = {run.code: run for run in diagnose(snapshot, matrix, resolve(snapshot, matrix), lambda: 0.0).checks}
    assert runs["GPU209"].reason == "unknown: /dev/kmsg: Operation not permitted"


def test_a_driver_that_hangs_is_told_with_the_event_behind_it(matrix: Matrix) -> None:
    snapshot = replace(working(), kernel_log=log("NVRM: Xid (PCI:0000:01:00): 79", xid=79))
    hung = replace(snapshot, sources=(*snapshot.sources[:2], Source("libcuda", SourceState.TIMED_OUT)))
    (finding,) = findings(hung, matrix)
    assert finding.code == "DRV100"
    assert "NVRM: Xid (PCI:0000:01:00): 79" in {entry.value for entry in finding.evidence}
