"""The health of the GPUs before and after the tests: memory errors, remapped rows, throttling, Xid messages."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gpuenv.model.causes import Cause
from gpuenv.model.nvidia import HARDWARE_XIDS, PROGRAM_XIDS, pci_key, xid_event
from gpuenv.model.smoke import HEALTH_STATE, THROTTLED, Quantity, TestResult, TestStatus, Trouble
from gpuenv.model.snapshot import SEVERE_THROTTLE_REASONS, Gpu, GpuHealth, Snapshot, SourceState
from gpuenv.probe.gpu_assembly import clock_reasons
from gpuenv.probe.scripts.shared import records
from gpuenv.smoke.device_selection import Device
from gpuenv.smoke.tasks import NO_TIME_LEFT

GROUP, TITLE = "health", "no new memory errors, remapped rows, Xid messages or throttling"


class KernelLog:
    """The kernel's messages from now on, if this user may read them.

    A container may have a pipe or a terminal at this path; neither can be positioned at its end, and reading would
    steal another program's input.
    """

    def __init__(self, path: str = "/dev/kmsg") -> None:
        """Opens the log; an unreadable path, or one that is not the log, gives no messages."""
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            try:
                os.lseek(self._descriptor, 0, os.SEEK_END)
            except OSError:
                self.close()

    def lines(self) -> tuple[str, ...] | None:
        """Returns the messages since the start; None if the log is not readable."""
        if self._descriptor is None:
            return None
        try:
            return tuple(record.decode("utf-8", "replace") for record in records(self._descriptor))
        except OSError:
            return None

    def close(self) -> None:
        """Closes the log."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def watched_result(result: TestResult, samples: Sequence[Mapping[str, object]]) -> TestResult:
    """Returns the result of a burn-in with NVML's samples as measurements.

    ``throttled_REASON`` is the share of the samples under load with a lower clock for this reason. An uncorrected
    memory error fails the test, even if its answers are right.
    """

    def column(key: str, entries: Sequence[Mapping[str, object]]) -> list[int]:
        return [value for value in (entry.get(key) for entry in entries) if isinstance(value, int)]

    def is_idle(entry: Mapping[str, object]) -> bool:
        return "gpu-idle" in clock_reasons(entry.get("reasons"))

    loaded = [entry for entry in samples if not is_idle(entry)]
    measured: dict[str, Quantity] = {}
    for name, key, pick, unit in (
        ("temperature_most", "temperature", max, "C"),
        ("clock_least", "clock", min, "MHz"),
        ("clock_most", "clock", max, "MHz"),
    ):
        if values := column(key, loaded):
            measured[name] = Quantity(float(pick(values)), unit)
    if values := column("power", loaded):
        measured["power_most"] = Quantity(max(values) / 1000, "W")
    for key in ("ecc_corrected", "ecc_uncorrected", "pcie_replays"):
        if values := column(key, samples):
            measured[f"{key}_new"] = Quantity(float(max(values) - values[0]), "1")
    for reason in dict.fromkeys(reason for entry in loaded for reason in clock_reasons(entry.get("reasons"))):
        share = sum(reason in clock_reasons(entry.get("reasons")) for entry in loaded) / len(loaded)
        measured[THROTTLED + reason] = Quantity(share, "1")
    result = replace(result, measured={**result.measured, **measured})
    count = int(measured.get("ecc_uncorrected_new", Quantity(0.0, "1")).value)
    if not count:
        return result
    detail = f"{count} uncorrected memory errors during the test"
    return replace(
        result,
        status=TestStatus.FAILED if result.status is TestStatus.PASSED else result.status,
        trouble=result.trouble or Trouble.ERROR,
        detail="; ".join(filter(None, [result.detail, detail])),
        cause=Cause.GPU_HARDWARE_FAULT,
    )


