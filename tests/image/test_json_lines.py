"""JSON with comments: values as the standard library reads them, and the line of each key."""

from __future__ import annotations

import time

import pytest

from gpuenv.image.dockerfile.json_with_comments import JsonError, parse_json


def test_comments_and_last_commas_are_no_part_of_it() -> None:
    text = '{ // one\n"a": "/* no */ // comment", /* two\nlines */ "b": {"c": ["\\"d\\\\", 1, true,],},\n}'
    value, lines = parse_json(text)
    assert value == {"a": "/* no */ // comment", "b": {"c": ['"d\\', "1", "true"]}}
    assert lines == {"a": 2, "b": 3, "b.c": 3}


@pytest.mark.parametrize("text", ["", "{", '{"a": "', "/* {}", '{"a": 1} x', '{"a": "\\'])
def test_what_is_none_is_told_with_its_line(text: str) -> None:
    with pytest.raises(JsonError, match="line 1"):
        parse_json(text)


@pytest.mark.parametrize("piece", ["/* ", '"\\', '"', ", ", "//", "{", "["])
def test_pieces_without_an_end_take_linear_time(piece: str) -> None:
    def seconds(many: int) -> float:
        best = 60.0
        for _ in range(3):
            began = time.process_time()
            with pytest.raises(JsonError):
                parse_json(piece * many)
            best = min(best, time.process_time() - began)
        return best

    assert seconds(40000) < 3 * seconds(20000) + 0.05
