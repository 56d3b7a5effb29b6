"""Installing into conda environments: real prefixes and packages from a local channel, made and linked by rattler.

None of conda's programs can be had where these tests run: what stands in for them is in fake_conda.py, and what they
print is tested against their documentation in test_conda_output.py.
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

from tests.install.conda_sandbox import FORMER, SITE, Conda, conda, cupy, make_package
from tests.install.sandbox import MACHINE, contents

__all__ = ["conda"]


@pytest.mark.parametrize("program", ["conda", "mamba", "micromamba"])
def test_the_specifications_land_and_the_revision_leads_back(conda: Conda, program: str) -> None:
    before = conda.files()
    code, told = conda.install("--installer", program, PATH=f"{conda.folder / program}:{os.defpath}")
    assert (code, told["status"]) == (0, "installed"), told["message"]
    assert told["plan"]["installer"].startswith(program)
    assert told["plan"]["requirements"] == ["cupy=14.1.1", "cuda-version=12"]
    assert conda.packages() == {**FORMER, "cuda-version": "12.9", "cupy": "14.1.1", "_mutex": "0.1"}
    assert {proof["name"]: proof["passed"] for proof in told["proofs"]} == {
        "as planned": True,
        "files": True,
        "import cupy": True,
        "doctor": True,
        "smoke test": None,
    }
    assert any("young" in note for note in told["plan"]["notes"])
    assert told["plan"]["moves"] == []
    listed = json.loads(conda.gpuenv("rollback", "--python", conda.prefix, "--list", "--format", "json").stdout)
    assert "cupy 14.1.1" in listed["installs"][0]["summary"]
    done = conda.gpuenv("rollback", "--python", conda.prefix)
    assert done.returncode == 0, done.stderr
    assert conda.packages() == FORMER
    assert conda.files() == before
    history = (conda.prefix / "conda-meta/history").read_text(encoding="utf-8")
    assert "--revision=0" in history


def test_a_dry_run_shows_the_plan_and_how_young_it_is(conda: Conda) -> None:
    before = contents(conda.prefix)
    done = conda.gpuenv("install", "--python", conda.prefix, "--dry-run", *MACHINE, "-v")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    for said in ("+ cupy 14.1.1", "cuda-version 12.9 (now 13.0)", "young", "--channel=conda-forge", "gpuenv rollback"):
        assert said in text, (said, text)
    assert contents(conda.prefix) == before


def test_consent_is_asked_for(conda: Conda) -> None:
    before = contents(conda.prefix)
    done = conda.gpuenv("install", "--python", conda.prefix, *MACHINE)
    assert done.returncode == 2
    assert "young" in done.stdout
    assert "--yes" in done.stderr
    assert {path: told for path, told in contents(conda.prefix).items() if ".gpuenv" not in path} == before


@pytest.mark.parametrize("how", ["fails", "killed"])
def test_what_ends_in_the_middle_is_put_back(conda: Conda, how: str) -> None:
    """Packages are out, none is in, and conda's history knows of nothing: the exact packages are put in once more."""
    before = conda.files()
    if how == "fails":
        code, told = conda.install(FAIL_AFTER="2")
        assert (code, told["status"]) == (4, "restored"), told
        assert "No space left" in told["message"]
        assert "the former packages were restored" in told["message"]
    else:
        command = ("install", "--python", conda.prefix, "--yes", *MACHINE)
        done = conda.gpuenv(*command, FAIL_AFTER="2", KILL_PARENT="1")
        assert done.returncode == -9
        assert conda.packages() != FORMER
        done = conda.gpuenv("rollback", "--python", conda.prefix, "--list")
        assert done.returncode == 0, done.stderr
        assert "was rolled back" in done.stderr
    assert conda.packages() == FORMER
    assert conda.files() == before


def test_a_cupy_that_cannot_be_imported_is_taken_back(conda: Conda) -> None:
    before = conda.files()
    (conda.prefix / SITE / "sitecustomize.py").write_text("import sys\nsys.modules['cupy'] = None\n", encoding="utf-8")
    code, told = conda.install()
    assert (code, told["status"]) == (4, "restored"), told
    assert "import cupy" in told["message"]
    (conda.prefix / SITE / "sitecustomize.py").unlink()
    assert conda.packages() == FORMER
    assert conda.files() == before
    assert "--revision=0" in (conda.prefix / "conda-meta/history").read_text(encoding="utf-8")


def test_a_program_that_takes_a_revision_and_does_nothing(conda: Conda) -> None:
    """As mamba did for years: what came of it is looked at, and another way is taken."""
    before = conda.files()
    assert conda.install()[0] == 0
    done = conda.gpuenv("rollback", "--python", conda.prefix, DEAF="1")
    assert done.returncode == 0, done.stderr
    assert conda.packages() == FORMER
    assert conda.files() == before


