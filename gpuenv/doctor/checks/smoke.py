"""Checks of the GPU tests' results: what failed and why, which GPU was in use or slow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.gpus import find_gpu, gpu_label, reset_fixes, smi_selector
from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.doctor.fixes.variables import select_fixes
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.smoke import (
    BROKEN,
    FAULT_VARIABLE,
    THROTTLED,
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

_BURN_IN = "health.sustained"
_LONG = 0.1  # of a burn-in: a shorter throttling is an adjustment
_MOST = 6  # tests that a finding lists
_NOT_STARTED = ("DRV", "GPU", "CTR", "ENV", "WHL", "LIB")  # problems that prevent every test
# The cause of a failure, if the test itself names none.
_CAUSES = {
    Trouble.DEADLINE: Cause.DRIVER_UNRESPONSIVE,
    Trouble.SIGNAL: Cause.DRIVER_UNRESPONSIVE,
    Trouble.OUT_OF_MEMORY: Cause.OUT_OF_MEMORY,
    Trouble.DEVICE_UNAVAILABLE: Cause.COMPUTE_MODE_EXCLUSIVE,
    Trouble.MEMORY_HELD_BY_OTHERS: Cause.GPU_BUSY,
    Trouble.WRONG_DEVICE: Cause.SOURCES_DISAGREE,
}


@check("SMK901", Cause.CUDA_INITIALIZATION_FAILED, follows=_NOT_STARTED)
def nothing_was_proven(ctx: CheckContext) -> Outcome:
    """No GPU test could run, or not all of those requested.

    What it means: it is not known whether GPU work succeeds. Either there was nothing to run the tests on, which other
    findings explain, or CuPy saw no GPU although the driver lists one, or the time was used up.
    How it is seen: every test was skipped, or some were not started for lack of time.
    What to do: fix the finding that comes first; or give the tests more time, with --timeout.
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
    if refused is not None:  # the driver lists it, CuPy does not
        yield Symptom(
            "CuPy sees no GPU although the driver lists one",
            _messages([refused]),
            (Fix("Check the whole environment, its variables and libraries.", ("gpuenv", "doctor", "-v")),),
        )
        return
    reasons = dict.fromkeys(
        test.detail or "no reason given" for test in result.tests if test.status is TestStatus.SKIPPED
    )
    untested = [gpu.uuid for gpu in result.gpus if gpu.status is TestStatus.SKIPPED]
    where = f"no GPU test ran on {_listed(ctx.snapshot, untested)}: " if 0 < len(untested) < len(result.gpus) else ""
    yield NotKnown(where + next(iter(reasons), "there was no test to run"))


@check(
    "SMK902", Cause.GPU_TEST_FAILED, *dict.fromkeys((*_CAUSES.values(), Cause.GPU_HARDWARE_FAULT)), follows=_NOT_STARTED
)
def a_test_failed(ctx: CheckContext) -> Outcome:
    """A GPU test failed.

    What it means: typical GPU work does not succeed here: it gives a wrong number, an error, a crash or no answer.
    Tests with the same cause are one finding. Failures that a broken GPU explains are part of its finding.
    How it is seen: each test runs in a process of its own in the target environment and its numbers are compared with
    NumPy's; the test itself, its error message, the kernel log and NVML's counts before and after name the cause.
    What to do: read the evidence; gpuenv smoke --only TEST -v repeats one test, and gpuenv explain describes the cause.
    """
    result = ctx.smoke
    if result is None:
        return
    failed = [test for test in result.tests if test.status in BROKEN]
    description = f"{result.fault}: a deliberately injected fault"
    injected = (Evidence(FAULT_VARIABLE, description, "environment"),) if result.fault else ()
    passed: dict[str, set[str]] = {}
    for test in result.tests:
        if test.status is TestStatus.PASSED and test.gpu:
            passed.setdefault(test.gpu, set()).add(test.name)
    for cause, tests in _by_cause(failed).items():
        # The GPUs on which all of these tests passed.
        names, bad = {test.name for test in tests}, {test.gpu for test in tests}
        sound = [uuid for uuid, tests_of in passed.items() if names <= tests_of and uuid not in bad] if all(bad) else []
        elsewhere = f"passed on {_listed(ctx.snapshot, sound)}, in the same environment"
        where = f" on {_listed(ctx.snapshot, [test.gpu for test in tests])}" if len(result.gpus) > 1 else ""
        yield Symptom(
            f"{_count(tests)} failed{where}: {_names(tests)}",
            injected + _messages(tests) + ((Evidence("the same tests", elsewhere, "smoke"),) if sound else ()),
            _test_fixes(ctx, cause, tests, result, sound),
            cause=cause,
        )


