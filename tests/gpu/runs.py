"""Runs of gpuenv on the GPU, each added to one record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TARGET = os.environ.get("GPUENV_TEST_PYTHON", sys.executable)
STARTED = time.monotonic()  # at collection, before the first test
RECORD: dict[str, Any] = {"seconds": {}, "runs": {}, "examples": {}, "rates": {}}
STARTED_LEVELS: set[str] = set()
LIMIT = 420  # seconds for one command
TOTAL_LIMIT = 8 * 60  # seconds for all commands
END = 9.5 * 60  # seconds after which no command is awaited, so that the record is printed


def gpuenv(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuenv", *arguments, "--python", TARGET]
    environment = {**os.environ, **variables}
    seconds = min(LIMIT, END - (time.monotonic() - STARTED))
    assert seconds > 0, "the time for all tests is used up"
    process = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=environment)
    assert "Traceback" not in process.stderr, process.stderr
    return process


def smoke(label: str, *arguments: str, **variables: str) -> dict[str, Any]:
    """One run, added to the record under its label."""
    process = gpuenv("smoke", *arguments, "--format", "json", "--no-redact", **variables)
    assert process.stdout, process.stderr
    result: dict[str, Any] = json.loads(process.stdout)
    RECORD["runs"][label] = result
    assert result["exit_code"] == process.returncode
    return result


def level(name: str) -> dict[str, Any]:
    """The run of a level, started once; the quick one after another run has filled the kernel cache."""
    if name not in STARTED_LEVELS:
        STARTED_LEVELS.add(name)
        smoke(name, "--level", name)
    assert name in RECORD["runs"], f"the {name} level has no result"
    result: dict[str, Any] = RECORD["runs"][name]
    return result


def within_budget(name: str) -> dict[str, Any]:
    """The run of a level, repeated if it was slow: kernels may have to be compiled, or files read, for the first time.

    The repeated run must pass.
    """
    result = level(name)
    if result["duration"] > result["budget"]:
        result = smoke(f"{name}, once more", "--level", name)
        assert result["status"] == "passed", details(result)
    assert result["duration"] <= result["budget"], slowest(result)
    return result


def slowest(result: dict[str, Any]) -> list[str]:
    """The eight tests that took longest."""
    tests = sorted(result["tests"], key=lambda test: -float(test["duration"]))
    return [f"{test['name']}: {test['duration']:.1f} s, its work {test['work'] or 0.0:.1f} s" for test in tests[:8]]


def details(result: dict[str, Any]) -> list[str]:
    return [f"{test['name']}: {test['status']}: {test['detail']}" for test in result["tests"] if test["detail"]]


def write_record() -> None:
    """Write the record so far to one file."""
    path = Path(os.environ.get("OUT") or ".") / "smoke-gpu.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(RECORD, indent=1), encoding="utf-8")
    part.replace(path)
