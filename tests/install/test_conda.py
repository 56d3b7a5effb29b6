"""Installs into conda environments: real prefixes, and packages from a local channel, built and linked by rattler.

The conda programs are not available to the tests: fake_conda.py stands in for them, and test_conda_output.py tests
the parsers of their output.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rattler.index import index_fs

from tests.install.conda_sandbox import FORMER, SITE, Conda, conda, cupy, distribution, make_package
from tests.install.sandbox import MACHINE, contents

__all__ = ["conda"]


@pytest.mark.parametrize("program", ["conda", "mamba", "micromamba"])
def test_an_install_follows_its_specifications_and_is_rolled_back(conda: Conda, program: str) -> None:
    before = conda.files()
    code, outcome = conda.install("--installer", program, PATH=f"{conda.folder / program}:{os.defpath}")
    assert (code, outcome["status"]) == (0, "installed"), outcome["message"]
    assert outcome["plan"]["installer"].startswith(program)
    assert outcome["plan"]["requirements"] == ["cupy=14.1.1", "cuda-version=12"]
    assert conda.packages() == {**FORMER, "cuda-version": "12.9", "cupy": "14.1.1", "_mutex": "0.1"}
    assert {check["name"]: check["passed"] for check in outcome["proofs"]} == {
        "as planned": True,
        "files": True,
        "import cupy": True,
        "doctor": True,
        "smoke test": None,
    }
    assert any("experimental" in note for note in outcome["plan"]["notes"])
    assert outcome["plan"]["moves"] == []
    listed = json.loads(conda.gpuenv("rollback", "--python", conda.prefix, "--list", "--format", "json").stdout)
    assert "cupy 14.1.1" in listed["installs"][0]["summary"]
    result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix)
    assert result.returncode == 0, result.stderr
    assert conda.packages() == FORMER
    assert conda.files() == before
    history = (conda.prefix / "conda-meta/history").read_text(encoding="utf-8")
    assert "--revision=0" in history


def test_a_gpu_that_only_some_cuda_minors_serve_gets_one_of_these(conda: Conda) -> None:
    channel = conda.folder / "channels/conda-forge"
    make_package(channel, "cuda-version", "12.6", {"share/cuda-12.6": ""})
    asyncio.run(index_fs(channel, force=True))
    code, outcome = conda.install("--assume", "driver=570.86.10", "--assume", "gpu=RTX 5090", machine=())
    assert (code, outcome["status"]) == (0, "installed"), outcome["message"]
    assert outcome["plan"]["requirements"] == ["cupy=14.1.1", "cuda-version>=12.8,<13"]
    assert conda.packages()["cuda-version"] == "12.9"


def test_a_dry_run_shows_the_plan_and_that_it_is_experimental(conda: Conda) -> None:
    before = contents(conda.prefix)
    result = conda.gpuenv("install", "--python", conda.prefix, "--dry-run", *MACHINE, "-v")
    assert result.returncode == 0, result.stderr
    text = " ".join(result.stdout.split())
    for part in (
        "+ cupy 14.1.1",
        "cuda-version 12.9 (now 13.0)",
        "experimental",
        "--channel=conda-forge",
        "gpuenv rollback",
    ):
        assert part in text, (part, text)
    assert contents(conda.prefix) == before


def test_an_install_without_a_terminal_needs_yes(conda: Conda) -> None:
    before = contents(conda.prefix)
    result = conda.gpuenv("install", "--python", conda.prefix, *MACHINE)
    assert result.returncode == 2
    assert "experimental" in result.stdout
    assert "--yes" in result.stderr
    assert {path: state for path, state in contents(conda.prefix).items() if ".gpuenv" not in path} == before


@pytest.mark.parametrize("failure", ["fails", "killed"])
def test_the_former_packages_are_restored_after_a_partial_install(conda: Conda, failure: str) -> None:
    """Packages are removed, none is linked, and conda's history has no entry: the exact packages are reinstalled."""
    before = conda.files()
    if failure == "fails":
        code, outcome = conda.install(FAIL_AFTER="2")
        assert (code, outcome["status"]) == (4, "restored"), outcome
        assert "No space left" in outcome["message"]
        assert "the former packages were restored" in outcome["message"]
    else:
        command = ("install", "--python", conda.prefix, "--yes", *MACHINE)
        result = conda.gpuenv(*command, FAIL_AFTER="2", KILL_PARENT="1")
        assert result.returncode == -9
        assert conda.packages() != FORMER
        result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix)
        assert result.returncode == 0, result.stderr
        assert "was rolled back" in result.stderr
    assert conda.packages() == FORMER
    assert conda.files() == before


