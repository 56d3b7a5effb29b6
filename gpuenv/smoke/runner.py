"""Runs tasks, each in its own process under a supervisor that leaves no process behind.

The result of a test follows from the end of its process and the facts that it printed.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from gpuenv.model.causes import Cause
from gpuenv.model.redaction import cut_text
from gpuenv.model.smoke import BROKEN, Quantity, TestResult, TestStatus, Trouble
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.probe.children import ChildGroup, ChildResult, Ending, UserIdentity, run_child
from gpuenv.probe.context import script
from gpuenv.probe.interpreters import identity_for, scratch_folder, target_variables
from gpuenv.probe.protocol import KILLED, numbered, parse_facts
from gpuenv.smoke.device_selection import VISIBLE, Device, devices_from_cupy
from gpuenv.smoke.gpu_health import watched_result
from gpuenv.smoke.supervisor import NOT_STARTED, TIMED_OUT
from gpuenv.smoke.tasks import BUDGET, BURN_IN, NO_TIME_LEFT, PAYLOAD, Task, skipped_result

MIN_SECONDS = 0.5  # with less time left, a test is not started
MAX_SILENT_TESTS = 2  # timeouts in a row after which the GPU gets no more tests
_MARGIN = 2.0  # seconds after the deadline for the supervisor to end its processes
_TERMINATE_SECONDS = 1.0  # seconds for terminated supervisors to exit
_SAMPLE_SECONDS = 0.5  # between two samples of a GPU under load
_HOLD_SECONDS = 7 * 86400.0  # longer than any run
_MAX_DETAIL, _MAX_REASON = 1000, 300  # characters
_UNSTARTED = "could not be started"
_KILL_REASON = "as the kernel does when the memory of the host or the container is used up"
PROGRAM_CAUSES = frozenset(
    (
        *(Cause.ASYNC_ERROR_SURFACED_LATE, Cause.CROSS_DEVICE_ARRAY, Cause.DTYPE_MISMATCH, Cause.FORK_AFTER_CUDA_INIT),
        *(Cause.IMPLICIT_HOST_DEVICE_CONVERSION, Cause.INVALID_KERNEL_LAUNCH, Cause.MEMORY_POOL_RETENTION),
        *(Cause.NUMPY_SEMANTICS_DIFFERENCE, Cause.STREAM_RACE),
    )
)
"""Causes that are mistakes of a program: a GPU test whose error text matches one has another cause."""

OnResult = Callable[[TestResult, int, int], None]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Where and how the tests run.

    Attributes:
        environment: the caller's variables, which the tests inherit.
        folder: the caller's working folder, the base of relative paths in PYTHONPATH.
        at_once: number of parallel tests.
        program: the payload's main file.
        until: ``time.monotonic`` at which the run must end, or None.
        kept_awake: UUIDs of the GPUs that the driver would shut down between two tests.
    """

    interpreter: str
    environment: Mapping[str, str]
    folder: str
    at_once: int = 1
    fault: str | None = None
    program: Path = PAYLOAD / "main.py"
    until: float | None = None
    kept_awake: tuple[str, ...] = ()


@dataclass(slots=True)
class _TestRun:
    """State that the threads of one run share."""

    settings: RunSettings
    scratch: str
    identity: UserIdentity | None = None
    group: ChildGroup = field(default_factory=ChildGroup)
    lock: threading.Lock = field(default_factory=threading.Lock)
    silent: dict[str, int] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    is_over: bool = False

    def payload(
        self, name: str, arguments: Mapping[str, object], devices: Sequence[Device], seconds: float
    ) -> ChildResult:
        """Runs the payload in the target with only these devices visible."""
        encoded = json.dumps({**arguments, "folder": self.scratch})
        visible = {VISIBLE: ",".join(device.visible for device in devices)} if devices else {}
        interpreter = os.path.abspath(self.settings.interpreter)  # noqa: PTH100 - a link stays one
        command = [interpreter, "-B", str(self.settings.program), name, encoded]
        return self.supervised(command, visible, seconds, self.identity)

    def supervised(
        self, program: Sequence[str], variables: Mapping[str, str], seconds: float, identity: UserIdentity | None = None
    ) -> ChildResult:
        settings = self.settings
        kept = target_variables(settings.environment, self.scratch, identity, settings.folder)
        environment = {**kept, **variables}
        supervisor = [sys.executable, "-I", "-S", "-B", str(Path(__file__).with_name("supervisor.py"))]
        user = ":".join(map(str, (identity.uid, identity.gid, *identity.groups))) if identity else ""
        command = [*supervisor, str(seconds), self.scratch, user, *program]
        return run_child(command, environment, time.monotonic() + seconds + _MARGIN, self.group)


