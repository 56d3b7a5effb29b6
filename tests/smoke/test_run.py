"""The runner against payloads of every habit, each a real process: states told apart, deadlines kept, nothing left."""

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
from gpuenv.model.smoke import Quantity, TestResult, TestStatus, Trouble, overall
from gpuenv.smoke.runner import RunSettings, list_devices, run_tasks
from tests.smoke.running import FIRST, LONG, OVER, PROGRAM, SHORT, left, one, run, setting, task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuenv.simulate.stub_driver import StubDriver


def test_a_test_that_passes(tmp_path: Path) -> None:
    outcome = run(tmp_path, task("passes"))
    (result,) = outcome.tests
    assert (result.status, result.trouble, result.detail) == (TestStatus.PASSED, None, None)
    assert result.measured == {"rate": Quantity(2.5e9, "B/s")}
    assert (result.work, result.seed, result.gpu) == (0.25, 42, FIRST.uuid)
    assert 0 < result.duration < LONG
    assert outcome.versions == {"cupy": "99.0", "numpy": "99.1"}


@pytest.mark.parametrize(
    ("habit", "status", "trouble", "cause", "words"),
    [
        ("fails", "failed", "wrong-answer", None, "1 of 4 wrong"),
        ("busy", "busy", "memory-held-by-others", "gpu-busy", "others hold"),
        ("skips", "skipped", "not-applicable", None, "needs more"),
        ("loses_context", "crashed", "context-lost", "illegal-memory-access", "context is lost"),
        ("segfaults", "crashed", "signal", None, "ended by SIGSEGV while computing the GPU's answers"),
        ("aborts_after_the_verdict", "crashed", "signal", None, "ended by SIGABRT"),
        ("exits_early", "crashed", "ended-early", None, "exit code 3 before its verdict"),
        ("exits_early_with_success", "crashed", "ended-early", None, "exit code 0 before its verdict"),
        ("says_nothing_of_sense", "crashed", "ended-early", None, "exit code 0 before its verdict"),
        ("closes_its_channel", "crashed", "ended-early", None, "exit code 0 before its verdict"),
        ("deadline_code", "crashed", "ended-early", None, "exit code 124 before its verdict"),
        ("kills_its_group", "crashed", "killed", None, "ended by SIGKILL"),
        ("prints_rubbish", "passed", None, None, None),
        ("floods", "passed", None, None, None),
        ("leaves_a_grandchild", "passed", None, None, None),
        ("leaves_a_daemon", "passed", None, None, None),
    ],
)
def test_every_ending_is_told_apart(
    tmp_path: Path, habit: str, status: str, trouble: str | None, cause: str | None, words: str | None
) -> None:
    result = one(tmp_path, habit)
    assert result.status.value == status, result
    assert (result.trouble and result.trouble.value) == trouble
    assert (result.cause and result.cause.value) == cause
    assert (words or "") in (result.detail or "")
    assert result.duration < LONG / 2
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    "habit", ["hangs", "hangs_at_the_end", "forks_and_hangs", "hangs_with_a_daemon", "floods_without_end"]
)
def test_a_deadline_is_kept_and_everything_is_ended_with_it(tmp_path: Path, habit: str) -> None:
    results = []
    for _ in range(3):  # a machine that is loaded by others may be late once
        results.append(one(tmp_path, habit, SHORT))
        if results[-1].duration <= SHORT + OVER:
            break
    assert {(result.status, result.trouble) for result in results} == {(TestStatus.TIMED_OUT, Trouble.DEADLINE)}
    assert "no answer within 1.5 s" in (results[0].detail or "")
    assert SHORT <= results[-1].duration <= SHORT + OVER
    assert left(tmp_path) == []


def test_what_it_was_doing_when_its_time_was_over_is_told(tmp_path: Path) -> None:
    assert "while computing the GPU's answers" in (one(tmp_path, "hangs", SHORT).detail or "")


def test_the_last_words_of_one_that_ends_early_are_told(tmp_path: Path) -> None:
    assert (one(tmp_path, "exits_early").detail or "").endswith(": something is wrong")


def test_an_interpreter_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    missing = str(tmp_path / "python")
    other = RunSettings(missing, {"PATH": os.defpath}, str(tmp_path), program=PROGRAM)
    (result,) = run_tasks([task("passes")], other).tests
    assert (result.status, result.trouble) == (TestStatus.CRASHED, Trouble.ENDED_EARLY)
    assert result.detail == f"could not be started: {missing}: No such file or directory"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("exec sleep 30", "no device list (no answer within 1 s)"),
        ("echo out of paper >&2; exit 3", "no device list (ended with exit code 3: out of paper)"),
        ("kill -SEGV $$", "no device list (ended by SIGSEGV)"),
    ],
)
def test_why_cupy_does_not_tell_its_devices_is_told(tmp_path: Path, program: str, words: str) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    interpreter.chmod(0o755)
    found = list_devices(RunSettings(str(interpreter), {"PATH": os.defpath}, str(tmp_path)), 1.0)
    assert found == ((), words)


