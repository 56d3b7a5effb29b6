"""What the sections of the page are made of; whatever is put in is escaped or is HTML already. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape


def escaped(text: object) -> str:
    """Text that is shown as it is, also inside an attribute."""
    return escape(str(text), quote=True)


def section(name: str, title: str, body: Iterable[str]) -> Iterator[str]:
    """A section that can be linked to, with a heading."""
    yield f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escaped(title)}</h2>'
    yield from body
    yield "</section>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Cells are HTML already; a wide table is scrolled by itself, also with the keyboard."""
    yield '<div class="scroll" tabindex="0" role="group"><table><thead><tr>'
    yield "".join(f'<th scope="col">{escaped(name)}</th>' for name in head)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def badge(word: str, tone: str) -> str:
    """A word in a rounded frame."""
    return f'<span class="badge {tone}">{escaped(word)}</span>'


def mono(text: object) -> str:
    """Text as code; nothing where there is none."""
    return f"<code>{escaped(text)}</code>" if str(text) else ""
