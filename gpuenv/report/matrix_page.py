"""The compatibility matrix as an HTML page: drivers by GPUs, each cell with its reasons and their sources."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

from gpuenv.matrix.grid import MACHINE_TEXT, Cell, GpuColumn, Grid, GridRow, NewestRelease
from gpuenv.matrix.overview import LineSummary, capabilities_of_products, spans, summarize_lines
from gpuenv.matrix.tables import Matrix, Product, SourceKind
from gpuenv.model.resolution import ConstraintName, Rejection

# Colours of wheel lines, the oldest first, in light and in dark mode.
_COLORS = (
    ("#e3d5f5", "#4a3370"),
    ("#f7cfdc", "#6e2b44"),
    ("#fbd3c4", "#74321c"),
    ("#f6dfa6", "#5f4710"),
    ("#b9d8f7", "#17466f"),
    ("#bfe6c0", "#1d5227"),
    ("#b5e6e4", "#12504f"),
    ("#dfe3a2", "#4c5013"),
)

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1d21; --paper: #fff; --soft: #5b6470; --edge: #d5dae0;
  --none: #eceff2; --mark: #0b57d0; LIGHT }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaee; --paper: #15181c; --soft: #a3adb8; --edge: #3a424b;
  --none: #23282e; --mark: #8ab4f8; DARK } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 100rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
p { margin: .35rem 0; max-width: 65rem; } .soft, small { color: var(--soft); } a { color: var(--mark); }
[hidden] { display: none !important; }
.skip { position: absolute; left: -99rem; } .skip:focus { left: 1rem; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
.scroll { overflow: auto; margin-top: .75rem; max-width: 100%; }
.scroll:focus-visible { outline: 3px solid var(--mark); }
#grid { max-height: 88vh; max-height: 88dvh; scroll-padding: 7rem 1rem 1rem 18rem; }
table { border-collapse: collapse; font-size: .88rem; }
.list td, .list th { border-top: 1px solid var(--edge); padding: .3rem .7rem .3rem 0; text-align: left;
  vertical-align: top; }
.list th { font-weight: 600; } .list td:nth-child(3) { overflow-wrap: anywhere; }
.lines td, .lines th { white-space: nowrap; }
.chip { display: inline-block; min-width: 3.1rem; padding: 0 .5rem; border-radius: 3px; text-align: center;
  color: var(--ink); }
.grid { border-collapse: separate; border-spacing: 2px; font-size: .82rem; }
.grid caption { position: absolute; left: -99rem; }
.grid th { font-weight: 600; background: var(--paper); padding: .1rem .35rem; line-height: 1.25; }
.grid thead { position: sticky; top: 0; z-index: 2; box-shadow: 0 0 0 2px var(--paper); }
.grid thead th { text-align: center; vertical-align: top; }
.grid thead th[colspan] { text-align: left; }
.grid thead tr:first-child th { border-bottom: 1px solid var(--edge); }
.grid thead small { display: block; font-weight: 400; font-size: .7rem; white-space: nowrap; }
.grid th:first-child { position: sticky; left: 0; box-shadow: 0 0 0 2px var(--paper);
  text-align: left; white-space: nowrap; z-index: 1; }
.grid th a { color: inherit; text-decoration-color: var(--edge); } .grid th small { font-weight: 400; }
.grid td { padding: 0; background: var(--none); border-radius: 3px; text-align: center; }
.grid td > a { display: block; min-width: 3.3rem; padding: .16rem 0; color: inherit; text-decoration: none;
  border-radius: 3px; line-height: 1.3; }
.grid td > a small { display: block; font-size: .68rem; color: inherit; }
.grid td > a:hover { outline: 1px solid var(--soft); }
.grid td > a:focus-visible, .grid td > a[aria-current] { outline: 3px solid var(--mark); outline-offset: 1px; }
:root:not(.js) td:target > a { outline: 3px solid var(--mark); outline-offset: 1px; }
.why { display: none; text-align: left; }
:root:not(.js) td:target .why, #reason { position: fixed; z-index: 5; left: 0; right: 0; bottom: 0; display: block;
  max-height: 45vh; overflow: auto; padding: .75rem 1.5rem; background: var(--paper); border-top: 2px solid var(--mark);
  font-size: .9rem; box-shadow: 0 -4px 16px #0003; }
.why strong, #reason strong { display: block; padding-right: 3rem; }
.why ul, #reason ul { margin: .3rem 0; padding-left: 1.2rem; }
.close { position: absolute; top: .6rem; right: 1.5rem; }
:root.open body { padding-bottom: 46vh; }
#search { font: inherit; width: 22rem; max-width: 100%; padding: .3rem .6rem; border: 1px solid var(--soft);
  border-radius: 6px; background: var(--paper); color: var(--ink); }
.models p { max-width: none; font-size: .88rem; } :target { scroll-margin-top: 1rem; }
time { white-space: nowrap; } tr:target td, .models :target { background: var(--none); }
@media (max-width: 40rem) { body { padding: .9rem; } h1 { font-size: 1.3rem; } .wide { display: none; }
  .grid td > a { min-width: 2.9rem; } #grid { scroll-padding-left: 9rem; }
  #reason, :root:not(.js) td:target .why { padding: .75rem .9rem; } }
@media print { .scroll { overflow: visible; max-height: none !important; } #find, .skip { display: none; }
  .grid td, .chip { print-color-adjust: exact; } }
"""

