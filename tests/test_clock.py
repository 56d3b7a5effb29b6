"""The current time and date, compared with the ``datetime`` module."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from gpuenv.clock import days_since, now, today


def test_now_agrees_with_the_standard_library() -> None:
    before = datetime.now(timezone.utc).replace(microsecond=0)
    moment = now()
    assert before <= datetime.fromisoformat(moment) <= datetime.now(timezone.utc)
    assert datetime.fromisoformat(moment).isoformat(timespec="seconds") == moment


def test_today_subtracts_days() -> None:
    for days in (0, 1, 120, 4000):
        before = datetime.now(timezone.utc)
        date = today(days_ago=days)
        after = datetime.now(timezone.utc)
        assert date in {(moment - timedelta(days=days)).date().isoformat() for moment in (before, after)}


@pytest.mark.parametrize("days", [0, 1, 59, 120, 366, 4000, -1, -400])
def test_the_days_since_a_date_are_counted(days: int) -> None:
    assert days_since(today(days_ago=days)) == days


@pytest.mark.parametrize(
    "text", ["", "2026", "2026-11", "2026-06-31", "2026-13-01", "20261123", "2026-1-1", "a-b-c", "9" * 40]
)
def test_a_text_that_is_no_date_has_no_age(text: str) -> None:
    assert days_since(text) is None
