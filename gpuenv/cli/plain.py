"""The command lines that are typed most: ``gpuenv doctor``, alone or for a target. All others are Typer's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuenv.cli.doctoring import Wanted

_FLAGS = {"-v": "verbose", "--verbose": "verbose", "--no-color": "no_color"}


def plain_doctor(arguments: Sequence[str]) -> Wanted | None:
    """What is wanted of the doctor; None for any word that needs more than to be recognised."""
    if arguments[:1] != ["doctor"]:
        return None
    words = list(arguments[1:])
    python, flags = None, set()
    while words:
        word = words.pop(0)
        if word in _FLAGS:
            flags.add(_FLAGS[word])
        elif word == "--python" and python is None and words and words[0] and not words[0].startswith("-"):
            python = words.pop(0)
        else:
            return None
    from gpuenv.cli.doctoring import Wanted

    return Wanted(
        python=python,
        verbose="verbose" in flags,
        no_color="no_color" in flags,
        driver_root=os.environ.get("GPUENV_DRIVER_ROOT") or "/",
    )
