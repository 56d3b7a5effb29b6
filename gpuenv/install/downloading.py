"""Downloads the wheels of a lock as files: by a pip, since uv keeps none."""

from __future__ import annotations

import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from gpuenv.install.backends.pip import Pip
from gpuenv.install.backends.uv import Uv
from gpuenv.install.choose import choose
from gpuenv.install.environment import Scheme
from gpuenv.install.errors import InstallFailed, TargetUnusable
from gpuenv.install.refusing import cure
from gpuenv.install.resolving import Caller, complaint
from gpuenv.probe.children import Ending

_OPTIONS = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--progress-bar=off")


def download(
    caller: Caller,
    scheme: Scheme,
    places: tuple[Path, Path],
    announce: Callable[[str], None],
    words: tuple[str, ...] = (),
) -> None:
    """Puts every wheel of a lock into a folder; each is held against its digest.

    Args:
        caller: who runs the installer.
        scheme: whose pip is asked.
        places: the lock, and the folder.
        announce: told what is being done.
        words: what tells pip to download for another machine.

    Raises:
        InstallFailed: when one cannot be had.
        TargetUnusable: when there is no pip to ask.
    """
    pip = Pip(_program(caller, scheme), "")
    lock, folder = places
    command = [*pip.program, "download", *_OPTIONS, *words, "--dest", str(folder), "--requirement", str(lock)]
    announce("downloading the wheels")
    environment = _with_index(pip.environment(caller.environment))
    result = caller.patience.run(command, environment, caller.group)
    if result.ending is not Ending.EXITED or result.exit_code != 0:
        why = complaint(result)
        raise InstallFailed(f"the wheels could not be downloaded: {why}", cure(why, replace(caller, installer=pip)))
    if not any(folder.iterdir()):
        raise InstallFailed("pip downloaded nothing")


def _program(caller: Caller, scheme: Scheme) -> tuple[str, ...]:
    """The target's pip, gpuenv's own, the one that Python itself brings, or one through uv."""
    target = ("--python", scheme.executable)
    try:
        found = choose("pip", scheme, caller.environment, time.monotonic() + caller.patience.left)
    except TargetUnusable:
        wheel = _bundled_pip()
        if wheel is not None:
            return (sys.executable, f"{wheel}/pip", *target)
        if not isinstance(caller.installer, Uv):
            raise
        return (caller.installer.program, "tool", "run", "--quiet", "--from", "pip", "pip", *target)
    return found.program if isinstance(found, Pip) else ()


def _bundled_pip() -> Path | None:
    """The wheel that ensurepip installs pip from; it can be run as it is."""
    elsewhere = sysconfig.get_config_var("WHEEL_PKG_DIR")
    spec = find_spec("ensurepip")
    folders = [Path(spec.origin).parent / "_bundled"] if spec is not None and spec.origin else []
    folders += [Path(elsewhere)] if elsewhere else []
    return next((wheel for folder in folders for wheel in sorted(folder.glob("pip-*.whl"))), None)


def _with_index(environment: dict[str, str]) -> dict[str, str]:
    """An index that is set for uv alone is the one that the lock came from: pip is told it too."""
    index = environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL")
    if index and "PIP_INDEX_URL" not in environment:
        environment["PIP_INDEX_URL"] = index
    return environment
