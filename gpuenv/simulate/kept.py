"""What is compiled once and kept in the user's cache: the stub driver, and the libraries of pretend toolkits."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from gpuenv.data import data_path
from gpuenv.model.cuda_libraries import WANTED
from gpuenv.simulate.build import FLAGS, SOURCES, StubDriver, build, built_in
from gpuenv.simulate.toolkit import NVRTC, compile_toolkit
from gpuenv.user_folders import user_cache

Announce = Callable[[str], None]


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Where all that is compiled is kept, by what it was compiled of; None where the user has no such place."""
    cache = user_cache(environment)
    if cache is None:
        return None
    sources = data_path("native")
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((sources / name).read_bytes())
    by = (sys.platform, os.uname().machine, environment.get("CC", ""), FLAGS, NVRTC, WANTED)
    digest.update(repr(by).encode())
    return cache / f"stub-{digest.hexdigest()[:16]}"


def kept_stub(cache: Path | None, folder: Path, announce: Announce) -> StubDriver:
    """The stub driver from the cache, compiled into it the first time; into the run's own folder where there is none.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
    """
    if cache is not None and _is_whole(built_in(cache)):
        return built_in(cache)
    announce("compiling the stub driver, once")
    made = build(folder / "stub")
    if cache is not None:
        _keep(made.folder, cache)
    return made


def _is_whole(stub: StubDriver) -> bool:
    return all(part.is_file() for part in (stub.nvml, stub.cuda, stub.uname, stub.audit, stub.nvidia_smi))


def kept_toolkit(release: str, cache: Path | None, folder: Path) -> Path:
    """The folder with the libraries of a CUDA release, likewise; it is kept beside the stub driver.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
    """
    place = None if cache is None else cache / f"cuda-{release}"
    libraries = WANTED[int(release.partition(".")[0])]
    if place is not None and all((place / library.soname).is_file() for library in libraries):
        return place
    made = compile_toolkit(release, folder)
    if place is not None:
        _keep(made, place)
    return made


def _keep(made: Path, place: Path) -> None:
    """Copies a folder into the cache, where it is whole or not there; one that cannot be written costs a moment."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".stub-", dir=place.parent))
        try:
            shutil.copytree(made, part / "kept", symlinks=True)
            shutil.rmtree(place, ignore_errors=True)  # of which somebody has removed a part
            (part / "kept").rename(place)
        finally:
            shutil.rmtree(part, ignore_errors=True)
