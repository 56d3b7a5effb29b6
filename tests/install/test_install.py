"""Installs into real environments with the real uv and pip, of stand-ins for CuPy's packages."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.install.sandbox import MACHINE, contents, install_outcome, run, versions
from tests.install.wheels import Package, make_wheel
from tests.probe.pythons import python

if TYPE_CHECKING:
    from tests.install.sandbox import Ground

NEW = {"cuda-toolkit": "12.9.2", "cupy-cuda12x": "14.2.0", "numpy": "2.1.0", "nvidia-cuda-nvrtc-cu12": "12.9.86"}


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_fresh_environment(ground: Ground, installer: str) -> None:
    target = ground.target("fresh", pip=installer == "pip")
    before = contents(target)
    code, told = install_outcome(ground, target, "--installer", installer)
    assert (code, told["status"], told["schema"]) == (0, "installed", "gpuenv.outcome/1"), told["message"]
    assert versions(target) == NEW
    proven = {proof["name"]: proof["passed"] for proof in told["proofs"]}
    assert proven == {
        "files": True,
        "as planned": True,
        "consistent": True,
        "import cupy": True,
        "doctor": True,
        "smoke test": None,
    }
    assert "assumed" in told["proofs"][-1]["detail"]
    assert (target / "bin/f2py").read_text(encoding="utf-8").startswith(f"#!{target}/bin/python")
    done = ground.gpuenv("rollback", "--python", target)
    assert done.returncode == 0, done.stderr
    assert contents(target) == before


def test_what_bare_uv_installs_is_what_lands(ground: Ground) -> None:
    """File by file; a program names its own environment."""
    target, bare = ground.target("ours"), ground.target("bare")
    assert install_outcome(ground, target)[0] == 0
    ground.add(bare, *(f"{name}=={release}" for name, release in NEW.items()))
    ours, theirs = (
        {path: told for path, told in contents(folder).items() if path.startswith("lib/")} for folder in (target, bare)
    )
    (record,) = [path for path in ours if "numpy" in path and path.endswith("/RECORD")]  # has its programs' digests
    assert {**ours, record: ""} == {**theirs, record: ""}


def test_both_lines_go_and_one_comes_back(ground: Ground) -> None:
    target = ground.target("both", "cupy-cuda11x==13.6.0", "cupy-cuda12x==14.2.0", "numpy==2.1.0")
    before = contents(target)
    code, told = install_outcome(ground, target)
    assert (code, told["status"]) == (0, "installed"), told["message"]
    reasons = {entry["name"]: entry["reason"] for entry in told["plan"]["remove"]}
    assert reasons == {"cupy-cuda11x": "other-cupy-line", "cupy-cuda12x": "shares-files-with-another-line"}
    assert versions(target) == NEW
    (site,) = target.glob("lib/python*/site-packages")
    assert not (site / "cupy/.data/only11.txt").exists()
    assert (site / "cupy/part0.py").read_text(encoding="utf-8").startswith("# cupy-cuda12x")
    assert ground.gpuenv("rollback", "--python", target).returncode == 0
    assert contents(target) == before


def test_stray_cuda_goes_unless_it_is_needed(ground: Ground) -> None:
    stray = ground.target("stray", "nvidia-cuda-nvrtc==13.5.37")
    _, told = install_outcome(ground, stray)
    assert [(e["name"], e["reason"]) for e in told["plan"]["remove"]] == [
        ("nvidia-cuda-nvrtc", "cuda-of-another-major")
    ]
    assert versions(stray) == NEW
    needed = ground.target("needed", "nvidia-cuda-nvrtc==13.5.37", "torch==2.6.0")
    _, told = install_outcome(ground, needed)
    assert told["plan"]["remove"] == []
    assert "nvidia-cuda-nvrtc 13.5.37 is of another CUDA major version" in told["plan"]["notes"][0]
    # CuPy 14 would take that NVRTC for its own; 13 does not look among the packages.
    rest = {name: release for name, release in versions(needed).items() if name != "numpy"}
    assert rest == {"cupy-cuda12x": "13.6.0", "torch": "2.6.0", "nvidia-cuda-nvrtc": "13.5.37"}
    assert {proof["name"]: proof["passed"] for proof in told["proofs"]}["import torch"]


def test_what_another_package_pins_is_not_moved(ground: Ground) -> None:
    """NumPy 1 is held by a package: the resolver takes the CuPy that can live with it, and nothing moves."""
    target = ground.target("held", "numpy==1.26.4", "old-science==1.0")
    code, told = install_outcome(ground, target)
    assert code == 0, told["message"]
    assert versions(target) == {"cupy-cuda12x": "13.6.0", "numpy": "1.26.4", "old-science": "1.0"}


def test_a_package_of_others_moves_with_consent_alone(ground: Ground) -> None:
    target = ground.target("moves", "numpy==1.26.4", "user-of-numpy==1.0")
    before = contents(target)
    told = ("--assume", "numpy=2.1.0")  # as if: the resolver then wants a CuPy that needs NumPy 2
    done = ground.install(target, *told)
    assert done.returncode == 2
    assert "packages other than CuPy's would change: numpy" in done.stderr
    assert "--allow-changes" in done.stderr
    assert contents(target) == before
    assert ground.install(target, *told, "--allow-changes").returncode == 0
    assert versions(target) == {**NEW, "user-of-numpy": "1.0"}
    assert ground.gpuenv("rollback", "--python", target).returncode == 0
    assert contents(target) == before


def test_what_cannot_live_together_is_told_and_left(ground: Ground) -> None:
    target = ground.target("conflict", "numpy==1.26.4", "old-science==1.0")
    before = contents(target)
    done = ground.install(target, "--assume", "numpy=2.1.0")
    assert done.returncode == 3, done.stderr
    assert "numpy" in done.stderr
    assert "Install into a separate environment" in done.stderr
    assert contents(target) == before


def test_nothing_to_do_is_nothing_done(ground: Ground) -> None:
    target = ground.target("twice")
    assert install_outcome(ground, target)[0] == 0
    before = contents(target)
    code, told = install_outcome(ground, target)
    assert (code, told["status"], told["transaction"]) == (0, "unchanged", None)
    assert contents(target) == before


def test_damaged_files_are_put_in_anew(ground: Ground) -> None:
    target = ground.target("damaged")
    install_outcome(ground, target)
    whole = contents(target)
    (site,) = target.glob("lib/python*/site-packages")
    (site / "cupy/part3.py").unlink()
    (site / "cupy/nobody.py").write_text("left behind\n", encoding="utf-8")
    code, told = install_outcome(ground, target)
    assert code == 0
    assert [entry["path"] for entry in told["plan"]["leftovers"]] == [
        str((site / "cupy/nobody.py").relative_to(target))
    ]
    assert contents(target) == whole


@pytest.mark.parametrize("option", ["-o", "--guard"])
def test_a_place_that_cannot_be_written_is_told_before_anything_is_changed(
    ground: Ground, tmp_path: Path, option: str
) -> None:
    target = ground.target("unwritten")
    before = contents(target)
    for place, said in ((tmp_path / "none/told.json", "there is no folder"), (tmp_path, "it is a folder")):
        done = ground.install(target, option, place)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
        assert contents(target) == before


def test_a_dry_run_prints_the_plan_and_changes_nothing(ground: Ground) -> None:
    target = ground.target("dry", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    before = contents(target)
    command = ("install", "--python", target, "--dry-run", *MACHINE)
    told = json.loads(ground.gpuenv(*command, "--format", "json").stdout)
    assert told["schema"] == "gpuenv.plan/1"
    assert {pin["name"]: pin["release"] for pin in told["install"]} == {k: v for k, v in NEW.items() if k != "numpy"}
    assert all(len(digest) == 64 for pin in told["install"] for digest in pin["sha256"])
    assert all(pin["sha256"] for pin in told["install"])
    text = ground.gpuenv(*command, COLUMNS="80").stdout
    assert "- cupy-cuda11x 13.6.0 (another CuPy line" in text
    assert "+ cupy-cuda12x 14.2.0" in text
    assert "gpuenv rollback" in text
    assert text.isascii()
    assert contents(target) == before
    assert not (target / ".gpuenv").exists()


def test_without_a_terminal_consent_has_to_be_given_beforehand(ground: Ground) -> None:
    target = ground.target("asked")
    before = contents(target)
    done = ground.gpuenv("install", "--python", target, *MACHINE)
    assert done.returncode == 2
    assert "+ cupy-cuda12x 14.2.0" in done.stdout
    assert "--yes" in done.stderr
    assert contents(target) == before
    assert not (target / ".gpuenv").exists()


def test_a_line_that_another_package_needs_is_not_taken_from_it(ground: Ground) -> None:
    """It is told before anything is downloaded."""
    target = ground.target("needed", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    ground.add(target, str(make_wheel(ground.folder, Package("old-tool", "1.0", ("cupy-cuda11x",)))))
    before, asked = contents(target), len(ground.index.requests)
    done = ground.gpuenv("install", "--python", target, "--dry-run", *MACHINE)
    assert done.returncode == 3, done.stderr
    assert "old-tool needs cupy-cuda11x" in done.stderr
    assert "Install into a separate environment" in done.stderr
    assert (contents(target), len(ground.index.requests)) == (before, asked)


@pytest.mark.parametrize("command", ["install", "lock"])
@pytest.mark.parametrize("version", ["2.7", "3.6"])
def test_a_python_that_is_too_old_is_told_as_that(ground: Ground, command: str, version: str) -> None:
    """Python 2 too, which lacks much that the questions to it could be written with."""
    done = ground.gpuenv(command, "--python", python(version), *MACHINE)
    assert done.returncode == 3, done.stderr
    assert f"found {version}." in done.stderr
    assert "Create an environment with Python 3." in done.stderr
    assert "for another machine" not in done.stderr


def test_where_no_wheel_fits_the_code_is_3(ground: Ground) -> None:
    target = ground.target("none")
    done = ground.gpuenv("install", "--python", target, "--yes", "--assume", "driver=none", "--assume", "gpu=none")
    assert done.returncode == 3
    assert "--assume driver=" in done.stderr


def test_an_unusable_target_is_7(ground: Ground) -> None:
    target = ground.target("broken")
    for interpreter in target.glob("bin/python*"):
        interpreter.unlink()
    done = ground.install(target)
    assert done.returncode == 7, done.stderr


def test_a_python_that_the_system_manages_is_refused(ground: Ground) -> None:
    managed = Path("/usr/bin/python3")
    marks = list(Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED"))
    if not managed.exists() or not marks:
        pytest.skip("there is no externally managed Python here")
    done = ground.gpuenv("install", "--python", managed, "--yes", *MACHINE)
    assert done.returncode == 7
    assert "--break-system-packages" in done.stderr
    assert "python3 -m venv" in done.stderr


def test_constraints_of_the_user_are_honoured(ground: Ground, tmp_path: Path) -> None:
    held = tmp_path / "held.txt"
    held.write_text("numpy==1.26.4\n", encoding="utf-8")
    target = ground.target("constrained")
    done = ground.install(target, UV_CONSTRAINT=str(held))
    assert done.returncode == 3, done.stderr
    assert "numpy" in done.stderr


_ELSEWHERE = {"PIP_USER": "1", "PIP_PLATFORM": "win_amd64", "PIP_PYTHON_VERSION": "3.9", "PIP_ABI": "cp39"}


def test_warnings_that_end_a_program_do_not_end_pip(ground: Ground) -> None:
    code, told = install_outcome(
        ground, ground.target("strict", pip=True), "--installer", "pip", PYTHONWARNINGS="error"
    )
    assert code == 0, told


def test_variables_that_lead_elsewhere_are_not_followed(ground: Ground, tmp_path: Path) -> None:
    target = ground.target("here", pip=True)
    code, _ = install_outcome(ground, target, "--installer", "pip", PIP_TARGET=str(tmp_path / "there"), **_ELSEWHERE)
    assert code == 0
    assert versions(target) == NEW
    assert not (tmp_path / "there").exists()
    other = ground.target("uv-here")
    assert install_outcome(ground, other, UV_SYSTEM_PYTHON="1", UV_PYTHON="/usr/bin/python3")[0] == 0
    assert versions(other) == NEW


def test_the_program_that_was_installed_runs(ground: Ground) -> None:
    target = ground.target("runs")
    install_outcome(ground, target)
    told = run([str(target / "bin/python"), "-B", "-c", "import cupy; print(cupy.__line__)"], {"PATH": os.defpath})
    assert told == "cupy-cuda12x\n"
