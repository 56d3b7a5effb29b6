"""Odd metadata of other tools: duplicates, other encodings, links to themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuenv.install.environment import (
    RecordEntry,
    Scheme,
    count_damaged,
    first_damaged_file,
    read_installed,
    read_record,
)
from gpuenv.install.owned_files import left_metadata

if TYPE_CHECKING:
    from pathlib import Path

SCHEME = Scheme("", "", "venv", "", "", "", externally_managed=False, path=(), python="", has_pip=False, markers={})


def write_metadata(site: Path, name: str, release: str, head: str = "", record: str = "") -> Path:
    folder = site / f"{name}-{release}.dist-info"
    folder.mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n{head}"
    (folder / "METADATA").write_bytes(text.encode("latin-1"))
    (folder / "RECORD").write_text(record, encoding="utf-8")
    return folder


def test_metadata_in_another_encoding_is_read(tmp_path: Path) -> None:
    write_metadata(tmp_path, "oldtool", "0.3", "Author: Jos\xe9\nRequires-Dist: numpy<2\nProvides-Extra: gpu\n")
    old = "Metadata-Version: 1.1\nName: older\nVersion: 0.1\nAuthor: M\xfcller\n"
    (tmp_path / "older-0.1-py2.7.egg-info").write_bytes(old.encode("latin-1"))
    installed = {entry.name: entry for entry in read_installed([str(tmp_path)])}
    assert set(installed) == {"oldtool", "older"}
    assert (installed["oldtool"].requires, installed["oldtool"].extras) == (("numpy<2",), ("gpu",))
    assert installed["older"].release == "0.1"


def test_a_link_to_itself_is_ignored(tmp_path: Path) -> None:
    write_metadata(tmp_path, "sound", "1.0")
    (tmp_path / "loop-1.0.dist-info").symlink_to("loop-1.0.dist-info")
    assert [entry.name for entry in read_installed([str(tmp_path)])] == ["sound"]


@pytest.mark.parametrize("expected", ["13.6.0", "14.2.0"])
def test_duplicate_metadata_is_resolved_by_the_installed_files(tmp_path: Path, expected: str) -> None:
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy/__init__.py").write_text("x" * int(expected[:2]), encoding="utf-8")
    for release in ("13.6.0", "14.2.0"):
        write_metadata(tmp_path, "cupy_cuda12x", release, record=f"cupy/__init__.py,,{release[:2]}\n")
    (entry,) = read_installed([str(tmp_path)])
    assert entry.release == expected


def test_leftover_metadata_is_that_of_cupy_and_named_packages(tmp_path: Path) -> None:
    for name, release in (("cupy_cuda12x", "14.2.0"), ("numpy", "2.1.0"), ("other", "2.0")):
        write_metadata(tmp_path, name, release, record=f"{name}.py,,0\n")
        (tmp_path / f"{name}.py").touch()
        write_metadata(tmp_path, name, "0.1")
    (tmp_path / "cupy_cuda11x-13.6.0.dist-info").symlink_to("/gone")
    installed = {entry.name: entry for entry in read_installed([str(tmp_path)])}
    scheme = replace(SCHEME, root=str(tmp_path), purelib=str(tmp_path), platlib=str(tmp_path))

    def folders(*named: str) -> set[str]:
        return {place.split("/")[0] for place in left_metadata(scheme, installed, named)}

    assert folders() == {"cupy_cuda12x-0.1.dist-info"}
    assert folders("numpy") == {"cupy_cuda12x-0.1.dist-info", "numpy-0.1.dist-info"}


def test_a_record_with_nul_bytes_is_ignored(tmp_path: Path) -> None:
    """A power failure can leave NUL bytes, which no file name contains."""
    for release, record in (("13.6.0", "cupy\0/__init__.py,,3\n"), ("14.2.0", "cupy/__init__.py,,3\n")):
        folder = write_metadata(tmp_path, "cupy_cuda12x", release, record=record)
        assert (read_record(str(folder)) is None) == ("\0" in record)
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy/__init__.py").write_text("x = 1", encoding="utf-8")
    (entry,) = read_installed([str(tmp_path)])
    assert entry.release == "14.2.0"


@pytest.mark.parametrize("path", ["a\0b.py", "\ud800.py"])
def test_a_path_that_cannot_exist_counts_as_missing(tmp_path: Path, path: str) -> None:
    entries = (RecordEntry(path, None, 3),)
    assert first_damaged_file(str(tmp_path), entries) == path
    assert count_damaged(str(tmp_path), entries) == 1
