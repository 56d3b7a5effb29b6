"""The demonstrations, and what tests and demonstrations set beside what a caller has set."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.causes import Cause
from gpuenv.smoke.demos import DEMOS, sources
from gpuenv.smoke.payload.common import delay
from gpuenv.smoke.payload.surroundings import through_mps
from tests.smoke.payload import MODULES, module

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("stem", [stem for stem in MODULES if "CUPY_TF32" in getattr(module(stem), "ENVIRONMENT", {})])
def test_a_test_of_single_precision_is_not_overruled_by_the_caller_s_variable(stem: str) -> None:
    """Which many set to 1 for the libraries' sake: they heed it above all that a program says."""
    asked = module(stem).ENVIRONMENT
    assert asked["CUPY_TF32"] == "1" or asked["NVIDIA_TF32_OVERRIDE"] == "0"


@pytest.mark.parametrize("stem", [*(stem for stem in MODULES if stem.startswith("sparse_")), "solver_systems"])
def test_reductions_that_nobody_asked_for_are_not_compiled_from_cub_s_headers(stem: str) -> None:
    """Each took NVRTC seconds: with an empty kernel cache more than the quick level has, near the deadline if slow."""
    assert module(stem).ENVIRONMENT["CUPY_ACCELERATORS"] == ""


@pytest.mark.parametrize("name", DEMOS)
def test_a_demonstration_is_of_a_cause_and_has_a_mistake_and_a_cure(name: str) -> None:
    assert name in {cause.value for cause in Cause}
    parts = sources(DEMOS[name])
    assert parts["mistake"] != parts["cure"]
    assert len(parts["WHY"]) > 40
    shown = [text for title, text in parts.items() if title != "WHY"]  # that is wrapped
    assert all(len(line) <= 76 for line in "\n".join(shown).splitlines())


FORKED = """
import os, signal
from types import SimpleNamespace as Thing
from gpuenv.smoke.payload.demos import fork_after_cuda_init

parent = os.getpid()

def arange(count):
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGSEGV)
    return Thing(sum=lambda: count)

cuda = Thing(Device=lambda: Thing(synchronize=lambda: None))
print(fork_after_cuda_init.mistake(Thing(arange=arange, cuda=cuda)))
"""


def test_a_forked_child_that_cuda_ends_is_shown_and_not_waited_for() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False, timeout=20)
    assert done.stdout == "('in the child: nothing', False)\n", done.stderr


@pytest.mark.parametrize("stem", [stem for stem in MODULES if getattr(module(stem), "KERNELS", None) is delay.KERNELS])
def test_where_a_slow_kernel_is_not_waited_for_launches_return_at_once(stem: str) -> None:
    assert module(stem).ENVIRONMENT["CUDA_LAUNCH_BLOCKING"] == "0"


LOSING = [f"tests.{stem}" for stem in MODULES if hasattr(module(stem), "LOSES_CONTEXT")]


LOSING += ["demos.async_error_surfaced_late", "demos.illegal_memory_access"]


@pytest.mark.parametrize("name", LOSING)
def test_a_fault_that_is_made_on_purpose_leaves_no_core_file(name: str) -> None:
    made = importlib.import_module(f"gpuenv.smoke.payload.{name}")
    assert made.LOSES_CONTEXT
    assert made.ENVIRONMENT["CUDA_ENABLE_COREDUMP_ON_EXCEPTION"] == "0"


@pytest.mark.parametrize(
    ("told", "pipe", "shared"),
    [(1, False, True), (0, True, False), (None, True, True), (None, False, False)],
)
def test_whether_others_share_the_context_is_told_by_cuda_else_by_the_daemon_s_pipe(
    tmp_path: Path, told: int | None, *, pipe: bool, shared: bool
) -> None:
    if pipe:
        (tmp_path / "control").touch()
    assert through_mps(told, {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}) is shared
