"""The tables by which the rest of a text tells causes apart: shown marks, shares, and a fact that counts once."""

from __future__ import annotations

import pytest

from gpuenv.explain.disambiguation import disambiguate
from gpuenv.explain.machine_evidence import EVIDENCE
from gpuenv.explain.reassignments import ALWAYS, IF_UNDECIDED, Reassignment
from gpuenv.explain.signatures import all_signatures

SHOWN = {signature.evidence for signature in all_signatures() if signature.evidence} | set(EVIDENCE)


def test_a_shift_names_a_mark_that_is_shown() -> None:
    assert {shift.evidence for shift in (*ALWAYS, *IF_UNDECIDED)} <= SHOWN


def test_a_shift_loses_nothing() -> None:
    def keeps_the_sum(shift: Reassignment, *, is_open: bool) -> bool:
        weights = dict.fromkeys(shift.causes, 0.05)
        told = disambiguate(weights, {shift.evidence}, is_open=is_open)
        alone = disambiguate(weights, (), is_open=is_open)
        return 0 < shift.share < 1 and sum(told.values()) == pytest.approx(sum(weights.values())) and alone == weights

    shifts = [*ALWAYS, *IF_UNDECIDED]
    assert [shift for shift in shifts for is_open in (False, True) if not keeps_the_sum(shift, is_open=is_open)] == []


def test_a_message_that_is_sure_is_moved_by_the_first_table_alone() -> None:
    def moved(shift: Reassignment, *, is_open: bool) -> float:
        weights = {cause: 0.05 for cause in shift.causes if cause is not shift.target}
        return disambiguate(weights, {shift.evidence}, is_open=is_open).get(shift.target, 0.0)

    assert [shift for shift in IF_UNDECIDED if moved(shift, is_open=True) <= moved(shift, is_open=False)] == []


def test_a_fact_counts_once() -> None:
    of_every = {(shift.evidence, cause, shift.target) for shift in ALWAYS for cause in shift.causes}
    where_open = {(shift.evidence, cause, shift.target) for shift in IF_UNDECIDED for cause in shift.causes}
    assert not of_every & where_open
