"""Prints the facts of a target environment, run by its own interpreter: ``start.py interpreter``.

Standard library only, and syntax that Python 2.7 and 3.6 parse, to distinguish an old interpreter from a broken one.
Imports as little as possible: distributions are read from their metadata. Prints one fact per line, see
``protocol.py``; other output of the interpreter, such as a sitecustomize's, is ignored.
"""

import json
import os
import re
import sys

from target_shared import (
    RELEVANT,
    SETTINGS,
    emit,
    environment_of,
    externally_managed,
    install_folder,
    is_own,
    kind,
    lost_environment,
    names_in,
    needed_soname,
    read,
)

KERNEL_LIMIT = 100
CACHE_LIMIT = 200  # files of CuPy's cache whose owners are checked
TRUE = ("1", "true", "yes", "on", "y", "t")
BUILT = ("cupy", "cupy-core")
ROWS = 100000
NO_TEXT = b"\xef\xbf\xbd".decode("utf-8")  # replaces bytes that are not UTF-8; Python 2 has no \u in str
LARGEST = 32000000  # bytes of a RECORD: a large framework's has 2 million
SAFE_PATH = 2  # the index of this argument
LINKS = 40  # the kernel's own limit
# The environments of a project, as uv, poetry, PyCharm and pixi create them.
IN_PROJECTS = (".venv", "venv", "env", os.path.join(".pixi", "envs", "default"))


# The interpreter and its environment


def working_folder():
    """The caller's working folder, the first argument; this process has another one."""
    return sys.argv[1] if len(sys.argv) > 1 else os.getcwd()


def has_safe_path():
    """Whether the caller keeps the working folder off the import path: the second argument is PYTHONSAFEPATH."""
    if len(sys.argv) > SAFE_PATH:
        return hasattr(sys.flags, "safe_path") and bool(sys.argv[SAFE_PATH])
    return getattr(sys.flags, "safe_path", False)


def version():
    """The version, such as 3.12.4, or 3.14.0t for a free-threaded build."""
    text = "%d.%d.%d" % tuple(sys.version_info[:3])
    try:
        import sysconfig

        return text + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")
    except ImportError:
        return text


def path():
    """The import path without entries that are no text, which the import system skips too."""
    return [entry for entry in sys.path if isinstance(entry, type("")) and is_json(entry)]


def is_json(entry):
    """Whether a text can be printed as JSON: under Python 2, one may not be UTF-8."""
    try:
        return bool(json.dumps(entry))
    except ValueError:
        return False


def prefix_identity():
    """Device and inode of the environment's folder, by which another process knows that it sees the same one."""
    found = os.stat(sys.prefix)
    return [found.st_dev, found.st_ino]


def implementation():
    """The implementation, such as cpython or pypy."""
    if getattr(getattr(sys, "implementation", None), "name", None) == "cpython":
        return "cpython"
    import platform  # takes 3 ms to load

    return platform.python_implementation().lower()


def machine_platform():
    """The platform of this interpreter's wheels, such as linux-x86_64; that of a 32-bit or emulated one differs."""
    import sysconfig

    return sysconfig.get_platform()


