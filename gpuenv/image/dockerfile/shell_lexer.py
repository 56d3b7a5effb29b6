"""Finds the ends of words, quotations and parentheses in shell text."""

from __future__ import annotations


def word_end(text: str, position: int) -> int:
    """Where a word ends: at a blank or an operator outside of quotes and substitutions."""
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
        elif character in "'\"`":
            position = quote_end(text, position)
        elif text.startswith("$(", position):
            position = parenthesis_end(text, position + 1)
        elif text.startswith("${", position):
            end = text.find("}", position)
            position = len(text) if end < 0 else end + 1
        elif character in " \t\r\n;|&()<>":
            return position
        else:
            position += 1
    return min(position, len(text))


def quote_end(text: str, position: int) -> int:
    """Where a quotation ends, behind its second mark."""
    quote = text[position]
    position += 1
    while position < len(text) and text[position] != quote:
        position += 2 if text[position] == "\\" and quote != "'" else 1
    return position + 1


def parenthesis_end(text: str, position: int) -> int:
    """Where a parenthesis ends, with those in it."""
    depth = 0
    while position < len(text):
        if text[position] in "'\"":
            position = quote_end(text, position)
            continue
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        position += 1
        if depth == 0:
            break
    return position


def plain_end(raw: str, position: int) -> int:
    """Where the part of a word ends that is neither quoted nor escaped."""
    end = position
    while end < len(raw) and raw[end] not in "\\'\"":
        closing = raw.find("}", end) if raw.startswith("${", end) else -1
        end = closing + 1 if closing >= 0 else end + 1
    return max(end, position + 1)
