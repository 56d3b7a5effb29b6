"""Runs ``gpuenv build-image`` as a process, with a given engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from gpuenv.cli.main import run  # noqa: F401 - a broken import fails here, before an engine starts

PROGRAM = (sys.executable, "-m", "gpuenv", "build-image")
TIME_LIMIT = 1500.0
# Variables that a package index may need; neither index settings nor proxies.
_INHERITED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "UV_CACHE_DIR", "PIP_CERT", "HOME", "TMPDIR")
CUDA_OPTIONS = ("--cuda", "12.9", "--python", "3.11", "--compute-capability", "9.0")
BUILD_OPTIONS = ("--builder", "classic", *CUDA_OPTIONS)
TAG = "build/test:1"


def build_arguments(base: str) -> tuple[str, ...]:
    return (*BUILD_OPTIONS, "--base", base, "--tag", TAG)


def environment(host: str, **variables: str) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **inherited, "DOCKER_HOST": host, **variables}


def build_image(host: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs build-image; a traceback on standard error fails the test."""
    result = subprocess.run(
        [*PROGRAM, *arguments],
        env=environment(host, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_LIMIT,
    )
    assert "Traceback (most recent call last):\n  File" not in result.stderr, result.stderr
    return result


def build_report(host: str, *arguments: str, **variables: str) -> tuple[int, Any, str]:
    """Exit code, JSON report and standard error of build-image."""
    result = build_image(host, *arguments, "--format", "json", **variables)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout), result.stderr
