"""Facts about a target environment, told by its own interpreter: ``start.py interpreter``.

Standard library only, and only syntax that Python 2.7 and 3.6 parse, so that an old interpreter is told from a broken
one. Nothing is imported but what is needed to answer: distributions are read from their metadata. Prints one fact a
line, see ``protocol.py``; whatever else the interpreter prints (a chatty sitecustomize, say) does not matter.
"""

import json
import os
import re
import sys

from target_shared import (
    RELEVANT,
    SETTINGS,
    environment_of,
    is_own,
    kind,
    lost_environment,
    names_in,
    needed_soname,
    read,
    tell,
)

KERNEL_LIMIT = 100
CACHE_LIMIT = 200  # files of CuPy's cache whose owners are looked at
TRUE = ("1", "true", "yes", "on", "y", "t")
BUILT = ("cupy", "cupy-core")
ROWS = 100000
NO_TEXT = b"\xef\xbf\xbd".decode("utf-8")  # what stands for a byte that is no UTF-8; old Pythons read no \u here
LARGEST = 32000000  # bytes of a RECORD: that of a large framework has 2 million
LINKS = 40  # as the kernel's own limit
HERE = (".venv", "venv", "env", os.path.join(".pixi", "envs", "default"))  # as uv, poetry, PyCharm and pixi name them


# The interpreter and its environment


def version():
    """3.12.4, or 3.14.0t for a free-threaded build."""
    text = "%d.%d.%d" % tuple(sys.version_info[:3])
    try:
        import sysconfig

        return text + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")
    except ImportError:
        return text


def path():
    """The folders that are imported from: an entry that is no text, the import system passes over as well."""
    return [entry for entry in sys.path if isinstance(entry, type("")) and is_told(entry)]


def is_told(entry):
    """Whether a text can be told: under Python 2, one may be no UTF-8."""
    try:
        return bool(json.dumps(entry))
    except ValueError:
        return False


def prefix_place():
    """Device and number of the environment's folder: where others are met, it is seen from elsewhere."""
    found = os.stat(sys.prefix)
    return [found.st_dev, found.st_ino]


def implementation():
    """cpython, pypy, ..."""
    if getattr(getattr(sys, "implementation", None), "name", None) == "cpython":
        return "cpython"
    import platform  # takes 3 ms to load

    return platform.python_implementation().lower()


def machine_platform():
    """linux-x86_64 and the like: what wheels for this interpreter are built for, a 32-bit or emulated one too."""
    import sysconfig

    return sysconfig.get_platform()


def install_folder(name):
    """A folder of sysconfig's, which a Python that was taken apart may lack."""
    try:
        import sysconfig
    except ImportError:
        return None
    return sysconfig.get_path(name)


def libc():
    """glibc-2.36 or musl-1.2: the one this interpreter is linked with."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION")
        if text:
            return text.replace(" ", "-")
    except (AttributeError, ValueError, OSError):
        pass
    # musl is known by its loader's file name; the loader itself says the version.
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


def writable():
    """Whether this user may write where packages are installed; the next folder above, where it is yet to be made."""
    folder = install_folder("purelib")
    while folder and not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return os.access(folder, os.W_OK) if folder else None


def unreadable():
    """The folders that packages are installed into and that this user may not read: nothing in them is imported."""
    folders = sorted({install_folder("purelib"), install_folder("platlib")} - {None})
    return [folder for folder in folders if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK)]


def user_site():
    """The folder of the user's own packages, where this interpreter imports from it."""
    import site

    if not getattr(site, "ENABLE_USER_SITE", None):
        return None
    folder = site.getusersitepackages()
    return folder if folder in sys.path else None


def externally_managed():
    """Whether the system forbids installing into this environment (PEP 668)."""
    folder = install_folder("stdlib")
    return kind() == "system" and folder is not None and os.path.exists(os.path.join(folder, "EXTERNALLY-MANAGED"))


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


def environments_near():
    """That into which the interpreter's name is a link, and for a system's Python those in the working folder."""
    if kind() != "system":
        return []
    linked = [environment_of(path) for path in links(sys.executable or "")]
    here = [os.path.join(os.getcwd(), name) for name in HERE]
    found = [folder for folder in linked + here if folder and is_environment(folder) and not is_own(folder)]
    return sorted(set(found), key=found.index)


def links(path):
    """What a path is a link to, and what that is a link to, to the end."""
    for _ in range(LINKS):
        if not os.path.islink(path):
            return
        path = os.path.join(os.path.dirname(path), os.readlink(path))
        yield path


def is_environment(folder):
    """Whether that is an environment with an interpreter of its own."""
    marked = any(os.path.exists(os.path.join(folder, mark)) for mark in (SETTINGS, "conda-meta"))
    programs = [os.path.join(folder, "bin", "python"), os.path.join(folder, "Scripts", "python.exe")]
    return marked and any(os.path.exists(path) for path in programs + [os.path.join(folder, "python.exe")])


# Distributions


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
            if name.endswith((".dist-info", ".egg-info")):
                yield os.path.join(folder, name)


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
    for folder in metadata_folders():
        if not folder.endswith(".dist-info") or os.path.basename(folder).startswith("cupy"):
            continue
        head = read(os.path.join(folder, "METADATA")).split("\n\n", 1)[0]
        if "cupy" not in head:
            continue
        name, release = name_and_release(head)
        told = re.findall(r"^Requires-Dist: *(cupy[^\r\n]*)", head, re.M | re.I) if name else []
        by = {"name": canonical(name or ""), "release": release}
        found += [dict(by, requirement=text.strip()) for text in told if "extra" not in text]
    return found


