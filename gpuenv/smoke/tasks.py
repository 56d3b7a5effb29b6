"""The catalogue of tests and the tasks of a run: tests with their devices, seeds and deadlines.

Nothing of the payload is imported: the attributes of a test are read from the literals of its class.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuenv.model.smoke import TestResult, TestStatus, Trouble
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.smoke.device_selection import Device

PAYLOAD = Path(__file__).parent / "payload"
GROUPS = (
    "kernels", "blas", "fft", "solver", "sparse", "random", "streams", "memory", "transfer", "dtype", "interop",
    "multi", "health",
)  # fmt: skip
BUDGET = {SmokeLevel.QUICK: 10.0, SmokeLevel.NORMAL: 60.0, SmokeLevel.DEEP: 900.0}
# Mostly for the first import of CuPy from a cold disk and the initialization of an idle driver.
DEADLINE = {SmokeLevel.QUICK: 30.0, SmokeLevel.NORMAL: 60.0, SmokeLevel.DEEP: 300.0}
BURN_IN = "health.sustained"
DEFAULT_SEED = 20261121
NO_TIME_LEFT = "not started: the time for the run is used up"
_TESTS_PER_GPU = 12  # all of the quick level; importing CuPy keeps one processor busy per test
# Bytes per test: its context, the libraries' workspaces and its arrays.
_MEMORY_PER_TEST = {SmokeLevel.QUICK: 2 << 30, SmokeLevel.NORMAL: 3 << 30, SmokeLevel.DEEP: 12 << 30}

Size = Mapping[str, object]


class MinimumRate(NamedTuple):
    """A rate that a GPU must reach: in FLOP/s or B/s, or a share of its reference.

    Attributes:
        name: group and name of the measured number, such as ``transfer.device_copy``.
        share: of the baseline if there is one, else of the data sheet; None for an absolute rate.
        rate: in the unit of the number; None for a share.
    """

    name: str
    share: float | None
    rate: float | None

    @property
    def test(self) -> str:
        """The test that measures it."""
        return f"{self.name.partition('.')[0]}.rates"


@dataclass(frozen=True, slots=True)
class TestInfo:
    """A test as its class describes it, see ``GpuTest``; ``sizes`` are its LEVELS.

    Attributes:
        name: ``blas.matmul_f32``.
        group: ``blas``.
    """

    __test__ = False  # not for pytest

    name: str
    group: str
    title: str
    sizes: Mapping[str, Size]
    needs: tuple[str, ...]
    tolerance: str
    alone: tuple[str, ...]
    seconds: Mapping[str, float]
    leaves: str = ""

    @property
    def gpus(self) -> int:
        """The number of GPUs it needs."""
        return max([1, *(int(need.partition(":")[2]) for need in self.needs if need.startswith("gpus:"))])

    @property
    def longest(self) -> float:
        """The longest of its own deadlines in seconds; 0 without any."""
        return max(self.seconds.values(), default=0.0)

    def sizes_up_to(self, level: SmokeLevel) -> tuple[Size, ...]:
        """Returns the sizes of a level and of those below it, the largest last; empty if the level lacks the test."""
        order = list(SmokeLevel)
        return tuple(self.sizes[entry.value] for entry in order[: order.index(level) + 1] if entry.value in self.sizes)

    def size(self, level: SmokeLevel) -> Size | None:
        """Returns the sizes for a level, else those of the nearest lower level; None if the level lacks the test."""
        return next(reversed(self.sizes_up_to(level)), None)


@cache
def all_tests() -> tuple[TestInfo, ...]:
    """Returns every test, by group and name."""
    return tuple(test for group in GROUPS for test in sorted(_read_tests(group), key=lambda test: test.name))


def _read_tests(group: str) -> Iterator[TestInfo]:
    path = PAYLOAD / "tests" / f"{group}.py"
    for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        found = _literals(node.body, "TITLE", "LEVELS", "NEEDS", "TOLERANCE", "ALONE", "SECONDS", "LEAVES")
        if "TITLE" in found:  # not a base class of several tests
            yield TestInfo(
                name=f"{group}.{re.sub('(?<!^)(?=[A-Z])', '_', node.name).lower()}",
                group=group,
                title=found["TITLE"],
                sizes=found["LEVELS"],
                needs=tuple(found.get("NEEDS", ())),
                tolerance=found["TOLERANCE"],
                alone=tuple(found.get("ALONE", ())),
                seconds=found.get("SECONDS", {}),
                leaves=found.get("LEAVES", ""),
            )


def _literals(body: Iterable[ast.stmt], *names: str) -> dict[str, Any]:
    """Returns the literals assigned to these names."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names
    }


def injectable_faults() -> tuple[str, ...]:
    """Returns the names of the faults that can be injected into a test."""
    text = (PAYLOAD / "cupy_device.py").read_text(encoding="utf-8")
    return tuple(_literals(ast.parse(text).body, "FAULTS")["FAULTS"])