def libc():
    """The C library that this interpreter is linked with, such as glibc-2.36 or musl-1.2."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION")
        if text:
            return text.replace(" ", "-")
    except (AttributeError, ValueError, OSError):
        pass
    # musl is recognised by its loader's file name; the loader prints the version.
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


def made_by():
    """The tool that created the environment, by its marker files.

    venv, virtualenv and uv write ``pyvenv.cfg``, the last two with a line of their own; conda writes a history, and
    pixi ``conda-meta/pixi`` or, older ones, ``pixi_env_prefix``: see pixi's documentation, Environments, "Environment
    Installation Metadata".
    """
    conda = os.path.join(sys.prefix, "conda-meta")
    if any(os.path.exists(os.path.join(conda, mark)) for mark in ("pixi", "pixi_env_prefix")):
        return "pixi"
    if os.path.exists(os.path.join(conda, "history")):
        return "conda"
    settings = read(os.path.join(sys.prefix, SETTINGS))
    keys = {line.split("=")[0].strip().lower() for line in settings.split("\n")}
    for tool in ("uv", "virtualenv"):
        if tool in keys:
            return tool
    return "venv" if settings else None


def venv_python():
    """The release of Python that the environment was created with; its interpreter may be another one now."""
    found = re.search(r"^version(?:_info)? *= *(\d+\.\d+(?:\.\d+)?)", read(os.path.join(sys.prefix, SETTINGS)), re.M)
    return found.group(1) if found else None


def writable():
    """Whether this user may write to the folder of packages or, if missing, to its nearest existing parent."""
    folder = install_folder("purelib")
    while folder and not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return os.access(folder, os.W_OK) if folder else None


def unreadable():
    """The folders of packages that this user may not read, so that imports ignore them."""
    folders = sorted({install_folder("purelib"), install_folder("platlib")} - {None})
    return [folder for folder in folders if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK)]


def user_site():
    """The user's site-packages folder, if this interpreter imports from it."""
    import site

    if not getattr(site, "ENABLE_USER_SITE", None):
        return None
    folder = site.getusersitepackages()
    return folder if folder in sys.path else None


def kernels():
    """The Jupyter kernels available here, each with its interpreter.

    The folders: JUPYTER_PATH, the user's, the environment's (Jupyter's documentation, Common Directories and File
    Locations, "Data files").
    """
    folders = [entry for entry in os.environ.get("JUPYTER_PATH", "").split(os.pathsep) if entry]
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    user = os.environ.get("JUPYTER_DATA_DIR") or os.path.join(data, "jupyter")
    found = {}
    for folder in folders + [user, os.path.join(sys.prefix, "share", "jupyter")]:
        parent = os.path.join(folder, "kernels")
        for name in sorted(os.listdir(parent))[:KERNEL_LIMIT] if os.path.isdir(parent) else []:
            executable = kernel_executable(os.path.join(parent, name, "kernel.json"))
            if executable:
                found.setdefault(name.lower(), executable)
    return [{"name": name, "executable": found[name]} for name in sorted(found)]


def kernel_executable(path):
    """The program that a kernelspec starts; None if it cannot be parsed."""
    try:
        argv = json.loads(read(path)).get("argv")
    except (ValueError, AttributeError):
        return None
    return argv[0] if isinstance(argv, list) and argv and isinstance(argv[0], type("")) else None


def environments_near():
    """For a system's Python: environments that its name links into, and those in the working folder."""
    if kind() != "system":
        return []
    linked = [environment_of(path) for path in links(sys.executable or "")]
    here = [os.path.join(working_folder(), name) for name in IN_PROJECTS]
    found = [folder for folder in linked + here if folder and is_environment(folder) and not is_own(folder)]
    return sorted(set(found), key=found.index)


def links(path):
    """Yields the targets of a chain of links."""
    for _ in range(LINKS):
        if not os.path.islink(path):
            return
        path = os.path.join(os.path.dirname(path), os.readlink(path))
        yield path


def is_environment(folder):
    """Whether a folder is an environment with an interpreter of its own."""
    marked = any(os.path.exists(os.path.join(folder, mark)) for mark in (SETTINGS, "conda-meta"))
    programs = [os.path.join(folder, "bin", "python"), os.path.join(folder, "Scripts", "python.exe")]
    return marked and any(os.path.exists(path) for path in programs + [os.path.join(folder, "python.exe")])


# Distributions


def metadata_folders():
    """Yields every metadata folder on the path once, in import order."""
    seen = set()
    for entry in sys.path:
        # lib64 is often a link to lib, and both are on the path
        folder = os.path.realpath(entry or ".")
        if folder in seen:
            continue
        seen.add(folder)
        for name in names_in(folder):
            if name.endswith((".dist-info", ".egg-info")):
                yield os.path.join(folder, name)


