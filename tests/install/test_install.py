"""Installs into real environments with the real uv and pip, of stand-ins for CuPy's packages."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from tests.environments.builders import install, make_system_python
from tests.install.mounts import mounted
from tests.install.sandbox import MACHINE, Index, Sandbox, bundled_pip, contents, install_outcome, run, versions
from tests.install.wheels import SET, Package, cupy, make_wheel, numpy
from tests.probe.pythons import python

NEW = {"cuda-toolkit": "12.9.2", "cupy-cuda12x": "14.2.0", "numpy": "2.1.0", "nvidia-cuda-nvrtc-cu12": "12.9.86"}
# Variables that would redirect the installer, or end pip.
VARIABLES = {
    "uv": {"UV_SYSTEM_PYTHON": "1", "UV_PYTHON": "/usr/bin/python3"},
    "pip": {
        "PIP_USER": "1",
        "PIP_TARGET": "/nonexistent",
        "PIP_PLATFORM": "win_amd64",
        "PIP_PYTHON_VERSION": "3.9",
        "PIP_ABI": "cp39",
        "PYTHONWARNINGS": "error",
        "PYTHONINSPECT": "1",
    },
}


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_an_install_into_a_fresh_environment_is_verified_and_undone(shared: Sandbox, installer: str) -> None:
    """Variables that would redirect the installer are ignored."""
    target = shared.target(f"fresh-{installer}", pip=installer == "pip")
    before = contents(target)
    code, outcome = install_outcome(shared, target, "--installer", installer, **VARIABLES[installer])
    assert (code, outcome["status"], outcome["schema"]) == (0, "installed", "gpuenv.outcome/1"), outcome["message"]
    assert outcome["target"]["kind"] == "venv"
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
    result = shared.gpuenv("rollback", "--yes", "--python", target)
    assert result.returncode == 0, result.stderr
    assert contents(target) == before


def test_installed_files_equal_those_of_bare_uv_and_only_damaged_ones_are_replaced(shared: Sandbox) -> None:
    """Compared file by file, except the scripts, which name their environment."""
    target, bare = shared.target("ours"), shared.target("bare")
    assert install_outcome(shared, target)[0] == 0
    installed = contents(target)
    shared.add(bare, *(f"{name}=={release}" for name, release in NEW.items()))
    gpuenv_files, uv_files = (
        {path: state for path, state in files.items() if path.startswith("lib/")}
        for files in (installed, contents(bare))
    )
    # The RECORD of NumPy contains digests of the scripts.
    (record,) = [path for path in gpuenv_files if "numpy" in path and path.endswith("/RECORD")]
    assert {**gpuenv_files, record: ""} == {**uv_files, record: ""}

    code, outcome = install_outcome(shared, target)
    assert (code, outcome["status"], outcome["transaction"]) == (0, "unchanged", None)
    assert contents(target) == installed

    (site,) = target.glob("lib/python*/site-packages")
    (site / "cupy/part3.py").unlink()
    (site / "cupy/leftover.py").write_text("left behind\n", encoding="utf-8")
    code, outcome = install_outcome(shared, target)
    assert code == 0
    leftovers = [entry["path"] for entry in outcome["plan"]["leftovers"]]
    assert leftovers == [str((site / "cupy/leftover.py").relative_to(target))]
    assert contents(target) == installed


def test_a_folder_that_lib64_links_to_counts_once(shared: Sandbox) -> None:
    """On Fedora, RHEL and openSUSE, Python lists lib64 first, and venv links it to lib."""
    target = shared.target("lib64")
    (site,) = target.glob("lib/python*/site-packages")
    if not (target / "lib64").exists():  # newer versions of venv link it only where Python uses it
        (target / "lib64").symlink_to("lib")
    site64 = target / "lib64" / site.relative_to(target / "lib")
    code = f"import sys; sys.platlibdir = 'lib64'; sys.path.insert(sys.path.index({str(site)!r}), {str(site64)!r})\n"
    (site / "as_on_fedora.pth").write_text(code, encoding="utf-8")
    shared.add(target, "numpy==1.26.4")
    before = contents(target)
    exit_code, outcome = install_outcome(shared, target, "--assume", "numpy=2.1.0", "cupy>=14", "--allow-changes")
    assert (exit_code, outcome["status"]) == (0, "installed"), outcome["message"]
    assert versions(target) == NEW
    installed = contents(target)
    exit_code, outcome = install_outcome(shared, target)
    assert (exit_code, outcome["status"]) == (0, "unchanged"), outcome["message"]
    assert contents(target) == installed
    assert shared.gpuenv("rollback", "--yes", "--python", target).returncode == 0
    assert contents(target) == before


def test_two_cupy_lines_are_replaced_by_one(shared: Sandbox) -> None:
    target = shared.target("both", "cupy-cuda11x==13.6.0", "cupy-cuda12x==14.2.0", "numpy==2.1.0")
    before = contents(target)
    code, outcome = install_outcome(shared, target)
    assert (code, outcome["status"]) == (0, "installed"), outcome["message"]
    reasons = {entry["name"]: entry["reason"] for entry in outcome["plan"]["remove"]}
    assert reasons == {"cupy-cuda11x": "other-cupy-line", "cupy-cuda12x": "shares-files-with-another-line"}
    assert versions(target) == NEW
    (site,) = target.glob("lib/python*/site-packages")
    assert not (site / "cupy/.data/only11.txt").exists()
    assert (site / "cupy/part0.py").read_text(encoding="utf-8").startswith("# cupy-cuda12x")
    undone = shared.gpuenv("rollback", "--yes", "--python", target)
    assert undone.returncode == 0
    assert "+ cupy-cuda12x 14.2.0 (its former files)" in undone.stdout + undone.stderr
    assert contents(target) == before


@pytest.mark.parametrize("former", [(), ("cupy-cuda12x==14.2.0",)], ids=["alone", "shadowing"])
def test_another_copy_of_cupy_ahead_in_the_path_is_refused(shared: Sandbox, former: tuple[str, ...]) -> None:
    """The same distribution is on PYTHONPATH, and hides the one of the environment."""
    target = shared.target(f"hidden{len(former)}", *former)
    (hidden,) = shared.target(f"other{len(former)}", "cupy-cuda12x==14.2.0").glob("lib/python*/site-packages")
    before = contents(target)
    result = shared.install(target, "cupy-cuda12x", PYTHONPATH=str(hidden))
    assert result.returncode == 7, result.stderr
    assert "off PYTHONPATH" in " ".join(result.stderr.split())
    assert contents(target) == before


def test_another_line_outside_of_the_environment_is_refused_before_any_download(shared: Sandbox) -> None:
    """As in an environment with system packages: the other line would remain, and the install be rolled back."""
    target = shared.target("with-outside")
    (outside,) = shared.target("outside", "cupy-cuda11x==13.6.0").glob("lib/python*/site-packages")
    (site,) = target.glob("lib/python*/site-packages")
    (site / "system.pth").write_text(f"{outside}\n", encoding="utf-8")
    before = contents(target)
    result = shared.install(target)
    assert result.returncode == 7, result.stderr
    assert f"cupy-cuda11x 13.6.0 in {outside} is outside of this environment" in " ".join(result.stderr.split())
    assert contents(target) == before
    diagnosis = shared.gpuenv("doctor", "--python", target, *MACHINE)
    assert diagnosis.returncode == 1, diagnosis.stdout
    assert "--fix" not in diagnosis.stdout, "it refuses too"
    (site / "system.pth").unlink()
    assert shared.install(target).returncode == 0


def test_a_project_of_setup_py_develop_is_removed_by_pip(shared: Sandbox, tmp_path: Path) -> None:
    """The environment has a link to the project, whose files are not to be removed."""
    target = shared.target("develop", pip=True)
    (site,) = target.glob("lib/python*/site-packages")
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy/__init__.py").write_text("__version__ = '15.0.0a1'\n", encoding="utf-8")
    (tmp_path / "cupy.egg-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: cupy\nVersion: 15.0.0a1\n"
    (tmp_path / "cupy.egg-info/PKG-INFO").write_text(metadata, encoding="utf-8")
    (site / "cupy.egg-link").write_text(f"{tmp_path}\n.", encoding="utf-8")
    (site / "easy-install.pth").write_text(f"{tmp_path}\n", encoding="utf-8")
    result = shared.install(target)
    assert result.returncode == 7, result.stderr
    assert f"pip --python {target} uninstall cupy, which keeps that folder" in " ".join(result.stderr.split())
    run([str(target / "bin/python"), "-m", "pip", "uninstall", "--yes", "cupy"], shared.environment())
    assert (tmp_path / "cupy/__init__.py").exists()
    assert shared.install(target).returncode == 0


def test_another_version_of_a_package_of_the_system_needs_consent(shared: Sandbox, tmp_path: Path) -> None:
    """The environment's copy hides that of the system."""
    (former,) = [package for package in SET if package.stem == "cupy_cuda12x-14.2.0"]
    demanding = cupy("cupy-cuda12x", "14.2.0", ctk="12", numpy="numpy>=2.1")
    index = Index(tmp_path / "index", [*(package for package in SET if package != former), demanding])
    with closing(index):
        sandbox = Sandbox(index, tmp_path, shared.libraries)
        target, system = sandbox.target("target"), sandbox.target("system")
        sandbox.add(system, str(make_wheel(tmp_path, numpy("2.0.0"))))
        (outside,) = system.glob("lib/python*/site-packages")
        (site,) = target.glob("lib/python*/site-packages")
        (site / "system.pth").write_text(f"{outside}\n", encoding="utf-8")
        result = sandbox.install(target, "cupy-cuda12x>=14")
        assert result.returncode == 2, result.stderr
        assert "packages other than CuPy's would change: numpy" in " ".join(result.stderr.split())
        assert sandbox.install(target, "cupy-cuda12x>=14", "--allow-changes").returncode == 0
        assert (site / "numpy-2.1.0.dist-info").is_dir()


