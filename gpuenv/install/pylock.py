"""``pylock.toml`` (PEP 751): the pins in one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuenv.install.backends.base import file_name, make_pin
from gpuenv.install.records import Pin
from gpuenv.install.wants import marker_holds
from gpuenv.toml_text import parse_toml


def parse_pylock(text: str, markers: Mapping[str, str] | None = None) -> tuple[Pin, ...]:
    """The packages of a lock file, each with the digests of its wheels.

    Args:
        text: its content.
        markers: the target's environment markers, by which packages are for it or not; None for all that it names.

    Raises:
        ValueError: when it is no lock file, or holds a package that is not from wheels.
    """
    document = parse_toml(text)
    if str(document.get("lock-version", "")).split(".")[0] != "1":
        raise ValueError("expected lock-version 1.0")
    packages = document.get("packages", [])
    if not isinstance(packages, list):
        raise ValueError("packages: expected a list of tables")  # noqa: TRY004 - one kind of error for all input
    if not all(isinstance(entry, dict) for entry in packages):
        raise ValueError("packages: expected a table")
    return tuple(_pin(entry) for entry in packages if _is_wanted(entry, markers))


def _is_wanted(entry: Mapping[str, Any], markers: Mapping[str, str] | None) -> bool:
    """Whether it is for the target; where nobody knows the target yet, what only some have may lack wheels."""
    marker = str(entry.get("marker") or "")
    try:
        holds = marker_holds(marker, markers or {})
    except ValueError as error:
        raise ValueError(f"{entry.get('name')}: {error}") from error
    return holds if markers is not None else not marker or bool(entry.get("wheels"))


def _pin(entry: Mapping[str, Any]) -> Pin:
    wheels = [wheel for wheel in entry.get("wheels", []) if isinstance(wheel, dict)]
    name, release = entry.get("name"), entry.get("version")
    if not wheels:
        raise ValueError(f"{name} {release}: no wheel is named; only wheels are installed")
    first = wheels[0]
    pin = make_pin(name, release, size=first.get("size"), wheel=file_name(first.get("url") or first.get("path")))
    digests = tuple(_digest(wheel, pin.name) for wheel in wheels)
    size = pin.size if len(wheels) == 1 else None
    return Pin(pin.name, pin.release, digests, size, None, pin.wheel if len(wheels) == 1 else None)


def _digest(wheel: dict[str, Any], name: str) -> str:
    hashes = wheel.get("hashes")
    told = hashes.get("sha256") if isinstance(hashes, dict) else None
    if not isinstance(told, str):
        raise ValueError(f"{name}: a wheel without a SHA-256 digest")  # noqa: TRY004 - likewise
    return make_pin(name, "0", told).sha256[0]
