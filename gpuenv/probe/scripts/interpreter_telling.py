"""What the scripts that run in a target share: telling a fact, and what kind of environment it is.

Standard library only, and only syntax that old Pythons parse: they import it from beside themselves.
"""

import json
import os
import sys


def tell(key, value):
    """Prints one fact at once, so that it survives whatever happens to this process next.

    It stands on a line of its own, whatever was printed before: a hook of the interpreter's may have left its line
    without an end, and may have said our name in it, or have put something else in the place of sys.stdout. What it has
    printed goes first: of two that tell the same fact, the later one counts.
    """
    for stream in (sys.stdout, sys.__stdout__):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001 - whatever a hook has put there
            pass
    left = ("\ngpuenv:" + json.dumps({key: value}) + "\n").encode("ascii")
    while left:
        left = left[os.write(1, left) :]


def kind():
    """conda, venv or system."""
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        return "conda"
    base = getattr(sys, "real_prefix", None) or getattr(sys, "base_prefix", sys.prefix)
    return "venv" if base != sys.prefix else "system"
