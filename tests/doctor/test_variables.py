"""Values of CuPy's variables that CuPy rejects, each verified by importing CuPy with it."""

from __future__ import annotations

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Snapshot
from tests.support.diagnosis import diagnosis_of
from tests.support.matrix import MATRIX

FACTS = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100", "numpy=2.1.0")


def variable_findings(cupy: str, **variables: str) -> list[Finding]:
    snapshot = assume(Snapshot(), [*FACTS, f"cupy={cupy}"], MATRIX)
    snapshot = snapshot._replace(environment=variables)
    findings = diagnosis_of(snapshot).findings
    return [finding for finding in findings if finding.code == "ENV402"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUPY_ACCELERATORS", "cudnn"),
        ("CUPY_ACCELERATORS", "cub, cutensor"),
        ("CUPY_ACCELERATORS", "CUB"),
        ("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "true"),
        ("CUPY_ENABLE_UMP", ""),
        ("CUPY_CUDA_ARRAY_INTERFACE_SYNC", "1.0"),
        ("CUPY_GPU_MEMORY_LIMIT", "8GB"),
        ("CUPY_GPU_MEMORY_LIMIT", ""),
        ("CUPY_GPU_MEMORY_LIMIT", "half%"),
        ("CUPY_GPU_MEMORY_LIMIT", "120%"),
        ("CUPY_GPU_MEMORY_LIMIT", "nan%"),
        ("CUPY_GPU_MEMORY_LIMIT", "-1"),
        ("CUPY_CACHE_DIR", ""),
    ],
)
def test_values_that_cupy_rejects_are_reported(name: str, value: str) -> None:
    (finding,) = variable_findings("cupy-cuda12x==14.2.0", **{name: value})
    assert finding.cause is Cause.CUPY_VARIABLE_INVALID
    assert finding.title == f"{name}={value or '(empty)'}: CuPy does not accept this value"
    assert finding.fix[0].shell_line == f"unset {name}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUPY_ACCELERATORS", ""),
        ("CUPY_ACCELERATORS", "cub,cutensor,"),
        ("CUPY_ACCELERATORS", "cutensornet"),
        ("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "1"),
        ("CUPY_GPU_MEMORY_LIMIT", "8589934592"),
        ("CUPY_GPU_MEMORY_LIMIT", "50.5%"),
        ("CUPY_CACHE_DIR", "/srv/kernels"),
        ("CUPY_CACHE_SAVE_CUDA_SOURCE", "yes"),
        ("CUPY_TF32", "yes"),
    ],
)
def test_values_that_cupy_accepts_are_not_reported(name: str, value: str) -> None:
    assert variable_findings("cupy-cuda12x==14.2.0", **{name: value}) == []


def test_only_newer_releases_reject_an_empty_cache_directory() -> None:
    assert variable_findings("cupy-cuda12x==14.0.1", CUPY_CACHE_DIR="") == []
    assert len(variable_findings("cupy-cuda12x==14.1.0", CUPY_CACHE_DIR="")) == 1


@pytest.mark.parametrize(("release", "code"), [("14.0.1", "CCH701"), ("14.1.0", "ENV402")])
def test_an_empty_cache_directory_is_reported_once(release: str, code: str) -> None:
    """The variable is reported if CuPy cannot be imported, else the unwritable cache."""
    snapshot = assume(Snapshot(), [*FACTS, f"cupy=cupy-cuda12x=={release}"], MATRIX)
    target = snapshot.target._replace(kernel_cache_fault=known("CUPY_CACHE_DIR is set, and names no folder", "x"))
    snapshot = snapshot._replace(environment={"CUPY_CACHE_DIR": ""}, target=target)
    findings = diagnosis_of(snapshot).findings
    assert [finding.code for finding in findings if finding.code in ("CCH701", "ENV402")] == [code]
