"""Trains the text classifier of ``gpuenv explain`` with scikit-learn: ``make learn``.

The texts are public reports with a known cause, messages that programs print, texts written for training, and texts
without a fault (``tests/eval``). Cross-validation, with all texts of one origin in one fold, fits the steepness that
turns margins into probabilities, and scores the guesses on texts left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuenv.explain.classifier import NO_FAULT, WEIGHTS_FILE, Classifier, classify, read_classifier, terms_of
from gpuenv.explain.match import scan
from gpuenv.model.causes import find_cause
from tests.eval.near_misses import HEALTHY_OUTPUT, OPPOSITES, OTHER_FAULTS, PROSE, WITHOUT_FACTS
from tests.eval.printed_messages import messages
from tests.eval.score import SETS, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

TEXTS = Path(__file__).parents[1] / "tests/eval"
CAPTURED = frozenset(path.name for path in (TEXTS / "innocent").iterdir())  # output of healthy and unrelated programs
_LEAST = 0.1  # smaller weights change no answer and enlarge the file
_ORIGINS = 3  # minimum origins of a term; with two, the file doubles in size without better answers
_FOLDS = 10
_C = 0.5  # of LinearSVC
_INNOCENCE = 4.0  # class weight of texts without a fault
_OF_A_REPORT = 2.0  # weight of a report; texts written for training are six times as many
_STEEPNESSES = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """A text with its cause and its origin; samples of one origin share a fold."""

    cause: str
    text: str
    origin: str
    is_report: bool = False


def samples() -> list[Sample]:
    """All texts, normalized as in the program."""
    near_misses = (*HEALTHY_OUTPUT, *PROSE, *OTHER_FAULTS, *WITHOUT_FACTS, *OPPOSITES)
    unsorted = [
        *(
            _sample(case.root_cause, case.error_text.encode(), case.source, is_report=True)
            for name in SETS
            for case in load(name)
        ),
        *(
            _sample(cause, each.text.encode(), f"printed {each.text}")
            for each in messages()
            for cause in sorted(each.causes)
        ),
        *(_sample(NO_FAULT, path.read_bytes(), path.name) for path in sorted((TEXTS / "innocent").iterdir())),
        *(_sample(NO_FAULT, text.encode(), f"near {text}") for text in near_misses),
        *_written(),
    ]
    return sorted(unsorted, key=lambda sample: (sample.origin, sample.cause, sample.text))


def _written() -> Iterator[Sample]:
    """Texts written for training, in the words of people and programs; they are not scored."""
    for cause, texts in json.loads((TEXTS / "written_texts.json").read_text(encoding="utf-8")).items():
        yield from (_sample(cause, text.encode(), f"told {text}") for text in texts)


def _sample(cause: str, text: bytes, origin: str, *, is_report: bool = False) -> Sample:
    return Sample(cause, "\n".join(line.text for line in scan(text).latest), origin, is_report)


def digest(training: Sequence[Sample]) -> str:
    """A digest of the samples; a file with another digest is out of date."""
    content = json.dumps([[each.cause, each.text, each.origin] for each in training])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def train(training: Sequence[Sample], steepness: float = 1.0) -> str:
    """The JSON of a classifier trained on these samples."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - needed only for training
    from sklearn.svm import LinearSVC  # noqa: PLC0415 - needed only for training

    origins: dict[str, set[str]] = defaultdict(set)
    for sample in training:
        for term in set(terms_of(sample.text)):
            origins[term].add(sample.origin)
    known = sorted(term for term, sources in origins.items() if len(sources) >= _ORIGINS)
    vectorizer: Any = TfidfVectorizer(analyzer=terms_of, sublinear_tf=True, smooth_idf=False, vocabulary=known)
    features = vectorizer.fit_transform([sample.text for sample in training])
    model: Any = LinearSVC(C=_C, class_weight=_class_weights(training), random_state=0)
    model.fit(
        features, [sample.cause for sample in training], [_OF_A_REPORT if each.is_report else 1.0 for each in training]
    )
    words = {}
    for column, term in enumerate(known):
        weights = [
            number
            for index, weight in enumerate(model.coef_[:, column])
            if abs(weight) >= _LEAST
            for number in (index, round(weight * 100))
        ]
        if weights:
            words[term] = [round(vectorizer.idf_[column] * 100), *weights]
    head = {
        "trained_on": digest(training),
        "steepness": steepness,
        "causes": [str(name) for name in model.classes_],
        "biases": [round(bias * 100) for bias in model.intercept_],
    }
    lines = ",\n".join(f"{json.dumps(word)}:{json.dumps(row, separators=(',', ':'))}" for word, row in words.items())
    return f'{json.dumps(head)[:-1]},\n"words": {{\n{lines}\n}}}}\n'


