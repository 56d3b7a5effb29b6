"""Weighs the words of all texts with a known cause, for what ``gpuenv explain`` says where it knows no message.

``make learn`` writes the table anew; ``python -m tests.eval.learn --left-out`` tells how good it is on texts that are
left out, those of one report together. scikit-learn does the weighing.
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
from tests.eval.near import NEAR, NOTHING_STATED, OPPOSITES, OTHER_FAULTS, WRITTEN
from tests.eval.printed import messages
from tests.eval.scanned import scanned
from tests.eval.score import SETS, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent
PRINTED = frozenset(path.name for path in (HERE / "innocent").iterdir())  # by programs, healthy ones and unrelated ones
_LEAST = 0.1  # a smaller weight changes no answer and makes the table large
_ORIGINS = 3  # a word is of three at least; with two, the table has twice the size and guesses as well
_FOLDS = 10
_SOFTNESS = 0.5
_INNOCENCE = 4.0
_OF_A_REPORT = 2.0  # what people really wrote weighs more than what was written for this, which is six times as much


@dataclass(frozen=True, slots=True)
class Sample:
    """A text with its cause, and where it is from: samples of one origin are left out together."""

    cause: str
    text: str
    origin: str
    is_report: bool = False


def samples() -> list[Sample]:
    """All texts, plain, as the program sees them."""
    cases = [case for name in SETS for case in load(name)]
    files = sorted((HERE / "innocent").iterdir())
    near = (*NEAR, *WRITTEN, *OTHER_FAULTS, *NOTHING_STATED, *OPPOSITES)
    found = [
        *(_sample(case.root_cause, case.error_text.encode(), case.source, is_report=True) for case in cases),
        *(
            _sample(cause, each.text.encode(), f"printed {each.text}")
            for each in messages()
            for cause in sorted(each.causes)
        ),
        *(_sample(NO_FAULT, path.read_bytes(), path.name) for path in files),
        *(_sample(NO_FAULT, text.encode(), f"near {text}") for text in near),
        *_told(),
    ]
    return sorted(found, key=lambda sample: (sample.origin, sample.cause))


def _told() -> Iterator[Sample]:
    """Texts that were written for this, as people and programs tell of each cause: not reports, and not scored."""
    for cause, texts in json.loads((HERE / "told.json").read_text(encoding="utf-8")).items():
        yield from (_sample(cause, text.encode(), f"told {text}") for text in texts)


def _sample(cause: str, text: bytes, origin: str, *, is_report: bool = False) -> Sample:
    return Sample(cause, "\n".join(line.text for line in scanned(text).latest), origin, is_report)


def digest(given: Sequence[Sample]) -> str:
    """Of the texts and their causes: a table of other ones is out of date."""
    content = json.dumps([[each.cause, each.text, each.origin] for each in given])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def learn(given: Sequence[Sample]) -> str:
    """The table of these samples, as its file has it."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - whoever only reads needs it not
    from sklearn.svm import LinearSVC  # noqa: PLC0415 - likewise

    origins: dict[str, set[str]] = defaultdict(set)
    for sample in given:
        for term in set(terms_of(sample.text)):
            origins[term].add(sample.origin)
    known = sorted(term for term, where in origins.items() if len(where) >= _ORIGINS)
    vectorizer: Any = TfidfVectorizer(
        tokenizer=terms_of, token_pattern=None, lowercase=False, sublinear_tf=True, smooth_idf=False, vocabulary=known
    )
    shares = vectorizer.fit_transform([sample.text for sample in given])
    machine: Any = LinearSVC(C=_SOFTNESS, class_weight=_weights(given), random_state=0)
    machine.fit(shares, [sample.cause for sample in given], [_OF_A_REPORT if each.is_report else 1.0 for each in given])
    words = {}
    for column, term in enumerate(known):
        weights = [
            number
            for place, weight in enumerate(machine.coef_[:, column])
            if abs(weight) >= _LEAST
            for number in (place, round(weight * 100))
        ]
        if weights:
            words[term] = [round(vectorizer.idf_[column] * 100), *weights]
    table = {
        "learnt_from": digest(given),
        "causes": [str(name) for name in machine.classes_],
        "biases": [round(bias * 100) for bias in machine.intercept_],
    }
    lines = ",\n".join(f"{json.dumps(word)}:{json.dumps(row, separators=(',', ':'))}" for word, row in words.items())
    return f'{json.dumps(table)[:-1]},\n"words": {{\n{lines}\n}}}}\n'


def _weights(given: Sequence[Sample]) -> dict[str, float]:
    """All causes weigh the same, however many texts they have; that a fault is claimed where none is weighs most."""
    counts = Counter(sample.cause for sample in given)
    return {cause: len(given) / len(counts) / count for cause, count in counts.items()} | {NO_FAULT: _INNOCENCE}


def left_out(given: Sequence[Sample]) -> str:
    """How the reports fare, each with a table that was made without it, by words alone."""
    folds: dict[int, list[Sample]] = defaultdict(list)
    for sample in given:
        folds[int(hashlib.sha256(sample.origin.encode()).hexdigest(), 16) % _FOLDS].append(sample)
    reports = first = three = silent = 0
    claimed: dict[bool, list[bool]] = {True: [], False: []}  # of what programs really print, and of what was written
    for fold in folds.values():
        table = read_weights(learn([sample for other in folds.values() if other is not fold for sample in other]))
        for sample in fold:
            said = [score.cause.value for score in classify(sample.text, table)]
            if sample.is_report:
                reports += 1
                silent += not said
                first += said[:1] == [sample.cause]
                three += sample.cause in said[:3]
            elif sample.cause == NO_FAULT:
                claimed[sample.origin in PRINTED].append(bool(said))
    real, written = (f"{sum(these)}/{len(these)} ({sum(these) / len(these):.1%})" for these in claimed.values())
    return (
        f"left out, by words alone: first {first}/{reports} ({first / reports:.1%})  among three {three}/{reports} "
        f"({three / reports:.1%})  silent {silent}; claimed: of what healthy and unrelated programs print {real}, "
        f"of lines that were written to come near without a fault {written}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--left-out", action="store_true", help="tell how texts fare that were not learnt from")
    chosen = parser.parse_args()
    given = samples()
    if chosen.left_out:
        sys.stdout.write(left_out(given) + "\n")
        return
    WEIGHTS_FILE.write_text(learn(given), encoding="utf-8")
    sys.stdout.write(f"{WEIGHTS_FILE.name}: {len(given)} texts, {WEIGHTS_FILE.stat().st_size // 1024} KiB\n")


if __name__ == "__main__":
    main()
