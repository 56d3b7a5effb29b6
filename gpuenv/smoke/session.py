"""A whole run of the smoke tests: which GPUs, which tests, what became of them, and what it comes to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuenv import __version__
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.gpus import RUNS_NO_KERNEL, is_simulated
from gpuenv.model.smoke import BROKEN, SmokeResult, TestResult, TestStatus, Trouble, overall
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.probe.request import ProbeRequest
from gpuenv.probe.session import take_snapshot
from gpuenv.smoke.baseline import Peaks, compare_with_peaks, compare_with_same_model
from gpuenv.smoke.device_selection import Device, powered_down_gpus, select_devices, visible_devices
from gpuenv.smoke.gpu_health import KernelLog, health_results
from gpuenv.smoke.runner import RunInterrupted, RunResults, RunSettings, list_devices, run_tasks
from gpuenv.smoke.tasks import (
    BUDGET,
    DEADLINE,
    SmokeOptions,
    plan_tasks,
    select_tests,
    skip_for_few_gpus,
    skipped_result,
    worker_count,
)

_EVERY = 5.0  # seconds from one word on the progress to the next
_STATE_SECONDS = 10.0  # that the machine may take to tell how the GPUs are afterwards

Announce = Callable[[str], None]


class UnusableTarget(Exception):  # noqa: N818 - an answer about the target
    """The target environment cannot run any test; ``remedy`` says what would help."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class SmokeInterrupted(KeyboardInterrupt):
    """``result`` has what was found before; what was not finished by then is skipped in it."""

    def __init__(self, result: SmokeResult) -> None:
        super().__init__()
        self.result = result


@dataclass(frozen=True, slots=True)
class SmokeTarget:
    """Where it is to be proven.

    Attributes:
        interpreter: the target's.
        environment: the caller's variables.
        folder: the caller's working folder.
        snapshot: what the doctor knows of the machine.
        driver_root: folder under which the driver's files are looked for.
        started: reading of ``time.monotonic`` when the command began.
        until: reading of it at which the whole run must be over, or None.
        peaks: what the data sheets say of GPUs.
    """

    interpreter: str
    environment: Mapping[str, str]
    folder: str
    snapshot: Snapshot
    driver_root: str
    started: float
    until: float | None = None
    peaks: Peaks = field(default_factory=dict)


def run_smoke(
    order: SmokeOptions,
    place: SmokeTarget,
    obstacle: Callable[[Snapshot], str | None],
    announce: Announce,
    started_at: str,
) -> SmokeResult:
    """Runs the tests.

    Args:
        order: what.
        place: where.
        obstacle: the doctor's word on why no GPU can be used.
        announce: told how far it is.
        started_at: the time of day, ISO 8601.

    Raises:
        Unusable: when the target environment can run no test.
        ValueError: when a GPU is named that is not there.
        ProofInterrupted: when interrupted while tests run.
    """
    _check_target(place.snapshot)
    # From what the doctor read; where that has none, from CuPy itself, which is believed over it.
    devices, error = visible_devices(place.snapshot, place.environment), None
    if not devices:
        setting = RunSettings(place.interpreter, place.environment, place.folder)
        devices, error = list_devices(setting, order.timeout or DEADLINE[order.level])
    if not devices:
        parts = [obstacle(place.snapshot) or "no GPU is visible here", f"CuPy says: {error}" if error else ""]
        return _skip_each(order, place, Trouble.NO_DEVICE, "; ".join(filter(None, parts)), started_at)
    devices = select_devices(devices, order.gpus)
    if is_simulated(place.environment):
        return skip_all(order, place, RUNS_NO_KERNEL, started_at)
    try:
        outcome = _run(order, place, devices, announce)
    except RunInterrupted as stop:
        so_far = _result(order, place, devices, stop.outcome, started_at)
        raise SmokeInterrupted(so_far._replace(exit_code=int(ExitCode.INTERRUPTED))) from None
    return _result(order, place, devices, outcome, started_at)


def skip_all(order: SmokeOptions, place: SmokeTarget, reason: str, started_at: str) -> SmokeResult:
    """Every test that would have run, skipped for a reason that holds for all."""
    return _skip_each(order, place, Trouble.NOT_APPLICABLE, reason, started_at)


def _skip_each(order: SmokeOptions, place: SmokeTarget, trouble: Trouble, reason: str, started_at: str) -> SmokeResult:
    tests = select_tests(order.groups, order.only, order.level)
    results = tuple(skipped_result(test, None, trouble, reason) for test in tests)
    return _result(order, place, (), RunResults(results, {}), started_at)


def _check_target(snapshot: Snapshot) -> None:
    target, source = snapshot.target, snapshot.source("target")
    if not target.python.known:
        named = target.executable.value or "the target"
        answered = source.state is SourceState.ANSWERED
        why = source.detail or ("no Python" if answered else "it gave no answer")
        raise UnusableTarget(f"{named} cannot be used: {why}", "name another one with --python PATH")
    if not target.cupy:
        raise UnusableTarget(
            f"CuPy is not in the target environment ({target.executable.value})",
            "gpuenv resolve names the wheel to install; --python PATH names another environment",
        )


def _run(order: SmokeOptions, place: SmokeTarget, devices: tuple[Device, ...], announce: Announce) -> RunResults:
    tests, log, last = select_tests(order.groups, order.only, order.level), KernelLog(), time.monotonic()
    # A container or a batch system may give this process a few processors of many.
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    setting = RunSettings(
        place.interpreter,
        place.environment,
        place.folder,
        worker_count(devices, order.level, processors),
        order.fault,
        until=place.until,
        kept_awake=powered_down_gpus(place.snapshot, devices),
    )

    def progress(result: TestResult, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY and done < total:
            last = time.monotonic()
            announce(f"{done} of {total} tests done, the last {result.name} ({result.status.value})")

    try:
        found, versions = run_tasks(plan_tasks(tests, devices, order), setting, progress)
        # The GPUs' health is looked at in all levels but the quick one, and after every failure; of a fault that was
        # planted on purpose it says nothing.
        due = order.level is not SmokeLevel.QUICK and not order.only and (not order.groups or "health" in order.groups)
        state: tuple[TestResult, ...] = ()
        if not order.fault and (due or any(test.status in BROKEN for test in found)):
            began = time.monotonic()
            request = ProbeRequest(place.environment, place.interpreter, place.driver_root, timeout=_STATE_SECONDS)
            after = take_snapshot(request)
            state = health_results(place.snapshot, after, log.lines(), devices, time.monotonic() - began)
    finally:
        log.close()
    return RunResults(found + skip_for_few_gpus(tests, devices, order) + state, versions)


def _result(
    order: SmokeOptions, place: SmokeTarget, devices: tuple[Device, ...], outcome: RunResults, started_at: str
) -> SmokeResult:
    gpus = tuple(device.record for device in devices)
    status = overall(outcome.tests)
    python = place.snapshot.target.python.value
    return SmokeResult(
        status=status,
        exit_code=int(ExitCode.OK if status is TestStatus.PASSED else ExitCode.SMOKE_FAILED),
        level=order.level,
        seed=order.seed,
        gpus=gpus,
        tests=outcome.tests,
        duration=time.monotonic() - place.started,
        budget=BUDGET[order.level],
        versions={**({"python": str(python)} if python else {}), **outcome.versions},
        fault=order.fault,
        started_at=started_at,
        compared=compare_with_peaks(outcome.tests, gpus, place.peaks) + compare_with_same_model(outcome.tests, gpus),
        gpuenv_version=__version__,
    )
