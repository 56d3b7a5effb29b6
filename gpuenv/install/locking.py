"""Lock files: exact versions with digests, as ``pylock.toml`` (PEP 751) or as requirements. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpuenv.install.backends.base import make_pin
from gpuenv.install.pylock import parse_pylock
from gpuenv.install.records import Pin
from gpuenv.install.wants import marker_holds, parse
from gpuenv.model.secrets import hide_secrets

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_LINE = re.compile(r"(?P<requirement>[^\s-].*?)(?P<hashes>(?:\s+--hash=sha256:[0-9a-f]{64})+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def parse_lock(name: str, text: str, markers: Mapping[str, str] | None = None) -> tuple[Pin, ...]:
    """The pins of a lock file.

    Args:
        name: its file name; ``pylock*.toml`` is of PEP 751, all else requirements.
        text: its content.
        markers: the target's environment markers: a lock file may be for several platforms, and say by markers what is
            for which. None to look at the file alone.

    Raises:
        ValueError: with the line, where it is not an exact version with digests.
    """
    pins = parse_pylock(text, markers) if name.endswith(".toml") else tuple(_requirements(text, markers))
    names = [pin.name for pin in pins] if markers is not None else []
    twice = sorted({entry for entry in names if names.count(entry) > 1})
    if twice:
        raise ValueError(f"{twice[0]} is there twice: a lock file for one environment is wanted")
    if not pins:
        raise ValueError("it names no package")
    return pins


def _requirements(text: str, markers: Mapping[str, str] | None) -> Iterator[Pin]:
    for number, line in _logical_lines(text):
        try:
            requirement, pin = _pinned(line)
            if markers is None or marker_holds(str(requirement.marker or ""), markers):
                yield pin
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error


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


def _pinned(line: str) -> tuple[Requirement, Pin]:
    match = _LINE.fullmatch(line)
    requirement = parse(match["requirement"]) if match else None
    exact = [entry.version for entry in requirement.specifier if entry.operator == "=="] if requirement else []
    if match is None or requirement is None or len(exact) != len(requirement.specifier) or len(exact) != 1:
        raise ValueError(f"expected name==version --hash=sha256:..., found {hide_secrets(line)[:60]!r}")
    pin = make_pin(requirement.name, exact[0])
    return requirement, Pin(pin.name, pin.release, tuple(_HASH.findall(match["hashes"])))