def test_a_cupy_that_fails_to_import_is_rolled_back(conda: Conda) -> None:
    before = conda.files()
    (conda.prefix / SITE / "sitecustomize.py").write_text("import sys\nsys.modules['cupy'] = None\n", encoding="utf-8")
    code, outcome = conda.install()
    assert (code, outcome["status"]) == (4, "restored"), outcome
    assert "import cupy" in outcome["message"]
    (conda.prefix / SITE / "sitecustomize.py").unlink()
    assert conda.packages() == FORMER
    assert conda.files() == before
    assert "--revision=0" in (conda.prefix / "conda-meta/history").read_text(encoding="utf-8")


def test_a_rollback_works_with_a_program_that_ignores_revision(conda: Conda) -> None:
    """mamba did so for years: the result is checked, and the exact packages are installed instead."""
    before = conda.files()
    assert conda.install()[0] == 0
    result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix, IGNORE_REVISION="1")
    assert result.returncode == 0, result.stderr
    assert conda.packages() == FORMER
    assert conda.files() == before


def test_the_plan_of_a_rollback_names_its_installer(conda: Conda) -> None:
    assert conda.install()[0] == 0
    result = conda.gpuenv("rollback", "--python", conda.prefix, "--dry-run")
    assert result.returncode == 0, result.stderr
    assert "installer conda 25.9.1" in result.stdout
    assert "install 0001: conda 25.9.1 restores the former packages" in " ".join(result.stdout.split())
    assert "0 files" not in result.stdout


@pytest.mark.parametrize("record", ["[]", '{"name": "a", "version": "1", "paths_data": [1]}', "{}", "7"])
def test_a_malformed_conda_record_is_named(conda: Conda, record: str) -> None:
    path = conda.prefix / "conda-meta/strange-1-0.json"
    path.write_text(record, encoding="utf-8")
    code, outcome = conda.install()
    assert code == 7
    assert f"{path}: conda's record cannot be read" in outcome["message"]


def test_an_install_that_leaves_a_damaged_record_is_restored_once_it_is_removed(conda: Conda) -> None:
    """As on a disk that was full for a moment."""
    before, path = conda.files(), conda.prefix / "conda-meta/cut-1-0.json"
    program, original = conda.folder / "conda/conda", conda.folder / "sound/conda"
    original.parent.mkdir()
    program.rename(original)
    script = (
        f'#!/bin/sh\n{original} "$@"\ncode=$?\ncase " $* " in *" --dry-run "*|*" --version "*) exit $code ;; esac\n'
    )
    program.write_text(f"{script}touch {path}\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    code, outcome = conda.install()
    assert (code, outcome["status"]) == (4, "not-restored"), outcome
    assert any(f"{path}: conda's record cannot be read" in text for text in outcome["not_restored"])
    assert "gpuenv rollback" in outcome["remedy"]
    path.unlink()
    original.replace(program)
    result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix)
    assert result.returncode == 0, result.stderr
    assert conda.packages() == FORMER
    assert conda.files() == before


def test_a_rollback_refuses_to_undo_later_changes(conda: Conda) -> None:
    assert conda.install()[0] == 0
    record = next((conda.prefix / "conda-meta").glob("science-*.json"))
    record.rename(conda.folder / record.name)
    result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix)
    assert result.returncode == 4, result.stderr
    assert "science" in result.stderr


