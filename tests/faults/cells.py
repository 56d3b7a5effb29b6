"""The table of faults: every external thing against every fault, and the cells that have no meaning, with the reason.

A test of this folder is of one cell, which its parameters' id names: ``thing = fault``, and after a colon how the fault
came about. tests/faults/test_cells.py holds that no cell is without a test or a reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

FAULTS = ("absent", "unreadable", "empty", "rubbish", "huge", "slow", "hung", "dying", "lying")
THINGS = (
    *("kernel files", "/dev", "libnvidia-ml", "libcuda", "nvidia-smi", "target interpreter"),
    *("uv", "pip", "conda", "index", "engine"),
    *("disk", "HOME", "cache folder", "terminal", "clock", "locale"),
)
_NOTHING_KEPT = "these commands keep nothing there"
_ONLY_LOOKED_AT = "a node is looked at, never opened"
_A_SETTING = "a word in a variable, read at once"
_A_READING = "a number that the kernel gives at once"
WITHOUT_MEANING: dict[tuple[str, str], str] = {
    ("/dev", "slow"): _ONLY_LOOKED_AT,
    ("/dev", "dying"): _ONLY_LOOKED_AT,
    ("clock", "unreadable"): _A_READING,
    ("clock", "empty"): _A_READING,
    ("clock", "absent"): _A_READING,
    ("locale", "slow"): _A_SETTING,
    ("locale", "hung"): _A_SETTING,
    ("locale", "dying"): _A_SETTING,
    ("cache folder", "huge"): _NOTHING_KEPT,
    ("cache folder", "hung"): _NOTHING_KEPT,
    ("disk", "hung"): "the kernel lets nobody go who waits for it, not even at a deadline",
}


def cells(thing: str, faults: Iterable[str]) -> pytest.MarkDecorator:
    """A test of some faults of one thing, given ``fault``."""
    listed = list(faults)
    return pytest.mark.parametrize("fault", listed, ids=[cell(thing, fault) for fault in listed])


def cell(thing: str, fault: str) -> str:
    """The id of a test."""
    return f"{thing} = {fault}"


def column(fault: str) -> str:
    """Which of the nine a fault is."""
    return fault.replace(",", ":").partition(":")[0]


def grid(told: Iterable[tuple[str, str, Any]]) -> Iterable[str]:
    """The table: a line a thing, a column a fault, the number of trials that ended as they should; and the reasons."""
    counts: dict[tuple[str, str], int] = {}
    for thing, fault, _ in told:
        counts[thing, column(fault)] = counts.get((thing, column(fault)), 0) + 1
    width = max(map(len, THINGS))
    yield " " * width + "".join(f"  {fault:>{len(fault)}}" for fault in FAULTS)
    for thing in THINGS:
        marks = (
            str(counts.get((thing, fault), "-" if (thing, fault) in WITHOUT_MEANING else "MISSING")) for fault in FAULTS
        )
        yield f"{thing:<{width}}" + "".join(
            f"  {mark:>{len(fault)}}" for mark, fault in zip(marks, FAULTS, strict=True)
        )
    for (thing, fault), reason in sorted(WITHOUT_MEANING.items()):
        yield f"- {thing}, {fault}: {reason}"
