"""Killed installs: after the next command the environment is in the former or in the new state, never between."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import PROGRAM
from tests.install.sandbox import LIMIT, MACHINE, contents, versions

if TYPE_CHECKING:
    from tests.install.sandbox import Ground

BEFORE = ("cupy-cuda11x==13.6.0", "cupy-cuda12x==13.6.0", "numpy==2.1.0", "nvidia-cuda-nvrtc==13.5.37")
KILLED = -9


@dataclass(frozen=True, slots=True)
class Trial:
    """An environment with two lines and a stray wheel, and the library that ends a process at a given call."""

    ground: Ground
    target: Path
    killer: Path
    before: dict[str, str]

    def install(self, **more: str) -> subprocess.CompletedProcess[str]:
        """An install that may be killed."""
        command = [*PROGRAM, "install", "--python", str(self.target), "--yes", *MACHINE]
        # Compiled modules of gpuenv itself would be counted, the first time and never again.
        environment = self.ground.environment(LD_PRELOAD=str(self.killer), PYTHONDONTWRITEBYTECODE="1", **more)
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT, cwd=self.ground.folder
        )

    def calls(self) -> int:
        """How many calls of an undisturbed install change a file system."""
        told = self.ground.folder / "calls"
        done = self.install(COUNT_TO=str(told))
        assert done.returncode == 0, done.stderr
        return int(told.read_text(encoding="ascii"))

    def back(self) -> None:
        """Undoes a finished install."""
        done = self.ground.gpuenv("rollback", "--python", self.target)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def trial(ground: Ground, killer: Path) -> Trial:
    target = ground.target("killed", *BEFORE)
    return Trial(ground, target, killer, contents(target))


def points(calls: int, wanted: int) -> list[int]:
    """Evenly spread, the last call among them."""
    return sorted({1 + round(index * (calls - 1) / (wanted - 1)) for index in range(wanted)})


def killed_at(trial: Trial, point: int, new: dict[str, str]) -> str:
    """What the environment is after the next command: as it was, or the new one."""
    done = trial.install(KILL_AT=str(point))
    between = contents(trial.target)
    # The number of calls is not quite the same each time: the last points may come after the end.
    assert done.returncode == KILLED or (done.returncode == 0 and between == new), (point, done.stderr)
    following = trial.ground.gpuenv("rollback", "--python", trial.target, "--list")
    assert following.returncode == 0, (point, following.stderr)
    found = contents(trial.target)
    if found == new:
        trial.back()
        assert contents(trial.target) == trial.before
        return "kept: fully the new state"
    assert found == trial.before, (point, set(found.items()) ^ set(trial.before.items()))
    assert versions(trial.target)["cupy-cuda12x"] == "13.6.0"
    return "put back from between" if between != trial.before else "untouched"


def table(results: dict[int, str]) -> str:
    lines = [f"  {count:4}  {what}" for what, count in sorted(Counter(results.values()).items())]
    return "\n".join([f"SIGKILL before each of {len(results)} calls that change a file system:", *lines])


def run_table(trial: Trial, wanted: int) -> dict[int, str]:
    calls = trial.calls() - 1  # the first install alone makes the journal's folder
    new = contents(trial.target)
    trial.back()
    assert contents(trial.target) == trial.before
    return {point: killed_at(trial, point, new) for point in points(calls, wanted)}


def test_killed_at_some_points(trial: Trial) -> None:
    results = run_table(trial, 12)
    assert len(results) == 12
    assert set(results.values()) >= {"put back from between", "untouched"}, table(results)


@pytest.mark.slow
def test_killed_at_200_points(trial: Trial, capsys: pytest.CaptureFixture[str]) -> None:
    results = run_table(trial, 200)
    with capsys.disabled():
        sys.stdout.write(f"\n{table(results)}\n")
    assert len(results) == 200
    assert Counter(results.values())["put back from between"] >= 100
    assert set(results.values()) == {"put back from between", "untouched", "kept: fully the new state"}


def test_killed_while_it_puts_back(trial: Trial) -> None:
    """The restoration itself is cut short, again and again, and ends where it should."""
    calls = trial.calls()
    trial.back()
    middle = calls * 3 // 4
    assert trial.install(KILL_AT=str(middle)).returncode == KILLED
    command = [*PROGRAM, "rollback", "--python", str(trial.target), "--list"]
    for point in (20, 35, 10, 60):
        environment = trial.ground.environment(LD_PRELOAD=str(trial.killer), KILL_AT=str(point))
        subprocess.run(command, env=environment, capture_output=True, check=False, timeout=LIMIT)
    assert trial.ground.gpuenv("rollback", "--python", trial.target, "--list").returncode == 0
    assert contents(trial.target) == trial.before


def test_killed_while_it_rolls_back(trial: Trial) -> None:
    assert trial.install().returncode == 0
    command = [*PROGRAM, "rollback", "--python", str(trial.target)]
    environment = trial.ground.environment(LD_PRELOAD=str(trial.killer), KILL_AT="25")
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=LIMIT)
    assert done.returncode == KILLED
    assert contents(trial.target) != trial.before
    assert trial.ground.gpuenv("rollback", "--python", trial.target, "--list").returncode == 0
    assert contents(trial.target) == trial.before


@pytest.mark.parametrize("number", [(), ("0002",)], ids=["none named", "named"])
def test_a_rollback_that_was_cut_short_and_is_asked_for_again_undoes_no_more(trial: Trial, number: tuple[str]) -> None:
    assert trial.install().returncode == 0
    first = contents(trial.target)
    (site,) = trial.target.glob("lib/python*/site-packages")
    (site / "cupy/part3.py").unlink()
    assert trial.install().returncode == 0
    command = [*PROGRAM, "rollback", "--python", str(trial.target), *number]
    environment = trial.ground.environment(LD_PRELOAD=str(trial.killer), KILL_AT="8")
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=LIMIT)
    assert done.returncode == KILLED
    again = trial.ground.gpuenv("rollback", "--python", trial.target, *number)
    assert again.returncode == 0, again.stderr
    assert "what was installed before it stands" in again.stdout
    assert set(contents(trial.target)) == set(first) - {f"{site.relative_to(trial.target)}/cupy/part3.py"}
    trial.back()
    assert contents(trial.target) == trial.before


def test_the_next_install_puts_back_first_and_says_so(trial: Trial) -> None:
    calls = trial.calls()
    trial.back()
    assert trial.install(KILL_AT=str(calls * 3 // 4)).returncode == KILLED
    done = trial.ground.install(trial.target)
    assert done.returncode == 0, done.stderr
    assert "the interrupted install" in done.stderr + done.stdout
    trial.back()
    assert contents(trial.target) == trial.before


def test_what_others_have_installed_after_an_interrupt_is_not_rolled_over(trial: Trial) -> None:
    """A user who repairs a cut short install by hand keeps that, and is told."""
    calls = trial.calls()
    trial.back()
    assert trial.install(KILL_AT=str(calls * 3 // 4)).returncode == KILLED
    (site,) = trial.target.glob("lib/python*/site-packages")
    (site / "cupy/__init__.py").write_text("__version__ = 'mine'\n", encoding="utf-8")
    before = contents(trial.target)
    (number,) = {path.parent for path in (trial.target / ".gpuenv").glob("*/journal.json")}
    for command in (("rollback",), ("install", "--yes", *MACHINE)):
        done = trial.ground.gpuenv(*command, "--python", trial.target)
        assert done.returncode == 4, done.stderr
        assert "cupy/__init__.py" in done.stderr
        assert str(number) in " ".join(done.stderr.split())
        assert contents(trial.target) == before
    shutil.rmtree(number)
    assert trial.ground.gpuenv("rollback", "--python", trial.target, "--list").returncode == 0
    assert contents(trial.target) == before
