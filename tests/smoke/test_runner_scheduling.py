"""Several tests in one run: isolation, order, retries and the end of the run."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from gpuenv.model.causes import Cause
from gpuenv.model.smoke import TestResult, TestStatus, Trouble
from gpuenv.smoke.runner import run_tasks
from tests.smoke.payload_runs import (
    DEADLINE_TOLERANCE,
    FIRST_GPU,
    LONG_DEADLINE,
    SECOND_GPU,
    run,
    run_settings,
    running_processes,
    task,
)


def test_a_failed_or_crashed_test_does_not_affect_the_next(tmp_path: Path) -> None:
    behaviours = ("passes", "loses_context", "passes", "segfaults", "passes", "exits_early", "passes")
    results = run(tmp_path, *(task(habit) for habit in behaviours)).tests
    assert [result.title for result in results] == list(behaviours), "in the order of the plan"
    assert [result.status for result in results if result.title == "passes"] == [TestStatus.PASSED] * 4


def test_only_the_unresponsive_gpu_is_given_up(tmp_path: Path) -> None:
    tasks = [task("hangs", 1.0, FIRST_GPU), task("passes", LONG_DEADLINE, SECOND_GPU), task("hangs", 1.0, FIRST_GPU)]
    tasks += [
        task("passes", LONG_DEADLINE, FIRST_GPU),
        task("passes", LONG_DEADLINE, SECOND_GPU),
        task("passes", LONG_DEADLINE, FIRST_GPU),
    ]
    results = run(tmp_path, *tasks).tests
    assert [result.status.value for result in results if result.gpu == SECOND_GPU.uuid] == ["passed", "passed"]
    first = [result for result in results if result.gpu == FIRST_GPU.uuid]
    assert [result.status.value for result in first] == ["timed-out", "timed-out", "skipped", "skipped"]
    assert {result.trouble for result in first[2:]} == {Trouble.GIVEN_UP}
    assert "2 tests in a row" in (first[2].detail or "")


def test_a_gpu_with_one_answer_between_two_timeouts_is_not_given_up(tmp_path: Path) -> None:
    tasks = [task("hangs", 1.0), task("passes"), task("hangs", 1.0), task("passes")]
    assert [result.status.value for result in run(tmp_path, *tasks).tests] == [
        "timed-out", "passed", "timed-out", "passed",
    ]  # fmt: skip


def test_results_from_before_an_interruption_are_kept(tmp_path: Path) -> None:
    tasks = [task("passes"), task("fails"), task("hangs"), task("passes", alone=True)]
    finished: list[str] = []

    def interrupt_after_two(result: TestResult, _done: int, _total: int) -> None:
        finished.append(result.title)
        if len(finished) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    outcome = run_tasks(tasks, run_settings(tmp_path, 2), interrupt_after_two)
    assert outcome.is_interrupted
    assert sorted(finished) == ["fails", "passes"], "stopped tests are not reported one by one"
    assert [(test.title, test.status, test.trouble) for test in outcome.tests] == [
        ("passes", TestStatus.PASSED, None),
        ("fails", TestStatus.FAILED, Trouble.WRONG_ANSWER),
        ("hangs", TestStatus.SKIPPED, Trouble.INTERRUPTED),
        ("passes", TestStatus.SKIPPED, Trouble.INTERRUPTED),
    ]
    assert outcome.versions == {"cupy": "99.0", "numpy": "99.1"}
    assert running_processes(tmp_path) == []


def test_an_unresponsive_driver_ends_the_run_in_bounded_time(tmp_path: Path) -> None:
    started = time.monotonic()
    results = run(tmp_path, *(task("hangs", 1.0) for _ in range(40)), workers=2).tests
    assert time.monotonic() - started < 15
    assert sum(result.status is TestStatus.TIMED_OUT for result in results) <= 4
    assert running_processes(tmp_path) == []


def test_a_test_cut_off_by_the_deadline_of_the_run_is_skipped(tmp_path: Path) -> None:
    """The first is stopped, the others are not started; a test that uses up its own deadline has timed out."""
    started = time.monotonic()
    settings = replace(run_settings(tmp_path), until=started + 2.0)
    results = run_tasks([task("hangs"), task("passes"), replace(task("passes"), repeat=1)], settings).tests
    assert time.monotonic() - started < 2.0 + 2 * DEADLINE_TOLERANCE
    assert [(result.status, result.trouble) for result in results] == [(TestStatus.SKIPPED, Trouble.NO_TIME)] * 3
    assert (results[0].detail or "").startswith("stopped after ")
    assert "not started" in (results[1].detail or "")
    assert [result.repeat for result in results] == [0, 0, 1]
    assert running_processes(tmp_path) == []
    (timed_out,) = run_tasks(
        [task("hangs", 1.0)], replace(run_settings(tmp_path), until=time.monotonic() + LONG_DEADLINE)
    ).tests
    assert (timed_out.status, timed_out.trouble) == (TestStatus.TIMED_OUT, Trouble.DEADLINE)


def test_parallel_tests_run_first_and_the_others_alone(tmp_path: Path) -> None:
    tasks = [task("passes", alone=True), *(task("passes") for _ in range(4)), task("passes", alone=True)]
    order: list[bool] = []
    run_tasks(tasks, run_settings(tmp_path, 4), lambda _, done, total: order.append(done == total))
    assert order == [False] * 5 + [True]


def test_the_tests_with_the_longest_deadline_start_first(tmp_path: Path) -> None:
    """The results keep the order of the plan."""
    short, middle, long = task("passes"), task("reports_its_environment"), task("floods")
    middle = replace(middle, test=replace(middle.test, seconds={"normal": 120}))
    long = replace(long, test=replace(long.test, seconds={"deep": 900}))
    order: list[str] = []
    results = run_tasks(
        [short, middle, long], run_settings(tmp_path), lambda result, *_: order.append(result.name)
    ).tests
    assert order == [long.test.name, middle.test.name, short.test.name]
    assert [result.name for result in results] == [short.test.name, middle.test.name, long.test.name]


def test_a_test_without_gpu_memory_runs_again_alone(tmp_path: Path) -> None:
    together = run(tmp_path, task("busy_once"), task("passes"), workers=2).tests
    assert [result.status for result in together] == [TestStatus.PASSED] * 2
    (tmp_path / "first-run").unlink()
    alone = run(tmp_path, task("busy_once")).tests
    assert alone[0].status is TestStatus.BUSY
    (tmp_path / "first-run").unlink()
    only = run(tmp_path, task("busy_once"), workers=2).tests
    assert only[0].status is TestStatus.BUSY, "it was the only test"
    (tmp_path / "first-run").unlink()
    injected = replace(run_settings(tmp_path, 2), fault="pool-limit")
    assert run_tasks([task("busy_once"), task("passes")], injected).tests[0].status is TestStatus.BUSY


def test_a_killed_test_runs_again_alone(tmp_path: Path) -> None:
    """A dozen processes with CUDA may exceed the memory of a container, through no fault of the GPU."""
    together = run(tmp_path, task("killed_once"), task("passes"), workers=2).tests
    assert [result.status for result in together] == [TestStatus.PASSED] * 2
    (tmp_path / "first-run").unlink()
    alone = run(tmp_path, task("killed_once")).tests[0]
    assert (alone.status, alone.trouble) == (TestStatus.CRASHED, Trouble.KILLED)
    assert "memory of the host or the container" in (alone.detail or "")
    crashed = run(tmp_path, task("segfaults"), task("passes"), workers=2).tests[0]
    assert crashed.trouble is Trouble.SIGNAL
    assert "memory" not in (crashed.detail or ""), "a crash is not repeated"


def test_a_test_without_host_memory_runs_again_alone(tmp_path: Path) -> None:
    """A dozen processes with CUDA leave little memory in a container; a single one has enough."""
    together = run(tmp_path, task("short_of_host_memory_once"), task("passes"), workers=2).tests
    assert [result.status for result in together] == [TestStatus.PASSED] * 2
    (tmp_path / "first-run").unlink()
    alone = run(tmp_path, task("short_of_host_memory_once")).tests[0]
    assert (alone.status, alone.trouble) == (TestStatus.SKIPPED, Trouble.HOST_MEMORY)


def test_a_gpu_that_only_some_tests_see_is_a_failure(tmp_path: Path) -> None:
    """A listed GPU that does not start, or is lost during the run, must not be left out of the verdict."""
    first, second = run(tmp_path, task("passes"), task("sees_no_gpu", device=SECOND_GPU)).tests
    assert first.status is TestStatus.PASSED
    assert (second.status, second.trouble, second.gpu) == (TestStatus.FAILED, Trouble.NO_DEVICE, SECOND_GPU.uuid)
    assert second.cause is Cause.CUDA_INITIALIZATION_FAILED
    assert second.detail == "CUDA finds no GPU; other tests of this run had one"
    without_gpu = run(tmp_path, task("sees_no_gpu"), task("sees_no_gpu", device=SECOND_GPU), task("skips")).tests
    assert {result.status for result in without_gpu} == {TestStatus.SKIPPED}, "the doctor gives the reason"
