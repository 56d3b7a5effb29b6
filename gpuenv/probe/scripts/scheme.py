"""Prints the interpreter's install scheme, import path and environment markers.

Standard library only, and syntax that old Pythons parse. Prints one fact per line, as the probe scripts do.
"""

import os
import sys

from target_shared import emit, externally_managed, kind, lost_environment


def main():
    """Prints every fact."""
    import sysconfig

    here = os.path.dirname(os.path.abspath(__file__))
    paths = sysconfig.get_paths()
    emit("executable", sys.executable)
    emit("prefix", sys.prefix)
    emit("lost_environment", lost_environment())
    emit("kind", kind())
    emit("root", paths["data"])
    emit("purelib", paths["purelib"])
    emit("platlib", paths["platlib"])
    emit("externally_managed", externally_managed())
    emit("path", [os.path.abspath(entry) for entry in sys.path if entry and os.path.abspath(entry) != here])
    emit("python", "%d.%d.%d" % tuple(sys.version_info[:3]))
    emit("has_pip", has_pip())
    emit("markers", markers())
    emit("done", True)


def has_pip():
    """Whether this interpreter can import pip."""
    try:
        from importlib.util import find_spec

        return find_spec("pip") is not None
    except ImportError:
        return False


def markers():
    """The environment markers (PEP 508) of this interpreter."""
    import platform

    version = "%d.%d.%d" % tuple(sys.version_info[:3])
    level = sys.version_info[3]
    if level != "final":
        version += level[0] + str(sys.version_info[4])
    return {
        "implementation_name": getattr(getattr(sys, "implementation", None), "name", ""),  # not in Python 2
        "implementation_version": version,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_release": platform.release(),
        "platform_system": platform.uname()[0],
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "platform_python_implementation": platform.python_implementation(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    }
