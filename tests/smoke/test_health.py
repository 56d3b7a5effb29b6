"""The health of a GPU before and after the tests."""

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
    Trouble,
)
from gpuenv.model.snapshot import GpuHealth, Snapshot, Source, SourceState
from gpuenv.smoke.gpu_health import KernelLog, health_results, xid_numbers
from tests.smoke.devices import A, B, device, gpu


def health(**readings: object) -> GpuHealth:
    return GpuHealth(**{name: known(value, "nvml") for name, value in readings.items()})  # type: ignore[arg-type]


def health_result(before: GpuHealth, after: GpuHealth, *messages: str) -> TestResult:
    old, new = Snapshot(gpus=(gpu(A, 0, health=before),)), Snapshot(gpus=(gpu(A, 0, health=after),))
    (outcome,) = health_results(old, new, messages, [device(A)], 0.5)
    return outcome


HEALTHY = health(ecc=True, ecc_uncorrected=3, temperature=40, rows_pending=False, throttle_reasons=("gpu-idle",))


def test_an_unchanged_gpu_passes_with_its_temperature() -> None:
    outcome = health_result(HEALTHY, HEALTHY)
    assert (outcome.status, outcome.trouble) == (TestStatus.PASSED, None)
    assert outcome.measured == {"temperature": Quantity(40.0, "C")}


@pytest.mark.parametrize(
    ("after", "cause", "message"),
    [
        (HEALTHY._replace(ecc_uncorrected=known(5, "nvml")), Cause.GPU_HARDWARE_FAULT, "2 uncorrected memory errors"),
        (
            HEALTHY._replace(rows_pending=known(value=True, source="nvml")),
            Cause.GPU_HARDWARE_FAULT,
            "is pending remapping",
        ),
        (
            HEALTHY._replace(rows_failed=known(value=True, source="nvml")),
            Cause.GPU_HARDWARE_FAULT,
            "could not be remapped",
        ),
        (
            HEALTHY._replace(throttle_reasons=known(("hardware-thermal",), "nvml")),
            Cause.GPU_THROTTLED,
            "hardware-thermal",
        ),
    ],
)
def test_degradation_during_the_tests_is_a_failure(after: GpuHealth, cause: Cause, message: str) -> None:
    outcome = health_result(HEALTHY, after)
    assert (outcome.status, outcome.cause) == (TestStatus.FAILED, cause)
    assert message in (outcome.detail or "")


def test_errors_from_before_the_run_do_not_fail() -> None:
    old = HEALTHY._replace(rows_pending=known(value=True, source="nvml"), ecc_uncorrected=known(9, "nvml"))
    assert health_result(old, old).status is TestStatus.PASSED


def test_a_gpu_without_readings_is_skipped() -> None:
    assert health_result(GpuHealth(), GpuHealth()).status is TestStatus.SKIPPED


def test_xid_events_are_attributed_to_their_gpu() -> None:
    lines = (
        "4,1,2,-;NVRM: Xid (PCI:0000:11:00): 79, pid=1, GPU has fallen off the bus.",
        "4,1,2,-;NVRM: Xid (PCI:0000:11:00): 31, pid=2, MMU Fault",
        "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE",
        "6,1,2,-;usb 1-1: new device",
    )
    assert xid_numbers(lines, "00000000:11:00.0") == [79]
    assert xid_numbers(lines, "00000000:3B:00.0") == [48]
    assert xid_numbers(lines, None) == []


@pytest.mark.parametrize("address", ["PCI:0000:11:00", "0000:11:00", "PCI:00000000:11:00.0", "PCI:0000:11:00 GPU-I:05"])
def test_every_notation_of_a_pci_address_is_read(address: str) -> None:
    assert xid_numbers([f"4,1,2,-;NVRM: Xid ({address}): 48, pid=1, DBE"], "00000000:11:00.0") == [48]


@pytest.mark.parametrize(("number", "cause"), [(79, Cause.GPU_HARDWARE_FAULT), (119, None)])
def test_an_xid_that_software_can_cause_is_not_a_hardware_fault(number: int, cause: Cause | None) -> None:
    outcome = health_result(HEALTHY, HEALTHY, f"4,1,2,-;NVRM: Xid (PCI:0000:17:00): {number}, pid=1")
    assert (outcome.status, outcome.cause) == (TestStatus.FAILED, cause)
    assert f"Xid {number}" in (outcome.detail or "")


def test_a_gpu_lost_during_the_tests_is_a_hardware_fault() -> None:
    """NVML still counts a GPU that has fallen off the bus but cannot open it, or no longer lists it."""
    old, other = gpu(A, 0, health=HEALTHY), gpu(B, 1, health=HEALTHY)
    lost = gpu(A, 0, fault=known(15, "nvml"))
    sources = (Source("nvml", SourceState.ANSWERED),)
    xid_line = "4,1,2,-;NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus."
    for after, lines, message in (
        (Snapshot(gpus=(lost, other), sources=sources), [], "can no longer open the GPU (return code 15)"),
        (Snapshot(gpus=(other,), sources=sources), [], "NVML no longer lists the GPU"),
        (Snapshot(gpus=(other,), sources=sources), [xid_line], "Xid 79"),
        (Snapshot(), [xid_line], "Xid 79"),
    ):
        outcome, *_ = health_results(Snapshot(gpus=(old, other)), after, lines, [device(A), device(B)], 0.5)
        assert (outcome.gpu, outcome.status, outcome.cause) == (A, TestStatus.FAILED, Cause.GPU_HARDWARE_FAULT)
        assert message in (outcome.detail or "")
    (unknown,) = health_results(Snapshot(gpus=(old,)), Snapshot(), [], [device(A)], 0.5)
    assert (unknown.status, unknown.duration) == (TestStatus.SKIPPED, 0.5)


def test_the_kernel_log_is_read_even_without_time_for_nvml() -> None:
    before = Snapshot(gpus=(gpu(A, 0, health=HEALTHY),))
    (late,) = health_results(before, None, [], [device(A)], 0.0)
    assert (late.status, late.trouble) == (TestStatus.SKIPPED, Trouble.NO_TIME)
    xid_line = "4,1,2,-;NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus."
    (lost,) = health_results(before, None, [xid_line], [device(A)], 0.0)
    assert (lost.status, lost.cause) == (TestStatus.FAILED, Cause.GPU_HARDWARE_FAULT)


def test_an_unreadable_kernel_log_has_no_lines(tmp_path: object) -> None:
    log = KernelLog(f"{tmp_path}/kmsg")
    assert log.lines() is None
    log.close()


def test_a_pipe_or_terminal_is_not_read_as_the_kernel_log(tmp_path: Path) -> None:
    """Containers may have a pipe or a terminal in place of the log."""
    pipe = tmp_path / "kmsg"
    os.mkfifo(pipe)
    read_end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_end = os.open(pipe, os.O_WRONLY)
    master, terminal = os.openpty()
    try:
        for path, writer, reader in ((str(pipe), write_end, read_end), (os.ttyname(terminal), master, terminal)):
            log = KernelLog(path)
            os.write(writer, b"4,1,2,-;NVRM: Xid (PCI:0000:11:00): 79, old\n")
            assert log.lines() is None
            log.close()
            assert b"old" in os.read(reader, 100), "the data is left for its reader"
    finally:
        for descriptor in (read_end, write_end, master, terminal):
            os.close(descriptor)
