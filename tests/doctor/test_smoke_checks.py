"""Findings of failed GPU tests: cause, evidence and consequences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuenv.doctor.checks.smoke import shortfall_text
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.reading import Reading, known
from gpuenv.model.smoke import Compared, Quantity, SmokeResult, TestResult, TestStatus, Trouble, overall
from gpuenv.model.snapshot import GpuHealth, MigInstance, PcieLink
from gpuenv.report.prometheus import render as metrics_text
from gpuenv.report.report import Status
from tests.cli.snapshots import FIT, UNFIT, UUID, WITHOUT_GPU
from tests.report.sample_reports import LEFT, PASSED, WRONG, report, smoke

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Gpu, Snapshot

OTHER = "GPU-11111111-2222-3333-4444-555555555555"


def smoke_findings(tests: SmokeResult, snapshot: Snapshot = FIT) -> tuple[Finding, ...]:
    return tuple(finding for finding in report(snapshot, tests=tests).findings if finding.code.startswith("SMK"))


def failed(trouble: Trouble, cause: Cause | None = None, status: TestStatus = TestStatus.FAILED) -> TestResult:
    return replace(WRONG, status=status, trouble=trouble, cause=cause, detail=f"it was {trouble.value}")


@pytest.mark.parametrize(
    ("test", "cause"),
    [
        (failed(Trouble.WRONG_ANSWER), Cause.GPU_TEST_FAILED),
        (failed(Trouble.ERROR), Cause.GPU_TEST_FAILED),
        (failed(Trouble.ERROR, Cause.CUDA_LIBRARY_MISSING), Cause.CUDA_LIBRARY_MISSING),
        (failed(Trouble.OUT_OF_MEMORY, Cause.OUT_OF_MEMORY), Cause.OUT_OF_MEMORY),
        (failed(Trouble.OUT_OF_MEMORY), Cause.OUT_OF_MEMORY),
        (failed(Trouble.CONTEXT_LOST, Cause.ILLEGAL_MEMORY_ACCESS, TestStatus.CRASHED), Cause.ILLEGAL_MEMORY_ACCESS),
        (failed(Trouble.SIGNAL, None, TestStatus.CRASHED), Cause.DRIVER_UNRESPONSIVE),
        (failed(Trouble.KILLED, None, TestStatus.CRASHED), Cause.GPU_TEST_FAILED),
        (failed(Trouble.DEADLINE, None, TestStatus.TIMED_OUT), Cause.DRIVER_UNRESPONSIVE),
        (failed(Trouble.ENDED_EARLY, None, TestStatus.CRASHED), Cause.GPU_TEST_FAILED),
        (failed(Trouble.WRONG_DEVICE), Cause.SOURCES_DISAGREE),
    ],
    ids=lambda value: f"{value.trouble} {value.cause}" if isinstance(value, TestResult) else "",
)
def test_a_failure_is_an_error_with_a_cause_and_its_message(test: TestResult, cause: Cause) -> None:
    (finding,) = smoke_findings(smoke(PASSED, test))
    assert (finding.code, finding.cause, finding.severity, finding.primary) == ("SMK902", cause, Severity.ERROR, True)
    assert [entry.value for entry in finding.evidence] == [f"{test.status.value}: {test.detail}"]
    assert UUID in finding.evidence[0].fact
    assert ("gpuenv", "smoke", "--only", test.name, "-v") in [fix.command for fix in finding.fix]


INSTANCE = "MIG-11111111-2222-3333-4444-666666666666"
WITH_MIG = FIT._replace(gpus=(FIT.gpus[0]._replace(mig_instances=(MigInstance(INSTANCE),)),))
WITHOUT_ADDRESS = FIT._replace(gpus=(FIT.gpus[0]._replace(pci=Reading()),))


@pytest.mark.parametrize(
    ("machine", "gpus", "reset"),
    [
        (FIT, [UUID], ["0000:53:00.0"]),
        (WITH_MIG, [INSTANCE], ["0000:53:00.0"]),
        (WITHOUT_ADDRESS, [UUID], ["0"]),
        (FIT, [UUID, OTHER], []),
        (FIT, [None], []),
    ],
    ids=["a GPU", "an instance", "by its index", "one that is not known", "all of them"],
)
def test_only_the_hanging_gpu_is_reset(machine: Snapshot, gpus: list[str | None], reset: list[str]) -> None:
    tests = [replace(failed(Trouble.DEADLINE, None, TestStatus.TIMED_OUT), gpu=gpu) for gpu in gpus]
    (finding,) = smoke_findings(smoke(*tests), machine)
    commands = [fix.command for fix in finding.fix if fix.command and "--gpu-reset" in fix.command]
    assert commands == [("sudo", "nvidia-smi", "--gpu-reset", "-i", option) for option in reset]
    assert "restart the machine" in " ".join(fix.text for fix in finding.fix).lower()


def test_a_hardware_fault_explains_other_failures_on_the_same_gpu() -> None:
    broken = replace(
        WRONG,
        name="health.state",
        trouble=Trouble.ERROR,
        cause=Cause.GPU_HARDWARE_FAULT,
        detail="the driver logged Xid 48 for this GPU during the tests",
    )
    elsewhere = replace(WRONG, name="blas.gemv", gpu=OTHER)
    first, second = smoke_findings(smoke(PASSED, WRONG, elsewhere, broken))
    assert (first.cause, len(first.evidence)) == (Cause.GPU_HARDWARE_FAULT, 2)
    assert (second.cause, second.evidence[0].fact) == (Cause.GPU_TEST_FAILED, f"blas.gemv on {OTHER}")


def test_a_test_killed_by_the_kernel_blames_neither_driver_nor_gpu() -> None:
    """Regression: a lack of host memory led to advice to restart the machine or to reset the GPU."""
    (finding,) = smoke_findings(smoke(PASSED, failed(Trouble.KILLED, None, TestStatus.CRASHED)))
    fixes = " ".join(fix.text for fix in finding.fix)
    assert "memory" in fixes
    assert not {"restart", "reset", "wheel", "cupy"} & set(fixes.lower().replace(",", "").split())
    both = failed(Trouble.KILLED, None, TestStatus.CRASHED), replace(WRONG, name="blas.gemv")
    (finding,) = smoke_findings(smoke(PASSED, *both))
    assert "restart this one" in " ".join(fix.text for fix in finding.fix), "another failure does concern the GPU"


def test_many_failures_of_one_cause_are_one_finding() -> None:
    (finding,) = smoke_findings(smoke(*(replace(WRONG, name=f"blas.test{n}") for n in range(20))))
    assert finding.title.startswith("20 GPU tests failed: blas.test0, ")
    assert finding.title.endswith(" and 14 more")
    (result,) = finding.evidence
    assert result.fact.endswith(f"blas.test5 and 14 more on {UUID}")
    (finding,) = smoke_findings(smoke(*(replace(WRONG, name=f"blas.test{n}", detail=f"wrong {n}") for n in range(20))))
    assert [entry.value for entry in finding.evidence[-2:]] == ["failed: wrong 5", "14 other messages"]


def test_a_busy_gpu_is_not_broken() -> None:
    gpu = FIT.gpus[0]._replace(processes=known(3, "nvml"))
    busy = failed(Trouble.MEMORY_HELD_BY_OTHERS, Cause.GPU_BUSY, TestStatus.BUSY)
    (finding,) = smoke_findings(smoke(PASSED, busy), FIT._replace(gpus=(gpu,)))
    assert (finding.code, finding.cause, finding.severity) == ("SMK903", Cause.GPU_BUSY, Severity.ERROR)
    assert ("gpus[0].processes", "3") in {(entry.fact, entry.value) for entry in finding.evidence}
    taken = failed(Trouble.DEVICE_UNAVAILABLE, Cause.COMPUTE_MODE_EXCLUSIVE, TestStatus.BUSY)
    assert [entry.cause for entry in smoke_findings(smoke(taken))] == [Cause.COMPUTE_MODE_EXCLUSIVE]


SECOND_GPU = FIT.gpus[0]._replace(uuid=known(OTHER, "nvml"), index=known(1, "nvml"), pci=known("0000:65:00.0", "nvml"))
REINSTALL = {"--force-reinstall", "--no-deps"}
TWO_GPUS = FIT._replace(gpus=(FIT.gpus[0], SECOND_GPU))


def on_two(*tests: TestResult, fault: str | None = None) -> SmokeResult:
    result = smoke(*tests)
    return result._replace(gpus=(*result.gpus, replace(result.gpus[0], uuid=OTHER)), fault=fault)


@pytest.mark.parametrize("cause", [None, Cause.ILLEGAL_MEMORY_ACCESS], ids=str)
def test_a_failure_on_one_of_two_gpus_is_blamed_on_that_gpu(cause: Cause | None) -> None:
    failing = replace(WRONG, cause=cause)
    passed = replace(WRONG, gpu=OTHER, status=TestStatus.PASSED, trouble=None, detail=None)
    (finding,) = smoke_findings(on_two(failing, passed), TWO_GPUS)
    assert "failed on GPU 0 (" in finding.title
    assert [entry.value for entry in finding.evidence if entry.fact == "the same tests"] == [
        f"passed on GPU 1 ({FIT.gpus[0].name.value}), in the same environment"
    ]
    assert finding.fix[0].shell_line == "export CUDA_DEVICE_ORDER=PCI_BUS_ID; export CUDA_VISIBLE_DEVICES=1"
    commands = [fix.command for fix in finding.fix]
    assert REINSTALL.isdisjoint(word for command in commands for word in command or ())
    assert commands[-1] == ("gpuenv", "smoke", "--only", WRONG.name, "--gpu", "0", "-v")


def test_a_failure_on_both_gpus_is_blamed_on_the_environment() -> None:
    both = on_two(WRONG, replace(WRONG, gpu=OTHER))
    part = on_two(WRONG, replace(WRONG, name="kernels.cache"), replace(PASSED, name=WRONG.name, gpu=OTHER))
    for result in (both, part):
        (finding,) = smoke_findings(result, TWO_GPUS)
        assert {word for fix in finding.fix for word in fix.command or ()} >= REINSTALL
        assert not [entry for entry in finding.evidence if entry.fact == "the same tests"]


@pytest.mark.parametrize(
    "test",
    [WRONG, failed(Trouble.CONTEXT_LOST, Cause.ILLEGAL_MEMORY_ACCESS, TestStatus.CRASHED)],
    ids=["wrong", "access"],
)
def test_installed_packages_are_reinstalled_by_the_right_command(test: TestResult) -> None:
    """gpuenv install changes nothing if the right releases are installed; no program of the user is at fault."""
    (finding,) = smoke_findings(smoke(PASSED, test))
    commands = [fix.command for fix in finding.fix if fix.command]
    assert ("gpuenv", "install") not in [command[:2] for command in commands]
    assert ("gpuenv", "doctor", "--deep") in commands
    assert ("gpuenv", "explain", "illegal-memory-access") not in commands
    assert [command[-1] for command in commands if set(command) >= REINSTALL] == [
        f"{FIT.target.cupy[0].distribution}=={FIT.target.cupy[0].release}"
    ]
    assert not any(fix.safe for fix in finding.fix)


def test_an_injected_fault_is_reported_as_injected() -> None:
    (finding,) = smoke_findings(smoke(PASSED, WRONG)._replace(fault="no-order"))
    assert finding.evidence[0].value == "no-order: a deliberately injected fault"
    assert [(fix.text.partition(":")[0], fix.command) for fix in finding.fix] == [("Unset GPUENV_SMOKE_FAULT", None)]


# Slow GPUs.


def slow(against: str = "data-sheet") -> SmokeResult:
    rate = Compared("blas.matmul_f32", UUID, "FLOP/s", 3e12, 19.5e12, 3 / 19.5, worse=True, against=against)
    return smoke(PASSED, compared=(rate,))


@pytest.mark.parametrize(
    ("against", "text"), [("data-sheet", "its data sheet"), ("sisters", "the other GPUs"), ("baseline", "its baseline")]
)
def test_a_slow_gpu_is_a_warning_with_its_rate_and_the_reference(against: str, text: str) -> None:
    (finding,) = smoke_findings(slow(against))
    assert (finding.code, finding.cause, finding.severity) == ("SMK904", Cause.GPU_THROTTLED, Severity.WARNING)
    assert f"15% of {text} (" in finding.evidence[0].value
    assert report(FIT, tests=slow(against)).status is Status.DEGRADED


def test_a_rate_below_the_required_minimum_is_an_error() -> None:
    (finding,) = smoke_findings(slow("minimum"))
    assert (finding.code, finding.severity) == ("SMK904", Severity.ERROR)
    assert "15% of the required minimum (" in finding.evidence[0].value


def test_each_reason_for_which_a_run_is_not_accepted_is_an_error_once() -> None:
    missed = Compared("transfer.device_copy", UUID, "B/s", 1.5e12, 2e12, 0.75, worse=True, against="minimum")
    unmeasured = "transfer.h2d_pinned was not measured on GPU 0"
    run = smoke(PASSED, compared=(missed,))._replace(rejected=(unmeasured, shortfall_text(missed)))
    found = {finding.code: (finding.severity, finding.title) for finding in smoke_findings(run)}
    assert found["SMK904"][0] is Severity.ERROR
    assert found["SMK905"] == (Severity.ERROR, f"The run is not accepted: {unmeasured}")
    assert len(smoke_findings(run)) == 2


def test_a_rate_is_not_measured_because_its_test_failed() -> None:
    run = smoke(failed(Trouble.WRONG_ANSWER))._replace(rejected=("blas.matmul_f16 was not measured on GPU 0",))
    assert [(finding.code, finding.follows_from) for finding in smoke_findings(run)] == [
        ("SMK902", None),
        ("SMK905", "SMK902"),
    ]


def test_a_rate_that_falls_has_the_reason_that_nvml_gave_meanwhile() -> None:
    shares = {"throttled_software-power-cap": Quantity(0.9, "1"), "pcie_replays_new": Quantity(3.0, "1")}
    burn_in = replace(PASSED, name="health.sustained", measured=shares)
    rate = Compared("health.sustained_f32", UUID, "FLOP/s", 7e12, 10e12, 0.7, worse=True, against="start")
    (finding,) = smoke_findings(smoke(burn_in, compared=(rate,)))
    assert [entry.value for entry in finding.evidence[:3]] == [
        "7 TFLOP/s, 70% of its rate at the start of the burn-in (10 TFLOP/s)",
        "software-power-cap for 90% of the time",
        "3",
    ]
    assert smoke_findings(smoke(burn_in)) == (), "a GPU under load is usually at its power limit"


def test_a_clock_throttled_for_heat_under_load_is_a_finding() -> None:
    for share, expected in ((0.5, [Cause.GPU_THROTTLED]), (0.05, [])):
        shares = {"throttled_hardware-thermal": Quantity(share, "1")}
        burn_in = replace(PASSED, name="health.sustained", measured=shares)
        assert [finding.cause for finding in smoke_findings(smoke(burn_in))] == expected


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
def test_the_reason_for_a_slow_gpu_is_reported(gpu: Gpu, cause: Cause, fact: str) -> None:
    (finding,) = smoke_findings(slow(), FIT._replace(gpus=(gpu,)))
    assert finding.cause is cause
    assert f"gpus[0].{fact}" in {entry.fact for entry in finding.evidence}


# Tests without a result.


def test_a_run_that_proves_nothing_is_unknown() -> None:
    nothing = smoke(LEFT)
    result = report(FIT, tests=nothing)
    assert (result.status, result.exit_code) == (Status.UNKNOWN, 8)
    assert [run.reason for run in result.checks if run.code == "SMK901"] == [f"unknown: {LEFT.detail}"]


def test_a_gpu_that_cuda_does_not_find_is_an_error() -> None:
    unseen = replace(LEFT, gpu=UUID, trouble=Trouble.NO_DEVICE, detail="CUDA finds no GPU: error 100")
    (finding,) = smoke_findings(smoke(unseen))
    assert (finding.code, finding.cause) == ("SMK901", Cause.CUDA_INITIALIZATION_FAILED)
    assert overall((unseen,)) is TestStatus.SKIPPED


def test_tests_that_did_not_start_leave_the_status_unknown() -> None:
    late = replace(LEFT, trouble=Trouble.NO_TIME, detail="not started: the time for the run is used up")
    result = report(FIT, tests=smoke(PASSED, late))
    assert (result.status, result.exit_code) == (Status.UNKNOWN, 8)
    assert "gpuenv_smoke_passed 0" in metrics_text(result), "a part of the tests is not enough"


def test_the_tests_add_no_findings_without_a_gpu() -> None:
    result = report(WITHOUT_GPU, tests=smoke(LEFT))
    assert [run.undecided for run in result.checks if run.code == "SMK901"] == [True]
    assert {finding.code[:3] for finding in result.findings} == {
        finding.code[:3] for finding in report(WITHOUT_GPU).findings
    }


def test_a_failed_test_follows_from_the_first_finding() -> None:
    result = report(UNFIT, tests=smoke(WRONG))
    (finding,) = [finding for finding in result.findings if finding.code == "SMK902"]
    assert not finding.primary
    assert finding.follows_from == result.findings[0].code
