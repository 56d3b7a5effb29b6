"""Killed installs: after the next command the environment is in the former or the new state, never in between."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.install.journal import Store
from tests.cli.program import PROGRAM
from tests.install.sandbox import LIMIT, MACHINE, contents, versions

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox

BEFORE = ("cupy-cuda11x==13.6.0", "cupy-cuda12x==13.6.0", "numpy==2.1.0", "nvidia-cuda-nvrtc==13.5.37")
KILLED = -9


@dataclass(frozen=True, slots=True)
class Trial:
    """An environment with two CuPy lines and a stray CUDA wheel, and the library that kills installs into it."""

    sandbox: Sandbox
    target: Path
    killer: Path
    before: dict[str, str]

    def install(self, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs an install that may be killed."""
        command = [*PROGRAM, "install", "--python", str(self.target), "--yes", *MACHINE]
        # Compiling gpuenv's own modules would be counted in the first run only.
        environment = self.sandbox.environment(LD_PRELOAD=str(self.killer), PYTHONDONTWRITEBYTECODE="1", **more)
        return subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
            cwd=self.sandbox.folder,
        )

    def calls(self) -> int:
        """Counts the file system calls of an undisturbed install."""
        counter = self.sandbox.folder / "calls"
        result = self.install(COUNT_TO=str(counter))
        assert result.returncode == 0, result.stderr
        return int(counter.read_text(encoding="ascii"))

    def roll_back(self) -> None:
        """Rolls back a finished install."""
        result = self.sandbox.gpuenv("rollback", "--yes", "--python", self.target)
        assert result.returncode == 0, result.stderr


@pytest.fixture
def trial(sandbox: Sandbox, killer: Path) -> Trial:
    target = sandbox.target("killed", *BEFORE)
    return Trial(sandbox, target, killer, contents(target))


def points(calls: int, count: int) -> list[int]:
    """Returns evenly spaced calls, including the last."""
    return sorted({1 + round(index * (calls - 1) / (count - 1)) for index in range(count)})


def kill_at(trial: Trial, point: int, installed: dict[str, str]) -> str:
    """Kills an install at a call, undoes it if the doctor says so, and returns the state of the environment."""
    result = trial.install(KILL_AT=str(point))
    between = contents(trial.target)
    # The number of calls varies slightly, so the last points may come after the end.
    assert result.returncode == KILLED or (result.returncode == 0 and between == installed), (point, result.stderr)
    is_open = undo_what_the_doctor_names(trial)
    assert is_open or between in (trial.before, installed), point
    state = contents(trial.target)
    if state == installed:
        trial.roll_back()
        assert contents(trial.target) == trial.before
        return "new state"
    assert state == trial.before, (point, set(state.items()) ^ set(trial.before.items()))
    assert versions(trial.target)["cupy-cuda12x"] == "13.6.0"
    return "restored" if between != trial.before else "untouched"


def undo_what_the_doctor_names(trial: Trial) -> bool:
    """Runs the fix of an open transaction, which has to come first; returns whether there is one."""
    before = contents(trial.target)
    result = trial.sandbox.gpuenv("doctor", "--python", trial.target, "--format", "json", "--no-redact")
    report = json.loads(result.stdout)
    listed = trial.sandbox.gpuenv("rollback", "--python", trial.target, "--list", "--format", "json", "--no-redact")
    assert listed.returncode == 0, listed.stderr
    assert contents(trial.target) == before, "reading changes nothing"
    interrupted = report["snapshot"]["target"]["open_transaction"]["value"]
    assert json.loads(listed.stdout)["open_transaction"] == interrupted
    if interrupted is None:
        assert not [finding for finding in report["findings"] if finding["code"] == "ENV403"]
        return False
    first, *others = report["findings"]
    assert (first["code"], first["cause"], first["primary"]) == ("ENV403", "install-interrupted", True)
    assert not [finding["code"] for finding in others if finding["code"].startswith(("ENV", "WHL", "LIB", "CCH"))]
    ((program, *command),) = [fix["command"] for fix in first["fix"]]
    assert (program, command) == ("gpuenv", ["rollback", "--python", str(trial.target)])
    undone = trial.sandbox.gpuenv(*command)
    assert undone.returncode == 0, undone.stderr
    return True


