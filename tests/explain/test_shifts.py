"""The tables by which the rest of a text tells causes apart: shown marks, shares, and a fact that counts once."""

from __future__ import annotations

import pytest

from gpuenv.explain.apart import told_apart
from gpuenv.explain.shifts import OF_EVERY, WHERE_OPEN, Shift
from gpuenv.explain.signatures import all_signatures
from gpuenv.explain.situation import MARKS

SHOWN = {signature.mark for signature in all_signatures() if signature.mark} | set(MARKS)


@pytest.mark.parametrize("shift", [*OF_EVERY, *WHERE_OPEN], ids=lambda shift: f"{shift.mark}-{shift.meant}")
def test_a_shift_names_a_mark_that_is_shown_and_loses_nothing(shift: Shift) -> None:
    assert shift.mark in SHOWN
    assert 0 < shift.share < 1
    weights = dict.fromkeys(shift.causes, 0.05)
    for is_open in (False, True):
        told = told_apart(weights, {shift.mark}, is_open=is_open)
        assert sum(told.values()) == pytest.approx(sum(weights.values()))
        assert told_apart(weights, (), is_open=is_open) == weights


@pytest.mark.parametrize("shift", WHERE_OPEN, ids=lambda shift: f"{shift.mark}-{shift.meant}")
def test_a_message_that_is_sure_is_moved_by_the_first_table_alone(shift: Shift) -> None:
    causes = [cause for cause in shift.causes if cause is not shift.meant]
    weights = dict.fromkeys(causes, 0.05)
    moved = told_apart(weights, {shift.mark}, is_open=True).get(shift.meant, 0.0)
    assert moved > told_apart(weights, {shift.mark}, is_open=False).get(shift.meant, 0.0)


def test_a_fact_counts_once() -> None:
    of_every = {(shift.mark, cause, shift.meant) for shift in OF_EVERY for cause in shift.causes}
    where_open = {(shift.mark, cause, shift.meant) for shift in WHERE_OPEN for cause in shift.causes}
    assert not of_every & where_open
