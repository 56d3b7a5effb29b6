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
from gpuenv.model.smoke import Level, Quantity, TestResult, TestStatus, Trouble, overall
from gpuenv.smoke.catalogue import TestInfo
from gpuenv.smoke.devices import Device
from gpuenv.smoke.plan import Task
from gpuenv.smoke.run import Outcome, Setting, census, run_tasks
from tests.support.processes import is_running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuenv.simulate.build import StubDriver

PROGRAM = Path(__file__).with_name("habits.py")
LONG = 30.0  # a deadline that no test may wait for
SHORT = 1.5
OVER = 0.5  # by as much a deadline may be missed
FIRST = Device("GPU-11111111-1111-1111-1111-111111111111", "GPU-11111111-1111-1111-1111-111111111111", "First")
SECOND = Device("GPU-22222222-2222-2222-2222-222222222222", "GPU-22222222-2222-2222-2222-222222222222", "Second")


def info(habit: str, *, alone: bool = False) -> TestInfo:
    return TestInfo(
        f"habits.{habit}", "habits", habit, {"quick": {"n": 3}}, (), "none", ("quick",) if alone else (), {}
    )


def task(habit: str, deadline: float = LONG, device: Device = FIRST, *, alone: bool = False) -> Task:
    return Task(info(habit, alone=alone), {"n": 3}, (device,), 42, 0, deadline, Level.QUICK)


def setting(folder: Path, at_once: int = 1, **variables: str) -> Setting:
    environment = {"PATH": os.defpath, "HABITS_FOLDER": str(folder), **variables}
    return Setting(sys.executable, environment, str(folder), at_once, None, PROGRAM)


def run(folder: Path, *tasks: Task, at_once: int = 1) -> Outcome:
    return run_tasks(tasks, setting(folder, at_once))


def one(folder: Path, habit: str, deadline: float = LONG) -> TestResult:
    (result,) = run(folder, task(habit, deadline)).tests
    return result


def left(folder: Path) -> list[str]:
    """What still runs of all that left its process id."""
    until = time.monotonic() + 1.0
    noted = [path for path in folder.iterdir() if path.suffix[1:].isdigit()]
    while time.monotonic() < until and any(is_running(int(path.suffix[1:])) for path in noted):
        time.sleep(0.02)
    return [path.name for path in noted if is_running(int(path.suffix[1:]))]


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
        ("segfaults", "crashed", "signal", None, "ended by SIGSEGV, while it worked on the GPU's answers"),
        ("aborts_after_the_verdict", "crashed", "signal", None, "ended by SIGABRT"),
        ("exits_early", "crashed", "ended-early", None, "exit code 3 before its verdict"),
        ("exits_early_with_success", "crashed", "ended-early", None, "exit code 0 before its verdict"),
        ("says_nothing_of_sense", "crashed", "ended-early", None, "exit code 0 before its verdict"),
        ("closes_its_channel", "crashed", "ended-early", None, "exit code 0 before its verdict"),
        ("deadline_code", "crashed", "ended-early", None, "exit code 124 before its verdict"),
        ("kills_its_group", "crashed", "signal", None, "ended by SIGKILL"),
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
    assert "while it worked on the GPU's answers" in (one(tmp_path, "hangs", SHORT).detail or "")


def test_the_last_words_of_one_that_ends_early_are_told(tmp_path: Path) -> None:
    assert (one(tmp_path, "exits_early").detail or "").endswith(": something is wrong")


def test_an_interpreter_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    missing = str(tmp_path / "python")
    other = Setting(missing, {"PATH": os.defpath}, str(tmp_path), program=PROGRAM)
    (result,) = run_tasks([task("passes")], other).tests
    assert (result.status, result.trouble) == (TestStatus.CRASHED, Trouble.ENDED_EARLY)
    assert result.detail == f"could not be started: {missing}: No such file or directory"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("exec sleep 30", "nothing (no answer within 1 s)"),
        ("echo out of paper >&2; exit 3", "nothing (ended with exit code 3: out of paper)"),
        ("kill -SEGV $$", "nothing (ended by SIGSEGV)"),
    ],
)
def test_why_cupy_does_not_tell_its_devices_is_told(tmp_path: Path, program: str, words: str) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    interpreter.chmod(0o755)
    counted = census(Setting(str(interpreter), {"PATH": os.defpath}, str(tmp_path)), 1.0)
    assert (counted.devices, counted.error) == ((), words)


def test_one_that_fails_or_crashes_does_not_touch_the_next(tmp_path: Path) -> None:
    habits = ("passes", "loses_context", "passes", "segfaults", "passes", "exits_early", "passes")
    found = run(tmp_path, *(task(habit) for habit in habits)).tests
    assert [result.title for result in found] == list(habits), "in the order of the plan"
    assert [result.status for result in found if result.title == "passes"] == [TestStatus.PASSED] * 4


def test_a_gpu_that_does_not_answer_is_given_up_and_another_is_not(tmp_path: Path) -> None:
    tasks = [task("hangs", 1.0, FIRST), task("passes", LONG, SECOND), task("hangs", 1.0, FIRST)]
    tasks += [task("passes", LONG, FIRST), task("passes", LONG, SECOND), task("passes", LONG, FIRST)]
    found = run(tmp_path, *tasks).tests
    assert [result.status.value for result in found if result.gpu == SECOND.uuid] == ["passed", "passed"]
    first = [result for result in found if result.gpu == FIRST.uuid]
    assert [result.status.value for result in first] == ["timed-out", "timed-out", "skipped", "skipped"]
    assert {result.trouble for result in first[2:]} == {Trouble.GIVEN_UP}
    assert "2 tests in a row" in (first[2].detail or "")


