"""Bundles: their contents, exact installs from them, and refused ones."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shlex
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.data import data_path
from gpuenv.install.bundle import MANIFEST, open_bundle
from gpuenv.install.exceptions import InstallFailed
from tests.cli.program import run_gpuenv
from tests.install.sandbox import LIMIT, MACHINE, contents, versions
from tests.install.snapshots import write_snapshot
from tests.install.test_install import NEW
from tests.install.wheels import cupy, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.install.sandbox import Sandbox


@pytest.fixture
def bundle(sandbox: Sandbox, tmp_path: Path) -> Path:
    """Writes a bundle as a folder."""
    target = sandbox.target("source", pip=True)
    result = sandbox.gpuenv("bundle", "--python", target, *MACHINE, "-o", tmp_path / "bundle")
    assert result.returncode == 0, result.stderr
    return tmp_path / "bundle"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_of_a_bundle_is_not_blamed_on_the_environment(tmp_path: Path) -> None:
    file = tmp_path / MANIFEST
    file.write_text("{}", encoding="utf-8")
    file.chmod(0)
    with pytest.raises(InstallFailed, match="Permission denied") as failed:
        open_bundle(tmp_path, tmp_path)
    assert failed.value.remedy is None


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize("archive", [False, True], ids=["folder", "tar"])
def test_a_bundle_installs_without_a_network(
    sandbox: Sandbox, tmp_path: Path, installer: str, *, archive: bool
) -> None:
    source = sandbox.target("source", pip=True)
    path = tmp_path / ("a, bundle.tar" if archive else "a, bundle")  # uv separates folders by commas
    result = sandbox.gpuenv("bundle", "--python", source, *MACHINE, "-o", path)
    assert result.returncode == 0, result.stderr
    assert re.search(rf"{len(NEW)} wheels, \d+ KiB; install them", result.stderr), result.stderr
    assert f"gpuenv install --bundle {shlex.quote(str(path))}\n" in result.stderr
    sandbox.index.close()
    target = sandbox.target("offline", pip=installer == "pip")
    empty = str(tmp_path / "empty-cache")
    scratch = tmp_path / "scratch, too"
    scratch.mkdir()
    variables = {"UV_CACHE_DIR": empty, "TMPDIR": str(scratch)}
    result = sandbox.install(target, "--bundle", path, "--installer", installer, **variables)
    assert result.returncode == 0, result.stderr
    assert re.search(r"\+ cupy-cuda12x 14\.2\.0, \d+ KiB", result.stderr), result.stderr
    assert "to download: nothing; unpacked at most" in result.stderr
    assert versions(target) == NEW
    assert sandbox.gpuenv("rollback", "--yes", "--python", target).returncode == 0


def test_pip_downloads_from_the_named_index_of_uv(sandbox: Sandbox, tmp_path: Path) -> None:
    target = sandbox.target("source", pip=True)
    environment = sandbox.environment(UV_DEFAULT_INDEX=f"corp=http://{sandbox.index.address}")
    del environment["PIP_INDEX_URL"]
    result = run_gpuenv(("bundle", "--python", target, *MACHINE, "-o", tmp_path / "bundle"), environment, LIMIT)
    assert result.returncode == 0, result.stderr


def test_a_bundle_contains_exactly_the_files_in_its_manifest(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["schema"] == "gpuenv.bundle/1"
    listed = {file["path"] for file in manifest["files"]}
    assert listed == {p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.is_file()} - {"manifest.json"}
    assert {"requirements.txt", "pylock.toml", "matrix.yaml"} < listed
    assert len([path for path in listed if path.startswith("wheels/")]) == len(NEW)


def test_a_bundle_contains_the_matrix_it_was_resolved_with(sandbox: Sandbox, tmp_path: Path) -> None:
    """Here the user's matrix, which is newer than the shipped one."""
    user_matrix = tmp_path / "data/gpuenv/matrix.yaml"
    user_matrix.parent.mkdir(parents=True)
    user_matrix.write_bytes(data_path("matrix.yaml").read_bytes() + b"# the user's own\n")
    target, out = sandbox.target("source"), tmp_path / "bundle"
    result = sandbox.gpuenv("bundle", "--python", target, *MACHINE, "-o", out, XDG_DATA_HOME=str(tmp_path / "data"))
    assert result.returncode == 0, result.stderr
    assert (out / "matrix.yaml").read_bytes() == user_matrix.read_bytes()


def _corrupt_wheel(bundle: Path) -> None:
    wheel = bundle / "wheels/numpy-2.1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"!")


