"""Which installer is driven: uv where it is there, else the target's pip, else gpuenv's own."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from packaging.version import Version

from gpuenv.install.backends import pip, uv
from gpuenv.install.backends.base import Installer
from gpuenv.install.backends.conda import CondaTool, tool_version
from gpuenv.install.environment import Scheme
from gpuenv.install.errors import TargetUnusable
from gpuenv.install.resolving import complaint
from gpuenv.install.settings import unfit_for_uv
from gpuenv.probe.children import ChildResult, run_child

_CONDAS = ("conda", "mamba", "micromamba")
_ANSWER = 30.0  # seconds that a program may take to tell its version; one that hangs leaves time for the next one
_REMEDY = "Install uv, or pip into the target: python -m ensurepip; where one is there, look first at what it says."
_SAID = 300  # characters
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
        _REMEDY,
    )


def choose_conda(wanted: str, prefix: str, environment: Mapping[str, str], deadline: float) -> CondaTool:
    """The program that changes a conda environment.

    Args:
        wanted: ``auto``, ``conda``, ``mamba`` or ``micromamba``.
        prefix: the environment.
        environment: the caller's variables.
        deadline: reading of ``time.monotonic``.

    Raises:
        TargetUnusable: when there is none that answers.
    """
    tried: list[str] = []
    for program in dict.fromkeys(_conda_programs(prefix, environment)):
        family = Path(program).name.removesuffix(".exe").removesuffix(".bat")
        if family not in _CONDAS or wanted not in ("auto", family):
            continue
        version = tool_version(run_child([program, "--version"], environment, _soon(deadline)).stdout)
        if version is not None:
            return CondaTool(program, family, version)
        tried.append(f"{program} does not answer")
    name = "conda, mamba or micromamba" if wanted == "auto" else wanted
    raise TargetUnusable(
        f"{prefix} is a conda environment, and there is no {name} to change it with"
        + (f": {'; '.join(tried)}" if tried else " on PATH"),
        "Put it on PATH, or name it in CONDA_EXE or MAMBA_EXE; or let wheels be installed: --installer uv (or pip).",
    )


def _conda_programs(prefix: str, environment: Mapping[str, str]) -> Iterator[str]:
    """What the shell's set-up names, what is on PATH, and the installation that the environment lies in."""
    yield from (environment[name] for name in ("CONDA_EXE", "MAMBA_EXE") if environment.get(name))
    yield from filter(None, (shutil.which(name, path=environment.get("PATH")) for name in _CONDAS))
    for base in (prefix, os.path.dirname(os.path.dirname(prefix))):
        yield from filter(None, (shutil.which(name, path=os.path.join(base, "bin")) for name in _CONDAS))


def _uv(scheme: Scheme, environment: Mapping[str, str], deadline: float, tried: list[str]) -> Installer | None:
    own = os.path.join(os.path.dirname(sys.executable), "uv")
    paths = dict.fromkeys(filter(None, (shutil.which("uv", path=environment.get("PATH")), shutil.which(own))))
    if not paths:
        tried.append("no uv on PATH")
    for path in paths:
        version = _version_in(run_child([path, "--version"], environment, _soon(deadline)))
        if version is None or Version(version) < uv.OLDEST:
            tried.append(f"{path}: uv {version or 'does not answer'}, and {uv.OLDEST} or newer is needed")
        else:
            return _uv_for(scheme, (path, version), environment, deadline, tried)
    return None


def _uv_for(
    scheme: Scheme, found: tuple[str, str], environment: Mapping[str, str], deadline: float, tried: list[str]
) -> Installer | None:
    """The program at a path, in its version, where it can make out the target."""
    path, version = found
    unfit = unfit_for_uv(environment)
    if unfit is not None:
        tried.append(unfit)
        return None
    # An interpreter that prints something at its start (a sitecustomize, say) is more than uv can read.
    asked = run_child([path, "python", "find", scheme.executable], environment, _soon(deadline))
    if asked.exit_code != 0:
        tried.append(f"uv cannot be used for this interpreter: {complaint(asked)[:_SAID]}")
        return None
    return uv.Uv(path, version, tuple(environment.get("UV_CONSTRAINT", "").split()))


def _pip(scheme: Scheme, environment: Mapping[str, str], deadline: float, tried: list[str]) -> Installer | None:
    programs: list[tuple[str, ...]] = []
    if scheme.has_pip:
        programs.append((scheme.executable, "-m", "pip"))
    if find_spec("pip") is not None:
        programs.append((sys.executable, "-m", "pip", "--python", scheme.executable))
    for program in programs:
        answer = run_child([*program, "--version"], environment, _soon(deadline))
        version = _version_in(answer)
        if version is not None and Version(version) >= pip.OLDEST:
            return pip.Pip(program, version)
        said = version or f"does not answer ({complaint(answer)[-_SAID:]})"
        tried.append(f"pip {said}, and {pip.OLDEST} or newer is needed")
    if not programs:
        tried.append("no pip in the target")
    return None


def _version_in(answer: ChildResult) -> str | None:
    match = _VERSION.search(answer.stdout)
    try:
        return str(Version(match[1])) if match else None
    except ValueError:  # InvalidVersion, or more digits than int takes
        return None


def _soon(deadline: float) -> float:
    return min(deadline, time.monotonic() + _ANSWER)
