"""The classifier of texts by their words, and its weights."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from gpuenv.explain.classifier import classify
from gpuenv.explain.classifier_weights import NO_FAULT, WEIGHTS_FILE, ClassifierWeights, read_weights, shipped_weights
from gpuenv.explain.explanation_types import Explanation
from gpuenv.explain.tokenizer import terms_of
from gpuenv.model.causes import Cause
from tests.cli.program import gpuenv
from tests.eval import scan_cache
from tests.eval.learn import digest, samples
from tests.eval.score import SETS, Case, load
from tests.explain.test_signatures import OF_ONE_REPORT

if TYPE_CHECKING:
    from pathlib import Path

SURE = "Failed to initialize NVML: Driver/library version mismatch"


def explained(text: str) -> Explanation:
    return scan_cache.cached_explanation(text.encode())


@pytest.fixture(scope="module")
def guessed() -> tuple[Case, ...]:
    """Reports without a known message or a traceback."""
    cases = [case for name in SETS for case in load(name) if "Traceback" not in case.error_text]
    found = tuple(case for case in cases if explained(case.error_text).is_guess)
    assert len(found) >= 2
    return found


def test_reports_without_a_known_message_are_classified_by_their_words(guessed: tuple[Case, ...]) -> None:
    for case in guessed:
        result = explained(case.error_text)
        read = "\n".join(
            line.text for line in scan_cache.cached_scan(case.error_text.encode()).latest
        )  # without the times of a log
        assert case.root_cause in [entry.cause.value for entry in result.causes]
        assert sum(entry.confidence for entry in result.causes) <= 0.6
        for entry in result.causes:
            assert entry.signatures == ()
            assert entry.words
            assert set(entry.words) <= set(terms_of(read))
            text = " ".join(case.error_text.split())
            assert all(" ".join(line.text.split()) in text for line in entry.lines)  # runs of spaces are shown shorter
            assert entry.would_decide
            assert entry.fix


def test_a_certain_message_suppresses_the_classifier(guessed: tuple[Case, ...]) -> None:
    for case in guessed:
        mixed = explained(f"{case.error_text}\n{SURE}").causes
        assert mixed[0].cause is explained(SURE).causes[0].cause
        assert [entry.words for entry in mixed] == [()] * len(mixed)


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
def test_unrelated_texts_are_not_classified(text: str) -> None:
    assert explained(text).causes == ()


def test_a_text_without_known_words_has_no_scores() -> None:
    weights = ClassifierWeights(("out-of-memory", NO_FAULT), (0.0, -1.0), {}, "")
    assert classify("cuda error", weights) == ()


def test_the_highest_weights_decide_the_order_of_causes() -> None:
    words = dict.fromkeys(("cuda", "error", "cuda error"), (100, 0, 100, 1, -50))
    words |= dict.fromkeys(("b", "c", "d", "b c", "c d"), (100, 1, 100, 2, -200))
    weights = ClassifierWeights(("out-of-memory", "no-driver", NO_FAULT), (0.0, 0.0, 0.0), words, "")
    first, second = classify("a CUDA error: b c d", weights)
    assert (first.cause, second.cause) == (Cause.NO_DRIVER, Cause.OUT_OF_MEMORY)
    assert first.chance + second.chance == pytest.approx(1)
    assert second.words == ("error", "cuda error")
    assert classify("a CUDA error", weights) == (), "too few words that are known"


def test_a_guess_is_labelled_as_one(tmp_path: Path, guessed: tuple[Case, ...]) -> None:
    text, cause = guessed[0].error_text, guessed[0].root_cause
    report = tmp_path / "report.txt"
    report.write_text(text, encoding="utf-8")
    done = gpuenv("explain", report)
    assert done.returncode == 1
    assert done.stdout.startswith("No known error message")
    assert cause in done.stdout
    assert "wording only: " in done.stdout
    done = gpuenv("run", "--", "sh", "-c", f"cat {report} >&2; exit 3")
    assert (done.returncode, done.stderr) == (3, text)


def test_the_shipped_weights_match_the_training_texts() -> None:
    """If not, make learn writes them anew; a word needs three origins, so that it is not of one report alone."""
    given = samples()
    assert shipped_weights().learnt_from == digest(given)
    origins: dict[str, set[str]] = defaultdict(set)
    for sample in given:
        for term in terms_of(sample.text):
            origins[term].add(sample.origin)
    assert {term for term in shipped_weights().words if len(origins[term]) < 3} == set()
    assert [term for term in shipped_weights().words if OF_ONE_REPORT.search(term)] == []
    assert [term for term in shipped_weights().words if term.isdigit()] == []


def test_the_shipped_weights_name_existing_causes() -> None:
    weights = shipped_weights()
    assert {*weights.causes} <= {*(cause.value for cause in Cause), NO_FAULT}
    assert len(weights.causes) == len(weights.biases) >= 80
    indexes = {index for word in weights.words for index, _ in weights.weights(word)}
    assert indexes <= set(range(len(weights.causes)))
    assert read_weights(json.dumps(json.loads(WEIGHTS_FILE.read_text(encoding="utf-8")))) == weights


def test_an_explanation_with_a_message_is_not_a_guess() -> None:
    """An ambiguous message together with scores of the classifier: the exit code is 0."""
    result = [explained(case.error_text) for name in SETS for case in load(name)]
    mixed = [
        one for one in result if any(entry.words for entry in one.causes) and any(e.signatures for e in one.causes)
    ]
    assert len(mixed) >= 5
    assert [one.is_guess for one in mixed] == [False] * len(mixed)