@check("SMK903", Cause.GPU_BUSY, Cause.COMPUTE_MODE_EXCLUSIVE, follows=("GPU",))
def gpu_is_busy(ctx: CheckContext) -> Outcome:
    """A GPU test could not run because other processes use the GPU.

    What it means: the GPU is not broken, but work that needs its memory or the whole GPU fails while others use it.
    How it is seen: CUDA refused a context or memory, and more memory is in use than the test itself needs.
    What to do: wait for the other processes (gpuenv preflight --wait), end them, or use another GPU.
    """
    result = ctx.smoke
    busy = [test for test in result.tests if test.status is TestStatus.BUSY] if result else []
    for cause, tests in _by_cause(busy).items():
        gpus = (find_gpu(ctx.snapshot.gpus, uuid) for uuid in dict.fromkeys(test.gpu for test in tests))
        busy_gpus = [(index, gpu) for index, gpu in gpus if gpu is not None]
        yield Symptom(
            f"{_count(tests)} found the GPU in use by other processes: {_names(tests)}",
            _messages(tests)
            + evidence_of(ctx.snapshot, *(f"gpus[{n}].processes" for n, gpu in busy_gpus if gpu.processes.value)),
            (Fix("Show the processes on the GPU; wait for them or use another GPU.", ("nvidia-smi",)),),
            cause=cause,
        )


@check("SMK904", Cause.GPU_THROTTLED, Cause.GPU_HARDWARE_FAULT, Cause.GPU_BUSY)
def gpu_is_slow(ctx: CheckContext) -> Outcome:
    """A GPU is much slower than expected.

    What it means: the numbers are right, but the GPU is slower than this product's data sheet, the other GPUs of this
    machine, or an earlier run here. Possible reasons are heat, power, a degraded link, another job or a failing GPU.
    How it is seen: measured rates are compared with the peaks of the matrix, the median of the other GPUs, the saved
    baseline and --min-rate, the last rate of the burn-in with its first; NVML names the reasons for a lower clock while
    it runs.
    What to do: check the reasons for throttling and the link's width; check cooling, power and seating; have the GPU
    checked.
    """
    result = ctx.smoke
    if result is None:
        return
    worse = [entry for entry in result.compared if entry.worse]
    reasons = {test.gpu: _burn_in_reasons(test) for test in result.tests if test.name == _BURN_IN}
    throttled = [uuid for uuid, (severe, _) in reasons.items() if severe]
    for uuid in dict.fromkeys([*(entry.gpu for entry in worse), *throttled]):
        slow = [entry for entry in worse if entry.gpu == uuid]
        index, gpu = find_gpu(ctx.snapshot.gpus, uuid)
        cause, why = _slowness_cause(ctx.snapshot, index, gpu)
        which = gpu_label(gpu) if gpu else "The GPU"
        severe, seen = reasons.get(uuid, ((), ()))
        names = ", ".join(dict.fromkeys(entry.name for entry in slow))
        yield Symptom(
            f"{which} is slower than expected: {names}"
            if slow
            else f"The clock of {which} is throttled under load: {', '.join(severe)}",
            tuple(Evidence(entry.name, _rate_text(entry), "smoke") for entry in slow[:_MOST]) + seen + why,
            (Fix("Check its clocks, temperature, power and link.", ("nvidia-smi", "-q", "-d", "PERFORMANCE")),),
            Severity.ERROR if any(entry.against == "minimum" for entry in slow) else Severity.WARNING,
            cause,
        )


