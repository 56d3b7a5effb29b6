"""Runs the script that is named first among the arguments, as an imported module.

Python keeps no compiled form of a program that it is given, but it takes that of a module where there is one: this one
is short, the others are not. Standard library only, and syntax that old Pythons parse.
"""

import importlib
import os
import sys


def main():
    """Imports the script from this folder, which it may take off the path again, and calls its ``main``."""
    here = os.path.dirname(os.path.abspath(__file__))
    if here not in sys.path:
        sys.path.insert(0, here)  # PYTHONSAFEPATH leaves it out
    importlib.import_module(sys.argv.pop(1)).main()


if __name__ == "__main__":
    main()
