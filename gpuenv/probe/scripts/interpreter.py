"""Facts about a target environment, told by its own interpreter.

Standard library only, and only syntax that Python 2.7 and 3.6 parse, so that an old interpreter is told from a broken
one. Nothing is imported but what is needed to answer: distributions are read from their metadata. Prints one fact a
line, see ``protocol.py``; whatever else the interpreter prints (a chatty sitecustomize, say) does not matter.
"""

import json
import os
import re
import sys

# What has to do with GPUs, by what the names of distributions and conda packages begin with.
RELEVANT = re.compile(
    r"(cupy|numpy|scipy|nvidia|cuda|cudnn|cutensor|cuquantum|custatevec|cudensitymat|lib(cu|nv|nccl|raft|rmm)|nccl|nvtx"
    r"|torch|triton|jax|numba|tensorflow|tf[-_]nightly|pycuda|nvmath|onnxruntime|fastrlock|cudf|cuml|cugraph|cuspatial"
    r"|cuvs|cucim|cuxfilter|rmm|raft|pylib(raft|cugraph|cudf)|rapids|dask[-_]cu|ucx|kvikio|nx[-_]cugraph|(pip|uv)-\d)",
    re.I,
)
KERNEL_LIMIT = 100
CACHE_LIMIT = 200  # files of CuPy's cache whose owners are looked at
TRUE = ("1", "true", "yes", "on", "y", "t")


def tell(key, value):
    """Prints one fact at once, so that it survives whatever happens to this process next."""
    sys.stdout.write("gpuenv:" + json.dumps({key: value}) + "\n")
    sys.stdout.flush()


def version():
    """3.12.4, or 3.14.0t for a free-threaded build."""
    text = "%d.%d.%d" % tuple(sys.version_info[:3])
    try:
        import sysconfig

        return text + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")
    except ImportError:
        return text


def implementation():
    """cpython, pypy, ..."""
    if getattr(getattr(sys, "implementation", None), "name", None) == "cpython":
        return "cpython"
    import platform  # takes 3 ms to load

    return platform.python_implementation().lower()


def machine_platform():
    """linux-x86_64 and the like: what wheels for this interpreter are built for, a 32-bit or emulated one too."""
    try:
        import sysconfig

        return sysconfig.get_platform()
    except ImportError:
        return None


def libc():
    """glibc-2.36 or musl-1.2: the one this interpreter is linked with."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION")
        if text:
            return text.replace(" ", "-")
    except (AttributeError, ValueError, OSError):
        pass
    return musl()


def musl():
    """The musl this interpreter is linked with, by its loader's file name; the loader itself says the version."""
    try:
        with open("/proc/self/maps") as maps:
            loaders = sorted(set(re.findall(r"/\S*ld-musl-\S*", maps.read())))
    except (IOError, OSError):
        return None
    if not loaders:
        return None
    import subprocess

    child = subprocess.Popen([loaders[0]], stderr=subprocess.PIPE)
    found = re.search(r"Version (\d+\.\d+)", child.communicate()[1].decode("ascii", "replace"))
    return "musl-" + (found.group(1) if found else "1.0")


def kind():
    """conda, venv or system."""
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        return "conda"
    base = getattr(sys, "real_prefix", None) or getattr(sys, "base_prefix", sys.prefix)
    return "venv" if base != sys.prefix else "system"


def made_by():
    """The tool that made the environment, by the mark that it leaves.

    venv, virtualenv and uv write ``pyvenv.cfg``, the last two with a line of their own; conda writes a history, and
    pixi ``conda-meta/pixi`` or, older ones, ``pixi_env_prefix``: see pixi's documentation, Environments, "Environment
    Installation Metadata".
    """
    conda = os.path.join(sys.prefix, "conda-meta")
    if any(os.path.exists(os.path.join(conda, mark)) for mark in ("pixi", "pixi_env_prefix")):
        return "pixi"
    if os.path.exists(os.path.join(conda, "history")):
        return "conda"
    settings = read(os.path.join(sys.prefix, "pyvenv.cfg"))
    keys = {line.split("=")[0].strip().lower() for line in settings.split("\n")}
    for tool in ("uv", "virtualenv"):
        if tool in keys:
            return tool
    return "venv" if settings else None


def purelib():
    """The folder that packages are installed into."""
    try:
        import sysconfig

        return sysconfig.get_path("purelib")
    except ImportError:
        return None


def writable():
    """Whether this user may write where packages are installed; the next folder above, where it is yet to be made."""
    folder = purelib()
    while folder and not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return os.access(folder, os.W_OK) if folder else None


