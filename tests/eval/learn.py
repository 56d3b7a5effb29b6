"""Trains the text classifier of ``gpuenv explain`` on all texts with a known cause.

``make learn`` writes its table; ``python -m tests.eval.learn --left-out`` scores it by cross-validation, with all texts
of a report in one fold. Training needs scikit-learn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuenv.explain.classifier import classify
from gpuenv.explain.classifier_weights import NO_FAULT, WEIGHTS_FILE, read_weights
from gpuenv.explain.tokenizer import terms_of
from tests.eval.near_misses import HEALTHY_OUTPUT, OPPOSITES, OTHER_FAULTS, PROSE, WITHOUT_FACTS
from tests.eval.printed_messages import messages
from tests.eval.scan_cache import cached_scan
from tests.eval.score import SETS, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent
CAPTURED = frozenset(path.name for path in (HERE / "innocent").iterdir())  # output of healthy and unrelated programs
_LEAST = 0.1  # smaller weights change no answer and enlarge the table
_ORIGINS = 3  # minimum origins of a term; with two, the table doubles in size without better answers
_FOLDS = 10
_SOFTNESS = 0.5
_INNOCENCE = 4.0
_OF_A_REPORT = 2.0  # weight of a report; texts written for training are six times as many


@dataclass(frozen=True, slots=True)
class Sample:
    """A text with its cause and its origin; samples of one origin share a fold."""

    cause: str
    text: str
    origin: str
    is_report: bool = False


def samples() -> list[Sample]:
    """All texts, normalized as in the program."""
    cases = [case for name in SETS for case in load(name)]
    files = sorted((HERE / "innocent").iterdir())
    near_misses = (*HEALTHY_OUTPUT, *PROSE, *OTHER_FAULTS, *WITHOUT_FACTS, *OPPOSITES)
    unsorted = [  # the prefixes of the origins are part of the digest
        *(_sample(case.root_cause, case.error_text.encode(), case.source, is_report=True) for case in cases),
        *(
            _sample(cause, each.text.encode(), f"printed {each.text}")
            for each in messages()
            for cause in sorted(each.causes)
        ),
        *(_sample(NO_FAULT, path.read_bytes(), path.name) for path in files),
        *(_sample(NO_FAULT, text.encode(), f"near {text}") for text in near_misses),
        *_written(),
    ]
    return sorted(unsorted, key=lambda sample: (sample.origin, sample.cause))


def _written() -> Iterator[Sample]:
    """Texts written for training, in the words of people and programs; they are not scored."""
    for cause, texts in json.loads((HERE / "written_texts.json").read_text(encoding="utf-8")).items():
        yield from (_sample(cause, text.encode(), f"told {text}") for text in texts)


def _sample(cause: str, text: bytes, origin: str, *, is_report: bool = False) -> Sample:
    return Sample(cause, "\n".join(line.text for line in cached_scan(text).latest), origin, is_report)


def digest(training: Sequence[Sample]) -> str:
    """A digest of the samples; a table with another digest is out of date."""
    content = json.dumps([[each.cause, each.text, each.origin] for each in training])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def learn(training: Sequence[Sample]) -> str:
    """The table of these samples, in its file format."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - needed only for training
    from sklearn.svm import LinearSVC  # noqa: PLC0415 - needed only for training

    origins: dict[str, set[str]] = defaultdict(set)
    for sample in training:
        for term in set(terms_of(sample.text)):
            origins[term].add(sample.origin)
    known = sorted(term for term, sources in origins.items() if len(sources) >= _ORIGINS)
    vectorizer: Any = TfidfVectorizer(
        tokenizer=terms_of, token_pattern=None, lowercase=False, sublinear_tf=True, smooth_idf=False, vocabulary=known
    )
    features = vectorizer.fit_transform([sample.text for sample in training])
    classifier: Any = LinearSVC(C=_SOFTNESS, class_weight=_weights(training), random_state=0)
    classifier.fit(
        features, [sample.cause for sample in training], [_OF_A_REPORT if each.is_report else 1.0 for each in training]
    )
    words = {}
    for column, term in enumerate(known):
        weights = [
            number
            for index, weight in enumerate(classifier.coef_[:, column])
            if abs(weight) >= _LEAST
            for number in (index, round(weight * 100))
        ]
        if weights:
            words[term] = [round(vectorizer.idf_[column] * 100), *weights]
    table = {
        "learnt_from": digest(training),
        "causes": [str(name) for name in classifier.classes_],
        "biases": [round(bias * 100) for bias in classifier.intercept_],
    }
    lines = ",\n".join(f"{json.dumps(word)}:{json.dumps(row, separators=(',', ':'))}" for word, row in words.items())
    return f'{json.dumps(table)[:-1]},\n"words": {{\n{lines}\n}}}}\n'


def _weights(training: Sequence[Sample]) -> dict[str, float]:
    """Class weights: equal for all causes, and highest for texts without a fault."""
    counts = Counter(sample.cause for sample in training)
    return {cause: len(training) / len(counts) / count for cause, count in counts.items()} | {NO_FAULT: _INNOCENCE}


def left_out(training: Sequence[Sample]) -> str:
    """Cross-validation scores of the reports, by words alone."""
    folds: dict[int, list[Sample]] = defaultdict(list)
    for sample in training:
        folds[int(hashlib.sha256(sample.origin.encode()).hexdigest(), 16) % _FOLDS].append(sample)
    reports = first = three = silent = 0
    claimed: dict[bool, list[bool]] = {True: [], False: []}  # by whether the text was captured from a program
    for fold in folds.values():
        table = read_weights(learn([sample for other in folds.values() if other is not fold for sample in other]))
        for sample in fold:
            causes = [score.cause.value for score in classify(sample.text, table)]
            if sample.is_report:
                reports += 1
                silent += not causes
                first += causes[:1] == [sample.cause]
                three += sample.cause in causes[:3]
            elif sample.cause == NO_FAULT:
                claimed[sample.origin in CAPTURED].append(bool(causes))
    real, written = (f"{sum(these)}/{len(these)} ({sum(these) / len(these):.1%})" for these in claimed.values())
    return (
        f"left out, by words alone: first {first}/{reports} ({first / reports:.1%})  among three {three}/{reports} "
        f"({three / reports:.1%})  silent {silent}; claimed: of what healthy and unrelated programs print {real}, "
        f"of lines that were written to come near without a fault {written}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--left-out", action="store_true", help="print the cross-validation scores")
    options = parser.parse_args()
    training = samples()
    if options.left_out:
        sys.stdout.write(left_out(training) + "\n")
        return
    WEIGHTS_FILE.write_text(learn(training), encoding="utf-8")
    sys.stdout.write(f"{WEIGHTS_FILE.name}: {len(training)} texts, {WEIGHTS_FILE.stat().st_size // 1024} KiB\n")


if __name__ == "__main__":
    main()