@dataclass(frozen=True, slots=True)
class Task:
    """One test on one GPU, or on all of them.

    Attributes:
        devices: that its process sees.
        repeat: number of the repetition, from 0.
        deadline: seconds.
        level: of its sizes; deeper than requested if the test has none for that level.
    """

    test: TestInfo
    size: Size
    devices: tuple[Device, ...]
    seed: int
    repeat: int
    deadline: float
    level: SmokeLevel

    @property
    def gpu(self) -> str | None:
        """The UUID of its GPU, if it runs on only one."""
        return self.devices[0].uuid if len(self.devices) == 1 else None

    @property
    def alone(self) -> bool:
        """Whether nothing else may run at the same time."""
        return self.level.value in self.test.alone


@dataclass(frozen=True, slots=True)
class SmokeOptions:
    """Options of a run.

    Attributes:
        groups: groups of tests; empty for all.
        only: names of tests of any level.
        gpus: UUIDs or indices; empty for all.
        level: how thorough the tests are.
        seed: that the inputs are derived from.
        repeat: how often each test runs.
        timeout: seconds for each test; None for the default of the level and the test.
        fault: a fault to inject into every test, to test the tests.
        skip: names of tests or groups that do not run.
        faults: whether tests run that make a kernel fault on purpose.
        burn_in: seconds for which the burn-in runs, at any level; None for its own at the deep level.
        minimums: rates that must be reached; the tests that measure them run at any level.
    """

    groups: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    level: SmokeLevel = SmokeLevel.QUICK
    seed: int = DEFAULT_SEED
    repeat: int = 1
    timeout: float | None = None
    fault: str | None = None
    skip: tuple[str, ...] = ()
    faults: bool = False
    burn_in: float | None = None
    minimums: tuple[MinimumRate, ...] = ()


def select_tests(options: SmokeOptions) -> tuple[TestInfo, ...]:
    """Returns the tests of the level in the groups (all by default), or the named ones, which may be of any level."""
    added = {entry.test for entry in options.minimums} | ({BURN_IN} if options.burn_in is not None else set())

    def is_selected(test: TestInfo) -> bool:
        if test.name in options.skip or test.group in options.skip or (test.leaves and not options.faults):
            return False
        if test.name in added or options.only:
            return test.name in added or test.name in options.only
        return (not options.groups or test.group in options.groups) and test.size(options.level) is not None

    return tuple(test for test in all_tests() if is_selected(test))


def plan_tasks(tests: Iterable[TestInfo], devices: Sequence[Device], options: SmokeOptions) -> tuple[Task, ...]:
    """Plans every test on every device for each repetition; a test of several GPUs runs once on all of them."""
    several = tuple(device for device in devices if not device.instance)
    tasks = []
    for repeat in range(options.repeat):
        for test in tests:
            groups = [several] if test.gpus > 1 else [(device,) for device in devices]
            tasks += [_task(test, group, repeat, options) for group in groups if len(group) >= test.gpus]
    return tuple(tasks)


def _task(test: TestInfo, devices: tuple[Device, ...], repeat: int, options: SmokeOptions) -> Task:
    # A test named by --only may exist in deeper levels only: it then takes the sizes, the deadline and the isolation of
    # the first of these.
    has_level = test.size(options.level) is not None
    level = options.level if has_level else next(level for level in SmokeLevel if level.value in test.sizes)
    deadline = max(DEADLINE[level], test.seconds.get(level.value, 0.0))
    seed, size = derive_seed(options.seed, test.name, repeat), test.size(level) or {}
    if test.name == BURN_IN and options.burn_in is not None:
        size, deadline = {**size, "seconds": options.burn_in}, deadline + options.burn_in
    return Task(test, size, devices, seed, repeat, options.timeout or deadline, level)


def derive_seed(seed: int, name: str, repeat: int) -> int:
    """Returns the seed of a test and repetition, independent of the other tests in the run."""
    digits = hashlib.sha256(f"{seed}/{name}/{repeat}".encode()).hexdigest()
    return int(digits[:8], 16)


def skip_for_few_gpus(
    tests: Iterable[TestInfo], devices: Sequence[Device], options: SmokeOptions
) -> tuple[TestResult, ...]:
    """Returns a skipped result for each test that needs more GPUs than are visible."""
    count = sum(not device.instance for device in devices)
    unmet = [test for test in tests if test.gpus > 1 and test.gpus > count]
    return tuple(
        skipped_result(test, None, Trouble.NOT_APPLICABLE, f"needs {test.gpus} GPUs; visible: {count}", repeat)
        for repeat in range(options.repeat)
        for test in unmet
    )


def skipped_result(test: TestInfo, gpu: str | None, trouble: Trouble, detail: str, repeat: int = 0) -> TestResult:
    """Returns the result of a test that was not run; ``detail`` says why."""
    return TestResult(
        name=test.name,
        group=test.group,
        gpu=gpu,
        status=TestStatus.SKIPPED,
        duration=0.0,
        detail=detail,
        title=test.title,
        trouble=trouble,
        repeat=repeat,
    )


def worker_count(devices: Sequence[Device], level: SmokeLevel, processors: int) -> int:
    """Returns how many tests run in parallel; one if a GPU allows only one process.

    The plan alternates between the GPUs, which shares the workers evenly.
    """
    if any(device.exclusive for device in devices):
        return 1
    by_memory = [max(1, device.memory_total // _MEMORY_PER_TEST[level]) for device in devices if device.memory_total]
    return max(1, min(min([_TESTS_PER_GPU, *by_memory]) * len(devices), processors))
