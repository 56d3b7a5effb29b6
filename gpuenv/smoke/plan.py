"""What is to be run, in which order, from which seeds and until when: a plan is data. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuenv.model.smoke import Level, TestResult, TestStatus, Trouble
from gpuenv.smoke.catalogue import Size, TestInfo
from gpuenv.smoke.devices import Device

BUDGET = {Level.QUICK: 10.0, Level.NORMAL: 60.0, Level.DEEP: 900.0}
# The first import of CuPy from a cold disk and the first start of an idle driver take most of it.
DEADLINE = {Level.QUICK: 30.0, Level.NORMAL: 60.0, Level.DEEP: 300.0}
DEFAULT_SEED = 20261121
_AT_ONCE = 12  # on one GPU: all of the quick level; the import of CuPy keeps a processor busy for each
# Bytes: a context, the libraries' workspaces and the arrays of a test.
_MEMORY_EACH = {Level.QUICK: 2 << 30, Level.NORMAL: 3 << 30, Level.DEEP: 12 << 30}


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
    level: Level

    @property
    def gpu(self) -> str | None:
        """The UUID of the one GPU that it runs on."""
        return self.devices[0].uuid if len(self.devices) == 1 else None

    @property
    def alone(self) -> bool:
        """Whether nothing else may run beside it."""
        return self.level.value in self.test.alone


@dataclass(frozen=True, slots=True)
class Order:
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
    level: Level = Level.QUICK
    seed: int = DEFAULT_SEED
    repeat: int = 1
    timeout: float | None = None
    fault: str | None = None


def plan(tests: Iterable[TestInfo], devices: Sequence[Device], order: Order) -> tuple[Task, ...]:
    """Every test on every device, repetition by repetition; those that need several GPUs once on all of them."""
    several = tuple(device for device in devices if not device.instance)
    tasks = []
    for repeat in range(order.repeat):
        for test in tests:
            where = [several] if test.gpus > 1 else [(device,) for device in devices]
            tasks += [_task(test, places, repeat, order) for places in where if len(places) >= test.gpus]
    return tuple(tasks)


def _task(test: TestInfo, devices: tuple[Device, ...], repeat: int, order: Order) -> Task:
    level = _level_of(test, order.level)
    deadline = max(DEADLINE[level], test.seconds.get(level.value, 0.0))
    seed = seed_of(order.seed, test.name, repeat)
    return Task(test, test.size(level) or {}, devices, seed, repeat, order.timeout or deadline, level)


def _level_of(test: TestInfo, wished: Level) -> Level:
    """The level that is wished for; of a test that was asked for by name and begins deeper, that where it begins.

    Its sizes are that level's, and so must be its deadline, and whether it runs alone.
    """
    return wished if test.size(wished) is not None else next(level for level in Level if level.value in test.sizes)


def seed_of(seed: int, name: str, repeat: int) -> int:
    """A seed for each test and repetition: the same for the same run, whatever else is run beside it."""
    digits = hashlib.sha256(f"{seed}/{name}/{repeat}".encode()).hexdigest()
    return int(digits[:8], 16)


def too_few(tests: Iterable[TestInfo], devices: Sequence[Device], order: Order) -> tuple[TestResult, ...]:
    """The tests that need more GPUs than there are."""
    count = sum(not device.instance for device in devices)
    lacking = [test for test in tests if test.gpus > 1 and test.gpus > count]
    return tuple(
        skipped(test, None, Trouble.NOT_APPLICABLE, f"needs {test.gpus} GPUs; visible here: {count}", repeat)
        for repeat in range(order.repeat)
        for test in lacking
    )


def skipped(test: TestInfo, gpu: str | None, trouble: Trouble, detail: str, repeat: int = 0) -> TestResult:
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


def at_once(devices: Sequence[Device], level: Level, processors: int) -> int:
    """How many tests run side by side; one where a GPU lets in one process at a time.

    The plan goes round the GPUs, so that each has its share of them.
    """
    if any(device.exclusive for device in devices):
        return 1
    by_memory = [max(1, device.memory_total // _MEMORY_EACH[level]) for device in devices if device.memory_total]
    return max(1, min(min([_AT_ONCE, *by_memory]) * len(devices), processors))
