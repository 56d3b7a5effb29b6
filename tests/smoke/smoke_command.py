"""Runs of ``gpuenv smoke`` in a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.program import MINIMAL, PROGRAM

LAUNCHER = Path(__file__).with_name("launcher.py")


def smoke(*arguments: str | Path, **variables: str) -> tuple[int, Any]:
    process = run(*arguments, "--format", "json", "--no-redact", **variables)
    assert process.stdout, process.stderr
    return process.returncode, json.loads(process.stdout)


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, "smoke", *map(str, arguments)]
    process = subprocess.run(
        command, env={**MINIMAL, **variables}, capture_output=True, text=True, check=False, timeout=120
    )
    assert "Traceback" not in process.stderr, process.stderr
    return process


def run_in_folder(folder: Path, *arguments: str | Path, **variables: str) -> Any:  # noqa: ANN401 - JSON
    """The only test of a run in a working folder; its children get CHILD_PYTHONPATH as PYTHONPATH."""
    command = [sys.executable, str(LAUNCHER), "smoke", "kernels", "--gpu", "0", "--format", "json"]
    process = subprocess.run(
        [*command, *map(str, arguments)],
        env={**MINIMAL, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    (test,) = kernel_tests(json.loads(process.stdout))
    return test


def kernel_tests(result: Any) -> list[Any]:  # noqa: ANN401 - JSON
    """The tests of kernels, without the check of GPU health that follows a failure."""
    return [test for test in result["tests"] if test["group"] == "kernels"]
