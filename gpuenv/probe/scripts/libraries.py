"""Which CUDA libraries this environment's CuPy would load: asked of the loader, as CuPy itself asks it.

Run in the target's interpreter: ``libraries.py FINDER JSON``. FINDER is ``pathfinder`` for CuPy 14 and later, which let
cuda-pathfinder look in site-packages and conda first, and ``loader`` for older ones, which leave it to the dynamic
loader. JSON is a list of objects with ``name`` and ``soname``. Standard library
only, old syntax; a child of its own, since loading a library runs its code.
"""

import ctypes
import json
import os
import sys


def tell(key, value):
    """Prints one fact at once, so that it survives whatever happens to this process next."""
    sys.stdout.write("gpuenv:" + json.dumps({key: value}) + "\n")
    sys.stdout.flush()


def mapped(soname):
    """The file that this process has mapped under a soname, or under a name that begins with it."""
    try:
        with open("/proc/self/maps") as maps:
            paths = [line.split(None, 5)[-1].strip() for line in maps if "/" in line]
    except (IOError, OSError):
        return None
    for path in paths:
        if os.path.basename(path).startswith(soname):
            return path
    return None


def finder(wanted):
    """cuda-pathfinder's loading function, where this CuPy uses it and it is there."""
    if wanted != "pathfinder":
        return None
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except Exception as error:  # noqa: BLE001 - someone else's package: whatever it raises is an answer
        tell("pathfinder_error", repr(error))
        return None
    return load_nvidia_dynamic_lib


def look(library, load):
    """Lets the finder load what it takes for the library, then asks the loader for the very name CuPy needs."""
    answer = {"name": library["name"], "soname": library["soname"], "path": None, "found_via": None, "error": None}
    if load is not None:
        try:
            found = load(library["name"])
            answer["found_via"] = getattr(found, "found_via", None) or "pathfinder"
            answer["finder_path"] = found.abs_path
        except Exception as error:  # noqa: BLE001 - the finder raises its own errors and the loader's
            answer["error"] = str(error).split("\n")[0]
    try:
        ctypes.CDLL(library["soname"])
    except OSError as error:
        answer["found_via"] = None
        answer["error"] = str(error)
        return answer
    answer["path"] = mapped(library["soname"])
    answer["found_via"] = answer["found_via"] or "loader"
    return answer


def main():
    """Tells one fact a library."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    load = finder(sys.argv[1])
    for library in json.loads(sys.argv[2]):
        tell("library." + library["name"], look(library, load))
    tell("done", True)


if __name__ == "__main__":
    main()
