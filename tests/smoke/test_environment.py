"""The environment variables that tests set instead of the caller's, and the detection of MPS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.smoke.payload.harness import uses_mps
from gpuenv.smoke.payload.tests.streams import Delayed
from tests.smoke.payload import NAMES, gpu_test

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("which", [which for which in NAMES if "CUPY_TF32" in gpu_test(which).ENVIRONMENT])
def test_tests_of_single_precision_override_the_callers_tf32_setting(which: str) -> None:
    """Many users set NVIDIA_TF32_OVERRIDE to 1, which the libraries rank above a program's settings."""
    variables = gpu_test(which).ENVIRONMENT
    assert variables["CUPY_TF32"] == "1" or variables["NVIDIA_TF32_OVERRIDE"] == "0"


@pytest.mark.parametrize("which", [*(which for which in NAMES if which.startswith("sparse.")), "solver.systems"])
def test_incidental_reductions_do_not_compile_cub(which: str) -> None:
    """Each took NVRTC seconds: with an empty kernel cache more than the budget of the quick level."""
    assert gpu_test(which).ENVIRONMENT["CUPY_ACCELERATORS"] == ""


@pytest.mark.parametrize("which", [which for which in NAMES if isinstance(gpu_test(which), Delayed)])
def test_tests_with_a_slow_kernel_have_asynchronous_launches(which: str) -> None:
    assert gpu_test(which).ENVIRONMENT["CUDA_LAUNCH_BLOCKING"] == "0"


@pytest.mark.parametrize("which", [which for which in NAMES if gpu_test(which).LEAVES])
def test_an_intended_fault_leaves_no_core_file(which: str) -> None:
    assert gpu_test(which).ENVIRONMENT["CUDA_ENABLE_COREDUMP_ON_EXCEPTION"] == "0"


@pytest.mark.parametrize(
    ("attribute", "pipe", "shared"),
    [(1, False, True), (0, True, False), (None, True, True), (None, False, False)],
)
def test_mps_is_detected_by_cuda_or_else_by_the_pipe_of_its_daemon(
    tmp_path: Path, attribute: int | None, *, pipe: bool, shared: bool
) -> None:
    if pipe:
        (tmp_path / "control").touch()
    assert uses_mps(attribute, {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}) is shared
