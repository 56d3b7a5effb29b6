"""The matrix of external things and their faults, with a reason for each combination that has no meaning.

The id of a test in this folder names its combination: ``thing = fault``, with a variant of the fault after a colon.
tests/faults/test_fault_matrix.py checks that every combination has a test or a reason.
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
_NOT_USED = "these commands write nothing there"
_NOT_OPENED = "the status of a node is read, the node never opened"
_A_VARIABLE = "a variable, read at once"
_A_NUMBER = "a number that the kernel returns at once"
WITHOUT_MEANING: dict[tuple[str, str], str] = {
    ("/dev", "slow"): _NOT_OPENED,
    ("/dev", "dying"): _NOT_OPENED,
    ("clock", "unreadable"): _A_NUMBER,
    ("clock", "empty"): _A_NUMBER,
    ("clock", "absent"): _A_NUMBER,
    ("locale", "slow"): _A_VARIABLE,
    ("locale", "hung"): _A_VARIABLE,
    ("locale", "dying"): _A_VARIABLE,
    ("cache folder", "huge"): _NOT_USED,
    ("cache folder", "hung"): _NOT_USED,
    ("disk", "hung"): "the kernel does not interrupt a process that waits for a disk, not even at a deadline",
}


def parametrize_faults(thing: str, faults: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrize a test over faults of one thing, as ``fault``."""
    variants = list(faults)
    return pytest.mark.parametrize("fault", variants, ids=[case_id(thing, fault) for fault in variants])


def case_id(thing: str, fault: str) -> str:
    """The id of a test case."""
    return f"{thing} = {fault}"


def fault_kind(fault: str) -> str:
    """The one of the nine faults that a variant belongs to."""
    return fault.replace(",", ":").partition(":")[0]


def grid(outcomes: Iterable[tuple[str, str, Any]]) -> Iterable[str]:
    """The matrix with the number of passed cases: a line per thing, a column per fault, and the reasons."""
    counts: dict[tuple[str, str], int] = {}
    for thing, fault, _ in outcomes:
        counts[thing, fault_kind(fault)] = counts.get((thing, fault_kind(fault)), 0) + 1
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
