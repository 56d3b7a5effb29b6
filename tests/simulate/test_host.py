"""The host's driver, toolkit, job and container do not appear on a simulated machine."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from gpuenv.simulate.stub_driver import CUDART
from tests.cli.program import PROGRAM
from tests.simulate.commands import simulate

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver

LOAD = """
import ctypes, sys
for name in sys.argv[1:]:
    try:
        ctypes.CDLL(name)
        print("loaded", next(line.split()[-1] for line in open("/proc/self/maps") if "libcu" in line))
    except OSError as error:
        print(error)
"""


def test_the_host_s_driver_is_not_found_on_a_machine_without_one(cache: Path, stub_driver: StubDriver) -> None:
    """Users with a GPU test there how their program behaves without one."""
    (stub_driver.folder / "libcuda.so").unlink(missing_ok=True)
    (stub_driver.folder / "libcuda.so").symlink_to("libcuda.so.1")
    names = ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1", str(stub_driver.cuda))
    host = {"LD_LIBRARY_PATH": str(stub_driver.folder)}
    lines = simulate("no-gpu", sys.executable, "-c", LOAD, *names, cache=cache, **host).stdout.splitlines()
    assert len(lines) == len(names)
    assert all("cannot open shared object file" in line for line in lines), lines
    probed = json.loads(simulate("no-gpu", *PROGRAM, "probe", "--format", "json", cache=cache, **host).stdout)
    assert [probed["driver"][name]["value"] for name in ("nvml_library", "cuda_library", "library_version")] == [
        None
    ] * 3


def test_a_machine_s_driver_is_found_and_the_host_s_is_not(cache: Path, stub_driver: StubDriver) -> None:
    host = {"LD_LIBRARY_PATH": str(stub_driver.folder)}
    names = (str(stub_driver.cuda), "libcuda.so.1")
    host_error, loaded = simulate(
        "h200-580", sys.executable, "-c", LOAD, *names, cache=cache, **host
    ).stdout.splitlines()
    assert "cannot open shared object file" in host_error
    assert loaded.startswith("loaded ")
    assert "/machine/root/" in loaded


def test_ld_audit_of_the_caller_is_kept(cache: Path) -> None:
    result = simulate("h200-580", "env", cache=cache, LD_AUDIT="/nowhere/mine.so")
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("LD_AUDIT=")]
    assert line.endswith("/libgpuenv-audit.so:/nowhere/mine.so")


CUDA = "/usr/local/cuda"


@pytest.fixture
def without_toolkit(tmp_path: Path) -> str:
    """A machine without a CUDA toolkit."""
    profile = tmp_path / "without-toolkit.yaml"
    profile.write_text("driver: {module: none}\n", encoding="utf-8")
    return str(profile)


def test_the_host_s_cuda_libraries_are_not_loaded_on_the_machine(cache: Path, without_toolkit: str) -> None:
    """They would show cuda-pathfinder the host's toolkit."""
    installed = [name for name in (*CUDART.values(), f"{CUDA}/lib64/libcudart.so") if _loads(name)]
    if not installed:
        pytest.skip("the loader of this host finds no CUDA runtime")
    lines = simulate(without_toolkit, sys.executable, "-c", LOAD, *installed, cache=cache).stdout.splitlines()
    assert all("cannot open shared object file" in line for line in lines), lines
    assert len(lines) == len(installed)


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def test_variables_and_path_do_not_lead_to_the_host_s_toolkit(cache: Path) -> None:
    variables = {
        "CUDA_PATH": CUDA,
        "CUDA_HOME": "/opt/mine",
        "PATH": f"{CUDA}-13.0/bin:{os.environ['PATH']}:{CUDA}/bin",
    }
    lines = simulate("h200-580", "env", cache=cache, **variables).stdout.splitlines()
    assert [line for line in lines if line.startswith(("CUDA_PATH=", "CUDA_HOME="))] == []
    (path,) = [line for line in lines if line.startswith("PATH=")]
    assert CUDA not in path
    assert f":{os.environ['PATH'].split(':')[0]}:" in path


@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_JOB_ID": "1", "SLURM_JOB_GPUS": "0,1"}, {"SLURM_GPUS_ON_NODE": "2"}, {"_CONDOR_AssignedGPUs": "GPU-1"},
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, {"APPTAINER_CONTAINER": "/a.sif"}, {"container": "podman"},
        {"HIP_VISIBLE_DEVICES": "3"}, {"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"},
    ],
)  # fmt: skip
def test_the_caller_s_job_and_container_are_not_seen_on_the_machine(cache: Path, variables: dict[str, str]) -> None:
    probed = json.loads(simulate("h200-580", *PROGRAM, "probe", "--format", "json", cache=cache, **variables).stdout)
    assert probed["host"]["container"]["value"] == "none"
    assert probed["grant"]["gpus"]["value"] is None
    assert probed["mps"]["pipe_directory"]["value"] == "/tmp/nvidia-mps"  # noqa: S108 - the documented place
    assert set(probed["environment"]) <= {"LD_LIBRARY_PATH", "SLURM_JOB_ID"}


def test_an_unreadable_folder_on_path_does_not_prevent_a_run(cache: Path, tmp_path: Path) -> None:
    """As with another user's PATH. Root can read every folder, so the test uses a name that is too long."""
    profile = tmp_path / "without-driver.yaml"
    profile.write_text("driver: {module: none}\n", encoding="utf-8")
    simulate(str(profile), "true", cache=cache)  # compiled by now
    result = simulate(str(profile), "true", cache=cache, PATH=f"{tmp_path / ('x' * 256)}:{os.environ['PATH']}")
    assert (result.returncode, result.stderr) == (0, "")


def test_an_incomplete_stub_driver_is_recompiled(tmp_path: Path) -> None:
    simulate("h200-580", "true", cache=tmp_path)
    (cached,) = (tmp_path / "gpuenv").iterdir()
    (cached / "nvidia-smi").unlink()
    recompiled = simulate("h200-580", "nvidia-smi", "-L", cache=tmp_path)
    assert (recompiled.returncode, recompiled.stderr) == (0, "gpuenv: compiling the stub driver, once\n")
    assert simulate("h200-580", "nvidia-smi", "-L", cache=tmp_path).stderr == ""
