"""The compatibility matrix as text, as Markdown and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby

from gpuenv.matrix.row_lookup import MACHINE_TEXT, Cell, Grid, Row, Rows, RowSource
from gpuenv.matrix.tables import DriverBranch, Matrix, SourceKind
from gpuenv.report.text_line import Style, TextLine

_HEADINGS = {
    "driver_branches": "Driver branches",
    "cuda_majors": "CUDA major versions",
    "cuda_minors": "CUDA minor versions",
    "generations": "GPU generations",
    "wheel_lines": "Wheels of CuPy",
    "rocm_lines": "Wheels of CuPy for ROCm (experimental)",
    "conda_builds": "Conda builds of CuPy",
    "images": "Container images",
    "companions": "Packages that provide CUDA",
    "advisories": "Known problems",
    "peaks": "Peak rates of GPUs",
    "ngc_releases": "NVIDIA's framework images",
    "products": "GPU products",
    "older_products": "Older GPU products",
}


def row_lines(rows: Rows) -> Iterator[TextLine]:
    """Each row with its facts and their sources."""
    for number, (table, group) in enumerate(groupby(rows.rows, key=lambda row: row.table)):
        if number:
            yield TextLine()
        yield TextLine(_HEADINGS[table], Style.HEADING)
        for row in group:
            yield TextLine(f"  {row.name}", hang=4)
            yield TextLine(f"    {_facts(row)}", hang=6)
            for proof in row.proofs:
                yield TextLine(f"    [{_proof(proof)}]", Style.QUIET, 5)


def row_markdown(rows: Rows) -> Iterator[TextLine]:
    """A Markdown table for each table of the matrix."""
    for table, group in groupby(rows.rows, key=lambda row: row.table):
        yield TextLine(f"## {_HEADINGS[table]}")
        yield TextLine()
        yield TextLine("| row | facts | proof |")
        yield TextLine("| --- | --- | --- |")
        for row in group:
            proofs = "; ".join(_proof(proof) for proof in row.proofs)
            yield TextLine(f"| {_cell(row.name)} | {_cell(_facts(row))} | {_cell(proofs)} |")
        yield TextLine()


def _facts(row: Row) -> str:
    return ", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in row.facts.items())


def _proof(proof: RowSource) -> str:
    source = proof.details
    note = f"; {source.note}" if source.note else ""
    if source.kind is SourceKind.BINARY:
        return f"measured {source.seen} in {source.file}, sha256 {source.sha256}{note}"
    return f"read {source.seen} in {proof.citation}{note}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_STYLE = """
:root { color-scheme: light dark; --ink: #1a1d21; --paper: #fff; --soft: #5b6470; --edge: #d5dae0;
  --none: #eceff2; --l11: #f6d9a6; --l12: #b9d8f7; --l13: #bfe6c0; --mark: #0b57d0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaee; --paper: #15181c; --soft: #a3adb8; --edge: #3a424b;
  --none: #23282e; --l11: #6b4a12; --l12: #17466f; --l13: #1d5227; --mark: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; max-width: 65rem; } .soft { color: var(--soft); }
.scroll { overflow-x: auto; margin-top: 1rem; }
table.grid { border-collapse: separate; border-spacing: 2px; font-size: .82rem; }
.grid th { font-weight: 600; padding: .15rem .4rem; white-space: nowrap; }
.grid thead th { text-align: center; } .grid tbody th { text-align: right; position: sticky; left: 0;
  background: var(--paper); }
.grid tbody th small { font-weight: 400; color: var(--soft); }
.grid td { padding: 0; }
.grid button { all: unset; box-sizing: border-box; display: block; width: 100%; min-width: 3.1rem; padding: .18rem 0;
  text-align: center; cursor: pointer; border-radius: 3px; background: var(--none); color: var(--ink); }
.grid .l11 { background: var(--l11); } .grid .l12 { background: var(--l12); } .grid .l13 { background: var(--l13); }
.grid button:hover { outline: 1px solid var(--soft); }
.grid button:focus-visible, .grid button[aria-pressed=true] { outline: 3px solid var(--mark); outline-offset: 1px; }
#reason { position: sticky; bottom: 0; margin-top: 1rem; padding: .75rem 1rem; background: var(--paper);
  border: 1px solid var(--edge); border-radius: 6px; min-height: 5.5rem; }
