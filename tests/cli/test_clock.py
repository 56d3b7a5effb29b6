"""The current time and date, compared with the ``datetime`` module."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from gpuenv.cli.clock import now, today


def test_it_is_what_the_standard_library_says() -> None:
    before = datetime.now(timezone.utc).replace(microsecond=0)
    told = now()
    assert before <= datetime.fromisoformat(told) <= datetime.now(timezone.utc)
    assert datetime.fromisoformat(told).isoformat(timespec="seconds") == told


def test_days_are_counted_back() -> None:
    for days in (0, 1, 120, 4000):
        before = datetime.now(timezone.utc)
        told = today(days_ago=days)
        after = datetime.now(timezone.utc)
        assert told in {(moment - timedelta(days=days)).date().isoformat() for moment in (before, after)}