@contextmanager
def _test_run(settings: RunSettings) -> Iterator[_TestRun]:
    """Yields a run; terminates all its processes at the end."""
    identity = identity_for(settings.interpreter, settings.environment)
    own = tempfile.TemporaryDirectory(prefix="gpuenv-smoke-") if identity is None else scratch_folder(identity)
    with own as scratch:
        run = _TestRun(settings, scratch, identity)
        try:
            yield run
        finally:
            run.is_over = True
            run.group.terminate(_TERMINATE_SECONDS)
            run.group.close()


class RunResults(NamedTuple):
    """The results in the order of the tasks, and the versions that the target reported.

    If the run was interrupted, all its processes are ended, and the remaining tests are skipped.
    """

    tests: tuple[TestResult, ...]
    versions: Mapping[str, str]
    is_interrupted: bool = False


def run_tasks(tasks: Sequence[Task], settings: RunSettings, progress: OnResult = lambda *_: None) -> RunResults:
    """Runs every task; those that must run alone come last.

    ``progress`` gets each result, the number done and the total.
    """
    results: dict[int, TestResult] = {}
    with _test_run(settings) as run:

        def work(number: int) -> None:
            result = _run_task(run, tasks[number])
            if run.is_over:  # the test was terminated with the run; it has not crashed
                return
            with run.lock:
                results[number] = result
            progress(result, len(results), len(tasks))

        # The slowest first: as the last ones they would prolong the run.
        together = sorted((n for n, task in enumerate(tasks) if not task.alone), key=lambda n: -tasks[n].test.longest)
        alone = [number for number, task in enumerate(tasks) if task.alone]
        try:
            if settings.kept_awake:  # until the group is terminated
                holder = [sys.executable, "-I", "-S", "-B", script("hold.py"), *settings.kept_awake]
                threading.Thread(target=run.supervised, args=(holder, {}, _HOLD_SECONDS), daemon=True).start()
            _run_parallel(work, together, settings.at_once)
            # Parallel tests may have used up the memory of each other: repeat these alone.
            crowded = min(settings.at_once, len(together)) > 1 and settings.fault is None
            again = [number for number in together if crowded and _ran_out_of_memory(results[number])]
            _run_parallel(work, alone + again, 1)
        except KeyboardInterrupt:
            run.is_over = True
            with run.lock:
                done = dict(results)
            detail = "not finished: interrupted"
            tests = [
                done.get(number) or skipped_result(task.test, task.gpu, Trouble.INTERRUPTED, detail, task.repeat)
                for number, task in enumerate(tasks)
            ]
            return RunResults(fail_lost_gpus(tests), dict(run.versions), is_interrupted=True)
    return RunResults(fail_lost_gpus([results[number] for number in range(len(tasks))]), dict(run.versions))


def _run_parallel(work: Callable[[int], None], numbers: Iterable[int], at_once: int) -> None:
    pool = ThreadPoolExecutor(at_once)
    futures = [pool.submit(work, number) for number in numbers]
    try:
        wait(futures)
        for future in futures:
            future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _ran_out_of_memory(result: TestResult) -> bool:
    memory_troubles = (Trouble.OUT_OF_MEMORY, Trouble.HOST_MEMORY, Trouble.KILLED)
    return result.status is TestStatus.BUSY or result.trouble in memory_troubles


def time_left(until: float | None, most: float) -> float:
    """Returns the seconds until the run must end, at most ``most``."""
    return most if until is None else min(most, until - time.monotonic())


