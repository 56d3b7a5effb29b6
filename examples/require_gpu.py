"""Ends an example with its explanation where CuPy or a GPU is missing; every example imports it first."""

import sys
from typing import NoReturn

import __main__


def _refuse(reason: str) -> NoReturn:
    sys.exit(f"{__main__.__doc__}\nNot run: {reason}")


try:
    import cupy as cp
except ImportError as error:
    _refuse(f"CuPy cannot be imported ({error}). gpuenv install installs the one that fits.")
try:
    cp.cuda.runtime.getDeviceCount()  # an error if there is none
except RuntimeError as error:
    _refuse(f"CuPy finds no GPU ({error}). gpuenv doctor says why.")
