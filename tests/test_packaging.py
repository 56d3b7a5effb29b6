"""The wheel and the source distribution: built without a network and installed into a new environment."""

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
import yaml

from gpuenv import __version__
from gpuenv.simulate.stub_driver import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable

PROJECT = Path(__file__).resolve().parents[1]
BUILD_INPUTS = ("pyproject.toml", "gpuenv", "images", "matrix.yaml", "README.md", "LICENSE")
MINIMAL = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def run(command: Iterable[object], cwd: Path) -> str:
    result = subprocess.run(
        [*map(str, command)], cwd=cwd, env=MINIMAL, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@dataclass(frozen=True, slots=True)
class Distributions:
    """Distributions built from the checkout, and a wheel built from the source distribution."""

    sdist: Path
    wheel: Path
    wheel_of_sdist: Path


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    folder = tmp_path_factory.mktemp("built")
    if any(not (PROJECT / name).exists() for name in BUILD_INPUTS):
        pytest.skip("the tests do not run in a checkout")
    hatchling = [sys.executable, "-m", "hatchling", "build", "-d", folder]
    run([*hatchling, "-t", "sdist", "-t", "wheel"], PROJECT)
    (sdist,) = folder.glob("*.tar.gz")
    (folder / "unpacked").mkdir()
    run(["tar", "-xf", sdist, "-C", folder / "unpacked"], folder)
    (source,) = (folder / "unpacked").iterdir()
    run([*hatchling[:-1], folder / "again", "-t", "wheel"], source)
    (wheel,), (wheel_of_sdist,) = folder.glob("*.whl"), (folder / "again").glob("*.whl")
    return Distributions(sdist, wheel, wheel_of_sdist)


@pytest.fixture(scope="module")
def installed(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel; the dependencies come from the environment of these tests."""
    folder = tmp_path_factory.mktemp("installed")
    run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], folder)
    interpreter = folder / "venv/bin/python"
    options = ["--offline", "--no-index", "--no-deps", "--no-config", "--no-cache", "--python", interpreter]
    run([sys.executable, "-m", "uv", "pip", "install", *options, distributions.wheel], folder)
    (site_packages,) = (folder / "venv").glob("lib/python*/site-packages")
    # A path file's own lines are not searched for further path files: an editable gpuenv there is not seen.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "venv"


def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def sdist_files(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def shipped_files(folder: str) -> set[str]:
    """The files of a folder of the checkout that are shipped, without the compiled data, which each build creates."""
    paths = (path for path in (PROJECT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    paths = (path for path in paths if path.name not in ("matrix.json", "messages.json"))
    return {path.relative_to(PROJECT).as_posix() for path in paths}


def test_the_wheel_contains_the_package_and_its_data(distributions: Distributions) -> None:
    files = wheel_files(distributions.wheel)
    missing = shipped_files("gpuenv") - shipped_files("gpuenv/data/messages") - files
    assert missing == set()
    assert {"gpuenv/data/matrix.yaml", "gpuenv/data/matrix.json", "gpuenv/data/products.csv"} <= files
    assert "gpuenv/data/messages.json" in files, "compiled from gpuenv/data/messages"
    assert {f"gpuenv/data/{name}" for name in shipped_files("images")} <= files
    assert {name for name in files if name.startswith("gpuenv/probe/scripts/")}
    assert {f"gpuenv/data/native/{name}" for name in SOURCES} <= files
    assert "gpuenv/data/machines/h200-580.yaml" in files


def test_installing_the_wheel_installs_the_manual_page(installed: Path) -> None:
    assert (installed / "share/man/man1/gpuenv.1").read_bytes() == (PROJECT / "man/gpuenv.1").read_bytes()


def test_the_wheel_contains_nothing_else(distributions: Distributions) -> None:
    dist_info = f"gpuenv-{__version__}.dist-info/"
    expected = (
        shipped_files("gpuenv")
        | {f"gpuenv/data/{name}" for name in shipped_files("images")}
        | {"gpuenv/data/matrix.yaml", "gpuenv/data/matrix.json", "gpuenv/data/messages.json"}
    )
    expected |= {f"gpuenv/data/{name.removeprefix('tests/')}" for name in shipped_files("tests/machines")}
    expected |= {f"gpuenv/data/native/{name}" for name in SOURCES}
    expected.add(f"gpuenv-{__version__}.data/data/share/man/man1/gpuenv.1")
    unexpected = {name for name in wheel_files(distributions.wheel) if not name.startswith(dist_info)} - expected
    assert unexpected == set()


def test_the_source_distribution_contains_all_files_to_build_and_test(distributions: Distributions) -> None:
    files = sdist_files(distributions.sdist)
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "matrix.yaml", "PKG-INFO"} <= files
    assert {"CITATION.cff", "SECURITY.md", "docs/conf.py", "docs/index.md", "docs/_static/doctor.svg"} <= files
    for folder in ("examples", "gpuenv", "images", "man", "tests", "tools"):
        assert shipped_files(folder) - files == set()
    assert {name for name in files if name.startswith((".venv", ".git/", "dist/"))} == set()


def test_a_wheel_built_from_the_source_distribution_is_identical(distributions: Distributions) -> None:
    assert wheel_files(distributions.wheel_of_sdist) == wheel_files(distributions.wheel)
    with zipfile.ZipFile(distributions.wheel) as one, zipfile.ZipFile(distributions.wheel_of_sdist) as other:
        for name in sorted(wheel_files(distributions.wheel)):
            assert one.read(name) == other.read(name), name


def test_the_metadata_agree_with_the_package(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"gpuenv-{__version__}.dist-info/METADATA").decode())
    assert (metadata["Name"], metadata["Version"]) == ("gpuenv", __version__)
    assert metadata["License-Expression"] == "MIT"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.10"
    assert metadata["Description-Content-Type"] == "text/markdown"
    required = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    names = {re.split(r"[<>=!~ ;\[]", text)[0].lower() for text in required}
    assert names == {"typer", "rich", "packaging", "nvidia-ml-py", "pyyaml", "tomli"}


def test_the_metadata_can_be_published(distributions: Distributions) -> None:
    """Their form, and whether the index can render the README."""
    run([sys.executable, "-m", "twine", "check", "--strict", distributions.sdist, distributions.wheel], PROJECT)


def test_the_citation_names_the_version() -> None:
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["title"], citation["version"], citation["license"]) == ("gpuenv", __version__, "MIT")


def test_the_wheel_is_marked_as_typed(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as archive:
        assert b"Typing :: Typed" in archive.read(f"gpuenv-{__version__}.dist-info/METADATA")
    assert "gpuenv/py.typed" in wheel_files(distributions.wheel)


@pytest.mark.parametrize("program", [["bin/gpuenv"], ["bin/python", "-m", "gpuenv"]], ids=" ".join)
def test_the_installed_program_runs(installed: Path, tmp_path: Path, program: list[str]) -> None:
    command = [installed / program[0], *program[1:]]
    assert run([*command, "--version"], tmp_path) == f"gpuenv {__version__}\n"
    assert run([*command, "matrix", "check"], tmp_path).startswith("valid: ")
    assert "cupy-cuda" in run([*command, "resolve", "--no-probe", "--assume", "gpu=H100"], tmp_path)
    assert "h200-580" in run([*command, "simulate", "--list"], tmp_path)


def test_the_installed_program_builds_its_stub_driver(installed: Path, tmp_path: Path) -> None:
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
    """The probe scripts are run by path, so they must be installed and find pynvml."""
    command = [installed / "bin/gpuenv", "probe", "--timeout", "20", "--python", installed, "--no-redact"]
    text = run([*command, "--driver-root", tmp_path], tmp_path)
    assert f"target.prefix: {installed} [" in text
    states = dict(re.findall(r"^sources\[\d\]\.name: (\S+)\nsources\[\d\]\.state: (\S+)$", text, re.MULTILINE))
    assert states["kernel"] == states["target"] == "answered"
    assert states["nvml"] in ("answered", "absent")