def test_a_module_that_is_a_link_to_a_checkout_is_refused(shared: Sandbox, tmp_path: Path) -> None:
    checkout = tmp_path / "cupy"
    checkout.mkdir()
    (checkout / "__init__.py").write_text("__version__ = '15.0.0a1'\n", encoding="utf-8")
    target = shared.target("linked")
    (site,) = target.glob("lib/python*/site-packages")
    (site / "cupy").symlink_to(checkout)
    result = shared.install(target, "--dry-run")
    assert result.returncode == 7, result.stderr
    assert f"rm {site}/cupy" in " ".join(result.stderr.split())
    (site / "cupy").unlink()
    assert shared.install(target).returncode == 0


def test_a_numpy_that_is_too_old_is_changed_with_allow_changes(shared: Sandbox) -> None:
    target = shared.target("old-numpy")
    shared.add(target, str(make_wheel(shared.folder, numpy("1.19.5"))))
    result = shared.install(target)
    assert result.returncode == 3, result.stderr
    assert "Pass --allow-changes to change NumPy" in " ".join(result.stderr.split())
    assert "--allow-changes" not in shared.gpuenv("lock", "--python", target, *MACHINE).stderr
    assert shared.install(target, "--allow-changes").returncode == 0


def test_a_cupy_of_setup_py_is_removed_by_pip(shared: Sandbox) -> None:
    """It has a list of its files, and pip before 23.1 installed so from source."""
    target = shared.target("setup-py", "numpy==2.1.0", pip=True)
    (site,) = target.glob("lib/python*/site-packages")
    info = site / "cupy-13.6.0-py3.11.egg-info"
    (site / "cupy").mkdir()
    info.mkdir()
    (site / "cupy/__init__.py").write_text("__version__ = '13.6.0'\n", encoding="utf-8")
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: cupy\nVersion: 13.6.0\n", encoding="utf-8")
    (info / "installed-files.txt").write_text("../cupy/__init__.py\nPKG-INFO\n", encoding="utf-8")
    result = shared.install(target)
    assert result.returncode == 7, result.stderr
    assert f"pip --python {target} uninstall cupy" in " ".join(result.stderr.split())
    run([str(target / "bin/python"), "-m", "pip", "uninstall", "--yes", "cupy"], shared.environment())
    assert shared.install(target).returncode == 0