def required(head):
    """A distribution's requirements by its metadata, without those of extras."""
    requirements = re.findall(r"^Requires-Dist: *([^\r\n]*)", head, re.M)
    return [text.strip() for text in requirements if "extra" not in text]


def conda_packages():
    """Name and version of every conda package that concerns GPUs, by the names of its records."""
    return {name: release for name, release, _ in conda_records() if RELEVANT.match(name + "-0")}


def conda_records():
    """Name, version and path of each record of conda, by the record's own name."""
    folder = os.path.join(sys.prefix, "conda-meta")
    for record in names_in(folder):
        match = re.match(r"(.+)-([^-]+)-[^-]+\.json$", record)  # NAME-VERSION-BUILD.json
        if match:
            yield match.group(1).lower(), match.group(2), os.path.join(folder, record)


def conda_needs():
    """What conda's packages require of cuda-version, conda's package for the version of CUDA, by their records."""
    records = list(conda_records())
    if not any(name == "cuda-version" for name, _, _ in records):
        return []
    found = []
    for name, release, path in records:
        # The list ends long before those of files, which make a record large.
        depends = re.search(r'"depends": *\[((?:[^\]"]|"[^"]*")*)\]', read(path))
        needs = re.findall(r'"(cuda-version [^"]*)"', depends.group(1)) if depends else []
        found += [{"name": name, "release": release, "requirement": need} for need in needs]
    return found


def needs_of_cupy():
    """Each distribution's requirements on CuPy by its metadata, without those of extras."""
    return [entry for entry in dependents("cupy") if "extra" not in entry["requirement"]]


def cuda_dependents():
    """Each distribution's requirements on CUDA's wheels and their bindings, also those of extras."""
    return dependents("cuda-(?:toolkit|bindings)|nvidia-")


def dependents(names):
    """Name, release and requirement of each distribution but CuPy that requires a package, by a pattern of names."""
    wanted = re.compile(r"^Requires-Dist: *((?:%s)[^\r\n]*)" % names, re.M | re.I)
    found = []
    for folder in metadata_folders():
        if not folder.endswith(".dist-info") or os.path.basename(folder).startswith("cupy"):
            continue
        head = read(os.path.join(folder, "METADATA")).split("\n\n", 1)[0]
        requirements = wanted.findall(head)
        name, release = name_and_release(head) if requirements else (None, None)
        if name:
            by = {"name": canonical(name), "release": release}
            found += [dict(by, requirement=text.strip()) for text in requirements]
    return found


def name_and_release(head):
    """Name and version by the metadata; None and None unless both are present."""
    name = re.search(r"^Name: *(\S+)", head, re.M)
    release = re.search(r"^Version: *(\S+)", head, re.M)
    return (name.group(1), release.group(1)) if name and release else (None, None)


