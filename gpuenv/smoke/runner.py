"""Runs a plan: each task in a process of its own, under a supervisor that leaves nothing of it behind.

What became of a test is told by how its process ended and by the facts that it printed.
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
from gpuenv.model.secrets import without_secrets
from gpuenv.model.smoke import BROKEN, Quantity, TestResult, TestStatus, Trouble
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.probe.children import ChildGroup, ChildResult, Ending, run_child
from gpuenv.probe.context import script
from gpuenv.probe.protocol import KILLED, numbered, parse_facts
from gpuenv.smoke.device_selection import VISIBLE, Device, devices_from_cupy
from gpuenv.smoke.supervisor import NOT_STARTED, TIMED_OUT
from gpuenv.smoke.tasks import BUDGET, PAYLOAD, Task, skipped_result

MIN_SECONDS = 0.5  # seconds: with less left, a test is not started
MAX_SILENT_TESTS = 2  # as many without an answer in a row, and the GPU is asked no more
_MARGIN = 2.0  # seconds beyond the deadline in which the supervisor ends what it has started
_TERMINATE_SECONDS = 1.0  # seconds in which supervisors that were asked to end may do so
_HOLD_SECONDS = 7 * 86400.0  # seconds
_MAX_DETAIL = 1000  # characters of a detail
_UNSTARTED = "could not be started"
_KILL_REASON = "the kernel does so to a process where the memory of the host or the container is used up"
PROGRAM_CAUSES = frozenset(
    (
        *(Cause.ASYNC_ERROR_SURFACED_LATE, Cause.CROSS_DEVICE_ARRAY, Cause.DTYPE_MISMATCH, Cause.FORK_AFTER_CUDA_INIT),
        *(Cause.IMPLICIT_HOST_DEVICE_CONVERSION, Cause.INVALID_KERNEL_LAUNCH, Cause.MEMORY_POOL_RETENTION),
        *(Cause.NUMPY_SEMANTICS_DIFFERENCE, Cause.STREAM_RACE),
    )
)
"""What only a program's own mistake brings about: the tests make none, and words that name one mean something else."""

OnResult = Callable[[TestResult, int, int], None]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Where and how the tests run.

    Attributes:
        interpreter: the target's.
        environment: the caller's variables, which the tests run with.
        folder: the caller's working folder, from which relative paths in PYTHONPATH are counted.
        at_once: how many run side by side.
        fault: a fault to plant, or None.
        program: the payload's main file.
        until: reading of ``time.monotonic`` at which the whole run must be over, or None.
        kept_awake: UUIDs of GPUs that the driver would take down between one test and the next.
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
    """What the threads of one run share."""

    setting: RunSettings
    empty: str
    group: ChildGroup = field(default_factory=ChildGroup)
    lock: threading.Lock = field(default_factory=threading.Lock)
    silent: dict[str, int] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    over: bool = False

    def payload(self, name: str, order: Mapping[str, object], devices: Sequence[Device], seconds: float) -> ChildResult:
        """Runs the payload in the target, with these devices alone to be seen."""
        told = json.dumps({**order, "folder": self.empty})
        visible = {VISIBLE: ",".join(device.visible for device in devices)} if devices else {}
        command = [self.setting.interpreter, "-B", str(self.setting.program), name, told]
        return self.supervised(command, visible, seconds)

    def supervised(self, program: Sequence[str], variables: Mapping[str, str], seconds: float) -> ChildResult:
        environment = {**child_environment(self.setting.environment, self.setting.folder), **variables}
        supervisor = [sys.executable, "-I", "-S", "-B", str(Path(__file__).with_name("supervisor.py"))]
        command = [*supervisor, str(seconds), self.empty, *program]
        return run_child(command, environment, time.monotonic() + seconds + _MARGIN, self.group)


@contextmanager
def _test_run(setting: RunSettings) -> Iterator[_TestRun]:
    """A run that ends whatever it has started."""
    with tempfile.TemporaryDirectory(prefix="gpuenv-smoke-") as empty:
        run = _TestRun(setting, empty)
        try:
            yield run
        finally:
            run.over = True
            run.group.terminate(_TERMINATE_SECONDS)
            run.group.close()


class RunResults(NamedTuple):
    """The results in the order of the plan, and the versions that the target's programs told."""

    tests: tuple[TestResult, ...]
    versions: Mapping[str, str]


class RunInterrupted(KeyboardInterrupt):
    """Nothing that was started is left behind; ``outcome`` has what was found before, the rest skipped."""

    def __init__(self, outcome: RunResults) -> None:
        super().__init__()
        self.outcome = outcome


