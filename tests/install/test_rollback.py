"""Rollbacks: in order, and not over later changes by other programs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.install.conda_environment import read_state
from gpuenv.install.exceptions import InstallError
from gpuenv.install.journal import Store, read_json
from gpuenv.probe.transactions import TransactionState
from tests.install.sandbox import contents, install_outcome

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox


def test_installs_are_listed_and_undone_in_order(sandbox: Sandbox) -> None:
    target = sandbox.target("history", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    first = contents(target)
    install_outcome(sandbox, target)
    second = contents(target)
    (site,) = target.glob("lib/python*/site-packages")
    (site / "cupy/part3.py").unlink()
    install_outcome(sandbox, target)
    listed = json.loads(sandbox.gpuenv("rollback", "--python", target, "--list", "--format", "json").stdout)
    assert [entry["number"] for entry in listed["installs"]] == ["0002", "0001"]
    assert listed["installs"][1]["former"]["cupy-cuda11x"] == "13.6.0"
    assert sandbox.gpuenv("rollback", "--yes", "--python", target, "0001").returncode == 0
    assert contents(target) == first != second
    result = sandbox.gpuenv("rollback", "--yes", "--python", target)
    assert result.returncode == 4
    assert "no install to roll back" in result.stderr


def test_a_rollback_reports_the_same_kind_of_target_as_the_install(sandbox: Sandbox) -> None:
    target = sandbox.target("kind")
    _, installed = install_outcome(sandbox, target)
    plan = json.loads(sandbox.gpuenv("rollback", "--python", target, "--dry-run", "--format", "json").stdout)
    rolled_back = json.loads(sandbox.gpuenv("rollback", "--yes", "--python", target, "--format", "json").stdout)
    assert [output["target"]["kind"] for output in (installed, plan, rolled_back)] == ["venv", "venv", "venv"]


def test_a_rollback_refuses_to_undo_later_changes(sandbox: Sandbox) -> None:
    target = sandbox.target("changed")
    install_outcome(sandbox, target)
    (site,) = target.glob("lib/python*/site-packages")
    (site / "cupy/__init__.py").write_text("__version__ = 'mine'\n", encoding="utf-8")
    before = contents(target)
    result = sandbox.gpuenv("rollback", "--yes", "--python", target)
    assert result.returncode == 4
    assert "cupy/__init__.py" in result.stderr
    assert contents(target) == before


@pytest.mark.parametrize("other_file", ["nvidia/cudnn/lib.txt", "cupy/notes.txt"])
def test_a_rollback_keeps_later_files_of_other_packages(sandbox: Sandbox, other_file: str) -> None:
    """The CUDA wheels share the folder nvidia/, which stays for a later one."""
    target = sandbox.target("shared")
    before = contents(target)
    install_outcome(sandbox, target)
    (site,) = target.glob("lib/python*/site-packages")
    (site / other_file).parent.mkdir(exist_ok=True)
    (site / other_file).write_text("theirs\n", encoding="utf-8")
    result = sandbox.gpuenv("rollback", "--yes", "--python", target)
    assert result.returncode == 0, result.stderr
    remaining = {str(Path(site, *Path(other_file).parts[:count]).relative_to(target)) for count in (1, 2, 3)}
    assert set(contents(target)) - set(before) <= remaining
    assert (site / other_file).exists()
    install_outcome(sandbox, target)


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


def test_forgetting_frees_what_installs_keep_and_makes_undoing_impossible(sandbox: Sandbox) -> None:
    target = sandbox.target("forgotten", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    install_outcome(sandbox, target)
    (site,) = target.glob("lib/python*/site-packages")
    (site / "cupy/part3.py").unlink()
    install_outcome(sandbox, target)
    installed = contents(target)
    command = ("rollback", "--python", target)
    sizes = [
        entry["size"] for entry in json.loads(sandbox.gpuenv(*command, "--list", "--format", "json").stdout)["installs"]
    ]
    assert len(sizes) == 2
    assert min(sizes) > 0
    refused = sandbox.gpuenv(*command, "--forget", "0001")
    assert refused.returncode == 2, "there is no consent"
    planned = sandbox.gpuenv(*command, "--forget", "0001", "--dry-run")
    assert ".gpuenv/0001" in planned.stdout
    assert ".gpuenv/0002" not in planned.stdout
    assert sandbox.gpuenv(*command, "--forget", "0001", "--yes").returncode == 0
    listed = json.loads(sandbox.gpuenv(*command, "--list", "--format", "json").stdout)
    assert [entry["number"] for entry in listed["installs"]] == ["0002"]
    result = sandbox.gpuenv(*command, "--forget", "--yes", "--format", "json")
    assert json.loads(result.stdout)["status"] == "forgotten", result.stderr
    assert not (target / ".gpuenv").exists()
    assert contents(target) == installed
    assert sandbox.gpuenv(*command).returncode == 4
    assert sandbox.gpuenv(*command, "--forget", "--yes").returncode == 4


def copied(target: Path) -> Path:
    copy = target.with_name(f"{target.name}-copy")
    subprocess.run(["cp", "-a", str(target), str(copy)], check=True)
    return copy


def test_a_copied_environment_is_rolled_back_by_the_contents_of_its_files(sandbox: Sandbox) -> None:
    target = sandbox.target("original", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    before = contents(target)
    install_outcome(sandbox, target)
    copy = copied(target)
    result = sandbox.gpuenv("rollback", "--yes", "--python", copy)
    assert result.returncode == 0, result.stderr
    assert contents(copy) == before
    assert contents(target) != before


def test_a_change_in_a_copied_environment_is_seen_although_size_and_time_are_the_same(sandbox: Sandbox) -> None:
    target = sandbox.target("changed", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    install_outcome(sandbox, target)
    copy = copied(target)
    (module,) = copy.glob("lib/python*/site-packages/cupy/part3.py")
    status = module.stat()
    module.write_text(module.read_text().replace("3", "4"))
    os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (module.stat().st_size, module.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    result = sandbox.gpuenv("rollback", "--yes", "--python", copy)
    assert result.returncode == 4
    assert "cupy/part3.py" in result.stderr


def test_bytecode_is_part_of_the_install_if_the_settings_of_uv_say_so(sandbox: Sandbox) -> None:
    target = sandbox.target("compiled", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    before = contents(target)
    (site,) = target.glob("lib/python*/site-packages")

    def compiled() -> set[str]:
        return {str(path.relative_to(site)) for path in site.glob("**/*.pyc")}

    former = compiled()
    _, outcome = install_outcome(sandbox, target, UV_COMPILE_BYTECODE="1", PYTHONDONTWRITEBYTECODE="1")
    assert len([path for path in compiled() if path.startswith("cupy/__pycache__/part")]) == 64
    (module,) = (path for path in site.glob("cupy/__pycache__/part3.*.pyc"))
    modified = int.from_bytes(module.read_bytes()[8:12], "little")
    assert modified == int((site / "cupy/part3.py").stat().st_mtime), "Python uses it"
    assert sandbox.gpuenv("rollback", "--yes", "--python", target).returncode == 0, outcome
    assert contents(target) == before
    assert compiled() == former
