"""What the GPU tests said, where they were asked for: what failed and why, who held the GPU, what was slow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.gpus import called, option_of, resets, showing, with_uuid
from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
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
from gpuenv.model.snapshot import SEVERE_THROTTLE_REASONS, Gpu, Snapshot
from gpuenv.model.strings import format_quantity, format_share, join_words

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
def nothing_was_proven(ctx: CheckContext) -> Outcome:
    """No GPU test could run, or not all of those that were asked for.

    What it means: what was to be proven is not proven. Either there was nothing to run the tests on, which other
    findings explain, or CuPy saw no GPU where the driver shows one, or the time was used up.
    How it is seen: every test was skipped, or some were not started for want of time.
    What to do: cure what is named first; or give the tests more time, with --timeout.
    """
    result = ctx.smoke
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
def a_test_failed(ctx: CheckContext) -> Outcome:
    """A GPU test failed.

    What it means: work that users do does not work here: a wrong number, an error, a crash or no answer. Tests with the
    same cause are one finding. What a broken GPU explains is put to it.
    How it is seen: each test runs in a process of its own in the target environment and its numbers are held against
    NumPy's; the test itself, its error message, the kernel's log and NVML's counts before and after name the cause.
    What to do: read the evidence; gpuenv smoke --only TEST -v repeats one test, gpuenv explain tells of the cause.
    """
    result = ctx.smoke
    if result is None:
        return
    failed = [test for test in result.tests if test.status in BROKEN]
    on_purpose = f"{result.fault}: a fault planted on purpose"
    planted = (Evidence(FAULT_VARIABLE, on_purpose, "environment"),) if result.fault else ()
    passed: dict[str, set[str]] = {}
    for test in result.tests:
        if test.status is TestStatus.PASSED and test.gpu:
            passed.setdefault(test.gpu, set()).add(test.name)
    for cause, tests in _by_cause(failed).items():
        # The GPUs on which all of these tests passed.
        names, bad = {test.name for test in tests}, {test.gpu for test in tests}
        sound = [uuid for uuid, there in passed.items() if names <= there and uuid not in bad] if all(bad) else []
        beside = f"passed on {_listed(ctx.snapshot, sound)}, in the same environment"
        where = f" on {_listed(ctx.snapshot, [test.gpu for test in tests])}" if len(result.gpus) > 1 else ""
        yield Symptom(
            f"{_count(tests)} failed{where}: {_names(tests)}",
            planted + _told(tests) + ((Evidence("the same tests", beside, "smoke"),) if sound else ()),
            _cures_of_tests(ctx, cause, tests, result, sound),
            cause=cause,
        )


@check("SMK903", Cause.GPU_BUSY, Cause.COMPUTE_MODE_EXCLUSIVE, follows=("GPU",))
def gpu_is_busy(ctx: CheckContext) -> Outcome:
    """A GPU test could not run because others use the GPU.

    What it means: the GPU is not broken, but work that needs its memory or the whole of it fails as long as others
    hold it.
    How it is seen: CUDA refused a context or memory, and more memory is taken than the test itself holds.
    What to do: wait for the others (gpuenv preflight --wait), end them, or take another GPU.
    """
    result = ctx.smoke
    busy = [test for test in result.tests if test.status is TestStatus.BUSY] if result else []
    for cause, tests in _by_cause(busy).items():
        named = (with_uuid(ctx.snapshot.gpus, uuid) for uuid in dict.fromkeys(test.gpu for test in tests))
        held = [(place, gpu) for place, gpu in named if gpu is not None]
        yield Symptom(
            f"{_count(tests)} found the GPU in use by others: {_names(tests)}",
            _told(tests)
            + evidence_of(ctx.snapshot, *(f"gpus[{n}].processes" for n, gpu in held if gpu.processes.value)),
            (Fix("See who holds the GPU; wait for them or take another one.", ("nvidia-smi",)),),
            cause=cause,
        )


@check("SMK904", Cause.GPU_THROTTLED, Cause.GPU_HARDWARE_FAULT, Cause.GPU_BUSY)
def gpu_is_slow(ctx: CheckContext) -> Outcome:
    """A GPU is well below what it should reach.

    What it means: the numbers are right, but they come slower than this product's data sheet, the other GPUs of this
    machine, or this machine's own earlier run let expect: heat, power, a degraded link, a neighbour, a failing GPU.
    How it is seen: measured rates beside the peaks of the matrix, the median of the sisters, and the saved baseline.
    What to do: see the reasons for throttling and the link's width; cool, power and seat the GPU; have it looked at.
    """
    result = ctx.smoke
    worse = [entry for entry in result.compared if entry.worse] if result else []
    for uuid in dict.fromkeys(entry.gpu for entry in worse):
        slow = [entry for entry in worse if entry.gpu == uuid]
        place, gpu = with_uuid(ctx.snapshot.gpus, uuid)
        cause, why = _blame(ctx.snapshot, place, gpu)
        which = called(gpu) if gpu else "The GPU"
        yield Symptom(
            f"{which} is slower than expected: {', '.join(dict.fromkeys(entry.name for entry in slow))}",
            tuple(Evidence(entry.name, _rate_text(entry), "smoke") for entry in slow[:_MOST]) + why,
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


def _listed(snapshot: Snapshot, uuids: Iterable[str | None]) -> str:
    """The labels of GPUs; a MIG instance, and a GPU that NVML does not list, by its UUID."""
    found = ((uuid, with_uuid(snapshot.gpus, uuid)[1]) for uuid in dict.fromkeys(uuids))
    names = [called(gpu) if gpu else uuid or "several GPUs" for uuid, gpu in found]
    return join_words(names, _MOST)


def _count(tests: Sequence[TestResult]) -> str:
    return "1 GPU test" if len(tests) == 1 else f"{len(tests)} GPU tests"


def _names(tests: Iterable[TestResult]) -> str:
    return join_words(list(dict.fromkeys(test.name for test in tests)), _MOST)


def _told(tests: Sequence[TestResult]) -> tuple[Evidence, ...]:
    """The tests' messages; equal messages on one GPU are one entry."""
    same: dict[tuple[str, str | None], list[TestResult]] = {}
    for test in tests:
        same.setdefault((f"{test.status.value}: {test.detail or test.title}", test.gpu), []).append(test)
    told = tuple(
        Evidence(f"{_names(group)}{f' on {gpu}' if gpu else ''}", words, "smoke")
        for (words, gpu), group in same.items()
    )
    left = len(told) - _MOST
    return told[:_MOST] + ((Evidence("further GPU tests", f"{left} other messages", "smoke"),) if left > 0 else ())


