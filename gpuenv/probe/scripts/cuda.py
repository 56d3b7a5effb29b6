"""Facts that libcuda tells, through ctypes, with the caller's own environment. No CUDA context is created.

Run by gpuenv's own interpreter. Prints one fact a line, see ``protocol.py``: what was told before a hang
or a crash is kept, and ``asking`` names the call that did not come back. A number that no GPU can have is no answer.
"""

from __future__ import annotations

import ctypes

from shared import make_none, mapped_file, tell

_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CUdevice_attribute
_MOST_DEVICES, _MOST_CAPABILITY, _MOST_BYTES, _MOST_LEVEL = 1024, 99, 1 << 50, 1_000_000


def is_absence(message: str) -> bool:
    """Whether the loader finds no libcuda: a file that is there and cannot be loaded is not an absent one.

    It may be empty, of another architecture, or need a library that is not there: glibc's message begins with the name
    of the one missing, musl's names it and then who needs it.
    """
    return "No such file" in message and "libcuda.so.1" in message.partition("(needed by")[0]


def within(value: int | None, most: int, least: int = 0) -> int | None:
    """The number, or None where it makes no sense."""
    return value if value is not None and least <= value <= most else None


class Library:
    """The library, and what is being asked about.

    Attributes:
        about: how it is named beside the call in hand.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.about = ""

    def call(self, function: str, *arguments: object) -> int | None:
        """A call's CUresult; None where the library has no such function."""
        found = getattr(self._library, function, None)
        if found is None:
            return None
        tell("asking", function + self.about)
        return int(found(*arguments))

    def number(self, function: str, *arguments: int) -> int | None:
        """A call ``function(int *out, ...)``: what it wrote, or None where it failed or is not there."""
        out = ctypes.c_int(-1)
        return out.value if self.call(function, ctypes.byref(out), *arguments) == 0 else None

    def error_name(self, code: int | None) -> str | None:
        """The library's own name for a CUresult."""
        name = ctypes.c_char_p()
        if code is None or self.call("cuGetErrorName", code, ctypes.byref(name)) != 0 or name.value is None:
            return None
        return name.value[:256].decode("ascii", "replace")

    def text(self, function: str, device: int, size: int) -> str | None:
        """A call that fills a buffer with a text; one that does not end is none."""
        out = ctypes.create_string_buffer(b"\xff" * (size + 1))
        if self.call(function, out, size, device) != 0:
            return None
        found, end, _ = out.raw[:size].partition(b"\0")
        return found.decode("utf-8", "replace") if found and end else None


def describe(library: Library, ordinal: int) -> None:
    """Everything about one CUDA device that needs no context, each fact told as soon as it is known."""
    library.about = f" of device {ordinal}"
    device = f"device.{ordinal}"
    tell(f"{device}.ordinal", ordinal)
    handle = library.number("cuDeviceGet", ordinal)
    if handle is None:
        return
    tell(f"{device}.pci", library.text("cuDeviceGetPCIBusId", handle, 32))
    # The bare digits, in groups; those of a MIG instance where the process sees one.
    out = ctypes.create_string_buffer(16)
    has_uuid = any(library.call(name, out, handle) == 0 for name in ("cuDeviceGetUuid_v2", "cuDeviceGetUuid"))
    digits = out.raw.hex()
    groups = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    tell(f"{device}.uuid", "-".join(groups) if has_uuid else None)
    tell(f"{device}.name", library.text("cuDeviceGetName", handle, 256))
    major = within(library.number("cuDeviceGetAttribute", _CAPABILITY_MAJOR, handle), _MOST_CAPABILITY, 1)
    minor = within(library.number("cuDeviceGetAttribute", _CAPABILITY_MINOR, handle), _MOST_CAPABILITY)
    tell(f"{device}.compute_capability", None if major is None or minor is None else f"{major}.{minor}")
    memory = ctypes.c_size_t(0)
    has_memory = library.call("cuDeviceTotalMem_v2", ctypes.byref(memory), handle) == 0
    tell(f"{device}.memory_total", within(memory.value, _MOST_BYTES, 1) if has_memory else None)


def main() -> None:
    """Loads libcuda as CuPy would and tells what it says; a return code is a fact like any other."""
    tell("started", True)
    make_none()
    try:
        library = Library(ctypes.CDLL("libcuda.so.1"))
    except OSError as error:
        tell("absent" if is_absence(str(error)) else "unloadable", str(error))
        tell("done", True)
        return
    tell("library", mapped_file("libcuda.so"))
    tell("cuda", within(library.number("cuDriverGetVersion"), _MOST_LEVEL, 1))
    code = library.call("cuInit", 0)
    if code is None:
        tell("unloadable", "libcuda.so.1 has no cuInit")
        tell("done", True)
        return
    tell("init", code)
    tell("init_name", library.error_name(code))
    count = within(library.number("cuDeviceGetCount"), _MOST_DEVICES) if code == 0 else None
    tell("count", count)
    for ordinal in range(count or 0):
        describe(library, ordinal)
    tell("done", True)
