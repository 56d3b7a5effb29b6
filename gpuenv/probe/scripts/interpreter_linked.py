"""Which CUDA the CuPy that is there is linked with, where its name does not tell; nothing is loaded.

Standard library only, and only syntax that old Pythons parse: ``interpreter.py`` imports it from beside itself.
"""

from interpreter_distributions import distributions
from library_files import needed_soname

# CuPy as its user, a distribution or conda has built it.
BUILT = ("cupy", "cupy-core")


def linked_distributions():
    """Every distribution that has to do with GPUs, with the CUDA major of a CuPy that was built elsewhere."""
    found = distributions()
    return [dict(told, cuda_major=linked_cuda(told["location"]) if told["name"] in BUILT else None) for told in found]


def linked_cuda(folder):
    """The CUDA major that the modules below a folder are linked with.

    From CUDA 10.1 on cuBLAS bears it in its own (libcublas.so.12).
    """
    soname = needed_soname("cublas", folder)
    return int(soname.rsplit(".", 1)[1]) if soname else None
