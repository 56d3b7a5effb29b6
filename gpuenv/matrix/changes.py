"""Several wishes for one fact made one: a driver of at least this and at most that. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.model.pattern import pattern
from gpuenv.model.resolution import Change
from gpuenv.model.versions import DriverVersion

_FLOOR = pattern(r">= (\d+(?:\.\d+)*)|branch (\d+) or newer")
_CEILING = pattern(r"branch (\d+) or older")


def merged(changes: Sequence[Change]) -> tuple[Change, ...] | None:
    """One change a fact; None where two wishes cannot both be met."""
    found: dict[str, Change] = {}
    for change in changes:
        earlier = found.get(change.fact)
        together = change if earlier is None else _both(earlier, change)
        if together is None:
            return None
        found[change.fact] = together
    return tuple(found.values())


def driver_floor(text: str) -> DriverVersion | None:
    """The oldest driver that ``>= 580.65.06`` or ``branch 570 or newer`` admits."""
    told = _FLOOR.search(text)
    return DriverVersion.parse(told[1] or told[2]) if told else None


def _both(one: Change, other: Change) -> Change | None:
    if one.needed == other.needed:
        return one
    if one.fact != "driver.version":
        return None
    floors = [change for change in (one, other) if driver_floor(change.needed)]
    ceilings = [int(told[1]) for change in (one, other) if (told := _CEILING.search(change.needed))]
    if not floors:
        return Change(one.fact, f"branch {min(ceilings)} or older", one.found)
    floor = max(floors, key=lambda change: driver_floor(change.needed) or DriverVersion("", ()))
    lowest = driver_floor(floor.needed)
    if lowest is None or (ceilings and lowest.branch > min(ceilings)):
        return None
    said = _CEILING.sub("", floor.needed).rstrip(", ")
    return Change(one.fact, f"{said}, branch {min(ceilings)} or older" if ceilings else said, one.found)
