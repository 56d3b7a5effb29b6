"""The compatibility matrix as text and as Markdown: its rows, and an overview."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from gpuenv.matrix.overview import overview_tables
from gpuenv.matrix.row_lookup import Row, Rows, RowSource
from gpuenv.matrix.tables import Matrix, SourceKind
from gpuenv.report.text_line import Style, TextLine, age_text

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
    "base_images": "Names of base images",
    "products": "GPU products",
    "older_products": "Older GPU products",
    "amd_products": "GPU products of AMD",
}


_MORE = (
    ("gpuenv matrix show --gpu V100", "also --driver 580, --line 13x"),
    ("gpuenv matrix show --row cuda/12.9", "one row with its sources"),
    ("gpuenv matrix show --full", "every row with its sources"),
    ("gpuenv matrix show --format html -o FILE", "a page: drivers by GPUs"),
)


def overview_lines(matrix: Matrix, age: int | None) -> Iterator[TextLine]:
    """The matrix on one screen of 80 columns; ``age`` is in days."""
    yield TextLine(_title(matrix, age), Style.HEADING)
    for table in overview_tables(matrix):
        yield TextLine()
        yield TextLine(table.title, Style.HEADING)
        widths = [max(map(len, column)) for column in zip(table.headings, *table.rows, strict=True)]
        for number, row in enumerate((table.headings, *table.rows)):
            text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            yield TextLine(text.rstrip(), Style.PLAIN if number else Style.QUIET)
        if table.note:
            yield TextLine(table.note, Style.QUIET)
    yield TextLine()
    yield TextLine("More", Style.HEADING)
    width = max(len(command) for command, _ in _MORE)
    for command, text in _MORE:
        yield TextLine(f"{command:{width}}  {text}")


def overview_markdown(matrix: Matrix, age: int | None) -> Iterator[TextLine]:
    """The same as Markdown tables."""
    yield TextLine(f"# {_title(matrix, age)}")
    for table in overview_tables(matrix):
        yield TextLine()
        yield TextLine(f"## {table.title}")
        yield TextLine()
        for row in (table.headings, ("---",) * len(table.headings), *table.rows):
            yield TextLine(f"| {' | '.join(map(_cell, row))} |")
        if table.note:
            yield TextLine()
            yield TextLine(table.note)
    yield TextLine()
    yield TextLine("## More")
    yield TextLine()
    for command, text in _MORE:
        yield TextLine(f"* `{command}`: {text}")


def _title(matrix: Matrix, age: int | None) -> str:
    return f"Compatibility matrix of {matrix.revision}{age_text(age)}"


def row_lines(rows: Rows) -> Iterator[TextLine]:
    """Each row with its facts and their sources."""
    for number, (table, group) in enumerate(groupby(rows.rows, key=lambda row: row.table)):
        if number:
            yield TextLine()
        yield TextLine(_HEADINGS[table], Style.HEADING)
        for row in group:
            yield TextLine(f"  {row.name}", hang=4)
            yield TextLine(f"    {_facts(row)}", hang=6)
            for source in row.proofs:
                yield TextLine(f"    [{_source_text(source)}]", Style.QUIET, 5)


def row_markdown(rows: Rows) -> Iterator[TextLine]:
    """A Markdown table for each table of the matrix."""
    for table, group in groupby(rows.rows, key=lambda row: row.table):
        yield TextLine(f"## {_HEADINGS[table]}")
        yield TextLine()
        yield TextLine("| row | facts | source |")
        yield TextLine("| --- | --- | --- |")
        for row in group:
            sources = "; ".join(_source_text(source) for source in row.proofs)
            yield TextLine(f"| {_cell(row.name)} | {_cell(_facts(row))} | {_cell(sources)} |")
        yield TextLine()


def _facts(row: Row) -> str:
    return ", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in row.facts.items())


def _source_text(source: RowSource) -> str:
    details = source.details
    note = f"; {details.note}" if details.note else ""
    if details.kind is SourceKind.BINARY:
        return f"measured {details.seen} in {details.file}, sha256 {details.sha256}{note}"
    return f"read {details.seen} in {source.citation}{note}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