def test_cuda_wheels_of_another_major_are_removed_unless_required(shared: Sandbox) -> None:
    stray = shared.target("stray", "nvidia-cuda-nvrtc==13.5.37")
    _, outcome = install_outcome(shared, stray)
    assert [(e["name"], e["reason"]) for e in outcome["plan"]["remove"]] == [
        ("nvidia-cuda-nvrtc", "cuda-of-another-major")
    ]
    assert versions(stray) == NEW
    needed = shared.target("needed", "nvidia-cuda-nvrtc==13.5.37", "torch==2.6.0")
    _, outcome = install_outcome(shared, needed)
    assert outcome["plan"]["remove"] == []
    assert "nvidia-cuda-nvrtc 13.5.37 is of another CUDA major version" in outcome["plan"]["notes"][0]
    # CuPy 14 would load that NVRTC; CuPy 13 does not search the packages.
    remaining = {name: release for name, release in versions(needed).items() if name != "numpy"}
    assert remaining == {"cupy-cuda12x": "13.6.0", "torch": "2.6.0", "nvidia-cuda-nvrtc": "13.5.37"}
    assert {check["name"]: check["passed"] for check in outcome["proofs"]}["import torch"]


def test_a_package_pinned_by_another_is_not_changed(shared: Sandbox) -> None:
    """Its pin of NumPy 1 conflicts with CuPy 14; without a requirement, the resolver selects a compatible CuPy."""
    target = shared.target("pinned", "numpy==1.26.4", "old-science==1.0")
    before = contents(target)
    result = shared.install(target, "--assume", "numpy=2.1.0", "cupy>=14")
    assert result.returncode == 3, result.stderr
    assert "numpy" in result.stderr
    assert "Install into a separate environment" in result.stderr
    assert contents(target) == before
    code, outcome = install_outcome(shared, target)
    assert code == 0, outcome["message"]
    assert versions(target) == {"cupy-cuda12x": "13.6.0", "numpy": "1.26.4", "old-science": "1.0"}


