"""Runs another script of this folder as an imported module: ``start.py interpreter`` and its arguments.

Python keeps no compiled form of a program, but takes that of a module where there is one: this one is short, the others
are not. Standard library only, and syntax that old Pythons parse.
"""

import gc
import importlib
import os
import sys


def run(name):
    """Imports a script from this folder, which it may take off the path again, and calls its ``main``."""
    here = os.path.dirname(os.path.abspath(__file__))
    if here not in sys.path:
        sys.path.insert(0, here)  # PYTHONSAFEPATH leaves it out
    importlib.import_module(name).main()


def main():
    """The script that the first argument names."""
    gc.disable()  # a script ends before there is garbage to speak of; looking for it took 4 % of its time
    run(sys.argv.pop(1))


def end():
    """Ends at once: to take itself apart costs an interpreter as much as to answer, and what it has loaded may hang."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # it was closed, or its reader has gone
            continue
    os._exit(0)


if __name__ == "__main__":
    main()
    end()
