"""Start the program with a PYTHONPATH that only its children use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[:] = [str(Path(__file__).parents[2]), *[entry for entry in sys.path if entry not in ("", os.getcwd())]]  # noqa: PTH109

if "CHILD_PYTHONPATH" in os.environ:
    os.environ["PYTHONPATH"] = os.environ.pop("CHILD_PYTHONPATH")

from gpuenv.__main__ import main  # noqa: E402 - after the path is set

main()
