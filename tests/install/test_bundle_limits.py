"""Limits on bundles: none takes more space than its manifest states, which is read first."""

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
from tests.install.mounts import mounted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MIB = 1024 * 1024
LOCK = b"a==1 --hash=sha256:" + b"0" * 64 + b"\n"
WHEEL = "wheels/a-1-py3-none-any.whl"
VALID = {"requirements.txt": LOCK, WHEEL: b"a wheel"}


def manifest(files: Mapping[str, bytes], sizes: Mapping[str, int] | None = None) -> bytes:
    """Returns a manifest of these files; ``sizes`` overrides their sizes."""
    entries = [
        {"path": path, "sha256": hashlib.sha256(content).hexdigest(), "size": (sizes or {}).get(path, len(content))}
        for path, content in files.items()
    ]
    head = {"python": "3.11", "platform": "linux-x86_64", "gpuenv_version": "0.1.0", "matrix_revision": "2026-11-01"}
    return json.dumps({"schema": "gpuenv.bundle/1", "requirements": [], **head, "files": entries}).encode()


def archive(path: Path, members: list[tuple[str, bytes]], compression: str = "") -> Path:
    """Writes a tar file; ``compression`` is named as in tarfile."""
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


def test_a_valid_bundle_is_opened(tmp_path: Path, scratch: Path) -> None:
    path = archive(tmp_path / "b.tar", [("manifest.json", manifest(VALID)), *VALID.items()])
    bundle = open_bundle(path, scratch)
    assert [(pin.name, pin.release) for pin in bundle.pins] == [("a", "1")]
    assert (scratch / WHEEL).read_bytes() == b"a wheel"


@pytest.mark.parametrize("compression", ["gz", "bz2", "xz"])
def test_a_compressed_bundle_is_not_unpacked(tmp_path: Path, scratch: Path, compression: str) -> None:
    """It would unpack to 200 times its size; gpuenv bundle never compresses."""
    large = {**VALID, "wheels/large-1-py3-none-any.whl": bytes(8 * MIB)}
    members = [("manifest.json", manifest(large)), *large.items()]
    path = archive(tmp_path / "b.tar", members, compression)
    assert path.stat().st_size * 200 < 8 * MIB
    with pytest.raises(Unreadable, match="compressed"):
        open_bundle(path, scratch)
    assert list(scratch.iterdir()) == []


def test_a_disk_without_room_to_unpack_is_not_a_fault_of_the_bundle(tmp_path: Path) -> None:
    files = {**VALID, WHEEL: bytes(MIB)}
    path = archive(tmp_path / "b.tar", [("manifest.json", manifest(files)), *files.items()])
    with (
        mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=64k", "tmpfs") as scratch,
        pytest.raises(InstallError, match="No space left on device") as caught,
    ):
        open_bundle(path, scratch)
    assert "Free space" in (caught.value.remedy or "")


def test_a_bundle_starts_with_its_manifest(tmp_path: Path, scratch: Path) -> None:
    path = archive(tmp_path / "b.tar", [*VALID.items(), ("manifest.json", manifest(VALID))])
    with pytest.raises(InstallError, match=r"its first file is not manifest\.json"):
        open_bundle(path, scratch)
    assert list(scratch.iterdir()) == []


def test_a_file_missing_from_the_manifest_is_not_copied(tmp_path: Path, scratch: Path) -> None:
    unlisted = ("wheels/stranger-1-py3-none-any.whl", bytes(MIB))
    path = archive(tmp_path / "b.tar", [("manifest.json", manifest(VALID)), unlisted, *VALID.items()])
    with pytest.raises(InstallError, match="not in its manifest"):
        open_bundle(path, scratch)
    assert list(scratch.iterdir()) == []


def test_a_duplicate_file_is_not_copied(tmp_path: Path, scratch: Path) -> None:
    members = [("manifest.json", manifest(VALID)), *VALID.items(), (WHEEL, b"another")]
    with pytest.raises(InstallError, match="is a duplicate"):
        open_bundle(archive(tmp_path / "b.tar", members), scratch)
    assert (scratch / WHEEL).read_bytes() == b"a wheel"


@pytest.mark.parametrize("size", [3, MIB])
def test_a_file_of_the_wrong_size_is_not_copied(tmp_path: Path, scratch: Path, size: int) -> None:
    members = [("manifest.json", manifest(VALID, {WHEEL: size})), (WHEEL, VALID[WHEEL])]
    with pytest.raises(InstallError, match="does not match the manifest"):
        open_bundle(archive(tmp_path / "b.tar", members), scratch)
    assert list(scratch.rglob("*.whl")) == []


def test_a_sparse_file_is_not_copied(tmp_path: Path, scratch: Path) -> None:
    """A sparse member is as large as its header says, while its archive is small."""
    folder = tmp_path / "source"
    (folder / "wheels").mkdir(parents=True)
    with (folder / WHEEL).open("wb") as file:
        file.truncate(64 * MIB)
    files = {**VALID, WHEEL: bytes(64 * MIB)}
    (folder / "manifest.json").write_bytes(manifest(files))
    path = tmp_path / "b.tar"
    command = ["tar", "--create", "--sparse", f"--file={path}", f"--directory={folder}", "manifest.json", WHEEL]
    subprocess.run(command, check=True)
    assert path.stat().st_size < MIB
    with pytest.raises(InstallError, match="is not a regular file"):
        open_bundle(path, scratch)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("name", ["manifest.json", "requirements.txt"])
@pytest.mark.parametrize("archived", [False, True], ids=["folder", "tar"])
def test_an_oversized_text_file_is_not_read(tmp_path: Path, scratch: Path, name: str, *, archived: bool) -> None:
    padding = (b"#" * 99 + b"\n") * (17 * MIB // 100)
    files = {**VALID, "requirements.txt": LOCK + padding} if name == "requirements.txt" else VALID
    manifest_text = manifest(files) + (b" " * 17 * MIB if name == "manifest.json" else b"")
    members = [("manifest.json", manifest_text), *files.items()]
    bundle = tmp_path / "bundle"
    if archived:
        archive(bundle, members)
    else:
        (bundle / "wheels").mkdir(parents=True)
        for path, content in members:
            (bundle / path).write_bytes(content)
    with pytest.raises(InstallError, match=f"{name} is too large"):
        open_bundle(bundle, scratch)
