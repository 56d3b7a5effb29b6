"""Findings of failed GPU tests: cause, evidence and consequences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.reading import Reading, known
from gpuenv.model.smoke import Compared, SmokeResult, TestResult, TestStatus, Trouble, overall
from gpuenv.model.snapshot import GpuHealth, MigInstance, PcieLink
from gpuenv.report.prometheus import render as metrics_text
from gpuenv.report.report import Status
from tests.cli.snapshots import FIT, UNFIT, UUID, WITHOUT_GPU
from tests.report.sample_reports import LEFT, PASSED, WRONG, report, smoke

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Gpu, Snapshot

OTHER = "GPU-11111111-2222-3333-4444-555555555555"


def found(tests: SmokeResult, snapshot: Snapshot = FIT) -> tuple[Finding, ...]:
    return tuple(finding for finding in report(snapshot, tests=tests).findings if finding.code.startswith("SMK"))


def ended(trouble: Trouble, cause: Cause | None = None, status: TestStatus = TestStatus.FAILED) -> TestResult:
    return replace(WRONG, status=status, trouble=trouble, cause=cause, detail=f"it was {trouble.value}")


@pytest.mark.parametrize(
    ("test", "cause"),
    [
        (ended(Trouble.WRONG_ANSWER), Cause.GPU_TEST_FAILED),
        (ended(Trouble.ERROR), Cause.GPU_TEST_FAILED),
        (ended(Trouble.ERROR, Cause.CUDA_LIBRARY_MISSING), Cause.CUDA_LIBRARY_MISSING),
        (ended(Trouble.OUT_OF_MEMORY, Cause.OUT_OF_MEMORY), Cause.OUT_OF_MEMORY),
        (ended(Trouble.OUT_OF_MEMORY), Cause.OUT_OF_MEMORY),
        (ended(Trouble.CONTEXT_LOST, Cause.ILLEGAL_MEMORY_ACCESS, TestStatus.CRASHED), Cause.ILLEGAL_MEMORY_ACCESS),
        (ended(Trouble.SIGNAL, None, TestStatus.CRASHED), Cause.DRIVER_UNRESPONSIVE),
        (ended(Trouble.KILLED, None, TestStatus.CRASHED), Cause.GPU_TEST_FAILED),
        (ended(Trouble.DEADLINE, None, TestStatus.TIMED_OUT), Cause.DRIVER_UNRESPONSIVE),
        (ended(Trouble.ENDED_EARLY, None, TestStatus.CRASHED), Cause.GPU_TEST_FAILED),
        (ended(Trouble.WRONG_DEVICE), Cause.SOURCES_DISAGREE),
    ],
    ids=lambda value: f"{value.trouble} {value.cause}" if isinstance(value, TestResult) else "",
)
def test_a_failure_is_an_error_with_a_cause_and_its_message(test: TestResult, cause: Cause) -> None:
    (finding,) = found(smoke(PASSED, test))
    assert (finding.code, finding.cause, finding.severity, finding.primary) == ("SMK902", cause, Severity.ERROR, True)
    assert [entry.value for entry in finding.evidence] == [f"{test.status.value}: {test.detail}"]
    assert UUID in finding.evidence[0].fact
    assert ("gpuenv", "smoke", "--only", test.name, "-v") in [fix.command for fix in finding.fix]


INSTANCE = "MIG-11111111-2222-3333-4444-666666666666"
SLICED = FIT._replace(gpus=(FIT.gpus[0]._replace(mig_instances=(MigInstance(INSTANCE),)),))
NAMELESS = FIT._replace(gpus=(FIT.gpus[0]._replace(pci=Reading()),))


@pytest.mark.parametrize(
    ("machine", "gpus", "reset"),
    [
        (FIT, [UUID], ["0000:53:00.0"]),
        (SLICED, [INSTANCE], ["0000:53:00.0"]),
        (NAMELESS, [UUID], ["0"]),
        (FIT, [UUID, OTHER], []),
        (FIT, [None], []),
    ],
    ids=["a GPU", "an instance", "by its index", "one that is not known", "all of them"],
)
def test_a_gpu_that_hangs_is_reset_and_no_other(machine: Snapshot, gpus: list[str | None], reset: list[str]) -> None:
    tests = [replace(ended(Trouble.DEADLINE, None, TestStatus.TIMED_OUT), gpu=gpu) for gpu in gpus]
    (finding,) = found(smoke(*tests), machine)
    commands = [fix.command for fix in finding.fix if fix.command and "--gpu-reset" in fix.command]
    assert commands == [("sudo", "nvidia-smi", "--gpu-reset", "-i", option) for option in reset]
    assert "restart the machine" in " ".join(fix.text for fix in finding.fix).lower()


def test_a_broken_gpu_explains_what_else_fails_on_it() -> None:
    broken = replace(
        WRONG,
        name="health.state",
        trouble=Trouble.ERROR,
        cause=Cause.GPU_HARDWARE_FAULT,
        detail="the driver logged Xid 48 for this GPU during the tests",
    )
    elsewhere = replace(WRONG, name="blas.gemv", gpu=OTHER)
    first, second = found(smoke(PASSED, WRONG, elsewhere, broken))
    assert (first.cause, len(first.evidence)) == (Cause.GPU_HARDWARE_FAULT, 2)
    assert (second.cause, second.evidence[0].fact) == (Cause.GPU_TEST_FAILED, f"blas.gemv on {OTHER}")


def test_a_test_killed_by_the_kernel_blames_neither_driver_nor_gpu() -> None:
    """A report of a lack of host memory suggested restarting the machine or resetting the GPU."""
    (finding,) = found(smoke(PASSED, ended(Trouble.KILLED, None, TestStatus.CRASHED)))
    cures = " ".join(fix.text for fix in finding.fix)
    assert "memory" in cures
    assert not {"restart", "reset", "wheel", "cupy"} & set(cures.lower().replace(",", "").split())
    both = ended(Trouble.KILLED, None, TestStatus.CRASHED), replace(WRONG, name="blas.gemv")
    (finding,) = found(smoke(PASSED, *both))
    assert "restart this one" in " ".join(fix.text for fix in finding.fix), "one of them says more of it"


def test_many_failures_of_one_cause_are_one_finding() -> None:
    (finding,) = found(smoke(*(replace(WRONG, name=f"blas.test{n}") for n in range(20))))
    assert finding.title.startswith("20 GPU tests failed: blas.test0, ")
    assert finding.title.endswith(" and 14 more")
    (result,) = finding.evidence
    assert result.fact.endswith(f"blas.test5 and 14 more on {UUID}")
    (finding,) = found(smoke(*(replace(WRONG, name=f"blas.test{n}", detail=f"wrong {n}") for n in range(20))))
    assert [entry.value for entry in finding.evidence[-2:]] == ["failed: wrong 5", "14 other messages"]


def test_a_busy_gpu_is_not_broken() -> None:
    held = FIT.gpus[0]._replace(processes=known(3, "nvml"))
    busy = ended(Trouble.MEMORY_HELD_BY_OTHERS, Cause.GPU_BUSY, TestStatus.BUSY)
    (finding,) = found(smoke(PASSED, busy), FIT._replace(gpus=(held,)))
    assert (finding.code, finding.cause, finding.severity) == ("SMK903", Cause.GPU_BUSY, Severity.ERROR)
    assert ("gpus[0].processes", "3") in {(entry.fact, entry.value) for entry in finding.evidence}
    taken = ended(Trouble.DEVICE_UNAVAILABLE, Cause.COMPUTE_MODE_EXCLUSIVE, TestStatus.BUSY)
    assert [entry.cause for entry in found(smoke(taken))] == [Cause.COMPUTE_MODE_EXCLUSIVE]


SISTER = FIT.gpus[0]._replace(uuid=known(OTHER, "nvml"), index=known(1, "nvml"), pci=known("0000:65:00.0", "nvml"))
REINSTALL = {"--force-reinstall", "--no-deps"}
PAIR = FIT._replace(gpus=(FIT.gpus[0], SISTER))


def on_two(*tests: TestResult, fault: str | None = None) -> SmokeResult:
    made = smoke(*tests)
    return made._replace(gpus=(*made.gpus, replace(made.gpus[0], uuid=OTHER)), fault=fault)


@pytest.mark.parametrize("cause", [None, Cause.ILLEGAL_MEMORY_ACCESS], ids=str)
def test_where_another_gpu_passes_the_same_tests_this_one_is_named_and_not_the_environment(cause: Cause | None) -> None:
    here = replace(WRONG, cause=cause)
    there = replace(WRONG, gpu=OTHER, status=TestStatus.PASSED, trouble=None, detail=None)
    (finding,) = found(on_two(here, there), PAIR)
    assert "failed on GPU 0 (" in finding.title
    assert [entry.value for entry in finding.evidence if entry.fact == "the same tests"] == [
        f"passed on GPU 1 ({FIT.gpus[0].name.value}), in the same environment"
    ]
    assert "CUDA_VISIBLE_DEVICES=1)" in finding.fix[0].text
    commands = [fix.command for fix in finding.fix]
    assert REINSTALL.isdisjoint(word for command in commands for word in command or ())
    assert commands[-1] == ("gpuenv", "smoke", "--only", WRONG.name, "--gpu", "0", "-v")


def test_where_it_fails_on_both_or_passed_only_elsewhere_in_part_the_environment_may_be_at_fault() -> None:
    both = on_two(WRONG, replace(WRONG, gpu=OTHER))
    part = on_two(WRONG, replace(WRONG, name="kernels.cache"), replace(PASSED, name=WRONG.name, gpu=OTHER))
    for result in (both, part):
        (finding,) = found(result, PAIR)
        assert {word for fix in finding.fix for word in fix.command or ()} >= REINSTALL
        assert not [entry for entry in finding.evidence if entry.fact == "the same tests"]


def test_the_user_s_program_is_not_blamed_for_an_illegal_access_of_a_test() -> None:
    (finding,) = found(smoke(ended(Trouble.CONTEXT_LOST, Cause.ILLEGAL_MEMORY_ACCESS, TestStatus.CRASHED)))
    commands = [fix.command for fix in finding.fix]
    assert {word for command in commands for word in command or ()} >= REINSTALL
    assert ("gpuenv", "explain", "illegal-memory-access") not in commands


def test_installed_packages_are_reinstalled_by_the_right_command() -> None:
    """Where the right releases are there, gpuenv install says so and changes nothing."""
    (finding,) = found(smoke(PASSED, WRONG))
    commands = [fix.command for fix in finding.fix if fix.command]
    assert ("gpuenv", "install") not in [command[:2] for command in commands]
    assert ("gpuenv", "doctor", "--deep") in commands
    assert [command[-1] for command in commands if set(command) >= REINSTALL] == [
        f"{FIT.target.cupy[0].distribution}=={FIT.target.cupy[0].release}"
    ]
    assert not any(fix.safe for fix in finding.fix)


def test_an_injected_fault_is_reported_as_injected() -> None:
    (finding,) = found(smoke(PASSED, WRONG)._replace(fault="no-order"))
    assert finding.evidence[0].value == "no-order: a deliberately injected fault"
    assert [(fix.text.partition(":")[0], fix.command) for fix in finding.fix] == [("Unset GPUENV_SMOKE_FAULT", None)]


# Slow.


def slow(against: str = "data-sheet") -> SmokeResult:
    rate = Compared("blas.matmul_f32", UUID, "FLOP/s", 3e12, 19.5e12, 3 / 19.5, worse=True, against=against)
    return smoke(PASSED, compared=(rate,))


@pytest.mark.parametrize(
    ("against", "text"),
    [("data-sheet", "its data sheet"), ("sisters", "the other GPUs"), ("baseline", "its baseline")],
)
def test_a_slow_gpu_is_a_warning_with_its_rate_and_the_reference(against: str, text: str) -> None:
    (finding,) = found(slow(against))
    assert (finding.code, finding.cause, finding.severity) == ("SMK904", Cause.GPU_THROTTLED, Severity.WARNING)
    assert f"15% of {text} (" in finding.evidence[0].value
    assert report(FIT, tests=slow(against)).status is Status.DEGRADED


@pytest.mark.parametrize(
    ("gpu", "cause", "fact"),
    [
        (FIT.gpus[0]._replace(processes=known(1, "nvml")), Cause.GPU_BUSY, "processes"),
        (
            FIT.gpus[0]._replace(health=GpuHealth(ecc_uncorrected=known(4, "nvml"))),
            Cause.GPU_HARDWARE_FAULT,
            "health.ecc_uncorrected",
        ),
        (
            FIT.gpus[0]._replace(health=GpuHealth(throttle_reasons=known(("hardware-thermal",), "nvml"))),
            Cause.GPU_THROTTLED,
            "health.throttle_reasons",
        ),
        (
            FIT.gpus[0]._replace(pcie=PcieLink(width=known(4, "nvml"), width_most=known(16, "nvml"))),
            Cause.GPU_THROTTLED,
            "pcie.width",
        ),
    ],
    ids=["others", "memory errors", "heat", "link"],
)
def test_the_reason_of_slowness_is_reported(gpu: Gpu, cause: Cause, fact: str) -> None:
    (finding,) = found(slow(), FIT._replace(gpus=(gpu,)))
    assert finding.cause is cause
    assert f"gpus[0].{fact}" in {entry.fact for entry in finding.evidence}


# What was not proven.


def test_nothing_proven_is_never_fit() -> None:
    nothing = smoke(LEFT)
    made = report(FIT, tests=nothing)
    assert (made.status, made.exit_code) == (Status.UNKNOWN, 8)
    assert [run.reason for run in made.checks if run.code == "SMK901"] == [f"unknown: {LEFT.detail}"]


def test_a_gpu_that_only_the_driver_shows_is_an_error() -> None:
    unseen = replace(LEFT, gpu=UUID, trouble=Trouble.NO_DEVICE, detail="CUDA finds no GPU: error 100")
    (finding,) = found(smoke(unseen))
    assert (finding.code, finding.cause) == ("SMK901", Cause.CUDA_INITIALIZATION_FAILED)
    assert overall((unseen,)) is TestStatus.SKIPPED


def test_tests_without_time_leave_it_open() -> None:
    late = replace(LEFT, trouble=Trouble.NO_TIME, detail="not started: the time for the run is used up")
    made = report(FIT, tests=smoke(PASSED, late))
    assert (made.status, made.exit_code) == (Status.UNKNOWN, 8)
    assert "gpuenv_smoke_passed 0" in metrics_text(made), "a part is not the whole"


def test_without_a_gpu_the_tests_add_nothing_to_what_the_doctor_says() -> None:
    made = report(WITHOUT_GPU, tests=smoke(LEFT))
    assert [run.undecided for run in made.checks if run.code == "SMK901"] == [True]
    assert {finding.code[:3] for finding in made.findings} == {
        finding.code[:3] for finding in report(WITHOUT_GPU).findings
    }


def test_a_failure_follows_from_what_the_doctor_found_first() -> None:
    made = report(UNFIT, tests=smoke(WRONG))
    (finding,) = [finding for finding in made.findings if finding.code == "SMK902"]
    assert not finding.primary
    assert finding.follows_from == made.findings[0].code
