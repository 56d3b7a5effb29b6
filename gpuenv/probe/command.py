"""The commands that run our scripts."""

from __future__ import annotations

import os


def script(name: str) -> str:
    """The path of a probing script."""
    # Not importlib.resources: it costs 60 ms at start, and an interpreter needs a real file in any case.
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts", name)  # noqa: PTH100, PTH118, PTH120


def in_target(interpreter: str, name: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a script of ours under the target's interpreter; nothing is written there."""
    return (interpreter, "-B", script("start.py"), name, *arguments)
