"""Runs of gpuenv on the GPU, each kept for the record of all that was seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TARGET = os.environ.get("GPUENV_TEST_PYTHON", sys.executable)
STARTED = time.monotonic()  # files are collected before the first test of all
RECORD: dict[str, Any] = {"seconds": {}, "runs": {}, "examples": {}, "rates": {}}
TRIED: set[str] = set()  # levels
LIMIT = 420  # seconds that one command may take
WHOLE = 8 * 60  # and all of them
END = 9.5 * 60  # when nothing is waited for any more, so that what was seen is told


def gpuenv(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuenv", *arguments, "--python", TARGET]
    environment = {**os.environ, **variables}
    seconds = min(LIMIT, END - (time.monotonic() - STARTED))
    assert seconds > 0, "the time for all tests is used up"
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def smoke(label: str, *arguments: str, **variables: str) -> dict[str, Any]:
    """One run, kept for the record under its label."""
    done = gpuenv("smoke", *arguments, "--format", "json", "--no-redact", **variables)
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    RECORD["runs"][label] = result
    assert result["exit_code"] == done.returncode
    return result


def level(name: str) -> dict[str, Any]:
    """A level's run, tried once; the quick one after another run has filled the kernel cache."""
    if name not in TRIED:
        TRIED.add(name)
        smoke(name, "--level", name)
    assert name in RECORD["runs"], f"the {name} level has come to no result"
    result: dict[str, Any] = RECORD["runs"][name]
    return result


def within_budget(name: str) -> dict[str, Any]:
    """A level's run; once more where kernels had to be compiled, or files to be read from the disk, for the first time.

    That level is passed either way.
    """
    result = level(name)
    if result["duration"] > result["budget"]:
        result = smoke(f"{name}, once more", "--level", name)
        assert result["status"] == "passed", told(result)
    assert result["duration"] <= result["budget"], slowest(result)
    return result


def slowest(result: dict[str, Any]) -> list[str]:
    """Where the time went."""
    tests = sorted(result["tests"], key=lambda test: -float(test["duration"]))
    return [f"{test['name']}: {test['duration']:.1f} s, its work {test['work'] or 0.0:.1f} s" for test in tests[:8]]


def told(result: dict[str, Any]) -> list[str]:
    return [f"{test['name']}: {test['status']}: {test['detail']}" for test in result["tests"] if test["detail"]]


def write_down() -> None:
    """All that was seen so far, in one file."""
    path = Path(os.environ.get("OUT") or ".") / "smoke-gpu.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(RECORD, indent=1), encoding="utf-8")
    part.replace(path)
