"""The distributions: built here, without a network, and installed into an environment of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv import __version__
from gpuenv.simulate.stub_driver import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable

PROJECT = Path(__file__).resolve().parents[1]
NEEDED = ("pyproject.toml", "gpuenv", "images", "matrix.yaml", "README.md", "LICENSE")
MINIMAL = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def run(command: Iterable[object], cwd: Path) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=MINIMAL, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True, slots=True)
class Built:
    """What was built: from the checkout, and once more from the source distribution alone."""

    sdist: Path
    wheel: Path
    wheel_of_sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    if any(not (PROJECT / name).exists() for name in NEEDED):
        pytest.skip("the tests do not run in a checkout")
    hatchling = [sys.executable, "-m", "hatchling", "build", "-d", folder]
    run([*hatchling, "-t", "sdist", "-t", "wheel"], PROJECT)
    (sdist,) = folder.glob("*.tar.gz")
    (folder / "unpacked").mkdir()
    run(["tar", "-xf", sdist, "-C", folder / "unpacked"], folder)
    (source,) = (folder / "unpacked").iterdir()
    run([*hatchling[:-1], folder / "again", "-t", "wheel"], source)
    (wheel,), (again,) = folder.glob("*.whl"), (folder / "again").glob("*.whl")
    return Built(sdist, wheel, again)


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; what it depends on is found where these tests have it."""
    folder = tmp_path_factory.mktemp("installed")
    run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], folder)
    interpreter = folder / "venv/bin/python"
    options = ["--offline", "--no-index", "--no-deps", "--no-config", "--no-cache", "--python", interpreter]
    run([sys.executable, "-m", "uv", "pip", "install", *options, built.wheel], folder)
    (site_packages,) = (folder / "venv").glob("lib/python*/site-packages")
    # A path file's own lines are not searched for further path files: an editable gpuenv there is not seen.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "venv"


def in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def in_sdist(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def tracked(folder: str) -> set[str]:
    """The files of a folder of the checkout that are to be shipped; the compiled matrix is made anew by each build."""
    found = (path for path in (PROJECT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    found = (path for path in found if path.name != "matrix.json")
    return {path.relative_to(PROJECT).as_posix() for path in found}


def test_the_wheel_holds_the_package_and_its_data(built: Built) -> None:
    files = in_wheel(built.wheel)
    lacking = tracked("gpuenv") - files
    assert lacking == set()
    assert {"gpuenv/data/matrix.yaml", "gpuenv/data/matrix.json"} <= files
    assert {f"gpuenv/data/{name}" for name in tracked("images")} <= files
    assert {name for name in files if name.startswith("gpuenv/probe/scripts/")}
    assert {f"gpuenv/data/native/{name}" for name in SOURCES} <= files
    assert "gpuenv/data/machines/h200-580.yaml" in files


def test_the_wheel_holds_nothing_else(built: Built) -> None:
    dist_info = f"gpuenv-{__version__}.dist-info/"
    expected = (
        tracked("gpuenv")
        | {f"gpuenv/data/{name}" for name in tracked("images")}
        | {"gpuenv/data/matrix.yaml", "gpuenv/data/matrix.json"}
    )
    expected |= {f"gpuenv/data/{name.removeprefix('tests/')}" for name in tracked("tests/machines")}
    expected |= {f"gpuenv/data/native/{name}" for name in SOURCES}
    strangers = {name for name in in_wheel(built.wheel) if not name.startswith(dist_info)} - expected
    assert strangers == set()


def test_the_source_distribution_holds_all_that_building_and_testing_need(built: Built) -> None:
    files = in_sdist(built.sdist)
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "matrix.yaml", "PKG-INFO"} <= files
    for folder in ("examples", "gpuenv", "images", "tests", "tools"):
        assert tracked(folder) - files == set()
    assert {name for name in files if name.startswith((".venv", ".git/", "dist/"))} == set()


def test_a_wheel_made_from_the_source_distribution_is_the_same(built: Built) -> None:
    assert in_wheel(built.wheel_of_sdist) == in_wheel(built.wheel)
    with zipfile.ZipFile(built.wheel) as one, zipfile.ZipFile(built.wheel_of_sdist) as other:
        for name in sorted(in_wheel(built.wheel)):
            assert one.read(name) == other.read(name), name


def test_the_metadata_say_what_the_package_says(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"gpuenv-{__version__}.dist-info/METADATA").decode())
    assert (metadata["Name"], metadata["Version"]) == ("gpuenv", __version__)
    assert metadata["License-Expression"] == "MIT"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.10"
    assert metadata["Description-Content-Type"] == "text/markdown"
    required = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    names = {re.split(r"[<>=!~ ;\[]", text)[0].lower() for text in required}
    assert names == {"typer", "rich", "packaging", "nvidia-ml-py", "pyyaml", "tomli"}


def test_a_package_that_says_it_is_typed_is_taken_to_be(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        assert b"Typing :: Typed" in archive.read(f"gpuenv-{__version__}.dist-info/METADATA")
    assert "gpuenv/py.typed" in in_wheel(built.wheel)


@pytest.mark.parametrize("program", [["bin/gpuenv"], ["bin/python", "-m", "gpuenv"]], ids=" ".join)
def test_the_installed_program_runs(installed: Path, tmp_path: Path, program: list[str]) -> None:
    command = [installed / program[0], *program[1:]]
    assert run([*command, "--version"], tmp_path) == f"gpuenv {__version__}\n"
    assert run([*command, "matrix", "check"], tmp_path).startswith("valid: ")
    assert "cupy-cuda" in run([*command, "resolve", "--no-probe", "--assume", "gpu=H100"], tmp_path)
    assert "h200-580" in run([*command, "simulate", "--list"], tmp_path)


def test_the_installed_program_builds_the_stub_driver_it_carries(installed: Path, tmp_path: Path) -> None:
    command = ["env", f"XDG_CACHE_HOME={tmp_path}", installed / "bin/gpuenv", "simulate", "h200-580", "--"]
    assert "NVIDIA H200" in run([*command, "nvidia-smi"], tmp_path)


def test_the_installed_program_uses_its_own_files(installed: Path, tmp_path: Path) -> None:
    code = (
        "import gpuenv, gpuenv.data as d, gpuenv.probe.context as a\n"
        "print(gpuenv.__file__, d.data_path('matrix.yaml'), d.data_path('images'), a.script('nvml.py'), sep='\\n')\n"
    )
    for line in run([installed / "bin/python", "-c", code], tmp_path).splitlines():
        assert Path(line).is_relative_to(installed)
        assert Path(line).exists()


def test_the_installed_program_probes(installed: Path, tmp_path: Path) -> None:
    """The probing scripts are files that are run by their path: they must be there, and find pynvml."""
    command = [installed / "bin/gpuenv", "probe", "--timeout", "20", "--python", installed, "--no-redact"]
    text = run([*command, "--driver-root", tmp_path], tmp_path)
    assert f"target.prefix: {installed} [" in text
    states = dict(re.findall(r"^sources\[\d\]\.name: (\S+)\nsources\[\d\]\.state: (\S+)$", text, re.MULTILINE))
    assert states["kernel"] == states["target"] == "answered"
    assert states["nvml"] in ("answered", "absent")
