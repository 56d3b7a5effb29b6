"""Commands on simulated machines, as users run them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cli.program import gpuenv


def simulate(name: str, *command: str | Path, cache: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"XDG_CACHE_HOME": str(cache), "PATH": os.environ["PATH"], **variables}
    return gpuenv("simulate", name, "--", *command, environment=environment)


def write_program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    path.chmod(0o755)
