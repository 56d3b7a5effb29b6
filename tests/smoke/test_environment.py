"""The environment variables that tests set over the caller's, and whether MPS shares their context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.smoke.payload.harness import uses_mps
from gpuenv.smoke.payload.tests.streams import Delayed
from tests.smoke.payload import NAMES, gpu_test

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("which", [which for which in NAMES if "CUPY_TF32" in gpu_test(which).ENVIRONMENT])
def test_a_test_of_single_precision_is_not_overruled_by_the_caller_s_variable(which: str) -> None:
    """Which many set to 1 for the libraries' sake: they heed it above all that a program says."""
    asked = gpu_test(which).ENVIRONMENT
    assert asked["CUPY_TF32"] == "1" or asked["NVIDIA_TF32_OVERRIDE"] == "0"


@pytest.mark.parametrize("which", [*(which for which in NAMES if which.startswith("sparse.")), "solver.systems"])
def test_reductions_that_nobody_asked_for_are_not_compiled_from_cub_s_headers(which: str) -> None:
    """Each took NVRTC seconds: with an empty kernel cache more than the quick level has, near the deadline if slow."""
    assert gpu_test(which).ENVIRONMENT["CUPY_ACCELERATORS"] == ""


@pytest.mark.parametrize("which", [which for which in NAMES if isinstance(gpu_test(which), Delayed)])
def test_where_a_slow_kernel_is_not_waited_for_launches_return_at_once(which: str) -> None:
    assert gpu_test(which).ENVIRONMENT["CUDA_LAUNCH_BLOCKING"] == "0"


@pytest.mark.parametrize("which", [which for which in NAMES if gpu_test(which).LOSES_CONTEXT])
def test_a_fault_that_is_made_on_purpose_leaves_no_core_file(which: str) -> None:
    assert gpu_test(which).ENVIRONMENT["CUDA_ENABLE_COREDUMP_ON_EXCEPTION"] == "0"


@pytest.mark.parametrize(
    ("told", "pipe", "shared"),
    [(1, False, True), (0, True, False), (None, True, True), (None, False, False)],
)
def test_whether_others_share_the_context_is_told_by_cuda_else_by_the_daemon_s_pipe(
    tmp_path: Path, told: int | None, *, pipe: bool, shared: bool
) -> None:
    if pipe:
        (tmp_path / "control").touch()
    assert uses_mps(told, {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}) is shared