def test_one_answer_in_between_and_the_gpu_is_asked_again(tmp_path: Path) -> None:
    tasks = [task("hangs", 1.0), task("passes"), task("hangs", 1.0), task("passes")]
    assert [result.status.value for result in run(tmp_path, *tasks).tests] == [
        "timed-out", "passed", "timed-out", "passed",
    ]  # fmt: skip


def test_a_driver_that_stops_answering_ends_the_run_in_bounded_time(tmp_path: Path) -> None:
    started = time.monotonic()
    found = run(tmp_path, *(task("hangs", 1.0) for _ in range(40)), at_once=2).tests
    assert time.monotonic() - started < 15
    assert sum(result.status is TestStatus.TIMED_OUT for result in found) <= 4
    assert left(tmp_path) == []


def test_when_the_time_of_the_run_is_over_nothing_is_blamed_on_the_gpu(tmp_path: Path) -> None:
    """The first is cut off, the others are not started; silence through all of a test's own time is another thing."""
    started = time.monotonic()
    hurried = replace(setting(tmp_path), until=started + 2.0)
    found = run_tasks([task("hangs"), task("passes"), replace(task("passes"), repeat=1)], hurried).tests
    assert time.monotonic() - started < 2.0 + 2 * OVER
    assert [(result.status, result.trouble) for result in found] == [(TestStatus.SKIPPED, Trouble.NO_TIME)] * 3
    assert (found[0].detail or "").startswith("cut off after ")
    assert "not started" in (found[1].detail or "")
    assert [result.repeat for result in found] == [0, 0, 1]
    assert left(tmp_path) == []
    (blamed,) = run_tasks([task("hangs", 1.0)], replace(setting(tmp_path), until=time.monotonic() + LONG)).tests
    assert (blamed.status, blamed.trouble) == (TestStatus.TIMED_OUT, Trouble.DEADLINE)


def test_tests_run_side_by_side_and_some_alone_after_them(tmp_path: Path) -> None:
    tasks = [task("passes", alone=True), *(task("passes") for _ in range(4)), task("passes", alone=True)]
    order: list[bool] = []
    run_tasks(tasks, setting(tmp_path, 4), lambda _, done, total: order.append(done == total))
    assert order == [False] * 5 + [True]


def test_what_may_take_longest_is_started_first(tmp_path: Path) -> None:
    """Nobody waits at the end for one that was the last to start; the results keep the order of the plan."""
    short, middle, long = task("passes"), task("where_it_runs"), task("floods")
    middle = replace(middle, test=replace(middle.test, seconds={"normal": 120}))
    long = replace(long, test=replace(long.test, seconds={"deep": 900}))
    order: list[str] = []
    found = run_tasks([short, middle, long], setting(tmp_path), lambda result, *_: order.append(result.name)).tests
    assert order == [long.test.name, middle.test.name, short.test.name]
    assert [result.name for result in found] == [short.test.name, middle.test.name, long.test.name]


def test_what_lacked_room_beside_others_is_asked_again_alone(tmp_path: Path) -> None:
    beside = run(tmp_path, task("busy_at_first"), task("passes"), at_once=2).tests
    assert [result.status for result in beside] == [TestStatus.PASSED] * 2
    (tmp_path / "asked").unlink()
    alone = run(tmp_path, task("busy_at_first")).tests
    assert alone[0].status is TestStatus.BUSY
    (tmp_path / "asked").unlink()
    only = run(tmp_path, task("busy_at_first"), at_once=2).tests
    assert only[0].status is TestStatus.BUSY, "there was nothing beside it"
    (tmp_path / "asked").unlink()
    planted = replace(setting(tmp_path, 2), fault="pool-limit")
    assert run_tasks([task("busy_at_first"), task("passes")], planted).tests[0].status is TestStatus.BUSY


def test_a_gpu_that_only_some_tests_are_shown_is_lost_and_not_left_out(tmp_path: Path) -> None:
    """One that is listed and does not start, or has gone meanwhile: a run that passes without it proves too much."""
    first, second = run(tmp_path, task("passes"), task("sees_no_gpu", device=SECOND)).tests
    assert first.status is TestStatus.PASSED
    assert (second.status, second.trouble, second.gpu) == (TestStatus.FAILED, Trouble.NO_DEVICE, SECOND.uuid)
    assert second.cause is Cause.CUDA_INITIALIZATION_FAILED
    assert second.detail == "CUDA shows this program no GPU; other tests of this run were shown one"
    nowhere = run(tmp_path, task("sees_no_gpu"), task("sees_no_gpu", device=SECOND), task("skips")).tests
    assert {result.status for result in nowhere} == {TestStatus.SKIPPED}, "the doctor knows why"


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
from tests.smoke.test_run import run, task
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
    text = (PROGRAM.parents[2] / "gpuenv/smoke/payload/troubles.py").read_text(encoding="utf-8")
    named = {cause.value for cause in Cause if f'"{cause.value}"' in text}
    assert named >= {"gpu-busy", "out-of-memory", "illegal-memory-access", "compute-mode-exclusive", "no-kernel-image"}
