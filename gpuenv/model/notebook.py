"""How a record shows itself in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable


def table_html(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table of labels and values under a title."""
    cells = (f"<tr><th>{html.escape(label)}</th><td>{html.escape(value)}</td></tr>" for label, value in rows)
    return f"<p><b>{html.escape(title)}</b></p><table>{''.join(cells)}</table>"


def text_html(text: str) -> str:
    """A text as it is; some notebooks show ``pre`` in a proportional font."""
    return f'<pre style="font-family: monospace">{html.escape(text)}</pre>'
