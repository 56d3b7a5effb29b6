"""The frame, the style and the elements of HTML pages: no scripts, fonts, images or network access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from gpuenv import __version__

# The page loads and runs nothing, even if a name of a GPU contains markup.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, body: Iterable[str], matrix_revision: str, skip: tuple[str, str]) -> str:
    """A page; ``skip`` is the anchor and the text of the link for those who listen to it."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escaped(title)} - gpuenv</title><style>{STYLE}</style></head><body>",
            f'<a class="skip" href="#{skip[0]}">{escaped(skip[1])}</a><main>',
            *body,
            f'<footer class="quiet">gpuenv {escaped(__version__)}, matrix {escaped(matrix_revision)}</footer>',
            "</main></body></html>",
            "",
        ]
    )


def escaped(text: object) -> str:
    """Escaped text, for elements and attributes."""
    return escape(str(text), quote=True)


def section(name: str, title: str, body: Iterable[str]) -> Iterator[str]:
    """A section with a heading and an anchor."""
    yield f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escaped(title)}</h2>'
    yield from body
    yield "</section>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table of HTML cells; a wide one scrolls on its own, also by keyboard."""
    yield '<div class="scroll" tabindex="0" role="group"><table><thead><tr>'
    yield "".join(f'<th scope="col">{escaped(name)}</th>' for name in head)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def badge(text: str, tone: str) -> str:
    """A label in a rounded frame."""
    return f'<span class="badge {tone}">{escaped(text)}</span>'


def code(text: object) -> str:
    """Text as code; an empty text stays empty."""
    return f"<code>{escaped(text)}</code>" if str(text) else ""


STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --quiet: #57606a; --line: #d0d7de; --soft: #f6f8fa;
  --good: #116329; --warn: #7d4e00; --bad: #a40e26; --note: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --quiet: #9da7b1; --line: #30363d;
  --soft: #161b22; --good: #56d364; --warn: #e3b341; --bad: #ff8182; --note: #79c0ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { margin: 0; font-size: 1.6rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; margin: 0; }
h4 { font-size: .9rem; margin: .5rem 0 0; } p { margin: .3rem 0; } ul, ol { margin: .2rem 0; padding-left: 1.4rem; }
header, article { border-left: .35rem solid var(--line); background: var(--soft); padding: .8rem 1rem;
  margin: .6rem 0; }
header.good, article.good { border-color: var(--good); } header.warn, article.warn { border-color: var(--warn); }
header.bad, article.bad { border-color: var(--bad); } article.note { border-color: var(--note); }
header.good h1 { color: var(--good); } header.warn h1 { color: var(--warn); } header.bad h1 { color: var(--bad); }
.quiet { color: var(--quiet); font-size: .9rem; }
.badge { border: 1px solid; border-radius: .8rem; padding: 0 .5rem; font-size: .8rem; white-space: nowrap; }
.badge.good { color: var(--good); } .badge.warn { color: var(--warn); } .badge.bad { color: var(--bad); }
.badge.note { color: var(--note); }
a, code, pre { overflow-wrap: anywhere; } code, pre { font: .9em/1.5 ui-monospace, monospace; }
pre { background: var(--back); border: 1px solid var(--line); padding: .4rem .6rem; margin: .3rem 0;
  white-space: pre-wrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; } dd.bad { color: var(--bad); font-weight: bold; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); }
summary { cursor: pointer; padding: .2rem 0; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--text); font: 12px system-ui, sans-serif; }
svg .good { fill: var(--good); } svg .warn { fill: var(--warn); } svg .bad { fill: var(--bad); }
svg .bar { fill: var(--note); } svg line { stroke: var(--quiet); }
svg polyline { fill: none; stroke: var(--note); stroke-width: 1.5; }
:focus-visible { outline: 2px solid var(--note); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--back); padding: .5rem; }
@media print { :root { --back: #fff; --text: #000; --quiet: #444; --line: #999; --soft: #fff; --good: #116329;
  --warn: #7d4e00; --bad: #a40e26; --note: #0550ae; color-scheme: light; }
  main { max-width: none; } .scroll { overflow: visible; } article, tr { break-inside: avoid; } .skip { display: none; }
  details::details-content { content-visibility: visible; display: block; block-size: auto; } }
"""
