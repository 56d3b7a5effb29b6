"""The real CuPy without a driver: every test is skipped with a reason, and every name in the payload exists."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.smoke.payload.failures import LIBRARY_ERRORS
from gpuenv.smoke.payload.tests import PLAIN_REDUCTIONS
from gpuenv.smoke.tasks import PAYLOAD, all_tests

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.network

RELEASES = ("13.6.0", "14.2.0")
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cupy")


@cache
def target(release: str, folder: Path) -> Path:
    """An environment with CuPy, NumPy and SciPy."""
    venv = folder / release
    uv("venv", "--python", sys.executable, str(venv))
    uv("pip", "install", "--python", str(venv / "bin/python"), f"cupy-cuda12x=={release}", "numpy", "scipy")
    return venv


def uv(*arguments: str) -> None:
    command = [sys.executable, "-m", "uv", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert process.returncode == 0, process.stderr


def smoke(venv: Path, *options: str, **variables: str) -> tuple[int, Any]:
    command = [sys.executable, "-m", "gpuenv", "smoke", "--python", str(venv), "--format", "json", *options]
    environment = {**ENVIRONMENT, **variables}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert "Traceback" not in process.stderr
    return process.returncode, json.loads(process.stdout)


@pytest.mark.parametrize("release", RELEASES)
def test_without_a_driver_every_test_is_skipped_with_a_reason(release: str, folder: Path, tmp_path: Path) -> None:
    code, result = smoke(target(release, folder), "--level", "deep", "--faults", GPUENV_DRIVER_ROOT=str(tmp_path))
    assert (code, result["status"], result["exit_code"]) == (5, "skipped", 5)
    assert {test["name"] for test in result["tests"]} == {test.name for test in all_tests()}
    for test in result["tests"]:
        assert test["status"] == "skipped"
        assert "cudaErrorInsufficientDriver" in test["detail"]
        assert test["detail"].startswith(("GPU", "DRV", "CTR")), "the doctor's own reason"


PRINT_ACCELERATORS = "from cupy._core import _accelerator; print(_accelerator.get_reduction_accelerators())"


@pytest.mark.parametrize("release", RELEASES)
def test_cub_reductions_can_be_disabled(release: str, folder: Path) -> None:
    command = [str(target(release, folder) / "bin/python"), "-c", PRINT_ACCELERATORS]
    accelerators = [
        subprocess.run(
            command, env={**ENVIRONMENT, **variables}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for variables in ({}, PLAIN_REDUCTIONS)
    ]
    assert accelerators[0] not in ("", "[]"), "CuPy's default is CUB"
    assert accelerators[1] == "[]"


# Attributes of objects, which the payload does not use by a full name.
METHODS = {
    "cp.ndarray": "astype conj copy data device dtype fill flags get itemsize max nbytes reshape set shape size sum",
    "cp.RawKernel": "compile max_dynamic_shared_size_bytes",
    "cp.RawModule": "get_function get_global",
    "cp.cuda.Device": "id synchronize",
    "cp.cuda.Event": "done record synchronize",
    "cp.cuda.Stream": "begin_capture end_capture record synchronize wait_event",
    "cp.cuda.graph.Graph": "launch",
    "cp.cuda.MemoryPool": "free_all_blocks get_limit malloc n_free_blocks set_limit total_bytes used_bytes",
    "cp.cuda.PinnedMemoryPool": "free_all_blocks malloc",
    "cp.cuda.MemoryAsyncPool": "malloc",
    "cp.random.RandomState": "permutation random_sample",
    "cp.random.Generator": "random standard_exponential",
    "cp.linalg": "cholesky eigh inv lstsq qr solve svd",
    "cp.fft": "fft fftn ifft irfft irfft2 rfft rfft2",
    "cp.fft.config": "get_plan_cache",
    "cp.fft._cache.PlanCache": "clear get_curr_size set_size",
    "cp.cuda.runtime": "deviceGetAttribute deviceGetPCIBusId memcpyAsync",
    "cp.cuda.memory.OutOfMemoryError": "args",
}


@pytest.mark.parametrize("release", RELEASES)
def test_every_name_used_by_the_payload_exists_in_cupy(release: str, folder: Path) -> None:
    names = sorted({*_names(), *(f"{kind}.{name}" for kind, listed in METHODS.items() for name in listed.split())})
    assert len(names) > 140
    interpreter = str(target(release, folder) / "bin/python")
    program = FIND_MISSING.format(names=names)
    process = subprocess.run([interpreter, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == []


@pytest.mark.parametrize("release", RELEASES)
def test_the_error_classes_of_the_libraries_exist_in_cupy(release: str, folder: Path) -> None:
    """In the compiled modules, since importing them requires the libraries."""
    venv = target(release, folder)
    compiled = [*venv.rglob("cupy_backends/cuda/libs/*.so"), *venv.rglob("cupy/cuda/cufft*.so")]
    binaries = b"\0".join(path.read_bytes() for path in compiled)
    assert [name for name in LIBRARY_ERRORS if name.encode() not in binaries] == []


@pytest.mark.parametrize("release", RELEASES)
def test_cupy_accepts_every_kernel_that_it_generates(release: str, folder: Path) -> None:
    """CuPy checks names and types when such a kernel is created, which needs no device."""
    calls = list(_generated())
    assert {kind for kind, _ in calls} == GENERATED
    interpreter = str(target(release, folder) / "bin/python")
    command = [interpreter, "-c", CREATE_KERNELS, json.dumps(calls)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert process.returncode == 0, process.stderr


GENERATED = {"ElementwiseKernel", "ReductionKernel"}
CREATE_KERNELS = """
import json, sys, cupy
for kind, arguments in json.loads(sys.argv[1]):
    getattr(cupy, kind)(*arguments)
