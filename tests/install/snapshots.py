"""Machines that were recorded elsewhere, for the commands that decide for one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.install.sandbox import Ground


def recording(ground: Ground, path: Path, **facts: str) -> Path:
    """A recorded machine that differs from this one."""
    target = ground.target("recorded", "numpy==2.1.0")
    done = ground.gpuenv("probe", "--python", target, "-o", path)
    assert done.returncode == 0, done.stderr
    told = json.loads(path.read_text(encoding="utf-8"))
    for fact, value in facts.items():
        part, name = fact.split("_")
        told[part][name] = {"value": value, "source": "the test", "others": [], "reason": None}
    path.write_text(json.dumps(told), encoding="utf-8")
    return path
