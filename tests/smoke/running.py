"""Runs of the payload of habits, each test of it a real process."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from gpuenv.model.smoke import TestResult
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.smoke.device_selection import Device
from gpuenv.smoke.runner import RunResults, RunSettings, run_tasks
from gpuenv.smoke.tasks import Task, TestInfo
from tests.support.processes import is_running

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
    return Task(info(habit, alone=alone), {"n": 3}, (device,), 42, 0, deadline, SmokeLevel.QUICK)


def setting(folder: Path, at_once: int = 1, **variables: str) -> RunSettings:
    environment = {"PATH": os.defpath, "HABITS_FOLDER": str(folder), **variables}
    return RunSettings(sys.executable, environment, str(folder), at_once, None, PROGRAM)


def run(folder: Path, *tasks: Task, at_once: int = 1) -> RunResults:
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
