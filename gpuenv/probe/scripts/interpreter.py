"""Facts about a target environment, told by its own interpreter.

Standard library only, and only syntax that Python 2.7 and 3.6 parse, so that an old interpreter is told from a broken
one. Nothing is imported but what is needed to answer: distributions are read from their metadata. Prints one fact a
line, see ``protocol.py``; whatever else the interpreter prints (a chatty sitecustomize, say) does not matter.
"""

import json
import os
import platform
import re
import sys

RELEVANT = re.compile(
    r"(cupy|numpy|scipy|nvidia|cuda|torch|triton|jax|numba|cudf|cuml|cugraph|rmm|tensorflow|fastrlock|(pip|uv)-\d)",
    re.I,
)


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
                }
            )
    return found


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
        ("externally_managed", externally_managed),
        ("distributions", distributions),
        ("conda_packages", conda_packages),
    ]
    for key, ask in facts:
        try:
            tell(key, ask())
        except Exception as error:  # noqa: BLE001 - someone else's interpreter: whatever it raises is an answer
            tell("failed." + key, repr(error))
    tell("done", True)


if __name__ == "__main__":
    main()
