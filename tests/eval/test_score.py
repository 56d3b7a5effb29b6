"""Scores may not fall below these bounds, three points under what was measured; ``make eval`` prints every miss."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from gpuenv.model.causes import Cause
from tests.eval.printed_messages import messages, recalls
from tests.eval.score import SETS, answers, load, row

BOUNDS = (
    ("established", False, 0.81, 0.93),
    ("established", True, 0.79, 0.93),
    ("collected", False, 0.87, 0.94),
    ("gathered", False, 0.87, 0.92),
    ("fetched", False, 0.87, 0.94),
    ("reported", False, 0.89, 0.96),
    ("recent", False, 0.96, 0.97),
    ("unseen", False, 0.87, 0.97),
    ("further", False, 0.86, 0.91),
    ("later", False, 0.80, 0.90),
    ("fresh", False, 0.81, 0.90),
    ("untried", False, 0.84, 0.93),
    ("blind", False, 0.84, 0.91),
    ("unmet", False, 0.88, 0.93),
    ("afresh", False, 0.84, 0.95),
    ("anew", False, 0.80, 0.89),
    ("whole_reports", False, 0.80, 0.89),
    ("unconfirmed", False, 0.78, 0.91),
)


@pytest.mark.parametrize(("name", "with_facts", "first", "three"), BOUNDS)
def test_the_score_of_a_set_stays_above_its_bounds(name: str, with_facts: bool, first: float, three: float) -> None:  # noqa: FBT001 - a case
    scored = answers(load(name), with_facts=with_facts)
    count = len(scored)
    assert [answer.error for answer in scored if answer.error] == []
    assert sum(answer.first for answer in scored) >= first * count, row(scored)
    assert sum(answer.among_three for answer in scored) >= three * count, row(scored)
    assert sum(answer.wrong_and_sure for answer in scored) <= 0.02 * count, row(scored)


def test_every_set_has_a_bound() -> None:
    assert {name for name, *_ in BOUNDS} == set(SETS)


def test_the_cases_are_well_formed() -> None:
    cases = [case for name in SETS for case in load(name)]
    assert len({case.id for case in cases}) == len(cases)
    assert {case.root_cause for case in cases} <= {cause.value for cause in Cause}
    assert all(case.source and case.error_text for case in cases)
    assert {case.split for case in load("collected")} == {"open", "held", "later"}
    assert len(load("collected")) >= 100
    assert {case.split for case in load("gathered")} == {"open", "held"}
    assert len(load("gathered")) >= 120
    assert len(load("fetched")) >= 60
    assert len(load("reported")) >= 110
    assert len(load("recent")) >= 70
    assert len(load("unseen")) >= 75
    assert len(load("further")) >= 95
    assert len(load("later")) >= 70
    assert len(load("fresh")) >= 100
    assert len(load("untried")) >= 160
    assert {case.split for case in load("untried")} == {"open", "held"}
    assert {case.split for name in ("unseen", "further", "later", "fresh") for case in load(name)} == {"held"}
    assert len(load("anew")) >= 90
    assert max(Counter(case.root_cause for case in load("anew")).values()) <= 3
    for case in (*load("reported"), *load("anew")):
        assert case.split == ("held" if hashlib.sha256(case.id.encode()).digest()[0] % 2 else "open")


def test_messages_of_libraries_and_tools_are_recognized() -> None:
    """At least half of the messages of each source, and nearly all together."""
    entries = list(recalls())
    assert len(entries) >= 20
    for entry in entries:
        assert entry.three >= 0.5 * entry.count, entry
    count = sum(entry.count for entry in entries)
    assert count >= 1000
    assert sum(entry.first for entry in entries) >= 0.98 * count
    assert sum(entry.three for entry in entries) >= 0.98 * count


def test_the_messages_are_well_formed() -> None:
    printed = messages()
    assert len({message.text for message in printed}) == len(printed)
    assert all(message.causes <= {cause.value for cause in Cause} and message.causes for message in printed)
