"""Rollbacks: in order, and not over later changes by other programs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpuenv.install.conda_environment import read_state
from gpuenv.install.exceptions import InstallError
from gpuenv.install.journal import Store, read_json
from gpuenv.probe.transactions import TransactionState
from tests.install.sandbox import contents, install_outcome
from tests.install.test_failed_installs import failed_outcome

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox


class History(NamedTuple):
    """An environment after two installs.

    Attributes:
        target: the environment; tests change copies of it.
        before: its contents before the first one.
    """

    target: Path
    before: dict[str, str]

    def copy(self, name: str) -> Path:
        """Copies the environment, so that every file has another inode."""
        copy = self.target.with_name(name)
        subprocess.run(["cp", "-a", str(self.target), str(copy)], check=True)
        return copy


@pytest.fixture(scope="module")
def history(shared: Sandbox) -> History:
    """Install 0001 replaces another CuPy line; install 0002 replaces a lost file."""
    target = shared.target("history", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    before = contents(target)
    assert shared.install(target).returncode == 0
    next(target.glob("lib/python*/site-packages/cupy/part3.py")).unlink()
    assert shared.install(target).returncode == 0
    return History(target, before)


def test_installs_are_listed_and_undone_in_order(shared: Sandbox, history: History) -> None:
    """In a copied environment, where files are recognized by their contents."""
    target = history.copy("undone")
    command = ("rollback", "--python", target, "--format", "json")
    listed = json.loads(shared.gpuenv(*command, "--list").stdout)
    assert [entry["number"] for entry in listed["installs"]] == ["0002", "0001"]
    assert listed["installs"][1]["former"]["cupy-cuda11x"] == "13.6.0"
    plan = json.loads(shared.gpuenv(*command, "--dry-run").stdout)
    undone = json.loads(shared.gpuenv(*command, "--yes", "0001").stdout)
    assert [entry["target"]["kind"] for entry in (plan, undone)] == ["venv", "venv"]
    assert contents(target) == history.before != contents(history.target)


def test_a_rollback_refuses_to_undo_later_changes(shared: Sandbox, history: History) -> None:
    """Although the changed file has the same size and time."""
    target = history.copy("changed")
    (module,) = target.glob("lib/python*/site-packages/cupy/part3.py")
    status = module.stat()
    module.write_text(module.read_text().replace("3", "4"))
    os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (module.stat().st_size, module.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    before = contents(target)
    result = shared.gpuenv("rollback", "--yes", "--python", target)
    assert result.returncode == 4
    assert "cupy/part3.py" in result.stderr
    assert contents(target) == before


def test_a_partial_rollback_reports_the_installs_it_undid(shared: Sandbox, history: History) -> None:
    target = history.copy("half")
    (metadata,) = target.glob("lib/python*/site-packages/nvidia_cuda_nvrtc_cu12-*.dist-info/METADATA")
    metadata.write_text("changed by another program", encoding="utf-8")  # installed by 0001
    outcome, _ = failed_outcome(shared, "rollback", "--yes", "--python", target, "0001")
    assert (outcome["exit_code"], outcome["status"]) == (4, "not-restored")
    assert "of install 0001 have been changed since" in outcome["message"]
    assert outcome["message"].endswith("; before, 0002 was rolled back")


def test_a_file_among_the_journals_is_no_install(shared: Sandbox, history: History) -> None:
    target = history.copy("stray-file")
    stray = target / ".gpuenv/0003"
    stray.touch()
    listed = json.loads(shared.gpuenv("rollback", "--python", target, "--list", "--format", "json").stdout)
    assert [entry["number"] for entry in listed["installs"]] == ["0002", "0001"]
    next(target.glob("lib/python*/site-packages/cupy/part3.py")).unlink()
    assert shared.install(target).returncode == 0
    assert shared.gpuenv("rollback", "--yes", "--python", target, "0001").returncode == 0
    assert contents(target) == history.before
    assert stray.exists()


def test_a_rollback_keeps_later_files_of_other_packages(shared: Sandbox) -> None:
    """The CUDA wheels share the folder nvidia/, which stays for a later one."""
    target = shared.target("later-files")
    before = contents(target)
    install_outcome(shared, target)
    (site,) = target.glob("lib/python*/site-packages")
    others = [site / "nvidia/cudnn/lib.txt", site / "cupy/notes.txt"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("theirs\n", encoding="utf-8")
    result = shared.gpuenv("rollback", "--yes", "--python", target)
    assert result.returncode == 0, result.stderr
    remaining = {*others, site / "nvidia", site / "nvidia/cudnn", site / "cupy"}
    assert {target / path for path in set(contents(target)) - set(before)} == remaining


@pytest.mark.parametrize("name", ["journal.json", "conda.json", "state.json"])
def test_a_record_that_would_take_gigabytes_is_refused(tmp_path: Path, name: str) -> None:
    """One of many values, which take thirty times their length, and one with a hole of 1 GiB."""
    store = Store(tmp_path)
    path = store.transaction("0001") / name
    path.parent.mkdir(parents=True)
    for content, size, problem in ((b"[" + b"[]," * 2_000_000 + b"0]", 0, "values"), (b"", 1 << 30, "larger than")):
        path.write_bytes(content)
        with path.open("ab") as file:
            file.truncate(max(size, len(content)))
        with pytest.raises((OSError, ValueError), match=problem):
            read_json(path)
    if name == "state.json":
        assert store.state("0001") is TransactionState.OPEN
        return
    with pytest.raises(InstallError, match="larger than"):
        store.read("0001") if name == "journal.json" else read_state(store, "0001")


def test_forgetting_frees_what_installs_keep_and_makes_undoing_impossible(shared: Sandbox, history: History) -> None:
    target = history.copy("forgotten")
    installed = contents(target)
    command = ("rollback", "--python", target)
    sizes = [
        entry["size"] for entry in json.loads(shared.gpuenv(*command, "--list", "--format", "json").stdout)["installs"]
    ]
    assert len(sizes) == 2
    assert min(sizes) > 0
    planned = shared.gpuenv(*command, "--forget", "0001", "--dry-run")
    assert ".gpuenv/0001" in planned.stdout
    assert ".gpuenv/0002" not in planned.stdout
    assert shared.gpuenv(*command, "--forget", "0001", "--yes").returncode == 0
    listed = json.loads(shared.gpuenv(*command, "--list", "--format", "json").stdout)
    assert [entry["number"] for entry in listed["installs"]] == ["0002"]
    result = shared.gpuenv(*command, "--forget", "--yes", "--format", "json")
    assert json.loads(result.stdout)["status"] == "forgotten", result.stderr
    assert not (target / ".gpuenv").exists()
    assert contents(target) == installed
    assert shared.gpuenv(*command, "--forget", "--yes").returncode == 4


def test_bytecode_is_part_of_the_install_if_the_settings_of_uv_say_so(shared: Sandbox) -> None:
    target = shared.target("compiled", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    before = contents(target)
    (site,) = target.glob("lib/python*/site-packages")

    def compiled() -> set[str]:
        return {str(path.relative_to(site)) for path in site.glob("**/*.pyc")}

    former = compiled()
    _, outcome = install_outcome(shared, target, UV_COMPILE_BYTECODE="1", PYTHONDONTWRITEBYTECODE="1")
    assert len([path for path in compiled() if path.startswith("cupy/__pycache__/part")]) == 64
    (module,) = (path for path in site.glob("cupy/__pycache__/part3.*.pyc"))
    modified = int.from_bytes(module.read_bytes()[8:12], "little")
    assert modified == int((site / "cupy/part3.py").stat().st_mtime), "Python uses it"
    assert shared.gpuenv("rollback", "--yes", "--python", target).returncode == 0, outcome
    assert contents(target) == before
    assert compiled() == former


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_the_journals_of_another_user_are_reported_as_unreadable(sandbox: Sandbox) -> None:
    """As in an environment that a group shares."""
    target = sandbox.target("shared-by-a-group")
    (target / ".gpuenv").mkdir(mode=0)
    try:
        for option in ("--list", "--dry-run"):
            result = sandbox.gpuenv("rollback", option, "--python", target)
            assert result.returncode == 7, result.stderr
            assert f"{target}/.gpuenv: cannot be read" in " ".join(result.stderr.split())
    finally:
        (target / ".gpuenv").chmod(0o700)
