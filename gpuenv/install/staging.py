"""Lets the installer put the wheels together in a folder of their own, and looks at every file there."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuenv.install.backends.uv import Uv
from gpuenv.install.errors import CacheAtFault, InstallFailed
from gpuenv.install.preparing import Prepared
from gpuenv.install.records import Plan
from gpuenv.install.refusing import cure
from gpuenv.install.resolving import complaint
from gpuenv.install.staged import Staged, broken, read_stage
from gpuenv.probe.children import ChildResult, Ending

_LINKS = "They are links into a cache, and end with it: unset UV_LINK_MODE, or change link-mode in uv.toml."
_UNPACKED = "error: Failed to install"  # uv 0.13.9: all was downloaded or in the cache, and is no wheel
_NO_CACHE = "UV_NO_CACHE"
Announce = Callable[[str], None]


def put_together(prepared: Prepared, folder: Path, stage: Path, announce: Announce) -> None:
    """Lets the installer fill the stage.

    Args:
        prepared: the plan.
        folder: of the transaction.
        stage: an empty folder in it.
        announce: told what is being done.

    Raises:
        InstallFailed: when it does not come to its end; CacheAtFault where the wheels are there and no wheels.
    """
    lock = folder / "lock.txt"
    lock.write_text(prepared.lock, encoding="utf-8")
    announce(f"{prepared.plan.installer} puts {len(prepared.plan.install)} wheels together")
    result = _filled(prepared, lock, stage, announce)
    if result.ending is not Ending.EXITED or result.exit_code != 0:
        why = complaint(result)
        kind = CacheAtFault if _UNPACKED in result.stderr else InstallFailed
        raise kind(f"{prepared.plan.installer} failed: {why}", cure(why, prepared.caller))


def without_cache(prepared: Prepared) -> Prepared | None:
    """The same plan with nothing from uv's cache, whose files those of environments may be; None for all others."""
    caller = prepared.caller
    if not isinstance(caller.installer, Uv) or caller.options.offline or caller.environment.get(_NO_CACHE):
        return None
    return replace(prepared, caller=replace(caller, environment={**caller.environment, _NO_CACHE: "1"}))


def _filled(prepared: Prepared, lock: Path, stage: Path, announce: Announce) -> ChildResult:
    """Runs the installer's commands in turn until one works; each starts with an empty folder."""
    caller = prepared.caller.settled()
    first, *others = caller.installer.staging(caller.options, lock, stage)
    result = caller.run(first, _lines(announce))
    for command in others:
        if result.ending is Ending.EXITED and result.exit_code == 0:
            break
        shutil.rmtree(stage)
        stage.mkdir()
        result = caller.run(command, _lines(announce))
    return result


def checked(prepared: Prepared, stage: Path) -> Staged:
    """What is in the stage: the planned versions and nothing else, every file as its RECORD says.

    Raises:
        InstallFailed: when it is anything else.
    """
    staged = read_stage(stage, prepared.holdings.scheme)
    _as_asked(prepared.plan, staged)
    bad = broken(staged.files)
    if bad:
        message = f"{len(bad)} files are not what their RECORD says, {bad[0]} first"
        if any(stat.S_ISLNK(file.told.st_mode) for file in staged.files):
            raise InstallFailed(message, _LINKS)
        raise CacheAtFault(message)
    return staged


def _as_asked(plan: Plan, staged: Staged) -> None:
    """The stage holds the planned versions, all of them and nothing else."""
    found = {entry.name: entry.release for entry in staged.distributions}
    wanted = {pin.name: pin.release for pin in plan.install}
    if found != wanted:
        odd = sorted(set(found.items()) ^ set(wanted.items()))
        raise InstallFailed(f"{plan.installer} installed something else than planned: {' '.join(map('=='.join, odd))}")


def _lines(announce: Announce) -> Callable[[str], None]:
    """What the installer says of its downloads, line by line."""
    rest = ""

    def heard(text: str) -> None:
        nonlocal rest
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            if line.strip().startswith(("Download", "Prepar", "Install", "Resolved", "Building")):
                announce(line.strip())

    return heard
