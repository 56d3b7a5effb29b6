"""The time of day, by UTC, in ISO 8601: what is written means the same everywhere.

Without the ``datetime`` module, which takes as long to import as a machine takes to be diagnosed.
"""

from __future__ import annotations

import time

_DAY = 86_400  # seconds


def now() -> str:
    """The second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


def today(*, days_ago: int = 0) -> str:
    """The day, or an earlier one; of two days, the earlier one is less as a text."""
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() - days_ago * _DAY))
