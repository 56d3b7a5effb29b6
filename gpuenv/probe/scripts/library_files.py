"""What files say of the CUDA libraries: which are mapped, which a module of CuPy's needs, which headers are met.

Standard library only, and only syntax that old Pythons parse: ``libraries.py`` imports it from beside itself.
"""

import os
import re
import struct

from interpreter_packages import content

HEADER_LIMIT = 4000000
LARGEST = 1 << 31  # bytes; a library of CUDA's that the loader does not name whole is smaller
LOAD = 1  # PT_LOAD of elf.h
NOEXEC = 8  # ST_NOEXEC of sys/statvfs.h; old Pythons do not name it
MODULE_LIMIT = 1 << 28


def mapped_files():
    """Every file that this process has mapped, by a name that is a file's whatever the locale's encoding is."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            paths = [line.split(None, 5)[-1].strip() for line in maps if b"/" in line]
    except (IOError, OSError):
        return []
    return [os.fsdecode(path) for path in paths] if hasattr(os, "fsdecode") else paths  # Python 2 has none


def mapped(soname):
    """The file that this process has mapped under a soname, or under a name that begins with it."""
    for path in mapped_files():
        if os.path.basename(path).startswith(soname):
            return path
    return None


def refusal(text):
    """The loader's words, and what they leave out where it could not map a file: how that is mounted, and the limit."""
    found = re.search(r"([^:]*): (failed to map segment|cannot allocate memory(?! in static TLS))", text)
    if found is None:
        return text
    path = found.group(1).strip()
    return text + "".join(" [" + told + "]" for told in (mount_option(path), limit_of_memory(path)) if told)


def mount_option(path):
    """That nothing may be executed on the file system of a file; None where it may, or the file is not named whole."""
    try:
        return "its file system is mounted noexec" if os.statvfs(path).f_flag & NOEXEC else None
    except OSError:
        return None


def limit_of_memory(path):
    """How much this process may map, where a file and as much beside it would not find room; None where they would."""
    try:
        import resource
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    no_limit = limit == resource.RLIM_INFINITY
    return (
        None if no_limit or has_room(2 * (size_in_memory(path) or LARGEST)) else "ulimit -v is %d KiB" % (limit // 1024)
    )


def has_room(size):
    """Whether this process may map so much more, of which nothing is touched."""
    import mmap

    try:
        mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ).close()
    except (EnvironmentError, OverflowError, ValueError):
        return False
    return True


def size_in_memory(path):
    """How far the segments of a 64-bit ELF file reach, which may be beyond its size; 0 where nobody knows."""
    try:
        with open(path, "rb") as file:
            header = file.read(64)
            first, size, count = struct.unpack("<32xQ14xHH6x", header)
            file.seek(first)
            entries = [struct.unpack("<I12xQ16xQ8x", file.read(size)) for _ in range(count)]
    except (EnvironmentError, struct.error):
        return 0
    return max([start + length for kind, start, length in entries if kind == LOAD] or [0])


def needed_soname(name, folder):
    """``libnccl.so.2``, as the extension module names it; None where this CuPy has no such module."""
    libs = os.path.join(folder or "", "cupy_backends", "cuda", "libs")
    names = sorted(os.listdir(libs)) if os.path.isdir(libs) else []
    for module in [entry for entry in names if entry.split(".")[0] == name and entry.endswith(".so")]:
        text = content(os.path.join(libs, module), MODULE_LIMIT)
        found = re.search(b"\\0(lib" + name.encode("ascii") + b"\\.so\\.[0-9]{1,4})\\0", text, re.IGNORECASE)
        return found.group(1).decode("ascii") if found else None
    return None


def headers_version(folders):
    """What the headers that are met first say of their version, and in which folder."""
    for folder in folders:
        runtime = defined(os.path.join(folder, "cuda_runtime_api.h"), "CUDART_VERSION")
        driver = defined(os.path.join(folder, "cuda.h"), "CUDA_VERSION")
        if runtime is not None or driver is not None:
            return {"folder": folder, "runtime": runtime, "driver": driver}
    return None


def defined(path, name):
    """The number that a header defines a name as."""
    text = content(path, HEADER_LIMIT)
    found = re.search(b"^\\s*#\\s*define\\s+" + name.encode("ascii") + b"\\s+([0-9]{1,9})(?![0-9])", text, re.M)
    return int(found.group(1)) if found else None
