"""What became of a test, from how its process ended and what it had told. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuenv.model.causes import Cause
from gpuenv.model.smoke import BROKEN, Quantity, TestResult, TestStatus, Trouble
from gpuenv.probe.children import ChildResult, Ending
from gpuenv.probe.protocol import KILLED
from gpuenv.smoke.plan import Task
from gpuenv.smoke.supervisor import NOT_STARTED, TIMED_OUT

_LONGEST = 1000  # characters of a detail
_WHY_KILLED = "the kernel does so to a process where the memory of the host or the container is used up"
OF_PROGRAMS = frozenset(
    (
        *(Cause.ASYNC_ERROR_SURFACED_LATE, Cause.CROSS_DEVICE_ARRAY, Cause.DTYPE_MISMATCH, Cause.FORK_AFTER_CUDA_INIT),
        *(Cause.IMPLICIT_HOST_DEVICE_CONVERSION, Cause.INVALID_KERNEL_LAUNCH, Cause.MEMORY_POOL_RETENTION),
        *(Cause.NUMPY_SEMANTICS_DIFFERENCE, Cause.STREAM_RACE),
    )
)
"""What only a program's own mistake brings about: the tests make none, and words that name one mean something else."""


def verdict(task: Task, child: ChildResult, facts: Mapping[str, Any]) -> TestResult:
    """The result of a test."""
    status, trouble, detail, cause = _told(task, child, facts)
    return TestResult(
        name=task.test.name,
        group=task.test.group,
        gpu=task.gpu,
        status=status,
        duration=child.duration,
        detail=detail[:_LONGEST] if detail else None,
        measured=_measured(facts.get("measured")) if status is TestStatus.PASSED else {},
        title=task.test.title,
        trouble=trouble,
        cause=cause,
        repeat=task.repeat,
        seed=task.seed,
        deadline=task.deadline,
        work=_number(facts.get("work_seconds")),
    )


_Told = tuple[TestStatus, Trouble | None, str | None, Cause | None]


def _told(task: Task, child: ChildResult, facts: Mapping[str, Any]) -> _Told:
    if _ran_out_of_time(child, task.deadline):
        detail = f"no answer within {task.deadline:g} s{_stage(facts)}; its processes were killed"
        return TestStatus.TIMED_OUT, Trouble.DEADLINE, detail, None
    if child.ending is Ending.CRASHED:
        is_killed = child.signal_name == KILLED  # what gpuenv kills itself is out of time
        why = f" ({_WHY_KILLED})" if is_killed else ""
        detail = f"ended by {child.signal_name}{_stage(facts)}{why}{_last_words(child)}"
        return TestStatus.CRASHED, Trouble.KILLED if is_killed else Trouble.SIGNAL, detail, None
    if child.ending is Ending.EXITED and child.exit_code == 0 and facts.get("done") is True:
        said = _verdict_of(facts.get("verdict"))
        if said is not None:
            return said
    if _did_not_start(child):
        return TestStatus.CRASHED, Trouble.ENDED_EARLY, f"could not be started{_last_words(child)}", None
    detail = f"ended with exit code {child.exit_code} before its verdict{_stage(facts)}{_last_words(child)}"
    return TestStatus.CRASHED, Trouble.ENDED_EARLY, detail, None


def how_it_ended(child: ChildResult, seconds: float) -> str:
    """Why what is no test gave no answer, in a few words; ``seconds`` is what it was given."""
    if _ran_out_of_time(child, seconds):
        return f"no answer within {seconds:g} s"
    how = f"ended by {child.signal_name}" if child.signal_name else f"ended with exit code {child.exit_code}"
    return f"{'could not be started' if _did_not_start(child) else how}{_last_words(child)}"


def _did_not_start(child: ChildResult) -> bool:
    return child.ending is Ending.NOT_STARTED or child.exit_code == NOT_STARTED


def _ran_out_of_time(child: ChildResult, seconds: float) -> bool:
    """A child may end with the supervisor's code by itself, but hardly at the deadline."""
    return child.ending is Ending.TIMED_OUT or (child.exit_code == TIMED_OUT and child.duration >= seconds)


def _verdict_of(said: object) -> _Told | None:
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


def _measured(told: object) -> dict[str, Quantity]:
    if not isinstance(told, dict):
        return {}
    found = {}
    for name, entry in told.items():
        value = _number(entry.get("value")) if isinstance(entry, dict) else None
        if value is not None:
            found[str(name)] = Quantity(value, str(entry.get("unit", "")))
    return found


def _number(told: object) -> float | None:
    """A number that is one; JSON has whole numbers of any length, and Python's reads ``NaN``."""
    try:
        value = float(told) if isinstance(told, int | float) else math.nan
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _stage(facts: Mapping[str, Any]) -> str:
    if "stage" in facts:
        return f", while it worked on {facts['stage']}"
    if "device" in facts:
        return ", while it prepared its input"
    if "versions" in facts:
        return ", while CUDA was initialised"
    return ", while CuPy was imported" if "started" in facts else ", before it had begun"


def _last_words(child: ChildResult) -> str:
    lines = [line.strip() for line in child.stderr.splitlines() if line.strip()]
    reason = child.error or (lines[-1][:300] if lines else None)
    return f": {reason}" if reason else ""


def with_the_lost(tests: Sequence[TestResult]) -> tuple[TestResult, ...]:
    """The same results; a test that CUDA showed no GPU has failed where others of the same run had one.

    Every one of them was given a GPU that the machine lists: this one is not started, or has gone meanwhile. Where
    no test had a GPU, the doctor knows why, and nothing is proven.
    """
    had_one = any(test.status is TestStatus.PASSED or test.status in BROKEN for test in tests)
    return tuple(_lost(test) if had_one and test.trouble is Trouble.NO_DEVICE else test for test in tests)


def _lost(test: TestResult) -> TestResult:
    detail = f"{test.detail}; other tests of this run were shown one"
    return replace(test, status=TestStatus.FAILED, detail=detail, cause=Cause.CUDA_INITIALIZATION_FAILED)