@check("SMK905", Cause.REQUIREMENT_NOT_MET, follows=("SMK901", "SMK902", "SMK903"))
def rates_not_compared(ctx: CheckContext) -> Outcome:
    """A rate that should be compared was not measured, or has nothing to be compared with.

    What it means: the numbers are right, but it is not known whether the GPU is as fast as required, so the run is not
    accepted (exit code 5).
    How it is seen: --min-rate names a rate that no test measured on a GPU, or a share of a rate that neither the
    baseline nor the data sheets have; or --compare names a baseline without a measurement of this run.
    What to do: read why the test that measures it did not run; give --min-rate as a rate, such as copy=500GB/s; save a
    baseline on this product, with the same tests.
    """
    result = ctx.smoke
    if result is None:
        return
    slow = [shortfall_text(entry) for entry in result.compared if entry.against == "minimum" and entry.worse]
    for reason in result.rejected:
        if reason not in slow:  # SMK904
            yield Symptom(
                f"The run is not accepted: {reason}",
                (),
                (
                    Fix("See which tests were skipped and why.", ("gpuenv", "smoke", "--level", "normal", "-v")),
                    Fix("Or correct --min-rate or --compare."),
                ),
            )


def shortfall_text(entry: Compared) -> str:
    """``transfer.device_copy is below the required minimum: 1.71 TB/s of 2 TB/s``."""
    measured, minimum = (format_quantity(Quantity(value, entry.unit)) for value in (entry.value, entry.baseline))
    return f"{entry.name} is below the required minimum: {measured} of {minimum}"


def _burn_in_reasons(test: TestResult) -> tuple[tuple[str, ...], tuple[Evidence, ...]]:
    """The severe reasons for which a burn-in was throttled for long, and all that NVML reported as evidence."""
    shares = {
        name.removeprefix(THROTTLED): quantity.value
        for name, quantity in test.measured.items()
        if name.startswith(THROTTLED)
    }
    severe = tuple(name for name, share in shares.items() if share >= _LONG and name in SEVERE_THROTTLE_REASONS)
    limits = ", ".join(f"{name} for {format_share(share)} of the time" for name, share in shares.items())
    replays = test.measured.get("pcie_replays_new")
    found = (("its clock under load", limits), ("PCIe replays", f"{replays.value:.0f}" if replays else "0"))
    return severe, tuple(Evidence(name, text, "nvml") for name, text in found if text not in ("", "0"))


def _by_cause(tests: Sequence[TestResult]) -> dict[Cause, list[TestResult]]:
    """Tests by cause, the broken GPU first: it explains every other failure on it."""
    broken = {test.gpu for test in tests if test.cause is Cause.GPU_HARDWARE_FAULT}
    found: dict[Cause, list[TestResult]] = {}
    for test in tests:
        cause = test.cause or _CAUSES.get(test.trouble or Trouble.ERROR, Cause.GPU_TEST_FAILED)
        found.setdefault(Cause.GPU_HARDWARE_FAULT if test.gpu in broken else cause, []).append(test)
    return dict(sorted(found.items(), key=lambda entry: entry[0] is not Cause.GPU_HARDWARE_FAULT))


def _listed(snapshot: Snapshot, uuids: Iterable[str | None]) -> str:
    """The labels of GPUs; the UUID for a MIG instance, and for a GPU that NVML does not list."""
    found = ((uuid, find_gpu(snapshot.gpus, uuid)[1]) for uuid in dict.fromkeys(uuids))
    names = [gpu_label(gpu) if gpu else uuid or "several GPUs" for uuid, gpu in found]
    return join_words(names, _MOST)


def _count(tests: Sequence[TestResult]) -> str:
    return "1 GPU test" if len(tests) == 1 else f"{len(tests)} GPU tests"


