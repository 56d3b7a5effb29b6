"""Bundles: their contents, exact installs from them, and refused ones."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.data import data_path
from tests.install.sandbox import MACHINE, contents, versions
from tests.install.snapshots import write_snapshot
from tests.install.test_install import NEW
from tests.install.wheels import cupy, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.install.sandbox import Ground


@pytest.fixture
def bundled(ground: Ground, tmp_path: Path) -> Path:
    """A bundle as a folder."""
    target = ground.target("source", pip=True)
    done = ground.gpuenv("bundle", "--python", target, *MACHINE, "-o", tmp_path / "bundle")
    assert done.returncode == 0, done.stderr
    return tmp_path / "bundle"


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize("archive", [False, True], ids=["folder", "tar"])
def test_a_bundle_needs_no_network(ground: Ground, tmp_path: Path, installer: str, *, archive: bool) -> None:
    source = ground.target("source", pip=True)
    path = tmp_path / ("bundle.tar" if archive else "bundle")
    done = ground.gpuenv("bundle", "--python", source, *MACHINE, "-o", path)
    assert done.returncode == 0, done.stderr
    ground.index.close()
    target = ground.target("offline", pip=installer == "pip")
    empty = str(tmp_path / "empty-cache")
    done = ground.install(target, "--bundle", path, "--installer", installer, UV_CACHE_DIR=empty)
    assert done.returncode == 0, done.stderr
    assert versions(target) == NEW
    assert ground.gpuenv("rollback", "--python", target).returncode == 0


def test_a_bundle_holds_what_it_says(bundled: Path) -> None:
    manifest = json.loads((bundled / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["schema"] == "gpuenv.bundle/1"
    told = {file["path"] for file in manifest["files"]}
    assert told == {p.relative_to(bundled).as_posix() for p in bundled.rglob("*") if p.is_file()} - {"manifest.json"}
    assert {"requirements.txt", "pylock.toml", "matrix.yaml"} < told
    assert len([path for path in told if path.startswith("wheels/")]) == len(NEW)


def test_a_bundle_holds_the_matrix_that_decided(ground: Ground, tmp_path: Path) -> None:
    """The user's own, where that is newer than the one that came with gpuenv."""
    own = tmp_path / "data/gpuenv/matrix.yaml"
    own.parent.mkdir(parents=True)
    own.write_bytes(data_path("matrix.yaml").read_bytes() + b"# the user's own\n")
    target, out = ground.target("source"), tmp_path / "bundle"
    done = ground.gpuenv("bundle", "--python", target, *MACHINE, "-o", out, XDG_DATA_HOME=str(tmp_path / "data"))
    assert done.returncode == 0, done.stderr
    assert (out / "matrix.yaml").read_bytes() == own.read_bytes()


def _swap(bundle: Path) -> None:
    wheel = bundle / "wheels/numpy-2.1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"!")