# Without it, a link to a cell shows the reason by the selector :target, and nothing can be searched.
_SCRIPT = """
const $ = id => document.getElementById(id), root = document.documentElement, reason = $('reason');
const table = document.querySelector('.grid'), rows = [...table.tBodies[0].rows];
const links = row => [...row.querySelectorAll('td:not([hidden]) > a')];
const all = rows.flatMap(row => [...row.querySelectorAll('td > a')]);
root.classList.add('js'); $('find').hidden = false;
let at = all[0];
function reach(link) { for (const other of all) { other.tabIndex = -1; } at = link; link.tabIndex = 0; }
function close() {
  reason.hidden = true; root.classList.remove('open'); root.style.scrollPaddingBottom = '';
  for (const other of all) { other.removeAttribute('aria-current'); }
}
function show(link) {
  close(); reach(link);
  link.setAttribute('aria-current', 'true');
  reason.replaceChildren(...link.nextElementSibling.cloneNode(true).childNodes);
  reason.hidden = false; root.classList.add('open');
  root.style.scrollPaddingBottom = `${reason.offsetHeight + 8}px`;
  link.scrollIntoView({block: 'nearest', inline: 'nearest'});
  history.replaceState(null, '', link.hash);
}
function opened() {
  const cell = $(decodeURIComponent(location.hash.slice(1)));
  close();
  if (cell && cell.matches('.grid td')) {
    show(cell.firstElementChild);
    cell.scrollIntoView({block: 'center', inline: 'center'});
  }
}
table.addEventListener('click', event => {
  const link = event.target.closest('td > a');
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) { event.preventDefault(); link.focus(); show(link); }
});
table.addEventListener('keydown', event => {
  const link = event.target.closest('td > a');
  if (!link || event.altKey || event.ctrlKey || event.metaKey) { return; }
  const shown = rows.filter(row => !row.hidden), y = shown.indexOf(link.closest('tr'));
  const cells = links(shown[y]), x = cells.indexOf(link);
  const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
  const ends = {Home: [y, 0], End: [y, cells.length - 1], PageUp: [0, x], PageDown: [shown.length - 1, x]}[event.key];
  const to = ends || (step && [y + step[0], x + step[1]]);
  const next = to && shown[to[0]] && links(shown[to[0]])[to[1]];
  if (to) { event.preventDefault(); }
  if (next) { next.focus(); show(next); }
});
document.addEventListener('keydown', event => { if (event.key === 'Escape') { close(); } });
reason.addEventListener('click', event => {
  if (event.target.closest('.close')) { event.preventDefault(); close(); at.focus(); }
});
addEventListener('hashchange', opened);
reach(at); opened();

const models = [...document.querySelectorAll('.models [data-cc]')].flatMap(section =>
  [...section.querySelectorAll('span')].map(entry => ({cc: section.dataset.cc, name: entry.textContent})));
const columns = [...table.tHead.rows[1].cells].slice(1);
const names = [...table.tHead.rows[0].cells].slice(1);
const generation = names.flatMap(cell => Array(Number(cell.dataset.columns)).fill(cell.textContent.toLowerCase()));
function matching(words) {
  const fits = text => words.every(word => text.toLowerCase().includes(word));
  const found = models.filter(entry => fits(entry.name));
  const ccs = new Set(found.map(entry => entry.cc));
  columns.forEach((cell, x) => {
    if (fits(generation[x]) || words.join(' ') === cell.dataset.cc) { ccs.add(cell.dataset.cc); }
  });
  return {found, ccs};
}
function driverRows(word) {
  const wanted = word.replace(/^r(?=\\d{3}$)/, '').split('.').map(Number);
  const same = rows.filter(row => Number(row.dataset.branch) === wanted[0]);
  const isLater = row => {
    const parts = row.dataset.driver.split('.').map(Number);
    const place = parts.findIndex((part, i) => i < wanted.length && part !== wanted[i]);
    return place >= 0 && parts[place] > wanted[place];
  };
  return wanted.length < 2 ? same : same.filter(row => !isLater(row)).slice(0, 1);
}
function search() {
  const words = $('search').value.toLowerCase().split(/[\\s,]+/).filter(word => word && word !== 'nvidia');
  const isDriver = words.length > 0 && words.every(word => word === 'driver' || driverRows(word).length);
  let gpu = words, drivers = [], {found, ccs} = matching(words);
  if (words.length && (isDriver || !ccs.size)) {
    drivers = words.flatMap(driverRows);
    gpu = words.filter(word => !driverRows(word).length && word !== 'driver');
    ({found, ccs} = gpu.length ? matching(gpu) : {found: [], ccs: new Set()});
  }
  const hasColumn = columns.some(cell => ccs.has(cell.dataset.cc));
  const none = words.length && (gpu.length ? !hasColumn : !drivers.length);
  rows.forEach(row => { row.hidden = !none && drivers.length > 0 && !drivers.includes(row); });
  columns.forEach((cell, x) => {
    const hide = !none && words.length > 0 && gpu.length > 0 && !ccs.has(cell.dataset.cc);
    for (const line of [cell, ...rows.map(row => row.cells[x + 1])]) { line.hidden = hide; }
  });
  let x = 0;
  for (const cell of names) {
    const count = columns.slice(x, x += Number(cell.dataset.columns)).filter(column => !column.hidden).length;
    cell.hidden = !count; cell.colSpan = count || 1;
  }
  const shown = [...new Set(found.map(entry => `${entry.name} (${entry.cc})`))];
  const some = shown.slice(0, 6).join(', ') + (shown.length > 6 ? ` and ${shown.length - 6} more` : '');
  let text = words.length && some ? `${some}.` : '';
  if (none) { text = some ? `${some}: not in the table; see GPU models below.` : 'Nothing matches.'; }
  const old = gpu.find(word => word.includes('.') && driverRows(word.split('.')[0]).length);
  if (none && old) { text = `${old} is older than the first known release of its branch.`; }
  $('matches').textContent = text;
  close();
  const first = rows.filter(row => !row.hidden).flatMap(links)[0];
  if (first) { reach(first); }
}
$('search').addEventListener('input', search);
if ($('search').value) { search(); }
"""

