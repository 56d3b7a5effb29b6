"""The tables by which the rest of a text tells causes apart: shown marks, shares, and a fact that counts once."""

from __future__ import annotations

import pytest

from gpuenv.explain.disambiguation import told_apart
from gpuenv.explain.machine_evidence import MARKS
from gpuenv.explain.reassignments import OF_EVERY, WHERE_OPEN, Shift
from gpuenv.explain.signatures import all_signatures

SHOWN = {signature.mark for signature in all_signatures() if signature.mark} | set(MARKS)


def test_a_shift_names_a_mark_that_is_shown() -> None:
    assert {shift.mark for shift in (*OF_EVERY, *WHERE_OPEN)} <= SHOWN


def test_a_shift_loses_nothing() -> None:
    def keeps_the_sum(shift: Shift, *, is_open: bool) -> bool:
        weights = dict.fromkeys(shift.causes, 0.05)
        told = told_apart(weights, {shift.mark}, is_open=is_open)
        alone = told_apart(weights, (), is_open=is_open)
        return 0 < shift.share < 1 and sum(told.values()) == pytest.approx(sum(weights.values())) and alone == weights

    shifts = [*OF_EVERY, *WHERE_OPEN]
    assert [shift for shift in shifts for is_open in (False, True) if not keeps_the_sum(shift, is_open=is_open)] == []


def test_a_message_that_is_sure_is_moved_by_the_first_table_alone() -> None:
    def moved(shift: Shift, *, is_open: bool) -> float:
        weights = {cause: 0.05 for cause in shift.causes if cause is not shift.meant}
        return told_apart(weights, {shift.mark}, is_open=is_open).get(shift.meant, 0.0)

    assert [shift for shift in WHERE_OPEN if moved(shift, is_open=True) <= moved(shift, is_open=False)] == []


def test_a_fact_counts_once() -> None:
    of_every = {(shift.mark, cause, shift.meant) for shift in OF_EVERY for cause in shift.causes}
    where_open = {(shift.mark, cause, shift.meant) for shift in WHERE_OPEN for cause in shift.causes}
    assert not of_every & where_open
