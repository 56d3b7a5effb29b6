"""Runs the program as its users do: a process of its own, an environment that the test gives, streams and a code."""

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


def called(
    arguments: Iterable[str | Path],
    environment: Mapping[str, str],
    limit: float,
    cwd: Path | None = None,
    python: str | Path = sys.executable,
) -> subprocess.CompletedProcess[str]:
    """One call of the program in just this environment; whatever it is given, no traceback reaches the user."""
    done = subprocess.run(
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
    assert "Traceback" not in done.stderr, done.stderr
    return done


def gpuenv(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """One call in an environment of next to nothing."""
    return called(arguments, {**MINIMAL, **(environment or {})}, LIMIT, cwd)


def full_answer(
    arguments: Iterable[str | Path], environment: Mapping[str, str], limit: float, cwd: Path | None = None
) -> tuple[int, Any]:
    """Exit code and the one JSON object on standard output, with every name in it."""
    done = called([*arguments, "--format", "json", "--no-redact"], environment, limit, cwd)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def answer(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """Exit code and the one JSON object on standard output."""
    done = gpuenv(*arguments, "--format", "json", environment=environment)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)
