"""Imports one module in the target and tells its file and version: whether it can be imported is known no other way.

Standard library only, and syntax that old Pythons parse. Prints one fact a line, as the probing scripts do.
"""

import os
import sys

from target_shared import tell


def main():
    """Imports the module that is named, from no folder of ours and none of the caller's."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != here]
    name = sys.argv[1]
    tell("started", True)
    try:
        module = __import__(name)
    except BaseException as error:  # noqa: BLE001 - someone else's module: whatever it raises is an answer
        tell("error", "%s: %s" % (type(error).__name__, error))
    else:
        tell("file", getattr(module, "__file__", None))
        tell("release", str(getattr(module, "__version__", "")) or None)
    tell("done", True)
