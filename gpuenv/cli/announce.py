"""Words on standard error, folded to the width of a terminal; as they are where there is none."""

from __future__ import annotations

import os
import sys

from gpuenv.cli.errors import complain
from gpuenv.model.numbers import whole_number

_NARROWEST, _USUAL = 40, 80


def announce(text: str) -> None:
    """A word on standard error, so that a long wait is understood."""
    complain(folded(f"gpuenv: {text}"))


def folded(text: str) -> str:
    """The same text in lines that a terminal shows whole; a path or a command is never cut in two."""
    if sys.stderr is None or not sys.stderr.isatty():
        return text
    import textwrap

    width = max(_NARROWEST, columns() - 1)
    whole = textwrap.TextWrapper(width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if len(line) <= width else whole.fill(line) for line in text.split("\n"))


def columns() -> int:
    """Those of the terminal that standard error is; ``shutil`` tells those of standard output, which may be a file."""
    told = whole_number(os.environ.get("COLUMNS", ""))
    try:
        return told or os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL
    except (OSError, ValueError):
        return _USUAL
