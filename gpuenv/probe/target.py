"""Finds the interpreter of the target environment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

_INTERPRETERS = ("bin/python3", "bin/python", "Scripts/python.exe", "python.exe")


class TargetError(ValueError):
    """What was given as the target is no environment; the message says what would be one."""


def find_interpreter(given: str | None, environment: Mapping[str, str]) -> str | None:
    """The interpreter to ask: the one given, else the active environment's, else the first on PATH.

    Args:
        given: an interpreter, a virtual environment or a conda prefix; None to look for the active one.
        environment: the caller's environment variables.

    Raises:
        TargetError: when something was given and is none of these.
    """
    if given is not None:
        return _interpreter_of(given, environment)
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = environment.get(variable)
        if prefix:
            # An active environment that has lost its interpreter is a finding, not a reason to look elsewhere.
            return _inside(prefix) or str(Path(prefix) / _INTERPRETERS[0])
    return shutil.which("python3", path=environment.get("PATH")) or shutil.which("python", path=environment.get("PATH"))


def _interpreter_of(given: str, environment: Mapping[str, str]) -> str:
    path = Path(os.path.expanduser(given))  # noqa: PTH111 - Path raises for a user that is not there
    if path.is_dir():
        inside = _inside(str(path))
        if inside:
            return inside
        if (path / "pyvenv.cfg").exists() or (path / "conda-meta").is_dir():
            return str(path / _INTERPRETERS[0])
        raise TargetError(
            f"{given} is a folder without a Python in it; give an interpreter, a virtual environment or a conda prefix"
        )
    if path.is_file() or path.is_symlink():
        return str(path)
    found = shutil.which(given, path=environment.get("PATH")) if os.sep not in given else None
    if found:
        return found
    raise TargetError(f"{given} does not exist; give an interpreter, a virtual environment or a conda prefix")


def _inside(prefix: str) -> str | None:
    for name in _INTERPRETERS:
        path = Path(prefix) / name
        if path.exists():
            return str(path)
    return None
