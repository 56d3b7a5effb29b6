"""Lines of text in the width of a terminal."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuenv.report.text_line import TextLine

_NARROW_HANG = 4
_PAD = "\0"  # control character that no line contains


def wrap_line(line: TextLine, width: int) -> list[str]:
    """Wraps a line at spaces; a command is continued with backslashes, so that it can be copied.

    A hanging indent of more than half of the width is reduced.
    """
    line = line._replace(text=_padded(line.text))
    rows = _continued(line, width) if line.style.value == "command" else _wrapped(line, width)
    return [row.replace(_PAD, "") for row in rows]


def _wrapped(line: TextLine, width: int) -> list[str]:
    return textwrap.wrap(
        line.text,
        width,
        subsequent_indent=" " * (line.hang if line.hang <= width // 2 else _NARROW_HANG),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    ) or [""]


def _continued(line: TextLine, width: int) -> list[str]:
    """A command over several lines with backslashes; never breaks a quoted argument."""
    arguments = re.findall(r"""(?:'[^']*'|"[^"]*"|\S)+""", line.text)  # an apostrophe is quoted as '"'"'
    indent = line.text[: len(line.text) - len(line.text.lstrip())]
    rows = [indent + arguments[0]]
    for argument in arguments[1:]:
        if len(rows[-1]) + len(argument) + len(" ") + len(" \\") <= width or rows[-1].strip() == "$":
            rows[-1] += f" {argument}"
        else:
            rows.append(" " * line.hang + argument)
    return [f"{row} \\" for row in rows[:-1]] + rows[-1:]


def _padded(text: str) -> str:
    """The text with a filler after each wide character, so that its length is its width."""
    if text.isascii():
        return text
    from unicodedata import east_asian_width

    return "".join(letter + _PAD if east_asian_width(letter) in "WF" else letter for letter in text)
