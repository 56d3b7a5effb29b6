"""The current time and date, compared with the ``datetime`` module."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from gpuenv.cli.clock import now, today


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