def run_tasks(tasks: Sequence[Task], setting: RunSettings, progress: OnResult = lambda *_: None) -> RunResults:
    """Runs every task; those that must be alone after all others.

    Args:
        tasks: the plan.
        setting: where and how.
        progress: told each result, how many are done, and how many there are.

    Raises:
        RunInterrupted: when interrupted.
    """
    results: dict[int, TestResult] = {}
    with _test_run(setting) as run:

        def work(number: int) -> None:
            result = _run_task(run, tasks[number])
            if run.over:  # what was ended with the run has not crashed
                return
            with run.lock:
                results[number] = result
            progress(result, len(results), len(tasks))

        # Those that may take longest first: at the end of the line they would be waited for.
        together = sorted((n for n, task in enumerate(tasks) if not task.alone), key=lambda n: -tasks[n].test.longest)
        alone = [number for number, task in enumerate(tasks) if task.alone]
        try:
            if setting.kept_awake:  # held as long as tests run: it ends with the group
                holder = [sys.executable, "-I", "-S", "-B", script("hold.py"), *setting.kept_awake]
                threading.Thread(target=run.supervised, args=(holder, {}, _HOLD_SECONDS), daemon=True).start()
            _run_parallel(work, together, setting.at_once)
            # What ran with others may have lacked what those held.
            crowded = min(setting.at_once, len(together)) > 1 and setting.fault is None
            again = [number for number in together if crowded and _ran_out_of_memory(results[number])]
            _run_parallel(work, alone + again, 1)
        except KeyboardInterrupt:
            run.over = True
            with run.lock:
                done = dict(results)
            detail = "not finished: the run was interrupted"
            tests = [
                done.get(number) or skipped_result(task.test, task.gpu, Trouble.INTERRUPTED, detail, task.repeat)
                for number, task in enumerate(tasks)
            ]
            raise RunInterrupted(RunResults(with_the_lost(tests), dict(run.versions))) from None
    return RunResults(with_the_lost([results[number] for number in range(len(tasks))]), dict(run.versions))


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
    lacked = (Trouble.OUT_OF_MEMORY, Trouble.HOST_MEMORY, Trouble.KILLED)
    return result.status is TestStatus.BUSY or result.trouble in lacked


def _run_task(run: _TestRun, task: Task) -> TestResult:
    place = ",".join(device.visible for device in task.devices)
    if run.silent.get(place, 0) >= MAX_SILENT_TESTS:
        detail = f"not started: {MAX_SILENT_TESTS} tests in a row had no answer from this GPU in time"
        return skipped_result(task.test, task.gpu, Trouble.GIVEN_UP, detail, task.repeat)
    left = task.deadline if run.setting.until is None else run.setting.until - time.monotonic()
    if left < MIN_SECONDS:
        detail = "not started: the time for the whole run is used up"
        return skipped_result(task.test, task.gpu, Trouble.NO_TIME, detail, task.repeat)
    seconds = min(task.deadline, left)
    child = run.payload(task.test.name, payload_arguments(task, run.setting.fault), task.devices, seconds)
    facts = parse_facts(child.stdout)
    result = judge_task(replace(task, deadline=seconds), child, facts)
    if result.status is TestStatus.TIMED_OUT and seconds < min(task.deadline, BUDGET[SmokeLevel.QUICK]):
        # Cut off before it had the time that its level should take at most, which is no fault of the GPU's.
        detail = f"cut off after {seconds:.1f} s: the time for the whole run is used up"
        result = replace(result, status=TestStatus.SKIPPED, trouble=Trouble.NO_TIME, detail=detail)
    with run.lock:
        run.silent[place] = run.silent.get(place, 0) + 1 if result.status is TestStatus.TIMED_OUT else 0
        told = facts.get("versions")
        if isinstance(told, dict):
            run.versions.update({str(name): str(value) for name, value in told.items()})
    return result


def payload_arguments(task: Task, fault: str | None) -> dict[str, object]:
    """What the payload is told."""
    only = task.devices[0] if len(task.devices) == 1 else None
    return {
        "level": task.level.value,
        "seed": task.seed,
        "size": dict(task.size),
        "fault": fault,
        # CuPy does not tell the UUID of a MIG instance on every driver.
        "uuid": only.uuid if only and not only.instance and only.told_alike else None,
    }


