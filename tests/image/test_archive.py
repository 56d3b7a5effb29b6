"""Images in folders and files: OCI layouts, and what docker save writes."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from gpuenv.image.inspect.image_facts import ImageError, parse_platform
from tests.image.layouts import OCI_MANIFEST, descriptor, digest, layout, manifest, saved
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
def test_a_file_without_an_image_is_wrong_input(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "image.tar"
    path.write_bytes(content)
    with pytest.raises(ImageError, match=r"image\.tar") as caught:
        get(str(path), tmp_path)
    assert caught.value.is_input


def test_a_pipe_or_a_device_is_refused(tmp_path: Path) -> None:
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


def test_a_link_out_of_a_layout_is_not_followed(tmp_path: Path) -> None:
    folder = layout(tmp_path / "layout", AMD)
    blob = folder / "blobs" / digest(AMD.configuration()).replace(":", "/")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(blob.read_bytes())
    blob.unlink()
    blob.symlink_to(elsewhere)
    with pytest.raises(ImageError, match="is missing"):
        get(str(folder), tmp_path)


def test_an_archive_of_several_images_is_refused_with_their_names(tmp_path: Path) -> None:
    """``docker save a b``, in the form before OCI layouts and in theirs: whose verdict would it be?"""
    folder = layout(tmp_path / "layout", AMD, ARM)
    entries = [descriptor(manifest(made), OCI_MANIFEST) for made in (AMD, ARM)]
    for entry, name in zip(entries, ("app:1", "cuda:2"), strict=True):
        entry["annotations"] = {"org.opencontainers.image.ref.name": name}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": entries}))
    listing = [{"Config": f"{number}.json", "RepoTags": [name]} for number, name in enumerate(("app:1", "cuda:2"))]
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/manifest.json").write_text(json.dumps(listing))
    for place in (folder, tmp_path / "saved"):
        with pytest.raises(ImageError, match="several images: app:1, cuda:2") as caught:
            get(str(place), tmp_path)
        assert caught.value.is_input
        assert "docker save -o FILE NAME" in (caught.value.remedy or "")


def test_one_image_may_have_several_names(tmp_path: Path) -> None:
    folder = layout(tmp_path / "layout", AMD)
    entry = descriptor(manifest(AMD), OCI_MANIFEST)
    named = [{**entry, "annotations": {"io.containerd.image.name": name}} for name in ("app:1", "app:latest")]
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": named}))
    assert get(str(folder), tmp_path).environment["ARCH"] == "amd64"


def test_a_file_of_apptainer_says_which_name_to_check(tmp_path: Path) -> None:
    path = tmp_path / "image.sif"
    path.write_bytes(b"#!/usr/bin/env run-singularity\n".ljust(32, b"\0") + b"SIF_MAGIC\0" + b"\1" * 600)
    with pytest.raises(ImageError, match="not a tar file") as caught:
        get(str(path), tmp_path)
    assert "name the image that it was made from" in (caught.value.remedy or "")


@pytest.mark.parametrize(
    "headers", [{"GNU.sparse.map": "x", "GNU.sparse.size": "y"}, {"GNU.sparse.major": "z"}, {"size": "9" * 30}]
)
def test_a_hostile_tar_file_is_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    path = tmp_path / "image.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("manifest.json")
        info.pax_headers = headers
        archive.addfile(info)
    with pytest.raises(ImageError, match=r"image\.tar"):
        get(str(path), tmp_path)
