"""Selects the matrix in use: the named one, else the newest of the shipped one and those in the user's data folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from gpuenv.data import COMPILED_MATRIX, data_path
from gpuenv.files import checksum_of, is_file, own_folder, read_regular, updated_matrix, user_matrix
from gpuenv.matrix.load import load
from gpuenv.matrix.tables import Matrix
from gpuenv.model.strings import parse_integer, pattern

_REVISION = pattern(r"""(?m)^(?:revision|\{\s*"schema":[^,]*,\s*"revision"):[ '"]*([^'"\n]*)""")  # YAML, JSON


class MatrixFile(NamedTuple):
    """The file of the matrix in use; ``is_own``: whether it is one of the user's data folder, which was not named."""

    path: Path
    is_own: bool

    @property
    def remedy(self) -> str | None:
        """What to do if a matrix that was not named cannot be used."""
        text = f"this is your own matrix, {self.path}; remove it to use the one shipped with gpuenv"
        return text if self.is_own else None


def find_matrix(path: Path | None, environment: Mapping[str, str], notify: Callable[[str], None]) -> MatrixFile:
    """The named matrix, else the newest of the user's own and the shipped one; the user's own goes first.

    A matrix of the user's data folder that others can change is not used; ``notify`` receives a message about it.
    """
    if path is not None:
        return MatrixFile(path, is_own=False)
    shipped = data_path("matrix.yaml")
    found = (user_matrix(environment), updated_matrix(environment))
    own = [file for file in found if file and is_file(file) and own_folder(file, notify)]
    chosen = max((*own, shipped), key=_revision) if own else shipped
    return MatrixFile(chosen, is_own=chosen != shipped)


def read_matrix(file: MatrixFile, *, from_yaml: bool = False) -> Matrix:
    """Reads the matrix; ``from_yaml`` reads and validates the file itself instead of the compiled matrix.

    Raises:
        MatrixError: with every fault found.
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    if from_yaml:
        return load(file.path)
    return load(file.path, compiled=COMPILED_MATRIX, validated=_stored_checksum(file.path) if file.is_own else None)


def _revision(path: Path) -> str:
    """The revision in the first 4096 characters of a matrix; empty for a broken one, which is then not used."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            head = file.read(4096)
    except OSError:
        return ""
    found = _REVISION.search(head)
    return found[1].strip() if found else ""


def _stored_checksum(path: Path) -> int | None:
    """The checksum that ``matrix update`` stores next to a matrix that it validated."""
    try:
        return parse_integer(read_regular(checksum_of(path), 32).decode("ascii", "replace").strip())
    except (OSError, ValueError):
        return None
