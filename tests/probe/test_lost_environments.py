"""Environments without pyvenv.cfg, and other environments that the user may have intended."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.probe.pythons import python
from tests.probe.test_environment import facts_from
from tests.probe.venvs import interpreter_of, make_venv


@pytest.mark.parametrize("version", ["3.6", "3.13"])
def test_an_environment_without_pyvenv_cfg_is_lost(tmp_path: Path, version: str) -> None:
    venv = make_venv(tmp_path / "venv", python(version))
    assert facts_from(interpreter_of(venv), tmp_path)["lost_environment"] is None
    (venv / "pyvenv.cfg").unlink()
    facts = facts_from(interpreter_of(venv), tmp_path)
    assert (facts["lost_environment"], facts["kind"]) == (str(venv), "system")


def test_a_python_link_in_a_bin_folder_is_not_a_lost_environment(tmp_path: Path) -> None:
    """Such as in /usr/local/bin, next to which there is a folder of packages."""
    (tmp_path / "local/bin").mkdir(parents=True)
    (tmp_path / "local/lib/python3.12/site-packages").mkdir(parents=True)
    (tmp_path / "local/bin/python3").symlink_to(python("3.12"))
    facts = facts_from(tmp_path / "local/bin/python3", tmp_path)
    assert (facts["lost_environment"], facts["environments_near"]) == (None, [])
    # As in ~/.local, if a package installs a program of this name.
    (tmp_path / "local/bin/activate").write_text("#!/bin/sh\nexec tool activate\n", encoding="utf-8")
    assert facts_from(tmp_path / "local/bin/python3", tmp_path)["lost_environment"] is None


def test_the_environment_to_which_a_link_leads_is_suggested(tmp_path: Path) -> None:
    """Started by a link in another folder, Python does not recognise the environment."""
    venv = make_venv(tmp_path / "venv", python("3.12"))
    (tmp_path / "first").symlink_to("venv/bin/python3")
    (tmp_path / "second").symlink_to(tmp_path / "first")
    facts = facts_from(tmp_path / "second", tmp_path)
    assert (facts["kind"], facts["environments_near"]) == ("system", [str(venv)])


def test_environments_of_the_working_folder_are_suggested_for_a_system_python(tmp_path: Path) -> None:
    system = python("3.12")
    found = [make_venv(tmp_path / ".venv", system)]
    for name in ("venv", "env", ".pixi/envs/default"):
        found.append(shutil.copytree(found[0], tmp_path / name, symlinks=True))
    assert facts_from(system, tmp_path)["environments_near"] == [str(venv) for venv in found]
    chosen = facts_from(interpreter_of(found[0]), tmp_path)
    assert chosen["environments_near"] == [], "the environment was chosen explicitly"
    for venv in found:
        shutil.rmtree(venv / "bin")
    assert facts_from(system, tmp_path)["environments_near"] == []
