"""Commands on simulated machines, as users run them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpuenv.simulate.launcher import run_on
from gpuenv.simulate.profile import ProfileError, load
from tests.cli.program import gpuenv


def simulate(name: str, *command: str | Path, cache: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"XDG_CACHE_HOME": str(cache), "PATH": os.environ["PATH"], **variables}
    return gpuenv("simulate", name, "--", *command, environment=environment)


def refusal(profile: Path, *command: str, cache: Path) -> str:
    """The error of a profile that is not simulated."""
    environment = {"XDG_CACHE_HOME": str(cache), "PATH": os.environ["PATH"]}
    with pytest.raises(ProfileError) as refused:
        run_on(load(profile), command, environment, pytest.fail, lambda _: None)
    return str(refused.value)


def write_program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    path.chmod(0o755)
