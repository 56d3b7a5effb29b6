"""The faults that can be planted: their names, as the payload knows them."""

from __future__ import annotations

import ast

from gpuenv.smoke.catalogue import PAYLOAD


def _read() -> dict[str, str]:
    tree = ast.parse((PAYLOAD / "faults.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "FAULTS":
            found: dict[str, str] = ast.literal_eval(node.value)
            return found
    raise ValueError("the payload names no faults")


FAULTS = _read()
