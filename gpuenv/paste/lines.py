"""The lines of a paste as they were printed: without what logs, mails, Markdown and HTML have put around them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuenv.explain.plain import clean, is_notation, unfolded
from gpuenv.model.text import pattern

_LONGEST = 1 << 15  # of a line: a report in a string of JSON is one
_MOST = 4000  # lines in a line
_WIDEST = 4096  # of a line that was printed
_TAGS = pattern(r"^(?:</?(?:pre|code|p|div|span|details|summary|blockquote|samp)\b[^>]*>\s*)+", re.IGNORECASE)
_FRAMES = str.maketrans("\u2502\u2503\u2551\u00a6", "||||")  # what editors and code pages make of a table's bars
_LOST_ENDS = pattern(r"NVIDIA-SMI \d.*\|\s*[|+]")
_BETWEEN_TAGS = pattern(r"(?<=>)\s*(?=<)")
_BETWEEN_ROWS = pattern(r"(?<=[|+])\s*(?=[|+])")
_BULLET = pattern(r"^[-*+\u2022]\s+(?:\[[ xX]\]\s*)?")


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its number; a line that holds several, as a string of JSON does, gives each of them."""
    for number, line in enumerate(text.splitlines(), 1):
        raw = line[:_LONGEST]
        for part in _rows(unfolded(raw, notation=is_notation(raw)))[:_MOST]:
            yield number, _bare(part[:_WIDEST])


def _rows(parts: list[str]) -> list[str]:
    """The parts of a line; what lost its line ends on the way, as on a forum without a fence, by rows and elements."""
    return [row for part in parts for row in _rows_of(part)]


def _rows_of(part: str) -> list[str]:
    if "<nvidia_smi_log" in part or "<gpu id=" in part:
        return _BETWEEN_TAGS.split(part)
    return _whole_rows(_BETWEEN_ROWS.split(part)) if _LOST_ENDS.search(part) else [part]


def _whole_rows(pieces: list[str]) -> list[str]:
    """The rows; one whose first cells are empty, as that of the MIG mode, was taken apart at each of them."""
    rows: list[list[str]] = []
    is_whole = True
    for piece in pieces:
        if is_whole:
            rows.append([])
        rows[-1].append(piece)
        is_whole = bool(piece.strip("| "))
    return [" ".join(row) for row in rows]


def _bare(line: str) -> str:
    """A line without its indentation, the bullet of a list, the fence of code and marks of emphasis."""
    text = _BULLET.sub("", _TAGS.sub("", clean(line))).translate(_FRAMES)
    return text.replace("**", "").strip("` ")
