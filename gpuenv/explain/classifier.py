"""Classifies texts by their words: a linear model that ``tools/train_classifier.py`` trains with scikit-learn.

The classifier guesses where a text has no known message, and decides between the causes of a message that has several.
A word or pair of words counts only if three texts of different origin have it, so that the names in one report have no
weight.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import exp, log, sqrt

from gpuenv.data import DATA
from gpuenv.explain.explanation_types import QuotedLine
from gpuenv.model.causes import Cause, find_cause

WEIGHTS_FILE = DATA / "classifier.json"
NO_FAULT = "-"  # in place of a cause: texts without a fault
_ENOUGH = 4  # known words and pairs
_SHOWN_LINES, _SHOWN_WORDS = 2, 4
# By how much the margin of a cause exceeds that of texts without a fault. Less is enough where the text speaks of
# trouble with a GPU. Chosen on texts left out of the training (tools/train_classifier.py prints the shares).
_CLEAR, _CLEAR_IN_TROUBLE = 1.4, -0.15
_NAME = re.compile(r"[a-z]{3}")
_TOPIC = re.compile(
    r"cuda|nvidia|nvrm|cupy|\bcp\.\w|gpu|nvcc|nvrtc|cu(?:blas|fft|dnn|solver|sparse|rand|tensor|array)|nccl|nvml|tensorrt"
    r"|jetson|tegra|nouveau|rocm|hip(?:rtc|cc|error)|chainer|triton|out of memory"
)
_TROUBLE = re.compile(
    r"error|fail|cannot|n't\b|not\b|no\b|none\b|unable|missing|invalid|illegal|unsupported|incompatib|mismatch|refused"
    r"|denied|exception|abort|killed|crash|segfault|wrong|slow|hang|stuck|stop|lost|out of|warning|false|differ|should"
    r"|instead|expected|\bstub\b|sorry|leak|grow"
)
_DENIED = re.compile(
    r"\b(?:no|without|zero|0) (?:\w+ )?"
    r"(?:errors?|fail(?:ure|ed)s?|faults?|problems?|issues?|warnings?|throttling|trouble|leaks?)\b"
)
_CODE = re.compile(
    r"[;{}\\]\s*$|^\s*(?:#\s*(?:include|define|if|else|endif|pragma)|//|/?\*|def\s|class\s|from\s\S+\simport|import\s|@\w"
    r"|template|return\b|self\.)"
)
_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{12,}\b")
_FOLDERS = re.compile(r"""[/\\][^\s:"'/\\]+(?=[/\\])""")
_WORD = re.compile(r"[a-z_][a-z_0-9+#]*|\d+")
_PLACEHOLDER = re.compile(r"([a-z])\1{2,}")  # such as aaa, for a secret name
_NUMBER = "#"
# Words without a meaning of their own; "not", "no" and "out" have one.
_STOP_WORDS = frozenset(
    """a an and are as at be been but by can do for from had has have he i if in is it its me my of on or so than that
    the their them then there they this to was we were which will with would you your""".split()  # noqa: SIM905 - a list would take a page
)
_SHORTEST = 3  # characters of a part of a name

_CUPY_CALL = re.compile(r"\b(?:cp|cupyx?|xp)\.(?:\w+\.)*(\w+)\(")
_NUMPY_CALL = re.compile(r"\b(?:np|numpy)\.(?:\w+\.)*(\w+)\(")
_FEATURES = {
    "(prompt)": re.compile(r"^\s*(?:>>>|In ?\[\d+\]:)", re.MULTILINE),
    "(shell)": re.compile(r"^\s*\$ ", re.MULTILINE),
    "(array)": re.compile(r"\barray\(|^\s*\[+\s*[-+\d.][-+\d. ,naiefj]*\]+", re.MULTILINE),
    "(kernel source)": re.compile(
        r"__global__|extern \"C\"|blockIdx|RawKernel|RawModule|ElementwiseKernel|ReductionKernel"
    ),
    "(traceback)": re.compile(r"Traceback \(most recent call last\)|^\s*File \"", re.MULTILINE),
}
_NAMED = re.compile(r"\w(?:Error|Exception)\b|\b[Ee]rror\b")
_FOLDER = re.compile(r"(?:site-packages|dist-packages)[/\\](\w+)[/\\]|\"(cupyx?|cupy_backends)/")


@dataclass(frozen=True, slots=True)
class Classifier:
    """The trained weights.

    Attributes:
        causes: names of causes, and ``NO_FAULT``.
        biases: one for each of them, in hundredths.
        words: for each word its rarity in hundredths, then pairs: the index of a cause, and the word's weight for it.
        steepness: the factor that turns margins into probabilities, fitted on texts left out of the training.
        trained_on: the digest of the texts.
    """

    causes: tuple[str, ...]
    biases: tuple[int, ...]
    words: Mapping[str, Sequence[int]]
    steepness: float
    trained_on: str


@dataclass(frozen=True, slots=True)
class Classification:
    """The causes that the words of a text indicate.

    Attributes:
        chances: the probability of each cause, likeliest first; with that of no fault they add up to 1.
        is_clear: whether the text is clearly more like the texts of a cause than like texts without a fault.
        words: for each of the likeliest causes, the words that indicate it.
    """

    chances: Mapping[Cause, float]
    is_clear: bool
    words: Mapping[Cause, tuple[str, ...]]


NOTHING = Classification({}, False, {})


@cache
def trained() -> Classifier:
    """The classifier that comes with gpuenv."""
    return read_classifier(WEIGHTS_FILE.read_text(encoding="utf-8"))


