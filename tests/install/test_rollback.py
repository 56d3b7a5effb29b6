"""Rollbacks: in order, and not over later changes by other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.install.sandbox import contents, install_outcome

if TYPE_CHECKING:
    from tests.install.sandbox import Ground


def test_installs_can_be_listed_and_undone_in_turn(ground: Ground) -> None:
    target = ground.target("history", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    first = contents(target)
    install_outcome(ground, target)
    second = contents(target)
    (site,) = target.glob("lib/python*/site-packages")
    (site / "cupy/part3.py").unlink()
    install_outcome(ground, target)
    listed = json.loads(ground.gpuenv("rollback", "--python", target, "--list", "--format", "json").stdout)
    assert [entry["number"] for entry in listed["installs"]] == ["0002", "0001"]
    assert listed["installs"][1]["former"]["cupy-cuda11x"] == "13.6.0"
    assert ground.gpuenv("rollback", "--python", target, "0001").returncode == 0
    assert contents(target) == first != second
    done = ground.gpuenv("rollback", "--python", target)
    assert done.returncode == 4
    assert "no install to roll back" in done.stderr


def test_a_rollback_names_the_kind_of_its_target_as_the_install_did(ground: Ground) -> None:
    target = ground.target("kind")
    _, installed = install_outcome(ground, target)
    plan = json.loads(ground.gpuenv("rollback", "--python", target, "--dry-run", "--format", "json").stdout)
    done = json.loads(ground.gpuenv("rollback", "--python", target, "--format", "json").stdout)
    assert [told["target"]["kind"] for told in (installed, plan, done)] == ["venv", "venv", "venv"]


def test_what_others_have_changed_since_is_not_rolled_over(ground: Ground) -> None:
    target = ground.target("changed")
    install_outcome(ground, target)
    (site,) = target.glob("lib/python*/site-packages")
    (site / "cupy/__init__.py").write_text("__version__ = 'mine'\n", encoding="utf-8")
    before = contents(target)
    done = ground.gpuenv("rollback", "--python", target)
    assert done.returncode == 4
    assert "cupy/__init__.py" in done.stderr
    assert contents(target) == before


@pytest.mark.parametrize("theirs", ["nvidia/cudnn/lib.txt", "cupy/notes.txt"])
def test_what_others_have_put_into_a_new_folder_stays_and_is_no_failure(ground: Ground, theirs: str) -> None:
    """CUDA's wheels share the folder nvidia/: one that comes later keeps it."""
    target = ground.target("shared")
    before = contents(target)
    install_outcome(ground, target)
    (site,) = target.glob("lib/python*/site-packages")
    (site / theirs).parent.mkdir(exist_ok=True)
    (site / theirs).write_text("theirs\n", encoding="utf-8")
    done = ground.gpuenv("rollback", "--python", target)
    assert done.returncode == 0, done.stderr
    left = {str(Path(site, *Path(theirs).parts[:count]).relative_to(target)) for count in (1, 2, 3)}
    assert set(contents(target)) - set(before) <= left
    assert (site / theirs).exists()
    install_outcome(ground, target)
