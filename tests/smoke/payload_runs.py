"""Runs of the misbehaving payload, each test in a real process."""

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

PROGRAM = Path(__file__).with_name("misbehaving_payload.py")
LONG_DEADLINE = 30.0  # seconds; a deadline that no test may reach
SHORT_DEADLINE = 1.5
DEADLINE_TOLERANCE = 0.5  # seconds by which a deadline may be missed
FIRST_GPU = Device("GPU-11111111-1111-1111-1111-111111111111", "GPU-11111111-1111-1111-1111-111111111111", "First")
SECOND_GPU = Device("GPU-22222222-2222-2222-2222-222222222222", "GPU-22222222-2222-2222-2222-222222222222", "Second")


def info(behaviour: str, *, alone: bool = False) -> TestInfo:
    return TestInfo(
        f"behaviours.{behaviour}",
        "behaviours",
        behaviour,
        {"quick": {"n": 3}},
        (),
        "none",
        ("quick",) if alone else (),
        {},
    )


def task(behaviour: str, deadline: float = LONG_DEADLINE, device: Device = FIRST_GPU, *, alone: bool = False) -> Task:
    return Task(info(behaviour, alone=alone), {"n": 3}, (device,), 42, 0, deadline, SmokeLevel.QUICK)


def run_settings(folder: Path, workers: int = 1, **variables: str) -> RunSettings:
    environment = {"PATH": os.defpath, "BEHAVIOUR_FOLDER": str(folder), **variables}
    return RunSettings(sys.executable, environment, str(folder), workers, None, PROGRAM)


def run(folder: Path, *tasks: Task, workers: int = 1) -> RunResults:
    return run_tasks(tasks, run_settings(folder, workers))


def run_single(folder: Path, behaviour: str, deadline: float = LONG_DEADLINE) -> TestResult:
    (result,) = run(folder, task(behaviour, deadline)).tests
    return result


def running_processes(folder: Path) -> list[str]:
    """Processes that left their id in the folder and still run."""
    deadline = time.monotonic() + 1.0
    markers = [path for path in folder.iterdir() if path.suffix[1:].isdigit()]
    while time.monotonic() < deadline and any(is_running(int(path.suffix[1:])) for path in markers):
        time.sleep(0.02)
    return [path.name for path in markers if is_running(int(path.suffix[1:]))]
