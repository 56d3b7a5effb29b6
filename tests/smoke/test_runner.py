"""The runner with misbehaving payloads in real processes: statuses, deadlines, and no process left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.redaction import hide_secrets
from gpuenv.model.smoke import HEALTH_STATE, Quantity, TestResult, TestStatus, Trouble, overall
from gpuenv.smoke.gpu_health import watched_result
from gpuenv.smoke.runner import RunSettings, list_devices, run_tasks
from gpuenv.smoke.tasks import BURN_IN
from tests.smoke.payload_runs import (
    DEADLINE_TOLERANCE,
    FIRST_GPU,
    LONG_DEADLINE,
    PROGRAM,
    SHORT_DEADLINE,
    info,
    run,
    run_settings,
    run_single,
    running_processes,
    task,
)
from tests.support.planted_secrets import LONG_URL, shown_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuenv.simulate.stub_driver import StubDriver


def test_a_passed_test_has_its_measurements_and_versions(tmp_path: Path) -> None:
    outcome = run(tmp_path, task("passes"))
    (result,) = outcome.tests
    assert (result.status, result.trouble, result.detail) == (TestStatus.PASSED, None, None)
    assert result.measured == {"rate": Quantity(2.5e9, "B/s")}
    assert (result.work, result.seed, result.gpu) == (0.25, 42, FIRST_GPU.uuid)
    assert 0 < result.duration < LONG_DEADLINE
    assert outcome.versions == {"cupy": "99.0", "numpy": "99.1"}


@pytest.mark.parametrize(
    ("behaviour", "status", "trouble", "cause", "message"),
    [
        ("fails", "failed", "wrong-answer", None, "1 of 4 wrong"),
        ("busy", "busy", "memory-held-by-others", "gpu-busy", "others hold"),
        ("skips", "skipped", "not-applicable", None, "needs more"),
        ("loses_context", "crashed", "context-lost", "illegal-memory-access", "context is lost"),
        ("segfaults", "crashed", "signal", None, "ended by SIGSEGV while computing the GPU's answers"),
        ("aborts_after_the_verdict", "crashed", "signal", None, "ended by SIGABRT"),
        ("exits_early", "crashed", "ended-early", None, "exit code 3 before its verdict"),
        ("exits_early_with_success", "crashed", "ended-early", None, "exit code 0 before its verdict"),
        ("sends_a_malformed_verdict", "crashed", "ended-early", None, "exit code 0 before its verdict"),
        ("closes_its_channel", "crashed", "ended-early", None, "exit code 0 before its verdict"),
        ("exits_with_the_deadline_code", "crashed", "ended-early", None, "exit code 124 before its verdict"),
        ("kills_its_group", "crashed", "killed", None, "ended by SIGKILL"),
        ("prints_garbage", "passed", None, None, None),
        ("floods", "passed", None, None, None),
        ("leaves_a_grandchild", "passed", None, None, None),
        ("leaves_a_daemon", "passed", None, None, None),
    ],
)
def test_every_way_to_end_has_its_status(
    tmp_path: Path, behaviour: str, status: str, trouble: str | None, cause: str | None, message: str | None
) -> None:
    result = run_single(tmp_path, behaviour)
    assert result.status.value == status, result
    assert (result.trouble and result.trouble.value) == trouble
    assert (result.cause and result.cause.value) == cause
    assert (message or "") in (result.detail or "")
    assert result.duration < LONG_DEADLINE / 2
    assert running_processes(tmp_path) == []


@pytest.mark.parametrize(
    "behaviour", ["hangs", "hangs_at_the_end", "forks_and_hangs", "hangs_with_a_daemon", "floods_without_end"]
)
def test_all_processes_of_a_test_end_at_its_deadline(tmp_path: Path, behaviour: str) -> None:
    results = []
    for _ in range(3):  # a loaded machine may be late once
        results.append(run_single(tmp_path, behaviour, SHORT_DEADLINE))
        if results[-1].duration <= SHORT_DEADLINE + DEADLINE_TOLERANCE:
            break
    assert {(result.status, result.trouble) for result in results} == {(TestStatus.TIMED_OUT, Trouble.DEADLINE)}
    assert "no answer within 1.5 s" in (results[0].detail or "")
    assert SHORT_DEADLINE <= results[-1].duration <= SHORT_DEADLINE + DEADLINE_TOLERANCE
    assert running_processes(tmp_path) == []


def test_a_timeout_names_the_stage_of_the_test(tmp_path: Path) -> None:
    assert "while computing the GPU's answers" in (run_single(tmp_path, "hangs", SHORT_DEADLINE).detail or "")


def test_an_early_exit_quotes_standard_error(tmp_path: Path) -> None:
    assert (run_single(tmp_path, "exits_early").detail or "").endswith(": something is wrong")


@pytest.mark.parametrize("behaviour", ["quotes_a_secret", "ends_with_a_secret"])
def test_an_error_is_not_cut_within_a_secret(tmp_path: Path, behaviour: str) -> None:
    detail = run_single(tmp_path, behaviour).detail or ""
    assert "cannot open" in detail
    assert shown_parts(LONG_URL, hide_secrets(detail)) == []


def test_the_text_of_an_exception_can_be_written(tmp_path: Path) -> None:
    detail = run_single(tmp_path, "raises_a_lone_surrogate").detail
    assert detail == "no file ? here"
    assert detail.encode()


def test_a_missing_interpreter_is_reported(tmp_path: Path) -> None:
    missing = str(tmp_path / "python")
    settings = RunSettings(missing, {"PATH": os.defpath}, str(tmp_path), program=PROGRAM)
    (result,) = run_tasks([task("passes")], settings).tests
    assert (result.status, result.trouble) == (TestStatus.CRASHED, Trouble.ENDED_EARLY)
    assert result.detail == f"could not be started: {missing}: No such file or directory"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("exec sleep 30", "no device list (no answer within 1 s)"),
        ("echo out of paper >&2; exit 3", "no device list (ended with exit code 3: out of paper)"),
        ("kill -SEGV $$", "no device list (ended by SIGSEGV)"),
    ],
)
def test_a_failure_to_list_devices_has_a_reason(tmp_path: Path, program: str, message: str) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    interpreter.chmod(0o755)
    devices = list_devices(RunSettings(str(interpreter), {"PATH": os.defpath}, str(tmp_path)), 1.0)
    assert devices == ((), message)


def test_a_child_runs_in_an_empty_folder_and_sees_one_gpu(tmp_path: Path) -> None:
    result = run_single(tmp_path, "reports_its_environment")
    reported = json.loads(result.detail or "")
    assert reported["entries"] == []
    assert reported["folder"] != str(tmp_path)
    assert reported["visible"] == FIRST_GPU.uuid
    request = {"level": "quick", "seed": 42, "size": {"n": 3}, "smaller": [], "fault": None, "uuid": FIRST_GPU.uuid}
    assert reported["request"] == {**request, "folder": reported["folder"]}, "it writes only there"


@pytest.mark.parametrize("hung", [False, True], ids=["working", "hung"])
def test_a_gpu_is_held_while_tests_run(tmp_path: Path, stub_driver: StubDriver, *, hung: bool) -> None:
    """Otherwise the driver would power it down after each test, and the next test would wait."""
    calls, table = tmp_path / "calls", tmp_path / "stub.txt"
    message = f"gpu.count=1\ngpu.0.uuid={FIRST_GPU.uuid}\ncalls={calls}\n"
    message += "nvml.delay.nvmlDeviceGetHandleByUUID=forever\n" if hung else ""
    table.write_text(message, encoding="utf-8")
    settings = run_settings(tmp_path, GPUENV_STUB=str(table), LD_LIBRARY_PATH=str(stub_driver.folder))
    settings = replace(settings, kept_awake=(FIRST_GPU.visible,))
    started = time.monotonic()
    results = run_tasks([task("hangs", 1.0), task("passes")], settings).tests
    assert [result.status for result in results] == [TestStatus.TIMED_OUT, TestStatus.PASSED]
    assert time.monotonic() - started < LONG_DEADLINE / 2
    assert calls.read_text(encoding="utf-8").split("\n")[:2] == ["nvml nvmlInit_v2", "nvml nvmlDeviceGetHandleByUUID"]
    assert holders() == []


def burn_in(folder: Path, stub_driver: StubDriver, *lines: str) -> TestResult:
    table = folder / "stub.txt"
    table.write_text("\n".join(["gpu.count=1", f"gpu.0.uuid={FIRST_GPU.uuid}", *lines, ""]), encoding="utf-8")
    settings = run_settings(folder, GPUENV_STUB=str(table), LD_LIBRARY_PATH=str(stub_driver.folder))
    sustained = replace(info("sustained"), name=BURN_IN, group="health")
    (result,) = run_tasks([replace(task("sustained"), test=sustained)], settings).tests
    return result


def test_nvml_is_sampled_while_the_burn_in_runs(tmp_path: Path, stub_driver: StubDriver) -> None:
    readings = ("clock.sm=1200", "clock.reasons=68", "temperature=85", "power.usage=350500", "pcie.replays=7")
    result = burn_in(tmp_path, stub_driver, *(f"gpu.0.{line}" for line in readings))
    measured = {name: (entry.value, entry.unit) for name, entry in result.measured.items() if name != "rate"}
    assert result.status is TestStatus.PASSED
    assert measured == {
        "temperature_most": (85.0, "C"),
        "clock_least": (1200.0, "MHz"),
        "clock_most": (1200.0, "MHz"),
        "power_most": (350.5, "W"),
        "pcie_replays_new": (0.0, "1"),
        "throttled_software-power-cap": (1.0, "1"),
        "throttled_hardware-thermal": (1.0, "1"),
    }


@pytest.mark.parametrize("line", ["nvml.delay.nvmlDeviceGetPowerUsage=forever", "nvml.fault.nvmlInit_v2=9"])
def test_a_burn_in_does_not_wait_for_nvml(tmp_path: Path, stub_driver: StubDriver, line: str) -> None:
    started = time.monotonic()
    assert burn_in(tmp_path, stub_driver, line).status is TestStatus.PASSED
    assert time.monotonic() - started < LONG_DEADLINE / 2


def test_an_uncorrected_memory_error_fails_the_burn_in() -> None:
    passed = result_of(TestStatus.PASSED)
    result = watched_result(passed, [{"ecc_uncorrected": 4, "reasons": 1}, {"ecc_uncorrected": 6, "reasons": 0}])
    assert (result.status, result.cause) == (TestStatus.FAILED, Cause.GPU_HARDWARE_FAULT)
    assert result.detail == "2 uncorrected memory errors during the test"
    assert watched_result(passed, [{"ecc_uncorrected": 4}]).status is TestStatus.PASSED


def test_no_gpu_is_held_without_nvml(tmp_path: Path) -> None:
    results = run_tasks([task("passes")], replace(run_settings(tmp_path), kept_awake=(FIRST_GPU.visible,))).tests
    assert [result.status for result in results] == [TestStatus.PASSED]
    assert holders() == []


def holders() -> list[str]:
    """Command lines of the processes that hold the GPU of these tests."""
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [line.decode() for line in lines if b"hold.py" in line and FIRST_GPU.visible.encode() in line]


INTERRUPTED = """
import os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.smoke.payload_runs import run, task
from tests.support.processes import is_running
results = run(Path(sys.argv[1]), *(task("hangs_with_a_daemon") for _ in range(4)), workers=2)
sys.exit(130 if results.is_interrupted else 0)
"""


def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path) -> None:
    program = INTERRUPTED.format(root=str(Path(__file__).parents[2]))
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while len(list(tmp_path.glob("daemon.*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(list(tmp_path.glob("hangs.*"))) >= 1
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    assert running_processes(tmp_path) == []


def test_a_run_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    """The kernel notifies the supervisor, which cleans up."""
    program = INTERRUPTED.format(root=str(Path(__file__).parents[2]))
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while len(list(tmp_path.glob("hangs.*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait(10)
    assert running_processes(tmp_path) == []


def result_of(status: TestStatus) -> TestResult:
    return TestResult("a.b", "a", None, status, 0.0)


@pytest.mark.parametrize("trouble", [Trouble.NO_TIME, Trouble.INTERRUPTED])
def test_an_unfinished_run_has_not_passed(trouble: Trouble) -> None:
    passed, unfinished = result_of(TestStatus.PASSED), replace(result_of(TestStatus.SKIPPED), trouble=trouble)
    assert overall((passed, unfinished)) is TestStatus.SKIPPED
    assert overall((passed, unfinished, result_of(TestStatus.FAILED))) is TestStatus.FAILED
    assert overall((passed, replace(unfinished, trouble=Trouble.NOT_APPLICABLE))) is TestStatus.PASSED


def test_a_run_that_skipped_every_test_of_one_gpu_has_not_passed() -> None:
    passed = replace(result_of(TestStatus.PASSED), gpu="GPU-1")
    skipped = replace(result_of(TestStatus.SKIPPED), gpu="GPU-2", trouble=Trouble.NOT_APPLICABLE)
    assert overall((passed, skipped)) is TestStatus.SKIPPED
    assert overall((passed, skipped, replace(passed, gpu="GPU-2"))) is TestStatus.PASSED
    assert overall((passed, skipped, replace(passed, gpu="GPU-2", name=HEALTH_STATE))) is TestStatus.SKIPPED


@pytest.mark.parametrize(
    ("tests", "status"),
    [
        ((), "skipped"),
        (("skipped", "skipped"), "skipped"),
        (("skipped", "passed"), "passed"),
        (("passed", "busy"), "busy"),
        (("busy", "skipped"), "busy"),
        (("passed", "busy", "failed"), "failed"),
        (("passed", "crashed"), "failed"),
        (("passed", "timed-out"), "failed"),
    ],
)
def test_the_status_of_a_run_follows_from_its_tests(tests: Sequence[str], status: str) -> None:
    assert overall(tuple(result_of(TestStatus(entry)) for entry in tests)).value == status


def test_the_causes_of_the_payload_are_known_causes() -> None:
    text = (PROGRAM.parents[2] / "gpuenv/smoke/payload/failures.py").read_text(encoding="utf-8")
    causes = {cause.value for cause in Cause if f'"{cause.value}"' in text}
    assert causes >= {"gpu-busy", "out-of-memory", "illegal-memory-access", "compute-mode-exclusive", "no-kernel-image"}
