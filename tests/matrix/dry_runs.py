"""Installation plans of pip and uv, with their user's configuration and without installing anything."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

_TIMEOUT = 600
# From the newest C library of these wheels to the oldest: pip accepts only the tags on its command line.
_LINUX_TAGS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux2010", "manylinux1")


class NoSolutionError(Exception):
    """The installer found no solution; the message is its own."""


def plan_with_uv(*requirements: str, python: str = "3.12", platform: str = "x86_64-manylinux_2_28") -> dict[str, str]:
    """Distribution to version, as ``uv pip compile`` answers for another interpreter and platform."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += ["--only-binary", ":all:", "--python-version", python, "--python-platform", platform, "-"]
    done = subprocess.run(
        command, input="\n".join(requirements), capture_output=True, text=True, check=False, timeout=_TIMEOUT
    )
    if done.returncode != 0:
        raise NoSolutionError(" ".join(done.stderr.split()))
    pins = (line.partition(" ;")[0].partition("==") for line in done.stdout.splitlines() if "==" in line)
    return {name.strip(): release.strip() for name, _, release in pins}


def plan_with_pip(*requirements: str, python: str = "3.12", glibc: int = 28, arch: str = "x86_64") -> dict[str, str]:
    """Distribution to version, as ``pip install --dry-run`` reports for a Linux with that minor of glibc 2."""
    tags = [tag for tag in _LINUX_TAGS if not tag.startswith("manylinux_2_") or int(tag.split("_")[2]) <= glibc]
    abi = f"cp{python.replace('.', '')}"
    command = [str(_pip()), "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", "--report", "-"]
    command += ["--target", "unused", "--only-binary", ":all:", "--implementation", "cp", "--python-version", python]
    command += [word for tag in tags for word in ("--platform", f"{tag}_{arch}")]
    command += [word for name in (abi, "abi3", "none") for word in ("--abi", name)]
    done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False, timeout=_TIMEOUT)
    if done.returncode != 0:
        raise NoSolutionError(" ".join(done.stderr.split()))
    metadata = [entry["metadata"] for entry in json.loads(done.stdout)["install"]]
    return {entry["name"].lower().replace("_", "-"): entry["version"] for entry in metadata}


@cache
def _pip() -> Path:
    """An interpreter with pip, which that of the tests may lack."""
    folder = Path(mkdtemp(prefix="gpuenv-pip-")) / "venv"
    command = [sys.executable, "-m", "uv", "venv", "--quiet", "--seed", "--python", sys.executable, str(folder)]
    subprocess.run(command, check=True, timeout=_TIMEOUT)
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
