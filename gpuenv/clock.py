"""The current time and date in UTC, in ISO 8601.

Avoids the ``datetime`` module, whose import takes as long as a diagnosis.
"""

from __future__ import annotations

import time

_DAY = 86_400  # seconds


def now() -> str:
    """The current time, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time()))


def today(*, days_ago: int = 0) -> str:
    """The current date, or an earlier one; dates compare as texts."""
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() - days_ago * _DAY))


def days_since(day: str) -> int | None:
    """The days from a date to today, negative for a future date; None for a text that is no date."""
    from datetime import date  # noqa: PLC0415 - slow to load

    try:
        found = date.fromisoformat(day)
    except ValueError:
        return None
    is_plain = found.isoformat() == day  # from Python 3.11 on, 20261123 is a date too
    return (date.fromisoformat(today()) - found).days if is_plain else None
