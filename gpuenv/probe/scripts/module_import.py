"""Imports one module in the target and prints its file and version, or the error.

Standard library only, and syntax that old Pythons parse. Prints one fact per line, as the probe scripts do.
"""

import os
import sys

from target_shared import emit


def main():
    """Imports the named module, neither from gpuenv's folder nor from the working folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != here]
    name = sys.argv[1]
    emit("started", True)
    try:
        module = __import__(name)
    except BaseException as error:  # noqa: BLE001 - a foreign module may raise anything
        emit("error", "%s: %s" % (type(error).__name__, error))
    else:
        emit("file", getattr(module, "__file__", None))
        emit("release", str(getattr(module, "__version__", "")) or None)
    emit("done", True)
