"""The fix that is printed works: its commands run in a real shell, in which the doctor then judges again."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scenario import (
    PYTHON,
    BuildContext,
    Scenario,
    Setup,
    Workspace,
    combine_setups,
    prepare_scenario,
    target,
    variables,
)
from tests.scenarios.target_setups import (
    OTHER_UID,
    cache_below_a_file,
    cache_with_files_of_root,
    cuda_path_of_another_major,
    home_is_a_file,
    old_cxx_runtime,
    without_base_python,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries

L4, PAIR, EIGHT = "l4-550", "l4-pair-list-cut-short", "h100x8-550"
MIG_PAIR, JOB, DOCKER = "a100-mig-wrong-instance", "slurm-host-numbers", "docker-device-without-toolkit"
OLD_INSTANCE = "MIG-GPU-8f0c1d2e-1111-2222-3333-444455556666/99/0"
TOOLKIT = "export CUDA_PATH=/usr/local/cuda-12.4"
GPU_OF_ANOTHER_MACHINE = "GPU-8f0c1d2e-1111-2222-3333-444455556666"


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario, and the lines that a user types: those of the fixes at these places."""

    name: str
    base: str
    setup: Setup
    typed: tuple[str, ...]
    cause: str = "visible-devices-hide-gpu"
    fixes: tuple[int, ...] = (0,)
    unprivileged: bool = False
    needs_root: bool = False
    assumptions: tuple[str, ...] = PYTHON

    def __str__(self) -> str:
        return self.name


def visible(value: str) -> Setup:
    return variables(CUDA_VISIBLE_DEVICES=value)


def with_sudo(workspace: Workspace) -> Mapping[str, str]:
    """A sudo for a user who is root already."""
    write(workspace.folder / "programs/sudo", '#!/bin/sh\nexec "$@"\n').chmod(0o755)
    return {"PATH": f"{workspace.folder}/programs:{os.environ['PATH']}", "USER": "root"}


def with_python(workspace: Workspace) -> Mapping[str, str]:
    """The Python that the environment was made with is still installed elsewhere."""
    without_base_python(workspace)
    return {"PATH": f"{Path(sys.base_prefix, 'bin')}:{os.environ['PATH']}"}


def cache_of_root(workspace: Workspace) -> Mapping[str, str]:
    folder = workspace.folder / "home/.cupy"
    write(folder / "kernel_cache/4b3c.cubin")
    for path in (folder, folder / "kernel_cache"):
        os.chown(path, OTHER_UID, OTHER_UID)
        path.chmod(0o755)
    return with_sudo(workspace)


