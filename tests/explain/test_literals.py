"""Searching for many literals at once finds what searching for each of them finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuenv.explain.literals import LiteralIndex, any_of, grams_of

LETTERS = "ab. \u00e9"
OWNERS = st.lists(st.lists(st.text(LETTERS, min_size=3, max_size=7), min_size=1, max_size=4), min_size=1, max_size=6)


@given(OWNERS, st.text(LETTERS, max_size=60))
def test_the_owners_of_a_text_are_those_whose_literals_it_contains(owners: list[list[str]], text: str) -> None:
    index = LiteralIndex(owners)
    expected = [place for place, literals in enumerate(owners) if any(literal in text for literal in literals)]
    assert index.owners(text) == expected
    assert index.owners(text, grams_of(f"a{text}b")) == expected
    assert index.longest == max(len(literal) for literals in owners for literal in literals)


@given(OWNERS, st.text(LETTERS, max_size=60))
def test_the_first_position_of_any_literal_is_found(owners: list[list[str]], text: str) -> None:
    literals = [literal for given_literals in owners for literal in given_literals]
    hay = text.encode()
    match = any_of(literals).search(hay)
    places = [place for place in (hay.find(literal.encode()) for literal in literals) if place >= 0]
    assert (match.start() if match else None) == min(places, default=None)


def test_an_empty_index_finds_nothing() -> None:
    assert any_of(()).search(b"anything") is None
    assert LiteralIndex(()).owners("anything") == []