# The page fetches nothing.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def page(matrix: Matrix, grid: Grid) -> str:
    """The matrix as an HTML page: a grid of drivers by GPUs, with the reasons for each cell."""
    return "\n".join(_page(matrix, grid)) + "\n"


def _page(matrix: Matrix, grid: Grid) -> Iterator[str]:
    lines = summarize_lines(matrix)
    links = _SourceLinks(matrix)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Which CuPy fits: matrix {escape(matrix.revision)}</title>"
    yield f"<style>{_style(lines)}</style>\n</head>\n<body>"
    yield '<a class="skip" href="#matrix">To the table</a>'
    yield "<h1>Which CuPy wheel fits which driver and GPU</h1>"
    yield f'<p class="soft">Compatibility matrix of {escape(matrix.revision)}, for {MACHINE_TEXT}, '
    yield "the newest Python for which every wheel line has wheels.</p>"
    yield "<p>Each cell names the wheel line of the newest CuPy that fits. Select a cell to read the requirement for "
    yield "pip, the reasons, and their sources; its address links to it.</p>"
    yield from _legend(lines, grid, matrix, links)
    yield '<main>\n<h2 id="matrix">Drivers by GPUs</h2>'
    yield f"<p>{_rows_note(grid)}</p>"
    yield '<p id="find" hidden><label for="search">Find a GPU or a driver: </label>'
    yield '<input id="search" type="search" placeholder="RTX 3090 535" autocomplete="off"> '
    yield '<span id="matches" role="status" class="soft"></span></p>'
    yield '<div class="scroll" id="grid" tabindex="0" role="region" aria-label="Drivers by GPUs">'
    yield from _grid(grid, lines, links)
    yield '</div>\n<div id="reason" role="status" aria-live="polite" hidden></div>\n</main>'
    yield from _models(grid, matrix, links)
    yield from _sources(matrix)
    yield f"<script>{_SCRIPT}</script>\n</body>\n</html>"


