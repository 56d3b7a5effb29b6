"""Installs into real environments with the real uv and pip, of stand-ins for CuPy's packages."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.install.sandbox import MACHINE, contents, install_outcome, run, versions
from tests.install.wheels import Package, make_wheel
from tests.probe.pythons import python

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox

NEW = {"cuda-toolkit": "12.9.2", "cupy-cuda12x": "14.2.0", "numpy": "2.1.0", "nvidia-cuda-nvrtc-cu12": "12.9.86"}


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_an_install_into_a_fresh_environment_is_verified_and_undone(sandbox: Sandbox, installer: str) -> None:
    target = sandbox.target("fresh", pip=installer == "pip")
    before = contents(target)
    code, outcome = install_outcome(sandbox, target, "--installer", installer)
    assert (code, outcome["status"], outcome["schema"]) == (0, "installed", "gpuenv.outcome/1"), outcome["message"]
    assert versions(target) == NEW
    verification = {check["name"]: check["passed"] for check in outcome["proofs"]}
    assert verification == {
        "files": True,
        "as planned": True,
        "consistent": True,
        "import cupy": True,
        "doctor": True,
        "smoke test": None,
    }
    assert "assumed" in outcome["proofs"][-1]["detail"]
    assert (target / "bin/f2py").read_text(encoding="utf-8").startswith(f"#!{target}/bin/python")
    result = sandbox.gpuenv("rollback", "--yes", "--python", target)
    assert result.returncode == 0, result.stderr
    assert contents(target) == before


def test_the_installed_files_equal_those_of_bare_uv(sandbox: Sandbox) -> None:
    """Compared file by file, except the scripts, which name their environment."""
    target, bare = sandbox.target("ours"), sandbox.target("bare")
    assert install_outcome(sandbox, target)[0] == 0
    sandbox.add(bare, *(f"{name}=={release}" for name, release in NEW.items()))
    gpuenv_files, uv_files = (
        {path: state for path, state in contents(folder).items() if path.startswith("lib/")}
        for folder in (target, bare)
    )
    (record,) = [
        path for path in gpuenv_files if "numpy" in path and path.endswith("/RECORD")
    ]  # contains digests of the scripts
    assert {**gpuenv_files, record: ""} == {**uv_files, record: ""}


def test_two_cupy_lines_are_replaced_by_one(sandbox: Sandbox) -> None:
    target = sandbox.target("both", "cupy-cuda11x==13.6.0", "cupy-cuda12x==14.2.0", "numpy==2.1.0")
    before = contents(target)
    code, outcome = install_outcome(sandbox, target)
    assert (code, outcome["status"]) == (0, "installed"), outcome["message"]
    reasons = {entry["name"]: entry["reason"] for entry in outcome["plan"]["remove"]}
    assert reasons == {"cupy-cuda11x": "other-cupy-line", "cupy-cuda12x": "shares-files-with-another-line"}
    assert versions(target) == NEW
    (site,) = target.glob("lib/python*/site-packages")
    assert not (site / "cupy/.data/only11.txt").exists()
    assert (site / "cupy/part0.py").read_text(encoding="utf-8").startswith("# cupy-cuda12x")
    undone = sandbox.gpuenv("rollback", "--yes", "--python", target)
    assert undone.returncode == 0
    assert "+ cupy-cuda12x 14.2.0 (its former files)" in undone.stdout + undone.stderr
    assert contents(target) == before


def test_cuda_wheels_of_another_major_are_removed_unless_required(sandbox: Sandbox) -> None:
    stray = sandbox.target("stray", "nvidia-cuda-nvrtc==13.5.37")
    _, outcome = install_outcome(sandbox, stray)
    assert [(e["name"], e["reason"]) for e in outcome["plan"]["remove"]] == [
        ("nvidia-cuda-nvrtc", "cuda-of-another-major")
    ]
    assert versions(stray) == NEW
    needed = sandbox.target("needed", "nvidia-cuda-nvrtc==13.5.37", "torch==2.6.0")
    _, outcome = install_outcome(sandbox, needed)
    assert outcome["plan"]["remove"] == []
    assert "nvidia-cuda-nvrtc 13.5.37 is of another CUDA major version" in outcome["plan"]["notes"][0]
    # CuPy 14 would load that NVRTC; CuPy 13 does not search the packages.
    remaining = {name: release for name, release in versions(needed).items() if name != "numpy"}
    assert remaining == {"cupy-cuda12x": "13.6.0", "torch": "2.6.0", "nvidia-cuda-nvrtc": "13.5.37"}
    assert {check["name"]: check["passed"] for check in outcome["proofs"]}["import torch"]


def test_a_package_pinned_by_another_is_not_changed(sandbox: Sandbox) -> None:
    """A package pins NumPy 1: the resolver selects a compatible CuPy, and no other package changes."""
    target = sandbox.target("held", "numpy==1.26.4", "old-science==1.0")
    code, outcome = install_outcome(sandbox, target)
    assert code == 0, outcome["message"]
    assert versions(target) == {"cupy-cuda12x": "13.6.0", "numpy": "1.26.4", "old-science": "1.0"}


def test_other_packages_change_only_with_allow_changes(sandbox: Sandbox) -> None:
    target = sandbox.target("moves", "numpy==1.26.4", "user-of-numpy==1.0")
    before = contents(target)
    facts = ("--assume", "numpy=2.1.0", "cupy>=14")  # requires NumPy 2
    result = sandbox.install(target, *facts)
    assert result.returncode == 2
    assert "packages other than CuPy's would change: numpy" in result.stderr
    assert "--allow-changes" in result.stderr
    assert contents(target) == before
    assert sandbox.install(target, *facts, "--allow-changes").returncode == 0
    assert versions(target) == {**NEW, "user-of-numpy": "1.0"}
    assert sandbox.gpuenv("rollback", "--yes", "--python", target).returncode == 0
    assert contents(target) == before


def test_a_conflict_is_reported_and_changes_nothing(sandbox: Sandbox) -> None:
    target = sandbox.target("conflict", "numpy==1.26.4", "old-science==1.0")
    before = contents(target)
    result = sandbox.install(target, "--assume", "numpy=2.1.0", "cupy>=14")
    assert result.returncode == 3, result.stderr
    assert "numpy" in result.stderr
    assert "Install into a separate environment" in result.stderr
    assert contents(target) == before


def test_a_second_install_changes_nothing(sandbox: Sandbox) -> None:
    target = sandbox.target("twice")
    assert install_outcome(sandbox, target)[0] == 0
    before = contents(target)
    code, outcome = install_outcome(sandbox, target)
    assert (code, outcome["status"], outcome["transaction"]) == (0, "unchanged", None)
    assert contents(target) == before


def test_damaged_files_are_reinstalled(sandbox: Sandbox) -> None:
    target = sandbox.target("damaged")
    install_outcome(sandbox, target)
    intact = contents(target)
    (site,) = target.glob("lib/python*/site-packages")
    (site / "cupy/part3.py").unlink()
    (site / "cupy/leftover.py").write_text("left behind\n", encoding="utf-8")
    code, outcome = install_outcome(sandbox, target)
    assert code == 0
    assert [entry["path"] for entry in outcome["plan"]["leftovers"]] == [
        str((site / "cupy/leftover.py").relative_to(target))
    ]
    assert contents(target) == intact


@pytest.mark.parametrize("option", ["-o", "--guard"])
def test_an_unwritable_output_path_is_refused_before_the_install(sandbox: Sandbox, tmp_path: Path, option: str) -> None:
    target = sandbox.target("unwritten")
    before = contents(target)
    for path, message in ((tmp_path / "none/outcome.json", "there is no folder"), (tmp_path, "it is a folder")):
        result = sandbox.install(target, option, path)
        assert result.returncode == 2, result.stderr
        assert message in result.stderr
        assert contents(target) == before


def test_a_dry_run_prints_the_plan_and_changes_nothing(sandbox: Sandbox) -> None:
    target = sandbox.target("dry", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    before = contents(target)
    command = ("install", "--python", target, "--dry-run", *MACHINE)
    plan = json.loads(sandbox.gpuenv(*command, "--format", "json").stdout)
    assert plan["schema"] == "gpuenv.plan/1"
    assert {pin["name"]: pin["release"] for pin in plan["install"]} == {k: v for k, v in NEW.items() if k != "numpy"}
    assert all(len(digest) == 64 for pin in plan["install"] for digest in pin["sha256"])
    assert all(pin["sha256"] for pin in plan["install"])
    text = sandbox.gpuenv(*command, COLUMNS="80").stdout
    assert "- cupy-cuda11x 13.6.0 (another CuPy line" in text
    assert "+ cupy-cuda12x 14.2.0" in text
    assert "The solver of" not in text
    assert "gpuenv rollback" in text
    assert text.isascii()
    assert contents(target) == before
    assert not (target / ".gpuenv").exists()


def test_an_install_without_a_terminal_needs_yes(sandbox: Sandbox) -> None:
    target = sandbox.target("no-terminal")
    before = contents(target)
    result = sandbox.gpuenv("install", "--python", target, *MACHINE)
    assert result.returncode == 2
    assert "+ cupy-cuda12x 14.2.0" in result.stdout
    assert "--yes" in result.stderr
    assert contents(target) == before
    assert not (target / ".gpuenv").exists()


@pytest.mark.parametrize(
    ("requirement", "wanted", "code", "text"),
    [
        ("cupy-cuda11x", (), 0, "already installed"),  # it fits, and stays
        ("cupy-cuda11x", ("cupy-cuda12x",), 3, "needs old-tool built for CUDA 12 or absent"),
        ("cupy-cuda11x<13", (), 3, "old-tool"),
    ],
)
def test_a_cupy_line_required_by_another_package_is_not_removed(
    sandbox: Sandbox, requirement: str, wanted: tuple[str, ...], code: int, text: str
) -> None:
    """A conflict is reported before anything is downloaded."""
    target = sandbox.target("needed", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    sandbox.add(target, str(make_wheel(sandbox.folder, Package("old-tool", "1.0", (requirement,)))))
    before, requests = contents(target), len(sandbox.index.requests)
    result = sandbox.gpuenv("install", "--python", target, "--dry-run", *MACHINE, *wanted)
    assert result.returncode == code, result.stderr
    assert text in " ".join((result.stdout + result.stderr).split())
    assert contents(target) == before
    assert code == 0 or len(sandbox.index.requests) == requests


def test_the_newest_release_that_another_package_allows_is_installed(sandbox: Sandbox) -> None:
    target = sandbox.target("limited")
    sandbox.add(target, str(make_wheel(sandbox.folder, Package("a-library", "1.0", ("cupy-cuda12x<14",)))))
    code, outcome = install_outcome(sandbox, target)
    assert code == 0
    assert outcome["plan"]["requirements"] == ["cupy-cuda12x==13.6.0"]
    resolved = sandbox.gpuenv("resolve", "--python", target, "--format", "json", *MACHINE)
    assert json.loads(resolved.stdout)["wheel"]["requirements"] == outcome["plan"]["requirements"]


def test_a_solver_confirms_what_resolve_prints(sandbox: Sandbox, tmp_path: Path) -> None:
    """The index, the constraints and the packages of the target decide together."""
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("numpy==1.26.4\n", encoding="utf-8")
    target = sandbox.target("solved")
    command = ("resolve", "--python", target, "--format=json", *MACHINE)
    unsolved = json.loads(sandbox.gpuenv(*command, UV_CONSTRAINT=str(constraints)).stdout)
    assert (unsolved["solved"], unsolved["wheel"]["requirements"]) == (False, ["cupy-cuda12x[ctk]==14.2.0"])
    solved = json.loads(sandbox.gpuenv(*command, "--solve", UV_CONSTRAINT=str(constraints)).stdout)
    assert (solved["solved"], solved["wheel"]["requirements"]) == (True, ["cupy-cuda12x==13.6.0"])
    first, second, *_ = solved["explanation"].splitlines()
    assert first == "cupy-cuda12x[ctk] 14.2.0 fits best."
    assert re.fullmatch(r"The solver of uv [\d.]+ chooses cupy-cuda12x 13\.6\.0\.", second)
    dry_run = ("install", "--python", target, "--dry-run", *MACHINE, "--format=json")
    plan = json.loads(sandbox.gpuenv(*dry_run, UV_CONSTRAINT=str(constraints)).stdout)
    assert plan["requirements"] == solved["wheel"]["requirements"]
    text = sandbox.gpuenv("resolve", "--python", target, *MACHINE, "--solve").stdout
    assert "+ cupy-cuda12x 14.2.0" in text
    assert not list(target.glob(".gpuenv")), "nothing was changed"


@pytest.mark.parametrize(
    ("toolkit", "extra"),
    [("12.9", ""), ("13.0", "[ctk]"), ("none", "[ctk]")],
)
def test_a_toolkit_that_fits_is_not_downloaded_again(sandbox: Sandbox, toolkit: str, extra: str) -> None:
    """The plan is that of ``resolve``: CUDA's libraries are gigabytes."""
    target = sandbox.target("toolkit")
    options = ("--python", target, *MACHINE, "--assume", f"toolkit={toolkit}", "--format=json")
    resolved = json.loads(sandbox.gpuenv("resolve", *options).stdout)
    plan = json.loads(sandbox.gpuenv("install", *options, "--dry-run").stdout)
    assert resolved["wheel"]["requirements"] == plan["requirements"] == [f"cupy-cuda12x{extra}==14.2.0"]