def test_an_unwritable_output_path_is_refused_before_the_install(shared: Sandbox, tmp_path: Path) -> None:
    target = shared.target("unwritten")
    before = contents(target)
    for option in ("-o", "--guard"):
        for path, message in ((tmp_path / "none/outcome.json", "there is no folder"), (tmp_path, "it is a folder")):
            result = shared.install(target, option, path)
            assert result.returncode == 2, result.stderr
            assert message in result.stderr
    assert contents(target) == before


def test_an_output_path_on_a_read_only_file_system_is_refused_before_the_install(
    shared: Sandbox, tmp_path: Path
) -> None:
    target = shared.target("read-only")
    before = contents(target)
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "ro", "tmpfs") as folder:
        for option in ("-o", "--guard"):
            result = shared.install(target, option, folder / "outcome.txt")
            assert result.returncode == 2, result.stderr
            assert "is not writable" in result.stderr
    assert contents(target) == before


def test_a_failure_to_write_the_outcome_or_the_guard_does_not_hide_the_install(shared: Sandbox) -> None:
    target = shared.target("full-disk")
    result = shared.install(target, "-o", "/dev/full")
    assert result.returncode == 0, result.stderr
    assert "/dev/full: cannot be written: No space left on device" in result.stderr
    assert "INSTALLED" in result.stderr
    assert versions(target) == NEW
    result = shared.install(target, "--guard", "/dev/full")
    assert result.returncode == 0, result.stderr
    assert "/dev/full: cannot be written: No space left on device" in result.stderr
    assert "already installed" in result.stdout


def test_other_packages_change_only_with_allow_changes(shared: Sandbox) -> None:
    target = shared.target("moves", "numpy==1.26.4", "user-of-numpy==1.0")
    before = contents(target)
    facts = ("--assume", "numpy=2.1.0", "cupy>=14")  # requires NumPy 2
    result = shared.install(target, *facts)
    assert result.returncode == 2
    assert "packages other than CuPy's would change: numpy" in result.stderr
    assert "--allow-changes" in result.stderr
    assert contents(target) == before
    assert shared.install(target, *facts, "--allow-changes").returncode == 0
    assert versions(target) == {**NEW, "user-of-numpy": "1.0"}
    assert shared.gpuenv("rollback", "--yes", "--python", target).returncode == 0
    assert contents(target) == before


