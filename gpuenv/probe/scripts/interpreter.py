"""Facts about a target environment, told by its own interpreter.

Standard library only, and only syntax that Python 2.7 and 3.6 parse, so that an old interpreter is told from a broken
one. Nothing is imported but what is needed to answer: distributions are read from their metadata. Prints one fact a
line, see ``protocol.py``; whatever else the interpreter prints (a chatty sitecustomize, say) does not matter.
"""

import json
import os
import re
import sys

from interpreter_cupy import (
    cupy_module,
    cupy_modules,
    kernel_cache,
    kernel_cache_fault,
    kernel_cache_owners,
    numpy_fault,
    numpy_module,
    pathfinder_hidden_by,
)
from interpreter_distributions import left_metadata
from interpreter_linked import linked_distributions
from interpreter_near import environments_near, lost_environment
from interpreter_packages import conda_packages, needs_of_cupy, read
from interpreter_telling import kind, tell

KERNEL_LIMIT = 100


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


def unreadable():
    """The folders that packages are installed into and that this user may not read: nothing in them is imported."""
    try:
        import sysconfig
    except ImportError:
        return []
    folders = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")} - {None})
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
    try:
        import sysconfig

        folder = sysconfig.get_path("stdlib")
    except ImportError:
        return False
    return kind() == "system" and os.path.exists(os.path.join(folder, "EXTERNALLY-MANAGED"))


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
        ("distributions", linked_distributions),
        ("left_metadata", left_metadata),
        ("conda_packages", conda_packages),
        ("writable", writable),
        ("user_site", user_site),
        ("cupy_modules", cupy_modules),
        ("cupy_module", cupy_module),
        ("numpy_module", numpy_module),
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
