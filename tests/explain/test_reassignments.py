"""The tables of reassignments: existing evidence, preserved sums, no fact in both tables."""

from __future__ import annotations

import pytest

from gpuenv.explain.disambiguation import disambiguate
from gpuenv.explain.machine_evidence import EVIDENCE
from gpuenv.explain.reassignments import ALWAYS, IF_UNDECIDED, Reassignment
from gpuenv.explain.signatures import all_signatures

SHOWN = {signature.evidence for signature in all_signatures() if signature.evidence} | set(EVIDENCE)


def test_every_reassignment_names_existing_evidence() -> None:
    assert {reassignment.evidence for reassignment in (*ALWAYS, *IF_UNDECIDED)} <= SHOWN


def test_a_reassignment_keeps_the_sum_of_weights() -> None:
    def keeps_the_sum(reassignment: Reassignment, *, is_open: bool) -> bool:
        weights = dict.fromkeys(reassignment.causes, 0.05)
        result = disambiguate(weights, {reassignment.evidence}, is_open=is_open)
        alone = disambiguate(weights, (), is_open=is_open)
        return (
            0 < reassignment.share < 1
            and sum(result.values()) == pytest.approx(sum(weights.values()))
            and alone == weights
        )

    reassignments = [*ALWAYS, *IF_UNDECIDED]
    assert [
        reassignment
        for reassignment in reassignments
        for is_open in (False, True)
        if not keeps_the_sum(reassignment, is_open=is_open)
    ] == []


def test_a_certain_message_uses_the_first_table_only() -> None:
    def moved(reassignment: Reassignment, *, is_open: bool) -> float:
        weights = {cause: 0.05 for cause in reassignment.causes if cause is not reassignment.target}
        return disambiguate(weights, {reassignment.evidence}, is_open=is_open).get(reassignment.target, 0.0)

    assert [
        reassignment
        for reassignment in IF_UNDECIDED
        if moved(reassignment, is_open=True) <= moved(reassignment, is_open=False)
    ] == []


def test_no_fact_stands_in_both_tables() -> None:
    always = {
        (reassignment.evidence, cause, reassignment.target) for reassignment in ALWAYS for cause in reassignment.causes
    }
    if_undecided = {
        (reassignment.evidence, cause, reassignment.target)
        for reassignment in IF_UNDECIDED
        for cause in reassignment.causes
    }
    assert not always & if_undecided
