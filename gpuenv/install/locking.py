"""Lock files: exact versions with digests, as ``pylock.toml`` (PEP 751) or as requirements. Pure."""

from __future__ import annotations

import re

from gpuenv.install.backends.base import make_pin
from gpuenv.install.pylock import parse_pylock
from gpuenv.install.records import Pin

_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)((?:\s+--hash=sha256:[0-9a-f]{64})+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def parse_lock(name: str, text: str) -> tuple[Pin, ...]:
    """The pins of a lock file.

    Args:
        name: its file name; ``pylock*.toml`` is of PEP 751, all else requirements.
        text: its content.

    Raises:
        ValueError: with the line, where it is not an exact version with digests.
    """
    pins = parse_pylock(text) if name.endswith(".toml") else _requirements(text)
    names = [pin.name for pin in pins]
    twice = sorted({entry for entry in names if names.count(entry) > 1})
    if twice:
        raise ValueError(f"{twice[0]} is there twice: a lock file for one environment is wanted")
    if not pins:
        raise ValueError("it names no package")
    return pins


def _requirements(text: str) -> tuple[Pin, ...]:
    return tuple(_requirement(number, line) for number, line in _logical_lines(text))


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines with those that they are continued on; comments and empty ones left out."""
    found: list[tuple[int, str]] = []
    rest, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"(^|\s)#.*", "", line).strip()
        start = start if rest else number
        if bare.endswith("\\"):
            rest += bare[:-1].strip() + " "
            continue
        whole, rest = (rest + bare).strip(), ""
        if whole:
            found.append((start, whole))
    return found + ([(start, rest.strip())] if rest.strip() else [])


def _requirement(number: int, line: str) -> Pin:
    bare = re.sub(r"\s*;[^-]*(?=\s--hash|$)", "", line)
    match = _LINE.fullmatch(bare)
    if not match:
        raise ValueError(f"line {number}: expected name==version --hash=sha256:..., found {line[:60]!r}")
    try:
        pin = make_pin(match[1], match[2])
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from error
    return Pin(pin.name, pin.release, tuple(_HASH.findall(match[3])))
