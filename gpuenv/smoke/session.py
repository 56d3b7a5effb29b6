"""A whole smoke run: selects GPUs and tests, runs them and returns one result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gpuenv import __version__
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.gpus import RUNS_NO_KERNEL, is_simulated
from gpuenv.model.smoke import BROKEN, HEALTH_STATE, SmokeResult, TestResult, TestStatus, Trouble, overall
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.probe.interpreters import ForeignTargetError, examining_identity, scratch_folder
from gpuenv.probe.request import ProbeRequest
from gpuenv.probe.session import take_snapshot
from gpuenv.smoke.baseline import Peaks, compare_with_peaks, compare_with_same_model, compare_with_start
from gpuenv.smoke.device_selection import Device, powered_down_gpus, select_devices, visible_devices
from gpuenv.smoke.gpu_health import KernelLog, health_results
from gpuenv.smoke.processors import processor_count
from gpuenv.smoke.runner import MIN_SECONDS, RunResults, RunSettings, list_devices, run_tasks, time_left
from gpuenv.smoke.tasks import (
    BUDGET,
    DEADLINE,
    NO_TIME_LEFT,
    PAYLOAD,
    SmokeOptions,
    plan_tasks,
    select_tests,
    skip_for_few_gpus,
    skipped_result,
    worker_count,
)

_PROGRESS_SECONDS = 5.0  # between two progress messages
_STATE_SECONDS = 10.0  # deadline for reading the GPUs' health afterwards

Announce = Callable[[str], None]


class UnusableTarget(Exception):  # noqa: N818 - an answer about the target
    """The target environment cannot run any test; ``remedy`` says what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class SmokeInterrupted(KeyboardInterrupt):
    """``result`` has the results so far, with unfinished tests as skipped."""

    def __init__(self, result: SmokeResult) -> None:
        super().__init__()
        self.result = result


