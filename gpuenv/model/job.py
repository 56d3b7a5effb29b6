"""A job of a scheduler or a CI system."""

from typing import NamedTuple


class Job(NamedTuple):
    """A job in which gpuenv ran.

    Attributes:
        kind: ``slurm``, ``kubernetes``, ``github`` or ``gitlab``.
        id: its number, or the name of the pod.
        name: as the user named it; null if no variable has it.
    """

    kind: str
    id: str
    name: str | None = None
