"""The program as its users run it, against an engine of the tests' own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from gpuenv.cli.main import run  # noqa: F401 - a fault in its imports is told before an engine is started

PROGRAM = (sys.executable, "-m", "gpuenv", "build-image")
LIMIT = 1500.0
# What the package index may need here; no setting of an index, and no proxy.
_KEPT = ("SSL_CERT_FILE", "SSL_CERT_DIR", "UV_CACHE_DIR", "PIP_CERT", "HOME", "TMPDIR")
SMALL = ("--builder", "classic", "--cuda", "12.9", "--python", "3.11", "--compute-capability", "9.0")


def environment(host: str, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **kept, "DOCKER_HOST": host, **more}


def build(host: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One call; whatever happens, no traceback reaches the user."""
    done = subprocess.run(
        [*PROGRAM, *arguments],
        env=environment(host, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert "Traceback (most recent call last):\n  File" not in done.stderr, done.stderr
    return done


def outcome(host: str, *arguments: str, **more: str) -> tuple[int, Any, str]:
    """Exit code, the object on standard output, and what was said beside."""
    done = build(host, *arguments, "--format", "json", **more)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr
