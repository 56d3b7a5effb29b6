"""Mutations of texts: parts are cut, doubled, mixed with another text, or replaced by noise."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

_NOISE = st.one_of(
    st.text(max_size=4),
    st.sampled_from(
        [
            "\0",
            "\n",
            "\r",
            "\x1b[31m",
            "\u202e",
            "\ud800",
            "9" * 40,
            "-1",
            "=",
            ">=",
            ",",
            '"',
            "'",
            "<",
            "&",
            "[",
            "{",
            ": ",
        ]
    ),
)


@st.composite
def mutated_text(draw: st.DrawFn, originals: Sequence[str], max_changes: int = 4) -> str:
    """One of the texts, changed in a few places."""
    text = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(0, max_changes))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.one_of(st.integers(0, 8), st.integers(0, max(0, len(text) - start))))
        other = draw(st.sampled_from(originals))
        place = draw(st.integers(0, len(other)))
        replacement = draw(
            st.one_of(_NOISE, st.just(other[place : place + 20]), st.just(text[start : start + length] * 2))
        )
        text = text[:start] + replacement + text[start + length :]
    return text


@st.composite
def mutated_lines(draw: st.DrawFn, original: str, max_changes: int = 3) -> str:
    """A text with a few lines dropped, doubled, replaced, or changed by a word of another line."""
    lines = original.split("\n")
    for _ in range(draw(st.integers(1, max_changes))):
        number = draw(st.integers(0, len(lines) - 1))
        other = draw(st.sampled_from(lines))
        action = draw(st.sampled_from(["drop", "double", "replace", "word", "noise"]))
        if action == "drop":
            lines[number : number + 1] = []
        elif action == "double":
            lines.insert(number, lines[number])
        elif action == "replace":
            lines[number] = other
        else:
            words = lines[number].split(" ")
            place = draw(st.integers(0, len(words) - 1))
            words[place] = draw(_NOISE) if action == "noise" else draw(st.sampled_from(other.split(" ")))
            lines[number] = " ".join(words)
    return "\n".join(lines)
