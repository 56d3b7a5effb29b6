"""A bundle takes no more space than its manifest states, which is read first."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from gpuenv.install.bundle import open_bundle
from gpuenv.install.exceptions import InstallError, Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MIB = 1024 * 1024
LOCK = b"a==1 --hash=sha256:" + b"0" * 64 + b"\n"
WHEEL = "wheels/a-1-py3-none-any.whl"
SOUND = {"requirements.txt": LOCK, WHEEL: b"a wheel"}


def manifest(files: Mapping[str, bytes], sizes: Mapping[str, int] | None = None) -> bytes:
    """One that names these files, with other sizes where they are given."""
    told = [
        {"path": path, "sha256": hashlib.sha256(content).hexdigest(), "size": (sizes or {}).get(path, len(content))}
        for path, content in files.items()
    ]
    head = {"python": "3.11", "platform": "linux-x86_64", "gpuenv_version": "0.1.0", "matrix_revision": "2026-11-01"}
    return json.dumps({"schema": "gpuenv.bundle/1", "requirements": [], **head, "files": told}).encode()


def archive(path: Path, members: list[tuple[str, bytes]], compression: str = "") -> Path:
    """A tar file; compressed by the names that tarfile has."""
    with tarfile.open(path, f"w:{compression}") as tar:  # type: ignore[call-overload]
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_a_sound_one_is_opened(tmp_path: Path, scratch: Path) -> None:
    path = archive(tmp_path / "b.tar", [("manifest.json", manifest(SOUND)), *SOUND.items()])
    found = open_bundle(path, scratch)
    assert [(pin.name, pin.release) for pin in found.pins] == [("a", "1")]
    assert (scratch / WHEEL).read_bytes() == b"a wheel"


@pytest.mark.parametrize("compression", ["gz", "bz2", "xz"])
def test_a_compressed_one_is_not_unpacked(tmp_path: Path, scratch: Path, compression: str) -> None:
    """Two hundred times its own size comes out of this one; gpuenv bundle compresses nothing."""
    large = {**SOUND, "wheels/large-1-py3-none-any.whl": bytes(8 * MIB)}
    members = [("manifest.json", manifest(large)), *large.items()]
    path = archive(tmp_path / "b.tar", members, compression)
    assert path.stat().st_size * 200 < 8 * MIB
    with pytest.raises(Unreadable, match="compressed"):
        open_bundle(path, scratch)
    assert list(scratch.iterdir()) == []


def test_the_manifest_comes_first(tmp_path: Path, scratch: Path) -> None:
    path = archive(tmp_path / "b.tar", [*SOUND.items(), ("manifest.json", manifest(SOUND))])
    with pytest.raises(InstallError, match=r"its first file is not manifest\.json"):
        open_bundle(path, scratch)
    assert list(scratch.iterdir()) == []


def test_what_the_manifest_does_not_name_is_not_copied(tmp_path: Path, scratch: Path) -> None:
    stranger = ("wheels/stranger-1-py3-none-any.whl", bytes(MIB))
    path = archive(tmp_path / "b.tar", [("manifest.json", manifest(SOUND)), stranger, *SOUND.items()])
    with pytest.raises(InstallError, match="not in its manifest"):
        open_bundle(path, scratch)
    assert list(scratch.iterdir()) == []


def test_nor_what_is_there_twice(tmp_path: Path, scratch: Path) -> None:
    members = [("manifest.json", manifest(SOUND)), *SOUND.items(), (WHEEL, b"another")]
    with pytest.raises(InstallError, match="is a duplicate"):
        open_bundle(archive(tmp_path / "b.tar", members), scratch)
    assert (scratch / WHEEL).read_bytes() == b"a wheel"


@pytest.mark.parametrize("size", [3, MIB])
def test_nor_what_has_another_size(tmp_path: Path, scratch: Path, size: int) -> None:
    members = [("manifest.json", manifest(SOUND, {WHEEL: size})), (WHEEL, SOUND[WHEEL])]
    with pytest.raises(InstallError, match="does not match the manifest"):
        open_bundle(archive(tmp_path / "b.tar", members), scratch)
    assert list(scratch.rglob("*.whl")) == []


def test_nor_what_is_mostly_holes(tmp_path: Path, scratch: Path) -> None:
    """A sparse member is as large as its header says, and its archive is small."""
    folder = tmp_path / "made"
    (folder / "wheels").mkdir(parents=True)
    with (folder / WHEEL).open("wb") as file:
        file.truncate(64 * MIB)
    holes = {**SOUND, WHEEL: bytes(64 * MIB)}
    (folder / "manifest.json").write_bytes(manifest(holes))
    path = tmp_path / "b.tar"
    command = ["tar", "--create", "--sparse", f"--file={path}", f"--directory={folder}", "manifest.json", WHEEL]
    subprocess.run(command, check=True)
    assert path.stat().st_size < MIB
    with pytest.raises(InstallError, match="is not a regular file"):
        open_bundle(path, scratch)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("name", ["manifest.json", "requirements.txt"])
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "tar"])
def test_a_text_beyond_all_measure_is_not_read(tmp_path: Path, scratch: Path, name: str, *, packed: bool) -> None:
    padding = (b"#" * 99 + b"\n") * (17 * MIB // 100)
    files = {**SOUND, "requirements.txt": LOCK + padding} if name == "requirements.txt" else SOUND
    told = manifest(files) + (b" " * 17 * MIB if name == "manifest.json" else b"")
    members = [("manifest.json", told), *files.items()]
    place = tmp_path / "bundle"
    if packed:
        archive(place, members)
    else:
        (place / "wheels").mkdir(parents=True)
        for path, content in members:
            (place / path).write_bytes(content)
    with pytest.raises(InstallError, match=f"{name} is too large"):
        open_bundle(place, scratch)
