"""``resolve`` reports a target that does not answer, or that is another environment than it seems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.program import gpuenv
from tests.probe.pythons import python
from tests.probe.venvs import interpreter_of, make_venv

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = ("resolve", "--assume", "driver=580.95.05", "--assume", "gpu=H100", "--python")


def test_a_target_that_does_not_answer_is_reported_as_ignored(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", python("3.12"))
    intact = gpuenv(*MACHINE, venv)
    assert (intact.returncode, intact.stderr) == (0, "")
    interpreter_of(venv).unlink()
    interpreter_of(venv).symlink_to("/gone/python3")
    (venv / "bin/python").unlink()
    result = gpuenv(*MACHINE, interpreter_of(venv))
    assert result.returncode == 0
    assert "is ignored" in result.stderr
    assert str(interpreter_of(venv)) in result.stderr


def test_an_environment_without_pyvenv_cfg_is_reported(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", python("3.12"))
    (venv / "pyvenv.cfg").unlink()
    result = gpuenv(*MACHINE, venv)
    assert result.returncode == 0
    assert f"{venv} has no pyvenv.cfg" in result.stderr