def _swap_with_its_digest(bundle: Path) -> None:
    """The manifest is made to fit; the lock still knows better."""
    make_wheel(bundle / "wheels", cupy("cupy-cuda12x", "14.2.0", ctk="12", numpy="numpy>=1"))
    wheel = bundle / "wheels/cupy_cuda12x-14.2.0-py3-none-any.whl"
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    for file in manifest["files"]:
        if file["path"] == f"wheels/{wheel.name}":
            file.update(sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(), size=wheel.stat().st_size)
    (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _link(bundle: Path) -> None:
    wheel = bundle / "wheels/numpy-2.1.0-py3-none-any.whl"
    elsewhere = bundle.parent / wheel.name
    wheel.rename(elsewhere)
    wheel.symlink_to(elsewhere)


def _other_python(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    manifest["python"] = "3.8"
    (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _climb(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"][0]["path"] = "wheels/../../x.whl"
    (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (_swap, 4, "does not match the manifest"),
        (_swap_with_its_digest, 4, "nothing was changed"),
        (_link, 4, "is a link"),
        (_other_python, 3, "is for Python 3.8"),
        (_climb, 4, "does not belong in a bundle"),
        (lambda bundle: (bundle / "wheels/numpy-2.1.0-py3-none-any.whl").unlink(), 4, "is missing"),
        (lambda bundle: (bundle / "wheels/more-1-py3-none-any.whl").touch(), 4, "is not in its manifest"),
        (lambda bundle: (bundle / "manifest.json").unlink(), 4, "there is no manifest.json"),
        (lambda bundle: (bundle / "manifest.json").write_text("[1]"), 4, "manifest.json"),
    ],
)
def test_a_spoilt_bundle_is_refused(
    ground: Ground, bundled: Path, spoil: Callable[[Path], Any], code: int, said: str
) -> None:
    spoil(bundled)
    target = ground.target("spoilt")
    before = contents(target)
    done = ground.install(target, "--bundle", bundled)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert contents(target) == before


def _member(name: str, kind: bytes = tarfile.REGTYPE, to: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    info.size = 4 if kind == tarfile.REGTYPE else 0
    return info, b"evil"


def _manifest(files: Mapping[str, bytes]) -> bytes:
    told = [
        {"path": path, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        for path, content in files.items()
    ]
    head = {"python": "3.11", "platform": "linux-x86_64", "gpuenv_version": "0.1.0", "matrix_revision": "2026-11-01"}
    return json.dumps({"schema": "gpuenv.bundle/1", "requirements": [], **head, "files": told}).encode()


def _put(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


@pytest.mark.parametrize(
    "member",
    [
        _member("../escaped.whl"),
        _member("wheels/../../escaped.whl"),
        _member("/var/tmp/gpuenv-escaped.whl"),  # noqa: S108 - where it must not land
        _member("wheels/-option.whl"),
        _member("wheels/a\n.whl"),
        _member("wheels/a.whl", tarfile.SYMTYPE, "/etc/passwd"),
        _member("wheels/a.whl", tarfile.LNKTYPE, "manifest.json"),
        _member("wheels", tarfile.SYMTYPE, "/etc"),
        _member("wheels/a.whl", tarfile.FIFOTYPE),
        _member("manifest.json"),
    ],
    ids=lambda member: f"{member[0].name!r}-{member[0].type.decode()}",
)
def test_a_hostile_archive_is_refused(ground: Ground, tmp_path: Path, member: tuple[tarfile.TarInfo, bytes]) -> None:
    archive = tmp_path / "evil.tar"
    with tarfile.open(archive, "w") as tar:
        _put(tar, "manifest.json", _manifest({}))
        tar.addfile(member[0], io.BytesIO(member[1]) if member[0].isreg() else None)
    target = ground.target("hostile")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = ground.install(target, "--bundle", archive, TMPDIR=str(scratch))
    assert done.returncode == 4, done.stderr
    assert "does not belong in a bundle" in done.stderr or "is not a regular file" in done.stderr
    assert not Path("/var/tmp/gpuenv-escaped.whl").exists()  # noqa: S108 - likewise
    assert [path.name for path in tmp_path.rglob("*escaped*")] == []
    assert list(scratch.iterdir()) == []


def test_a_bundle_for_a_recorded_machine(ground: Ground, tmp_path: Path) -> None:
    """Of another Python and platform; this machine refuses it."""
    file = write_snapshot(ground, tmp_path / "there.json", target_python="3.12.4", host_arch="aarch64")
    done = ground.gpuenv("bundle", "--snapshot", file, *MACHINE, "-o", tmp_path / "bundle")
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "bundle/manifest.json").read_text(encoding="utf-8"))
    assert (manifest["python"], manifest["platform"]) == ("3.12", "linux-aarch64")
    assert manifest["requirements"] == ["cupy-cuda12x[ctk]==14.2.0"]
    assert len(list((tmp_path / "bundle/wheels").iterdir())) == len(NEW)
    refused = ground.install(ground.target("here"), "--bundle", tmp_path / "bundle")
    assert refused.returncode == 3, refused.stderr
    assert "is for Python 3.12 on linux-aarch64" in refused.stderr


def test_a_bundle_for_a_recorded_machine_like_this_is_installed(ground: Ground, tmp_path: Path) -> None:
    file = write_snapshot(ground, tmp_path / "there.json")
    done = ground.gpuenv("bundle", "--snapshot", file, *MACHINE, "-o", tmp_path / "bundle.tar")
    assert done.returncode == 0, done.stderr
    ground.index.close()
    target = ground.target("here")
    done = ground.install(target, "--bundle", tmp_path / "bundle.tar", UV_CACHE_DIR=str(tmp_path / "empty"))
    assert done.returncode == 0, done.stderr
    assert versions(target) == NEW


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"target_python": None}, "does not tell target.python"),
        ({"host_libc": "musl-1.2"}, "Linux with glibc"),
        ({"target_python": "3.14.0t"}, "free-threaded"),
    ],
)
def test_what_nothing_can_be_collected_for(ground: Ground, tmp_path: Path, facts: dict[str, str], said: str) -> None:
    file = write_snapshot(ground, tmp_path / "there.json", **facts)
    done = ground.gpuenv("bundle", "--snapshot", file, *MACHINE, "-o", tmp_path / "bundle")
    assert done.returncode in (3, 7), done.stderr
    assert said in done.stderr, done.stderr
    assert not (tmp_path / "bundle").exists()