def canonical(name):
    """A distribution's normalised name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def folder_classifier():
    """A function that returns why a folder is on the path: environment, pythonpath, user, system or elsewhere."""
    installed = [os.path.realpath(folder) for folder in map(install_folder, ("purelib", "platlib")) if folder]
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    pythonpath = [os.path.realpath(entry) for entry in entries if entry]
    try:
        import site

        included = [os.path.realpath(entry) + os.sep for entry in getattr(site, "PREFIXES", [])]
        user = os.path.realpath(site.getusersitepackages())
    except (ImportError, AttributeError):
        user, included = None, []
    prefix = os.path.realpath(sys.prefix) + os.sep
    base = getattr(sys, "real_prefix", None) or getattr(sys, "base_prefix", sys.prefix)

    def classify(folder, name):
        if folder in installed or any(has_link(entry, name) for entry in installed):
            return "environment"
        if folder in pythonpath:
            return "pythonpath"
        if folder == user:
            return "user"
        if base == sys.prefix:  # a system Python has several folders of its own, such as Debian's dist-packages
            return "environment" if folder.startswith(prefix) else "elsewhere"
        system = os.path.realpath(base) + os.sep
        return "system" if system in included and folder.startswith(system) else "elsewhere"

    return classify


def has_link(folder, name):
    """Whether ``setup.py develop`` has left its link to a project, which pip can remove."""
    return any(os.path.isfile(os.path.join(folder, form + ".egg-link")) for form in (name, name.replace("-", "_")))


def matching_metadata(entries):
    """The metadata that match the files, if one folder has several of one name after an interrupted update."""
    if len(entries) == 1:
        return entries[0]
    return min(entries, key=lambda entry: (misfits(entry["path"]), -changed(entry["path"])))


def misfits(metadata):
    """How many files of a RECORD are missing or of another size; ROWS + 1 without a RECORD or if it is no text."""
    count = 0
    text = read(os.path.join(metadata, "RECORD"), LARGEST)
    rows = [] if NO_TEXT in text or "\0" in text else text.splitlines()[:ROWS]
    for row in rows:
        path, _, size = row.rpartition(",")
        path = path.rpartition(",")[0].strip('"')
        if size.isdigit() and ".dist-info/" not in path:
            try:
                count += os.stat(os.path.join(os.path.dirname(metadata), path)).st_size != int(size)
            except (OSError, ValueError):
                count += 1
    return count if rows else ROWS + 1


def changed(path):
    """The modification time of a path; 0 if it does not exist."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0


def distributions():
    """Name, version and location of every distribution that concerns GPUs.

    A CuPy built by a user, a Linux distribution or conda has no CUDA major in its name. It is that of the cuBLAS which
    its modules need (libcublas.so.12, from CUDA 10.1 on).
    """
    classify = folder_classifier()
    found = []
    for entries in by_name():
        kept = matching_metadata(entries)
        if kept["release"] is None:
            continue
        folder, head = kept["path"], kept["head"]
        location = os.path.dirname(folder)
        cublas = needed_soname("cublas", location) if kept["name"] in BUILT else None
        found.append(
            {
                "distribution": kept["name"],
                "release": kept["release"],
                "location": location,
                "tags": re.findall(r"^Tag: *(\S+)", read(os.path.join(folder, "WHEEL")), re.M),
                "requires": required(head) if kept["name"].startswith("cupy") else [],
                "place": classify(location, kept["name"]) if kept["name"].startswith("cupy") else None,
                "cuda_major": int(cublas.rsplit(".", 1)[1]) if cublas else None,
            }
        )
    return found


def left_metadata():
    """The metadata without matching files: a second one of a name in one folder, or one without a name."""
    found = []
    for entries in by_name():
        kept = matching_metadata(entries)
        found.extend(entry for entry in entries if entry is not kept or entry["release"] is None)
    return [
        {
            "path": entry["path"],
            "name": entry["name"],
            "release": entry["release"],
            "has_files": entry["name"].startswith("cupy")
            and os.path.lexists(os.path.join(os.path.dirname(entry["path"]), "cupy", "__init__.py")),
        }
        for entry in found
    ]


def by_name():
    """The metadata grouped by folder and name, in import order."""
    groups = []
    known = {}
    for folder in metadata_folders():
        if not RELEVANT.match(os.path.basename(folder)):
            continue
        head = read(os.path.join(folder, "METADATA")) or read(os.path.join(folder, "PKG-INFO")) or read(folder)
        head = head.split("\n\n", 1)[0]
        name, release = name_and_release(head)
        name = canonical(name or os.path.basename(folder).split("-")[0])
        entry = {"path": folder, "name": name, "release": release, "head": head}
        key = (os.path.dirname(folder), entry["name"])
        if key not in known:
            known[key] = []
            groups.append(known[key])
        known[key].append(entry)
    return groups