def user_site():
    """The folder of the user's own packages, where this interpreter imports from it."""
    import site

    if not getattr(site, "ENABLE_USER_SITE", None):
        return None
    folder = site.getusersitepackages()
    return folder if folder in sys.path else None


def externally_managed():
    """Whether the system forbids installing into this environment (PEP 668)."""
    try:
        import sysconfig

        folder = sysconfig.get_path("stdlib")
    except ImportError:
        return False
    return kind() == "system" and os.path.exists(os.path.join(folder, "EXTERNALLY-MANAGED"))


def metadata_folders():
    """Every metadata folder on the path, each once, in the order in which imports would meet them."""
    seen = set()
    for entry in sys.path:
        # lib64 is often a link to lib, and both are on the path
        folder = os.path.realpath(entry or ".")
        if folder in seen:
            continue
        seen.add(folder)
        try:
            names = sorted(os.listdir(folder))
        except (IOError, OSError):
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")) and RELEVANT.match(name):
                yield os.path.join(folder, name)


def read(path):
    """A metadata file, or an empty text."""
    try:
        with open(path, "rb") as file:
            return file.read(100000).decode("utf-8", "replace")
    except (IOError, OSError):
        return ""


def distributions():
    """Name, version, place and installer of every distribution that has to do with GPUs."""
    found = []
    for folder in metadata_folders():
        head = read(os.path.join(folder, "METADATA")) or read(os.path.join(folder, "PKG-INFO")) or read(folder)
        head = head.split("\n\n", 1)[0]
        name = re.search(r"^Name: *(\S+)", head, re.M)
        release = re.search(r"^Version: *(\S+)", head, re.M)
        if name and release:
            found.append(
                {
                    "name": re.sub(r"[-_.]+", "-", name.group(1)).lower(),
                    "release": release.group(1),
                    "location": os.path.dirname(folder),
                    "installer": read(os.path.join(folder, "INSTALLER")).strip() or None,
                    "tags": re.findall(r"^Tag: *(\S+)", read(os.path.join(folder, "WHEEL")), re.M),
                }
            )
    return found


def extension_suffixes():
    """How the file names of the extension modules that this interpreter loads end."""
    try:
        from importlib.machinery import EXTENSION_SUFFIXES
    except ImportError:
        import imp  # Python 2

        return [suffix for suffix, _, kind in imp.get_suffixes() if kind == imp.C_EXTENSION]
    return EXTENSION_SUFFIXES


def loads(names, suffixes):
    """Whether one of the files is an extension module for these suffixes; None where none is one for anybody."""
    modules = [name for name in names if name.endswith((".so", ".pyd"))]
    if not modules:
        return None
    return any(name[len(name.split(".")[0]) :] in suffixes for name in modules)


def cupy_modules():
    """Each folder on the path with a package cupy: its file, and whether this interpreter loads its extensions."""
    found = []
    for entry in sys.path:
        package = os.path.join(os.path.realpath(entry or "."), "cupy")
        module = os.path.join(package, "__init__.py")
        if os.path.isfile(module) and module not in [known["module"] for known in found]:
            core = os.path.join(package, "_core")
            names = os.listdir(core) if os.path.isdir(core) else []
            found.append({"module": module, "loads": loads(names, extension_suffixes())})
    return found


def cupy_module():
    """The file that ``import cupy`` would take, without importing it.

    From the folder where the command runs, as ``python -m``, ``python -c``, an interactive session and Jupyter begin
    their path; ``python script.py`` begins it with the script's folder, which nobody knows here. Under PYTHONSAFEPATH
    neither is on it.
    """
    find = finder()  # before the working folder is on the path, whose files are nobody's to run
    before = [] if getattr(sys.flags, "safe_path", False) else [os.getcwd()]
    saved = sys.path[:]
    sys.path[:0] = before
    try:
        path = find("cupy")
    finally:
        sys.path[:] = saved
    if path is None:
        return None
    folder, name = os.path.split(path)
    parent, package = os.path.split(folder)
    if name.startswith("__init__."):
        return os.path.join(os.path.realpath(parent), package, name)
    return os.path.join(os.path.realpath(folder), name)


def finder():
    """A function that tells the file of a module by the finders that an import would ask."""
    try:
        from importlib.util import find_spec
    except ImportError:
        return by_imp()  # Python 2

    def find(name):
        spec = find_spec(name)
        if spec is None:
            return None
        places = [] if spec.has_location else list(spec.submodule_search_locations or [])
        return spec.origin if spec.has_location else (places or [None])[0]

    return find