@dataclass(frozen=True, slots=True)
class SmokeTarget:
    """The environment and the machine that the tests run in.

    Attributes:
        environment: the caller's variables.
        folder: the caller's working folder.
        driver_root: root folder of the driver's files.
        started: ``time.monotonic`` at the start of the command.
        until: ``time.monotonic`` at which the run must end, or None.
        peaks: theoretical maxima from the GPUs' data sheets.
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
    options: SmokeOptions,
    target: SmokeTarget,
    obstacle: Callable[[Snapshot], str | None],
    announce: Announce,
    started_at: str,
) -> SmokeResult:
    """Runs the tests.

    ``obstacle`` returns why no GPU is usable, according to the doctor; ``announce`` gets progress messages;
    ``started_at`` is the time of day, ISO 8601.

    Raises:
        UnusableTarget: the target environment cannot run any test.
        ValueError: ``options`` names a GPU that does not exist.
        SmokeInterrupted: interrupted while tests run.
    """
    _check_target(target.snapshot)
    try:
        identity = examining_identity(target.interpreter, target.environment, str(PAYLOAD / "main.py"))
    except ForeignTargetError as refusal:
        raise UnusableTarget(str(refusal), refusal.remedy) from refusal
    with scratch_folder(identity) as folder:
        if identity is not None and folder == os.sep:
            raise UnusableTarget(
                f"{target.interpreter} belongs to uid {identity.uid}, and no folder in /tmp can be made for that user",
                "run gpuenv as that user",
            )
    # The snapshot's devices; if it has none, CuPy's, which take precedence over the doctor's answer.
    devices, error = visible_devices(target.snapshot, target.environment), None
    if not devices:
        settings = RunSettings(target.interpreter, target.environment, target.folder)
        seconds = time_left(target.until, options.timeout or DEADLINE[options.level])
        if seconds < MIN_SECONDS:
            return skip_all(options, target, NO_TIME_LEFT, started_at, Trouble.NO_TIME)
        devices, error = list_devices(settings, seconds)
    if not devices:
        parts = [obstacle(target.snapshot) or "no GPU is visible", f"CuPy reports: {error}" if error else ""]
        return skip_all(options, target, "; ".join(filter(None, parts)), started_at, Trouble.NO_DEVICE)
    devices = select_devices(devices, options.gpus)
    if is_simulated(target.environment):
        return skip_all(options, target, RUNS_NO_KERNEL, started_at)
    outcome = _run(options, target, devices, announce)
    result = _result(options, target, devices, outcome, started_at)
    if outcome.is_interrupted:
        raise SmokeInterrupted(result._replace(exit_code=int(ExitCode.INTERRUPTED)))
    return result


def skip_all(
    options: SmokeOptions,
    target: SmokeTarget,
    reason: str,
    started_at: str,
    trouble: Trouble = Trouble.NOT_APPLICABLE,
) -> SmokeResult:
    """Returns a result with every selected test skipped for the same reason."""
    tests = select_tests(options)
    results = tuple(skipped_result(test, None, trouble, reason) for test in tests)
    return _result(options, target, (), RunResults(results, {}), started_at)


def _check_target(snapshot: Snapshot) -> None:
    target, source = snapshot.target, snapshot.source("target")
    if not target.python.known:
        name = target.executable.value or "the target"
        answered = source.state is SourceState.ANSWERED
        why = source.detail or ("it is not a Python" if answered else "it did not answer")
        raise UnusableTarget(f"{name} cannot be used: {why}", "pass another one with --python PATH")
    if not target.cupy:
        raise UnusableTarget(
            f"CuPy is not in the target environment ({target.executable.value})",
            "find the wheel to install with gpuenv resolve, or pass another environment with --python PATH",
        )


def _run(options: SmokeOptions, target: SmokeTarget, devices: tuple[Device, ...], announce: Announce) -> RunResults:
    tests, log, last = select_tests(options), KernelLog(), time.monotonic()
    settings = RunSettings(
        target.interpreter,
        target.environment,
        target.folder,
        worker_count(devices, options.level, processor_count()),
        options.fault,
        until=target.until,
        kept_awake=powered_down_gpus(target.snapshot, devices),
    )

    def progress(result: TestResult, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _PROGRESS_SECONDS and done < total:
            last = time.monotonic()
            announce(f"{done} of {total} tests done; last: {result.name} ({result.status.value})")

    try:
        outcome = run_tasks(plan_tasks(tests, devices, options), settings, progress)
        if outcome.is_interrupted:
            return outcome
        # The health is checked in all levels but the quick one and after every failure, but not with an injected fault.
        due = (
            (options.level is not SmokeLevel.QUICK or options.burn_in is not None)
            and not options.only
            and (not options.groups or "health" in options.groups)
        )
        is_skipped = options.fault or {"health", HEALTH_STATE} & {*options.skip}
        state: tuple[TestResult, ...] = ()
        if not is_skipped and (due or any(test.status in BROKEN for test in outcome.tests)):
            began, seconds = time.monotonic(), time_left(target.until, _STATE_SECONDS)
            request = ProbeRequest(target.environment, root=target.driver_root, timeout=seconds, host_only=True)
            after = take_snapshot(request) if seconds >= MIN_SECONDS else None
            state = health_results(target.snapshot, after, log.lines(), devices, time.monotonic() - began)
    finally:
        log.close()
    return RunResults(outcome.tests + skip_for_few_gpus(tests, devices, options) + state, outcome.versions)


def _result(
    options: SmokeOptions, target: SmokeTarget, devices: tuple[Device, ...], outcome: RunResults, started_at: str
) -> SmokeResult:
    by_gpu = {device.uuid: tuple(test for test in outcome.tests if test.gpu == device.uuid) for device in devices}
    gpus = tuple(
        replace(device.record, status=overall(by_gpu[device.uuid]) if by_gpu[device.uuid] else None)
        for device in devices
    )
    status = overall(outcome.tests)
    python = target.snapshot.target.python.value
    return SmokeResult(
        status=status,
        exit_code=int(ExitCode.OK if status is TestStatus.PASSED else ExitCode.SMOKE_FAILED),
        level=options.level,
        seed=options.seed,
        gpus=gpus,
        tests=outcome.tests,
        duration=time.monotonic() - target.started,
        budget=BUDGET[options.level],
        versions={**({"python": str(python)} if python else {}), **outcome.versions},
        fault=options.fault,
        started_at=started_at,
        compared=(
            *compare_with_peaks(outcome.tests, gpus, target.peaks),
            *compare_with_same_model(outcome.tests, gpus),
            *compare_with_start(outcome.tests),
        ),
        gpuenv_version=__version__,
    )
