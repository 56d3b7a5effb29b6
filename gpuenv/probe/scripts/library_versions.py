"""How the CUDA libraries tell their versions, each in its own form.

Standard library only, and only syntax that old Pythons parse: ``libraries.py`` imports it from beside itself.
"""

import ctypes

# How a library tells its version: three properties (major, minor, patch), a pair (major, minor) or one number.
ASKED = {
    "nvrtc": ("pair", "nvrtcVersion"),
    "cublas": ("property", "cublasGetProperty"),
    "cublasLt": ("property", "cublasLtGetProperty"),
    "cufft": ("property", "cufftGetProperty"),
    "curand": ("property", "curandGetProperty"),
    "cusolver": ("property", "cusolverGetProperty"),
    "cusparse": ("property", "cusparseGetProperty"),
    "cusparselt": ("property", "cusparseLtGetProperty"),
    "nvJitLink": ("pair", "nvJitLinkVersion"),
    "cudart": ("cuda", "cudaRuntimeGetVersion"),
    "nccl": ("nccl", "ncclGetVersion"),
    "cutensor": ("size", "cutensorGetVersion"),
}
FIRST_LONG = 10000  # NCCL 2.9 and later tell five digits, 20900


def release(name, handle):
    """A library's version as it tells it itself; None where it has no such function."""
    form, function = ASKED.get(name, (None, None))
    try:
        return FORMS[form](getattr(handle, function)) if function else None
    except AttributeError:
        return None


def told_properties(ask):
    """major.minor.patch, each asked for by itself (``libraryPropertyType``)."""
    parts = [ctypes.c_int(-1) for _ in range(3)]
    if any(ask(which, ctypes.byref(part)) for which, part in enumerate(parts)):
        return None
    return ".".join(str(part.value) for part in parts)


def told_pair(ask):
    """major.minor, both at once."""
    major, minor = ctypes.c_int(-1), ctypes.c_int(-1)
    failed = ask(ctypes.byref(major), ctypes.byref(minor))
    return None if failed else "%d.%d" % (major.value, minor.value)


def told_number(ask):
    """One number behind a pointer; None where it fails."""
    number = ctypes.c_int(-1)
    return None if ask(ctypes.byref(number)) or number.value < 0 else number.value


def told_cuda(ask):
    """12.9 of 12090."""
    number = told_number(ask)
    return None if number is None else "%d.%d" % (number // 1000, number % 1000 // 10)


def told_nccl(ask):
    """2.32.3 of 23203; before 2.9 the minor has one digit less."""
    number = told_number(ask)
    if number is not None and number < FIRST_LONG:
        return "%d.%d.%d" % (number // 1000, number % 1000 // 100, number % 100)
    return None if number is None else dotted(number)


def told_size(ask):
    """2.8.0 of the 20800 that is returned."""
    ask.restype = ctypes.c_size_t
    return dotted(ask())


def dotted(number):
    """2.32.3 of 23203."""
    return "%d.%d.%d" % (number // 10000, number % 10000 // 100, number % 100)


FORMS = {
    "property": told_properties,
    "pair": told_pair,
    "cuda": told_cuda,
    "nccl": told_nccl,
    "size": told_size,
}
