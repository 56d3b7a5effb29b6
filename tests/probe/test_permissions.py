"""Interpreters, packages and files that an unprivileged user may not access."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import gpuenv
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.probe.context import script, target_command
from gpuenv.probe.protocol import parse_facts
from tests.probe.probe_runs import MINIMAL, probe_context, probe_startup
from tests.probe.raw_facts import TargetFacts

SYSTEM = Path("/usr/bin/python3")
AS_UNPRIVILEGED_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
UNSTARTABLE = (
    f"import json, sys; sys.path.insert(0, {str(Path(gpuenv.__file__).parents[1])!r})\n"
    "from gpuenv.probe.startup_failure import _blocked_path\n"
    "print('gpuenv:' + json.dumps({path: _blocked_path(path) for path in sys.argv[1:]}))"
)

pytestmark = pytest.mark.skipif(
    not SYSTEM.exists() or (os.geteuid() == 0 and not shutil.which("setpriv")), reason="no unprivileged user available"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def run_unprivileged(*command: str, facts: str | None = None) -> Any:  # noqa: ANN401 - JSON
    """Runs a command as an unprivileged user and returns its facts."""
    done = subprocess.run(
        [*AS_UNPRIVILEGED_USER, *command],
        cwd="/",
        env=MINIMAL,
        input=facts,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    if not done.stdout:
        pytest.skip(f"another user may not even start this machine's Python, or read this checkout: {done.stderr}")
    return parse_facts(done.stdout)


def test_an_unreadable_package_folder_is_reported(folder: Path) -> None:
    subprocess.run([str(SYSTEM), "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    command = target_command(str(folder / "venv/bin/python3"), "interpreter")
    assert run_unprivileged(*command)["unreadable"] == []
    packages.chmod(0o000)
    facts = run_unprivileged(*command)
    packages.chmod(0o755)
    assert facts["unreadable"] == [str(packages)]


def test_a_file_below_an_inaccessible_folder_is_unreadable_not_missing(folder: Path) -> None:
    info = folder / "cupy_cuda12x-14.2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: cupy-cuda12x\nVersion: 14.2.0\n", encoding="utf-8")
    (info / "RECORD").write_text("cupy/present.py,sha256=x,1\ngone.py,sha256=x,1\n", encoding="utf-8")
    (folder / "cupy").mkdir()
    (folder / "cupy/present.py").write_text("1", encoding="utf-8")
    (folder / "cupy").chmod(0o000)
    request = json.dumps({"path": [str(folder)], "prefixes": [str(folder)], "identity": [], "deep": False})
    facts = run_unprivileged(str(SYSTEM), "-B", script("start.py"), "files", facts=request + "\n")
    (folder / "cupy").chmod(0o755)
    states = {Path(fault["path"]).name: fault["state"] for fault in facts["file_faults"]}
    assert states == {"present.py": "unreadable", "gone.py": "missing"}


@pytest.mark.parametrize("absolute", [True, False])
def test_the_missing_target_of_an_interpreters_link_is_named(tmp_path: Path, *, absolute: bool) -> None:
    target = tmp_path / "gone/python3.12"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(target if absolute else "../gone/python3.12")
    (tmp_path / "bin/python3").symlink_to("python")
    failed = Source("target", SourceState.FAILED, "could not be started: No such file or directory")
    facts = probe_startup(probe_context(), str(tmp_path / "bin/python3"), TargetFacts(), failed)
    assert os.path.normpath((facts.unstartable or "").removesuffix(" does not exist")) == str(target)
    assert (facts.starts_without, facts.startup_files) == (None, None)


def test_a_link_loop_and_a_file_without_permission_are_reported(tmp_path: Path) -> None:
    failed = Source("target", SourceState.FAILED, "could not be started")
    (tmp_path / "python3").symlink_to("python3")
    facts = probe_startup(probe_context(), str(tmp_path / "python3"), TargetFacts(), failed)
    assert facts.unstartable == "its links form a loop"
    (tmp_path / "python").write_text("", encoding="utf-8")
    facts = probe_startup(probe_context(), str(tmp_path / "python"), TargetFacts(), failed)
    assert facts.unstartable == f"{tmp_path}/python may not be run by this user"
    working = probe_startup(probe_context(), sys.executable, TargetFacts(), failed)
    assert working.unstartable is None


def test_an_interpreter_below_a_link_to_an_inaccessible_folder_is_not_missing(folder: Path) -> None:
    (folder / "closed/python/bin").mkdir(parents=True)
    (folder / "closed/python/bin/python3").write_text("", encoding="utf-8")
    (folder / "python").symlink_to("closed/python")
    (folder / "nowhere").symlink_to("gone/python")
    (folder / "closed").chmod(0o000)
    paths = [str(folder / name / "bin/python3") for name in ("closed/python", "python", "nowhere")]
    facts = run_unprivileged(str(SYSTEM), "-c", UNSTARTABLE, *paths)
    (folder / "closed").chmod(0o755)
    closed, link, gone = (facts[path] for path in paths)
    assert closed == f"{folder}/closed may not be entered by this user"
    assert link == f"{folder}/python may not be entered by this user"
    assert gone == f"{paths[2]} does not exist"


def test_a_relative_path_of_an_interpreter_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("python3", "bin/python3"):
        (tmp_path / name).symlink_to(sys.executable)
        command = [sys.executable, "-c", UNSTARTABLE, name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=20)
        assert parse_facts(done.stdout) == {name: None}