def older_runtime_first(variable: str) -> Setup:
    """The newer libstdc++ is on the loader's path as well."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        changed = old_cxx_runtime(variable)(workspace)
        path = changed.get("LD_LIBRARY_PATH", workspace.machine.environment["LD_LIBRARY_PATH"])
        return {**changed, "LD_LIBRARY_PATH": f"{path}:{workspace.folder}/runtime/new"}

    return setup


def inside_a_toolkit(workspace: Workspace) -> Mapping[str, str]:
    del workspace
    return {"CUDA_PATH": "/usr/local/cuda/bin"}


CASES = (
    Case("-1", L4, visible("-1"), ("unset CUDA_VISIBLE_DEVICES",)),
    Case("-1, by the alternative", PAIR, visible("-1"), ("export CUDA_VISIBLE_DEVICES=0,1",), fixes=(1,)),
    Case("empty", EIGHT, visible(""), ("unset CUDA_VISIBLE_DEVICES",)),
    Case("spaces", PAIR, visible("0 1"), ("export CUDA_VISIBLE_DEVICES=0,1",)),
    Case("quotes", PAIR, visible('"1,0"'), ("export CUDA_VISIBLE_DEVICES=1,0",)),
    Case("PyTorch's names", PAIR, visible("cuda:1"), ("export CUDA_VISIBLE_DEVICES=1",)),
    Case("a number too many", PAIR, visible("0,2,1"), ("export CUDA_VISIBLE_DEVICES=0,1",)),
    Case("a number twice", PAIR, visible("1,1"), ("export CUDA_VISIBLE_DEVICES=1",)),
    Case("another GPU", L4, visible(GPU_OF_ANOTHER_MACHINE), ("export CUDA_VISIBLE_DEVICES=GPU-",)),
    Case("an instance in an old form", MIG_PAIR, visible(OLD_INSTANCE), ("DEVICES=MIG-0000",), "mig-misconfigured"),
    Case("another instance", MIG_PAIR, visible("MIG-0"), ("export CUDA_VISIBLE_DEVICES=MIG-",), "mig-misconfigured"),
    Case("the host's numbers in a job", JOB, visible("2,3"), ("export CUDA_VISIBLE_DEVICES=0,1",)),
    Case("fewer than granted", "slurm-grant-two-of-eight", visible("0"), ("export CUDA_VISIBLE_DEVICES=0,1",)),
    Case("CUDA_PATH to nowhere", L4, variables(CUDA_PATH="/opt/cuda-9.0"), (TOOLKIT,), "cuda-path-wrong"),
    Case("CUDA_PATH of CUDA 11", L4, cuda_path_of_another_major, (TOOLKIT,), "cuda-path-wrong"),
    Case("CUDA_PATH too deep", L4, inside_a_toolkit, ("export CUDA_PATH=/usr/local/cuda",), "cuda-path-wrong"),
    Case(
        "an old libstdc++ by LD_LIBRARY_PATH",
        L4,
        older_runtime_first("LD_LIBRARY_PATH"),
        ("export LD_LIBRARY_PATH=",),
        "libstdcxx-mismatch",
    ),
    Case(
        "an old libstdc++ by LD_PRELOAD", L4, older_runtime_first("LD_PRELOAD"), ("LD_PRELOAD",), "libstdcxx-mismatch"
    ),
    Case(
        "an accelerator that CuPy does not know",
        L4,
        variables(CUPY_ACCELERATORS="cub,cudnn"),
        ("unset CUPY_ACCELERATORS",),
        "cupy-variable-invalid",
    ),
    Case("a cache below a file", L4, cache_below_a_file, ("unset CUPY_CACHE_DIR",), "kernel-cache-unwritable"),
    Case("no home folder", L4, home_is_a_file, ('export CUPY_CACHE_DIR="$(mktemp -d)"',), "kernel-cache-unwritable"),
    Case(
        "no home folder, by the alternative",
        L4,
        home_is_a_file,
        ("export CUPY_CACHE_IN_MEMORY=1",),
        "kernel-cache-unwritable",
        fixes=(1,),
    ),
    Case(
        "a cache of root",
        L4,
        cache_of_root,
        ('sudo chown -R "$USER": ',),
        "kernel-cache-unwritable",
        unprivileged=True,
        needs_root=True,
    ),
    Case(
        "files of root in the cache",
        L4,
        combine_setups(cache_with_files_of_root, with_sudo),
        ('sudo chown -R "$USER": ',),
        "kernel-cache-race",
        needs_root=True,
    ),
    Case(
        "a virtual environment without its Python",
        L4,
        with_python,
        ("rm -f ", "-m venv --upgrade --without-pip "),
        "target-environment-broken",
        fixes=(0, 1),
        assumptions=(),
    ),
)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_printed_commands_solve_the_problem(
    case: Case, stub_driver: StubDriver, cuda_libraries: CudaLibraries, tmp_path: Path
) -> None:
    if case.needs_root and os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    scenario = Scenario(
        case.cause,
        case.name,
        case.base,
        target("cupy-cuda12x==14.2.0", "numpy==2.3.4"),
        case.setup,
        unprivileged=case.unprivileged,
        assumptions=case.assumptions,
    )
    prepared = prepare_scenario(scenario, BuildContext(stub_driver, cuda_libraries), tmp_path)
    before = prepared.run()
    (finding,) = [entry for entry in before.report["findings"] if entry["cause"] == case.cause]
    lines = [line_of(finding["fix"][place]) for place in case.fixes]
    assert all(typed in line for typed, line in zip(case.typed, lines, strict=True)), lines
    after = prepared.run(*lines)
    assert [entry["title"] for entry in after.report["findings"] if entry["severity"] != "note"] == []
    assert (after.exit_code, after.report["status"]) == (0, "fit"), after.report["checks"]


def line_of(fix: Mapping[str, Any]) -> str:
    """What a user types."""
    line = shlex.join(fix["command"]) if fix["command"] else fix["shell_line"]
    assert isinstance(line, str), fix
    return line