def test_solving_needs_an_environment(sandbox: Sandbox) -> None:
    result = sandbox.gpuenv("resolve", "--solve", "--no-probe", *MACHINE)
    assert result.returncode == 2
    assert "--solve needs this machine's environment" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("wanted", "requirements"),
    [
        (("cupy-cuda12x",), ["cupy-cuda12x[ctk]==14.2.0"]),
        (("cupy==13.6.0",), ["cupy-cuda12x==13.6.0"]),
        (("cupy<14", "cupy-cuda11x"), ["cupy-cuda11x==13.6.0"]),
        (("cupy_cuda12x[ctk]>=13",), ["cupy-cuda12x[ctk]==14.2.0"]),
    ],
)
def test_a_requirement_restricts_the_choice(sandbox: Sandbox, wanted: tuple[str, ...], requirements: list[str]) -> None:
    result = sandbox.gpuenv(
        "install", *wanted, "--python", sandbox.target("wanted"), "--dry-run", *MACHINE, "--format=json"
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["requirements"] == requirements


@pytest.mark.parametrize(
    ("wanted", "code", "text"),
    [
        ("numpy<2", 2, "is not a requirement on CuPy"),
        ("cupy =>13", 2, "is not a requirement, such as"),
        ("cupy==99", 3, "the matrix has no such release"),
        ("cupy-cuda12x==9.0.0", 3, "the matrix has no such release"),
    ],
)
def test_a_requirement_that_nothing_meets_is_refused(sandbox: Sandbox, wanted: str, code: int, text: str) -> None:
    result = sandbox.gpuenv("install", wanted, "--python", sandbox.target("refused"), "--dry-run", *MACHINE)
    assert result.returncode == code, result.stderr
    assert text in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["install", "lock"])
