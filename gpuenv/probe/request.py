"""The request for a probe session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# Seconds until all probes must have answered; initialising eight GPUs without persistence mode is slow.
SHORTEST_TIMEOUT, DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 0.1, 30.0, 3600


class ProbeRequest(NamedTuple):
    """What to probe, and how long."""

    environment: Mapping[str, str]  # the caller's environment variables
    python: str | None = None  # the requested target; None for the active environment
    root: str = "/"  # of the driver
    timeout: float = DEFAULT_TIMEOUT  # seconds until every probe must have answered
    taken_at: str | None = None  # the snapshot's time, ISO 8601
    deep: bool = False  # also check the digests of the installed files, which takes long
    host_only: bool = False  # probe no target