def child_environment(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """The caller's variables but for secrets, for a child in another folder: what PYTHONPATH names stays what it was.

    An empty entry and a dot stand for the working folder, from which nothing is ever picked up.
    """
    changed = without_secrets(environment)
    if "PYTHONPATH" in changed:
        entries = [entry for entry in changed["PYTHONPATH"].split(os.pathsep) if os.path.normpath(entry or ".") != "."]
        changed["PYTHONPATH"] = os.pathsep.join(os.path.join(folder, entry) for entry in entries)  # noqa: PTH118
        if not changed["PYTHONPATH"]:
            del changed["PYTHONPATH"]
    return changed


def list_devices(setting: RunSettings, seconds: float) -> tuple[tuple[Device, ...], str | None]:
    """The devices that the target's CuPy lists within some seconds, and what it says instead where it cannot."""
    with _test_run(setting) as run:
        child = run.payload("--census", {}, (), seconds)
    facts = parse_facts(child.stdout)
    error = facts.get("error")
    if error is None and facts.get("done") is not True:
        status, _, how = _describe_ending(child, seconds)
        error = f"nothing ({how}{'' if status is TestStatus.TIMED_OUT else _stderr_tail(child)})"
    listed = [entry for entry in numbered(facts, "device") if isinstance(entry, dict)]
    return devices_from_cupy(listed, setting.environment), str(error) if error is not None else None


def judge_task(task: Task, child: ChildResult, facts: Mapping[str, Any]) -> TestResult:
    """The result of a test."""
    status, trouble, how = _describe_ending(child, task.deadline)
    cause: Cause | None = None
    ended_well = child.ending is Ending.EXITED and child.exit_code == 0 and facts.get("done") is True
    told = _read_verdict(facts.get("verdict")) if ended_well else None
    detail: str | None
    if told is not None:
        status, trouble, detail, cause = told
    elif status is TestStatus.TIMED_OUT:
        detail = f"{how}{_stage_text(facts)}; its processes were killed"
    elif child.signal_name:
        why = f" ({_KILL_REASON})" if trouble is Trouble.KILLED else ""  # what gpuenv kills itself is out of time
        detail = f"{how}{_stage_text(facts)}{why}{_stderr_tail(child)}"
    else:
        where = "" if how == _UNSTARTED else f" before its verdict{_stage_text(facts)}"
        detail = f"{how}{where}{_stderr_tail(child)}"
    return TestResult(
        name=task.test.name,
        group=task.test.group,
        gpu=task.gpu,
        status=status,
        duration=child.duration,
        detail=detail[:_MAX_DETAIL] if detail else None,
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
    """What became of a process that gave no answer, in a few words; ``seconds`` is its deadline."""
    # A child may end with the supervisor's code by itself, but hardly at the deadline.
    if child.ending is Ending.TIMED_OUT or (child.exit_code == TIMED_OUT and child.duration >= seconds):
        return TestStatus.TIMED_OUT, Trouble.DEADLINE, f"no answer within {seconds:g} s"
    if child.signal_name:
        trouble = Trouble.KILLED if child.signal_name == KILLED else Trouble.SIGNAL
        return TestStatus.CRASHED, trouble, f"ended by {child.signal_name}"
    unstarted = child.ending is Ending.NOT_STARTED or child.exit_code == NOT_STARTED
    how = _UNSTARTED if unstarted else f"ended with exit code {child.exit_code}"
    return TestStatus.CRASHED, Trouble.ENDED_EARLY, how


def _read_verdict(said: object) -> tuple[TestStatus, Trouble | None, str | None, Cause | None] | None:
    """A verdict in the form that the payload gives it; None for anything else."""
    if not isinstance(said, dict):
        return None
    try:
        status = TestStatus(said.get("status"))
        trouble = Trouble(said["trouble"]) if said.get("trouble") else None
    except ValueError:
        return None
    detail = said.get("detail")
    cause = next((cause for cause in Cause if cause.value == said.get("cause")), None)
    return status, trouble, str(detail) if detail else None, cause


def _read_measured(told: object) -> dict[str, Quantity]:
    if not isinstance(told, dict):
        return {}
    found = {}
    for name, entry in told.items():
        value = _read_number(entry.get("value")) if isinstance(entry, dict) else None
        if value is not None:
            found[str(name)] = Quantity(value, str(entry.get("unit", "")))
    return found


def _read_number(told: object) -> float | None:
    """A number that is one; JSON has whole numbers of any length, and Python's reads ``NaN``."""
    try:
        value = float(told) if isinstance(told, int | float) else math.nan
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _stage_text(facts: Mapping[str, Any]) -> str:
    if "stage" in facts:
        return f", while it worked on {facts['stage']}"
    if "device" in facts:
        return ", while it prepared its input"
    if "versions" in facts:
        return ", while CUDA was initialised"
    return ", while CuPy was imported" if "started" in facts else ", before it had begun"


def _stderr_tail(child: ChildResult) -> str:
    lines = [line.strip() for line in child.stderr.splitlines() if line.strip()]
    reason = child.error or (lines[-1][:300] if lines else None)
    return f": {reason}" if reason else ""


def with_the_lost(tests: Sequence[TestResult]) -> tuple[TestResult, ...]:
    """The same results; a test that CUDA showed no GPU has failed where others of the same run had one.

    Every one of them was given a GPU that the machine lists: this one is not started, or has gone meanwhile. Where
    no test had a GPU, the doctor knows why, and nothing is proven.
    """
    had_one = any(test.status is TestStatus.PASSED or test.status in BROKEN for test in tests)
    return tuple(
        replace(
            test,
            status=TestStatus.FAILED,
            detail=f"{test.detail}; other tests of this run were shown one",
            cause=Cause.CUDA_INITIALIZATION_FAILED,
        )
        if had_one and test.trouble is Trouble.NO_DEVICE
        else test
        for test in tests
    )
