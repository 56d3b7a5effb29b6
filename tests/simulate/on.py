"""A command on a simulated machine, as ``gpuenv simulate`` runs it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.cli.program import gpuenv

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


def on(name: str, *command: str | Path, cache: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs it with the caller's PATH, a cache for the stub driver, and these variables."""
    environment = {"XDG_CACHE_HOME": str(cache), "PATH": os.environ["PATH"], **variables}
    return gpuenv("simulate", name, "--", *command, environment=environment)
