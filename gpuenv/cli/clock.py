"""The current time and date in UTC, in ISO 8601.

Avoids the ``datetime`` module, whose import takes as long as a diagnosis.
"""

from __future__ import annotations

import time

_DAY = 86_400  # seconds


def now() -> str:
    """The current time, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


def today(*, days_ago: int = 0) -> str:
    """The current date, or an earlier one; dates compare as texts."""
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() - days_ago * _DAY))


def days_since(day: str) -> int | None:
    """The days from a date to today, negative for one to come; None for a text that is no date."""
    try:
        year, month, number = (int(part) for part in day.split("-"))
        noon = time.mktime((year, month, number, 12, 0, 0, 0, 0, -1))
    except (ValueError, OverflowError):
        return None
    if time.strftime("%Y-%m-%d", time.localtime(noon)) != day:  # mktime takes the 31st of June
        return None
    now = time.gmtime()
    return round((time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 12, 0, 0, 0, 0, -1)) - noon) / _DAY)
