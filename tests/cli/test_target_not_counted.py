"""``resolve`` announces a target that does not answer, or that is another environment than it seems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.program import gpuenv
from tests.probe.pythons import python
from tests.probe.venvs import interpreter_of, make_venv

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = ("resolve", "--assume", "driver=580.95.05", "--assume", "gpu=H100", "--python")


def test_a_target_that_tells_nothing_is_said_not_to_count(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", python("3.12"))
    whole = gpuenv(*MACHINE, venv)
    assert (whole.returncode, whole.stderr) == (0, "")
    interpreter_of(venv).unlink()
    interpreter_of(venv).symlink_to("/gone/python3")
    (venv / "bin/python").unlink()
    told = gpuenv(*MACHINE, interpreter_of(venv))
    assert told.returncode == 0
    assert "is ignored" in told.stderr
    assert str(interpreter_of(venv)) in told.stderr


def test_another_python_in_the_place_of_a_lost_environment_is_named(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", python("3.12"))
    (venv / "pyvenv.cfg").unlink()
    told = gpuenv(*MACHINE, venv)
    assert told.returncode == 0
    assert f"{venv} has no pyvenv.cfg" in told.stderr