def _run_task(run: _TestRun, task: Task) -> TestResult:
    visible = ",".join(device.visible for device in task.devices)
    if run.silent.get(visible, 0) >= MAX_SILENT_TESTS:
        detail = f"not started: {MAX_SILENT_TESTS} tests in a row timed out on this GPU"
        return skipped_result(task.test, task.gpu, Trouble.GIVEN_UP, detail, task.repeat)
    seconds = time_left(run.settings.until, task.deadline)
    if seconds < MIN_SECONDS:
        return skipped_result(task.test, task.gpu, Trouble.NO_TIME, NO_TIME_LEFT, task.repeat)
    with _watched(run, task, seconds) as samples:
        child = run.payload(task.test.name, payload_arguments(task, run.settings.fault), task.devices, seconds)
    facts = _read_facts(child)
    result = judge_task(replace(task, deadline=seconds), child, facts)
    result = watched_result(result, samples) if samples else result
    if result.status is TestStatus.TIMED_OUT and seconds < min(task.deadline, BUDGET[SmokeLevel.QUICK]):
        # It had less time than the budget of a quick run: the GPU is not to blame.
        detail = f"stopped after {seconds:.1f} s: the time for the run is used up"
        result = replace(result, status=TestStatus.SKIPPED, trouble=Trouble.NO_TIME, detail=detail)
    with run.lock:
        run.silent[visible] = run.silent.get(visible, 0) + 1 if result.status is TestStatus.TIMED_OUT else 0
        versions = facts.get("versions")
        if isinstance(versions, dict):
            run.versions.update({str(name): str(value) for name, value in versions.items()})
    return result


@contextmanager
def _watched(run: _TestRun, task: Task, seconds: float) -> Iterator[list[Mapping[str, object]]]:
    """Yields a list that has NVML's samples of the GPU at the end, if the task is a burn-in.

    A child that hangs in NVML ends with the run.
    """
    samples: list[Mapping[str, object]] = []
    if task.test.name != BURN_IN or task.gpu is None or task.devices[0].instance:
        yield samples
        return
    stop = Path(run.scratch) / f"stop-{task.gpu}-{task.repeat}"
    command = [sys.executable, "-I", "-S", "-B", script("watch.py"), str(stop), str(_SAMPLE_SECONDS), task.gpu]

    def watch() -> None:
        facts = _read_facts(run.supervised(command, {}, seconds + _MARGIN))
        samples.extend(entry for entry in numbered(facts, "sample") if isinstance(entry, dict))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.touch()
        thread.join(_SAMPLE_SECONDS + _MARGIN)


def payload_arguments(task: Task, fault: str | None) -> dict[str, object]:
    """Returns the JSON argument of the payload."""
    only = task.devices[0] if len(task.devices) == 1 else None
    return {
        "level": task.level.value,
        "seed": task.seed,
        "size": dict(task.size),
        "smaller": [dict(size) for size in task.test.sizes_up_to(task.level)[:-1]],
        "fault": fault,
        # CuPy does not report the UUID of a MIG instance with every driver.
        "uuid": only.uuid if only and not only.instance and only.uuid_is_checked else None,
    }


def list_devices(settings: RunSettings, seconds: float) -> tuple[tuple[Device, ...], str | None]:
    """Returns the devices that the target's CuPy lists within these seconds, or its error."""
    with _test_run(settings) as run:
        child = run.payload("--census", {}, (), seconds)
    facts = _read_facts(child)
    error = facts.get("error")
    if error is None and facts.get("done") is not True:
        status, _, how = _describe_ending(child, seconds)
        error = f"no device list ({how}{'' if status is TestStatus.TIMED_OUT else _stderr_tail(child)})"
    entries = [entry for entry in numbered(facts, "device") if isinstance(entry, dict)]
    reason = cut_text(str(error), _MAX_DETAIL) if error is not None else None
    return devices_from_cupy(entries, settings.environment), reason


def _read_facts(child: ChildResult) -> dict[str, Any]:
    """Returns the facts of a child, with ``?`` for lone surrogates, which cannot be written to a file."""

    def printable(value: Any) -> Any:  # noqa: ANN401 - any type of JSON
        if isinstance(value, str):
            return value.encode("utf-8", "replace").decode("utf-8")
        if isinstance(value, list):
            return [printable(entry) for entry in value]
        if isinstance(value, dict):
            return {printable(key): printable(entry) for key, entry in value.items()}
        return value

    return {key: printable(value) for key, value in parse_facts(child.stdout).items()}


