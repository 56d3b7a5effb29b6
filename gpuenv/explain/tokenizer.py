"""Splits a text into terms for the classifier: without numbers, addresses and folders."""

from __future__ import annotations

import re
from itertools import pairwise

from gpuenv.explain.text_features import features_of

_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{12,}\b")
_FOLDERS = re.compile(r"""[/\\][^\s:"'/\\]+(?=[/\\])""")
_WORD = re.compile(r"[a-z_][a-z_0-9+#]*|\d+")
_STANDS_FOR_ANOTHER = re.compile(r"([a-z])\1{2,}")  # aaa, in place of a name that is kept secret
_NUMBER = "#"
# Words that say nothing by themselves; not, no and out do.
_EMPTY = frozenset(
    """a an and are as at be been but by can do for from had has have he i if in is it its me my of on or so than that
    the their them then there they this to was we were which will with would you your""".split()  # noqa: SIM905 - as a list a page
)
_SHORTEST = 3  # characters of a part of a name


def terms_of(text: str) -> list[str]:
    """Words, the parts of names in them, pairs of neighbours, and features of the text; any number is ``#``.

    Folders say whose machine it is, not what is wrong with it; the file at a path's end stays.
    """
    plain = _FOLDERS.sub(" ", _ADDRESS.sub(" ", text.lower()))
    words = ["" if _STANDS_FOR_ANOTHER.fullmatch(word) else word for word in _WORD.findall(plain)]
    words = [_NUMBER if word.isdigit() else word for word in words]
    parts = [part for word in words if "_" in word for part in word.split("_") if len(part) >= _SHORTEST]
    telling = (pair for pair in pairwise(words) if all(pair) and not set(pair) <= _EMPTY)
    pairs = (f"{first} {second}" for first, second in telling)
    alone = (word for word in (*words, *parts) if word and word not in _EMPTY and not word.isdigit())
    return [*alone, *pairs, *features_of(text)]
