"""What to do about GPU tests that failed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuenv.doctor.named import option_of, resets, showing, with_uuid
from gpuenv.doctor.packages import pip_fix
from gpuenv.doctor.registry import Facts
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix
from gpuenv.model.smoke import FAULT_VARIABLE, SmokeResult, TestResult, Trouble
from gpuenv.model.snapshot import Snapshot

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


def cures_of_tests(
    facts: Facts, cause: Cause, tests: Sequence[TestResult], result: SmokeResult, sound: Sequence[str]
) -> tuple[Fix, ...]:
    """The cure, and how to see whether it was one.

    Args:
        facts: the machine.
        cause: what is behind these tests.
        tests: those that failed.
        result: the run that they are of.
        sound: UUIDs of the GPUs on which the same tests passed.
    """
    snapshot = facts.snapshot
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
        cures = _afresh(facts)
    return (*cures, *reset, _again(snapshot, tests[0], result))


def _afresh(facts: Facts) -> tuple[Fix, ...]:
    """What to do where nobody knows whether the environment or the GPU is at fault.

    What is installed is of the right releases, or another finding comes first: gpuenv install would change nothing.
    """
    own = [entry for entry in facts.snapshot.target.cupy if entry.is_own]
    named = f"{own[0].distribution}=={own[0].release}" if len(own) == 1 and own[0].release else None
    again = ("install", "--force-reinstall", "--no-deps", named) if named else ()
    return (
        Fix("See whether every installed file is what its wheel had.", ("gpuenv", "doctor", "--deep")),
        *([replace(pip_fix(facts.snapshot, "Put the same CuPy in anew.", *again), safe=False)] if again else []),
        Fix("Where other hosts pass with the same environment, restart this one and have its GPU looked at."),
    )


def _again(snapshot: Snapshot, test: TestResult, result: SmokeResult) -> Fix:
    """The first test alone; of several GPUs on that one where it failed."""
    _, gpu = with_uuid(snapshot.gpus, test.gpu)
    place = gpu.index.value if gpu is not None and len(result.gpus) > 1 else None
    here = ("--gpu", str(place)) if place is not None else ()
    return Fix("Repeat the first test alone.", ("gpuenv", "smoke", "--only", test.name, *here, "-v"))


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
    """What names the GPU of a test to nvidia-smi, or that of the instance which was tested."""
    for gpu in snapshot.gpus:
        if uuid is not None and uuid in (gpu.uuid.value, *(instance.uuid for instance in gpu.mig_instances)):
            return option_of(gpu)
    return None