def _rows_note(grid: Grid) -> str:
    later = [str(row.driver) for row in grid.rows if row.driver.text == row.name.removeprefix("driver-")]
    split = [text for text in later if "." in text]
    also = (
        f" Branches in which a later release admits another line have a row for it ({', '.join(split)})."
        if split
        else ""
    )
    return (
        "A row stands for the driver release in it, the first known one of its branch; its answers hold for all later "
        f"releases of the branch, up to the row above.{also} A branch without a release in it stands for any of its "
        "releases. Tegra GPUs (Jetson up to Orin) are left out: their drivers come with JetPack."
    )


def _style(lines: Sequence[LineSummary]) -> str:
    oldest_first = list(reversed(lines))
    colors = {entry.line.name: _COLORS[number % len(_COLORS)] for number, entry in enumerate(oldest_first)}
    light, dark = (" ".join(f"--{_short(name)}: {pair[mode]};" for name, pair in colors.items()) for mode in (0, 1))
    rules = "".join(f".{_class(name)} {{ background: var(--{_short(name)}) !important; }}\n" for name in colors)
    return _STYLE.replace("LIGHT", light).replace("DARK", dark) + rules


def _short(name: str) -> str:
    """``13x``."""
    return name.removeprefix("cupy-cuda")


def _class(name: str) -> str:
    return f"line-{_short(name)}"


class _SourceLinks:
    """Links to the sources at the end of the page."""

    def __init__(self, matrix: Matrix) -> None:
        self.names = {source.citation: name for name, source in reversed(list(matrix.sources.items()))}

    def by_name(self, name: str, text: str = "source") -> str:
        """A link to a source by the name that rows cite."""
        return f'<a href="#{escape(_source_id(name))}">{escape(text)}</a>'

    def by_citation(self, citation: str) -> str:
        """A link to a source by its citation; the citation itself if several sources are cited."""
        name = self.names.get(citation)
        return self.by_name(name) if name is not None else f"<small>{escape(citation)}</small>"


def _source_id(name: str) -> str:
    return "source-" + re.sub(r"[\s%]", "_", name)


def _legend(lines: Sequence[LineSummary], grid: Grid, matrix: Matrix, links: _SourceLinks) -> Iterator[str]:
    counts = Counter(cell.wheel.distribution if cell.wheel else None for row in grid.rows for cell in row.cells)
    yield '<h2 id="lines">Wheel lines</h2>\n<div class="scroll"><table class="list lines"><thead><tr>'
    for text in ("in the table", "wheel line", "newest CuPy", "CUDA", "oldest driver", "on Windows", "Python", "GPUs"):
        yield f'<th scope="col">{text}</th>'
    yield '<th scope="col">cells</th></tr></thead><tbody>'
    sold = capabilities_of_products(matrix)
    for entry in lines:
        name = entry.line.name
        chip = f'<span class="chip {_class(name)}">{escape(_short(name))}</span>'
        cells = (
            links.by_name(entry.newest.source, entry.newest.cupy),
            entry.cuda_text,
            escape(str(entry.linux)),
            escape(str(entry.windows)),
            f"up to {entry.python}",
            spans(entry.capabilities, sold),
            str(counts[name]) if counts[name] else "0: a newer line fits wherever it does",
        )
        row = "".join(f"<td>{text}</td>" for text in cells)
        yield f'<tr><td>{chip}</td><th scope="row">{escape(name)}</th>{row}</tr>'
    yield '<tr><td><span class="chip" style="background: var(--none)">&ndash;</span></td>'
    yield f'<th scope="row">no wheel fits</th><td colspan="6"></td><td>{counts[None]}</td></tr>'
    yield "</tbody></table></div>"
    yield '<p class="soft">A cell with an older CuPy than the newest of its line says which.</p>'