def name_and_release(head):
    """As metadata tell them; None and None where they do not tell both."""
    name = re.search(r"^Name: *(\S+)", head, re.M)
    release = re.search(r"^Version: *(\S+)", head, re.M)
    return (name.group(1), release.group(1)) if name and release else (None, None)


def canonical(name):
    """The name of a distribution in its normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()


def places():
    """A function that tells what leads to a folder: the environment itself, a variable, or something else."""
    own = [os.path.realpath(folder) for folder in map(install_folder, ("purelib", "platlib")) if folder]
    told = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    given = [os.path.realpath(entry) for entry in told if entry]
    try:
        import site

        user = os.path.realpath(site.getusersitepackages())
    except (ImportError, AttributeError):
        user = None
    prefix = os.path.realpath(sys.prefix) + os.sep
    base = getattr(sys, "real_prefix", None) or getattr(sys, "base_prefix", sys.prefix)

    def place(folder, name):
        if folder in own or any(has_link(entry, name) for entry in own):
            return "environment"
        if folder in given:
            return "pythonpath"
        if folder == user:
            return "user"
        # A system has several folders of its own: Debian's dist-packages, say.
        return "environment" if base == sys.prefix and folder.startswith(prefix) else "elsewhere"

    return place


def has_link(folder, name):
    """Whether ``setup.py develop`` has left its link to a project: pip removes such a one."""
    return any(os.path.isfile(os.path.join(folder, form + ".egg-link")) for form in (name, name.replace("-", "_")))


def of_the_files(entries):
    """Of several metadata of one name in one folder, that of the files there.

    An update that was cut short leaves the older one's, and nothing says which is which but the files.
    """
    if len(entries) == 1:
        return entries[0]
    return min(entries, key=lambda entry: (misfits(entry["path"]), -changed(entry["path"])))


def misfits(metadata):
    """How many files of a RECORD are not there in the size told; more than all of them where there is none.

    Of one that is no text, nobody knows what it says.
    """
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
    """When something was last changed there."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0


def distributions():
    """Name, version and place of every distribution that has to do with GPUs.

    Of a CuPy that a user, a distribution or conda has built, whose name does not say it, the CUDA major too: from CUDA
    10.1 on cuBLAS, with which its modules are linked, bears it in its own name (libcublas.so.12).
    """
    place = places()
    found = []
    for entries in by_name():
        kept = of_the_files(entries)
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
                "place": place(location, kept["name"]) if kept["name"].startswith("cupy") else None,
                "cuda_major": int(cublas.rsplit(".", 1)[1]) if cublas else None,
            }
        )
    return found


def left_metadata():
    """The metadata that are of no files there: a second one of a name in one folder, or one that tells no name."""
    found = []
    for entries in by_name():
        kept = of_the_files(entries)
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
    """The metadata of each name in each folder, in the order in which imports would meet them."""
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


# CuPy and NumPy: which an import would take, and where CuPy keeps its kernels; nothing is imported


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
    module = taken("numpy")
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
        return module + " is taken for it"
    verdicts = [loads(os.listdir(core), extension_suffixes()) for core in cores]
    if False in verdicts and True not in verdicts:
        return "the one in " + folder + " is for another interpreter"
    return None


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
    # Where Python's ``tempfile`` would make temporary files, in its order.
    places = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    return temporary_fault(places + ["/tmp", "/var/tmp", "/usr/tmp", os.getcwd()])  # noqa: S108 - looked at, not used


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


def main():
    """Tells every fact; one that cannot be had does not keep the next one back."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    facts = [
        ("python", version),
        ("implementation", implementation),
        ("executable", lambda: sys.executable),
        ("prefix", lambda: sys.prefix),
        ("exec_prefix", lambda: sys.exec_prefix),
        ("path", path),
        ("prefix_place", prefix_place),
        ("kind", kind),
        ("platform", machine_platform),
        ("libc", libc),
        ("made_by", made_by),
        ("externally_managed", externally_managed),
        ("distributions", distributions),
        ("left_metadata", left_metadata),
        ("conda_packages", conda_packages),
        ("writable", writable),
        ("user_site", user_site),
        ("cupy_modules", cupy_modules),
        ("cupy_module", lambda: taken("cupy")),
        ("numpy_module", lambda: taken("numpy")),
        ("numpy_fault", numpy_fault),
        ("pathfinder_hidden_by", pathfinder_hidden_by),
        ("kernels", kernels),
        ("needs_of_cupy", needs_of_cupy),
        ("kernel_cache", kernel_cache),
        ("kernel_cache_fault", kernel_cache_fault),
        ("kernel_cache_owners", kernel_cache_owners),
        ("unreadable", unreadable),
        ("lost_environment", lost_environment),
        ("environments_near", environments_near),
    ]
    for key, ask in facts:
        try:
            tell(key, ask())
        except Exception as error:  # noqa: BLE001 - someone else's interpreter: whatever it raises is an answer
            tell("failed." + key, repr(error))
    tell("done", True)