def test_a_child_runs_in_an_empty_folder_and_sees_its_one_gpu(tmp_path: Path) -> None:
    result = one(tmp_path, "where_it_runs")
    seen = json.loads(result.detail or "")
    assert seen["entries"] == []
    assert seen["folder"] != str(tmp_path)
    assert seen["visible"] == FIRST.uuid
    order = {"level": "quick", "seed": 42, "size": {"n": 3}, "fault": None, "uuid": FIRST.uuid}
    assert seen["order"] == {**order, "folder": seen["folder"]}, "what it writes is to lie there"


@pytest.mark.parametrize("hung", [False, True], ids=["sound", "hung"])
def test_a_gpu_is_held_while_tests_run(tmp_path: Path, stub_driver: StubDriver, *, hung: bool) -> None:
    """Else the driver would take it down whenever the last test has ended, and the next one wait."""
    calls, table = tmp_path / "calls", tmp_path / "stub.txt"
    words = f"gpu.count=1\ngpu.0.uuid={FIRST.uuid}\ncalls={calls}\n"
    words += "nvml.delay.nvmlDeviceGetHandleByUUID=forever\n" if hung else ""
    table.write_text(words, encoding="utf-8")
    awake = setting(tmp_path, GPUENV_STUB=str(table), LD_LIBRARY_PATH=str(stub_driver.folder))
    awake = replace(awake, kept_awake=(FIRST.visible,))
    began = time.monotonic()
    found = run_tasks([task("hangs", 1.0), task("passes")], awake).tests
    assert [result.status for result in found] == [TestStatus.TIMED_OUT, TestStatus.PASSED]
    assert time.monotonic() - began < LONG / 2
    assert calls.read_text(encoding="utf-8").split("\n")[:2] == ["nvml nvmlInit_v2", "nvml nvmlDeviceGetHandleByUUID"]
    assert holders() == []


def test_nothing_is_held_where_there_is_no_nvml(tmp_path: Path) -> None:
    found = run_tasks([task("passes")], replace(setting(tmp_path), kept_awake=(FIRST.visible,))).tests
    assert [result.status for result in found] == [TestStatus.PASSED]
    assert holders() == []


def holders() -> list[str]:
    """Processes that hold the GPU of these tests."""
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [line.decode() for line in lines if b"hold.py" in line and FIRST.visible.encode() in line]


INTERRUPTED = """
import os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.smoke.running import run, task
from tests.support.processes import is_running
run(Path(sys.argv[1]), *(task("hangs_with_a_daemon") for _ in range(4)), at_once=2)
"""


def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path) -> None:
    program = INTERRUPTED.format(root=str(Path(__file__).parents[2]))
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while len(list(tmp_path.glob("daemon.*"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert len(list(tmp_path.glob("hangs.*"))) >= 1
    process.send_signal(signal.SIGINT)
    assert process.wait(10) != 0
    assert left(tmp_path) == []


def test_a_run_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    """Nobody is there to clean up: the kernel tells the supervisor."""
    program = INTERRUPTED.format(root=str(Path(__file__).parents[2]))
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while len(list(tmp_path.glob("hangs.*"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.wait(10)
    assert left(tmp_path) == []


def result_of(status: TestStatus) -> TestResult:
    return TestResult("a.b", "a", None, status, 0.0)


@pytest.mark.parametrize("trouble", [Trouble.NO_TIME, Trouble.INTERRUPTED])
def test_a_run_of_which_a_part_was_not_tried_has_not_passed(trouble: Trouble) -> None:
    passed, wanting = result_of(TestStatus.PASSED), replace(result_of(TestStatus.SKIPPED), trouble=trouble)
    assert overall((passed, wanting)) is TestStatus.SKIPPED
    assert overall((passed, wanting, result_of(TestStatus.FAILED))) is TestStatus.FAILED
    assert overall((passed, replace(wanting, trouble=Trouble.NOT_APPLICABLE))) is TestStatus.PASSED


@pytest.mark.parametrize(
    ("found", "whole"),
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
def test_what_a_run_comes_to(found: Sequence[str], whole: str) -> None:
    assert overall(tuple(result_of(TestStatus(status)) for status in found)).value == whole


def test_every_cause_that_the_payload_names_is_a_cause() -> None:
    text = (PROGRAM.parents[2] / "gpuenv/smoke/payload/failures.py").read_text(encoding="utf-8")
    named = {cause.value for cause in Cause if f'"{cause.value}"' in text}
    assert named >= {"gpu-busy", "out-of-memory", "illegal-memory-access", "compute-mode-exclusive", "no-kernel-image"}
