"""The host's driver, job and container do not appear on a simulated machine."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import PROGRAM
from tests.simulate.commands import on

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver

LOAD = """
import ctypes, sys
for name in sys.argv[1:]:
    try:
        ctypes.CDLL(name)
        print("loaded", next(line.split()[-1] for line in open("/proc/self/maps") if "libcuda" in line))
    except OSError as error:
        print(error)
"""


def test_the_host_s_driver_is_not_found_on_a_machine_without_one(cache: Path, stub_driver: StubDriver) -> None:
    """Users with a GPU test there how their program behaves without one."""
    (stub_driver.folder / "libcuda.so").unlink(missing_ok=True)
    (stub_driver.folder / "libcuda.so").symlink_to("libcuda.so.1")
    names = ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1", str(stub_driver.cuda))
    host = {"LD_LIBRARY_PATH": str(stub_driver.folder)}
    lines = on("no-gpu", sys.executable, "-c", LOAD, *names, cache=cache, **host).stdout.splitlines()
    assert len(lines) == len(names)
    assert all("cannot open shared object file" in line for line in lines), lines
    probed = json.loads(on("no-gpu", *PROGRAM, "probe", "--format", "json", cache=cache, **host).stdout)
    assert [probed["driver"][name]["value"] for name in ("nvml_library", "cuda_library", "library_version")] == [
        None
    ] * 3


def test_a_machine_s_driver_is_found_and_the_host_s_is_not(cache: Path, stub_driver: StubDriver) -> None:
    host = {"LD_LIBRARY_PATH": str(stub_driver.folder)}
    names = (str(stub_driver.cuda), "libcuda.so.1")
    refused, loaded = on("h200-580", sys.executable, "-c", LOAD, *names, cache=cache, **host).stdout.splitlines()
    assert "cannot open shared object file" in refused
    assert loaded.startswith("loaded ")
    assert "/machine/root/" in loaded


def test_the_caller_s_own_auditing_of_the_loader_goes_on(cache: Path) -> None:
    done = on("h200-580", "env", cache=cache, LD_AUDIT="/nowhere/mine.so")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("LD_AUDIT=")]
    assert line.endswith("/libgpuenv-audit.so:/nowhere/mine.so")


@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_JOB_ID": "1", "SLURM_JOB_GPUS": "0,1"}, {"SLURM_GPUS_ON_NODE": "2"}, {"_CONDOR_AssignedGPUs": "GPU-1"},
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, {"APPTAINER_CONTAINER": "/a.sif"}, {"container": "podman"},
        {"HIP_VISIBLE_DEVICES": "3"}, {"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"},
    ],
)  # fmt: skip
def test_neither_the_caller_s_job_nor_its_container_is_the_machine_s(cache: Path, variables: dict[str, str]) -> None:
    probed = json.loads(on("h200-580", *PROGRAM, "probe", "--format", "json", cache=cache, **variables).stdout)
    assert probed["host"]["container"]["value"] == "none"
    assert probed["grant"]["gpus"]["value"] is None
    assert probed["mps"]["pipe_directory"]["value"] == "/tmp/nvidia-mps"  # noqa: S108 - the documented place
    assert set(probed["environment"]) <= {"LD_LIBRARY_PATH", "SLURM_JOB_ID"}


def test_an_unreadable_folder_on_path_does_not_prevent_a_run(cache: Path, tmp_path: Path) -> None:
    """As with another user's PATH; root may read every folder, so a name that is too long stands for one."""
    bare = tmp_path / "bare.yaml"
    bare.write_text("driver: {module: none}\n", encoding="utf-8")
    on(str(bare), "true", cache=cache)  # compiled by now
    done = on(str(bare), "true", cache=cache, PATH=f"{tmp_path / ('x' * 256)}:{os.environ['PATH']}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stub_driver_of_which_a_part_was_removed_is_compiled_again(tmp_path: Path) -> None:
    on("h200-580", "true", cache=tmp_path)
    (kept,) = (tmp_path / "gpuenv").iterdir()
    (kept / "nvidia-smi").unlink()
    again = on("h200-580", "nvidia-smi", "-L", cache=tmp_path)
    assert (again.returncode, again.stderr) == (0, "gpuenv: compiling the stub driver, once\n")
    assert on("h200-580", "nvidia-smi", "-L", cache=tmp_path).stderr == ""
