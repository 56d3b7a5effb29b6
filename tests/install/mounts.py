"""Folders on file systems of their own, small or read-only."""

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
def mounted(where: Path, *options: str) -> Iterator[Path]:
    """A file system of its own, or a file of one; skips the test where none may be mounted."""
    if not where.exists():
        where.mkdir()
    done = subprocess.run(["mount", *options, str(where)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)
