"""Parses ``--cupy``: a release, a wheel line, or a release of a line."""

from __future__ import annotations

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

_WORDS = "expected a release, a line, or one of a line: 14.2.0, cupy-cuda12x, cupy-cuda12x==14.2.0"


def line_and_release(text: str) -> tuple[str | None, str | None]:
    """Line and release: ``14.2.0``, ``cupy-cuda12x``, or as ``gpuenv resolve`` names them; ``cupy`` is any line.

    Raises:
        ValueError: for what is none of them.
    """
    if not text or text[0].isdigit():
        return None, text or None
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"--cupy {text[:60]}: {_WORDS}") from error
    pins = [each.version for each in requirement.specifier if each.operator == "==" and "*" not in each.version]
    if len(pins) != len(requirement.specifier) or len(pins) > 1 or requirement.url or requirement.marker:
        raise ValueError(f"--cupy {text[:60]}: {_WORDS}")
    line = canonicalize_name(requirement.name)
    return None if line == "cupy" else line, pins[0] if pins else None
