"""The interpreter of a Jupyter kernel, by its kernelspec.

Kernelspecs lie in ``kernels/NAME/kernel.json`` below Jupyter's data folders (Jupyter documentation, "Common
Directories and File Locations", Data; jupyter_client, "Making kernels for Jupyter", Kernel specs): those of
JUPYTER_PATH, the user's (JUPYTER_DATA_DIR, else ``$XDG_DATA_HOME/jupyter``), those of the environment that Jupyter runs
in, and the system's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpuenv.files import home_folder, is_file, read_regular
from gpuenv.probe.target import TargetError

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_BARE = re.compile(r"python(\d+(\.\d+)*)?")
_SYSTEM = ("/usr/local/share/jupyter", "/usr/share/jupyter")
_SPEC = "kernel.json"
_LARGEST = 1 << 20


def kernel_interpreter(given: str, environment: Mapping[str, str]) -> str:
    """The interpreter that a kernel runs in.

    Args:
        given: a kernel's name, a kernelspec's folder or its ``kernel.json``.
        environment: the caller's variables.

    Raises:
        TargetError: when there is no such kernel, or it is none of Python's.
    """
    spec = _spec(given, environment)
    try:
        told = json.loads(read_regular(spec, _LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise TargetError(f"{spec}: the kernelspec cannot be read: {error}") from error
    argv = told.get("argv") if isinstance(told, dict) else None
    if not isinstance(argv, list) or not argv or not isinstance(argv[0], str):
        raise TargetError(f"{spec}: expected a kernelspec with its argv")
    language = str(told.get("language", "python"))
    if language.lower() != "python":
        raise TargetError(f"{spec}: this is a kernel of {language}, not of Python")
    return _interpreter(argv[0], spec, environment)


def _interpreter(program: str, spec: Path, environment: Mapping[str, str]) -> str:
    """``python`` alone stands for the Python that Jupyter itself runs in: the one whose kernelspec it is."""
    if not re.match(r"python|pypy", Path(program).name):
        raise TargetError(
            f"{spec}: the kernel is started through {program}, so that its interpreter is not to be seen; "
            "name it with --python"
        )
    if program.startswith(os.sep):
        return program
    if not _BARE.fullmatch(program):
        raise TargetError(f"{spec}: {program} is no absolute path; name the interpreter with --python")
    prefix = spec.parents[4] if spec.parts[-5:-2] == ("share", "jupyter", "kernels") else None
    inside = [prefix / "bin" / name for name in (program, "python3", "python")] if prefix else []
    found = next((str(path) for path in inside if is_file(path)), None)
    found = found or shutil.which(program, path=environment.get("PATH"))
    if found is None:
        raise TargetError(f"{spec}: {program} is neither beside it nor on PATH; name the interpreter with --python")
    return found


def _spec(given: str, environment: Mapping[str, str]) -> Path:
    path = Path(given)
    if os.sep in given:
        try:
            spec = path / _SPEC if path.is_dir() else path
            if spec.is_file():
                return spec
        except OSError as error:
            raise TargetError(f"{given}: the kernelspec cannot be read: {error.strerror}") from error
        raise TargetError(f"{given} is no kernelspec; jupyter kernelspec list shows them")
    found = {spec.parent.name.lower(): spec for spec in reversed([*_specs(environment)])}
    if not _NAME.fullmatch(given) or given.lower() not in found:
        there = ", ".join(sorted(found)) or "none"
        raise TargetError(f"there is no Jupyter kernel {given!r}; found {there}")
    return found[given.lower()]


def _specs(environment: Mapping[str, str]) -> Iterator[Path]:
    """Every kernelspec, in the order in which Jupyter takes them."""
    for folder in dict.fromkeys(_data_folders(environment)):
        try:
            yield from sorted(Path(folder, "kernels").glob(f"*/{_SPEC}"))
        except OSError:
            continue


def _data_folders(environment: Mapping[str, str]) -> Iterator[str]:
    yield from filter(None, environment.get("JUPYTER_PATH", "").split(os.pathsep))
    data = environment.get("XDG_DATA_HOME") or str(home_folder(environment) / ".local/share")
    own = environment.get("JUPYTER_DATA_DIR") or os.path.join(data, "jupyter")  # noqa: PTH118
    prefixes = [environment[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environment.get(name)]
    jupyter = shutil.which("jupyter", path=environment.get("PATH"))
    prefixes += [os.path.dirname(os.path.dirname(os.path.realpath(jupyter)))] if jupyter else []  # noqa: PTH120
    yield own
    yield from (os.path.join(prefix, "share/jupyter") for prefix in prefixes)  # noqa: PTH118
    yield from _SYSTEM
