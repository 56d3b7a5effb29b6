"""The canonical form of a matrix."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from gpuenv.cli.matrix_format import fix_format, is_canonical
from gpuenv.data import data_path
from gpuenv.matrix.canonical import WIDTH, format_matrix
from gpuenv.matrix.load import load, parse, read_values, to_matrix
from gpuenv.matrix.tables import Matrix
from gpuenv.model.codec import encode
from tests.cli.program import gpuenv

SHIPPED = data_path("matrix.yaml")
TEXT = SHIPPED.read_text(encoding="utf-8")


def test_the_shipped_matrix_is_canonical() -> None:
    assert format_matrix(TEXT, "matrix.yaml") == TEXT
    assert max(map(len, TEXT.splitlines())) <= WIDTH


def _without_quotes(text: str) -> str:
    """The former form, in which each value was a text as written."""
    text = re.sub(r"^(?!#)(.*)$", lambda line: re.sub(r"'([\w.]+)'", r"\1", line[0]), text, flags=re.MULTILINE)
    return text.replace("toolkit_wheels: true", "toolkit_wheels: 'true'")


def _with_other_blanks(text: str) -> str:
    return re.sub(r"\n    (ptx|linux|windows): (\S+)", r"\n    \1:  \2", text)


def _in_another_order(text: str) -> str:
    return re.sub(r"\n    linux: (\S+)\n    windows: (\S+)", r"\n    windows: \2\n    linux: \1", text)


def _with_defaults(text: str) -> str:
    return text.replace("source: cmake-nvcc", "toolkit_wheels: false\n    source: cmake-nvcc")


@pytest.mark.parametrize("change", [_without_quotes, _with_other_blanks, _in_another_order, _with_defaults])
def test_other_forms_have_one_canonical_form(change: Callable[[str], str]) -> None:
    text = change(TEXT)
    assert text != TEXT
    assert format_matrix(text, "m.yaml") == TEXT


def test_fix_writes_the_canonical_form(tmp_path: Path) -> None:
    matrix = tmp_path / "m.yaml"
    matrix.write_text(_without_quotes(TEXT), encoding="utf-8")

    def check(*options: str) -> subprocess.CompletedProcess[str]:
        return gpuenv("matrix", "check", *options, "--matrix", matrix, environment={"HOME": str(tmp_path)})

    before = check()
    assert before.returncode == 6
    assert f"gpuenv matrix check --fix --matrix {matrix}" in before.stderr
    assert matrix.read_text(encoding="utf-8") == _without_quotes(TEXT)
    assert check("--fix").returncode == 0
    assert matrix.read_text(encoding="utf-8") == TEXT
    matrix.write_text(_in_another_order(TEXT), encoding="utf-8")
    assert "not in canonical form" in check().stdout


def test_comments_stay_above_their_rows() -> None:
    text = TEXT.replace("  - {branch: 580,", "  # a word on 580\n  - {branch: 580,")
    text = text.replace("  - branch: 580\n", "  # a word on 580\n  - branch: 580\n")
    text = text.replace("  banners:\n", "  # what users pasted\n  banners:\n")
    assert text.count("# a word on 580") == text.count("# what users pasted") == 1
    assert format_matrix(text, "m.yaml") == text
    at_end = text.replace(
        "first: '590.44.01', source: banners}", "first: '590.44.01', source: banners}  # a 'word' on 590"
    )
    assert at_end != text
    assert "  # a 'word' on 590\n  - {branch: 590, " in format_matrix(at_end, "m.yaml")
    assert format_matrix(text + "# the end\n", "m.yaml").count("# the end") == 1
    second = "  - cupy: '14.1.1'\n    cuda: '13.2'\n"
    assert f"  # the other build\n{second}" in format_matrix(
        TEXT.replace(second, f"  # the other build\n{second}"), "m"
    )
    inside = text.replace("    cuda: '13.0'\n    first: ", "    # first release\n    cuda: '13.0'\n    first: ")
    assert inside != text
    assert "# first release" in format_matrix(inside, "m.yaml")


@pytest.mark.parametrize(
    ("row", "written"),
    [
        ("{names: [NVIDIA X1], memory: 3350.5, f64: 1, source: gpu-nv-cuda-gpus}", "'3350.5'"),
        ("{names: ['3D artist''s X1'], memory: 900, source: gpu-nv-cuda-gpus}", "['3D artist''s X1']"),
    ],
)
def test_values_of_every_kind_are_written(row: str, written: str) -> None:
    text = format_matrix(f"{TEXT}peaks:\n  - {row}\n", "m.yaml")
    assert written in text
    assert format_matrix(text, "m.yaml") == text
    assert parse(text, "m.yaml").peaks == parse_texts(f"{TEXT}peaks:\n  - {row}\n").peaks


def parse_texts(text: str) -> Matrix:
    values, lines = read_values(text, "m.yaml", typed=False)
    return to_matrix(values, "m.yaml", lines, texts=True)


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        (
            "        uploaded: '2026-08-20'\n",
            "        # a word\n        uploaded: '2026-08-20'\n",
            "# a word\n      - cupy",
        ),
        ("      - cupy: '12.2.0'\n", "      # a word\n      - cupy: '12.2.0'\n", "# a word\n      - cupy: '12.2.0'"),
        ("  release-notes-13.3:\n", "  # a word\n  release-notes-13.3:\n", "  # a word\n  release-notes-13.3:"),
        ("    note: >-\n", "    note: >-  # a word\n", "# a word\n"),
        ("    until: '2029-09'\n", "    # a word\n    until: '2029-09'\n", "  # a word\n  - branch: 620"),
    ],
)
def test_comments_stay_with_their_row(old: str, new: str, kept: str) -> None:
    text = TEXT.replace(old, new, 1)
    assert text != TEXT
    formatted = format_matrix(text, "m.yaml")
    assert kept in formatted
    assert formatted.count("# a word") == 1
    assert format_matrix(formatted, "m.yaml") == formatted


def test_line_ends_and_keys_of_any_kind_are_read() -> None:
    assert format_matrix(TEXT.replace("\n", "\r\n"), "m.yaml") == TEXT
    text = TEXT + "  'a[0]': {kind: document, seen: '2026-11-28', title: A}\n"
    assert "a[0]" in format_matrix(text, "m.yaml")


def test_a_published_matrix_has_no_other_form(tmp_path: Path) -> None:
    published = tmp_path / "m.json"
    published.write_text(json.dumps(encode(load(SHIPPED))), encoding="utf-8")
    text = published.read_text(encoding="utf-8")
    assert is_canonical(published)
    assert fix_format(published) == f"{published}: is in canonical form"
    assert published.read_text(encoding="utf-8") == text


def test_fix_refuses_an_invalid_matrix(tmp_path: Path) -> None:
    matrix = tmp_path / "m.yaml"
    text = TEXT.replace("source: banners", "source: hearsay", 1)
    matrix.write_text(text, encoding="utf-8")
    done = gpuenv("matrix", "check", "--fix", "--matrix", matrix, environment={"HOME": str(tmp_path)})
    assert done.returncode == 6
    assert "hearsay" in done.stderr
    assert matrix.read_text(encoding="utf-8") == text


def test_a_complete_file_uses_its_own_products(tmp_path: Path) -> None:
    matrix = tmp_path / "m.yaml"
    own = "products:\n  - {name: NVIDIA X1, compute_capability: '9.0', aliases: [X1], source: gpu-nv-cuda-gpus}\n"
    matrix.write_text(TEXT + own, encoding="utf-8")
    assert [row.name for row in load(matrix).products] == ["NVIDIA X1"]
    assert own in format_matrix(TEXT + own, "m.yaml")
    shipped = load(SHIPPED)
    assert len(shipped.products) > 100
    assert all(getattr(load(matrix), name) == getattr(shipped, name) for name in _others())


def _others() -> list[str]:
    return [field.name for field in fields(Matrix) if field.name != "products"]
