"""What is installed in a target environment, by its metadata: nothing is imported.

Standard library only, and only syntax that old Pythons parse: ``interpreter.py`` imports it from beside itself.
"""

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


def names_in(folder):
    """What is in a folder, in order; nothing where it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except (IOError, OSError):
        return []


def metadata_folders():
    """Every metadata folder on the path, each once, in the order in which imports would meet them."""
    seen = set()
    for entry in sys.path:
        # lib64 is often a link to lib, and both are on the path
        folder = os.path.realpath(entry or ".")
        if folder in seen:
            continue
        seen.add(folder)
        for name in names_in(folder):
            if name.endswith((".dist-info", ".egg-info")) and RELEVANT.match(name):
                yield os.path.join(folder, name)


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


def required(head):
    """What a distribution requires, by its metadata; what an extra alone requires is left out."""
    told = re.findall(r"^Requires-Dist: *([^\r\n]*)", head, re.M)
    return [text.strip() for text in told if "extra" not in text]


def conda_packages():
    """Name and version of every conda package that has to do with GPUs, by the names of its records."""
    found = {}
    for record in names_in(os.path.join(sys.prefix, "conda-meta")):
        match = re.match(r"(.+)-([^-]+)-[^-]+\.json$", record)  # NAME-VERSION-BUILD.json
        if match and RELEVANT.match(match.group(1) + "-0"):
            found[match.group(1).lower()] = match.group(2)
    return found


def needs_of_cupy():
    """What each distribution on the path needs of CuPy, by its own metadata; what an extra alone needs is left out."""
    found = []
    seen = set()
    for entry in sys.path:
        folder = os.path.realpath(entry or ".")
        if folder in seen:
            continue
        seen.add(folder)
        for name in names_in(folder):
            if name.endswith(".dist-info") and not name.startswith("cupy"):
                found.extend(needs_in(os.path.join(folder, name)))
    return found


def needs_in(folder):
    """The needs of one distribution."""
    head = read(os.path.join(folder, "METADATA")).split("\n\n", 1)[0]
    if "cupy" not in head:
        return []
    told = re.findall(r"^Requires-Dist: *(cupy[^\r\n]*)", head, re.M | re.I)
    name = re.search(r"^Name: *(\S+)", head, re.M)
    release = re.search(r"^Version: *(\S+)", head, re.M)
    if not name or not release:
        return []
    by = {"name": re.sub(r"[-_.]+", "-", name.group(1)).lower(), "release": release.group(1)}
    return [dict(by, requirement=text.strip()) for text in told if "extra" not in text]
