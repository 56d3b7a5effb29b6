"""The real, newest CuPy of the package index, on a machine without CUDA: what is said of it against what it does."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuenv.model.nvidia import CUDA_LIBRARIES

pytestmark = pytest.mark.network

LINE = "cupy-cuda12x"
NVRTC, OTHER_NVRTC = "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc"
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
SONAMES = [library.soname for library in CUDA_LIBRARIES[12]]

# Loads NVRTC as a program would, and tells which file the kernel has mapped for it.
MAPPED = """
def mapped():
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[-1].strip() for line in maps if "libnvrtc.so" in line}
    return sorted(paths)
"""
BY_CUPY = MAPPED + "from cupy.cuda import nvrtc\nnvrtc.getVersion()\nprint(*mapped())\n"
BY_FINDER = MAPPED + "from cuda.pathfinder import load_nvidia_dynamic_lib as load\nload('nvrtc')\nprint(*mapped())\n"


def in_target(target: Path, program: str) -> subprocess.CompletedProcess[str]:
    command = [str(target / "bin/python"), "-c", program]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120)


def uv(*arguments: str | Path) -> None:
    """uv with its usual cache, so that a second run downloads nothing; a failure says what it said."""
    command = [sys.executable, "-m", "uv", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr


def gpuenv(command: str, target: Path, *options: str) -> tuple[int, Any]:
    words = [sys.executable, "-m", "gpuenv", command, "--python", str(target), "--format", "json", "--no-redact"]
    done = subprocess.run([*words, *options], env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, json.loads(done.stdout)


def findings_of(target: Path) -> dict[str, Any]:
    """What the doctor finds there, for a machine whose driver and GPU are right."""
    given = ("driver=580.95.05", "gpu=H100", "env.LD_LIBRARY_PATH=none")
    _, report = gpuenv("doctor", target, *(part for text in given for part in ("--assume", text)))
    return {finding["code"]: finding for finding in report["findings"]}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with CuPy and NumPy, and none of the CUDA wheels."""
    there = [name for name in ("nvrtc", "cublas", "cufft") if ctypes.util.find_library(name)]
    if there:
        pytest.skip(f"the loader of this machine finds CUDA libraries: {', '.join(there)}")
    folder = tmp_path_factory.mktemp("bare") / "venv"
    uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder / "bin/python", LINE, "numpy")
    return folder


@pytest.fixture(scope="module")
def with_nvrtc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvrtc") / "venv"
    uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder / "bin/python", LINE, "numpy", NVRTC)
    return folder


def test_the_prober_reads_the_real_wheel_as_python_itself_does(bare: Path) -> None:
    program = "import importlib.metadata as m; print(m.version('cupy-cuda12x'), m.version('numpy'))"
    cupy, numpy = in_target(bare, program).stdout.split()
    code, facts = gpuenv("probe", bare)
    target = facts["target"]
    assert code == 0
    (installed,) = target["cupy"]
    assert (installed["distribution"], installed["release"]) == (LINE, cupy)
    assert Path(installed["location"]).is_relative_to(bare)
    assert installed["for_this_interpreter"] is True
    assert installed["tags"][0].startswith("cp{}{}-".format(*sys.version_info[:2]))
    module = in_target(bare, "import cupy; print(cupy.__file__)").stdout.strip()
    assert module == installed["module"] == target["cupy_module"]["value"]
    assert target["made_by"]["value"] == "uv"
    assert (target["file_faults"], target["file_faults_count"]["value"]) == ([], 0)
    assert target["numpy"]["value"] == numpy
    assert (target["kind"]["value"], target["prefix"]["value"]) == ("venv", str(bare))
    assert target["packages"][LINE] == cupy


def test_the_matrix_knows_the_newest_release(bare: Path) -> None:
    _, facts = gpuenv("probe", bare)
    _, report = gpuenv("doctor", bare, "--assume", "driver=580.95.05", "--assume", "gpu=H100")
    release = facts["target"]["packages"][LINE]
    assert report["resolution"]["wheel"]["version"] == release, "the matrix is behind the package index"


def test_every_cuda_library_is_said_to_be_missing_where_none_is(bare: Path) -> None:
    _, facts = gpuenv("probe", bare)
    told = facts["target"]["libraries"]
    assert [library["soname"] for library in told if not library["optional"]] == SONAMES
    assert {library["path"] for library in told} == {None}
    assert {library["name"] for library in told if library["optional"]} == {"nccl", "cutensor"}
    for soname in SONAMES:
        assert in_target(bare, f"import ctypes; ctypes.CDLL({soname!r})").returncode == 1, "so it is indeed"


def test_the_doctor_names_what_the_wheel_lacks(bare: Path) -> None:
    found = findings_of(bare)
    assert "LIB601" in found, list(found)
    assert found["LIB601"]["cause"] == "cuda-library-missing"
    assert {entry["fact"] for entry in found["LIB601"]["evidence"]} >= set(SONAMES)


def test_without_its_libraries_cupy_is_imported_and_does_not_work(bare: Path) -> None:
    """As the check's words have it: import cupy succeeds without them; the first kernel or product fails."""
    assert in_target(bare, "import cupy").returncode == 0
    compiled = in_target(bare, BY_CUPY)
    assert compiled.returncode == 1
    assert "libnvrtc" in compiled.stderr
    multiplied = in_target(bare, "import cupy_backends.cuda.libs.cublas")
    assert multiplied.returncode == 1
    assert "libcublas.so.12" in multiplied.stderr


def test_asking_for_libraries_changes_nothing_in_the_target(bare: Path) -> None:
    before = sorted(path for path in bare.rglob("*") if "__pycache__" not in path.parts)
    gpuenv("probe", bare)
    assert sorted(path for path in bare.rglob("*") if "__pycache__" not in path.parts) == before


def test_the_file_that_is_told_is_the_one_that_is_loaded(with_nvrtc: Path) -> None:
    _, facts = gpuenv("probe", with_nvrtc)
    libraries = {library["name"]: library for library in facts["target"]["libraries"]}
    nvrtc, built_in = libraries.pop("nvrtc"), libraries.pop("nvrtc-builtins")
    assert nvrtc["soname"] == "libnvrtc.so.12"
    assert built_in["soname"] == "libnvrtc-builtins.so." + nvrtc["release"]
    assert Path(built_in["path"]).parent == Path(nvrtc["path"]).parent
    for program in (BY_CUPY, BY_FINDER):
        done = in_target(with_nvrtc, program)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [nvrtc["path"]]
    assert Path(nvrtc["path"]).is_relative_to(with_nvrtc)
    assert {library["path"] for library in libraries.values()} == {None}
    assert NVRTC in facts["target"]["packages"]


def test_a_library_of_another_major_that_cupy_loads_first_is_told(with_nvrtc: Path, tmp_path: Path) -> None:
    """cuda-pathfinder tries CUDA 13 before 12, also for a CuPy of CUDA 12."""
    folder = tmp_path / "venv"
    uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder / "bin/python", LINE, "numpy", NVRTC, OTHER_NVRTC)
    loaded = in_target(folder, BY_CUPY)
    assert loaded.returncode == 0, loaded.stderr
    (path,) = loaded.stdout.split()
    _, facts = gpuenv("probe", folder)
    nvrtc = facts["target"]["libraries"][0]
    assert nvrtc["finder_path"] == path
    found = findings_of(folder)
    if Path(path).name.startswith("libnvrtc.so.12"):
        assert "LIB603" not in found
    else:
        assert found["LIB603"]["cause"] == "library-path-conflict"
        assert path in found["LIB603"]["title"]
    assert "LIB603" not in findings_of(with_nvrtc)
