"""The line of a value in any valid JSON."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuenv.model.json_lines import line_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEYS = st.text(st.characters(exclude_characters=".["), min_size=1)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


def _paths(value: object, path: str = "") -> Iterator[tuple[str, int]]:
    """Every path, and its line relative to that of the value."""
    inner: list[tuple[str, object]] = []
    if isinstance(value, dict):
        inner = [(f"{path}.{key}".lstrip("."), entry) for key, entry in value.items()]
    elif isinstance(value, list):
        inner = [(f"{path}[{number}]", entry) for number, entry in enumerate(value)]
    lines = 1
    for below, entry in inner:
        for nested, offset in _paths(entry, below):
            yield nested, lines + offset
        lines += _height(entry)
    yield path, 0


def _height(value: object) -> int:
    return json.dumps(value, indent=1).count("\n") + 1


@given(_VALUES)
def test_the_line_of_every_value_is_found(value: object) -> None:
    text = json.dumps(value, indent=1)
    for path, line in _paths(value):
        assert line_of(text, path) == line + 1, path


def test_values_may_share_a_line_and_keys_may_repeat() -> None:
    text = '{"a": {"b}": [1, "]\\"{",\n 2]}, "a": 3,\n"c": [[],{}\n,{"d": null}]}'
    assert [line_of(text, path) for path in ("", "a", "a.b}[1]", "a.b}[2]", "c", "c[1]", "c[2].d", "x")] == [
        *(1, 2, 1, 2, 3, 3, 4),
        None,
    ]


@pytest.mark.parametrize("other", ["y" * 800_000, '\\n"' * 100_000, [0] * 200_000], ids=["text", "escapes", "list"])
def test_large_other_values_need_little_more_memory_than_parsing(other: object) -> None:
    text = json.dumps({"other": other, "here": [{}, {"it": 1}]})
    tracemalloc.start()
    try:
        json.loads(text)
        parsing_peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        assert line_of(text, "here[1].it") == 1
        assert tracemalloc.get_traced_memory()[1] < 2 * parsing_peak
    finally:
        tracemalloc.stop()
