"""The data files that travel with the program: in this folder in a wheel, elsewhere in a checkout."""

from __future__ import annotations

from pathlib import Path

_DATA = Path(__file__).parent
_CHECKOUT = _DATA.parents[1]
# Where a checkout has what is not at its top.
_IN_CHECKOUT = {"native": "tests/native", "machines": "tests/machines"}
# Written when gpuenv is built or installed, in a checkout too.
COMPILED_MATRIX = _DATA / "matrix.json"


def data_path(name: str) -> Path:
    """The path of ``matrix.yaml``, ``images``, ``machines`` or ``native``.

    Raises:
        FileNotFoundError: when neither place has it, which means a broken installation.
    """
    for path in (_DATA / name, _CHECKOUT / _IN_CHECKOUT.get(name, name)):
        if path.exists():
            return path
    raise FileNotFoundError(f"{name} is missing from this installation of gpuenv; install it again")
