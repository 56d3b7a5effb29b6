"""Several tests in one run: what one does to the others, in which order they start, and when it is over."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.smoke import TestResult, TestStatus, Trouble
from gpuenv.smoke.runner import RunInterrupted, run_tasks
from tests.smoke.running import FIRST, LONG, OVER, SECOND, left, run, setting, task


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


def test_what_was_found_before_an_interruption_is_kept(tmp_path: Path) -> None:
    tasks = [task("passes"), task("fails"), task("hangs"), task("passes", alone=True)]
    found: list[str] = []

    def interrupt_after_two(result: TestResult, _done: int, _total: int) -> None:
        found.append(result.title)
        if len(found) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(RunInterrupted) as stop:
        run_tasks(tasks, setting(tmp_path, 2), interrupt_after_two)
    assert sorted(found) == ["fails", "passes"], "what was ended has no result of its own"
    tests = stop.value.outcome.tests
    assert [(test.title, test.status, test.trouble) for test in tests] == [
        ("passes", TestStatus.PASSED, None),
        ("fails", TestStatus.FAILED, Trouble.WRONG_ANSWER),
        ("hangs", TestStatus.SKIPPED, Trouble.INTERRUPTED),
        ("passes", TestStatus.SKIPPED, Trouble.INTERRUPTED),
    ]
    assert stop.value.outcome.versions == {"cupy": "99.0", "numpy": "99.1"}
    assert left(tmp_path) == []


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
    assert (found[0].detail or "").startswith("stopped after ")
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


def test_what_was_killed_beside_others_is_asked_again_alone(tmp_path: Path) -> None:
    """A dozen processes with CUDA take more than many a container may have; the GPU has no part in it."""
    beside = run(tmp_path, task("killed_at_first"), task("passes"), at_once=2).tests
    assert [result.status for result in beside] == [TestStatus.PASSED] * 2
    (tmp_path / "asked").unlink()
    alone = run(tmp_path, task("killed_at_first")).tests[0]
    assert (alone.status, alone.trouble) == (TestStatus.CRASHED, Trouble.KILLED)
    assert "memory of the host or the container" in (alone.detail or "")
    crashed = run(tmp_path, task("segfaults"), task("passes"), at_once=2).tests[0]
    assert crashed.trouble is Trouble.SIGNAL
    assert "memory" not in (crashed.detail or ""), "what crashes by itself has done so, and is not asked again"


def test_what_lacked_the_host_s_memory_beside_others_is_asked_again_alone(tmp_path: Path) -> None:
    """A dozen programs that have loaded CUDA leave little of a container's; each alone has enough."""
    beside = run(tmp_path, task("crowded_at_first"), task("passes"), at_once=2).tests
    assert [result.status for result in beside] == [TestStatus.PASSED] * 2
    (tmp_path / "asked").unlink()
    alone = run(tmp_path, task("crowded_at_first")).tests[0]
    assert (alone.status, alone.trouble) == (TestStatus.SKIPPED, Trouble.HOST_MEMORY)


def test_a_gpu_that_only_some_tests_are_shown_is_lost_and_not_left_out(tmp_path: Path) -> None:
    """One that is listed and does not start, or has gone meanwhile: a run that passes without it proves too much."""
    first, second = run(tmp_path, task("passes"), task("sees_no_gpu", device=SECOND)).tests
    assert first.status is TestStatus.PASSED
    assert (second.status, second.trouble, second.gpu) == (TestStatus.FAILED, Trouble.NO_DEVICE, SECOND.uuid)
    assert second.cause is Cause.CUDA_INITIALIZATION_FAILED
    assert second.detail == "CUDA finds no GPU; other tests of this run had one"
    nowhere = run(tmp_path, task("sees_no_gpu"), task("sees_no_gpu", device=SECOND), task("skips")).tests
    assert {result.status for result in nowhere} == {TestStatus.SKIPPED}, "the doctor knows why"
