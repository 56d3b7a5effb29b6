"""The shipped classifier is what ``make learn`` writes, and it generalizes to texts that were left out."""

from __future__ import annotations

import re
from functools import cache

import pytest

from gpuenv.explain.classifier import classify, read_classifier, trained
from tools.train_classifier import fold_of, left_out, samples, scores, train

pytest.importorskip("sklearn", reason="pip install 'gpuenv[learn]'")


def test_training_again_gives_the_shipped_classifier() -> None:
    """Apart from rounding differences between releases of scikit-learn."""
    shipped = trained()
    again = read_classifier(train(samples(), shipped.steepness))
    assert again.causes == shipped.causes
    assert again.trained_on == shipped.trained_on
    assert len(again.words.keys() ^ shipped.words.keys()) <= 0.01 * len(shipped.words)
    for sample in samples()[::20]:
        answer, shipped_answer = classify(sample.text, again), classify(sample.text, shipped)
        assert list(answer.chances)[:1] == list(shipped_answer.chances)[:1]


@cache
def printed_scores() -> str:
    return scores(samples(), left_out(samples()))


def test_texts_that_were_left_out_score_above_their_bounds() -> None:
    first, three, guessed, written = (float(share) for share in re.findall(r"\((\d+\.\d)%\)", printed_scores()))
    assert first >= 65, printed_scores()
    assert three >= 78, printed_scores()
    assert guessed <= 2, printed_scores()
    assert written <= 15, printed_scores()  # many of these change a word of a message, or deny a fault


def test_the_texts_of_one_origin_share_a_fold() -> None:
    folds = {fold_of(sample.origin) for sample in samples()}
    assert folds == set(range(10))
    assert fold_of("a report") == fold_of("a report")
