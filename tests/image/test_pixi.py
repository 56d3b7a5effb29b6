"""What pixi installs in an image, by its manifest and by its commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.image.dockerfiles import SLIM, judged, told

if TYPE_CHECKING:
    from pathlib import Path

BASE = "FROM ghcr.io/prefix-dev/pixi:0.72.0"
INSTALL = f"{BASE}\nWORKDIR /app\nCOPY . .\nRUN pixi install"
HEAD = '[workspace]\nname = "x"\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n'
BOTH = (
    f'{HEAD}\n[dependencies]\ncupy = "14.2.*"\n\n'
    '[pypi-dependencies]\ncupy-cuda12x = { version = "==14.2.0", extras = ["ctk"] }\n'
)
FEATURES = (
    f'{HEAD}[dependencies]\npython = "3.12.*"\n[feature.gpu.dependencies]\ncupy = ">=14,<15"\n'
    '[feature.gpu.pypi-dependencies]\ncupy-cuda12x = "==14.2.0"\n'
    '[environments]\ngpu = ["gpu"]\nbare = { features = [], no-default-feature = true }\n'
)


def found(folder: Path, text: str, manifest: str, name: str = "pixi.toml") -> list[tuple[str, str, int | None]]:
    return told(judged(folder, text, {name: manifest}))


def test_packages_of_both_kinds_in_one_environment_are_two_cupys(tmp_path: Path) -> None:
    assert found(tmp_path, INSTALL, BOTH) == [("DKF905", "pixi.toml", 10)]


@pytest.mark.parametrize(
    "command",
    [
        "pixi run --frozen start",
        "pixi i",
        "pixi -v --color never install",
        "pixi -m . shell-hook",
        "pixi install --manifest-path pixi.toml",
        "pixi shell-hook -s bash > /e.sh",
    ],
)
def test_each_command_that_installs_is_known(tmp_path: Path, command: str) -> None:
    text = INSTALL.replace("pixi install", command)
    assert [code for code, _, _ in found(tmp_path, text, BOTH)] == ["DKF905"]


@pytest.mark.parametrize(
    ("option", "codes"),
    [("", []), (" -e gpu", ["DKF905"]), (" --environment=bare", []), (" --all", [])],
)
def test_what_counts_is_the_environment_that_is_installed(tmp_path: Path, option: str, codes: list[str]) -> None:
    assert [code for code, _, _ in found(tmp_path, INSTALL + option, FEATURES)] == codes


def test_lines_in_environments_of_their_own_are_no_conflict(tmp_path: Path) -> None:
    """Each is a folder of its own."""
    manifest = (
        f'{HEAD}[feature.old.pypi-dependencies]\ncupy-cuda13x = {{ version = "==14.2.0", extras = ["ctk"] }}\n'
        '[feature.new.pypi-dependencies]\ncupy-cuda12x = { version = "==14.2.0", extras = ["ctk"] }\n'
        '[environments]\nold = ["old"]\nnew = ["new"]\n'
    )
    assert found(tmp_path, f"{INSTALL} --all", manifest) == []
    both = manifest.replace('new = ["new"]', 'new = ["old", "new"]')
    assert [code for code, _, _ in found(tmp_path, f"{INSTALL} -e new", both)] == ["DKF905"]


def test_pyproject_is_a_manifest_too(tmp_path: Path) -> None:
    project = '[project]\nname = "x"\ndependencies = ["cupy-cuda12x[ctk]==14.2.0"]\n'
    pixi = (
        "[tool.pixi.workspace]\nchannels = []\n"
        "[tool.pixi.pypi-dependencies]\ncupy-cuda13x = { version = '==14.2.0', extras = ['ctk'] }\n"
    )
    assert found(tmp_path, INSTALL, project, "pyproject.toml") == [], "it has nothing of pixi's"
    assert [code for code, _, _ in found(tmp_path, INSTALL, project + pixi, "pyproject.toml")] == ["DKF905"]


def test_what_is_for_another_system_is_not_installed(tmp_path: Path) -> None:
    other = f'{HEAD}[target.win-64.pypi-dependencies]\ncupy = "*"\n'
    assert found(tmp_path, INSTALL, other) == []
    here = other.replace("win-64", "linux-64")
    assert found(tmp_path, INSTALL, here) == [("DKF906", "pixi.toml", 6)]


@pytest.mark.parametrize("value", ['{ git = "https://github.com/cupy/cupy" }', '{ path = "./cupy" }', '"*"'])
def test_cupy_from_source(tmp_path: Path, value: str) -> None:
    manifest = f"{HEAD}[pypi-dependencies]\ncupy = {value}\n"
    assert found(tmp_path, INSTALL, manifest) == [("DKF906", "pixi.toml", 6)]


@pytest.mark.parametrize("place", ['url = "https://example.invalid/{}#sha256=0"', 'path = "./{}"'])
def test_a_file_that_is_named_is_what_is_installed(tmp_path: Path, place: str) -> None:
    head, text = f"{HEAD}[pypi-dependencies]\n", INSTALL.replace(BASE, "FROM nvidia/cuda:12.9.1-devel-ubuntu24.04")
    wheel = place.format("cupy_cuda12x-14.2.0-cp312-cp312-manylinux2014_x86_64.whl")
    assert found(tmp_path, text, f"{head}cupy-cuda12x = {{ {wheel} }}\n") == []
    source = place.format("cupy-14.2.0.tar.gz")
    assert found(tmp_path, text, f"{head}cupy = {{ {source} }}\n") == [("DKF906", "pixi.toml", 6)]


def test_a_lock_pins(tmp_path: Path) -> None:
    manifest = f'{HEAD}[pypi-dependencies]\ncupy-cuda12x = {{ version = "*", extras = ["ctk"] }}\n'
    assert found(tmp_path, INSTALL, manifest) == [("DKF907", "pixi.toml", 6)]
    (tmp_path / "pixi.lock").write_text("version: 6\n", encoding="utf-8")
    assert found(tmp_path, INSTALL, manifest) == []


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ("pixi add --pypi cupy", ["DKF906"]),
        ("pixi add --feature gpu cupy=14.2", []),
        ("pixi add cupy=14.2 && pixi add --pypi 'cupy-cuda12x[ctk]==14.2.0'", ["DKF905"]),
        ("pixi add cupy=14.2 && pixi add --feature pip --pypi 'cupy-cuda12x[ctk]==14.2.0'", []),
        ("pixi run pip install cupy", ["DKF906"]),
        ("pixi global install cupy", []),
        ("pixi", []),
    ],
)
def test_commands_by_themselves(tmp_path: Path, command: str, codes: list[str]) -> None:
    assert [code for code, _, _ in told(judged(tmp_path, f"{SLIM}\nRUN {command}"))] == codes


@pytest.mark.parametrize(
    "manifest",
    [
        "[",
        "environments = 3\nfeature = 1\ndependencies = []\n",
        "[environments]\ndefault = 3\n",
    ],
)
def test_a_manifest_that_is_none_says_nothing(tmp_path: Path, manifest: str) -> None:
    assert found(tmp_path, f"{INSTALL} --all", manifest) == []
