"""Finds the interpreter of a Jupyter kernel by its kernelspec.

Kernelspecs are in ``kernels/NAME/kernel.json`` below Jupyter's data folders (Jupyter documentation, "Common
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


def kernel_interpreter(name: str, environment: Mapping[str, str]) -> str:
    """The interpreter of a kernel, by its name, its kernelspec's folder or its ``kernel.json``.

    Raises:
        TargetError: when there is no such kernel, or it is not a Python kernel.
    """
    spec = _spec(name, environment)
    try:
        content = json.loads(read_regular(spec, _LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise TargetError(f"{spec}: the kernelspec cannot be read: {error}") from error
    argv = content.get("argv") if isinstance(content, dict) else None
    if not isinstance(argv, list) or not argv or not isinstance(argv[0], str):
        raise TargetError(f"{spec}: expected a kernelspec with its argv")
    language = str(content.get("language", "python"))
    if language.lower() != "python":
        raise TargetError(f"{spec}: this is a kernel of {language}, not of Python")
    return _interpreter(argv[0], spec, environment)


def _interpreter(program: str, spec: Path, environment: Mapping[str, str]) -> str:
    """Resolves the first argument of argv; a bare ``python`` is that of the environment that holds the kernelspec."""
    if not re.match(r"python|pypy", Path(program).name):
        raise TargetError(
            f"{spec}: the kernel is started through {program}, so its interpreter is unknown; name it with --python"
        )
    if program.startswith(os.sep):
        return program
    if not _BARE.fullmatch(program):
        raise TargetError(f"{spec}: {program} is not an absolute path; name the interpreter with --python")
    prefix = spec.parents[4] if spec.parts[-5:-2] == ("share", "jupyter", "kernels") else None
    inside = [prefix / "bin" / name for name in (program, "python3", "python")] if prefix else []
    found = next((str(path) for path in inside if is_file(path)), None)
    found = found or shutil.which(program, path=environment.get("PATH"))
    if found is None:
        raise TargetError(
            f"{spec}: {program} is neither in its environment nor on PATH; name the interpreter with --python"
        )
    return found


def _spec(name: str, environment: Mapping[str, str]) -> Path:
    path = Path(name)
    if os.sep in name:
        try:
            spec = path / _SPEC if path.is_dir() else path
            if spec.is_file():
                return spec
        except OSError as error:
            raise TargetError(f"{name}: the kernelspec cannot be read: {error.strerror}") from error
        raise TargetError(f"{name} is not a kernelspec; to list them: jupyter kernelspec list")
    found = {spec.parent.name.lower(): spec for spec in reversed([*_specs(environment)])}
    if not _NAME.fullmatch(name) or name.lower() not in found:
        names = ", ".join(sorted(found)) or "none"
        raise TargetError(f"there is no Jupyter kernel {name!r}; found {names}")
    return found[name.lower()]


def _specs(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yields every kernelspec in Jupyter's order of precedence."""
    for folder in dict.fromkeys(_data_folders(environment)):
        try:
            yield from sorted(Path(folder, "kernels").glob(f"*/{_SPEC}"))
        except OSError:
            continue


def _data_folders(environment: Mapping[str, str]) -> Iterator[str]:
    yield from filter(None, environment.get("JUPYTER_PATH", "").split(os.pathsep))
    data = environment.get("XDG_DATA_HOME") or str(home_folder(environment) / ".local/share")
    user = environment.get("JUPYTER_DATA_DIR") or os.path.join(data, "jupyter")  # noqa: PTH118
    prefixes = [environment[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environment.get(name)]
    jupyter = shutil.which("jupyter", path=environment.get("PATH"))
    prefixes += [os.path.dirname(os.path.dirname(os.path.realpath(jupyter)))] if jupyter else []  # noqa: PTH120
    yield user
    yield from (os.path.join(prefix, "share/jupyter") for prefix in prefixes)  # noqa: PTH118
    yield from _SYSTEM
