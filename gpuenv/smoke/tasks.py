"""What tests there are, and what is to be run of them: in which order, from which seeds and until when.

A plan is data. Nothing of the payload is imported: what a test is about is read from the literals of its class.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpuenv.model.smoke import TestResult, TestStatus, Trouble
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.smoke.device_selection import Device

PAYLOAD = Path(__file__).parent / "payload"
GROUPS = (
    "kernels", "blas", "fft", "solver", "sparse", "random", "streams", "memory", "transfer", "dtype", "interop",
    "multi", "health",
)  # fmt: skip
BUDGET = {SmokeLevel.QUICK: 10.0, SmokeLevel.NORMAL: 60.0, SmokeLevel.DEEP: 900.0}
# The first import of CuPy from a cold disk and the first start of an idle driver take most of it.
DEADLINE = {SmokeLevel.QUICK: 30.0, SmokeLevel.NORMAL: 60.0, SmokeLevel.DEEP: 300.0}
DEFAULT_SEED = 20261121
_AT_ONCE = 12  # on one GPU: all of the quick level; the import of CuPy keeps a processor busy for each
# Bytes: a context, the libraries' workspaces and the arrays of a test.
_MEMORY_EACH = {SmokeLevel.QUICK: 2 << 30, SmokeLevel.NORMAL: 3 << 30, SmokeLevel.DEEP: 12 << 30}

Size = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TestInfo:
    """A test as its class describes it.

    Attributes:
        name: ``blas.matmul_f32``.
        group: ``blas``.
        title: what it proves.
        sizes: level -> sizes, for the levels that have an entry of their own.
        needs: what must be there.
        tolerance: how far the GPU may be off, and why.
        alone: the levels in which it runs alone, since it takes times, or watches or fills memory.
        seconds: level -> deadline, where the level's own is too short.
    """

    __test__ = False  # no test of pytest's

    name: str
    group: str
    title: str
    sizes: Mapping[str, Size]
    needs: tuple[str, ...]
    tolerance: str
    alone: tuple[str, ...]
    seconds: Mapping[str, float]

    @property
    def gpus(self) -> int:
        """How many GPUs it needs."""
        return max([1, *(int(need.partition(":")[2]) for need in self.needs if need.startswith("gpus:"))])

    @property
    def longest(self) -> float:
        """Seconds of the longest deadline of its own; 0 where each level's is long enough."""
        return max(self.seconds.values(), default=0.0)

    def size(self, level: SmokeLevel) -> Size | None:
        """The sizes for a level: its own, else those of the nearest lower one; None where there is none."""
        order = list(SmokeLevel)
        known = [self.sizes[entry.value] for entry in order[: order.index(level) + 1] if entry.value in self.sizes]
        return known[-1] if known else None


@cache
def all_tests() -> tuple[TestInfo, ...]:
    """Every test, group by group, then by name."""
    return tuple(test for group in GROUPS for test in sorted(_read_tests(group), key=lambda test: test.name))


def _read_tests(group: str) -> Iterator[TestInfo]:
    path = PAYLOAD / "tests" / f"{group}.py"
    for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        found = _literals(node.body, "TITLE", "LEVELS", "NEEDS", "TOLERANCE", "ALONE", "SECONDS")
        if "TITLE" in found:  # else what several tests share
            yield TestInfo(
                name=f"{group}.{re.sub('(?<!^)(?=[A-Z])', '_', node.name).lower()}",
                group=group,
                title=found["TITLE"],
                sizes=found["LEVELS"],
                needs=tuple(found.get("NEEDS", ())),
                tolerance=found["TOLERANCE"],
                alone=tuple(found.get("ALONE", ())),
                seconds=found.get("SECONDS", {}),
            )