def _class_weights(training: Sequence[Sample]) -> Mapping[str, float]:
    """Class weights: equal for all causes, and highest for texts without a fault."""
    counts = Counter(sample.cause for sample in training)
    return {cause: len(training) / len(counts) / count for cause, count in counts.items()} | {NO_FAULT: _INNOCENCE}


def fold_of(origin: str) -> int:
    """The fold of the texts of one origin."""
    return int(hashlib.sha256(origin.encode()).hexdigest(), 16) % _FOLDS


def left_out(training: Sequence[Sample]) -> Mapping[int, Classifier]:
    """For each fold, a classifier that has not seen its texts."""
    return {
        fold: read_classifier(train([sample for sample in training if fold_of(sample.origin) != fold]))
        for fold in range(_FOLDS)
    }


def best_steepness(training: Iterable[Sample], classifiers: Mapping[int, Classifier]) -> float:
    """The steepness with the highest likelihood of the reports' causes."""
    reports = [sample for sample in training if sample.is_report]

    def surprise(steepness: float) -> float:
        total = 0.0
        for sample in reports:
            classifier = _with_steepness(classifiers[fold_of(sample.origin)], steepness)
            total -= log(classify(sample.text, classifier).chances.get(find_cause(sample.cause), 0.0) + 1e-9)
        return total

    return min(_STEEPNESSES, key=surprise)


def _with_steepness(classifier: Classifier, steepness: float) -> Classifier:
    return Classifier(classifier.causes, classifier.biases, classifier.words, steepness, classifier.trained_on)


def scores(training: Sequence[Sample], classifiers: Mapping[int, Classifier]) -> str:
    """How good the guesses are on texts left out, by words alone."""
    reports = first = three = silent = 0
    claimed: dict[bool, list[bool]] = {True: [], False: []}  # by whether the text was captured from a program
    for sample in training:
        result = classify(sample.text, classifiers[fold_of(sample.origin)])
        causes = [cause.value for cause in result.chances]
        if sample.is_report:
            reports += 1
            silent += not result.is_clear
            first += causes[:1] == [sample.cause]
            three += sample.cause in causes[:3]
        elif sample.cause == NO_FAULT:
            claimed[sample.origin in CAPTURED].append(result.is_clear)
    real, written = (f"{sum(these)}/{len(these)} ({sum(these) / len(these):.1%})" for these in claimed.values())
    return (
        f"left out, by words alone: first {first}/{reports} ({first / reports:.1%})  among three {three}/{reports} "
        f"({three / reports:.1%})  no guess {silent}; guessed: of what healthy and unrelated programs print {real}, "
        f"of lines that were written to come near without a fault {written}"
    )


def main() -> None:
    """Writes the classifier, and prints its scores."""
    argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0]).parse_args()
    training = samples()
    classifiers = left_out(training)
    steepness = best_steepness(training, classifiers)
    sys.stdout.write(f"steepness {steepness}\n{scores(training, classifiers)}\n")
    WEIGHTS_FILE.write_text(train(training, steepness), encoding="utf-8")
    sys.stdout.write(f"{WEIGHTS_FILE.name}: {len(training)} texts, {WEIGHTS_FILE.stat().st_size // 1024} KiB\n")


if __name__ == "__main__":
    main()
