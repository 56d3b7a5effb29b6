"""What to probe, and how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# Seconds that the machine may take to answer; the first initialisation of eight GPUs without persistence mode is slow.
SHORTEST_TIMEOUT, DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 0.1, 30.0, 3600


class ProbeRequest(NamedTuple):
    """What to probe, and how long.

    Attributes:
        environment: the caller's environment variables.
        python: the target that the caller named; None for the active environment.
        root: the driver root.
        timeout: seconds until every probe must have answered.
        taken_at: the time of day to note, ISO 8601.
        deep: also what takes long: the digests of the installed files.
    """

    environment: Mapping[str, str]
    python: str | None = None
    root: str = "/"
    timeout: float = DEFAULT_TIMEOUT
    taken_at: str | None = None
    deep: bool = False
