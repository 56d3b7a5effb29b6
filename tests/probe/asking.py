"""Asks the probing scripts as the program itself does, in an environment of the test's own."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from gpuenv.probe.ask import ask_kernel
from gpuenv.probe.ask_target import ask_target
from gpuenv.probe.asking import Asking

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuenv.model.snapshot import Source
    from gpuenv.probe.raw_kernel import KernelFacts
    from gpuenv.probe.raw_target import TargetFacts

LONG = 20.0  # a deadline that no test may wait for
MINIMAL = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def asking(environment: Mapping[str, str] | None = None, root: str = "/", limit: float = LONG) -> Asking:
    """An asking with PATH and locale alone, and what is given besides."""
    return Asking({**MINIMAL, **(environment or {})}, root, time.monotonic() + limit)


def target_of(
    interpreter: Path, environment: Mapping[str, str] | None = None, limit: float = LONG
) -> tuple[TargetFacts, Source]:
    """What an interpreter says of its environment."""
    return ask_target(asking(environment, limit=limit), str(interpreter))


def kernel_of(root: Path, environment: Mapping[str, str] | None = None) -> KernelFacts:
    """What the files below a driver root say; every one of the script's facts must be told."""
    facts, source = ask_kernel(asking(environment, str(root)))
    assert source.state.value == "answered", source.detail
    return facts