def by_imp():
    """The same for Python 2."""
    import imp

    def find(name):
        try:
            path = imp.find_module(name)[1]
        except ImportError:
            return None
        return os.path.join(path, "__init__.py") if os.path.isdir(path) else path

    return find


def kernels():
    """The kernels of Jupyter's that are offered here, with the interpreter that each starts.

    Its folders: JUPYTER_PATH, the user's, the environment's (Jupyter's documentation, Common Directories and File
    Locations, "Data files").
    """
    told = [entry for entry in os.environ.get("JUPYTER_PATH", "").split(os.pathsep) if entry]
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    user = os.environ.get("JUPYTER_DATA_DIR") or os.path.join(data, "jupyter")
    found = {}
    for folder in told + [user, os.path.join(sys.prefix, "share", "jupyter")]:
        place = os.path.join(folder, "kernels")
        for name in sorted(os.listdir(place))[:KERNEL_LIMIT] if os.path.isdir(place) else []:
            executable = kernel_executable(os.path.join(place, name, "kernel.json"))
            if executable:
                found.setdefault(name.lower(), executable)
    return [{"name": name, "executable": found[name]} for name in sorted(found)]


def kernel_executable(path):
    """The program that a kernel's specification starts; None where that is not to be understood."""
    try:
        words = json.loads(read(path)).get("argv")
    except (ValueError, AttributeError):
        return None
    return words[0] if isinstance(words, list) and words and isinstance(words[0], type("")) else None


def conda_packages():
    """Name and version of every conda package that has to do with GPUs, by the names of its records."""
    try:
        records = sorted(os.listdir(os.path.join(sys.prefix, "conda-meta")))
    except (IOError, OSError):
        return {}
    found = {}
    for record in records:
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
        if folder in seen or not os.path.isdir(folder):
            continue
        seen.add(folder)
        for name in sorted(os.listdir(folder)):
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


def kernel_cache():
    """The folder of CuPy's compiled kernels, as cupy/cuda/compiler.py of 14.2.0 has it; None where memory serves."""
    if os.environ.get("CUPY_CACHE_IN_MEMORY", "").lower() in TRUE:
        return None
    default = os.path.join(os.path.expanduser("~"), ".cupy", "kernel_cache")
    return os.path.abspath(os.environ.get("CUPY_CACHE_DIR", default))


def kernel_cache_fault():
    """Why this user cannot write there; None where nothing stands in the way."""
    folder = kernel_cache()
    if folder is None:
        return None
    place = folder
    while not os.path.lexists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)  # CuPy makes what is missing
    if not os.path.isdir(place):
        return place + " is no folder"
    if not os.access(place, os.W_OK | os.X_OK):
        return place + " may not be written by this user"
    try:
        room = os.statvfs(place)
    except (AttributeError, OSError):
        return None
    if room.f_blocks and not room.f_bavail:
        return "the file system of " + place + " is full"
    return None


def kernel_cache_owners():
    """How many other users own the folder or what lies in it; None where there is none yet, or users are not told."""
    folder = kernel_cache()
    if folder is None or not os.path.isdir(folder) or not hasattr(os, "geteuid"):
        return None
    names = sorted(os.listdir(folder))[:CACHE_LIMIT] if os.access(folder, os.R_OK) else []
    paths = [folder] + [os.path.join(folder, name) for name in names]
    return len({os.lstat(path).st_uid for path in paths if os.path.lexists(path)} - {os.geteuid()})


def main():
    """Tells every fact; one that cannot be had does not keep the next one back."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    facts = [
        ("python", version),
        ("implementation", implementation),
        ("executable", lambda: sys.executable),
        ("prefix", lambda: sys.prefix),
        ("kind", kind),
        ("platform", machine_platform),
        ("libc", libc),
        ("made_by", made_by),
        ("externally_managed", externally_managed),
        ("distributions", distributions),
        ("conda_packages", conda_packages),
        ("writable", writable),
        ("user_site", user_site),
        ("cupy_modules", cupy_modules),
        ("cupy_module", cupy_module),
        ("kernels", kernels),
        ("needs_of_cupy", needs_of_cupy),
        ("kernel_cache", kernel_cache),
        ("kernel_cache_fault", kernel_cache_fault),
        ("kernel_cache_owners", kernel_cache_owners),
    ]
    for key, ask in facts:
        try:
            tell(key, ask())
        except Exception as error:  # noqa: BLE001 - someone else's interpreter: whatever it raises is an answer
            tell("failed." + key, repr(error))
    tell("done", True)


if __name__ == "__main__":
    main()
