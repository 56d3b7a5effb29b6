"""Which Python a Dockerfile's pip is of, where that is plain. Pure."""

from __future__ import annotations

import re

from gpuenv.image.check.built import Built, Ran
from gpuenv.image.choose import PYTHON_OF
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


def python_of(built: Built) -> PythonVersion | None:
    """The Python of a python image, or the system's of an Ubuntu where nothing brings another one."""
    if built.base.python is not None:
        return built.base.python
    name = built.base.name
    text = f"{name.familiar}{name.tag}" if name is not None and (built.base.nvidia or built.base.plain) else ""
    system = re.search(r"ubuntu\d\d\.\d\d", text)
    known = PYTHON_OF.get(system[0]) if system is not None else None
    elsewhere = any(stage.takes for stage in built.stages)  # what is copied has a Python of its own
    return PythonVersion.parse(known) if known and not elsewhere and not any(map(_brings, built.ran)) else None


def _brings(ran: Ran) -> bool:
    texts = [word.text for word in ran.command.words]
    return ran.command.program in _OTHERS or any(map(_NAMED.search, texts))
