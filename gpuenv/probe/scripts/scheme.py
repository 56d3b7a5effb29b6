"""Where an interpreter installs to and imports from, as it says itself.

Standard library only, and syntax that old Pythons parse. Prints one fact a line, as the probing scripts do.
"""

import os
import sys

from target_shared import kind, lost_environment, tell


def main():
    """Tells every fact."""
    import sysconfig

    here = os.path.dirname(os.path.abspath(__file__))
    paths = sysconfig.get_paths()
    managed = os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED"))
    tell("executable", sys.executable)
    tell("prefix", sys.prefix)
    tell("lost_environment", lost_environment())
    tell("kind", kind())
    tell("root", paths["data"])
    tell("purelib", paths["purelib"])
    tell("platlib", paths["platlib"])
    tell("externally_managed", kind() == "system" and managed)
    tell("path", [os.path.abspath(entry) for entry in sys.path if entry and os.path.abspath(entry) != here])
    tell("python", "%d.%d.%d" % tuple(sys.version_info[:3]))
    tell("has_pip", has_pip())
    tell("markers", markers())
    tell("done", True)


def has_pip():
    """Whether this interpreter has a pip of its own."""
    try:
        from importlib.util import find_spec

        return find_spec("pip") is not None
    except ImportError:
        return False


def markers():
    """The variables of environment markers (PEP 508) as this interpreter has them."""
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
