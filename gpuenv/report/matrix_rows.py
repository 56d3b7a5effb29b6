"""Rows of the matrix as text and as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from gpuenv.matrix.records import SourceKind
from gpuenv.matrix.rows import Proof, Row, Rows
from gpuenv.report.text import Line, Style

_HEADINGS = {
    "driver_branches": "Driver branches",
    "cuda_majors": "CUDA major versions",
    "cuda_minors": "CUDA minor versions",
    "generations": "GPU generations",
    "wheel_lines": "Wheels of CuPy",
    "rocm_lines": "Wheels of CuPy for ROCm (experimental)",
    "conda_builds": "Conda builds of CuPy",
    "images": "Container images",
    "companions": "Packages that bring CUDA",
    "advisories": "Known faults",
    "peaks": "What GPUs do at most",
    "ngc_releases": "NVIDIA's framework images",
    "products": "GPU products",
    "older_products": "Older GPU products",
}


def row_lines(rows: Rows) -> Iterator[Line]:
    """Each row with its facts and, once a row, where they come from."""
    for number, (table, found) in enumerate(groupby(rows.rows, key=lambda row: row.table)):
        if number:
            yield Line()
        yield Line(_HEADINGS[table], Style.HEADING)
        for row in found:
            yield Line(f"  {row.name}", hang=4)
            yield Line(f"    {_facts(row)}", hang=6)
            for proof in row.proofs:
                yield Line(f"    [{_proof(proof)}]", Style.QUIET, 5)


def row_markdown(rows: Rows) -> Iterator[Line]:
    """A Markdown table for each table of the matrix."""
    for table, found in groupby(rows.rows, key=lambda row: row.table):
        yield Line(f"## {_HEADINGS[table]}")
        yield Line()
        yield Line("| row | facts | proof |")
        yield Line("| --- | --- | --- |")
        for row in found:
            proofs = "; ".join(_proof(proof) for proof in row.proofs)
            yield Line(f"| {_cell(row.name)} | {_cell(_facts(row))} | {_cell(proofs)} |")
        yield Line()


def _facts(row: Row) -> str:
    return ", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in row.facts.items())


def _proof(proof: Proof) -> str:
    source = proof.details
    note = f"; {source.note}" if source.note else ""
    if source.kind is SourceKind.BINARY:
        return f"measured {source.seen} in {source.file}, sha256 {source.sha256}{note}"
    return f"read {source.seen} in {proof.citation}{note}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
