"""Results of the smoke tests: ``gpuenv.smoke/1``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from gpuenv.model.causes import Cause
from gpuenv.model.job import Job
from gpuenv.model.smoke_level import SmokeLevel

SCHEMA = "gpuenv.smoke/1"
FAULT_VARIABLE = "GPUENV_SMOKE_FAULT"
"""Names a fault to inject into every test, to try out failures; the payload's cupy_device.py lists them."""


class TestStatus(str, Enum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    BUSY = "busy"

    __test__ = False  # not for pytest


HEALTH_STATE = "health.state"
"""The result that compares what NVML reports before and after the tests: it does not show that a GPU computes."""

THROTTLED = "throttled_"
"""Prefix of measured numbers: the share of a burn-in during which the clock was lower for the reason that follows."""

BROKEN = (TestStatus.FAILED, TestStatus.CRASHED, TestStatus.TIMED_OUT)
"""The statuses of a failure."""


class Trouble(str, Enum):
    """Why a test did not pass: finer than the status."""

    WRONG_ANSWER = "wrong-answer"  # the GPU's numbers are not the expected ones
    ERROR = "error"  # an exception
    OUT_OF_MEMORY = "out-of-memory"  # an allocation exceeded the memory or the pool's limit
    MEMORY_HELD_BY_OTHERS = "memory-held-by-others"  # other processes hold the GPU's memory
    DEVICE_UNAVAILABLE = "device-unavailable"  # another process has exclusive use of the GPU
    CONTEXT_LOST = "context-lost"  # a fatal error: the process can no longer use the GPU
    SIGNAL = "signal"  # the process was ended by a signal
    KILLED = "killed"  # killed by another program, mostly the kernel when host memory runs out
    ENDED_EARLY = "ended-early"  # the process ended before its verdict
    DEADLINE = "deadline"  # no answer in time; killed
    NO_DEVICE = "no-device"  # CUDA finds no GPU
    WRONG_DEVICE = "wrong-device"  # CUDA shows another GPU than the requested one
    TOO_SMALL = "too-small"  # the GPU, or the pool's limit, has less memory than the test needs
    HOST_MEMORY = "host-memory"  # the host, or its share for a container, has less memory left than the test needs
    NOT_APPLICABLE = "not-applicable"  # a requirement of the test is missing
    GIVEN_UP = "given-up"  # not started: earlier tests on the GPU timed out
    NO_TIME = "no-time"  # not started or stopped: the time for the run is used up
    INTERRUPTED = "interrupted"  # not started or stopped: the run was interrupted


UNFINISHED = (Trouble.NO_TIME, Trouble.INTERRUPTED)
"""Why a selected test has no verdict without having failed."""


class Quantity(NamedTuple):
    """A measured number and its unit: ``B/s``, ``FLOP/s``, ``s``, ``B`` or ``1``."""

    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test on one GPU.

    Attributes:
        name: ``blas.matmul_f32``.
        group: ``blas``.
        gpu: UUID of the GPU or MIG instance; null without a GPU, or if all were used.
        duration: seconds, including process start and the import of CuPy.
        detail: why it did not pass.
        measured: measured numbers by name.
        trouble: finer than the status.
        cause: the root cause, if known.
        deadline: seconds.
        work: seconds from the first to the last GPU call.
    """

    __test__ = False  # not for pytest

    name: str
    group: str
    gpu: str | None
    status: TestStatus
    duration: float
    detail: str | None = None
    measured: Mapping[str, Quantity] = field(default_factory=dict)
    title: str = ""
    trouble: Trouble | None = None
    cause: Cause | None = None
    repeat: int = 0
    seed: int = 0
    deadline: float | None = None
    work: float | None = None


@dataclass(frozen=True, slots=True)
class TestedGpu:
    """A GPU or MIG instance that tests ran on; memory in bytes.

    Attributes:
        index: NVML index of the GPU; null where NVML does not list it.
        pci: PCI address of the GPU, as NVML spells it.
        status: of the tests on this GPU alone; null if it had none.
    """

    __test__ = False  # not for pytest

    uuid: str | None
    name: str | None = None
    compute_capability: str | None = None
    memory_total: int | None = None
    index: int | None = None
    pci: str | None = None
    status: TestStatus | None = None


class Compared(NamedTuple):
    """Comparison of a measured number; ``ratio`` is ``value`` over ``baseline``.

    Attributes:
        name: group and name, such as ``transfer.h2d_pinned``.
        baseline: the reference value.
        worse: whether the difference, in the direction that is worse for this unit, is more than the tolerance.
        against: ``baseline``, an earlier run of this GPU; ``baseline-product``, the median of the GPUs of the same name
            in that run; ``sisters``, the median of the other GPUs of the same name in this run; ``data-sheet``, the
            theoretical peak of the product; ``minimum``, that of ``--min-rate``; ``start``, the first rate of the
            burn-in, where ``value`` is the last.
    """

    name: str
    gpu: str | None
    unit: str
    value: float
    baseline: float
    ratio: float
    worse: bool
    against: str


class SmokeResult(NamedTuple):
    """A complete run.

    Attributes:
        status: ``passed``, ``failed`` (any test failed, crashed or ran out of time), ``busy`` or ``skipped``.
        exit_code: 0 passed; 5 otherwise.
        seed: that all inputs are derived from.
        gpus: that the tests ran on.
        tests: each test on each GPU.
        duration: seconds.
        budget: maximum seconds that the level should take.
        versions: of Python, NumPy and CuPy, as the target environment reports them.
        fault: the injected fault, or null.
        compared: with the baseline, other GPUs and data sheets.
        rejected: why the exit code is not 0 although no test failed: a minimum that was not met or not measured, a
            finding of ``--fail-on``.
        started_at: ISO 8601.
        host_name: of the machine, as a report has it; null in a report.
        jobs: those of schedulers and CI systems in which gpuenv ran; empty in a report.
    """

    status: TestStatus
    exit_code: int
    level: SmokeLevel
    seed: int
    gpus: tuple[TestedGpu, ...]
    tests: tuple[TestResult, ...]
    duration: float
    budget: float
    versions: Mapping[str, str] = MappingProxyType({})
    fault: str | None = None
    compared: tuple[Compared, ...] = ()
    rejected: tuple[str, ...] = ()
    started_at: str | None = None
    gpuenv_version: str = ""
    host_name: str | None = None
    jobs: tuple[Job, ...] = ()
    schema: str = SCHEMA


def overall(tests: tuple[TestResult, ...]) -> TestStatus:
    """Returns the overall status: failed before busy before passed; skipped if a test is unfinished.

    Tests that do not apply are ignored; without any other on one of the GPUs, the status is skipped.
    """
    found = {test.status for test in tests}
    if found.intersection(BROKEN):
        return TestStatus.FAILED
    if TestStatus.BUSY in found:
        return TestStatus.BUSY
    unfinished = any(test.trouble in UNFINISHED for test in tests)
    passed = {test.gpu for test in tests if test.status is TestStatus.PASSED and test.name != HEALTH_STATE}
    is_complete = not unfinished and {test.gpu for test in tests if test.gpu is not None} <= passed
    return TestStatus.PASSED if passed and is_complete else TestStatus.SKIPPED
