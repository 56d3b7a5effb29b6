"""What a GPU tells of itself before and after the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.reading import known
from gpuenv.model.smoke import (
    Quantity,
    TestResult,
    TestStatus,
)
from gpuenv.model.snapshot import GpuHealth, Snapshot, Source, SourceState
from gpuenv.smoke.gpu_health import KernelLog, health_results, xid_numbers
from tests.smoke.devices import A, B, device, gpu

# Health.


def health(**readings: object) -> GpuHealth:
    return GpuHealth(**{name: known(value, "nvml") for name, value in readings.items()})  # type: ignore[arg-type]


def state(before: GpuHealth, after: GpuHealth, *messages: str) -> TestResult:
    old, new = Snapshot(gpus=(gpu(A, 0, health=before),)), Snapshot(gpus=(gpu(A, 0, health=after),))
    (found,) = health_results(old, new, messages, [device(A)], 0.5)
    return found


SOUND = health(ecc=True, ecc_uncorrected=3, temperature=40, rows_pending=False, throttle_reasons=("gpu-idle",))


def test_a_gpu_that_is_as_it_was_passes_and_is_measured() -> None:
    found = state(SOUND, SOUND)
    assert (found.status, found.trouble) == (TestStatus.PASSED, None)
    assert found.measured == {"temperature": Quantity(40.0, "C")}


@pytest.mark.parametrize(
    ("after", "cause", "words"),
    [
        (SOUND._replace(ecc_uncorrected=known(5, "nvml")), Cause.GPU_HARDWARE_FAULT, "2 uncorrected memory errors"),
        (
            SOUND._replace(rows_pending=known(value=True, source="nvml")),
            Cause.GPU_HARDWARE_FAULT,
            "is pending remapping",
        ),
        (
            SOUND._replace(rows_failed=known(value=True, source="nvml")),
            Cause.GPU_HARDWARE_FAULT,
            "could not be remapped",
        ),
        (
            SOUND._replace(throttle_reasons=known(("hardware-thermal",), "nvml")),
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
    old = SOUND._replace(rows_pending=known(value=True, source="nvml"), ecc_uncorrected=known(9, "nvml"))
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
    assert xid_numbers(lines, "00000000:11:00.0") == [79]
    assert xid_numbers(lines, "00000000:3B:00.0") == [48]
    assert xid_numbers(lines, None) == []


@pytest.mark.parametrize("place", ["PCI:0000:11:00", "0000:11:00", "PCI:00000000:11:00.0", "PCI:0000:11:00 GPU-I:05"])
def test_an_event_is_read_in_each_of_its_forms(place: str) -> None:
    assert xid_numbers([f"4,1,2,-;NVRM: Xid ({place}): 48, pid=1, DBE"], "00000000:11:00.0") == [48]


@pytest.mark.parametrize(("number", "cause"), [(79, Cause.GPU_HARDWARE_FAULT), (119, None)])
def test_an_event_that_software_may_bring_about_is_not_called_the_hardware_s(number: int, cause: Cause | None) -> None:
    found = state(SOUND, SOUND, f"4,1,2,-;NVRM: Xid (PCI:0000:17:00): {number}, pid=1")
    assert (found.status, found.cause) == (TestStatus.FAILED, cause)
    assert f"Xid {number}" in (found.detail or "")


def test_a_gpu_that_is_gone_afterwards_is_told() -> None:
    """It has fallen off the bus: NVML counts it still, and cannot open it; or tells nothing of it."""
    old, other = gpu(A, 0, health=SOUND), gpu(B, 1, health=SOUND)
    lost = gpu(A, 0, fault=known(15, "nvml"))
    answered = (Source("nvml", SourceState.ANSWERED),)
    fallen = "4,1,2,-;NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus."
    for after, lines, words in (
        (Snapshot(gpus=(lost, other), sources=answered), [], "can no longer open the GPU (return code 15)"),
        (Snapshot(gpus=(other,), sources=answered), [], "NVML no longer lists the GPU"),
        (Snapshot(gpus=(other,), sources=answered), [fallen], "Xid 79"),
        (Snapshot(), [fallen], "Xid 79"),
    ):
        found, *_ = health_results(Snapshot(gpus=(old, other)), after, lines, [device(A), device(B)], 0.5)
        assert (found.gpu, found.status, found.cause) == (A, TestStatus.FAILED, Cause.GPU_HARDWARE_FAULT)
        assert words in (found.detail or "")
    (silent,) = health_results(Snapshot(gpus=(old,)), Snapshot(), [], [device(A)], 0.5)
    assert (silent.status, silent.duration) == (TestStatus.SKIPPED, 0.5)


def test_a_log_that_may_not_be_read_is_no_empty_one(tmp_path: object) -> None:
    log = KernelLog(f"{tmp_path}/kmsg")
    assert log.lines() is None
    log.close()


def test_what_is_typed_or_piped_to_others_is_not_taken_for_the_log(tmp_path: Path) -> None:
    """Containers may have a pipe or a terminal in the place of the log."""
    pipe = tmp_path / "kmsg"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(pipe, os.O_WRONLY)
    master, terminal = os.openpty()
    try:
        for path, to, of in ((str(pipe), writing, reading), (os.ttyname(terminal), master, terminal)):
            log = KernelLog(path)
            os.write(to, b"4,1,2,-;NVRM: Xid (PCI:0000:11:00): 79, old\n")
            assert log.lines() is None
            log.close()
            assert b"old" in os.read(of, 100), "it is there for whom it was meant"
    finally:
        for descriptor in (reading, writing, master, terminal):
            os.close(descriptor)
