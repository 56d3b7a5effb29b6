"""Metadata of distributions in files, as ``importlib.metadata`` knows them, read by who is kept waiting by nothing."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

from gpuenv.files import NotRegularError, read_regular

_LARGEST = 64 * 1024 * 1024  # bytes of a file of metadata, which may hold a whole manual
_NONE = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError, NotRegularError)


class BoundedDistribution(PathDistribution):
    """Metadata of before 2018 may be in any encoding; what matters of them is ASCII."""

    def __init__(self, path: Path) -> None:
        """Reads what is in a folder of metadata, or the one file that old ones are."""
        super().__init__(path)
        self._folder = path

    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        """A file of the metadata, as far as it can be read; None where there is no such file."""
        with suppress(*_NONE):
            return read_regular(self._folder / filename, _LARGEST).decode("utf-8", "replace").replace("\r\n", "\n")
        return None


def bounded(distribution: Distribution) -> Distribution:
    """The same distribution; what lies in an archive, or is known to another package's finder, stays as it is."""
    place = getattr(distribution, "_path", None)
    return BoundedDistribution(place) if isinstance(place, Path) else distribution
