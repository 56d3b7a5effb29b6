"""Reads metadata of installed distributions with size limits, without blocking on special files."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

from gpuenv.files import NotRegularError, read_regular

_LARGEST = 64 * 1024 * 1024  # bytes; a README in the metadata may be long
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError, NotRegularError)


class BoundedDistribution(PathDistribution):
    """A distribution on disk; undecodable bytes are replaced, since metadata before 2018 has any encoding."""

    def __init__(self, path: Path) -> None:
        """``path`` is the metadata folder, or the single file of old formats."""
        super().__init__(path)
        self._folder = path

    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        """The text of a metadata file; None if there is no such regular file."""
        with suppress(*_ABSENT):
            return read_regular(self._folder / filename, _LARGEST).decode("utf-8", "replace").replace("\r\n", "\n")
        return None


def bounded(distribution: Distribution) -> Distribution:
    """The distribution with bounded reads; unchanged if it is in an archive or comes from another finder."""
    path = getattr(distribution, "_path", None)
    return BoundedDistribution(path) if isinstance(path, Path) else distribution
