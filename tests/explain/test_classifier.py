"""The classifier of texts by their words, its weights, and the guess where no message is known."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from gpuenv.explain.classifier import (
    NO_FAULT,
    NOTHING,
    WEIGHTS_FILE,
    Classifier,
    classify,
    read_classifier,
    terms_of,
    trained,
)
from gpuenv.explain.explanation_types import Explanation
from gpuenv.model.causes import Cause
from tests.cli.program import gpuenv
from tests.eval import scan_cache
from tests.eval.score import SETS, Case, load
from tools.train_classifier import digest, samples

if TYPE_CHECKING:
    from pathlib import Path

SURE = "Failed to initialize NVML: Driver/library version mismatch"


def explained(text: str) -> Explanation:
    return scan_cache.cached_explanation(text.encode())


@pytest.fixture(scope="module")
def unknown() -> tuple[Case, ...]:
    """Reports without a known message, and with a guess."""
    cases = [case for name in SETS for case in load(name) if not explained(case.error_text).causes]
    found = tuple(case for case in cases if explained(case.error_text).guess is not None)
    assert len(found) >= 100
    return found


def test_a_guess_stands_apart_from_causes(unknown: tuple[Case, ...]) -> None:
    for case in unknown:
        result = explained(case.error_text)
        assert result.causes == ()
        guess = result.guess
        assert guess is not None
        assert 0 < guess.confidence < 0.8
        assert guess.cause not in guess.alternatives
        assert len(set(guess.alternatives)) == 2
        assert guess.fix
        assert guess.would_decide
        assert guess.title


def test_a_guess_quotes_the_words_and_lines_that_speak_for_it(unknown: tuple[Case, ...]) -> None:
    for case in unknown:
        guess = explained(case.error_text).guess
        assert guess is not None
        read = "\n".join(line.text for line in scan_cache.cached_scan(case.error_text.encode()).latest)
        assert guess.words
        assert set(guess.words) <= set(terms_of(read))
        text = " ".join(case.error_text.split())
        assert all(" ".join(line.text.split()) in text for line in guess.lines)  # runs of spaces are shown shorter


def test_a_guess_is_mostly_right(unknown: tuple[Case, ...]) -> None:
    """On texts that the classifier has seen; tests/eval/test_learn.py has those left out."""
    guesses = [(case.root_cause, explained(case.error_text).guess) for case in unknown]
    right = sum(guess is not None and guess.cause.value == cause for cause, guess in guesses)
    assert right >= 0.8 * len(guesses)


def test_a_known_message_leaves_no_guess(unknown: tuple[Case, ...]) -> None:
    for case in unknown:
        mixed = explained(f"{case.error_text}\n\n{SURE}")
        assert mixed.guess is None
        assert mixed.causes[0].cause is Cause.DRIVER_LIBRARY_VERSION_MISMATCH
        assert mixed.causes[0].signatures


@pytest.mark.parametrize(
    "text",
    [
        "",
        "error",
        "the gpu",
        "Traceback (most recent call last):\nKeyError: 'gpu'",
        "the weather is not good and the train is late, no error there",
        "for (int i = 0; i < n; ++i) {\n  // cuda error: not found\n  gpu[i] = missing;\n}\nreturn false;",
        "zzz qqq cuda xxx error yyy",
    ],
)
def test_unrelated_texts_yield_no_guess(text: str) -> None:
    assert explained(text).causes == ()
    assert explained(text).guess is None


WORDS = dict.fromkeys(("cuda", "error", "cuda error"), (100, 0, 100, 1, -50))
WORDS |= dict.fromkeys(("b", "c", "d", "b c", "c d"), (100, 1, 100, 2, -200))
SMALL = Classifier(("out-of-memory", "no-driver", NO_FAULT), (0, 0, 0), WORDS, 4.0, "")


def test_a_text_without_known_words_is_not_classified() -> None:
    assert classify("nothing of this is known", SMALL) == NOTHING


def test_the_highest_weights_decide_the_order_of_causes() -> None:
    result = classify("a CUDA error: b c d", SMALL)
    assert list(result.chances) == [Cause.NO_DRIVER, Cause.OUT_OF_MEMORY]
    assert sum(result.chances.values()) < 1
    assert result.is_clear
    assert set(result.words[Cause.OUT_OF_MEMORY]) == {"error", "cuda error"}


def test_few_known_words_are_not_clear() -> None:
    result = classify("a CUDA error", SMALL)
    assert result.chances[Cause.OUT_OF_MEMORY] > 0.5
    assert not result.is_clear


def test_a_guess_is_labelled_as_one(tmp_path: Path, unknown: tuple[Case, ...]) -> None:
    text = unknown[0].error_text
    guess = explained(text).guess
    assert guess is not None
    report = tmp_path / "report.txt"
    report.write_text(text, encoding="utf-8")
    done = gpuenv("explain", report)
    assert done.returncode == 1
    assert done.stdout.startswith("No known error message")
    assert guess.cause.value in done.stdout
    assert all(cause.value in done.stdout for cause in guess.alternatives)


def test_a_guess_is_a_member_of_its_own_in_json(tmp_path: Path, unknown: tuple[Case, ...]) -> None:
    report = tmp_path / "report.txt"
    report.write_text(unknown[0].error_text, encoding="utf-8")
    done = gpuenv("explain", report, "--format", "json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["causes"] == []
    assert {*document["guess"]} >= {"cause", "confidence", "words", "lines", "alternatives", "fix", "would_decide"}
    known = tmp_path / "known.txt"
    known.write_text(SURE, encoding="utf-8")
    document = json.loads(gpuenv("explain", known, "--format", "json").stdout)
    assert document["guess"] is None
    assert document["causes"]


def test_run_is_silent_for_a_guess(tmp_path: Path, unknown: tuple[Case, ...]) -> None:
    report = tmp_path / "report.txt"
    report.write_text(unknown[0].error_text, encoding="utf-8")
    done = gpuenv("run", "--", "sh", "-c", f"cat {report} >&2; exit 3")
    assert (done.returncode, done.stderr) == (3, unknown[0].error_text)


def test_the_shipped_weights_match_the_training_texts() -> None:
    """If not, make learn writes them anew; a word needs three origins, so that it is not of one report alone."""
    given = samples()
    assert trained().trained_on == digest(given)
    origins: dict[str, set[str]] = defaultdict(set)
    for sample in given:
        for term in terms_of(sample.text):
            origins[term].add(sample.origin)
    assert {term for term in trained().words if len(origins[term]) < 3} == set()
    assert [term for term in trained().words if term.isdigit()] == []


def test_the_shipped_weights_name_existing_causes() -> None:
    weights = trained()
    assert {*weights.causes} <= {*(cause.value for cause in Cause), NO_FAULT}
    assert len(weights.causes) == len(weights.biases) >= 80
    indexes = {index for row in weights.words.values() for index in row[1::2]}
    assert indexes <= set(range(len(weights.causes)))
    assert read_classifier(json.dumps(json.loads(WEIGHTS_FILE.read_text(encoding="utf-8")))) == weights