def _rate_text(entry: Compared) -> str:
    beside = {"baseline": "its baseline", "sisters": "its sisters", "data-sheet": "its data sheet"}
    here, there = (format_quantity(Quantity(value, entry.unit)) for value in (entry.value, entry.baseline))
    return f"{here}, {format_share(entry.ratio)} of {beside[entry.against]} ({there})"


# What would be met on every GPU of the machine if the environment were at fault. An illegal access is among them: the
# tests' own kernels stay inside their arrays, and no program of the user's is to be searched for a mistake.
_OF_THE_ENVIRONMENT = (Cause.GPU_TEST_FAILED, Cause.ILLEGAL_MEMORY_ACCESS)
_CURES: dict[Cause, tuple[Fix, ...]] = {
    Cause.GPU_HARDWARE_FAULT: (
        Fix("Take this GPU out of use and read what the driver logged of it.", ("sudo", "dmesg")),
        Fix("Restart the machine; where it comes back, have the GPU replaced."),
    ),
    Cause.DRIVER_UNRESPONSIVE: (Fix("End what hangs on the GPU; where that does not help, restart the machine."),),
    Cause.GPU_THROTTLED: (
        Fix(
            "See what holds its clock down; cool it, power it, or set its limits.",
            ("nvidia-smi", "-q", "-d", "PERFORMANCE"),
        ),
    ),
}

# Neither the GPU nor the environment has a part in it.
_OF_KILLED = (
    Fix("See in the kernel's log whether memory was used up when the test was killed.", ("sudo", "dmesg")),
    Fix("If so, give the host, the container or the job more of it, or end what takes it."),
)