# CuPy and NumPy: the modules that an import would load, and CuPy's kernel cache; nothing is imported


def extension_suffixes():
    """The suffixes of extension modules that this interpreter loads."""
    try:
        from importlib.machinery import EXTENSION_SUFFIXES
    except ImportError:
        import imp  # Python 2

        return [suffix for suffix, _, kind in imp.get_suffixes() if kind == imp.C_EXTENSION]
    return EXTENSION_SUFFIXES


def loads(names, suffixes):
    """Whether one of the files is an extension module with these suffixes; None if there is no extension module."""
    modules = [name for name in names if name.endswith((".so", ".pyd"))]
    if not modules:
        return None
    return any(name[len(name.split(".")[0]) :] in suffixes for name in modules)


def cupy_modules():
    """Each package cupy on the path: its file, and whether this interpreter loads its extensions."""
    found = []
    for entry in sys.path:
        package = os.path.join(os.path.realpath(entry or "."), "cupy")
        module = os.path.join(package, "__init__.py")
        if os.path.isfile(module) and module not in [known["module"] for known in found]:
            core = os.path.join(package, "_core")
            names = os.listdir(core) if os.path.isdir(core) else []
            found.append({"module": module, "loads": loads(names, extension_suffixes())})
    return found


def pathfinder_hidden_by():
    """The module named cuda that shadows cuda.pathfinder; None if none does.

    A module, or a package with an __init__.py, ends the search for other parts of a namespace package.
    """
    module = module_file("cuda")
    if module is None or not module.endswith((".py", ".pyc", ".so")):
        return None
    folder, name = os.path.split(module)
    if name.startswith("__init__.") and os.path.isdir(os.path.join(folder, "pathfinder")):
        return None
    return module


def numpy_fault():
    """Why this interpreter cannot import the NumPy on its path; None if it seems importable."""
    module = module_file("numpy")
    if module is None:
        return None
    folder, name = os.path.split(module)
    cores = [os.path.join(folder, core) for core in ("_core", "core") if os.path.isdir(os.path.join(folder, core))]
    known = cores or os.path.exists(os.path.join(folder, "version.py"))
    known = known or any(
        entry.startswith("numpy-") and entry.endswith(("-info", ".egg"))
        for entry in os.listdir(os.path.dirname(folder))
    )
    if not name.startswith("__init__.") or not known:
        return module + " is imported in its place"
    verdicts = [loads(os.listdir(core), extension_suffixes()) for core in cores]
    if False in verdicts and True not in verdicts:
        return "the NumPy in " + folder + " is for another interpreter"
    return None


def module_file(name):
    """The file that an import of this name would load, without importing it.

    The working folder comes first, as under ``python -m``, ``python -c``, an interactive session and Jupyter;
    ``python script.py`` puts the script's folder first, which is unknown here. Under PYTHONSAFEPATH neither is on the
    path.
    """
    find = finder()  # before the working folder is on the path: none of its files may be run
    before = [] if has_safe_path() else [working_folder()]
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
    """A function that returns the file of a module, by the finders of the import system."""
    try:
        from importlib.util import find_spec
    except ImportError:
        return imp_finder()  # Python 2

    def find(name):
        spec = find_spec(name)
        if spec is None:
            return None
        folders = [] if spec.has_location else list(spec.submodule_search_locations or [])
        return spec.origin if spec.has_location else (folders or [None])[0]

    return find


def imp_finder():
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
    """CuPy's kernel cache folder, as in cupy/cuda/compiler.py of 14.2.0; None if the cache is in memory."""
    if os.environ.get("CUPY_CACHE_IN_MEMORY", "").lower() in TRUE:
        return None
    default = os.path.join(os.path.expanduser("~"), ".cupy", "kernel_cache")
    return os.path.normpath(os.path.join(working_folder(), os.environ.get("CUPY_CACHE_DIR", default)))


