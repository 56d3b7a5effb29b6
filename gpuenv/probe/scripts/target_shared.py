"""Functions shared by the scripts that run in a target: printing facts, reading files, the kind of environment.

Standard library only, and syntax that Python 2.7 and 3.6 parse: ``start.py`` puts this folder on the path.
"""

import json
import os
import re
import stat
import sys

LIMIT = 100000

# Names of distributions and conda packages that concern GPUs, by their beginning.
RELEVANT = re.compile(
    r"(cupy|numpy|scipy|nvidia|cuda|cudnn|cutensor|cuquantum|custatevec|cudensitymat|lib(cu|nv|nccl|raft|rmm)|nccl|nvtx"
    r"|torch|triton|jax|numba|tensorflow|tf[-_]nightly|pycuda|nvmath|onnxruntime|fastrlock|cudf|cuml|cugraph|cuspatial"
    r"|cuvs|cucim|cuxfilter|rmm|raft|pylib(raft|cugraph|cudf)|rapids|dask[-_]cu|ucx|kvikio|nx[-_]cugraph|(pip|uv|pytorch)-\d)",
    re.I,
)
MODULE_LIMIT = 1 << 28
SETTINGS = "pyvenv.cfg"
PROGRAMS = ("bin", "Scripts")


def emit(key, value):
    """Prints one fact and flushes, so that it survives a later crash or hang of this process.

    The fact starts a new line: a start-up hook may have printed a line without an end, even with our mark in it, or
    have replaced sys.stdout. Its output is flushed first: of two lines with the same fact, the later one counts.
    """
    for stream in (sys.stdout, sys.__stdout__):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001 - any object that a hook has put there
            pass
    line = ("\ngpuenv:" + json.dumps({key: value}) + "\n").encode("ascii")
    while line:
        line = line[os.write(1, line) :]


def kind():
    """The kind of environment: conda, venv or system."""
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        return "conda"
    base = getattr(sys, "real_prefix", None) or getattr(sys, "base_prefix", sys.prefix)
    return "venv" if base != sys.prefix else "system"


def install_folder(name):
    """A folder of sysconfig's scheme; None in a stripped Python without sysconfig."""
    try:
        import sysconfig
    except ImportError:
        return None
    return sysconfig.get_path(name)


def externally_managed():
    """Whether the system forbids installing into this environment (PEP 668)."""
    folder = install_folder("stdlib")
    return kind() == "system" and folder is not None and os.path.exists(os.path.join(folder, "EXTERNALLY-MANAGED"))


def names_in(folder):
    """The sorted names in a folder; empty if it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except (IOError, OSError):
        return []


def content(path, limit):
    """The beginning of a regular file, else empty; a FIFO does not block."""
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
    """The beginning of a metadata file as text; empty if it cannot be read."""
    return content(path, limit).decode("utf-8", "replace")


def needed_soname(name, folder):
    """The soname that CuPy's extension module needs, such as ``libnccl.so.2``; None without such a module."""
    libs = os.path.join(folder or "", "cupy_backends", "cuda", "libs")
    names = sorted(os.listdir(libs)) if os.path.isdir(libs) else []
    for module in [entry for entry in names if entry.split(".")[0] == name and entry.endswith(".so")]:
        text = content(os.path.join(libs, module), MODULE_LIMIT)
        found = re.search(b"\\0(lib" + name.encode("ascii") + b"\\.so\\.[0-9]{1,4})\\0", text, re.IGNORECASE)
        return found.group(1).decode("ascii") if found else None
    return None


def lost_environment():
    """The virtual environment that contains this interpreter, if Python ignores it because pyvenv.cfg is missing.

    An activation script and a folder of packages distinguish one from a folder such as /usr/local.
    """
    folder = environment_of(sys.executable or "")
    if folder is None or is_own(folder) or os.path.exists(os.path.join(folder, SETTINGS)):
        return None
    # Other tools have an ``activate`` too: that of venv, virtualenv and uv sets VIRTUAL_ENV.
    activates = any("VIRTUAL_ENV" in read(os.path.join(folder, name, "activate")) for name in PROGRAMS)
    packages = os.path.join(folder, "lib", "python%d.%d" % tuple(sys.version_info[:2]), "site-packages")
    return folder if activates and os.path.isdir(packages) else None


def environment_of(program):
    """The environment of a program, by the name of its folder; None outside ``bin`` and ``Scripts``."""
    folder, name = os.path.split(os.path.dirname(os.path.abspath(program)))
    return folder if name in PROGRAMS else None


def is_own(folder):
    """Whether a folder is this interpreter's environment."""
    return os.path.realpath(folder) in (os.path.realpath(sys.prefix), os.path.realpath(sys.exec_prefix))