def _cures_of_tests(
    ctx: CheckContext, cause: Cause, tests: Sequence[TestResult], result: SmokeResult, sound: Sequence[str]
) -> tuple[Fix, ...]:
    """The fixes, and the command that repeats a test; ``sound``: UUIDs of GPUs on which the tests passed."""
    snapshot = ctx.snapshot
    if result.fault:
        return (Fix(f"Unset {FAULT_VARIABLE}: these tests fail because it asks for it."),)
    explained = Fix("Read what this cause means and how it is cured.", ("gpuenv", "explain", cause.value))
    hung = [test.gpu for test in tests] if cause is Cause.DRIVER_UNRESPONSIVE else []
    reset = resets("Or reset this GPU, when nobody uses it any more.", (_option(snapshot, uuid) for uuid in hung))
    cures = _CURES.get(cause, (explained,))
    if cause is Cause.GPU_TEST_FAILED and all(test.trouble is Trouble.KILLED for test in tests):
        cures = _OF_KILLED
    elif sound and cause in (*_OF_THE_ENVIRONMENT, Cause.CUDA_INITIALIZATION_FAILED):
        cures = _spared(snapshot, tests, sound)
    elif cause in _OF_THE_ENVIRONMENT:
        cures = _afresh(ctx)
    # The first test alone; of several GPUs on that one where it failed.
    _, gpu = with_uuid(snapshot.gpus, tests[0].gpu)
    place = gpu.index.value if gpu is not None and len(result.gpus) > 1 else None
    here = ("--gpu", str(place)) if place is not None else ()
    again = Fix("Repeat the first test alone.", ("gpuenv", "smoke", "--only", tests[0].name, *here, "-v"))
    return (*cures, *reset, again)


def _afresh(ctx: CheckContext) -> tuple[Fix, ...]:
    """Fixes where either the environment or the GPU may be at fault.

    The installed releases are right, else another finding comes first: gpuenv install would change nothing.
    """
    own = [entry for entry in ctx.snapshot.target.cupy if entry.is_own]
    named = f"{own[0].distribution}=={own[0].release}" if len(own) == 1 and own[0].release else None
    again = ("install", "--force-reinstall", "--no-deps", named) if named else ()
    return (
        Fix("See whether every installed file is what its wheel had.", ("gpuenv", "doctor", "--deep")),
        *([pip_fix(ctx.snapshot, "Put the same CuPy in anew.", *again)._replace(safe=False)] if again else []),
        Fix("Where other hosts pass with the same environment, restart this one and have its GPU looked at."),
    )


def _spared(snapshot: Snapshot, tests: Sequence[TestResult], sound: Sequence[str]) -> tuple[Fix, ...]:
    """What to do where one environment gives right numbers on another GPU: it is the GPU that is to be looked at."""
    failed = {test.gpu for test in tests}
    spare = [gpu for gpu in snapshot.gpus if gpu.uuid.value in sound and gpu.uuid.value not in failed]
    shown = showing(spare, snapshot.gpus)
    how = f" ({' '.join(shown)})" if shown else ""
    return (
        Fix(f"Use the GPUs that pass{how} until this one has been looked at."),
        Fix("Read what the driver logged of it.", ("sudo", "dmesg")),
        Fix("Restart the machine; where it comes back, have the GPU replaced."),
    )


def _option(snapshot: Snapshot, uuid: str | None) -> str | None:
    """The nvidia-smi selector of the tested GPU, or of the GPU of the tested MIG instance."""
    for gpu in snapshot.gpus:
        if uuid is not None and uuid in (gpu.uuid.value, *(instance.uuid for instance in gpu.mig_instances)):
            return option_of(gpu)
    return None


# To be at the power limit is usual under load, and explains where a GPU is slow.
_TELLING = SEVERE_THROTTLE_REASONS | {"software-power-cap"}


def _blame(snapshot: Snapshot, place: int, gpu: Gpu | None) -> tuple[Cause, tuple[Evidence, ...]]:
    """The cause and the facts behind it: others first, then faults of the hardware; else it is held down."""
    if gpu is None:
        return Cause.GPU_THROTTLED, ()
    if gpu.processes.value:
        return Cause.GPU_BUSY, evidence_of(snapshot, f"gpus[{place}].processes")
    path, health = f"gpus[{place}].health", gpu.health
    if health.rows_failed.value:
        return Cause.GPU_HARDWARE_FAULT, evidence_of(snapshot, f"{path}.rows_failed")
    if health.ecc_uncorrected.value:
        return Cause.GPU_HARDWARE_FAULT, evidence_of(snapshot, f"{path}.ecc_uncorrected")
    why: tuple[Evidence, ...] = ()
    if not _TELLING.isdisjoint(health.throttle_reasons.value or ()):
        why += evidence_of(snapshot, f"{path}.throttle_reasons")
    width, most = gpu.pcie.width.value, gpu.pcie.width_most.value
    if width and most and width < most:  # the link's generation, unlike its width, falls by itself while a GPU is idle
        why += evidence_of(snapshot, f"gpus[{place}].pcie.width", f"gpus[{place}].pcie.width_most")
    return Cause.GPU_THROTTLED, why