@pytest.mark.parametrize("version", ["2.7", "3.6"])
def test_a_python_that_is_too_old_is_reported(sandbox: Sandbox, command: str, version: str) -> None:
    """Including Python 2, which the probe script must support."""
    result = sandbox.gpuenv(command, "--python", python(version), *MACHINE)
    assert result.returncode == 3, result.stderr
    assert f"found {version}." in result.stderr
    assert "Create an environment with Python 3." in result.stderr
    assert "for another machine" not in result.stderr


def test_the_exit_code_is_3_if_no_wheel_fits(sandbox: Sandbox) -> None:
    target = sandbox.target("none")
    result = sandbox.gpuenv("install", "--python", target, "--yes", "--assume", "driver=none", "--assume", "gpu=none")
    assert result.returncode == 3
    assert "--assume driver=" in result.stderr


def test_the_exit_code_is_7_for_an_unusable_target(sandbox: Sandbox) -> None:
    target = sandbox.target("broken")
    for interpreter in target.glob("bin/python*"):
        interpreter.unlink()
    result = sandbox.install(target)
    assert result.returncode == 7, result.stderr


def test_an_externally_managed_python_is_refused(sandbox: Sandbox) -> None:
    python_path = Path("/usr/bin/python3")
    markers = list(Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED"))
    if not python_path.exists() or not markers:
        pytest.skip("no externally managed Python")
    result = sandbox.gpuenv("install", "--python", python_path, "--yes", *MACHINE)
    assert result.returncode == 7
    assert "--break-system-packages" in result.stderr
    assert "python3 -m venv" in result.stderr


def test_uv_constraints_of_the_user_are_respected(sandbox: Sandbox, tmp_path: Path) -> None:
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("numpy==1.26.4\n", encoding="utf-8")
    target = sandbox.target("constrained")
    result = sandbox.install(target, UV_CONSTRAINT=str(constraints))
    assert result.returncode == 0, result.stderr
    assert (versions(target)["cupy-cuda12x"], versions(target)["numpy"]) == ("13.6.0", "1.26.4")
    assert "needs the libraries and headers of a toolkit" in " ".join(result.stdout.split())


_REDIRECTIONS = {"PIP_USER": "1", "PIP_PLATFORM": "win_amd64", "PIP_PYTHON_VERSION": "3.9", "PIP_ABI": "cp39"}


def test_pip_runs_although_warnings_are_errors(sandbox: Sandbox) -> None:
    code, outcome = install_outcome(
        sandbox, sandbox.target("strict", pip=True), "--installer", "pip", PYTHONWARNINGS="error"
    )
    assert code == 0, outcome


def test_variables_that_redirect_the_installer_are_ignored(sandbox: Sandbox, tmp_path: Path) -> None:
    target = sandbox.target("here", pip=True)
    elsewhere = tmp_path / "elsewhere"
    code, _ = install_outcome(sandbox, target, "--installer", "pip", PIP_TARGET=str(elsewhere), **_REDIRECTIONS)
    assert code == 0
    assert versions(target) == NEW
    assert not elsewhere.exists()
    other = sandbox.target("uv-here")
    assert install_outcome(sandbox, other, UV_SYSTEM_PYTHON="1", UV_PYTHON="/usr/bin/python3")[0] == 0
    assert versions(other) == NEW


def test_the_installed_cupy_can_be_imported(sandbox: Sandbox) -> None:
    target = sandbox.target("runs")
    install_outcome(sandbox, target)
    printed = run([str(target / "bin/python"), "-B", "-c", "import cupy; print(cupy.__line__)"], {"PATH": os.defpath})
    assert printed == "cupy-cuda12x\n"
