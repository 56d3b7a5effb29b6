"""Real logs and tracebacks of healthy or unrelated programs, taken on one machine, yield nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuenv.explain.answer import explanation
from gpuenv.explain.scan import scan
from tests.eval.near import NEAR, OTHER_FAULTS, WRITTEN

INNOCENT = sorted((Path(__file__).parents[1] / "eval/innocent").glob("*.txt"))


def test_there_are_enough_of_them() -> None:
    assert len(INNOCENT) >= 330
    assert len(NEAR) >= 20
    assert len({path.read_bytes() for path in INNOCENT}) == len(INNOCENT)


@pytest.mark.parametrize("path", INNOCENT, ids=lambda path: path.stem)
def test_an_innocent_text_yields_nothing(path: Path) -> None:
    said = explanation(scan(path.read_bytes())).causes
    assert [(entry.cause.value, entry.signatures, entry.lines) for entry in said] == []


@pytest.mark.parametrize("text", [*NEAR, *WRITTEN, *OTHER_FAULTS])
def test_a_healthy_text_that_comes_near_yields_nothing(text: str) -> None:
    assert [(entry.cause.value, entry.signatures) for entry in explanation(scan(text.encode())).causes] == []


def test_all_of_them_together_yield_nothing() -> None:
    """What one shows of a machine does not make an error of what another says."""
    assert explanation(scan(b"\n".join(path.read_bytes() for path in INNOCENT))).causes == ()