def test_other_packages_change_only_with_allow_changes(conda: Conda) -> None:
    make_package(conda.folder / "channels/conda-forge", "science", "2.0", {"share/science": "2"})
    channel = conda.folder / "channels/conda-forge"
    make_package(channel, "cupy", "14.1.1", cupy("14.1.1"), "science >=2", "cuda-version >=12.2,<13")
    asyncio.run(index_fs(channel, force=True))
    result = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE)
    assert result.returncode == 2, result.stderr
    assert "packages other than CuPy's would change: science" in result.stderr
    assert conda.packages() == FORMER
    code, outcome = conda.install("--allow-changes")
    assert (code, outcome["plan"]["moves"]) == (0, ["science"])
    assert conda.packages()["science"] == "2.0"


def test_a_release_missing_from_the_channel_is_reported(conda: Conda) -> None:
    for file in (conda.folder / "channels/conda-forge/noarch").glob("cupy-14*"):
        file.unlink()
    asyncio.run(index_fs(conda.folder / "channels/conda-forge", force=True))
    for program in ("conda", "mamba"):
        result = conda.gpuenv(
            "install", "--python", conda.prefix, "--yes", *MACHINE, PATH=f"{conda.folder / program}:/bin"
        )
        assert result.returncode == 3, result.stderr
        assert "cupy" in result.stderr
    assert conda.packages() == FORMER


def test_a_second_install_changes_nothing(conda: Conda) -> None:
    assert conda.install()[0] == 0
    before = contents(conda.prefix)
    code, outcome = conda.install()
    assert (code, outcome["status"]) == (0, "unchanged")
    assert contents(conda.prefix) == before


def test_a_cupy_installed_by_pip_is_not_overwritten(conda: Conda) -> None:
    info = conda.prefix / SITE / "cupy_cuda12x-14.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cupy-cuda12x\nVersion: 14.0.0\n", encoding="utf-8")
    (info / "INSTALLER").write_text("pip\n", encoding="utf-8")
    result = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE)
    assert result.returncode == 7, result.stderr
    assert "pip uninstall cupy-cuda12x" in result.stderr
    assert conda.packages() == FORMER


def test_a_pixi_environment_is_refused_with_a_pixi_command(conda: Conda) -> None:
    mark = conda.prefix / "conda-meta/pixi"
    mark.write_text(json.dumps({"manifest_path": "/home/me/my project/pixi.toml"}), encoding="utf-8")
    result = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE)
    assert result.returncode == 7, result.stderr
    assert "pixi add '--manifest-path=/home/me/my project/pixi.toml' cupy=14.1.1 cuda-version=12" in result.stderr
    assert conda.packages() == FORMER


def test_a_missing_conda_program_is_reported_with_its_variable(conda: Conda) -> None:
    result = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE, PATH=os.defpath)
    assert result.returncode == 7
    for part in ("CONDA_EXE", "--installer uv"):
        assert part in result.stderr
    code, _ = conda.install(PATH=os.defpath, MAMBA_EXE=str(conda.folder / "micromamba/micromamba"))
    assert code == 0


