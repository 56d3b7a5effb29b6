"""The health of the GPUs before and after the tests: memory errors, remapped rows, throttling, Xid messages."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence

from gpuenv.model.causes import Cause
from gpuenv.model.nvidia import BY_PROGRAMS, HARDWARE, pci_key, xid_event
from gpuenv.model.smoke import Quantity, TestResult, TestStatus, Trouble
from gpuenv.model.snapshot import GRAVE_REASONS, Gpu, GpuHealth, Snapshot, SourceState
from gpuenv.probe.scripts.shared import records
from gpuenv.smoke.device_selection import Device

NAME, GROUP, TITLE = "health.state", "health", "no new memory errors, remapped rows, Xid messages or throttling"


class KernelLog:
    """The kernel's messages from now on, where this user may read them.

    In a container there may be a pipe or a terminal in its place: neither has an end to start from, and what is read
    from them is taken from somebody else.
    """

    def __init__(self, path: str = "/dev/kmsg") -> None:
        """Nothing is read where the log may not be, or is none."""
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            try:
                os.lseek(self._descriptor, 0, os.SEEK_END)
            except OSError:
                self.close()

    def lines(self) -> tuple[str, ...] | None:
        """The messages since; None where the log may not be read."""
        if self._descriptor is None:
            return None
        try:
            return tuple(record.decode("utf-8", "replace") for record in records(self._descriptor))
        except OSError:
            return None

    def close(self) -> None:
        """Lets go of the log."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def health_results(
    before: Snapshot, after: Snapshot, messages: Sequence[str] | None, devices: Iterable[Device], took: float
) -> tuple[TestResult, ...]:
    """One test a GPU, from what NVML said before and after and what the kernel logged in between.

    Args:
        before: the machine before the tests.
        after: the machine after them.
        messages: lines of the kernel's log since the start; None where it may not be read.
        devices: what the tests ran on.
        took: seconds.
    """
    wanted = {device.uuid for device in devices if not device.instance}
    now = {gpu.uuid.value: gpu for gpu in after.gpus}
    silent = after.source("nvml").state is not SourceState.ANSWERED
    return tuple(
        _health_result(gpu, now.get(gpu.uuid.value), messages, took, silent=silent)
        for gpu in before.gpus
        if gpu.uuid.value in wanted
    )


def _health_result(
    before: Gpu, after: Gpu | None, messages: Sequence[str] | None, took: float, *, silent: bool
) -> TestResult:
    """What became of one; ``silent`` where NVML told nothing at all afterwards."""
    events = xid_numbers(messages or (), before.pci.value)
    faults = list(_faults(before, after) if after else [] if silent else ["NVML does not tell of it any more"])
    logged = [f"the driver logged Xid {number} for this GPU during the tests" for number in events]
    health = after.health if after else GpuHealth()
    throttled = [reason for reason in health.throttle_reasons.value or () if reason in GRAVE_REASONS]
    status, trouble, detail, cause = TestStatus.PASSED, None, None, None
    if faults or logged:
        status, trouble, detail = TestStatus.FAILED, Trouble.ERROR, "; ".join([*faults, *logged])
        cause = Cause.GPU_HARDWARE_FAULT if faults or any(number in HARDWARE for number in events) else None
    elif throttled:
        status, trouble, cause = TestStatus.FAILED, Trouble.ERROR, Cause.GPU_THROTTLED
        detail = f"after the tests the clock is held down: {', '.join(throttled)}"
    elif not (health.temperature.known or health.clock.known or health.ecc.known):
        status, trouble = TestStatus.SKIPPED, Trouble.NOT_APPLICABLE
        detail = "NVML tells nothing of this GPU's health here"
    measured: dict[str, tuple[float | None, str]] = {
        "temperature": (health.temperature.value, "C"),
        "clock": (health.clock.value, "MHz"),
        "power": (health.power.value, "W"),
    }
    return TestResult(
        name=NAME,
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
        yield f"NVML cannot open it any more (its return code is {after.fault.value})"
    old, new = before.health.ecc_uncorrected.value, after.health.ecc_uncorrected.value
    if old is not None and new is not None and new > old:
        yield f"{new - old} uncorrected memory errors during the tests"
    if after.health.rows_failed.value:
        yield "remapping a row of memory has failed"
    if after.health.rows_pending.value and not before.health.rows_pending.value:
        yield "a row of memory waits to be remapped since the tests"
    if after.health.pages_pending.value and not before.health.pages_pending.value:
        yield "a page of memory waits to be retired since the tests"


def xid_numbers(messages: Iterable[str], pci: str | None) -> list[int]:
    """The Xid numbers that the driver logged for a GPU.

    Without those that a program's own fault gives: the tests provoke them on purpose.
    """
    events = (xid_event(line) for line in messages)
    ours = pci_key(pci)
    return [event[0] for event in events if event and ours == event[1] is not None and event[0] not in BY_PROGRAMS]
