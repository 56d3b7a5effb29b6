"""Assumptions that cannot all be true of one machine. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_OF_A_GPU = ("gpu", "gpu-count", "gpu-memory", "compute-capability")


class AssumeError(ValueError):
    """An assumption that cannot be understood or contradicts another; the message names it and what was expected."""


def refuse_contradictions(given: Sequence[str]) -> None:
    """Refuses a GPU, or what only a GPU has, beside the assumption that there is none.

    Raises:
        AssumeError: with both.
    """
    told = [(key.strip(), value.strip()) for key, _, value in (text.partition("=") for text in given)]
    none = next((pair for pair in told if _is_none(pair)), None)
    other = next((pair for pair in told if pair[0] in _OF_A_GPU and not _is_none(pair)), None)
    if none and other:
        raise AssumeError(f"--assume {'='.join(none)}: stands beside {'='.join(other)}, which only a GPU has")


def _is_none(pair: tuple[str, str]) -> bool:
    key, value = pair
    return (key == "gpu" and value.lower() == "none") or (key == "gpu-count" and value.strip("0") == "" != value)
