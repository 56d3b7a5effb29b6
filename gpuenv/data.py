"""Where the data files lie that travel with the program: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent
# Where a checkout has what is not at its top.
_ELSEWHERE = {"native": "tests/native", "machines": "tests/machines"}


def data_path(name: str) -> Path:
    """The path of ``matrix.yaml``, ``images``, ``machines`` or ``native``.

    Raises:
        FileNotFoundError: when neither place has it, which means a broken installation.
    """
    for place in (_PACKAGE / "data" / name, _PACKAGE.parent / _ELSEWHERE.get(name, name)):
        if place.exists():
            return place
    raise FileNotFoundError(f"{name} is missing from this installation of gpuenv; install it again")