def format_results(results: dict[int, str]) -> str:
    lines = [f"  {count:4}  {state}" for state, count in sorted(Counter(results.values()).items())]
    return "\n".join([f"SIGKILL before each of {len(results)} calls that change a file system:", *lines])


def kill_at_points(trial: Trial, count: int) -> dict[int, str]:
    calls = trial.calls() - 1  # only the first install creates the journal's folder
    installed = contents(trial.target)
    trial.roll_back()
    assert contents(trial.target) == trial.before
    return {point: kill_at(trial, point, installed) for point in points(calls, count)}


def test_an_install_killed_at_12_points_is_undone_or_complete(trial: Trial) -> None:
    results = kill_at_points(trial, 12)
    assert len(results) == 12
    assert set(results.values()) >= {"restored", "untouched"}, format_results(results)


@pytest.mark.slow
def test_an_install_killed_at_200_points_is_undone_or_complete(
    trial: Trial, capsys: pytest.CaptureFixture[str]
) -> None:
    results = kill_at_points(trial, 200)
    with capsys.disabled():
        sys.stdout.write(f"\n{format_results(results)}\n")
    assert len(results) == 200
    assert Counter(results.values())["restored"] >= 100
    assert set(results.values()) == {"restored", "untouched", "new state"}


def test_a_restore_that_is_killed_repeatedly_is_completed(trial: Trial) -> None:
    """The restore itself is killed four times."""
    calls = trial.calls()
    trial.roll_back()
    middle = calls * 3 // 4
    assert trial.install(KILL_AT=str(middle)).returncode == KILLED
    command = [*PROGRAM, "rollback", "--yes", "--python", str(trial.target)]
    for point in (20, 35, 10, 60):
        environment = trial.sandbox.environment(LD_PRELOAD=str(trial.killer), KILL_AT=str(point))
        subprocess.run(command, env=environment, capture_output=True, check=False, timeout=LIMIT)
    assert undo_what_the_doctor_names(trial)
    assert contents(trial.target) == trial.before


def test_a_killed_rollback_is_completed_by_the_next_one(trial: Trial) -> None:
    assert trial.install().returncode == 0
    command = [*PROGRAM, "rollback", "--yes", "--python", str(trial.target)]
    environment = trial.sandbox.environment(LD_PRELOAD=str(trial.killer), KILL_AT="25")
    result = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=LIMIT)
    assert result.returncode == KILLED
    assert contents(trial.target) != trial.before
    listed = trial.sandbox.gpuenv("rollback", "--python", trial.target, "--list")
    assert "the rollback was interrupted" in " ".join(listed.stdout.split())
    assert undo_what_the_doctor_names(trial)
    assert contents(trial.target) == trial.before


@pytest.mark.parametrize("number", [(), ("0002",)], ids=["latest", "by-number"])
def test_a_repeated_rollback_after_a_kill_undoes_one_install(trial: Trial, number: tuple[str]) -> None:
    assert trial.install().returncode == 0
    first = contents(trial.target)
    (site,) = trial.target.glob("lib/python*/site-packages")
    (site / "cupy/part3.py").unlink()
    assert trial.install().returncode == 0
    command = [*PROGRAM, "rollback", "--yes", "--python", str(trial.target), *number]
    environment = trial.sandbox.environment(LD_PRELOAD=str(trial.killer), KILL_AT="8")
    result = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=LIMIT)
    assert result.returncode == KILLED
    again = trial.sandbox.gpuenv("rollback", "--yes", "--python", trial.target, *number)
    assert again.returncode == 0, again.stderr
    assert "earlier installs are unchanged" in again.stdout
    assert set(contents(trial.target)) == set(first) - {f"{site.relative_to(trial.target)}/cupy/part3.py"}
    trial.roll_back()
    assert contents(trial.target) == trial.before


