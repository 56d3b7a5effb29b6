"""Wrong wheels, a missing index, and a broken CuPy or framework: the former state is restored."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.install.mounts import MIB, mounted
from tests.install.sandbox import MACHINE, Index, Sandbox, contents
from tests.install.test_killed_installs import BEFORE
from tests.install.wheels import CUPY, SET, Package, cupy, make_wheel

(EXPECTED,) = [package for package in SET if package.stem == "cupy_cuda12x-14.2.0"]

_LARGE_FILES = {f"cupy_backends/large{number}.py": f"{number}" * 300_000 for number in range(10)}
LARGE = Package(EXPECTED.name, EXPECTED.release, EXPECTED.requires, EXPECTED.extras, {**EXPECTED.files, **_LARGE_FILES})


@contextmanager
def with_wheel(wheel: Package, folder: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    """Replaces the wheel of the same name and release in a second index."""
    others = [package for package in SET if package.stem != wheel.stem]
    with closing(Index(folder / "other", [*others, wheel])) as index:
        other = Sandbox(index, sandbox.folder / folder.name, sandbox.libraries)
        other.folder.mkdir()
        yield other


def cupy_running(text: str) -> Package:
    """Returns the expected CuPy with this code in ``cupy/__init__.py``."""
    files = {**EXPECTED.files, "cupy/__init__.py": text}
    return Package(EXPECTED.name, EXPECTED.release, EXPECTED.requires, EXPECTED.extras, files)


@pytest.mark.parametrize("fault", ["cut", "swapped"])
@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_wheel_with_a_wrong_digest_is_not_installed(
    sandbox: Sandbox, tmp_path: Path, installer: str, fault: str
) -> None:
    """The download is truncated, or another wheel is served under the same name."""
    target = sandbox.target("whole", *BEFORE, pip=installer == "pip")
    before = contents(target)
    other = make_wheel(tmp_path, cupy("cupy-cuda12x", "14.2.0", ctk="12", numpy="numpy>=1"))
    assert other.name == CUPY
    content = other.read_bytes()
    sandbox.index.replacements[CUPY] = content[: len(content) // 2] if fault == "cut" else content
    result = sandbox.install(target, "--installer", installer)
    assert result.returncode == 4, result.stderr
    assert result.stdout == ""
    assert ("hash" in result.stderr.lower()) == (fault == "swapped" or installer == "pip"), result.stderr
    assert contents(target) == before
    assert sandbox.gpuenv("rollback", "--python", target, "--list").returncode == 0
    assert contents(target) == before


def test_an_index_that_is_down_changes_nothing(sandbox: Sandbox) -> None:
    target = sandbox.target("gone", *BEFORE)
    before = contents(target)
    sandbox.index.close()
    result = sandbox.install(target)
    assert result.returncode == 4, result.stderr
    assert contents(target) == before


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize("path", ["/simple/", "/files/"])
@pytest.mark.parametrize("status", [401, 403])
def test_an_index_that_refuses_is_not_said_to_lack_the_release(
    sandbox: Sandbox, installer: str, path: str, status: int
) -> None:
    target = sandbox.target("refused", pip=installer == "pip")
    sandbox.index.statuses[path] = status
    result = sandbox.install(target, "--installer", installer)
    assert result.returncode == 4, result.stderr
    assert str(status) in result.stderr
    assert "The index refuses the request" in result.stderr
    assert "lacks that release" not in result.stderr


def test_an_index_with_an_error_of_its_own_is_named(sandbox: Sandbox) -> None:
    target = sandbox.target("unavailable", pip=True)
    sandbox.index.statuses["/simple/"] = 503
    for installer in ("uv", "pip"):
        result = sandbox.install(target, "--installer", installer, "--install-timeout", "60")
        assert result.returncode == 4, result.stderr
        assert "The index has an error of its own" in result.stderr


@pytest.mark.parametrize("share", [2, 3, 10])
def test_a_truncated_wheel_is_not_said_to_be_missing(sandbox: Sandbox, share: int) -> None:
    """uv reads its metadata from the beginning or the end, and takes a failure for a conflict."""
    target = sandbox.target("truncated")
    content = (sandbox.index.folder / "files" / CUPY).read_bytes()
    sandbox.index.replacements[CUPY] = content[: len(content) // share]
    result = sandbox.install(target)
    assert result.returncode == 4, result.stderr
    assert "an incomplete file" in result.stderr
    assert "lacks that release" not in result.stderr


def test_a_full_disk_is_no_damaged_cache_and_nothing_is_downloaded_again(tmp_path: Path, sandbox: Sandbox) -> None:
    with (
        with_wheel(LARGE, tmp_path, sandbox) as other,
        mounted(tmp_path / "s", "-t", "tmpfs", "-o", "size=2m", "x") as disk,
    ):
        target = Sandbox(other.index, disk, other.libraries).target("venv")
        result = other.install(target)
        assert result.returncode == 4, result.stderr
        assert "Free space" in result.stderr
        assert "cache is damaged" not in result.stderr
        assert sum(path.endswith(CUPY) for path in other.index.requests) <= 2, "metadata, and file"
        assert not (target / ".gpuenv").exists()


def lock_with_sizes(sandbox: Sandbox, folder: Path) -> Path:
    """Returns a lock file with the sizes that a real index has."""
    lock = folder / "pylock.toml"
    result = sandbox.gpuenv("lock", "--python", sandbox.target("lock"), *MACHINE, "-o", lock)
    assert result.returncode == 0, result.stderr
    sizes = {wheel.name: wheel.stat().st_size for wheel in sandbox.index.wheels}
    text = re.sub(
        r"/([^/]+[.]whl)\", ", lambda found: f"{found[0]}size = {sizes[found[1]]}, ", lock.read_text(encoding="utf-8")
    )
    assert text.count("size = ") == 4
    lock.write_text(text, encoding="utf-8")
    return lock


def test_what_a_disk_cannot_hold_is_not_downloaded(tmp_path: Path, sandbox: Sandbox) -> None:
    with with_wheel(LARGE, tmp_path, sandbox) as other:
        lock = lock_with_sizes(other, tmp_path)
        with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=2m", "tmpfs") as disk:
            for name, place in (("the environment", {}), ("the cache", {"UV_CACHE_DIR": str(disk / "cache")})):
                target = other.target("roomy") if place else Sandbox(other.index, disk, other.libraries).target("venv")
                other.index.requests.clear()
                result = other.install(target, "--locked", lock, **place)
                assert result.returncode == 4, (name, result.stderr)
                assert "the packages take at least" in result.stderr, name
                assert not [path for path in other.index.requests if path.endswith(CUPY)], name


def test_files_in_the_cache_take_no_room_on_the_same_disk(tmp_path: Path, sandbox: Sandbox) -> None:
    with with_wheel(LARGE, tmp_path, sandbox) as other:
        lock = lock_with_sizes(other, tmp_path)
        with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=6m", "tmpfs") as disk:
            small = Sandbox(other.index, disk, other.libraries)
            for number, free in enumerate((6 * MIB, 2 * MIB)):
                target = small.target(f"venv{number}")
                (disk / "filler").write_bytes(b"x" * max(0, shutil.disk_usage(disk).free - free))
                result = small.install(target, "--locked", lock)
                assert result.returncode == 0, (number, result.stderr)


def test_long_phases_are_announced_from_the_second_second_on(tmp_path: Path, sandbox: Sandbox) -> None:
    slow = cupy_running("import time\ntime.sleep(4)\n__version__ = '14.2.0'\n")
    with with_wheel(slow, tmp_path, sandbox) as other:
        other.index.delays.update({"/simple/cupy": 3, CUPY: 3})
        result = other.install(other.target("slow"))
    assert result.returncode == 0, result.stderr
    for text in ("querying the package index", "downloading and unpacking", "verifying the install"):
        assert f"gpuenv: {text}: 2 s so far" in result.stderr


def test_a_wheel_with_a_wrong_record_is_not_installed(tmp_path: Path, sandbox: Sandbox) -> None:
    """The wheel has the digest that the index states, but one of its files differs from RECORD."""
    wheel = Package(
        EXPECTED.name,
        EXPECTED.release,
        EXPECTED.requires,
        EXPECTED.extras,
        EXPECTED.files,
        wrong_digests=("cupy/part3.py",),
    )
    with with_wheel(wheel, tmp_path, sandbox) as other:
        target = other.target("record", *BEFORE[:1])
        before = contents(target)
        result = other.install(target)
    assert result.returncode == 4, result.stderr
    assert "cupy/part3.py" in result.stderr
    assert contents(target) == before


def test_a_cupy_that_fails_to_import_is_rolled_back(tmp_path: Path, sandbox: Sandbox) -> None:
    with with_wheel(cupy_running("import nothing_of_that_name\n"), tmp_path, sandbox) as other:
        target = other.target("import", *BEFORE)
        before = contents(target)
        result = other.install(target, "--format", "json")
    assert result.returncode == 4, result.stderr
    outcome = json.loads(result.stdout)
    assert outcome["status"] == "restored"
    assert "nothing_of_that_name" in outcome["message"]
    assert "the former state was restored" in outcome["message"]
    assert contents(target) == before


def test_a_cupy_that_shadows_the_installed_one_is_reported_with_a_fix(tmp_path: Path, sandbox: Sandbox) -> None:
    """A folder named cupy, without metadata, is on PYTHONPATH."""
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy/__init__.py").write_text("__version__ = '1.0'\n", encoding="utf-8")
    target = sandbox.target("shadowed")
    before = contents(target)
    result = sandbox.install(target, PYTHONPATH=str(tmp_path))
    assert result.returncode == 4, result.stderr
    assert str(tmp_path / "cupy/__init__.py") in result.stdout
    assert "off PYTHONPATH" in " ".join(result.stdout.split())
    assert contents(target) == before


def test_a_concurrent_change_by_another_program_is_reported(tmp_path: Path, sandbox: Sandbox) -> None:
    """Another installer runs during verification: the former state is restored, and its package stays."""
    code = (
        "import pathlib\n"
        "place = pathlib.Path(__file__).parents[1] / 'late-1.0.dist-info'\n"
        "place.mkdir(exist_ok=True)\n"
        "(place / 'METADATA').write_text('Metadata-Version: 2.1\\nName: late\\nVersion: 1.0\\n')\n"
        "raise SystemExit('ended')\n"
    )
    with with_wheel(cupy_running(code), tmp_path, sandbox) as other:
        target = other.target("meanwhile", *BEFORE)
        before = contents(target)
        result = other.install(target, "--format", "json")
    assert result.returncode == 4, result.stderr
    outcome = json.loads(result.stdout)
    assert outcome["status"] == "restored"
    assert outcome["message"].endswith("but another program changed the environment meanwhile: late 1.0.")
    assert "doctor --fix" in outcome["remedy"]
    added = set(contents(target)) - set(before)
    assert {Path(place).name for place in added} == {"late-1.0.dist-info", "METADATA"}


def test_an_install_that_breaks_a_framework_is_rolled_back(tmp_path: Path, sandbox: Sandbox) -> None:
    torch = Package("torch", "2.6.0", files={"torch/__init__.py": "import nvidia.cu13.n13\n"})  # undeclared dependency
    with with_wheel(torch, tmp_path, sandbox) as other:
        target = other.target("framework", "nvidia-cuda-nvrtc==13.5.37", "torch==2.6.0")
        before = contents(target)
        result = other.install(target)
    assert result.returncode == 4, result.stderr
    assert "import torch" in result.stdout
    assert contents(target) == before
