"""Lists the architectures that an NVRTC supports, and the PTX version it emits for each.

``nvrtc.py NVRTC BUILTINS``, the paths of the two libraries. NVRTC opens its builtins by name, so they are loaded
beforehand. No driver is needed.
"""

from __future__ import annotations

import ctypes
import json
import sys

_KERNEL = b'extern "C" __global__ void k(float *p) { p[threadIdx.x] *= 2.0f; }'


class NvrtcError(Exception):
    """An NVRTC call returned an error."""


def _call(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    code = getattr(library, name)(*arguments)
    if code:
        raise NvrtcError(f"{name} returned {code}")


def _supported(library: ctypes.CDLL) -> list[int]:
    count = ctypes.c_int()
    _call(library, "nvrtcGetNumSupportedArchs", ctypes.byref(count))
    found = (ctypes.c_int * count.value)()
    _call(library, "nvrtcGetSupportedArchs", found)
    return list(found)


def _ptx_version(library: ctypes.CDLL, arch: int) -> str:
    """The ``.version`` of the PTX for one architecture."""
    program = ctypes.c_void_p()
    _call(library, "nvrtcCreateProgram", ctypes.byref(program), _KERNEL, b"k.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture=compute_{arch}".encode())
    _call(library, "nvrtcCompileProgram", program, 1, options)
    size = ctypes.c_size_t()
    _call(library, "nvrtcGetPTXSize", program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    _call(library, "nvrtcGetPTX", program, text)
    _call(library, "nvrtcDestroyProgram", ctypes.byref(program))
    lines = text.value.decode("ascii", "replace").splitlines()
    return next((line.split()[1] for line in lines if line.startswith(".version")), "")


def main() -> None:
    """Prints one JSON object."""
    ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(sys.argv[1])
    major, minor = ctypes.c_int(), ctypes.c_int()
    _call(library, "nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
    archs = _supported(library)
    versions = sorted({_ptx_version(library, arch) for arch in archs})
    answer = {"cuda": f"{major.value}.{minor.value}", "archs": archs, "ptx": versions}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