def _grid(grid: Grid, lines: Sequence[LineSummary], links: _SourceLinks) -> Iterator[str]:
    newest = {entry.line.name: entry.newest.cupy for entry in lines}
    yield '<table class="grid">\n<caption>Wheel line by driver and compute capability</caption>\n<thead>'
    groups = [
        (name, len(list(group))) for name, group in groupby(grid.columns, key=lambda column: column.generation.name)
    ]
    heads = "".join(
        f'<th scope="colgroup" colspan="{count}" data-columns="{count}">'
        f"{escape(name.removeprefix('compute capability '))}</th>"
        for name, count in groups
    )
    yield f'<tr><th scope="col">driver</th>{heads}</tr>'
    yield '<tr><th scope="col"><small>release<span class="wide">, CUDA, support</span></small></th>'
    yield from map(_column_head, grid.columns)
    yield "</tr>\n</thead>\n<tbody>"
    for row in grid.rows:
        yield (
            f'<tr data-branch="{row.branch.branch}" data-driver="{escape(str(row.driver))}">'
            f'<th scope="row" id="{escape(row.name)}">{_row_head(row, links)}</th>'
        )
        for column, cell in zip(grid.columns, row.cells, strict=True):
            yield _page_cell(row, column, cell, newest, links)
        yield "</tr>"
    yield "</tbody>\n</table>"


def _column_head(column: GpuColumn) -> str:
    every = escape(", ".join(product.name for product in column.products))
    names = "".join(f"<small>{escape(name)}</small>" for name in _representatives(column.products))
    arch = f"<small>on {column.arch}</small>" if column.arch != "x86_64" else ""
    capability = column.capability
    return (
        f'<th scope="col" data-cc="{capability}" title="{every}"><a href="#cc-{capability}">{capability}</a>'
        f"{names}{arch}</th>"
    )


_MAKER = re.compile(r"^(?:(?:NVIDIA|Tesla|GeForce|Quadro) )+")
_DETAIL = re.compile(r" (?:\(|Blackwell|Server).*$")
_BOARD = re.compile(r"\bPG\d{3}\b")  # a board without a name in the shops


def _representatives(products: Iterable[Product]) -> list[str]:
    """Short names of a few GPUs: the first products for data centres or workstations, and the first GeForce."""
    names = [product.name for product in products if not _BOARD.search(product.name)]
    consumer = [name for name in names if "GeForce" in name]
    others = [name for name in names if "GeForce" not in name]
    picked = [*others[: 2 if consumer else 3], *consumer[:2]]
    return list(dict.fromkeys(_DETAIL.sub("", _MAKER.sub("", name)) for name in picked))


def _row_head(row: GridRow, links: _SourceLinks) -> str:
    branch = row.branch
    release = "" if row.driver.is_bare_branch else f"<small>{escape(str(row.driver))}</small>"
    cuda = links.by_name(branch.source, f"CUDA {branch.cuda}")
    support = ""
    if branch.state is not None and branch.state_source is not None:
        support = f", {links.by_name(branch.state_source, branch.state.value)}"
    return f'{branch.branch} {release} <small class="wide">{cuda}{support}</small>'


def _page_cell(row: GridRow, column: GpuColumn, cell: Cell, newest: dict[str, str], links: _SourceLinks) -> str:
    name = f"{row.name}-cc-{column.capability}"
    where = f"Driver {row.driver}, {column.generation.name} {column.capability}"
    text, kind = "&ndash;", ""
    if cell.wheel is not None:
        text, kind = escape(_short(cell.wheel.distribution)), f' class="{_class(cell.wheel.distribution)}"'
        if cell.wheel.version != newest[cell.wheel.distribution]:
            text += f" <small>{escape(cell.wheel.version)}</small>"
    answer = " ".join(cell.wheel.requirements) if cell.wheel else "no wheel fits"
    return (
        f'<td id="{escape(name)}"{kind}>'
        f'<a href="#{escape(name)}" aria-label="{escape(f"{where}: {answer}")}">{text}</a>'
        f'<div class="why">{_why(where, cell, links)}</div></td>'
    )


def _why(where: str, cell: Cell, links: _SourceLinks) -> str:
    answer = f"<code>{escape(' '.join(cell.wheel.requirements))}</code>" if cell.wheel else "No wheel of CuPy fits."
    reasons = "".join(f"<li>{text}</li>" for text in _reasons(cell, links))
    command = " ".join(f"--assume {fact}" for fact in cell.facts)
    return (
        f'<strong>{escape(where)}</strong><a class="close" href="#matrix">Close</a><p class="answer">{answer}</p>'
        f'<ul>{reasons}</ul><small><code class="command">gpuenv resolve --no-probe {escape(command)}</code></small>'
    )


