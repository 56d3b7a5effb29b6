"""Lookups in plain data from JSON or YAML; None if a value is of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Plain


def at(value: Plain, *keys: str) -> Plain:
    """The value behind these keys, one after the other."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_of(value: Plain) -> str | None:
    """A text."""
    return value if isinstance(value, str) else None
