"""The Python of a Dockerfile's pip, if that is clear."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpuenv.image.dockerfile.base_images import BaseImage
from gpuenv.image.dockerfile.shell import Command
from gpuenv.image.dockerfile.stages import Stage
from gpuenv.matrix.alternatives import python_of_ubuntu
from gpuenv.model.versions import PythonVersion

_OTHERS = (
    "conda",
    "mamba",
    "micromamba",
    "uv",
    "uvx",
    "pyenv",
    "pixi",
    "add-apt-repository",
    "update-alternatives",
    "make",
)
_NAMED = re.compile(r"(?:mini|ana)conda|(?:mini|mamba)forge|python-?3?\.\d", re.IGNORECASE)


def python_of(base: BaseImage, stages: Sequence[Stage], commands: Iterable[Command]) -> PythonVersion | None:
    """The Python of a python image, or the system's of an Ubuntu if no other is installed.

    Args:
        base: the image at the beginning.
        stages: those that the image is made of.
        commands: what they run, and those that they copy from.
    """
    if base.python is not None:
        return base.python
    text = f"{base.name.familiar}{base.name.tag}" if base.name is not None and (base.nvidia or base.plain) else ""
    known = python_of_ubuntu(text)
    elsewhere = any(stage.takes for stage in stages)  # what is copied has a Python of its own
    return PythonVersion.parse(known) if known and not elsewhere and not any(map(_brings, commands)) else None


def _brings(command: Command) -> bool:
    return command.program in _OTHERS or any(_NAMED.search(word.text) for word in command.words)