def test_a_plan_is_printed_and_nothing_changes_without_consent(shared: Sandbox) -> None:
    target = shared.target("dry", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    before = contents(target)
    command = ("install", "--python", target, "--dry-run", *MACHINE)
    plan = json.loads(shared.gpuenv(*command, "--format", "json").stdout)
    assert plan["schema"] == "gpuenv.plan/1"
    assert {pin["name"]: pin["release"] for pin in plan["install"]} == {k: v for k, v in NEW.items() if k != "numpy"}
    assert all(len(digest) == 64 for pin in plan["install"] for digest in pin["sha256"])
    assert all(pin["sha256"] for pin in plan["install"])
    text = shared.gpuenv(*command, COLUMNS="80").stdout
    assert "- cupy-cuda11x 13.6.0 (another CuPy line" in text
    assert "+ cupy-cuda12x 14.2.0" in text
    assert "The solver of" not in text
    assert "gpuenv rollback" in text
    assert text.isascii()
    refused = shared.gpuenv("install", "--python", target, *MACHINE)
    assert refused.returncode == 2
    assert "+ cupy-cuda12x 14.2.0" in refused.stdout
    assert "--yes" in refused.stderr, "there is no terminal"
    assert contents(target) == before
    assert not (target / ".gpuenv").exists()


def test_a_cupy_line_required_by_another_package_is_not_removed(shared: Sandbox) -> None:
    """A conflict is reported before anything is downloaded."""
    target = shared.target("needed-line", "cupy-cuda11x==13.6.0", "numpy==2.1.0")
    command = ("install", "--python", target, "--dry-run", *MACHINE)
    shared.add(target, str(make_wheel(shared.folder, Package("old-tool", "1.0", ("cupy-cuda11x",)))))
    before = contents(target)
    kept = shared.gpuenv(*command)
    assert kept.returncode == 0, kept.stderr
    assert "already installed" in kept.stdout
    requests = len(shared.index.requests)
    refused = shared.gpuenv(*command, "cupy-cuda12x")
    assert refused.returncode == 3
    assert "needs old-tool built for CUDA 12 or absent" in " ".join(refused.stderr.split())
    assert contents(target) == before
    shared.add(target, str(make_wheel(shared.folder, Package("old-tool", "2.0", ("cupy-cuda11x<13",)))))
    refused = shared.gpuenv(*command)
    assert refused.returncode == 3
    assert "old-tool" in refused.stderr
    assert len(shared.index.requests) == requests


def test_the_newest_release_that_another_package_allows_is_planned(shared: Sandbox) -> None:
    """Without a toolkit on the host, and with one that fits, whose gigabytes are not downloaded again."""
    target = shared.target("limited")
    options = ("--python", target, *MACHINE, "--assume", "toolkit=12.9", "--format", "json")

    def planned() -> list[str]:
        plan = json.loads(shared.gpuenv("install", *options, "--dry-run").stdout)
        resolution = json.loads(shared.gpuenv("resolve", *options).stdout)
        assert plan["requirements"] == resolution["wheel"]["requirements"]
        return [*plan["requirements"]]

    assert planned() == ["cupy-cuda12x==14.2.0"]
    shared.add(target, str(make_wheel(shared.folder, Package("a-library", "1.0", ("cupy-cuda12x<14",)))))
    assert planned() == ["cupy-cuda12x==13.6.0"]


def test_a_solver_confirms_what_resolve_prints(shared: Sandbox, tmp_path: Path) -> None:
    """The index, the constraints and the packages of the target decide together."""
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("numpy==1.26.4\n", encoding="utf-8")
    target = shared.target("solved")
    command = ("resolve", "--python", target, "--format=json", *MACHINE)
    unsolved = json.loads(shared.gpuenv(*command, UV_CONSTRAINT=str(constraints)).stdout)
    assert (unsolved["solved"], unsolved["wheel"]["requirements"]) == (False, ["cupy-cuda12x[ctk]==14.2.0"])
    solved = json.loads(shared.gpuenv(*command, "--solve", UV_CONSTRAINT=str(constraints)).stdout)
    assert (solved["solved"], solved["wheel"]["requirements"]) == (True, ["cupy-cuda12x==13.6.0"])
    first, second, *_ = solved["explanation"].splitlines()
    assert first == "cupy-cuda12x[ctk] 14.2.0 fits best."
    assert re.fullmatch(r"The solver of uv [\d.]+ chooses cupy-cuda12x 13\.6\.0\.", second)
    dry_run = ("install", "--python", target, "--dry-run", *MACHINE, "--format=json")
    plan = json.loads(shared.gpuenv(*dry_run, UV_CONSTRAINT=str(constraints)).stdout)
    assert plan["requirements"] == solved["wheel"]["requirements"]
    assert {pin["name"]: pin["release"] for pin in plan["install"]}["numpy"] == "1.26.4"
    assert "the libraries and headers of a toolkit" in plan["needs_toolkit"]
    text = shared.gpuenv("resolve", "--python", target, *MACHINE, "--solve").stdout
    assert "+ cupy-cuda12x 14.2.0" in text
    assert not list(target.glob(".gpuenv")), "nothing was changed"


def test_solving_needs_an_environment(shared: Sandbox) -> None:
    result = shared.gpuenv("resolve", "--solve", "--no-probe", *MACHINE)
    assert result.returncode == 2
    assert "--solve needs this machine's environment" in " ".join(result.stderr.split())


def test_a_requirement_restricts_the_choice(shared: Sandbox) -> None:
    target = shared.target("wanted")
    command = ("install", "--python", target, "--dry-run", *MACHINE)
    result = shared.gpuenv(*command, "cupy<14", "cupy-cuda11x", "--format=json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["requirements"] == ["cupy-cuda11x==13.6.0"]
    for wanted, code, text in (
        ("numpy<2", 2, "is not a requirement on CuPy"),
        ("cupy-cuda12x==9.0.0", 3, "the matrix has no such release"),
        ("cupy-cuda12x[ctk]==9.0.0", 3, "the matrix has no such release"),
        ("cupy-cuda12x[ctk]==13.6.0", 3, "cupy-cuda12x has the extra [ctk] from 14.0.0 on"),
        ("cupy-cuda11x[ctk]", 3, "cupy-cuda11x has no extra [ctk]"),
        ("cupy-cuda12x[nope]", 3, "cupy-cuda12x has no extra [nope]"),
        ("cupy-cuda13x[ctk]", 3, "needs compute capability >= 7.5"),
        ('cupy-cuda12x[ctk]>=14; python_version>"3.8"', 2, "markers and URLs are not supported here"),
        (
            "cupy-cuda12x @ https://example.org/cupy_cuda12x-14.2.0-py3-none-any.whl",
            2,
            "markers and URLs are not supported here",
        ),
    ):
        result = shared.gpuenv(*command, wanted)
        assert result.returncode == code, result.stderr
        assert text in " ".join(result.stderr.split())


@pytest.mark.parametrize(("command", "version"), [("install", "2.7"), ("lock", "3.6")])
def test_a_python_that_is_too_old_is_reported(shared: Sandbox, command: str, version: str) -> None:
    """Including Python 2, which the probe script must support."""
    result = shared.gpuenv(command, "--python", python(version), *MACHINE)
    assert result.returncode == 3, result.stderr
    assert f"found {version}." in result.stderr
    assert "Create an environment with Python 3." in result.stderr
    assert "for another machine" not in result.stderr


def test_an_externally_managed_python_is_refused(shared: Sandbox) -> None:
    python_path = Path("/usr/bin/python3")
    markers = list(Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED"))
    if not python_path.exists() or not markers:
        pytest.skip("no externally managed Python")
    result = shared.gpuenv("install", "--python", python_path, "--yes", *MACHINE)
    assert result.returncode == 7
    assert "--break-system-packages" in result.stderr
    assert "python3 -m venv" in result.stderr


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_break_system_packages_reaches_every_run_of_the_installer(shared: Sandbox, installer: str) -> None:
    """The index lacks the installed NumPy, so uv looks at the environment, which it refuses without the option."""
    target = make_system_python(shared.folder / f"managed-{installer}", managed=True)
    install(shared, target / "bin/python", make_wheel(shared.folder, numpy("2.0.5")))
    if installer == "pip" and (wheel := bundled_pip()):  # else that of gpuenv's own environment is used
        install(shared, target / "bin/python", wheel)
    options = ("--installer", installer, "--break-system-packages")
    exit_code, outcome = install_outcome(shared, target / "bin/python", *options)
    assert (exit_code, outcome["status"]) == (0, "installed"), outcome["message"]
    assert versions(target) == {**NEW, "numpy": "2.0.5"}
