"""Real logs and tracebacks of healthy or unrelated programs, taken on one machine, yield nothing."""

from __future__ import annotations

from pathlib import Path

from tests.eval.near_misses import HEALTHY_OUTPUT, OTHER_FAULTS, PROSE
from tests.eval.scan_cache import cached_explanation

INNOCENT = sorted((Path(__file__).parents[1] / "eval/innocent").glob("*.txt"))


def test_there_are_enough_of_them() -> None:
    assert len(INNOCENT) >= 330
    assert len(HEALTHY_OUTPUT) >= 20
    assert len({path.read_bytes() for path in INNOCENT}) == len(INNOCENT)


def causes(text: bytes) -> list[tuple[str, tuple[str, ...], object]]:
    return [(entry.cause.value, entry.signatures, entry.lines) for entry in cached_explanation(text).causes]


def test_an_innocent_text_yields_nothing() -> None:
    assert {path.stem: found for path in INNOCENT if (found := causes(path.read_bytes()))} == {}


def test_a_healthy_text_that_comes_near_yields_nothing() -> None:
    texts = (*HEALTHY_OUTPUT, *PROSE, *OTHER_FAULTS)
    assert {text: found for text in texts if (found := causes(text.encode()))} == {}


def test_all_of_them_together_yield_nothing() -> None:
    """What one shows of a machine does not make an error of what another says."""
    assert causes(b"\n".join(path.read_bytes() for path in INNOCENT)) == []