def _names(tests: Iterable[TestResult]) -> str:
    return join_words(list(dict.fromkeys(test.name for test in tests)), _MOST)


def _messages(tests: Sequence[TestResult]) -> tuple[Evidence, ...]:
    """The tests' messages; equal messages on one GPU are one entry."""
    same: dict[tuple[str, str | None], list[TestResult]] = {}
    for test in tests:
        same.setdefault((f"{test.status.value}: {test.detail or test.title}", test.gpu), []).append(test)
    entries = tuple(
        Evidence(f"{_names(group)}{f' on {gpu}' if gpu else ''}", text, "smoke") for (text, gpu), group in same.items()
    )
    rest = len(entries) - _MOST
    return entries[:_MOST] + ((Evidence("further GPU tests", f"{rest} other messages", "smoke"),) if rest > 0 else ())


def _rate_text(entry: Compared) -> str:
    references = {
        "baseline": "its baseline",
        "baseline-product": "the baseline of this product",
        "sisters": "the other GPUs",
        "data-sheet": "its data sheet",
        "minimum": "the required minimum",
        "start": "its rate at the start of the burn-in",
    }
    measured, expected = (format_quantity(Quantity(value, entry.unit)) for value in (entry.value, entry.baseline))
    return f"{measured}, {format_share(entry.ratio)} of {references[entry.against]} ({expected})"


# Failures on every GPU of the machine if the environment is at fault. An illegal access is one of them: the tests' own
# kernels stay inside their arrays.
_ENVIRONMENT_CAUSES = (Cause.GPU_TEST_FAILED, Cause.ILLEGAL_MEMORY_ACCESS)
_FIXES: dict[Cause, tuple[Fix, ...]] = {
    Cause.GPU_HARDWARE_FAULT: (
        Fix("Stop using this GPU and read the driver's messages in the kernel log.", ("sudo", "dmesg")),
        Fix("Restart the machine; if it happens again, have the GPU replaced."),
    ),
    Cause.DRIVER_UNRESPONSIVE: (
        Fix("End the processes that hang on the GPU; if that does not help, restart the machine."),
    ),
    Cause.GPU_THROTTLED: (
        Fix(
            "Show why its clock is throttled; check its cooling, power and limits.",
            ("nvidia-smi", "-q", "-d", "PERFORMANCE"),
        ),
    ),
}

# Neither the GPU nor the environment is at fault.
_KILLED_FIXES = (
    Fix("Check in the kernel log whether memory was used up when the test was killed.", ("sudo", "dmesg")),
    Fix("If so, give the host, the container or the job more memory, or end the processes that use it."),
)


def _test_fixes(
    ctx: CheckContext, cause: Cause, tests: Sequence[TestResult], result: SmokeResult, sound: Sequence[str]
) -> tuple[Fix, ...]:
    """The fixes, and the command that repeats a test; ``sound``: UUIDs of GPUs on which the tests passed."""
    snapshot = ctx.snapshot
    if result.fault:
        return (Fix(f"Unset {FAULT_VARIABLE}: it makes these tests fail deliberately."),)
    explanation = Fix("Read what this cause means and how to fix it.", ("gpuenv", "explain", cause.value))
    hung = [test.gpu for test in tests] if cause is Cause.DRIVER_UNRESPONSIVE else []
    reset = reset_fixes("Or reset this GPU, if no program uses it.", (_selector(snapshot, uuid) for uuid in hung))
    fixes = _FIXES.get(cause, (explanation,))
    if cause is Cause.GPU_TEST_FAILED and all(test.trouble is Trouble.KILLED for test in tests):
        fixes = _KILLED_FIXES
    elif sound and cause in (*_ENVIRONMENT_CAUSES, Cause.CUDA_INITIALIZATION_FAILED):
        fixes = _other_gpu_fixes(snapshot, tests, sound)
    elif cause in _ENVIRONMENT_CAUSES:
        fixes = _reinstall_fixes(ctx)
    # The first test alone; with several GPUs on the one where it failed.
    _, gpu = find_gpu(snapshot.gpus, tests[0].gpu)
    index = gpu.index.value if gpu is not None and len(result.gpus) > 1 else None
    option = ("--gpu", str(index)) if index is not None else ()
    repeat = Fix("Repeat the first test alone.", ("gpuenv", "smoke", "--only", tests[0].name, *option, "-v"))
    return (*fixes, *reset, repeat)