def read_classifier(text: str) -> Classifier:
    """Reads a classifier from JSON."""
    raw = json.loads(text)
    return Classifier(tuple(raw["causes"]), tuple(raw["biases"]), raw["words"], raw["steepness"], raw["trained_on"])


def classify(text: str, classifier: Classifier | None = None) -> Classification:
    """Classifies a text by its words."""
    classifier = classifier or trained()
    shares = _shares(text, classifier)
    if not shares:
        return NOTHING
    margins = dict(zip(classifier.causes, _margins(shares, classifier), strict=True))
    best = max(margins.values())
    raw = {name: exp((margin - best) * classifier.steepness) for name, margin in margins.items()}
    total = sum(raw.values())
    innocence = margins[NO_FAULT]
    ranked = sorted((name for name in raw if name != NO_FAULT), key=lambda name: -raw[name])
    least = _CLEAR_IN_TROUBLE if _reports_trouble(text) else _CLEAR
    return Classification(
        {find_cause(name): raw[name] / total for name in ranked},
        margins[ranked[0]] - innocence >= least and len(shares) >= _ENOUGH,
        {find_cause(name): _indicating_words(name, shares, classifier) for name in ranked[:3]},
    )


def lines_with_words(lines: Sequence[QuotedLine], words: Sequence[str]) -> tuple[QuotedLine, ...]:
    """The lines with the most of these words, in the order of the text."""
    counted = [(len(set(words) & set(terms_of(line.text))), place) for place, line in enumerate(lines)]
    best = sorted((entry for entry in counted if entry[0]), key=lambda entry: (-entry[0], -entry[1]))
    return tuple(lines[place] for place in sorted(place for _, place in best[:_SHOWN_LINES]))


def _reports_trouble(text: str) -> bool:
    """Whether a text mentions GPUs and a problem with them, and is not source code."""
    lowered = _DENIED.sub(" ", text.lower())
    if not _TOPIC.search(lowered) or not (_TROUBLE.search(lowered) or same_call_of_both(text)):
        return False
    lines = [line for line in text.splitlines() if line.strip()]
    return 2 * sum(bool(_CODE.search(line)) for line in lines) <= len(lines)


def _shares(text: str, classifier: Classifier) -> dict[str, float]:
    """The TF-IDF of each known word, as scikit-learn's TfidfVectorizer(sublinear_tf=True) computes it."""
    counts = Counter(term for term in terms_of(text) if term in classifier.words)
    raw = {term: (1 + log(count)) * classifier.words[term][0] / 100 for term, count in counts.items()}
    length = sqrt(sum(share * share for share in raw.values()))
    return {term: share / length for term, share in raw.items()} if length else {}


def _margins(shares: Mapping[str, float], classifier: Classifier) -> list[float]:
    """The margin of a text for each cause, as scikit-learn's LinearSVC.decision_function computes it."""
    margins = [bias / 100 for bias in classifier.biases]
    for term, share in shares.items():
        row = classifier.words[term]
        for place, weight in zip(row[1::2], row[2::2], strict=True):
            margins[place] += share * weight / 100
    return margins


def _indicating_words(cause: str, shares: Mapping[str, float], classifier: Classifier) -> tuple[str, ...]:
    """The words with the highest weight for a cause, without those that are part of another one."""
    place = classifier.causes.index(cause)
    weighted = []
    for term, share in shares.items():
        row = classifier.words[term]
        weighted.append((share * dict(zip(row[1::2], row[2::2], strict=True)).get(place, 0), term))
    found: list[str] = []
    for weight, term in sorted(weighted, reverse=True):
        is_part = any(f" {term} " in f" {other} " for other in found)
        if weight > 0 and not is_part and _NAME.search(term):
            found.append(term)
    return tuple(found[:_SHOWN_WORDS])


def terms_of(text: str) -> list[str]:
    """Words, the parts of names in them, pairs of neighbours, and features of the text; any number is ``#``.

    Folders are left out, since they describe the user's machine, not its fault; the file name of a path stays.
    """
    plain = _FOLDERS.sub(" ", _ADDRESS.sub(" ", text.lower()))
    words = ["" if _PLACEHOLDER.fullmatch(word) else word for word in _WORD.findall(plain)]
    words = [_NUMBER if word.isdigit() else word for word in words]
    parts = [part for word in words if "_" in word for part in word.split("_") if len(part) >= _SHORTEST]
    pairs = (f"{one} {two}" for one, two in pairwise(words) if one and two and not {one, two} <= _STOP_WORDS)
    alone = (word for word in (*words, *parts) if word and word not in _STOP_WORDS and not word.isdigit())
    return [*alone, *pairs, *_features(text)]


def same_call_of_both(text: str) -> bool:
    """Whether the text calls the same function of CuPy and of NumPy: it compares their results."""
    return not set(_CUPY_CALL.findall(text)).isdisjoint(_NUMPY_CALL.findall(text))


def _features(text: str) -> Iterator[str]:
    """The names of the features that a text has; no word of a text can equal one."""
    has_cupy, has_numpy = _CUPY_CALL.search(text), _NUMPY_CALL.search(text)
    features = {
        "(cupy call)": has_cupy,
        "(numpy call)": has_numpy,
        "(calls of both)": has_cupy and has_numpy,
        "(the same call of both)": same_call_of_both(text),
        **{name: pattern.search(text) for name, pattern in _FEATURES.items()},
    }
    yield from (name for name, found in features.items() if found)
    yield "(error named)" if _NAMED.search(text) else "(no error named)"
    yield from sorted({f"(in {installed or own})" for installed, own in _FOLDER.findall(text)})
