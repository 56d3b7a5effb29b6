"""Which installer is driven: uv where it is there, else the target's pip, else gpuenv's own."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec

from packaging.version import InvalidVersion, Version

from gpuenv.install.backends import pip, uv
from gpuenv.install.backends.base import Installer
from gpuenv.install.environment import Scheme
from gpuenv.install.errors import TargetUnusable
from gpuenv.probe.children import run_child

_VERSION = re.compile(r"(?:uv|pip) (\d+(?:\.\d+)+)")


def choose(wanted: str, scheme: Scheme, environment: Mapping[str, str], deadline: float) -> Installer:
    """The installer for a target.

    Args:
        wanted: ``auto``, ``uv`` or ``pip``.
        scheme: the target.
        environment: the caller's variables.
        deadline: reading of ``time.monotonic``.

    Raises:
        TargetUnusable: when there is none that will do.
    """
    tried: list[str] = []
    if wanted in ("auto", "uv"):
        found = _uv(scheme, environment, deadline, tried)
        if found is not None:
            return found
    if wanted in ("auto", "pip"):
        found_pip = _pip(scheme, environment, deadline, tried)
        if found_pip is not None:
            return found_pip
    raise TargetUnusable(
        f"there is no {'uv or pip' if wanted == 'auto' else wanted} to install with: {'; '.join(tried)}",
        "Install uv, or pip into the target: python -m ensurepip",
    )


def _uv(scheme: Scheme, environment: Mapping[str, str], deadline: float, tried: list[str]) -> Installer | None:
    own = os.path.join(os.path.dirname(sys.executable), "uv")
    path = shutil.which("uv", path=environment.get("PATH")) or shutil.which(own)
    if path is None:
        tried.append("no uv on PATH")
        return None
    version = _version((path, "--version"), environment, deadline)
    if version is None or Version(version) < uv.OLDEST:
        tried.append(f"uv {version or 'does not answer'}, and {uv.OLDEST} or newer is needed")
        return None
    # An interpreter that prints something at its start (a sitecustomize, say) is more than uv can read.
    asked = run_child([path, "python", "find", scheme.executable], environment, deadline)
    if asked.exit_code != 0:
        tried.append("uv cannot make out this interpreter")
        return None
    return uv.Uv(path, version, tuple(environment.get("UV_CONSTRAINT", "").split()))


def _pip(scheme: Scheme, environment: Mapping[str, str], deadline: float, tried: list[str]) -> Installer | None:
    programs: list[tuple[str, ...]] = []
    if scheme.has_pip:
        programs.append((scheme.executable, "-m", "pip"))
    if find_spec("pip") is not None:
        programs.append((sys.executable, "-m", "pip", "--python", scheme.executable))
    for program in programs:
        version = _version((*program, "--version"), environment, deadline)
        if version is not None and Version(version) >= pip.OLDEST:
            return pip.Pip(program, version)
        tried.append(f"pip {version or 'does not answer'}, and {pip.OLDEST} or newer is needed")
    if not programs:
        tried.append("no pip in the target")
    return None


def _version(command: tuple[str, ...], environment: Mapping[str, str], deadline: float) -> str | None:
    match = _VERSION.search(run_child([*command], environment, deadline).stdout)
    try:
        return str(Version(match[1])) if match else None
    except InvalidVersion:
        return None
