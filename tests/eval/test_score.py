"""How good the answers are may not fall behind what was reached; ``make eval`` prints every miss."""

from __future__ import annotations

import pytest

from gpuenv.model.causes import Cause
from tests.eval.score import answers, load, row


@pytest.mark.parametrize(
    ("name", "with_facts", "first", "three"),
    [
        ("established", False, 0.88, 0.95),
        ("established", True, 0.92, 0.97),
        ("collected", False, 0.76, 0.85),
        ("unconfirmed", False, 0.78, 0.9),
    ],
)
def test_the_score_holds(name: str, with_facts: bool, first: float, three: float) -> None:  # noqa: FBT001 - a case
    given = answers(load(name), with_facts=with_facts)
    count = len(given)
    assert [answer.error for answer in given if answer.error] == []
    assert sum(answer.first for answer in given) >= first * count, row(given)
    assert sum(answer.among_three for answer in given) >= three * count, row(given)
    assert sum(answer.wrong_and_sure for answer in given) <= 0.03 * count, row(given)


def test_the_cases_are_well_formed() -> None:
    cases = [case for name in ("established", "collected", "unconfirmed") for case in load(name)]
    assert len({case.id for case in cases}) == len(cases)
    assert {case.root_cause for case in cases} <= {cause.value for cause in Cause}
    assert all(case.source and case.error_text for case in cases)
    assert {case.split for case in load("collected")} == {"open", "held", "later"}
    assert len(load("collected")) >= 100
