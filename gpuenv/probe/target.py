"""Finds the interpreter of the target environment."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # this is imported before the first child is started: typing and shutil take as long as that
if TYPE_CHECKING:
    from collections.abc import Mapping

_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
_OF_PROGRAMS = ("bin", "Scripts")  # the folder in an environment that has its programs
_IN_PROJECTS = (".venv", "venv", "env", ".pixi/envs/default")  # where uv, poetry, PyCharm and pixi make them
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
    for variable in _ACTIVE:
        prefix = environment.get(variable)
        if prefix:
            # An active environment that has lost its interpreter is a finding, not a reason to look elsewhere.
            return _inside(prefix) or os.path.join(prefix, _INTERPRETERS[0])
    return _on_path("python3", environment) or _on_path("python", environment)


def named_by(given: str | None, environment: Mapping[str, str]) -> str:
    """Who names the target: the option, the variable of an active environment, or PATH."""
    if given is not None:
        return "--python"
    return next((variable for variable in _ACTIVE if environment.get(variable)), "PATH")


def _interpreter_of(given: str, environment: Mapping[str, str]) -> str:
    path = os.path.expanduser(given)
    if os.path.isdir(path):
        for prefix in _prefixes(path):
            inside = _inside(prefix)
            if inside:
                return inside
            if any(os.path.exists(os.path.join(prefix, mark)) for mark in ("pyvenv.cfg", "conda-meta")):
                return os.path.join(os.path.abspath(prefix), _INTERPRETERS[0])
        what = f"{given} is a folder in which no Python is to be seen"
        near = next((place for name in _IN_PROJECTS if _inside(place := os.path.join(path, name))), None)
        if near is not None:
            raise TargetError(f"{what}, but {near} is an environment; give that")
        raise TargetError(f"{what}; give an interpreter, a virtual environment or a conda prefix")
    on_path = _on_path(given, environment) if os.sep not in given else None
    if on_path:
        return on_path
    if os.path.lexists(path):
        return os.path.abspath(path)  # a name without a slash would be looked for on PATH
    raise TargetError(
        f"{given or 'an empty name'} does not exist; give an interpreter, a virtual environment or a conda prefix"
    )


def _prefixes(folder: str) -> tuple[str, ...]:
    """The folder, and the environment of which it is the folder of programs."""
    above, name = os.path.split(os.path.abspath(folder))
    return (folder, above) if name in _OF_PROGRAMS else (folder,)


def _inside(prefix: str) -> str | None:
    candidates = [os.path.join(os.path.abspath(prefix), name) for name in _INTERPRETERS]
    return next((path for path in candidates if os.path.exists(path)), None)


def _on_path(name: str, environment: Mapping[str, str]) -> str | None:
    import shutil  # noqa: PLC0415 - see above

    return shutil.which(name, path=environment.get("PATH"))
