"""What the GPU tests said, where they were asked for: what failed and why, who held the GPU, what was slow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuenv.doctor.evidence import fact
from gpuenv.doctor.failed_tests import cures_of_tests
from gpuenv.doctor.named import called, with_uuid
from gpuenv.doctor.registry import Facts, NotKnown, Outcome, Symptom, check
from gpuenv.doctor.slowness import blame
from gpuenv.model.causes import Cause
from gpuenv.model.enumeration import enumerated
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.quantities import quantity_text, share_text
from gpuenv.model.smoke import (
    BROKEN,
    FAULT_VARIABLE,
    UNFINISHED,
    Compared,
    Quantity,
    SmokeResult,
    TestResult,
    TestStatus,
    Trouble,
)
from gpuenv.model.snapshot import Snapshot

_MOST = 6  # tests that a finding lists
_NOT_STARTED = ("DRV", "GPU", "CTR", "ENV", "WHL", "LIB")  # what keeps every test from running
# What a lack of an answer, or of numbers that are right, means where the test itself cannot tell.
_MEANS = {
    Trouble.DEADLINE: Cause.DRIVER_UNRESPONSIVE,
    Trouble.SIGNAL: Cause.DRIVER_UNRESPONSIVE,
    Trouble.OUT_OF_MEMORY: Cause.OUT_OF_MEMORY,
    Trouble.DEVICE_UNAVAILABLE: Cause.COMPUTE_MODE_EXCLUSIVE,
    Trouble.MEMORY_HELD_BY_OTHERS: Cause.GPU_BUSY,
    Trouble.WRONG_DEVICE: Cause.SOURCES_DISAGREE,
}
# A broken GPU explains whatever else fails on it, in this order.
_EXPLAINING = (Cause.GPU_HARDWARE_FAULT,)


@check("SMK901", Cause.CUDA_INITIALIZATION_FAILED, follows=_NOT_STARTED)
def nothing_was_proven(facts: Facts) -> Outcome:
    """No GPU test could run, or not all of those that were asked for.

    What it means: what was to be proven is not proven. Either there was nothing to run the tests on, which other
    findings explain, or CuPy saw no GPU where the driver shows one, or the time was used up.
    How it is seen: every test was skipped, or some were not started for want of time.
    What to do: cure what is named first; or give the tests more time, with --timeout.
    """
    result = facts.smoke
    if result is None or result.status in (TestStatus.FAILED, TestStatus.BUSY):
        return
    unfinished = [test for test in result.tests if test.trouble in UNFINISHED]
    if unfinished:
        why = "had no time left" if unfinished[0].trouble is Trouble.NO_TIME else "were interrupted"
        yield NotKnown(f"{len(unfinished)} of {len(result.tests)} GPU tests {why}")
        return
    if result.status is not TestStatus.SKIPPED:
        return
    refused = next((test for test in result.tests if test.trouble is Trouble.NO_DEVICE and test.gpu), None)
    if refused is not None:  # the driver has it, CuPy does not
        yield Symptom(
            "CuPy sees no GPU where the driver shows one",
            _told([refused]),
            (Fix("Look at the whole environment, its variables and libraries.", ("gpuenv", "doctor", "-v")),),
        )
        return
    reasons = dict.fromkeys(test.detail or "no reason told" for test in result.tests)
    yield NotKnown(next(iter(reasons), "there was no test to run"))


@check("SMK902", Cause.GPU_TEST_FAILED, *dict.fromkeys((*_MEANS.values(), *_EXPLAINING)), follows=_NOT_STARTED)
def a_test_failed(facts: Facts) -> Outcome:
    """A GPU test failed.

    What it means: work that users do does not work here: a wrong number, an error, a crash or no answer. Tests with the
    same cause are one finding. What a broken GPU explains is put to it.
    How it is seen: each test runs in a process of its own in the target environment and its numbers are held against
    NumPy's; the test itself, its error message, the kernel's log and NVML's counts before and after name the cause.
    What to do: read the evidence; gpuenv smoke --only TEST -v repeats one test, gpuenv explain tells of the cause.
    """
    result = facts.smoke
    if result is None:
        return
    failed = [test for test in result.tests if test.status in BROKEN]
    for cause, tests in _by_cause(failed).items():
        sound = _where_they_pass(result.tests, tests)
        where = f" on {_listed(facts.snapshot, [test.gpu for test in tests])}" if len(result.gpus) > 1 else ""
        yield Symptom(
            f"{_count(tests)} failed{where}: {_names(tests)}",
            _planted(result) + _told(tests) + _beside(facts.snapshot, sound),
            cures_of_tests(facts, cause, tests, result, sound),
            cause=cause,
        )


@check("SMK903", Cause.GPU_BUSY, Cause.COMPUTE_MODE_EXCLUSIVE, follows=("GPU",))
def gpu_is_busy(facts: Facts) -> Outcome:
    """A GPU test could not run because others use the GPU.

    What it means: the GPU is not broken, but work that needs its memory or the whole of it fails as long as others
    hold it.
    How it is seen: CUDA refused a context or memory, and more memory is taken than the test itself holds.
    What to do: wait for the others (gpuenv preflight --wait), end them, or take another GPU.
    """
    result = facts.smoke
    busy = [test for test in result.tests if test.status is TestStatus.BUSY] if result else []
    for cause, tests in _by_cause(busy).items():
        yield Symptom(
            f"{_count(tests)} found the GPU in use by others: {_names(tests)}",
            _told(tests) + _holders(facts.snapshot, tests),
            (Fix("See who holds the GPU; wait for them or take another one.", ("nvidia-smi",)),),
            cause=cause,
        )


@check("SMK904", Cause.GPU_THROTTLED, Cause.GPU_HARDWARE_FAULT, Cause.GPU_BUSY)
def gpu_is_slow(facts: Facts) -> Outcome:
    """A GPU is well below what it should reach.

    What it means: the numbers are right, but they come slower than this product's data sheet, the other GPUs of this
    machine, or this machine's own earlier run let expect: heat, power, a degraded link, a neighbour, a failing GPU.
    How it is seen: measured rates beside the peaks of the matrix, the median of the sisters, and the saved baseline.
    What to do: see the reasons for throttling and the link's width; cool, power and seat the GPU; have it looked at.
    """
    result = facts.smoke
    worse = [entry for entry in result.compared if entry.worse] if result else []
    for uuid in dict.fromkeys(entry.gpu for entry in worse):
        slow = [entry for entry in worse if entry.gpu == uuid]
        place, gpu = with_uuid(facts.snapshot.gpus, uuid)
        cause, why = blame(place, gpu)
        which = called(gpu) if gpu else "The GPU"
        yield Symptom(
            f"{which} is slower than expected: {', '.join(dict.fromkeys(entry.name for entry in slow))}",
            tuple(_rate(entry) for entry in slow[:_MOST]) + why,
            (Fix("Look at its clocks, temperature, power and link.", ("nvidia-smi", "-q", "-d", "PERFORMANCE")),),
            Severity.WARNING,
            cause,
        )


def _by_cause(tests: Sequence[TestResult]) -> dict[Cause, list[TestResult]]:
    """Tests by what is behind them, the broken GPU first: it may explain the others."""
    explaining = {(test.gpu, test.cause) for test in tests if test.cause in _EXPLAINING}
    found: dict[Cause, list[TestResult]] = {}
    for test in tests:
        above = next((cause for gpu, cause in explaining if gpu == test.gpu and cause), None)
        cause = above or test.cause or _MEANS.get(test.trouble or Trouble.ERROR, Cause.GPU_TEST_FAILED)
        found.setdefault(cause, []).append(test)
    return dict(sorted(found.items(), key=lambda entry: entry[0] not in _EXPLAINING))


def _where_they_pass(every: Sequence[TestResult], failed: Sequence[TestResult]) -> tuple[str, ...]:
    """The GPUs on which all of these tests have passed, with the same CuPy, libraries and driver."""
    passed: dict[str, set[str]] = {}
    for test in every:
        if test.status is TestStatus.PASSED and test.gpu:
            passed.setdefault(test.gpu, set()).add(test.name)
    names, bad = {test.name for test in failed}, {test.gpu for test in failed}
    return tuple(uuid for uuid, there in passed.items() if names <= there and uuid not in bad) if all(bad) else ()


def _beside(snapshot: Snapshot, sound: Sequence[str]) -> tuple[Evidence, ...]:
    if not sound:
        return ()
    return (Evidence("the same tests", f"passed on {_listed(snapshot, sound)}, in the same environment", "smoke"),)


def _planted(result: SmokeResult) -> tuple[Evidence, ...]:
    return (
        (Evidence(FAULT_VARIABLE, f"{result.fault}: a fault planted on purpose", "environment"),)
        if result.fault
        else ()
    )


def _listed(snapshot: Snapshot, uuids: Iterable[str | None]) -> str:
    """GPUs as people call them; an instance, and what NVML does not tell of, by its UUID."""
    found = ((uuid, with_uuid(snapshot.gpus, uuid)[1]) for uuid in dict.fromkeys(uuids))
    names = [called(gpu) if gpu else uuid or "several GPUs" for uuid, gpu in found]
    return enumerated(names, _MOST)


def _count(tests: Sequence[TestResult]) -> str:
    return "1 GPU test" if len(tests) == 1 else f"{len(tests)} GPU tests"


def _names(tests: Iterable[TestResult]) -> str:
    return enumerated(list(dict.fromkeys(test.name for test in tests)), _MOST)


def _told(tests: Sequence[TestResult]) -> tuple[Evidence, ...]:
    """What the tests said, once where several on one GPU said the same."""
    same: dict[tuple[str, str | None], list[TestResult]] = {}
    for test in tests:
        same.setdefault((f"{test.status.value}: {test.detail or test.title}", test.gpu), []).append(test)
    told = tuple(
        Evidence(f"{_names(group)}{f' on {gpu}' if gpu else ''}", words, "smoke")
        for (words, gpu), group in same.items()
    )
    left = len(told) - _MOST
    return told[:_MOST] + ((Evidence("further GPU tests", f"{left} other messages", "smoke"),) if left > 0 else ())


def _holders(snapshot: Snapshot, tests: Iterable[TestResult]) -> tuple[Evidence, ...]:
    found: tuple[Evidence, ...] = ()
    for uuid in dict.fromkeys(test.gpu for test in tests):
        place, gpu = with_uuid(snapshot.gpus, uuid)
        if gpu is not None and gpu.processes.value:
            found += fact(f"gpus[{place}].processes", gpu.processes)
    return found


def _rate(entry: Compared) -> Evidence:
    beside = {"baseline": "its baseline", "sisters": "its sisters", "data-sheet": "its data sheet"}
    here, there = (quantity_text(Quantity(value, entry.unit)) for value in (entry.value, entry.baseline))
    return Evidence(entry.name, f"{here}, {share_text(entry.ratio)} of {beside[entry.against]} ({there})", "smoke")
