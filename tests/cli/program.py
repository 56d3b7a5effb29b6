"""Runs the program as its users do: a process of its own, an environment that the test gives, streams and a code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROGRAM = (sys.executable, "-m", "gpuenv")
MINIMAL = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
LIMIT = 30.0


def gpuenv(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """One call of the program; whatever it is given, no traceback reaches the user."""
    done = subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        env={**MINIMAL, **(environment or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=LIMIT,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def answer(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """Exit code and the one JSON object on standard output."""
    done = gpuenv(*arguments, "--format", "json", environment=environment)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)
