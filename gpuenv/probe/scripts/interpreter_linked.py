"""Which CUDA the CuPy that is there is linked with; nothing is loaded.

Standard library only, and only syntax that old Pythons parse: ``interpreter.py`` imports it from beside itself.
"""

import os

from interpreter_cupy import cupy_modules
from library_files import needed_soname


def linked_modules():
    """Each package cupy on the path, with the CUDA major of its modules."""
    return [dict(told, cuda=linked_cuda(os.path.dirname(os.path.dirname(told["module"])))) for told in cupy_modules()]


def linked_cuda(folder):
    """The major, as a build from source, of a distribution or of conda does not tell it by its name.

    From CUDA 10.1 on cuBLAS bears it in its own (libcublas.so.12).
    """
    soname = needed_soname("cublas", folder)
    return int(soname.rsplit(".", 1)[1]) if soname else None