def _literals(body: Iterable[ast.stmt], *names: str) -> dict[str, Any]:
    """The literals that are assigned to these names."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names
    }


def injectable_faults() -> tuple[str, ...]:
    """The names of the faults that can be planted into a test."""
    text = (PAYLOAD / "cupy_device.py").read_text(encoding="utf-8")
    return tuple(_literals(ast.parse(text).body, "FAULTS")["FAULTS"])


def select_tests(groups: Sequence[str], only: Sequence[str], level: SmokeLevel) -> tuple[TestInfo, ...]:
    """The tests of some groups, or of all, that a level has; ``only`` names tests, whatever their level."""
    if only:
        return tuple(test for test in all_tests() if test.name in only)
    return tuple(test for test in all_tests() if (not groups or test.group in groups) and test.size(level) is not None)


@dataclass(frozen=True, slots=True)
class Task:
    """One test on one GPU, or on all of them.

    Attributes:
        test: the test.
        size: its sizes.
        devices: what its child may see.
        seed: of its input.
        repeat: which repetition, from 0.
        deadline: seconds.
        level: how much is tested; that of its sizes, where it begins deeper than was wished for.
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
        """The UUID of the one GPU that it runs on."""
        return self.devices[0].uuid if len(self.devices) == 1 else None

    @property
    def alone(self) -> bool:
        """Whether nothing else may run beside it."""
        return self.level.value in self.test.alone


@dataclass(frozen=True, slots=True)
class SmokeOptions:
    """What the caller asked for.

    Attributes:
        groups: empty for all.
        only: tests by their names, whatever their level.
        gpus: UUIDs or indices; empty for all.
        level: how much is tested.
        seed: what the inputs are made from.
        repeat: how often each test runs.
        timeout: seconds for each test; None for what the level and the test itself say.
        fault: a fault to plant into every test, by which the tests are tested.
    """

    groups: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    level: SmokeLevel = SmokeLevel.QUICK
    seed: int = DEFAULT_SEED
    repeat: int = 1
    timeout: float | None = None
    fault: str | None = None


def plan_tasks(tests: Iterable[TestInfo], devices: Sequence[Device], order: SmokeOptions) -> tuple[Task, ...]:
    """Every test on every device, repetition by repetition; those that need several GPUs once on all of them."""
    several = tuple(device for device in devices if not device.instance)
    tasks = []
    for repeat in range(order.repeat):
        for test in tests:
            where = [several] if test.gpus > 1 else [(device,) for device in devices]
            tasks += [_task(test, places, repeat, order) for places in where if len(places) >= test.gpus]
    return tuple(tasks)


def _task(test: TestInfo, devices: tuple[Device, ...], repeat: int, order: SmokeOptions) -> Task:
    # A test that was asked for by name and begins deeper has the sizes of the level where it begins, and so that
    # level's deadline, and runs alone as there.
    is_in = test.size(order.level) is not None
    level = order.level if is_in else next(level for level in SmokeLevel if level.value in test.sizes)
    deadline = max(DEADLINE[level], test.seconds.get(level.value, 0.0))
    seed = derive_seed(order.seed, test.name, repeat)
    return Task(test, test.size(level) or {}, devices, seed, repeat, order.timeout or deadline, level)


def derive_seed(seed: int, name: str, repeat: int) -> int:
    """A seed for each test and repetition: the same for the same run, whatever else is run beside it."""
    digits = hashlib.sha256(f"{seed}/{name}/{repeat}".encode()).hexdigest()
    return int(digits[:8], 16)


def skip_for_few_gpus(
    tests: Iterable[TestInfo], devices: Sequence[Device], order: SmokeOptions
) -> tuple[TestResult, ...]:
    """The tests that need more GPUs than there are."""
    count = sum(not device.instance for device in devices)
    lacking = [test for test in tests if test.gpus > 1 and test.gpus > count]
    return tuple(
        skipped_result(test, None, Trouble.NOT_APPLICABLE, f"needs {test.gpus} GPUs; visible here: {count}", repeat)
        for repeat in range(order.repeat)
        for test in lacking
    )


def skipped_result(test: TestInfo, gpu: str | None, trouble: Trouble, detail: str, repeat: int = 0) -> TestResult:
    """A test that was not run, and why."""
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
    """How many tests run side by side; one where a GPU lets in one process at a time.

    The plan goes round the GPUs, so that each has its share of them.
    """
    if any(device.exclusive for device in devices):
        return 1
    by_memory = [max(1, device.memory_total // _MEMORY_EACH[level]) for device in devices if device.memory_total]
    return max(1, min(min([_AT_ONCE, *by_memory]) * len(devices), processors))
