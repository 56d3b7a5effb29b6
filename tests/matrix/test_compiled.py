"""The matrix kept in the user's cache: the same matrix, faster, and never believed over its file."""

from __future__ import annotations

import dataclasses
import os
import re
import zlib
from pathlib import Path

import pytest

from gpuenv.cli.matrix_cache import load_matrix
from gpuenv.data import data_path
from gpuenv.matrix.compiled import compiled, read_compiled
from gpuenv.matrix.faults import MatrixError
from gpuenv.matrix.records import Matrix
from tests.cli.program import gpuenv

SHIPPED = data_path("matrix.yaml")
TEXT = SHIPPED.read_text(encoding="utf-8")


def _equal(one: Matrix, other: Matrix) -> bool:
    return all(getattr(one, field.name) == getattr(other, field.name) for field in dataclasses.fields(Matrix))


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_the_compiled_form_holds_all_of_the_matrix(matrix: Matrix) -> None:
    assert _equal(read_compiled(compiled(matrix)), matrix)


def test_the_second_reading_is_from_the_cache_and_the_same(file: Path, tmp_path: Path, matrix: Matrix) -> None:
    cache = tmp_path / "cache"
    first = load_matrix(file, cache)
    (entry,) = _entries(cache)
    state = entry.stat()
    assert state.st_mode & 0o077 == 0
    again = load_matrix(file, cache)
    assert _equal(first, matrix)
    assert _equal(again, matrix)
    assert entry.stat().st_mtime_ns == state.st_mtime_ns


def test_a_changed_file_is_read_anew(file: Path, tmp_path: Path) -> None:
    load_matrix(file, tmp_path / "cache")
    file.write_text(re.sub(r"revision: '.*'", "revision: '2031-01-01'", TEXT), encoding="utf-8")
    assert load_matrix(file, tmp_path / "cache").revision == "2031-01-01"
    file.write_text(TEXT.replace("schema: gpuenv.matrix/1", "schema: other"), encoding="utf-8")
    with pytest.raises(MatrixError):
        load_matrix(file, tmp_path / "cache")


def _other_revision(text: str) -> str:
    return re.sub(r'"20\d\d-\d\d-\d\d"', '"1999-01-01"', text, count=1)


@pytest.mark.parametrize(
    "broken",
    ["", "{", "null", "[" * 5000, "\0" * 64, "A", "B"],
    ids=["empty", "cut", "null", "deep", "zeros", "another revision in it", "of another file"],
)
def test_a_broken_entry_is_ignored_and_written_anew(broken: str, file: Path, tmp_path: Path, matrix: Matrix) -> None:
    cache = tmp_path / "cache"
    load_matrix(file, cache)
    (entry,) = _entries(cache)
    whole = entry.read_text(encoding="utf-8")
    head, body = whole.split("\n", 1)
    texts = {"A": f"{head}\n{_other_revision(body)}", "B": f"{'0' * 64} {head.split()[1]}\n{body}"}
    entry.write_text(texts.get(broken, f"{head}\n{broken}" if broken else ""), encoding="utf-8")
    assert _equal(load_matrix(file, cache), matrix)
    assert entry.read_text(encoding="utf-8") == whole


def _foreign(entry: Path) -> None:
    os.chown(entry, 12345, 12345)


def _writable_by_all(entry: Path) -> None:
    entry.chmod(0o666)


def _elsewhere(entry: Path) -> None:
    entry.rename(entry.with_name("elsewhere"))
    entry.symlink_to("elsewhere")


def _a_pipe(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


@pytest.mark.parametrize("change", [_foreign, _writable_by_all, _elsewhere, _a_pipe])
def test_an_entry_that_others_could_have_written_is_not_read(
    change: object, file: Path, tmp_path: Path, matrix: Matrix
) -> None:
    """A forged entry, as right as it looks, never tells what the file does not."""
    if change is _foreign and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    cache = tmp_path / "cache"
    load_matrix(file, cache)
    (entry,) = _entries(cache)
    head, body = entry.read_text(encoding="utf-8").split("\n", 1)
    forged = _other_revision(body)
    checksum = zlib.crc32(forged.encode())
    entry.write_text(f"{head.split()[0]} {checksum:08x}\n{forged}", encoding="utf-8")
    assert load_matrix(file, cache).revision == "1999-01-01"  # so well is it forged
    assert callable(change)
    change(entry)
    assert load_matrix(file, cache).revision == matrix.revision


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/x"])
def test_a_cache_that_cannot_be_written_is_none(place: str, file: Path, matrix: Matrix) -> None:
    assert _equal(load_matrix(file, Path(place)), matrix)
    assert _equal(load_matrix(file, None), matrix)


def test_a_cache_in_a_foreign_folder_is_not_written(file: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give folders away")
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 12345, 12345)
    load_matrix(file, home / "cache" / "matrix")
    assert _entries(home) == []


def test_where_there_is_no_home_none_is_made(file: Path, tmp_path: Path) -> None:
    load_matrix(file, tmp_path / "nobody" / ".cache" / "gpuenv" / "matrix")
    assert not (tmp_path / "nobody").exists()


def test_old_entries_go(file: Path, tmp_path: Path) -> None:
    for day in range(1, 8):
        file.write_text(re.sub(r"revision: '.*'", f"revision: '2030-01-0{day}'", TEXT), encoding="utf-8")
        load_matrix(file, tmp_path / "cache")
    assert len(_entries(tmp_path / "cache")) == 4


def test_the_program_says_the_same_with_and_without_the_cache(tmp_path: Path) -> None:
    words = ("resolve", "--no-probe", "--assume", "driver=580.95.05", "--assume", "gpu=V100", "--format", "json")
    environment = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    first, second = (gpuenv(*words, environment=environment) for _ in range(2))
    assert first.stdout == second.stdout
    assert len(_entries(tmp_path / "gpuenv" / "matrix")) == 1
    check = gpuenv("matrix", "check", environment=environment)
    assert check.stdout.startswith("valid: ")