def test_the_next_install_first_restores_the_interrupted_one(trial: Trial) -> None:
    calls = trial.calls()
    trial.roll_back()
    assert trial.install(KILL_AT=str(calls * 3 // 4)).returncode == KILLED
    result = trial.sandbox.install(trial.target)
    assert result.returncode == 0, result.stderr
    assert "the interrupted install" in result.stderr + result.stdout
    trial.roll_back()
    assert contents(trial.target) == trial.before


def test_nothing_is_planned_before_an_interrupted_install_is_undone(trial: Trial) -> None:
    calls = trial.calls()
    trial.roll_back()
    assert trial.install(KILL_AT=str(calls * 3 // 4)).returncode == KILLED
    between = contents(trial.target)
    for command in (("install", "--dry-run"), ("lock",), ("resolve", "--solve")):
        result = trial.sandbox.gpuenv(*command, "--python", trial.target, *MACHINE)
        assert result.returncode == 7, (command, result.stdout, result.stderr)
        assert not result.stdout.startswith("Plan")
        message = " ".join(result.stderr.split())
        assert "was interrupted" in message
        assert f"gpuenv rollback --python {trial.target}" in message
    assert contents(trial.target) == between


def test_changes_made_after_an_interrupted_install_are_kept(trial: Trial) -> None:
    """A user repairs an interrupted install by hand; rollback and install name the changed file."""
    calls = trial.calls()
    trial.roll_back()
    assert trial.install(KILL_AT=str(calls * 3 // 4)).returncode == KILLED
    (site,) = trial.target.glob("lib/python*/site-packages")
    (site / "cupy/__init__.py").write_text("__version__ = 'mine'\n", encoding="utf-8")
    before = contents(trial.target)
    (number,) = {path.parent.name for path in (trial.target / ".gpuenv").glob("*/journal.json")}
    for command in (("rollback", "--yes"), ("install", "--yes", *MACHINE)):
        result = trial.sandbox.gpuenv(*command, "--python", trial.target)
        assert result.returncode == 4, result.stderr
        assert "cupy/__init__.py" in result.stderr
        assert f"gpuenv rollback --python {trial.target} --forget {number}" in " ".join(result.stderr.split())
        assert contents(trial.target) == before
    result = trial.sandbox.gpuenv("rollback", "--forget", "--python", trial.target, number, "--yes")
    assert result.returncode == 0, result.stderr
    assert not undo_what_the_doctor_names(trial)
    assert contents(trial.target) == before


def test_doctor_fix_undoes_an_interrupted_install_and_does_nothing_else(trial: Trial) -> None:
    calls = trial.calls()
    trial.roll_back()
    assert trial.install(KILL_AT=str(calls * 3 // 4)).returncode == KILLED
    command = ("doctor", "--fix", "--python", trial.target, "--format", "json")
    planned = json.loads(trial.sandbox.gpuenv(*command, "--dry-run").stdout)
    assert planned["repair"]["status"] == "planned"
    assert contents(trial.target) != trial.before
    repaired = json.loads(trial.sandbox.gpuenv(*command).stdout)
    assert contents(trial.target) == trial.before
    assert "ENV403" in repaired["repair"]["gone"]
    assert "WHL502" in repaired["repair"]["left"], "the two CuPys that were there before"


def test_a_copy_of_an_interrupted_install_is_undone(trial: Trial) -> None:
    calls = trial.calls()
    trial.roll_back()
    assert trial.install(KILL_AT=str(calls * 3 // 4)).returncode == KILLED
    copy = trial.target.with_name("copy")
    subprocess.run(["cp", "-a", str(trial.target), str(copy)], check=True)
    assert undo_what_the_doctor_names(replace(trial, target=copy))
    assert contents(copy) == trial.before


def test_a_running_install_is_not_taken_for_an_interrupted_one(trial: Trial) -> None:
    calls = trial.calls()
    trial.roll_back()
    assert trial.install(KILL_AT=str(calls * 3 // 4)).returncode == KILLED
    with Store(trial.target).locked():
        result = trial.sandbox.gpuenv("doctor", "--python", trial.target, "--format", "json")
    assert json.loads(result.stdout)["snapshot"]["target"]["open_transaction"]["value"] is None
    assert undo_what_the_doctor_names(trial)
