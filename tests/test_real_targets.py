"""Environments with real wheels of CuPy 13 and 14 and of CUDA: gpuenv's report compared with the wheels' behaviour.

The wheels of NVRTC, the runtime's headers, cuRAND and NCCL are used, but not the largest, cuBLAS and the libraries that
need it. The CUDA wheels that torch pins replace torch itself, which is a gigabyte; nothing here
imports torch.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gpuenv.simulate.stub_driver import StubDriver

pytestmark = pytest.mark.network

# cuda-toolkit's pins and torch's are of one release each; an NVRTC and headers of the same minor go together.
NVRTC_12, RUNTIME_12 = "nvidia-cuda-nvrtc-cu12==12.9.86", "nvidia-cuda-runtime-cu12==12.9.79"
NVRTC_13, RUNTIME_13 = "nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.96"
FOURTEEN_12, FOURTEEN_13, THIRTEEN_12 = "cupy-cuda12x==14.2.0", "cupy-cuda13x==14.2.0", "cupy-cuda12x==13.6.0"

# Traces the options that CuPy assembles for a compilation, before it needs a GPU.
OPTIONS = """
import json, sys
options = []
def watch(frame, event, argument):
    name = frame.f_code.co_name
    if event == "call" and name == "_compile_module_with_cache":
        options.extend(frame.f_locals["options"])
    if event == "return" and name == "_get_extra_include_dir_opts" and argument:
        options.extend(argument)
from cupy._core import core
from cupy.cuda import compiler
sys.setprofile(watch)
try:
    core.compile_with_cache('extern "C" __global__ void f(){}', (), arch="80")
except Exception:
    pass
if hasattr(compiler, "_get_extra_include_dir_opts"):
    compiler._get_extra_include_dir_opts()
sys.setprofile(None)
from cupy import _environment
folders = [option[2:] for option in options if option.startswith("-I") and "/cupy/_core/" not in option]
print(json.dumps([folders, _environment.get_cuda_path()]))
"""
# Compiles a header with an error, with NVRTC loaded as CuPy loads it: the message names the folder of the header.
COMPILE = """
import ctypes, sys
nvrtc, *folders = sys.argv[1:]
try:
    from cuda.pathfinder import load_nvidia_dynamic_lib
    load_nvidia_dynamic_lib("nvrtc")
except ImportError:
    pass
