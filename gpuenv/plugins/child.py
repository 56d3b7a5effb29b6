"""Runs one check of another package, in a process of its own, and tells what it found as one line of JSON.

``child.py SNAPSHOT MODULE:FUNCTION``; ``-`` for the Snapshot asks for the check's own description alone, without
running it. Whatever else the check prints does not matter; what it raises is told.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Loads the machine, then the check, and tells what the check yields."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - before anything is imported
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100
    path, function = sys.argv[1:3]
    if path == "-":
        _describe(function)
    else:
        _run(path, function)


def _describe(function: str) -> None:
    import inspect  # noqa: PLC0415 - after the path has been put right

    _tell({"doc": inspect.getdoc(_loaded(function)) or ""})


def _run(path: str, function: str) -> None:
    import json  # noqa: PLC0415 - after the path has been put right
    from pathlib import Path  # noqa: PLC0415

    from gpuenv.model.codec import decode, encode  # noqa: PLC0415
    from gpuenv.model.snapshot import Snapshot  # noqa: PLC0415
    from gpuenv.plugins.answer import answer_of  # noqa: PLC0415

    snapshot = decode(Snapshot, json.loads(Path(path).read_text(encoding="utf-8")))
    check = _loaded(function)
    _tell({"asking": "run"})
    _tell({"answer": encode(answer_of(check, snapshot))})


def _loaded(function: str) -> object:
    import importlib  # noqa: PLC0415 - after the path has been put right

    _tell({"asking": "import"})
    module, _, name = function.partition(":")
    check: object = importlib.import_module(module)
    for part in filter(None, name.split(".")):
        check = getattr(check, part)
    return check


def _tell(fact: dict[str, object]) -> None:
    import json  # noqa: PLC0415

    sys.stdout.write(f"\ngpuenv:{json.dumps(fact)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
