"""Runs the program as a process, in an environment that the test defines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PROGRAM = (sys.executable, "-m", "gpuenv")
MINIMAL = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
LIMIT = 30.0


def run_gpuenv(
    arguments: Iterable[str | Path],
    environment: Mapping[str, str],
    limit: float,
    cwd: Path | None = None,
    python: str | Path = sys.executable,
) -> subprocess.CompletedProcess[str]:
    """Runs the program in exactly this environment; a traceback on standard error fails the test."""
    result = subprocess.run(
        [str(python), "-m", "gpuenv", *map(str, arguments)],
        env=dict(environment),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=limit,
    )
    assert "Traceback" not in result.stderr, result.stderr
    return result


def gpuenv(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the program in a minimal environment."""
    return run_gpuenv(arguments, {**MINIMAL, **(environment or {})}, LIMIT, cwd)


def full_answer(
    arguments: Iterable[str | Path], environment: Mapping[str, str], limit: float, cwd: Path | None = None
) -> tuple[int, Any]:
    """The exit code and the unredacted JSON object on standard output."""
    result = run_gpuenv([*arguments, "--format", "json", "--no-redact"], environment, limit, cwd)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def answer(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """The exit code and the JSON object on standard output."""
    result = gpuenv(*arguments, "--format", "json", environment=environment)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)