def _reasons(cell: Cell, links: _SourceLinks) -> Iterator[str]:
    """Yields which other lines fit, and what rejects the newest release of each line that would be preferred."""
    preferred: list[NewestRelease] = []
    for entry in cell.newest:
        if entry.rejections:
            preferred.append(entry)
        if cell.wheel is not None and entry.candidate.name == cell.wheel.distribution:
            break
    shared = _shared(preferred)
    for rejection in shared:
        yield f"No line: {_rejection(rejection, links)}."
    for entry in preferred:
        own = [reason for reason in _named(entry.rejections) if (reason.needed, reason.found) not in _texts(shared)]
        if own:
            texts = "; ".join(_rejection(reason, links) for reason in own)
            yield f"Not {escape(entry.candidate.label)}: {texts}."
    for entry in cell.newest:
        if not entry.rejections:
            chosen = cell.wheel is not None and entry.candidate.name == cell.wheel.distribution
            fits = "Fits" if chosen else "Also fits"
            yield f"{fits}: {escape(entry.candidate.label)} ({links.by_name(entry.source)})."


_GPU_CONSTRAINTS = (ConstraintName.NVRTC_COMPILES_FOR_GPU, ConstraintName.WHEEL_HAS_CODE_FOR_GPU)


def _named(rejections: Sequence[Rejection]) -> list[Rejection]:
    """Returns the rejections, of those about the GPU only the first."""
    of_gpu = [entry for entry in rejections if entry.constraint in _GPU_CONSTRAINTS]
    return [entry for entry in rejections if entry not in of_gpu[1:]]


def _texts(rejections: Iterable[Rejection]) -> set[tuple[str, str]]:
    return {(entry.needed, entry.found) for entry in rejections}


def _shared(entries: Sequence[NewestRelease]) -> list[Rejection]:
    """Returns the rejections that all of several releases have."""
    if len(entries) < 2:  # noqa: PLR2004
        return []
    common = set.intersection(*(_texts(entry.rejections) for entry in entries))
    return [reason for reason in entries[0].rejections if (reason.needed, reason.found) in common]


def _rejection(entry: Rejection, links: _SourceLinks) -> str:
    text = escape(f"needs {entry.needed}, found {entry.found}")
    return f"{text} ({links.by_citation(entry.source)})"


def _models(grid: Grid, matrix: Matrix, links: _SourceLinks) -> Iterator[str]:
    yield '<h2 id="models">GPU models</h2>\n<details open class="models"><summary>By compute capability</summary>'
    for column in grid.columns:
        title = f"{column.generation.name} {column.capability}".removeprefix("compute capability ")
        yield from _model_list(str(column.capability), title, column.products, links)
    older = sorted(matrix.older_products, key=lambda product: product.compute_capability)
    for capability, products in groupby(older, key=lambda product: product.compute_capability):
        yield from _model_list(str(capability), f"{capability}, for which no CuPy has wheels", list(products), links)
    yield "</details>"


def _model_list(capability: str, title: str, products: Sequence[Product], links: _SourceLinks) -> Iterator[str]:
    spellings = dict.fromkeys(name for product in products for name in (product.name, *product.aliases))
    names = [name for name in spellings if name.removeprefix("NVIDIA ") == name or name[7:] not in spellings]
    spelled = ", ".join(f"<span>{escape(name)}</span>" for name in names)
    sources = ", ".join(
        links.by_name(name, f"source {number}")
        for number, name in enumerate(dict.fromkeys(product.source for product in products), 1)
    )
    yield (
        f'<p id="cc-{capability}" data-cc="{capability}"><strong>{escape(title)}</strong>: {spelled} '
        f"<small>({sources})</small></p>"
    )


def _sources(matrix: Matrix) -> Iterator[str]:
    yield f'<h2 id="sources">Sources</h2>\n<details open><summary>{len(matrix.sources)} sources</summary>'
    yield '<div class="scroll"><table class="list"><thead><tr>'
    yield "".join(f'<th scope="col">{text}</th>' for text in ("name", "kind", "source", "read"))
    yield "</tr></thead><tbody>"
    for name, source in matrix.sources.items():
        text = escape(source.citation)
        if source.kind is SourceKind.BINARY:
            text = f"{escape(source.file or '')}<br><small>sha256 {escape(source.sha256 or '')}</small>"
        note = f"<br><small>{escape(source.note)}</small>" if source.note else ""
        yield (
            f'<tr id="{escape(_source_id(name))}"><th scope="row">{escape(name)}</th><td>{source.kind.value}</td>'
            f"<td>{text}{note}</td><td><time>{escape(source.seen)}</time></td></tr>"
        )
    yield "</tbody></table></div></details>"
