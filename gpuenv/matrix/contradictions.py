"""Assumptions as key and value, and those that cannot all be true of one machine. Pure."""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[str, str]  # key and value

_OF_A_GPU = ("gpu", "gpu-count", "gpu-memory", "compute-capability")
_FAMILIES = ("glibc", "musl")


class AssumeError(ValueError):
    """An assumption that cannot be understood or contradicts another; the message names it and what was expected."""


def read_pair(text: str) -> Pair:
    """Key and value of an assumption; ``glibc=2.36`` is another way to write ``libc=glibc-2.36``.

    Raises:
        AssumeError: where it has no key or no value.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key or not (value or key.startswith("env.")):
        raise AssumeError(f"--assume {text}: expected KEY=VALUE, such as driver=580.95.05")
    return ("libc", f"{key}-{value}") if key in _FAMILIES else (key, value)


def refuse_contradictions(pairs: Sequence[Pair]) -> None:
    """Refuses a GPU, and what only a GPU has, beside the assumption that there is none.

    Raises:
        AssumeError: with both.
    """
    no_gpu = next((pair for pair in pairs if _is_no_gpu(pair)), None)
    of_a_gpu = next((pair for pair in pairs if pair[0] in _OF_A_GPU and not _is_no_gpu(pair)), None)
    if no_gpu and of_a_gpu:
        raise AssumeError(f"--assume {'='.join(no_gpu)}: stands beside {'='.join(of_a_gpu)}, which only a GPU has")


def _is_no_gpu(pair: Pair) -> bool:
    key, value = pair
    return (key == "gpu" and value.lower() == "none") or (key == "gpu-count" and value.strip("0") == "" != value)
