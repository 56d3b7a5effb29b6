"""Other Pythons installed on this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Python 2.7 has no base_prefix.
_FACTS = (
    "import sys; print('%d.%d' % sys.version_info[:2]); print(getattr(sys, 'base_prefix', sys.prefix) == sys.prefix);"
    "print(sys.executable)"
)


@cache
def python(version: str) -> Path:
    """An installed interpreter of a version such as 3.6, not of an active environment; skips the test without one."""
    for path in _candidates(f"python{version}"):
        # The path may be that of a shim.
        if (facts := _stdout_of(str(path), "-c", _FACTS).split("\n"))[:2] == [version, "True"]:
            return Path(facts[2])
    pytest.skip(f"no Python {version} on PATH, in pyenv or among uv's")


def _candidates(name: str) -> Iterator[Path]:
    if found := shutil.which(name):
        yield Path(found)
    for folder in _folders():
        yield from sorted(folder.glob(f"*/bin/{name}"))


@cache
def _folders() -> tuple[Path, ...]:
    folders = (
        Path(_stdout_of("pyenv", "root"), "versions"),
        Path(_stdout_of(sys.executable, "-m", "uv", "python", "dir")),
    )
    return tuple(folder for folder in folders if folder.is_absolute())


def _stdout_of(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