def _replace_wheel_and_digest(bundle: Path) -> None:
    """Adapts the manifest as well; the lock still has the former digest."""
    make_wheel(bundle / "wheels", cupy("cupy-cuda12x", "14.2.0", ctk="12", numpy="numpy>=1"))
    wheel = bundle / "wheels/cupy_cuda12x-14.2.0-py3-none-any.whl"
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    for file in manifest["files"]:
        if file["path"] == f"wheels/{wheel.name}":
            file.update(sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(), size=wheel.stat().st_size)
    (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _link_wheel(bundle: Path) -> None:
    wheel = bundle / "wheels/numpy-2.1.0-py3-none-any.whl"
    target = bundle.parent / wheel.name
    wheel.rename(target)
    wheel.symlink_to(target)


def _change_python(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    manifest["python"] = "3.8"
    (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _escape_folder(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"][0]["path"] = "wheels/../../x.whl"
    (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.parametrize(
    ("corrupt", "code", "message"),
    [
        (_corrupt_wheel, 4, "does not match the manifest"),
        (_replace_wheel_and_digest, 4, "nothing was changed"),
        (_link_wheel, 4, "is a link"),
        (_change_python, 3, "is for Python 3.8"),
        (_escape_folder, 4, "does not belong in a bundle"),
        (lambda bundle: (bundle / "wheels/numpy-2.1.0-py3-none-any.whl").unlink(), 4, "is missing"),
        (lambda bundle: (bundle / "wheels/more-1-py3-none-any.whl").touch(), 4, "is not in its manifest"),
        (lambda bundle: (bundle / "manifest.json").unlink(), 4, "there is no manifest.json"),
        (lambda bundle: (bundle / "manifest.json").write_text("[1]"), 4, "manifest.json"),
    ],
)
def test_a_corrupt_bundle_is_refused(
    sandbox: Sandbox, bundle: Path, corrupt: Callable[[Path], Any], code: int, message: str
) -> None:
    corrupt(bundle)
    target = sandbox.target("corrupt")
    before = contents(target)
    result = sandbox.install(target, "--bundle", bundle)
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert contents(target) == before


def _member(name: str, kind: bytes = tarfile.REGTYPE, to: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    member.size = 4 if kind == tarfile.REGTYPE else 0
    return member, b"evil"


def _manifest(files: Mapping[str, bytes]) -> bytes:
    entries = [
        {"path": path, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        for path, content in files.items()
    ]
    head = {"python": "3.11", "platform": "linux-x86_64", "gpuenv_version": "0.1.0", "matrix_revision": "2026-11-01"}
    return json.dumps({"schema": "gpuenv.bundle/1", "requirements": [], **head, "files": entries}).encode()


def _add_member(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    "member",
    [
        _member("../escaped.whl"),
        _member("wheels/../../escaped.whl"),
        _member("/var/tmp/gpuenv-escaped.whl"),  # noqa: S108 - must not be written
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
def test_a_hostile_archive_is_refused(sandbox: Sandbox, tmp_path: Path, member: tuple[tarfile.TarInfo, bytes]) -> None:
    archive = tmp_path / "evil.tar"
    with tarfile.open(archive, "w") as tar:
        _add_member(tar, "manifest.json", _manifest({}))
        tar.addfile(member[0], io.BytesIO(member[1]) if member[0].isreg() else None)
    target = sandbox.target("hostile")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    result = sandbox.install(target, "--bundle", archive, TMPDIR=str(scratch))
    assert result.returncode == 4, result.stderr
    assert "does not belong in a bundle" in result.stderr or "is not a regular file" in result.stderr
    assert not Path("/var/tmp/gpuenv-escaped.whl").exists()  # noqa: S108 - must not be written
    assert [path.name for path in tmp_path.rglob("*escaped*")] == []
    assert list(scratch.iterdir()) == []


def test_a_bundle_for_another_machine_is_refused_on_this_one(sandbox: Sandbox, tmp_path: Path) -> None:
    """The snapshot has another Python and platform."""
    file = write_snapshot(sandbox, tmp_path / "snapshot.json", target_python="3.12.4", host_arch="aarch64")
    result = sandbox.gpuenv("bundle", "--snapshot", file, *MACHINE, "-o", tmp_path / "bundle")
    assert result.returncode == 0, result.stderr
    manifest = json.loads((tmp_path / "bundle/manifest.json").read_text(encoding="utf-8"))
    assert (manifest["python"], manifest["platform"]) == ("3.12", "linux-aarch64")
    assert manifest["requirements"] == ["cupy-cuda12x[ctk]==14.2.0"]
    assert len(list((tmp_path / "bundle/wheels").iterdir())) == len(NEW)
    refused = sandbox.install(sandbox.target("here"), "--bundle", tmp_path / "bundle")
    assert refused.returncode == 3, refused.stderr
    assert "is for Python 3.12 on linux-aarch64" in refused.stderr


def test_a_bundle_for_a_snapshot_of_this_machine_is_installed(sandbox: Sandbox, tmp_path: Path) -> None:
    file = write_snapshot(sandbox, tmp_path / "snapshot.json")
    result = sandbox.gpuenv("bundle", "--snapshot", file, *MACHINE, "-o", tmp_path / "bundle.tar")
    assert result.returncode == 0, result.stderr
    sandbox.index.close()
    target = sandbox.target("here")
    result = sandbox.install(target, "--bundle", tmp_path / "bundle.tar", UV_CACHE_DIR=str(tmp_path / "empty"))
    assert result.returncode == 0, result.stderr
    assert versions(target) == NEW


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"target_python": None}, "unknown for the machine: target.python"),
        ({"host_libc": "musl-1.2"}, "Linux with glibc"),
        ({"target_python": "3.14.0t"}, "free-threaded"),
    ],
)
def test_a_bundle_for_an_unsupported_machine_is_refused(
    sandbox: Sandbox, tmp_path: Path, facts: dict[str, str], message: str
) -> None:
    file = write_snapshot(sandbox, tmp_path / "snapshot.json", **facts)
    result = sandbox.gpuenv("bundle", "--snapshot", file, *MACHINE, "-o", tmp_path / "bundle")
    assert result.returncode in (3, 7), result.stderr
    assert message in result.stderr, result.stderr
    assert not (tmp_path / "bundle").exists()
