"""Runs another script of this folder as an imported module: ``start.py interpreter`` and its arguments.

Python caches the bytecode of imported modules but not of the main program, so the main program is this short one.
Standard library only, and syntax that old Pythons parse.
"""

import gc
import importlib
import os
import sys


def run(name):
    """Imports a script from this folder and calls its ``main``; the script may remove the folder from the path."""
    here = os.path.dirname(os.path.abspath(__file__))
    if here not in sys.path:
        sys.path.insert(0, here)  # PYTHONSAFEPATH leaves it out
    importlib.import_module(name).main()


def main():
    """Runs the script named by the first argument."""
    gc.disable()  # scripts are too short-lived to need it; collection took 4 % of their time
    run(sys.argv.pop(1))


def end():
    """Exits without finalisation, which takes as long as the answer and in which a loaded library may hang."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # closed, or its reader has exited
            continue
    os._exit(0)


if __name__ == "__main__":
    main()
    end()
