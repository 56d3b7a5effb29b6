"""The request for a probe session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# Seconds until all probes must have answered; initialising eight GPUs without persistence mode is slow.
SHORTEST_TIMEOUT, DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 0.1, 30.0, 3600


class ProbeRequest(NamedTuple):
    """What to probe, and how long.

    Attributes:
        environment: the caller's environment variables.
        python: the requested target; None for the active environment.
        root: the driver root.
        timeout: seconds until every probe must have answered.
        taken_at: the snapshot's time, ISO 8601.
        deep: also check the digests of the installed files, which takes long.
        host_only: probe no target.
    """

    environment: Mapping[str, str]
    python: str | None = None
    root: str = "/"
    timeout: float = DEFAULT_TIMEOUT
    taken_at: str | None = None
    deep: bool = False
    host_only: bool = False