library = ctypes.CDLL(nvrtc)
program = ctypes.c_void_p()
source = b"#define __half @\\n#include <cuda_fp16.h>\\n"
library.nvrtcCreateProgram(ctypes.byref(program), source, b"t.cu", 0, None, None)
options = (ctypes.c_char_p * len(folders))(*[("-I" + folder).encode() for folder in folders])
library.nvrtcCompileProgram(program, len(folders), options)
size = ctypes.c_size_t()
library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
log = ctypes.create_string_buffer(size.value)
library.nvrtcGetProgramLog(program, log)
print(log.value.decode())
"""


@dataclass(frozen=True, slots=True)
class RealTarget:
    """An environment with real wheels."""

    folder: Path

    @property
    def site(self) -> Path:
        """The site-packages folder."""
        (folder,) = self.folder.glob("lib/python*/site-packages")
        return folder

    def environment(self, *library_folders: str) -> dict[str, str]:
        """An environment without the CUDA that this machine may have on PATH."""
        folders = ":".join(str(self.site / folder) for folder in library_folders)
        return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **({"LD_LIBRARY_PATH": folders} if folders else {})}

    def run(self, environment: dict[str, str], program: str, *arguments: str) -> str:
        """Runs a program with the environment's Python; returns its output."""
        command = [str(self.folder / "bin/python"), "-c", program, *arguments]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def gpuenv(self, environment: dict[str, str], command: str, *options: str) -> Any:  # noqa: ANN401 - JSON
        """Runs gpuenv on the environment; returns its JSON output."""
        words = [sys.executable, "-m", "gpuenv", command, "--python", str(self.folder), "--format", "json"]
        result = subprocess.run(
            [*words, "--no-redact", *options], env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        return json.loads(result.stdout)

    def target(self, environment: dict[str, str], *options: str) -> Any:  # noqa: ANN401 - JSON
        """The target in the snapshot."""
        return self.gpuenv(environment, "probe", *options)["target"]

    def findings(self, environment: dict[str, str], *options: str) -> dict[str, Any]:
        """The doctor's findings, for a machine with a working driver and GPU."""
        assumptions = ("--assume", "driver=580.95.05", "--assume", "gpu=H100")
        return {
            entry["code"]: entry for entry in self.gpuenv(environment, "doctor", *assumptions, *options)["findings"]
        }


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401 - a cached function
    """Creates an environment with these requirements, each once; uv's default cache keeps the wheels."""

    @cache
    def make_target(*requirements: str) -> RealTarget:
        folder = tmp_path_factory.mktemp("real") / "venv"
        for arguments in (
            ["venv", "--python", sys.executable, str(folder)],
            ["pip", "install", "--python", str(folder / "bin/python"), *requirements, "numpy"],
        ):
            result = subprocess.run(
                [sys.executable, "-m", "uv", *arguments], capture_output=True, text=True, check=False, timeout=900
            )
            assert result.returncode == 0, result.stderr
        return RealTarget(folder)

    return make_target


def include_folders(target: RealTarget, environment: dict[str, str]) -> tuple[list[str], str | None]:
    """The folders that CuPy passes to NVRTC, without its own, and its CUDA path."""
    folders, cuda_path = json.loads(target.run(environment, OPTIONS))
    return folders, cuda_path


@pytest.mark.parametrize(
    ("requirements", "library_folders"),
    [
        ((FOURTEEN_12, NVRTC_12, RUNTIME_12), ()),
        ((FOURTEEN_13, NVRTC_13, RUNTIME_13), ()),
        ((THIRTEEN_12, NVRTC_12, RUNTIME_12), ("nvidia/cuda_nvrtc/lib",)),
    ],
    ids=["14 for CUDA 12", "14 for CUDA 13", "13 for CUDA 12"],
)
def test_the_reported_headers_and_toolkit_are_those_that_cupy_uses(
    make: Any,  # noqa: ANN401 - a cached function
    requirements: tuple[str, ...],
    library_folders: tuple[str, ...],
) -> None:
    target = make(*requirements)
    environment = target.environment(*library_folders)
    reported = target.target(environment)
    folders, cuda_path = include_folders(target, environment)
    assert folders
    assert reported["headers"]["value"] == folders
    assert reported["cuda_path"]["value"] == cuda_path
    nvrtc = next(library for library in reported["libraries"] if library["name"] == "nvrtc")
    log = target.run(environment, COMPILE, nvrtc["path"], *folders)
    header = Path(reported["headers_cuda"]["source"])
    assert f"{header.parent / 'cuda_fp16.h'}(" in log, log
    major, minor = map(int, reported["headers_cuda"]["value"].split("."))
    assert re.search(rf"define CUDART_VERSION +{major}0{minor}0\n", header.read_text(encoding="utf-8"))
    if folders[0].startswith(str(target.folder)):  # else a toolkit of this machine comes first
        assert nvrtc["release"] == reported["headers_cuda"]["value"]
        assert not {"LIB604", "LIB605", "LIB606", "WHL510", "WHL511", "WHL512"} & set(target.findings(environment))


def test_cupy_14_without_the_runtime_wheel_has_no_headers(make: Any) -> None:  # noqa: ANN401
    if any(Path(folder).exists() for folder in ("/usr/local/cuda", "/usr/include/cuda_runtime.h")):
        pytest.skip("this machine has CUDA's headers")
    reported = make(FOURTEEN_12, NVRTC_12).target(make(FOURTEEN_12, NVRTC_12).environment())
    assert reported["headers"]["value"] == []
    assert reported["headers_cuda"]["value"] is None


def test_the_reported_libraries_are_those_that_a_process_maps(make: Any) -> None:  # noqa: ANN401
    """Compares the files that are mapped after importing CuPy's modules."""
    target = make(FOURTEEN_13, NVRTC_13, RUNTIME_13, "nvidia-curand==10.4.0.35", "nvidia-nccl-cu13==2.27.7")
    environment = target.environment()
    reported = {entry["name"]: entry for entry in target.target(environment)["libraries"]}
    program = (
        "from cupy.cuda import nvrtc; nvrtc.getVersion()\n"
        "from cupy_backends.cuda.libs import curand\nfrom cupy.cuda import nccl\nnccl.get_version()\n"
        "print(*sorted({line.split()[-1] for line in open('/proc/self/maps') if '/nvidia/' in line}), sep='\\n')"
    )
    mapped = target.run(environment, program).split()
    loaded = {name: reported[name]["path"] for name in ("nvrtc", "curand", "nccl")}
    assert set(loaded.values()) <= set(mapped)
    assert {path for path in mapped if Path(path).name not in map(os.path.basename, loaded.values())} <= {
        entry["path"] for entry in reported.values()
    }
    versions = "from cupy.cuda import nvrtc, nccl; print(*nvrtc.getVersion(), nccl.get_version())"
    major, minor, nccl = target.run(environment, versions).split()
    assert reported["nvrtc"]["release"] == f"{major}.{minor}"
    assert reported["nccl"]["release"] == f"{int(nccl) // 10000}.{int(nccl) % 10000 // 100}.{int(nccl) % 100}"


@pytest.mark.parametrize(
    "nvrtc", ["nvidia-cuda-nvrtc-cu12==12.0.140", "nvidia-cuda-nvrtc-cu12==12.8.93", NVRTC_12, NVRTC_13]
)
def test_probing_nvrtc_does_not_initialize_the_driver(
    make: Any,  # noqa: ANN401 - a cached function
    stub_driver: StubDriver,
    tmp_path: Path,
    nvrtc: str,
) -> None:
    """With this libcuda, cuInit aborts the process. NVRTC 12.9 and later calls it unless its cache is disabled."""
    table = tmp_path / "stub.txt"
    table.write_text("cuda.crash.cuInit = abort\n", encoding="utf-8")
    target = make(FOURTEEN_13 if nvrtc == NVRTC_13 else FOURTEEN_12, nvrtc)
    environment = {
        **target.environment(),
        "LD_LIBRARY_PATH": str(stub_driver.folder),
        "GPUENV_STUB": str(table),
        "GPUENV_DRIVER_ROOT": str(tmp_path),
    }
    facts = target.gpuenv(environment, "probe")
    states = {source["name"]: source["state"] for source in facts["sources"]}
    assert (states["libcuda"], states["libraries"]) == ("crashed", "answered")
    libraries = {library["name"]: library for library in facts["target"]["libraries"]}
    release = nvrtc.rpartition("==")[2].rpartition(".")[0]
    assert libraries["nvrtc"]["release"] == release
    assert libraries["nvrtc-builtins"]["soname"] == f"libnvrtc-builtins.so.{release}"
    assert libraries["nvrtc-builtins"]["path"]


def test_two_cupy_lines_conflict_and_removing_one_breaks_the_other(make: Any) -> None:  # noqa: ANN401
    target = make(FOURTEEN_12, "cupy-cuda13x==14.1.0")
    environment = target.environment()
    reported = target.target(environment)
    assert reported["file_faults_count"]["value"] > 1000
    assert {fault["state"] for fault in reported["file_faults"]} == {"owned-twice"}
    assert "WHL502" in target.findings(environment)
    command = [sys.executable, "-m", "uv", "pip", "uninstall", "--python", str(target.folder / "bin/python")]
    subprocess.run([*command, "cupy-cuda13x"], check=True, capture_output=True)
    broken = target.target(environment)
    assert broken["file_faults_count"]["value"] > 1000
    assert {fault["state"] for fault in broken["file_faults"]} == {"missing"}
    findings = target.findings(environment)
    assert findings["WHL510"]["cause"] == "corrupt-installation"
    assert findings["WHL510"]["severity"] == "error"


def pins_of_torch() -> list[str]:
    """The CUDA wheels that the newest torch pins, as resolved by uv without downloading torch."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header", "-"]
    result = subprocess.run(command, input="torch", capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr
    small = re.compile(r"nvidia-(cuda-nvrtc|cuda-runtime)(-cu\d+)?==.*")
    return [line for line in result.stdout.splitlines() if small.fullmatch(line)]


def test_cuda_wheels_of_torch_with_another_cupy_line_are_reported(make: Any) -> None:  # noqa: ANN401
    """The NVRTC and runtime that the newest torch pins, with a CuPy of another CUDA major version."""
    pins = pins_of_torch()
    assert len(pins) == 2, pins
    of_cuda_12 = any("-cu12==" in pin for pin in pins)
    cupy = (FOURTEEN_13, NVRTC_13, RUNTIME_13) if of_cuda_12 else (FOURTEEN_12, NVRTC_12, RUNTIME_12)
    target = make(*cupy, *pins)
    environment = target.environment()
    reported = target.target(environment)
    assert {pin.partition("==")[0] for pin in pins} <= set(reported["packages"])
    loaded = target.run(
        environment,
        "from cupy.cuda import nvrtc; nvrtc.getVersion()\n"
        "print(*{line.split()[-1] for line in open('/proc/self/maps') if 'libnvrtc.so' in line})",
    ).split()
    nvrtc = next(library for library in reported["libraries"] if library["name"] == "nvrtc")
    assert loaded == [nvrtc["finder_path"]]


def test_a_changed_byte_of_a_real_wheel_is_found(make: Any) -> None:  # noqa: ANN401
    target = make(THIRTEEN_12, NVRTC_12)
    environment = target.environment()
    assert target.target(environment, "--deep")["file_faults"] == []
    changed = target.site / "cupy/_version.py"
    text = changed.read_bytes()
    changed.unlink()  # a link to uv's cache, perhaps
    changed.write_bytes(text[:-2] + b"#\n")
    (fault,) = target.target(environment, "--deep")["file_faults"]
    assert (fault["path"], fault["state"]) == (str(changed), "changed")