def test_the_plan_of_the_way_back_says_whose_it_is(conda: Conda) -> None:
    assert conda.install()[0] == 0
    done = conda.gpuenv("rollback", "--python", conda.prefix, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "installer conda 25.9.1" in done.stdout
    assert "install 0001: conda 25.9.1 puts the former packages back" in " ".join(done.stdout.split())
    assert "0 files" not in done.stdout


@pytest.mark.parametrize("record", ["[]", '{"name": "a", "version": "1", "paths_data": [1]}', "{}", "7"])
def test_a_record_of_another_form_is_named(conda: Conda, record: str) -> None:
    path = conda.prefix / "conda-meta/strange-1-0.json"
    path.write_text(record, encoding="utf-8")
    code, told = conda.install()
    assert code == 7
    assert f"{path}: conda's record cannot be read" in told["message"]


def test_what_others_installed_since_is_not_rolled_over(conda: Conda) -> None:
    assert conda.install()[0] == 0
    record = next((conda.prefix / "conda-meta").glob("science-*.json"))
    record.rename(conda.folder / record.name)
    done = conda.gpuenv("rollback", "--python", conda.prefix)
    assert done.returncode == 4, done.stderr
    assert "science" in done.stderr


def test_packages_of_others_move_with_consent_alone(conda: Conda) -> None:
    make_package(conda.folder / "channels/conda-forge", "science", "2.0", {"share/science": "2"})
    channel = conda.folder / "channels/conda-forge"
    make_package(channel, "cupy", "14.1.1", cupy("14.1.1"), "science >=2", "cuda-version >=12.2,<13")
    asyncio.run(index_fs(channel, force=True))
    done = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE)
    assert done.returncode == 2, done.stderr
    assert "packages other than CuPy's would change: science" in done.stderr
    assert conda.packages() == FORMER
    code, told = conda.install("--allow-changes")
    assert (code, told["plan"]["moves"]) == (0, ["science"])
    assert conda.packages()["science"] == "2.0"


def test_what_cannot_be_had_is_told(conda: Conda) -> None:
    for file in (conda.folder / "channels/conda-forge/noarch").glob("cupy-14*"):
        file.unlink()
    asyncio.run(index_fs(conda.folder / "channels/conda-forge", force=True))
    for program in ("conda", "mamba"):
        done = conda.gpuenv(
            "install", "--python", conda.prefix, "--yes", *MACHINE, PATH=f"{conda.folder / program}:/bin"
        )
        assert done.returncode == 3, done.stderr
        assert "cupy" in done.stderr
    assert conda.packages() == FORMER


def test_nothing_to_do_is_nothing_done(conda: Conda) -> None:
    assert conda.install()[0] == 0
    before = contents(conda.prefix)
    code, told = conda.install()
    assert (code, told["status"]) == (0, "unchanged")
    assert contents(conda.prefix) == before


def test_a_cupy_of_pip_s_is_not_overwritten(conda: Conda) -> None:
    info = conda.prefix / SITE / "cupy_cuda12x-14.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cupy-cuda12x\nVersion: 14.0.0\n", encoding="utf-8")
    (info / "INSTALLER").write_text("pip\n", encoding="utf-8")
    done = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE)
    assert done.returncode == 7, done.stderr
    assert "pip uninstall cupy-cuda12x" in done.stderr
    assert conda.packages() == FORMER


def test_a_pixi_environment_is_left_to_pixi(conda: Conda) -> None:
    mark = conda.prefix / "conda-meta/pixi"
    mark.write_text(json.dumps({"manifest_path": "/home/me/my project/pixi.toml"}), encoding="utf-8")
    done = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE)
    assert done.returncode == 7, done.stderr
    assert "pixi add '--manifest-path=/home/me/my project/pixi.toml' cupy=14.1.1 cuda-version=12" in done.stderr
    assert conda.packages() == FORMER


def test_without_any_program_it_says_where_one_is_looked_for(conda: Conda) -> None:
    done = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE, PATH=os.defpath)
    assert done.returncode == 7
    for said in ("CONDA_EXE", "--installer uv"):
        assert said in done.stderr
    code, _ = conda.install(PATH=os.defpath, MAMBA_EXE=str(conda.folder / "micromamba/micromamba"))
    assert code == 0


