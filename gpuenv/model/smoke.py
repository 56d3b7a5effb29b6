"""What a run of the smoke tests says: ``gpuenv.smoke/1``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from gpuenv.model.causes import Cause
from gpuenv.model.smoke_level import SmokeLevel

SCHEMA = "gpuenv.smoke/1"
FAULT_VARIABLE = "GPUENV_SMOKE_FAULT"
"""Names a fault to plant into every test, to see what becomes of a failure; the payload's faults.py tells them."""


class TestStatus(str, Enum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    BUSY = "busy"

    __test__ = False  # no test of pytest's


BROKEN = (TestStatus.FAILED, TestStatus.CRASHED, TestStatus.TIMED_OUT)
"""How a test ends that says that something is wrong."""


class Trouble(str, Enum):
    """What came between a test and its success: finer than the status."""

    WRONG_ANSWER = "wrong-answer"  # the GPU's numbers are not the expected ones
    ERROR = "error"  # an exception
    OUT_OF_MEMORY = "out-of-memory"  # more was asked for than there is, or than the pool's limit
    MEMORY_HELD_BY_OTHERS = "memory-held-by-others"  # it would have fitted, did others not hold the GPU's memory
    DEVICE_UNAVAILABLE = "device-unavailable"  # another process has the GPU for itself
    CONTEXT_LOST = "context-lost"  # an error after which the process can use the GPU no more
    SIGNAL = "signal"  # the process was ended by a signal
    KILLED = "killed"  # another program has ended the process, mostly the kernel for want of the host's memory
    ENDED_EARLY = "ended-early"  # the process ended before its verdict
    DEADLINE = "deadline"  # no answer in time; killed
    NO_DEVICE = "no-device"  # CUDA shows no GPU
    WRONG_DEVICE = "wrong-device"  # CUDA shows another GPU than the one asked for
    TOO_SMALL = "too-small"  # the GPU, or the pool's limit, has less memory than the test needs
    HOST_MEMORY = "host-memory"  # the host, or its share for a container, has less memory left than the test needs
    NOT_APPLICABLE = "not-applicable"  # something that the test needs is not there
    GIVEN_UP = "given-up"  # not started, since the GPU did not answer the tests before
    NO_TIME = "no-time"  # not started, or cut off early, since the time for the whole run was used up
    INTERRUPTED = "interrupted"  # not started, or ended early, since the whole run was interrupted


UNFINISHED = (Trouble.NO_TIME, Trouble.INTERRUPTED)
"""Why a test that was asked for has no verdict, though nothing speaks against it."""


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
        gpu: UUID of the GPU or MIG instance; null where no GPU was to be had, or where all were used.
        duration: seconds, the start of the process and the import of CuPy included.
        detail: why it did not pass, in a sentence.
        measured: what it measured, by name.
        trouble: finer than the status.
        cause: the root cause, where the test can tell.
        deadline: seconds that it was given.
        work: seconds between the first and the last call of the GPU.
    """

    __test__ = False  # no test of pytest's

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
    """A GPU or MIG instance that tests ran on; memory in bytes."""

    __test__ = False  # no test of pytest's

    uuid: str | None
    name: str | None = None
    compute_capability: str | None = None
    memory_total: int | None = None


class Compared(NamedTuple):
    """A measured number and another one; ``ratio`` is this one over the other.

    Attributes:
        name: group and name, such as ``transfer.h2d_pinned``.
        baseline: what it is compared with.
        worse: whether the difference, in the direction that is worse for this unit, is more than the tolerance.
        against: ``baseline``, an earlier run; ``sisters``, the median of the other GPUs of the same name in this run;
            ``data-sheet``, what the maker says that this product does at most.
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
    """A whole run.

    Attributes:
        status: ``passed``, ``failed`` (any test failed, crashed or ran out of time), ``busy`` or ``skipped``.
        exit_code: 0 passed; 5 otherwise.
        seed: what every input was made from.
        gpus: what the tests ran on.
        tests: each test on each GPU.
        duration: seconds.
        budget: seconds that the level should take at most.
        versions: of Python, NumPy and CuPy in the target environment, as it says itself.
        fault: the fault that was planted on purpose, or null.
        compared: with the baseline, where one was given.
        started_at: ISO 8601.
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
    started_at: str | None = None
    gpuenv_version: str = ""
    schema: str = SCHEMA


def overall(tests: tuple[TestResult, ...]) -> TestStatus:
    """What a run comes to: failed before busy, busy before passed; skipped where the verdict of a test is wanting.

    A test that does not apply is not wanted; where no other is left, there is no verdict either.
    """
    found = {test.status for test in tests}
    if found.intersection(BROKEN):
        return TestStatus.FAILED
    if TestStatus.BUSY in found:
        return TestStatus.BUSY
    unfinished = any(test.trouble in UNFINISHED for test in tests)
    return TestStatus.PASSED if TestStatus.PASSED in found and not unfinished else TestStatus.SKIPPED
