"""Temporary mounts, for small and read-only file systems."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1024 * 1024


@contextmanager
def mounted(path: Path, *options: str) -> Iterator[Path]:
    """Mounts a file system on a folder; skips the test without permission to mount."""
    if not path.exists():
        path.mkdir()
    result = subprocess.run(["mount", *options, str(path)], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        pytest.skip(f"no file system may be mounted here: {result.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
