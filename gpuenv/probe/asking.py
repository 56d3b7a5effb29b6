"""What every asking needs, and how a script of ours is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from gpuenv.model.secrets import for_the_driver
from gpuenv.probe.children import ChildGroup, ChildResult, run_child


@dataclass(frozen=True, slots=True)
class Asking:
    """What every asking needs: the caller's environment, the driver root and the time by which to answer.

    Attributes:
        environment: the caller's environment variables; a child is handed those of them that it needs.
        root: folder under which ``/proc``, ``/sys``, ``/dev`` and the toolkits are looked for.
        deadline: reading of ``time.monotonic``.
        group: the children that are ended when nobody waits for them any longer.
    """

    environment: Mapping[str, str]
    root: str
    deadline: float
    group: ChildGroup = field(default_factory=ChildGroup)


def script(name: str) -> str:
    """The path of a probing script."""
    # Not importlib.resources: it costs 60 ms at start, and an interpreter needs a real file in any case.
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts", name)  # noqa: PTH100, PTH118, PTH120


def run_own(asking: Asking, name: str, *arguments: str) -> ChildResult:
    """Runs a script under gpuenv's own interpreter, apart from PYTHONPATH: that is the target's affair."""
    # The scripts import each other: without -B they are compiled once, unless this process was told to write nothing.
    flags = ["-I", "-B"] if sys.dont_write_bytecode else ["-I"]
    command = [sys.executable, *flags, script(name), *arguments]
    return run_child(command, for_the_driver(asking.environment), asking.deadline, asking.group)


def folder_of(module: str) -> str:
    """Where a module of ours lies: a child kept apart from PYTHONPATH and the user site may not find it."""
    spec = find_spec(module)
    return os.path.dirname(spec.origin) if spec and spec.origin else ""  # noqa: PTH120 - for start-up
