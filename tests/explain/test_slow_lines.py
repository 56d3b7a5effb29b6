"""No line takes the pattern of a message long."""

from __future__ import annotations

import itertools
import re
import time

import pytest

from gpuenv.explain.messages import Message, all_messages
from gpuenv.explain.normalize import clean
from gpuenv.explain.patterns import compiled


@pytest.mark.parametrize("message", [one for one in all_messages() if one.pattern], ids=lambda one: one.id)
def test_a_line_of_a_message_s_own_words_is_fast(message: Message) -> None:
    """Runs that may share out the same characters once took seconds for a line of 8 KB."""
    assert message.pattern
    for pattern in filter(None, (message.pattern, message.unless)):
        search = compiled(pattern).search
        for line in own_lines(pattern) | {(word * 8192)[:8192] for word in message.literals}:
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