def judge_task(task: Task, child: ChildResult, facts: Mapping[str, Any]) -> TestResult:
    """Returns the result of a test from the end of its process and its facts."""
    status, trouble, how = _describe_ending(child, task.deadline)
    cause: Cause | None = None
    has_finished = child.ending is Ending.EXITED and child.exit_code == 0 and facts.get("done") is True
    verdict = _read_verdict(facts.get("verdict")) if has_finished else None
    detail: str | None
    if verdict is not None:
        status, trouble, detail, cause = verdict
    elif status is TestStatus.TIMED_OUT:
        detail = f"{how}{_stage_text(facts)}; its processes were killed"
    elif child.signal_name:
        why = f" ({_KILL_REASON})" if trouble is Trouble.KILLED else ""  # gpuenv itself kills on timeout only
        detail = f"{how}{_stage_text(facts)}{why}{_stderr_tail(child)}"
    else:
        stage = "" if how == _UNSTARTED else f" before its verdict{_stage_text(facts)}"
        detail = f"{how}{stage}{_stderr_tail(child)}"
    return TestResult(
        name=task.test.name,
        group=task.test.group,
        gpu=task.gpu,
        status=status,
        duration=child.duration,
        detail=cut_text(detail, _MAX_DETAIL) if detail else None,
        measured=_read_measured(facts.get("measured")) if status is TestStatus.PASSED else {},
        title=task.test.title,
        trouble=trouble,
        cause=cause,
        repeat=task.repeat,
        seed=task.seed,
        deadline=task.deadline,
        work=_read_number(facts.get("work_seconds")),
    )


def _describe_ending(child: ChildResult, seconds: float) -> tuple[TestStatus, Trouble | None, str]:
    """Returns how a process without a verdict ended; ``seconds`` is its deadline."""
    # A child may exit with the same code by itself, but hardly at the deadline.
    if child.ending is Ending.TIMED_OUT or (child.exit_code == TIMED_OUT and child.duration >= seconds):
        return TestStatus.TIMED_OUT, Trouble.DEADLINE, f"no answer within {round(seconds, 1):g} s"
    if child.signal_name:
        trouble = Trouble.KILLED if child.signal_name == KILLED else Trouble.SIGNAL
        return TestStatus.CRASHED, trouble, f"ended by {child.signal_name}"
    unstarted = child.ending is Ending.NOT_STARTED or child.exit_code == NOT_STARTED
    how = _UNSTARTED if unstarted else f"ended with exit code {child.exit_code}"
    return TestStatus.CRASHED, Trouble.ENDED_EARLY, how


def _read_verdict(data: object) -> tuple[TestStatus, Trouble | None, str | None, Cause | None] | None:
    """Decodes the payload's verdict; None if it is malformed."""
    if not isinstance(data, dict):
        return None
    try:
        status = TestStatus(data.get("status"))
        trouble = Trouble(data["trouble"]) if data.get("trouble") else None
    except ValueError:
        return None
    detail = data.get("detail")
    cause = next((cause for cause in Cause if cause.value == data.get("cause")), None)
    return status, trouble, str(detail) if detail else None, cause


def _read_measured(data: object) -> dict[str, Quantity]:
    if not isinstance(data, dict):
        return {}
    found = {}
    for name, entry in data.items():
        value = _read_number(entry.get("value")) if isinstance(entry, dict) else None
        if value is not None:
            found[str(name)] = Quantity(value, str(entry.get("unit", "")))
    return found


def _read_number(data: object) -> float | None:
    """Returns a finite number or None: JSON integers have any length, and Python's parser accepts ``NaN``."""
    try:
        value = float(data) if isinstance(data, int | float) else math.nan
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _stage_text(facts: Mapping[str, Any]) -> str:
    if "stage" in facts:
        return f" while computing {facts['stage']}"
    if "device" in facts:
        return " while preparing its input"
    if "versions" in facts:
        return " while initializing CUDA"
    return " while importing CuPy" if "started" in facts else " before it started"


def _stderr_tail(child: ChildResult) -> str:
    lines = [line.strip() for line in child.stderr.splitlines() if line.strip()]
    reason = child.error or (cut_text(lines[-1], _MAX_REASON) if lines else None)
    return f": {reason}" if reason else ""


def fail_lost_gpus(tests: Sequence[TestResult]) -> tuple[TestResult, ...]:
    """Turns skipped tests without a GPU into failures if other tests of the run had one.

    Each test was assigned a GPU that the machine lists, so this GPU failed to initialize or was lost meanwhile. If no
    test had a GPU, the doctor finds out why.
    """
    had_one = any(test.status is TestStatus.PASSED or test.status in BROKEN for test in tests)
    return tuple(
        replace(
            test,
            status=TestStatus.FAILED,
            detail=f"{test.detail}; other tests of this run had one",
            cause=Cause.CUDA_INITIALIZATION_FAILED,
        )
        if had_one and test.trouble is Trouble.NO_DEVICE
        else test
        for test in tests
    )
