"""Finds the interpreter of the target environment."""

from __future__ import annotations

import os

from gpuenv.model.errors import GpuenvError

TYPE_CHECKING = False  # imported before the first child starts: typing and shutil would double the time until then
if TYPE_CHECKING:
    from collections.abc import Mapping

_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
_PROGRAM_FOLDERS = ("bin", "Scripts")
_IN_PROJECTS = (".venv", "venv", "env", ".pixi/envs/default")  # where uv, poetry, PyCharm and pixi create them
_INTERPRETERS = ("bin/python3", "bin/python", "Scripts/python.exe", "python.exe")


class TargetError(GpuenvError, ValueError):
    """The requested target is not an environment; the message says what to pass instead."""


def find_interpreter(python: str | None, environment: Mapping[str, str]) -> str | None:
    """The target's interpreter: the requested one, else the active environment's, else the first on PATH.

    Raises:
        TargetError: when ``python`` is no interpreter, virtual environment or conda prefix.
    """
    if python is not None:
        return _interpreter_of(python, environment)
    for variable in _ACTIVE:
        prefix = environment.get(variable)
        if prefix:
            # An active environment without an interpreter is a finding; PATH is not searched then.
            return _inside(prefix) or os.path.join(prefix, _INTERPRETERS[0])
    return _on_path("python3", environment) or _on_path("python", environment)


def named_by(python: str | None, environment: Mapping[str, str]) -> str:
    """The origin of the target: the option, the variable of an active environment, or PATH."""
    if python is not None:
        return "--python"
    return next((variable for variable in _ACTIVE if environment.get(variable)), "PATH")


def _interpreter_of(python: str, environment: Mapping[str, str]) -> str:
    path = os.path.expanduser(python)
    if os.path.isdir(path):
        for prefix in _prefixes(path):
            inside = _inside(prefix)
            if inside:
                return inside
            if is_environment(prefix):
                return os.path.join(os.path.abspath(prefix), _INTERPRETERS[0])
        problem = f"{python} is a folder without a Python"
        folders = (os.path.join(path, name) for name in _IN_PROJECTS)
        environment_folder = next((folder for folder in folders if _inside(folder)), None)
        if environment_folder is not None:
            raise TargetError(f"{problem}; pass the environment in it: {environment_folder}")
        raise TargetError(f"{problem}; pass an interpreter, a virtual environment or a conda prefix")
    on_path = _on_path(python, environment) if os.sep not in python else None
    if on_path:
        return on_path
    if os.path.lexists(path):
        return os.path.abspath(path)  # a name without a slash would be searched on PATH
    raise TargetError(
        f"{python or 'an empty name'} does not exist; pass an interpreter, a virtual environment or a conda prefix"
    )


def is_environment(folder: str) -> bool:
    """Whether a folder is a virtual environment or a conda prefix, whose interpreter may be missing."""
    return any(os.path.exists(os.path.join(folder, mark)) for mark in ("pyvenv.cfg", "conda-meta"))


def _prefixes(folder: str) -> tuple[str, ...]:
    """The folder, and its parent if it is a folder of programs."""
    parent, name = os.path.split(os.path.abspath(folder))
    return (folder, parent) if name in _PROGRAM_FOLDERS else (folder,)


def _inside(prefix: str) -> str | None:
    candidates = [os.path.join(os.path.abspath(prefix), name) for name in _INTERPRETERS]
    return next((path for path in candidates if os.path.exists(path)), None)


def _on_path(name: str, environment: Mapping[str, str]) -> str | None:
    import shutil  # noqa: PLC0415 - slow to import, see above

    return shutil.which(name, path=environment.get("PATH"))
