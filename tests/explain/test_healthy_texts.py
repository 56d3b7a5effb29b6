"""Real logs and tracebacks of healthy or unrelated programs yield no cause."""

from __future__ import annotations

from pathlib import Path

from tests.eval.near_misses import HEALTHY_OUTPUT, OTHER_FAULTS, PROSE
from tests.eval.scan_cache import cached_explanation

HEALTHY = sorted((Path(__file__).parents[1] / "eval/innocent").glob("*.txt"))


def test_there_are_enough_distinct_healthy_texts() -> None:
    assert len(HEALTHY) >= 330
    assert len(HEALTHY_OUTPUT) >= 20
    assert len({path.read_bytes() for path in HEALTHY}) == len(HEALTHY)


def causes(text: bytes) -> list[tuple[str, tuple[str, ...], object]]:
    return [(entry.cause.value, entry.signatures, entry.lines) for entry in cached_explanation(text).causes]


def test_a_healthy_text_yields_no_cause() -> None:
    assert {path.stem: found for path in HEALTHY if (found := causes(path.read_bytes()))} == {}


def test_hardly_any_healthy_text_yields_a_guess() -> None:
    guesses = {path.stem: cached_explanation(path.read_bytes()).guess for path in HEALTHY}
    guessed = {name: guess.cause.value for name, guess in guesses.items() if guess is not None}
    assert len(guessed) <= 0.02 * len(HEALTHY), guessed


def test_a_near_miss_yields_no_cause() -> None:
    texts = (*HEALTHY_OUTPUT, *PROSE, *OTHER_FAULTS)
    assert {text: found for text in texts if (found := causes(text.encode()))} == {}