@pytest.mark.parametrize("option", ["--locked", "--bundle", "--guard"])
def test_options_for_wheels_are_refused_in_conda_environments(tmp_path: Path, conda: Conda, option: str) -> None:
    lockfile = tmp_path / "requirements.txt"
    lockfile.write_text(f"numpy==2.1.0 --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    result = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE, option, lockfile)
    assert result.returncode == 2, result.stderr
    assert "is for wheels" in result.stderr


def test_the_conda_installer_is_refused_for_other_environments(tmp_path: Path, conda: Conda) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    result = conda.gpuenv("install", "--python", venv, "--yes", *MACHINE, "--installer", "conda")
    assert result.returncode == 7, result.stderr
    assert "is not a conda environment" in result.stderr
    result = conda.gpuenv("lock", "--python", venv, *MACHINE, "--installer", "mamba")
    assert result.returncode == 2
    assert "'mamba' is not one of 'auto', 'uv', 'pip'" in result.stderr, "only wheels are locked"


def test_the_journal_contains_no_secrets_from_urls(conda: Conda) -> None:
    for path in (conda.prefix / "conda-meta").glob("science-*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        record["url"] = "https://alice:hunter2@host/t/tk-sekret/conda-forge/noarch/science-1.0-0.tar.bz2"
        path.write_text(json.dumps(record), encoding="utf-8")
    assert conda.install()[0] == 0
    journal = "".join(
        path.read_text(encoding="utf-8") for path in (conda.prefix / ".gpuenv/0001").iterdir() if path.is_file()
    )
    assert "science-1.0-0.tar.bz2" in journal
    assert "hunter2" not in journal
    assert "sekret" not in journal


def test_the_doctor_installs_a_missing_cupy_with_conda(conda: Conda) -> None:
    """conda installs CuPy in the same transaction, which can be rolled back."""
    before = conda.files()
    command = ("doctor", "--python", conda.prefix, *MACHINE, "--format", "json", "--no-redact")
    findings = json.loads(conda.gpuenv(*command).stdout)["findings"]
    (finding,) = [entry for entry in findings if entry["code"] == "WHL503"]
    own, by_hand = (fix["command"] for fix in finding["fix"] if fix["command"])
    assert own == ["gpuenv", "install", "--python", str(conda.prefix)]
    assert by_hand[:3] == ["conda", "install", f"--prefix={conda.prefix}"]
    assert by_hand[-2:] == ["cupy=14.1.1", "cuda-version=12"]
    result = conda.gpuenv(*command, "--fix", "--yes")
    report = json.loads(result.stdout)
    assert report["repair"]["status"] == "mended", (report["repair"], result.stderr)
    assert "WHL503" in report["repair"]["gone"]
    assert conda.packages() == {**FORMER, "cuda-version": "12.9", "cupy": "14.1.1", "_mutex": "0.1"}
    result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix, report["repair"]["transaction"])
    assert result.returncode == 0, result.stderr
    assert conda.packages() == FORMER
    assert conda.files() == before


def test_the_doctor_installs_the_release_for_an_old_numpy_with_conda(conda: Conda) -> None:
    program = conda.folder / "conda/conda"
    command = [str(program), "install", f"--prefix={conda.prefix}", "--yes", "--json", "--channel=conda-forge"]
    subprocess.run([*command, "numpy=1.26.4"], env=conda.environment(), check=True, capture_output=True)
    doctor = ("doctor", "--python", conda.prefix, *MACHINE, "--format", "json", "--no-redact")
    findings = json.loads(conda.gpuenv(*doctor).stdout)["findings"]
    (finding,) = [entry for entry in findings if entry["code"] == "WHL503"]
    _, by_hand = (fix["command"] for fix in finding["fix"] if fix["command"])
    assert by_hand == [
        *("conda", "install", f"--prefix={conda.prefix}", "--channel=conda-forge"),
        *("cupy=13.6.0", "cuda-version=12"),  # fits this NumPy
    ]
    report = json.loads(conda.gpuenv(*doctor, "--fix", "--yes").stdout)
    assert (report["repair"]["status"], report["repair"]["left"]) == ("mended", [])
    assert conda.packages() == {**FORMER, "numpy": "1.26.4", "cuda-version": "12.9", "cupy": "13.6.0"}


def test_a_damaged_conda_package_gets_a_command_as_its_fix(conda: Conda) -> None:
    """The fix for a deleted file of a conda package is a command; nothing is changed."""
    assert conda.install()[0] == 0
    (info,) = (conda.prefix / SITE).glob("cupy-*.dist-info")
    (info / "RECORD").write_text("cupy/gone.py,sha256=x,3\n", encoding="utf-8")
    before = contents(conda.prefix)
    result = conda.gpuenv("doctor", "--python", conda.prefix, *MACHINE, "--format", "json", "--no-redact", "--fix")
    report = json.loads(result.stdout)
    commands = [
        fix["command"] for finding in report["findings"] for fix in finding["fix"] if finding["code"] == "WHL510"
    ]
    arguments = ("--channel=conda-forge", "cupy=14.1.1")  # the installed release: only files are replaced
    assert commands == [["conda", "install", "--force-reinstall", f"--prefix={conda.prefix}", *arguments]]
    assert report["repair"]["status"] == "nothing-to-mend"
    assert contents(conda.prefix) == before


H100 = ("--assume", "driver=580.95.05", "--assume", "gpu=H100", "--format", "json", "--no-redact")
# What packages of conda-forge require, by its recipes: name, release, build and requirements.
FORGE = [
    *(("cuda-version", release, "0", ()) for release in ("12.4", "12.8", "13.1")),
    ("cuda-cudart", "12.9.79", "0", ("cuda-version >=12.9,<12.10.0a0",)),
    ("cuda-cudart", "13.0.96", "0", ("cuda-version >=13.0,<13.1.0a0",)),
    ("pytorch", "2.8.0", "cuda129_0", ("cuda-version >=12.9,<13", "numpy >=1.23,<3")),
    ("pytorch", "2.8.0", "cuda130_0", ("cuda-version >=13.0,<14", "numpy >=1.23,<3")),
    ("pytorch", "2.8.0", "cpu_0", ("numpy >=1.23,<3",)),
    ("libcudf", "26.10.00", "cuda12_0", ("cuda-version >=12.2,<13.0a0",)),
    ("gromacs", "2026.1", "cuda_0", ("cuda-version >=12.9,<13", "cuda-cudart")),
]


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [
        (("pytorch[version='==2.8.0',build='cuda129_0']",), ["cupy=14.1.1", "cuda-version=12"]),
        (("pytorch[version='==2.8.0',build='cuda130_0']",), ["cupy=14.1.1", "cuda-version=13"]),
        (("pytorch[version='==2.8.0',build='cpu_0']", "cuda-version=12.4"), ["cupy=14.1.1", "cuda-version=13"]),
        (("libcudf", "cuda-version=12.8", "numpy=1.26.4"), ["cupy=13.6.0", "cuda-version=12"]),
        (("gromacs",), ["cupy=14.1.1", "cuda-version=12"]),
        (("cuda-cudart=12.9",), ["cupy=14.1.1", "cuda-version=13"]),
    ],
    ids=" ".join,
)
def test_the_choice_with_condas_packages_is_the_plan_and_moves_nothing(
    conda: Conda, installed: tuple[str, ...], chosen: list[str]
) -> None:
    channel = conda.folder / "channels/conda-forge"
    for name, release, build, depends in FORGE:
        files = distribution("torch", release) if name == "pytorch" else {f"share/{name}": release}
        make_package(channel, name, release, files, *depends, build=build)
    for release, numpy in (("14.1.1", "numpy >=2.0"), ("13.6.0", "numpy >=1.22")):
        make_package(channel, "cupy", release, cupy(release), numpy, "cuda-version >=13.0,<14", build="cuda13_0")
    asyncio.run(index_fs(channel, force=True))
    program = [str(conda.folder / "conda/conda"), "install", f"--prefix={conda.prefix}", "--yes", "--json"]
    command = [*program, "--channel=conda-forge", *installed]
    subprocess.run(command, env=conda.environment(), check=True, capture_output=True)
    resolution = json.loads(conda.gpuenv("resolve", "--python", conda.prefix, *H100).stdout)
    plan = json.loads(conda.gpuenv("install", "--dry-run", "--python", conda.prefix, *H100).stdout)
    assert resolution["conda"]["specs"] == chosen
    assert (plan["requirements"], plan["moves"]) == (chosen, [])


@pytest.mark.parametrize("name", ["with space and 'quotes'", "--name=x; $(touch pwned)", "%s{0}#@!"])
def test_a_path_is_never_an_option_or_a_command(conda: Conda, name: str) -> None:
    prefix = conda.prefix.rename(conda.prefix.with_name(name))
    renamed = Conda(conda.folder, prefix, conda.libraries)
    code, outcome = renamed.install()
    assert code == 0, outcome["message"]
    assert renamed.packages()["cupy"] == "14.1.1"
    assert list(conda.folder.rglob("pwned")) == []
