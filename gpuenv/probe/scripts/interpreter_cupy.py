"""Which CuPy and NumPy a target's interpreter would import, and where CuPy keeps its kernels; nothing is imported.

Standard library only, and only syntax that old Pythons parse: ``interpreter.py`` imports it from beside itself.
"""

import os
import sys

CACHE_LIMIT = 200  # files of CuPy's cache whose owners are looked at
TRUE = ("1", "true", "yes", "on", "y", "t")


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
    """The file that ``import cupy`` would take."""
    return taken("cupy")


def numpy_module():
    """The file that ``import numpy`` would take."""
    return taken("numpy")


def pathfinder_hidden_by():
    """The module named cuda that hides cuda.pathfinder wherever that lies; None where none does.

    A module, or a package with an __init__.py, ends the search: what lies elsewhere under that name is not looked at.
    """
    module = taken("cuda")
    if module is None or not module.endswith((".py", ".pyc", ".so")):
        return None
    folder, name = os.path.split(module)
    if name.startswith("__init__.") and os.path.isdir(os.path.join(folder, "pathfinder")):
        return None
    return module


def numpy_fault():
    """Why that is no NumPy that this interpreter can import; None where nothing speaks against it."""
    module = numpy_module()
    if module is None:
        return None
    folder, name = os.path.split(module)
    cores = [os.path.join(folder, core) for core in ("_core", "core") if os.path.isdir(os.path.join(folder, core))]
    known = cores or os.path.exists(os.path.join(folder, "version.py")) or installed_there("numpy", folder)
    if not name.startswith("__init__.") or not known:
        return module + " is taken for it"
    verdicts = [loads(os.listdir(core), extension_suffixes()) for core in cores]
    if False in verdicts and True not in verdicts:
        return "the one in " + folder + " is for another interpreter"
    return None


def installed_there(name, folder):
    """Whether the metadata of a distribution of that name lie beside a package."""
    beside = os.listdir(os.path.dirname(folder))
    return any(entry.startswith(name + "-") and entry.endswith(("-info", ".egg")) for entry in beside)


def taken(name):
    """The file that an import of this name would take, without importing it.

    From the folder where the command runs, as ``python -m``, ``python -c``, an interactive session and Jupyter begin
    their path; ``python script.py`` begins it with the script's folder, which nobody knows here. Under PYTHONSAFEPATH
    neither is on it.
    """
    find = finder()  # before the working folder is on the path, whose files are nobody's to run
    before = [] if getattr(sys.flags, "safe_path", False) else [os.getcwd()]
    saved = sys.path[:]
    sys.path[:0] = before
    try:
        path = find(name)
    finally:
        sys.path[:] = saved
    if path is None:
        return None
    folder, file = os.path.split(path)
    parent, package = os.path.split(folder)
    if file.startswith("__init__."):
        return os.path.join(os.path.realpath(parent), package, file)
    return os.path.join(os.path.realpath(folder), file)


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


def kernel_cache():
    """The folder of CuPy's compiled kernels, as cupy/cuda/compiler.py of 14.2.0 has it; None where memory serves."""
    if os.environ.get("CUPY_CACHE_IN_MEMORY", "").lower() in TRUE:
        return None
    default = os.path.join(os.path.expanduser("~"), ".cupy", "kernel_cache")
    return os.path.abspath(os.environ.get("CUPY_CACHE_DIR", default))


def kernel_cache_fault():
    """Why this user cannot write there; None where nothing stands in the way.

    CuPy makes the folder by os.makedirs, which refuses an empty name (cupy/cuda/_compiler_cache.py of 14.2.0).
    """
    folder = kernel_cache()
    if folder is None:
        return None
    if os.environ.get("CUPY_CACHE_DIR") == "":
        return "CUPY_CACHE_DIR is set, and names no folder"
    return folder_fault(folder)


def folder_fault(folder):
    """Why this user cannot write in a folder, or make it."""
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
    return temporary_fault(temporary_places())


def temporary_places():
    """Where Python's ``tempfile`` would make temporary files, in its order."""
    named = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    return named + ["/tmp", "/var/tmp", "/usr/tmp", os.getcwd()]  # noqa: S108 - looked at, not used


def temporary_fault(places):
    """Why a source cannot be put aside while it is compiled: cupy/cuda/compiler.py makes a temporary folder for it.

    ``tempfile`` tries them by writing, which is not done here.
    """
    if os.name != "posix" or any(os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK) for place in places):
        return None
    return "there is no folder for temporary files: none of " + ", ".join(places) + " may be written by this user"


def kernel_cache_owners():
    """How many other users own the folder or what lies in it; None where there is none yet, or users are not told."""
    folder = kernel_cache()
    if folder is None or not os.path.isdir(folder) or not hasattr(os, "geteuid"):
        return None
    names = sorted(os.listdir(folder))[:CACHE_LIMIT] if os.access(folder, os.R_OK) else []
    paths = [folder] + [os.path.join(folder, name) for name in names]
    return len({os.lstat(path).st_uid for path in paths if os.path.lexists(path)} - {os.geteuid()})
