"""Whether the disks have room for a download, by the sizes of the files that are not in the installer's cache."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from gpuenv.install.backends.base import succeeded
from gpuenv.install.backends.uv import Uv
from gpuenv.install.exceptions import InstallFailed
from gpuenv.install.installer_config import InstallerRun
from gpuenv.install.lockfile import lock_text
from gpuenv.install.plan import Pin
from gpuenv.install.planner import PreparedInstall, free_space
from gpuenv.model.strings import format_size

_REMEDY = "Free space there: uv cache clean empties uv's cache, gpuenv rollback --forget what earlier installs keep."
_DOWNLOADS = "Would download"  # uv 0.13.9, install --dry-run, of files that its cache lacks


def refuse_without_room(prepared: PreparedInstall, stage: Path) -> None:
    """Refuses a download that the disk of the environment or of the installer's cache cannot hold.

    Wheels are compressed: unpacked they take no less than their size. Files in uv's cache are linked into an
    environment on the same disk, and copied to another one.

    Args:
        prepared: the plan, with the sizes of its files; without sizes nothing is refused.
        stage: an empty folder on the environment's disk.

    Raises:
        InstallFailed: when a disk has too little space.
    """
    plan, installer_run = prepared.plan, prepared.installer_run
    root = Path(plan.target.root)
    cache = _folder_of_downloads(installer_run, root)
    free = {folder: free_space(str(folder)) for folder in (cache, root)}
    total = plan.space.download
    if total is None or all(space is None or space >= total for space in free.values()):
        return
    to_download = sum(pin.size or 0 for pin in plan.install if not _is_cached(pin, installer_run, stage))
    to_unpack = to_download if root.stat().st_dev == cache.stat().st_dev else total
    for folder, needed in ((cache, to_download), (root, to_unpack)):
        refuse_too_little(folder, needed, free[folder])


def refuse_too_little(folder: str | Path, needed: int | None, free: int | None) -> None:
    """Refuses an install that a disk cannot hold; ``None`` is unknown and refuses nothing.

    Raises:
        InstallFailed: when the disk has too little space.
    """
    if needed is not None and free is not None and free < needed:
        message = f"{folder}: the packages take at least {format_size(needed)}, and {format_size(free)} are free"
        raise InstallFailed(message, _REMEDY)


def _folder_of_downloads(installer_run: InstallerRun, root: Path) -> Path:
    """The nearest existing folder on the way to uv's cache; without a cache, TMPDIR, else the environment."""
    command = None if installer_run.environment.get("UV_NO_CACHE") else installer_run.installer.cache_command()
    cache = installer_run.run(command).stdout.strip() if command else ""
    folder = Path(cache or installer_run.environment.get("TMPDIR") or root)
    return next(parent for parent in (folder, *folder.parents) if parent.exists())


def _is_cached(pin: Pin, installer_run: InstallerRun, stage: Path) -> bool:
    """Whether uv has the files of a pin in its cache; False for pip, which copies them anyway."""
    if not isinstance(installer_run.installer, Uv):
        return False
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as lock:
        lock.write(lock_text((pin,)))
        lock.flush()
        options = replace(installer_run.options, offline=True)
        (command, *_) = installer_run.installer.stage_commands(options, Path(lock.name), stage)
        result = installer_run.run((*command, "--dry-run"))
    return succeeded(result) and _DOWNLOADS not in result.stderr
