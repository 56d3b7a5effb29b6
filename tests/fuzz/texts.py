"""Texts that were one of a list before something befell them: cut, doubled, mixed with another, struck by noise."""

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
def spoilt(draw: st.DrawFn, originals: Sequence[str], most: int = 4) -> str:
    """One of the texts, changed in a few places."""
    text = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(0, most))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.one_of(st.integers(0, 8), st.integers(0, max(0, len(text) - start))))
        other = draw(st.sampled_from(originals))
        place = draw(st.integers(0, len(other)))
        filling = draw(st.one_of(_NOISE, st.just(other[place : place + 20]), st.just(text[start : start + length] * 2)))
        text = text[:start] + filling + text[start + length :]
    return text


@st.composite
def spoilt_lines(draw: st.DrawFn, original: str, most: int = 3) -> str:
    """A text of many lines with a few of them changed, dropped, doubled, or given a word of another one."""
    lines = original.split("\n")
    for _ in range(draw(st.integers(1, most))):
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
