"""How a record shows itself in a notebook."""

from __future__ import annotations

import html
from typing import Protocol


class Printer(Protocol):
    """What is used of IPython's ``RepresentationPrinter``. A text is shorter than a record's ``repr`` of 100 kB."""

    def text(self, text: str) -> None:
        """Adds a text."""


def text_html(text: str) -> str:
    """A text as it is; some notebooks show ``pre`` in a proportional font."""
    return f'<pre style="font-family: monospace">{html.escape(text)}</pre>'
