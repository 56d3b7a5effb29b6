"""Snapshots of other machines, for commands that take ``--snapshot``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.install.sandbox import Sandbox


def write_snapshot(sandbox: Sandbox, path: Path, **facts: str) -> Path:
    """Writes a snapshot of this machine with some facts replaced."""
    target = sandbox.target("snapshot", "numpy==2.1.0")
    result = sandbox.gpuenv("probe", "--python", target, "-o", path)
    assert result.returncode == 0, result.stderr
    snapshot = json.loads(path.read_text(encoding="utf-8"))
    for fact, value in facts.items():
        part, name = fact.split("_")
        snapshot[part][name] = {"value": value, "source": "the test", "others": [], "reason": None}
    path.write_text(json.dumps(snapshot), encoding="utf-8")
    return path
