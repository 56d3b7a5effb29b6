"""What the scripts share that run in a target: telling a fact, reading files, and what kind of environment it is.

Standard library only, and only syntax that Python 2.7 and 3.6 parse: ``start.py`` puts this folder on the path.
"""

import json
import os
import re
import stat
import sys

LIMIT = 100000

# What has to do with GPUs, by what the names of distributions and conda packages begin with.
RELEVANT = re.compile(
    r"(cupy|numpy|scipy|nvidia|cuda|cudnn|cutensor|cuquantum|custatevec|cudensitymat|lib(cu|nv|nccl|raft|rmm)|nccl|nvtx"
    r"|torch|triton|jax|numba|tensorflow|tf[-_]nightly|pycuda|nvmath|onnxruntime|fastrlock|cudf|cuml|cugraph|cuspatial"
    r"|cuvs|cucim|cuxfilter|rmm|raft|pylib(raft|cugraph|cudf)|rapids|dask[-_]cu|ucx|kvikio|nx[-_]cugraph|(pip|uv)-\d)",
    re.I,
)
MODULE_LIMIT = 1 << 28
SETTINGS = "pyvenv.cfg"
PROGRAMS = ("bin", "Scripts")


def tell(key, value):
    """Prints one fact at once, so that it survives whatever happens to this process next.

    It stands on a line of its own, whatever was printed before: a hook of the interpreter's may have left its line
    without an end, and may have said our name in it, or have put something else in the place of sys.stdout. What it has
    printed goes first: of two that tell the same fact, the later one counts.
    """
    for stream in (sys.stdout, sys.__stdout__):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001 - whatever a hook has put there
            pass
    left = ("\ngpuenv:" + json.dumps({key: value}) + "\n").encode("ascii")
    while left:
        left = left[os.write(1, left) :]


def kind():
    """conda, venv or system."""
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        return "conda"
    base = getattr(sys, "real_prefix", None) or getattr(sys, "base_prefix", sys.prefix)
    return "venv" if base != sys.prefix else "system"


def names_in(folder):
    """What is in a folder, in order; nothing where it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except (IOError, OSError):
        return []


def content(path, limit):
    """The beginning of a file, or nothing; a FIFO in its place is none, and keeps nobody waiting."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return b""
        with os.fdopen(descriptor, "rb") as file:
            return file.read(limit)
    except (IOError, OSError):
        return b""


def read(path, limit=LIMIT):
    """The beginning of a metadata file, or an empty text."""
    return content(path, limit).decode("utf-8", "replace")


def needed_soname(name, folder):
    """``libnccl.so.2``, as the extension module names it; None where this CuPy has no such module."""
    libs = os.path.join(folder or "", "cupy_backends", "cuda", "libs")
    names = sorted(os.listdir(libs)) if os.path.isdir(libs) else []
    for module in [entry for entry in names if entry.split(".")[0] == name and entry.endswith(".so")]:
        text = content(os.path.join(libs, module), MODULE_LIMIT)
        found = re.search(b"\\0(lib" + name.encode("ascii") + b"\\.so\\.[0-9]{1,4})\\0", text, re.IGNORECASE)
        return found.group(1).decode("ascii") if found else None
    return None


def lost_environment():
    """The virtual environment that this interpreter lies in, where Python takes another for want of its settings.

    What tools leave in one tells it from a folder such as /usr/local: the program that activates it, and packages.
    """
    folder = environment_of(sys.executable or "")
    if folder is None or is_own(folder) or os.path.exists(os.path.join(folder, SETTINGS)):
        return None
    # A program of this name may be anything's: that of venv, virtualenv and uv sets VIRTUAL_ENV.
    activates = any("VIRTUAL_ENV" in read(os.path.join(folder, name, "activate")) for name in PROGRAMS)
    packages = os.path.join(folder, "lib", "python%d.%d" % tuple(sys.version_info[:2]), "site-packages")
    return folder if activates and os.path.isdir(packages) else None


def environment_of(program):
    """The environment that a program lies in by its name: its folder is one of programs."""
    folder, name = os.path.split(os.path.dirname(os.path.abspath(program)))
    return folder if name in PROGRAMS else None


def is_own(folder):
    """Whether that is this interpreter's environment."""
    return os.path.realpath(folder) in (os.path.realpath(sys.prefix), os.path.realpath(sys.exec_prefix))
