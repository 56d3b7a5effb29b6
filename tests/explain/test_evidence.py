"""Evidence from the facts of a machine."""

from __future__ import annotations

import pytest

from gpuenv.explain.machine_evidence import EVIDENCE, machine_evidence
from gpuenv.explain.scan import scan
from gpuenv.matrix.assume import assume
from gpuenv.model.snapshot import Snapshot
from tests.support.matrix import MATRIX


@pytest.mark.parametrize(
    "facts",
    [
        ("os=windows", "wsl=no"),
        ("wsl=yes", "arch=aarch64", "libc=musl-1.2", "container=no"),
        ("driver=none", "gpu=none", "container=yes"),
        ("env.CUDA_VISIBLE_DEVICES=MIG-1", "env.LD_LIBRARY_PATH=/usr/local/cuda/compat"),
        ("gpu=V100", "driver=590.44.01", "toolkit=13.0", "cupy=cupy-cuda12x==14.2.0", "package.torch=2.11.0+cu130"),
        ("gpu=RTX 5090", "driver=535.104.05", "toolkit=11.8", "cupy=cupy-cuda11x==13.6.0", "python=3.7"),
        ("cupy=cupy-rocm-5-0==12.3.0", "package.torch=2.6.0+cpu", "python=3.12"),
    ],
)
def test_machine_evidence_uses_the_declared_names(facts: tuple[str, ...]) -> None:
    evidence = machine_evidence(
        assume(Snapshot(), facts, MATRIX), MATRIX, scan(b"libcublas.so.12: cannot open shared object file").hits
    )
    assert evidence
    assert evidence <= set(EVIDENCE)


@pytest.mark.parametrize(
    ("name", "python", "expected"),
    [
        ("torch-1.8.0-cp36-cp36m-linux_aarch64.whl", "3.6", "wheel-of-this-python"),
        ("torch-1.8.0-cp36-cp36m-linux_aarch64.whl", "3.8", "wheel-of-other-python"),
        ("cupy_cuda12x-13.6.0-cp313-cp313t-win_amd64.whl", "3.12", "wheel-of-other-python"),
        ("torch-2.8.0-py3-none-any.whl", "3.12", None),  # for any Python
        ("torch-2.8.0-cp39-abi3-linux_x86_64.whl", "3.12", None),  # for any from 3.9 on
    ],
)
def test_a_refused_wheel_is_compared_with_the_python(name: str, python: str, expected: str | None) -> None:
    hits = scan(f"ERROR: {name} is not a supported wheel on this platform.".encode()).hits
    evidence = machine_evidence(assume(Snapshot(), (f"python={python}",), MATRIX), MATRIX, hits)
    assert {entry for entry in evidence if entry.startswith("wheel-of")} == ({expected} if expected else set())


@pytest.mark.parametrize(("gpu", "tegra"), [("Jetson Nano", True), ("Orin (nvgpu)", True), ("GeForce RTX 4090", False)])
def test_a_jetson_is_recognized_by_the_name_of_its_gpu(gpu: str, tegra: bool) -> None:  # noqa: FBT001 - a case
    assert ("jetson" in machine_evidence(assume(Snapshot(), (f"gpu={gpu}",), MATRIX), MATRIX, ())) is tegra


@pytest.mark.parametrize(
    ("facts", "newer"),
    [
        (("cupy=cupy-cuda11x==12.0.0", "compute-capability=8.7"), False),  # CUDA 11.4 knows it, and serves this wheel
        (("cupy=cupy-cuda11x==12.0.0", "toolkit=11.2", "compute-capability=8.7"), True),
        (("cupy=cupy-cuda11x==12.0.0", "compute-capability=12.0"), True),
    ],
)
def test_any_cuda_minor_of_a_wheel_line_may_be_installed(facts: tuple[str, ...], *, newer: bool) -> None:
    assert ("gpu-newer" in machine_evidence(assume(Snapshot(), facts, MATRIX), MATRIX, ())) is newer
