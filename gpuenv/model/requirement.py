"""What a caller asks of a machine, and whether it has it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpuenv.model.finding import Evidence


class RequirementStatus(str, Enum):
    """Met, violated, or not to be told for want of a fact."""

    MET = "met"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """One requirement, held against a machine.

    Attributes:
        text: the requirement as it was written.
        key: what it is about, such as ``memory``.
        status: whether it is met.
        found: what the machine has, in a few words.
        evidence: the facts behind that, each with its Snapshot path.
        missing: the fact that could not be told; null unless the status is unknown.
        of_host: whether another host could meet it: a GPU's memory, but not the CuPy in the environment.
        by_absence: whether there is none of it, or there are too few, which a fault of the driver or of a GPU may have
            brought about; that something is there and is of another kind has nothing to do with such a fault.
        by_unusable: whether it would be met if every GPU that the machine lists could be used: one that is lost, or
            that a variable hides, is then the reason.
        source: who asks: ``--require``, or a file and its line.
        file: that file, as the caller would write its path; null for the command line.
        line: that line.
    """

    text: str
    key: str
    status: RequirementStatus
    found: str
    evidence: tuple[Evidence, ...]
    missing: str | None
    of_host: bool
    source: str
    file: str | None = None
    line: int | None = None
    by_absence: bool = False
    by_unusable: bool = False