def kernel_cache_fault():
    """Why this user cannot write to the kernel cache; None if they can.

    CuPy creates the folder by os.makedirs, which refuses an empty name (cupy/cuda/_compiler_cache.py of 14.2.0).
    """
    folder = kernel_cache()
    if folder is None:
        return None
    if os.environ.get("CUPY_CACHE_DIR") == "":
        return "CUPY_CACHE_DIR is set, but empty"
    return folder_fault(folder)


def folder_fault(folder):
    """Why this user cannot write to a folder, or create it; None if they can."""
    existing = folder
    while not os.path.lexists(existing) and os.path.dirname(existing) != existing:
        existing = os.path.dirname(existing)  # CuPy creates missing folders
    if not os.path.isdir(existing):
        return existing + " is not a folder"
    if not os.access(existing, os.W_OK | os.X_OK):
        return existing + " is not writable by this user"
    try:
        usage = os.statvfs(existing)
    except (AttributeError, OSError):
        return None
    if usage.f_blocks and not usage.f_bavail:
        return "the file system of " + existing + " is full"
    # The folders that Python's ``tempfile`` tries, in its order.
    folders = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    return temporary_fault(folders + ["/tmp", "/var/tmp", "/usr/tmp", working_folder()])  # noqa: S108 - checked, not used


def temporary_fault(folders):
    """Why no temporary folder can be created, in which cupy/cuda/compiler.py puts the source to compile.

    ``tempfile`` tries them by writing, which is not done here.
    """
    if os.name != "posix" or any(os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK) for path in folders):
        return None
    return "there is no folder for temporary files: none of " + ", ".join(folders) + " is writable by this user"


def kernel_cache_owners():
    """How many other users own files in the kernel cache; None if it does not exist, or without user ids."""
    folder = kernel_cache()
    if folder is None or not os.path.isdir(folder) or not hasattr(os, "geteuid"):
        return None
    names = sorted(os.listdir(folder))[:CACHE_LIMIT] if os.access(folder, os.R_OK) else []
    paths = [folder] + [os.path.join(folder, name) for name in names]
    return len({os.lstat(path).st_uid for path in paths if os.path.lexists(path)} - {os.geteuid()})


def main():
    """Prints every fact; an error in one does not affect the others."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    facts = [
        ("python", version),
        ("implementation", implementation),
        ("executable", lambda: sys.executable),
        ("prefix", lambda: sys.prefix),
        ("exec_prefix", lambda: sys.exec_prefix),
        ("path", path),
        ("prefix_identity", prefix_identity),
        ("kind", kind),
        ("platform", machine_platform),
        ("libc", libc),
        ("made_by", made_by),
        ("venv_python", venv_python),
        ("externally_managed", externally_managed),
        ("distributions", distributions),
        ("left_metadata", left_metadata),
        ("conda_packages", conda_packages),
        ("conda_needs", conda_needs),
        ("writable", writable),
        ("user_site", user_site),
        ("cupy_modules", cupy_modules),
        ("cupy_module", lambda: module_file("cupy")),
        ("numpy_module", lambda: module_file("numpy")),
        ("numpy_fault", numpy_fault),
        ("pathfinder_hidden_by", pathfinder_hidden_by),
        ("kernels", kernels),
        ("needs_of_cupy", needs_of_cupy),
        ("cuda_dependents", cuda_dependents),
        ("kernel_cache", kernel_cache),
        ("kernel_cache_fault", kernel_cache_fault),
        ("kernel_cache_owners", kernel_cache_owners),
        ("unreadable", unreadable),
        ("lost_environment", lost_environment),
        ("environments_near", environments_near),
    ]
    for key, read_fact in facts:
        try:
            emit(key, read_fact())
        except Exception as error:  # noqa: BLE001 - a foreign interpreter may raise anything
            emit("failed." + key, repr(error))
    emit("done", True)
