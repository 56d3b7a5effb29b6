"""Facts that libcuda tells, through ctypes, with the caller's own environment. No CUDA context is created.

Run as a program by gpuenv's own interpreter. Prints one fact a line, see ``protocol.py``: what was told before a hang
or a crash is kept.
"""

from __future__ import annotations

import ctypes
import json
import sys

_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CUdevice_attribute


def tell(key: str, value: object) -> None:
    """Prints one fact at once, so that it survives whatever happens to this process next."""
    sys.stdout.write(f"gpuenv:{json.dumps({key: value})}\n")
    sys.stdout.flush()


def loaded_library() -> str | None:
    """The file behind libcuda in this process."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = [line.split(None, 5)[-1].strip() for line in file if "libcuda." in line]
    except OSError:
        return None
    return paths[0] if paths else None


def number(library: ctypes.CDLL, function: str, *arguments: int) -> int | None:
    """A call ``function(int *out, ...)``: what it wrote, or None where it failed or is not there."""
    out = ctypes.c_int(-1)
    call = getattr(library, function, None)
    if call is None or call(ctypes.byref(out), *arguments) != 0:
        return None
    return out.value


def error_name(library: ctypes.CDLL, code: int) -> str | None:
    """The library's own name for a CUresult."""
    name = ctypes.c_char_p()
    call = getattr(library, "cuGetErrorName", None)
    if call is None or call(code, ctypes.byref(name)) != 0 or name.value is None:
        return None
    return name.value.decode("ascii", "replace")


def buffer(library: ctypes.CDLL, function: str, device: int, size: int, *, with_size: bool) -> bytes | None:
    """A call that fills a buffer: with its length first for texts, without for the 16 bytes of a UUID."""
    out = ctypes.create_string_buffer(size)
    call = getattr(library, function, None)
    if call is None:
        return None
    code = call(out, size, device) if with_size else call(out, device)
    return out.raw if code == 0 else None


def text(raw: bytes | None) -> str | None:
    """The text in a filled buffer."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace") if raw else None


def uuid(library: ctypes.CDLL, device: int) -> str | None:
    """``GPU-…`` or, for a MIG instance, ``MIG-…``."""
    raw = buffer(library, "cuDeviceGetUuid_v2", device, 16, with_size=False) or buffer(
        library, "cuDeviceGetUuid", device, 16, with_size=False
    )
    if raw is None:
        return None
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def device(library: ctypes.CDLL, ordinal: int) -> dict[str, object]:
    """Everything about one CUDA device that needs no context."""
    handle = number(library, "cuDeviceGet", ordinal)
    if handle is None:
        return {"ordinal": ordinal}
    major = number(library, "cuDeviceGetAttribute", _CAPABILITY_MAJOR, handle)
    minor = number(library, "cuDeviceGetAttribute", _CAPABILITY_MINOR, handle)
    memory = ctypes.c_size_t(0)
    total = getattr(library, "cuDeviceTotalMem_v2", None)
    known = total is not None and total(ctypes.byref(memory), handle) == 0
    return {
        "ordinal": ordinal,
        "name": text(buffer(library, "cuDeviceGetName", handle, 256, with_size=True)),
        "pci": text(buffer(library, "cuDeviceGetPCIBusId", handle, 32, with_size=True)),
        "uuid": uuid(library, handle),
        "compute_capability": None if major is None or minor is None else f"{major}.{minor}",
        "memory_total": memory.value if known else None,
    }


def main() -> None:
    """Loads libcuda as CuPy would and tells what it says; a return code is a fact like any other."""
    tell("started", True)
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        # A file that is there and cannot be loaded (empty, of another architecture) is not an absent one.
        tell("absent" if "No such file" in str(error) else "unloadable", str(error))
        tell("done", True)
        return
    tell("library", loaded_library())
    tell("cuda", number(library, "cuDriverGetVersion"))
    code = library.cuInit(0)
    tell("init", code)
    tell("init_name", error_name(library, code))
    count = number(library, "cuDeviceGetCount") if code == 0 else None
    tell("count", count)
    for ordinal in range(min(count or 0, 1024)):
        tell(f"device.{ordinal}", device(library, ordinal))
    tell("done", True)


if __name__ == "__main__":
    main()
