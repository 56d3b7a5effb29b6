"""The state of the GPUs before and after the tests: memory errors, remapped rows, throttling, Xid messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuenv.model.causes import Cause
from gpuenv.model.gpu import GRAVE_REASONS
from gpuenv.model.identity import pci_key
from gpuenv.model.smoke import Quantity, TestResult, TestStatus, Trouble
from gpuenv.model.snapshot import Gpu, Snapshot
from gpuenv.model.xid import BY_PROGRAMS, MESSAGE
from gpuenv.smoke.devices import Device

NAME, GROUP, TITLE = "health.state", "health", "no new memory errors, remapped rows, Xid messages or throttling"


def state_tests(
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
    old = {gpu.uuid.value: gpu for gpu in before.gpus}
    return tuple(
        _state(old[gpu.uuid.value], gpu, messages, took)
        for gpu in after.gpus
        if gpu.uuid.value in wanted and gpu.uuid.value in old
    )


def _state(before: Gpu, after: Gpu, messages: Sequence[str] | None, took: float) -> TestResult:
    faults, throttled = list(_faults(before, after, messages)), list(_throttling(after))
    known = [reading for reading in (after.health.temperature, after.health.clock, after.health.ecc) if reading.known]
    status, trouble, cause, detail = TestStatus.PASSED, None, None, None
    if faults:
        status, trouble, cause = TestStatus.FAILED, Trouble.ERROR, Cause.GPU_HARDWARE_FAULT
        detail = "; ".join(faults)
    elif throttled:
        status, trouble, cause = TestStatus.FAILED, Trouble.ERROR, Cause.GPU_THROTTLED
        detail = f"after the tests the clock is held down: {', '.join(throttled)}"
    elif not known:
        status, trouble = TestStatus.SKIPPED, Trouble.NOT_APPLICABLE
        detail = "NVML tells nothing of this GPU's health here"
    return TestResult(
        name=NAME,
        group=GROUP,
        gpu=after.uuid.value,
        status=status,
        duration=took,
        detail=detail,
        measured=_measured(after),
        title=TITLE,
        trouble=trouble,
        cause=cause,
    )


def _faults(before: Gpu, after: Gpu, messages: Sequence[str] | None) -> Iterator[str]:
    old, new = before.health.ecc_uncorrected.value, after.health.ecc_uncorrected.value
    if old is not None and new is not None and new > old:
        yield f"{new - old} uncorrected memory errors during the tests"
    if after.health.rows_failed.value:
        yield "remapping a row of memory has failed"
    if after.health.rows_pending.value and not before.health.rows_pending.value:
        yield "a row of memory waits to be remapped since the tests"
    if after.health.pages_pending.value and not before.health.pages_pending.value:
        yield "a page of memory waits to be retired since the tests"
    for number in xids(messages or (), after.pci.value):
        yield f"the driver logged Xid {number} for this GPU during the tests"


def xids(messages: Iterable[str], pci: str | None) -> list[int]:
    """The Xid numbers that the driver logged for a GPU.

    Without those that a program's own fault gives: the tests provoke them on purpose.
    """
    found = [match for line in messages if (match := MESSAGE.search(line))]
    ours = [int(match[2]) for match in found if _same_slot(match[1], pci)]
    return [number for number in ours if number not in BY_PROGRAMS]


def _same_slot(logged: str, pci: str | None) -> bool:
    """The log leaves the function number out: 0000:17:00."""
    key = pci_key(logged if "." in logged else f"{logged}.0")
    return key is not None and key == pci_key(pci)


def _throttling(after: Gpu) -> Iterator[str]:
    for reason in after.health.throttle_reasons.value or ():
        if reason in GRAVE_REASONS:
            yield reason


def _measured(after: Gpu) -> dict[str, Quantity]:
    health = after.health
    readings: dict[str, tuple[float | None, str]] = {
        "temperature": (health.temperature.value, "C"),
        "clock": (health.clock.value, "MHz"),
        "power": (health.power.value, "W"),
    }
    return {name: Quantity(float(value), unit) for name, (value, unit) in readings.items() if value is not None}
