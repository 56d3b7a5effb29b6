"""No line takes a signature long."""

from __future__ import annotations

import itertools
import re
import time

import pytest

from gpuenv.explain.explanation_types import Signature
from gpuenv.explain.normalize import clean
from gpuenv.explain.patterns import compiled
from gpuenv.explain.signatures import all_signatures


@pytest.mark.parametrize("signature", [s for s in all_signatures() if s.pattern], ids=lambda s: s.name)
def test_a_line_of_repeated_signature_words_is_fast(signature: Signature) -> None:
    """Runs that may share out the same characters once took seconds for a line of 8 KB."""
    assert signature.pattern
    search = compiled(signature.pattern).search
    for line in own_lines(signature.pattern) | {(word * 8192)[:8192] for word in signature.literals}:
        begun = time.process_time()
        search(clean(line))
        assert time.process_time() - begun < 0.4, line[:60]


def own_lines(pattern: str) -> set[str]:
    """What is hard for a pattern: its words, and how they begin, again and again, alone and in pairs."""
    every = list(dict.fromkeys(re.findall(r"[A-Za-z_/.'-]{2,}", re.sub(r"\\\W", ".", pattern))))
    words = every[:5]
    beginnings = [word[:length] for word in words for length in (2, 4) if len(word) > length]
    pairs = [f"{one} {other} " for one, other in itertools.pairwise(words)]
    return {(unit * 8192)[:8192] for unit in ("9", *every, *beginnings, *pairs, *(f"{word} " for word in words))}