def _reinstall_fixes(ctx: CheckContext) -> tuple[Fix, ...]:
    """Fixes if either the environment or the GPU may be at fault.

    The installed releases are right, else another finding comes first: gpuenv install would change nothing.
    """
    own = [entry for entry in ctx.snapshot.target.cupy if entry.is_own]
    pin = f"{own[0].distribution}=={own[0].release}" if len(own) == 1 and own[0].release else None
    arguments = ("install", "--force-reinstall", "--no-deps", pin) if pin else ()
    return (
        Fix("Check whether every installed file is unchanged.", ("gpuenv", "doctor", "--deep")),
        *([pip_fix(ctx.snapshot, "Reinstall the same CuPy.", *arguments)._replace(safe=False)] if arguments else []),
        Fix("If other hosts pass with the same environment, restart this one and have its GPU checked."),
    )


def _other_gpu_fixes(snapshot: Snapshot, tests: Sequence[TestResult], sound: Sequence[str]) -> tuple[Fix, ...]:
    """Fixes if the same environment gives right numbers on another GPU: the GPU is at fault."""
    failed = {test.gpu for test in tests}
    spare = [gpu for gpu in snapshot.gpus if gpu.uuid.value in sound and gpu.uuid.value not in failed]
    text = "Use the GPUs that pass until this one has been checked."
    return (
        *(select_fixes(snapshot, spare, text) or (Fix(text),)),
        Fix("Read the driver's messages in the kernel log.", ("sudo", "dmesg")),
        Fix("Restart the machine; if it happens again, have the GPU replaced."),
    )


def _selector(snapshot: Snapshot, uuid: str | None) -> str | None:
    """The nvidia-smi selector of the tested GPU, or of the GPU of the tested MIG instance."""
    for gpu in snapshot.gpus:
        if uuid is not None and uuid in (gpu.uuid.value, *(instance.uuid for instance in gpu.mig_instances)):
            return smi_selector(gpu)
    return None


# A GPU under load is usually at its power limit, which explains slowness.
_SLOWING_REASONS = SEVERE_THROTTLE_REASONS | {"software-power-cap"}


def _slowness_cause(snapshot: Snapshot, index: int, gpu: Gpu | None) -> tuple[Cause, tuple[Evidence, ...]]:
    """The cause and its evidence: other processes first, then hardware faults; else the GPU is throttled."""
    if gpu is None:
        return Cause.GPU_THROTTLED, ()
    if gpu.processes.value:
        return Cause.GPU_BUSY, evidence_of(snapshot, f"gpus[{index}].processes")
    path, health = f"gpus[{index}].health", gpu.health
    if health.rows_failed.value:
        return Cause.GPU_HARDWARE_FAULT, evidence_of(snapshot, f"{path}.rows_failed")
    if health.ecc_uncorrected.value:
        return Cause.GPU_HARDWARE_FAULT, evidence_of(snapshot, f"{path}.ecc_uncorrected")
    why: tuple[Evidence, ...] = ()
    if not _SLOWING_REASONS.isdisjoint(health.throttle_reasons.value or ()):
        why += evidence_of(snapshot, f"{path}.throttle_reasons")
    width, most = gpu.pcie.width.value, gpu.pcie.width_most.value
    if width and most and width < most:  # the link's generation, unlike its width, drops while a GPU is idle
        why += evidence_of(snapshot, f"gpus[{index}].pcie.width", f"gpus[{index}].pcie.width_most")
    return Cause.GPU_THROTTLED, why