#reason strong { display: block; }
.key span { display: inline-block; padding: 0 .5rem; border-radius: 3px; margin-right: .5rem; }
.sources { border-collapse: collapse; font-size: .85rem; }
.sources td, .sources th { border-top: 1px solid var(--edge); padding: .3rem .6rem; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
"""

_SCRIPT = """
const cells = [...document.querySelectorAll('.grid tbody tr')].map(row => [...row.querySelectorAll('button')]);
const reason = document.getElementById('reason');
function show(button) {
  for (const other of cells.flat()) { other.setAttribute('aria-pressed', other === button); }
  const title = document.createElement('strong');
  title.textContent = button.dataset.where;
  reason.replaceChildren(title, button.title);
}
cells.forEach((row, y) => row.forEach((button, x) => {
  button.tabIndex = x || y ? -1 : 0;
  button.addEventListener('focus', () => {
    cells.flat().forEach(other => { other.tabIndex = other === button ? 0 : -1; });
    show(button);
  });
  button.addEventListener('click', () => { button.focus(); show(button); });
  button.addEventListener('keydown', event => {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    const ends = {Home: [y, 0], End: [y, row.length - 1], PageUp: [0, x], PageDown: [cells.length - 1, x]}[event.key];
    const to = ends || (step && [y + step[0], x + step[1]]);
    if (to && cells[to[0]] && cells[to[0]][to[1]]) { event.preventDefault(); cells[to[0]][to[1]].focus(); }
  });
}));
"""


def page(matrix: Matrix, grid: Grid) -> str:
    """The matrix as an HTML page: a grid of drivers by GPUs, with the reason for each cell."""
    return "\n".join(_page(matrix, grid)) + "\n"


def _page(matrix: Matrix, grid: Grid) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Which CuPy fits: matrix {escape(matrix.revision)}</title>"
    yield f"<style>{_STYLE}</style>\n</head>\n<body>"
    yield "<h1>Which CuPy wheel fits which driver and GPU</h1>"
    yield f'<p class="soft">Matrix of {escape(matrix.revision)}, for {MACHINE_TEXT}. '
    yield "A driver branch stands for its first release.</p>"
    yield "<p>Each cell names the wheel line that fits. Select a cell, or use the arrow keys, to read why.</p>"
    yield _key(matrix)
    yield '<div class="scroll">'
    yield from _grid(grid)
    yield "</div>"
    yield '<div id="reason" role="status" aria-live="polite"><strong>No cell is selected.</strong></div>'
    yield from _sources(matrix)
    yield f"<script>{_SCRIPT}</script>\n</body>\n</html>"


def _key(matrix: Matrix) -> str:
    lines = "".join(f'<span class="l{row.cuda_major}">{escape(row.name)}</span>' for row in matrix.wheel_lines)
    style = "".join(f".key .l{row.cuda_major} {{ background: var(--l{row.cuda_major}) }}" for row in matrix.wheel_lines)
    none = '<span style="background: var(--none)">none</span>'
    return f'<style>{style}</style><p class="key" aria-label="Key">{lines}{none}</p>'


def _grid(grid: Grid) -> Iterator[str]:
    yield '<table class="grid">\n<caption class="soft">Driver branch by compute capability</caption>\n<thead>'
    groups = [(name, len(list(group))) for name, group in groupby(grid.kinds, key=lambda kind: kind.generation)]
    spans = "".join(
        f'<th scope="colgroup" colspan="{count}">{escape(name.removeprefix("compute capability "))}</th>'
        for name, count in groups
    )
    yield f'<tr><th scope="col">driver</th>{spans}</tr>'
    heads = "".join(f'<th scope="col">{kind.capability}</th>' for kind in grid.kinds)
    yield f'<tr><th scope="col"><small>branch, CUDA</small></th>{heads}</tr>\n</thead>\n<tbody>'
    for branch, cells in grid.rows:
        buttons = "".join(
            _page_cell(cell, branch, f"{kind.generation} {kind.capability}")
            for cell, kind in zip(cells, grid.kinds, strict=True)
        )
        state = f", {branch.state.value}" if branch.state else ""
        yield f'<tr><th scope="row">{branch.branch} <small>{branch.cuda}{state}</small></th>{buttons}</tr>'
    yield "</tbody>\n</table>"


def _page_cell(cell: Cell, branch: DriverBranch, kind: str) -> str:
    label = f"Driver {branch.branch}, {kind}: {' '.join(cell.requirements) or 'no wheel fits'}"
    line = (cell.line or "").removeprefix("cupy-cuda")
    return (
        f'<td><button type="button" class="{f"l{line[:2]}" if line else ""}" aria-pressed="false" '
        f'aria-label="{escape(label)}" data-where="{escape(label)}" title="{escape(cell.reason)}">'
        f"{line or '&ndash;'}</button></td>"
    )


def _sources(matrix: Matrix) -> Iterator[str]:
    yield f"<h2>Sources</h2>\n<details><summary>{len(matrix.sources)} sources</summary>"
    yield '<table class="sources"><thead><tr><th>name</th><th>kind</th><th>source</th><th>seen</th></tr></thead><tbody>'
    for name, source in matrix.sources.items():
        text = escape(source.citation)
        if source.kind is SourceKind.BINARY:
            text = f"{escape(source.file or '')}<br><small>sha256 {escape(source.sha256 or '')}</small>"
        note = f"<br><small>{escape(source.note)}</small>" if source.note else ""
        cells = (
            f"<td>{escape(name)}</td><td>{source.kind.value}</td><td>{text}{note}</td><td>{escape(source.seen)}</td>"
        )
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table></details>"
