"""Images in folders and files: OCI layouts, and what docker save writes."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from gpuenv.image.check.facts import ImageError, parse_platform
from tests.image.layouts import digest, layout, saved
from tests.image.test_fetch import AMD, ARM, get


def test_folders_and_files_hold_images(tmp_path: Path) -> None:
    folder = layout(tmp_path / "layout", AMD, ARM)
    assert get(str(folder), tmp_path).environment["ARCH"] == "amd64"
    assert get(str(folder), tmp_path, parse_platform("aarch64")).environment["ARCH"] == "arm64"
    packed = tmp_path / "layout.tar"
    with tarfile.open(packed, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, path.relative_to(folder))
    assert get(str(packed), tmp_path).environment["ARCH"] == "amd64"
    plain = get(str(saved(tmp_path / "saved.tar", AMD)), tmp_path)
    assert (plain.environment["ARCH"], plain.source) == ("amd64", "archive")


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\x1f\x8b\x08rubbish", b"\0" * 2048])
def test_a_file_that_holds_none_is_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "image.tar"
    path.write_bytes(content)
    with pytest.raises(ImageError, match=r"image\.tar") as caught:
        get(str(path), tmp_path)
    assert caught.value.is_input


def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ImageError, match="nor a regular file") as caught:
            get(str(path), tmp_path)
        assert caught.value.is_input


def test_a_folder_with_the_name_of_an_image_says_how_the_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    with pytest.raises(ImageError, match="neither index") as caught:
        get(str(tmp_path / "app"), tmp_path)
    assert "NAME:latest" in (caught.value.remedy or "")


def test_a_changed_layout_is_refused(tmp_path: Path) -> None:
    folder = layout(tmp_path / "layout", AMD)
    blob = folder / "blobs" / digest(AMD.configuration()).replace(":", "/")
    blob.write_bytes(ARM.configuration())
    with pytest.raises(ImageError, match="wrong content"):
        get(str(folder), tmp_path)


def test_a_layout_leads_nowhere_else(tmp_path: Path) -> None:
    folder = layout(tmp_path / "layout", AMD)
    blob = folder / "blobs" / digest(AMD.configuration()).replace(":", "/")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(blob.read_bytes())
    blob.unlink()
    blob.symlink_to(elsewhere)
    with pytest.raises(ImageError, match="is not in it"):
        get(str(folder), tmp_path)
