"""``gpuenv smoke`` as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.program import MINIMAL, PROGRAM

LAUNCHER = Path(__file__).with_name("launcher.py")


def smoke(*arguments: str | Path, **variables: str) -> tuple[int, Any]:
    done = run(*arguments, "--format", "json", "--no-redact", **variables)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, "smoke", *map(str, arguments)]
    done = subprocess.run(
        command, env={**MINIMAL, **variables}, capture_output=True, text=True, check=False, timeout=120
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def started_in(folder: Path, *arguments: str | Path, **variables: str) -> Any:  # noqa: ANN401 - JSON
    """The one test of a run in a working folder; CHILD_PYTHONPATH is what its children have as PYTHONPATH."""
    command = [sys.executable, str(LAUNCHER), "smoke", "kernels", "--gpu", "0", "--format", "json"]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env={**MINIMAL, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    (test,) = of_kernels(json.loads(done.stdout))
    return test


def of_kernels(result: Any) -> list[Any]:  # noqa: ANN401 - JSON
    """Without the look at the GPUs' health that follows a failure."""
    return [test for test in result["tests"] if test["group"] == "kernels"]
