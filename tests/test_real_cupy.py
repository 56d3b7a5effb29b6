"""gpuenv's report on the newest CuPy of the package index, compared with CuPy itself, on a machine without CUDA."""

from __future__ import annotations

import ctypes.util
import json
import os
import shutil
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

# Loads NVRTC and prints the file that is mapped for it.
MAPPED = """
def mapped():
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[-1].strip() for line in maps if "libnvrtc.so" in line}
    return sorted(paths)
"""
LOAD_BY_CUPY = MAPPED + "from cupy.cuda import nvrtc\nnvrtc.getVersion()\nprint(*mapped())\n"
LOAD_BY_FINDER = (
    MAPPED + "from cuda.pathfinder import load_nvidia_dynamic_lib as load\nload('nvrtc')\nprint(*mapped())\n"
)


def run_in_target(target: Path, program: str) -> subprocess.CompletedProcess[str]:
    command = [str(target / "bin/python"), "-c", program]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120)


def uv(*arguments: str | Path) -> None:
    """Runs uv with its default cache, so that a second run downloads nothing."""
    command = [sys.executable, "-m", "uv", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 0, result.stderr


def gpuenv(command: str, target: Path, *options: str) -> tuple[int, Any]:
    words = [sys.executable, "-m", "gpuenv", command, "--python", str(target), "--format", "json", "--no-redact"]
    result = subprocess.run(
        [*words, *options], env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120
    )
    return result.returncode, json.loads(result.stdout)


def findings_of(target: Path) -> dict[str, Any]:
    """The doctor's findings on the target, for a machine with a working driver and GPU."""
    assumptions = ("driver=580.95.05", "gpu=H100", "env.LD_LIBRARY_PATH=none")
    _, report = gpuenv("doctor", target, *(part for text in assumptions for part in ("--assume", text)))
    return {finding["code"]: finding for finding in report["findings"]}


@pytest.fixture(scope="module")
def cupy_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with CuPy and NumPy but without CUDA wheels."""
    libraries = [name for name in ("nvrtc", "cublas", "cufft") if ctypes.util.find_library(name)]
    if libraries:
        pytest.skip(f"the loader of this machine finds CUDA libraries: {', '.join(libraries)}")
    folder = tmp_path_factory.mktemp("cupy-only") / "venv"
    uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder / "bin/python", LINE, "numpy")
    return folder


@pytest.fixture(scope="module")
def with_nvrtc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvrtc") / "venv"
    uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder / "bin/python", LINE, "numpy", NVRTC)
    return folder


def test_the_probe_reads_the_wheel_as_importlib_metadata_does(cupy_only: Path) -> None:
    program = "import importlib.metadata as m; print(m.version('cupy-cuda12x'), m.version('numpy'))"
    cupy, numpy = run_in_target(cupy_only, program).stdout.split()
    code, facts = gpuenv("probe", cupy_only)
    target = facts["target"]
    assert code == 0
    (installed,) = target["cupy"]
    assert (installed["distribution"], installed["release"]) == (LINE, cupy)
    assert Path(installed["location"]).is_relative_to(cupy_only)
    assert installed["for_this_interpreter"] is True
    assert installed["tags"][0].startswith("cp{}{}-".format(*sys.version_info[:2]))
    module = run_in_target(cupy_only, "import cupy; print(cupy.__file__)").stdout.strip()
    assert module == installed["module"] == target["cupy_module"]["value"]
    assert target["made_by"]["value"] == "uv"
    assert (target["file_faults"], target["file_faults_count"]["value"]) == ([], 0)
    assert target["numpy"]["value"] == numpy
    assert (target["kind"]["value"], target["prefix"]["value"]) == ("venv", str(cupy_only))
    assert target["packages"][LINE] == cupy


@pytest.mark.parametrize(("machine", "cuda"), [("library-missing", None), ("v100-580", "12.9")])
def test_cupy_finds_the_headers_of_a_simulated_machine_and_not_those_of_this_host(
    cupy_only: Path, machine: str, cuda: str | None
) -> None:
    words = [sys.executable, "-m", "gpuenv", "probe", "--python", str(cupy_only), "--format", "json", "--no-redact"]
    simulated = [sys.executable, "-m", "gpuenv", "simulate", machine, "--", *words]
    done = subprocess.run(simulated, env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout)["target"]["headers_cuda"]["value"] == cuda


def test_the_matrix_knows_the_newest_release(cupy_only: Path) -> None:
    _, facts = gpuenv("probe", cupy_only)
    _, report = gpuenv("doctor", cupy_only, "--assume", "driver=580.95.05", "--assume", "gpu=H100")
    release = facts["target"]["packages"][LINE]
    assert report["resolution"]["wheel"]["version"] == release, "the matrix is behind the package index"


def test_every_missing_cuda_library_is_reported_as_missing(cupy_only: Path) -> None:
    _, facts = gpuenv("probe", cupy_only)
    libraries = facts["target"]["libraries"]
    assert [library["soname"] for library in libraries if not library["optional"]] == SONAMES
    assert {library["path"] for library in libraries} == {None}
    assert {library["name"] for library in libraries if library["optional"]} == {"nccl", "cutensor"}
    for soname in SONAMES:
        assert run_in_target(cupy_only, f"import ctypes; ctypes.CDLL({soname!r})").returncode == 1, (
            "the loader does not find it either"
        )


def test_the_doctor_names_the_libraries_that_the_wheel_lacks(cupy_only: Path) -> None:
    findings = findings_of(cupy_only)
    assert "LIB601" in findings, list(findings)
    assert findings["LIB601"]["cause"] == "cuda-library-missing"
    assert {entry["fact"] for entry in findings["LIB601"]["evidence"]} >= set(SONAMES)


def test_cupy_without_its_libraries_is_imported_but_does_not_work(cupy_only: Path) -> None:
    """As the check documents: import cupy succeeds; the first kernel or matrix product fails."""
    assert run_in_target(cupy_only, "import cupy").returncode == 0
    compiled = run_in_target(cupy_only, LOAD_BY_CUPY)
    assert compiled.returncode == 1
    assert "libnvrtc" in compiled.stderr
    multiplied = run_in_target(cupy_only, "import cupy_backends.cuda.libs.cublas")
    assert multiplied.returncode == 1
    assert "libcublas.so.12" in multiplied.stderr


def test_probing_libraries_does_not_change_the_target(cupy_only: Path) -> None:
    before = sorted(path for path in cupy_only.rglob("*") if "__pycache__" not in path.parts)
    gpuenv("probe", cupy_only)
    assert sorted(path for path in cupy_only.rglob("*") if "__pycache__" not in path.parts) == before


def test_the_reported_library_is_the_one_that_is_loaded(with_nvrtc: Path) -> None:
    _, facts = gpuenv("probe", with_nvrtc)
    libraries = {library["name"]: library for library in facts["target"]["libraries"]}
    nvrtc, built_in = libraries.pop("nvrtc"), libraries.pop("nvrtc-builtins")
    assert nvrtc["soname"] == "libnvrtc.so.12"
    assert built_in["soname"] == "libnvrtc-builtins.so." + nvrtc["release"]
    assert Path(built_in["path"]).parent == Path(nvrtc["path"]).parent
    for program in (LOAD_BY_CUPY, LOAD_BY_FINDER):
        result = run_in_target(with_nvrtc, program)
        assert result.returncode == 0, result.stderr
        assert result.stdout.split() == [nvrtc["path"]]
    assert Path(nvrtc["path"]).is_relative_to(with_nvrtc)
    assert {library["path"] for library in libraries.values()} == {None}
    assert NVRTC in facts["target"]["packages"]


def test_a_library_of_another_major_that_cupy_loads_first_is_reported(with_nvrtc: Path, tmp_path: Path) -> None:
    """cuda-pathfinder tries CUDA 13 before 12, also for a CuPy of CUDA 12."""
    folder = tmp_path / "venv"
    uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder / "bin/python", LINE, "numpy", NVRTC, OTHER_NVRTC)
    loaded = run_in_target(folder, LOAD_BY_CUPY)
    assert loaded.returncode == 0, loaded.stderr
    (path,) = loaded.stdout.split()
    _, facts = gpuenv("probe", folder)
    nvrtc = facts["target"]["libraries"][0]
    assert nvrtc["finder_path"] == path
    findings = findings_of(folder)
    if Path(path).name.startswith("libnvrtc.so.12"):
        assert "LIB603" not in findings
    else:
        assert findings["LIB603"]["cause"] == "library-path-conflict"
        assert path in findings["LIB603"]["title"]
    assert "LIB603" not in findings_of(with_nvrtc)


@pytest.mark.skipif(shutil.which("cc") is None, reason="the stub driver needs a C compiler")
@pytest.mark.parametrize(
    ("machine", "exit_code", "cause"),
    [("l4-550", 0, None), ("t4-470", 1, "driver-too-old-for-cuda")],
)
def test_a_simulated_toolkit_is_enough_for_it(
    cupy_only: Path, tmp_path: Path, machine: str, exit_code: int, cause: str | None
) -> None:
    """The libraries and the headers, which CuPy 14 finds through cuda-pathfinder."""
    report_file = tmp_path / "report.json"
    gpuenv_words = [sys.executable, "-m", "gpuenv"]
    preflight = ["preflight", "--no-config", "--python", str(cupy_only), "--format", f"json={report_file}"]
    command = [*gpuenv_words, "simulate", machine, "--", *gpuenv_words, *preflight]
    environment = {**ENVIRONMENT, "XDG_CACHE_HOME": str(tmp_path)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    report = json.loads(report_file.read_text(encoding="utf-8"))
    assert report["exit_code"] == exit_code, result.stdout
    assert next((finding["cause"] for finding in report["findings"] if finding["severity"] == "error"), None) == cause
