"""Paths of the data files: in this folder in a wheel, elsewhere in a checkout."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent
_CHECKOUT = DATA.parents[1]
# Paths in a checkout that are not at its top level.
_IN_CHECKOUT = {"native": "tests/native", "machines": "tests/machines"}
# Written when gpuenv is built or installed, also in a checkout.
COMPILED_MATRIX = DATA / "matrix.json"
COMPILED_MESSAGES = DATA / "messages.json"


def data_path(name: str) -> Path:
    """Returns the path of ``matrix.yaml``, ``images``, ``machines`` or ``native``.

    Raises:
        FileNotFoundError: the installation is broken.
    """
    for path in (DATA / name, _CHECKOUT / _IN_CHECKOUT.get(name, name)):
        if path.exists():
            return path
    raise FileNotFoundError(f"{name} is missing from this installation of gpuenv; reinstall it")
