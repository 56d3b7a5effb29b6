"""Runs the scripts that are named among the arguments, as imported modules: the second when it is told what to look at.

Python keeps no compiled form of a program that it is given, but it takes that of a module where there is one: this one
is short, the others are not. ``start.py interpreter`` and what that takes; ``start.py interpreter then libraries``
waits for a line on standard input, which is the argument of the second. Standard library only, and syntax that old
Pythons parse.
"""

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
    """The first script, and the second if that is wanted."""
    first, further = sys.argv.pop(1), sys.argv[2:] if sys.argv[1:2] == ["then"] else []
    run(first)
    line = sys.stdin.readline().strip() if further else ""
    if line:
        sys.argv[1:] = [line]
        run(further[0])


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