"""


def _generated() -> Iterator[tuple[str, list[str]]]:
    """The kernels of the payload that CuPy generates from a formula."""
    for path in PAYLOAD.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            kind = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and kind in GENERATED:
                yield kind, [ast.literal_eval(argument) for argument in node.args]


@pytest.mark.parametrize("release", RELEASES)
def test_the_test_of_default_streams_overrides_the_callers_default(release: str, folder: Path) -> None:
    """1 is the legacy stream, 2 the one of the thread (cudaStreamLegacy and cudaStreamPerThread, driver_types.h)."""
    command = [str(target(release, folder) / "bin/python"), "-c", PRINT_STREAM]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(PAYLOAD.parents[2]), "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1"}
    pointers = []
    for setting in ("", "os.environ.update(Default.ENVIRONMENT)"):
        process = subprocess.run(
            [*command, setting], capture_output=True, text=True, check=False, timeout=120, env=environment
        )
        pointers.append(process.stdout or process.stderr)
    assert pointers == ["2\n", "1\n"]


PRINT_STREAM = """
import os, sys
from gpuenv.smoke.payload.tests.streams import Default
exec(sys.argv[1])
import cupy
from cupy_backends.cuda import stream
print(stream.get_default_stream_ptr())
"""


# Parts of cupyx load cuBLAS on import, which is not installed: their sources are searched instead.
FIND_MISSING = """
import importlib.util, json, pathlib
import cupy, cupyx
missing = []
for name in {names!r}:
    parts = name.split(".")
    if name.startswith("cupyx.scipy."):
        module = importlib.util.find_spec(".".join(parts[:3]))
        if module is None or parts[-1] not in pathlib.Path(module.origin).read_text() + parts[2]:
            missing.append(name)
        continue
    place = {{"cp": cupy, "cupyx": cupyx}}[parts[0]]
    try:
        for part in parts[1:]:
            place = getattr(place, part)
    except AttributeError:
        missing.append(name)
print(json.dumps(missing))
"""


def _names() -> Iterator[str]:
    """Names such as ``cp.cuda.Stream`` in the payload, and those imported from cupyx."""
    for path in PAYLOAD.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                yield from _dotted(node)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cupyx"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _dotted(node: ast.Attribute) -> Iterator[str]:
    """The name of an attribute of CuPy: from ``cp`` or ``gpu.runtime``, or from a package, CuPy or NumPy."""
    text = ast.unparse(node)
    replaced = {"gpu.cp.": "cp.", "self.cp.": "cp.", "package.": "cp.", "gpu.runtime.": "cp.cuda.runtime."}
    for short, full in replaced.items():
        text = text.replace(short, full) if text.startswith(short) else text
    if text.startswith(("cp.", "cupyx.")) and text.replace(".", "").replace("_", "").isalnum():
        yield text
