"""Runs one check of another package in this process, and prints its result as one line of JSON.

``child.py SNAPSHOT MODULE:FUNCTION``; with ``-`` for the Snapshot it prints the check's docstring without running it.
Other output of the check is ignored; an exception ends this process with a traceback.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Loads the Snapshot, then the check, and prints what the check yields."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - before anything is imported
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100
    # Imported only after the path has been corrected.
    import importlib  # noqa: PLC0415
    import inspect  # noqa: PLC0415
    import json  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    from gpuenv.model.codec import decode, encode  # noqa: PLC0415
    from gpuenv.model.snapshot import Snapshot  # noqa: PLC0415
    from gpuenv.plugins.check_result import run_check  # noqa: PLC0415

    def emit(fact: dict[str, object]) -> None:
        sys.stdout.write(f"\ngpuenv:{json.dumps(fact)}\n")
        sys.stdout.flush()

    path, function = sys.argv[1:3]
    snapshot = None if path == "-" else decode(Snapshot, json.loads(Path(path).read_text(encoding="utf-8")))
    emit({"step": "import"})
    module, _, name = function.partition(":")
    check: object = importlib.import_module(module)
    for part in filter(None, name.split(".")):
        check = getattr(check, part)
    if snapshot is None:
        emit({"doc": inspect.getdoc(check) or ""})
        return
    emit({"step": "run"})
    emit({"result": encode(run_check(check, snapshot))})


if __name__ == "__main__":
    main()