@pytest.mark.parametrize("option", ["--locked", "--bundle", "--guard"])
def test_what_is_for_wheels_alone(tmp_path: Path, conda: Conda, option: str) -> None:
    given = tmp_path / "requirements.txt"
    given.write_text(f"numpy==2.1.0 --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    done = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE, option, given)
    assert done.returncode == 2, done.stderr
    assert "is for wheels" in done.stderr


def test_conda_is_not_for_other_environments(tmp_path: Path, conda: Conda) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    done = conda.gpuenv("install", "--python", venv, "--yes", *MACHINE, "--installer", "conda")
    assert done.returncode == 7, done.stderr
    assert "is not a conda environment" in done.stderr
    done = conda.gpuenv("lock", "--python", venv, *MACHINE, "--installer", "mamba")
    assert done.returncode == 2
    assert "'mamba' is not one of 'auto', 'uv', 'pip'" in done.stderr, "wheels alone are locked"


def test_secrets_in_addresses_reach_no_journal(conda: Conda) -> None:
    for path in (conda.prefix / "conda-meta").glob("science-*.json"):
        told = json.loads(path.read_text(encoding="utf-8"))
        told["url"] = "https://alice:hunter2@host/t/tk-sekret/conda-forge/noarch/science-1.0-0.tar.bz2"
        path.write_text(json.dumps(told), encoding="utf-8")
    assert conda.install()[0] == 0
    kept = "".join(
        path.read_text(encoding="utf-8") for path in (conda.prefix / ".gpuenv/0001").iterdir() if path.is_file()
    )
    assert "science-1.0-0.tar.bz2" in kept
    assert "hunter2" not in kept
    assert "sekret" not in kept


def test_the_doctor_mends_through_conda(conda: Conda) -> None:
    """No CuPy there: conda puts one in, by the same transaction, and its revisions lead back."""
    before = conda.files()
    asked = ("doctor", "--python", conda.prefix, *MACHINE, "--format", "json", "--no-redact")
    found = json.loads(conda.gpuenv(*asked).stdout)["findings"]
    cure = next(fix["command"] for finding in found if finding["code"] == "WHL503" for fix in finding["fix"])
    assert cure[:3] == ["conda", "install", f"--prefix={conda.prefix}"]
    assert cure[-2:] == ["cupy=14.1.1", "cuda-version=12"]
    done = conda.gpuenv(*asked, "--fix", "--yes")
    told = json.loads(done.stdout)
    assert told["repair"]["status"] == "mended", (told["repair"], done.stderr)
    assert "WHL503" in told["repair"]["gone"]
    assert conda.packages() == {**FORMER, "cuda-version": "12.9", "cupy": "14.1.1", "_mutex": "0.1"}
    done = conda.gpuenv("rollback", "--python", conda.prefix, told["repair"]["transaction"])
    assert done.returncode == 0, done.stderr
    assert conda.packages() == FORMER
    assert conda.files() == before


def test_the_doctor_lets_conda_move_a_numpy_that_is_too_old(conda: Conda) -> None:
    program = conda.folder / "conda/conda"
    command = [str(program), "install", f"--prefix={conda.prefix}", "--yes", "--json", "--channel=conda-forge"]
    subprocess.run([*command, "numpy=1.26.4"], env=conda.environment(), check=True, capture_output=True)
    asked = ("doctor", "--python", conda.prefix, *MACHINE, "--format", "json", "--no-redact")
    found = json.loads(conda.gpuenv(*asked).stdout)["findings"]
    (cure,) = (fix["command"] for f in found if f["code"] == "WHL503" for fix in f["fix"] if fix["command"])
    assert cure == [
        *("conda", "install", f"--prefix={conda.prefix}", "--channel=conda-forge"),
        *("cupy=14.1.1", "cuda-version=12", "numpy>=2.0"),
    ]
    told = json.loads(conda.gpuenv(*asked, "--fix", "--yes").stdout)
    assert (told["repair"]["status"], told["repair"]["left"]) == ("mended", [])
    assert conda.packages() == {**FORMER, "cuda-version": "12.9", "cupy": "14.1.1", "_mutex": "0.1"}


def test_what_conda_alone_can_put_in_anew_is_said(conda: Conda) -> None:
    """A deleted file of a package of conda's: the command is told, and nothing is done."""
    assert conda.install()[0] == 0
    (info,) = (conda.prefix / SITE).glob("cupy-*.dist-info")
    (info / "RECORD").write_text("cupy/gone.py,sha256=x,3\n", encoding="utf-8")
    before = contents(conda.prefix)
    done = conda.gpuenv("doctor", "--python", conda.prefix, *MACHINE, "--format", "json", "--no-redact", "--fix")
    told = json.loads(done.stdout)
    commands = [fix["command"] for finding in told["findings"] for fix in finding["fix"] if finding["code"] == "WHL510"]
    same = ("--channel=conda-forge", "cupy=14.1.1")  # the release that is there: only files are to be put in anew
    assert commands == [["conda", "install", "--force-reinstall", f"--prefix={conda.prefix}", *same]]
    assert told["repair"]["status"] == "nothing-to-mend"
    assert contents(conda.prefix) == before


@pytest.mark.parametrize("name", ["with space and 'quotes'", "--name=x; $(touch pwned)", "%s{0}#@!"])
def test_a_path_is_only_a_path(conda: Conda, name: str) -> None:
    moved = conda.prefix.rename(conda.prefix.with_name(name))
    other = Conda(conda.folder, moved, conda.libraries)
    code, told = other.install()
    assert code == 0, told["message"]
    assert other.packages()["cupy"] == "14.1.1"
    assert list(conda.folder.rglob("pwned")) == []
