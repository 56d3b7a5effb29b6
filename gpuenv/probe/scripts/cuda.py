"""Queries libcuda through ctypes, in the caller's environment. No CUDA context is created.

Run by gpuenv's own interpreter. Prints one fact per line, see ``protocol.py``: facts printed before a hang or a crash
are kept, and ``calling`` names the call that did not return. Numbers that no GPU can have are dropped.
"""

from __future__ import annotations

import ctypes

from shared import emit, forbid_device_nodes, is_absence, mapped_file

_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CUdevice_attribute
_LIBRARY = "libcuda.so.1"
_MOST_DEVICES, _MOST_CAPABILITY, _MOST_BYTES, _MOST_LEVEL = 1024, 99, 1 << 50, 1_000_000


def within(value: int | None, most: int, least: int = 0) -> int | None:
    """The value if it is in range, else None."""
    return value if value is not None and least <= value <= most else None


class CudaDriver:
    """Calls libcuda's functions."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.about = ""  # names the device of the current call, such as `` of device 0``

    def call(self, function: str, *arguments: object) -> int | None:
        """Calls a function and returns its CUresult; None if the library lacks it."""
        found = getattr(self._library, function, None)
        if found is None:
            return None
        emit("calling", function + self.about)
        return int(found(*arguments))

    def number(self, function: str, *arguments: int) -> int | None:
        """The output of ``function(int *out, ...)``; None if the call fails or is missing."""
        out = ctypes.c_int(-1)
        return out.value if self.call(function, ctypes.byref(out), *arguments) == 0 else None

    def error_name(self, code: int | None) -> str | None:
        """The library's own name for a CUresult."""
        name = ctypes.c_char_p()
        if code is None or self.call("cuGetErrorName", code, ctypes.byref(name)) != 0 or name.value is None:
            return None
        return name.value[:256].decode("ascii", "replace")

    def text(self, function: str, device: int, size: int) -> str | None:
        """The text that a call writes into a buffer; None without a terminating NUL."""
        out = ctypes.create_string_buffer(b"\xff" * (size + 1))
        if self.call(function, out, size, device) != 0:
            return None
        found, end, _ = out.raw[:size].partition(b"\0")
        return found.decode("utf-8", "replace") if found and end else None


def describe(library: CudaDriver, ordinal: int) -> None:
    """Prints every fact about one CUDA device that needs no context, each as soon as it is known."""
    library.about = f" of device {ordinal}"
    device = f"device.{ordinal}"
    emit(f"{device}.ordinal", ordinal)
    handle = library.number("cuDeviceGet", ordinal)
    if handle is None:
        return
    emit(f"{device}.pci", library.text("cuDeviceGetPCIBusId", handle, 32))
    # Digits only; those of the MIG instance if the process sees one.
    out = ctypes.create_string_buffer(16)
    has_uuid = any(library.call(name, out, handle) == 0 for name in ("cuDeviceGetUuid_v2", "cuDeviceGetUuid"))
    digits = out.raw.hex()
    groups = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    emit(f"{device}.uuid", "-".join(groups) if has_uuid else None)
    emit(f"{device}.name", library.text("cuDeviceGetName", handle, 256))
    major = within(library.number("cuDeviceGetAttribute", _CAPABILITY_MAJOR, handle), _MOST_CAPABILITY, 1)
    minor = within(library.number("cuDeviceGetAttribute", _CAPABILITY_MINOR, handle), _MOST_CAPABILITY)
    emit(f"{device}.compute_capability", None if major is None or minor is None else f"{major}.{minor}")
    memory = ctypes.c_size_t(0)
    has_memory = library.call("cuDeviceTotalMem_v2", ctypes.byref(memory), handle) == 0
    emit(f"{device}.memory_total", within(memory.value, _MOST_BYTES, 1) if has_memory else None)


def main() -> None:
    """Loads libcuda as CuPy would and prints what it reports; a return code is a fact like any other."""
    emit("started", True)
    forbid_device_nodes()
    try:
        library = CudaDriver(ctypes.CDLL(_LIBRARY))
    except OSError as error:
        emit("absent" if is_absence(str(error), _LIBRARY) else "unloadable", str(error))
        emit("done", True)
        return
    emit("library", mapped_file("libcuda.so"))
    emit("cuda", within(library.number("cuDriverGetVersion"), _MOST_LEVEL, 1))
    code = library.call("cuInit", 0)
    if code is None:
        emit("unloadable", f"{_LIBRARY} has no cuInit")
        emit("done", True)
        return
    emit("init", code)
    emit("init_name", library.error_name(code))
    count = within(library.number("cuDeviceGetCount"), _MOST_DEVICES) if code == 0 else None
    emit("count", count)
    for ordinal in range(count or 0):
        describe(library, ordinal)
    emit("done", True)