def health_results(
    before: Snapshot, after: Snapshot | None, messages: Sequence[str] | None, devices: Iterable[Device], took: float
) -> tuple[TestResult, ...]:
    """Returns one result per GPU, from its NVML state before and after the tests and the kernel messages since.

    ``after`` is None if no time was left, ``messages`` if the kernel log is not readable; ``took`` is in seconds.
    """
    unread = (Trouble.NOT_APPLICABLE, "NVML does not report the health of this GPU")
    if after is None:
        after, unread = Snapshot(), (Trouble.NO_TIME, NO_TIME_LEFT)
    wanted = {device.uuid for device in devices if not device.instance}
    now = {gpu.uuid.value: gpu for gpu in after.gpus}
    silent = after.source("nvml").state is not SourceState.ANSWERED
    return tuple(
        _health_result(gpu, now.get(gpu.uuid.value), messages, took, unread, silent=silent)
        for gpu in before.gpus
        if gpu.uuid.value in wanted
    )


def _health_result(
    before: Gpu,
    after: Gpu | None,
    messages: Sequence[str] | None,
    took: float,
    unread: tuple[Trouble, str],
    *,
    silent: bool,
) -> TestResult:
    """Returns the result of one GPU; ``silent`` if NVML did not answer after the tests.

    ``unread`` is the trouble and the detail without any reading.
    """
    events = xid_numbers(messages or (), before.pci.value)
    faults = list(_faults(before, after) if after else [] if silent else ["NVML no longer lists the GPU"])
    logged = [f"the driver logged Xid {number} for this GPU during the tests" for number in events]
    health = after.health if after else GpuHealth()
    throttled = [reason for reason in health.throttle_reasons.value or () if reason in SEVERE_THROTTLE_REASONS]
    status, trouble, detail, cause = TestStatus.PASSED, None, None, None
    if faults or logged:
        status, trouble, detail = TestStatus.FAILED, Trouble.ERROR, "; ".join([*faults, *logged])
        cause = Cause.GPU_HARDWARE_FAULT if faults or any(number in HARDWARE_XIDS for number in events) else None
    elif throttled:
        status, trouble, cause = TestStatus.FAILED, Trouble.ERROR, Cause.GPU_THROTTLED
        detail = f"the clock is throttled after the tests: {', '.join(throttled)}"
    elif not (health.temperature.known or health.clock.known or health.ecc.known):
        status, (trouble, detail) = TestStatus.SKIPPED, unread
    measured: dict[str, tuple[float | None, str]] = {
        "temperature": (health.temperature.value, "C"),
        "clock": (health.clock.value, "MHz"),
        "power": (health.power.value, "W"),
    }
    return TestResult(
        name=HEALTH_STATE,
        group=GROUP,
        gpu=before.uuid.value,
        status=status,
        duration=took,
        detail=detail,
        measured={name: Quantity(float(value), unit) for name, (value, unit) in measured.items() if value is not None},
        title=TITLE,
        trouble=trouble,
        cause=cause,
    )


def _faults(before: Gpu, after: Gpu) -> Iterator[str]:
    if after.fault.known and not before.fault.known:
        yield f"NVML can no longer open the GPU (return code {after.fault.value})"
    old, new = before.health.ecc_uncorrected.value, after.health.ecc_uncorrected.value
    if old is not None and new is not None and new > old:
        yield f"{new - old} uncorrected memory errors during the tests"
    if after.health.rows_failed.value:
        yield "a memory row could not be remapped"
    if after.health.rows_pending.value and not before.health.rows_pending.value:
        yield "a memory row is pending remapping since the tests"
    if after.health.pages_pending.value and not before.health.pages_pending.value:
        yield "a memory page is pending retirement since the tests"


def xid_numbers(messages: Iterable[str], pci: str | None) -> list[int]:
    """Returns the Xid numbers that the driver logged for a GPU.

    Numbers that a faulty program causes are left out: the tests provoke them.
    """
    events = (xid_event(line) for line in messages)
    ours = pci_key(pci)
    return [event[0] for event in events if event and ours == event[1] is not None and event[0] not in PROGRAM_XIDS]
