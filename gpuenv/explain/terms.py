"""Splits a text into terms for the classifier: words, pairs of words, and features such as a call of CuPy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

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
