"""``gpuenv fleet collect --via slurm`` on a real Slurm of eight simulated nodes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.fleet.node_report import parse_node_report
from tests.support.slurm import missing_part, simulated_machine, slurm_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.slurm import SlurmCluster
    from tests.support.target import CudaLibraries

pytestmark = pytest.mark.slurm
MACHINES = {
    "gpu1": "h200-580",
    "gpu2": "no-cupy",
    "gpu3": "l4-550",
    "gpu4": "mismatch-535",
    "gpu5": "a100-row-failed",
    "gpu6": "h200-580",
    "gpu7": "hung-nvml",
    "gpu8": "hung-nvml",
}
TIMEOUT, WAIT = 20, 20  # seconds
SLACK = 20  # of two cores that run eight nodes


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> Iterator[SlurmCluster]:
    if part := missing_part():
        pytest.fail(part)
    folder = tmp_path_factory.mktemp("slurm")
    machines = {
        node: simulated_machine(name, folder / f"machine-{node}", stub_driver, cuda_libraries)
        for node, name in MACHINES.items()
    }
    no_recipe = folder / "no-recipe"
    no_recipe.write_text("exit 0\n", encoding="utf-8")
    with slurm_cluster(folder, machines, no_recipe) as running:
        yield running


def start(cluster: SlurmCluster, folder: Path, *options: str, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gpuenv", "fleet", "collect", "--via", "slurm", "-o", str(folder)]
    command += ["--host-only", "--timeout", str(TIMEOUT), "--wait", str(WAIT), "--format", "json", *options]
    return subprocess.Popen(
        command, env=cluster.environment | variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, Any, str]:
    stdout, stderr = process.communicate(timeout=180)
    assert stdout, stderr
    return process.returncode, json.loads(stdout), stderr


def kill_node(cluster: SlurmCluster, node: str) -> None:
    """Kills the node's daemon and the jobs on it at once, as a power failure does."""
    ours = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
            except OSError:
                continue
            is_daemon = "slurmd " in words and str(cluster.folder) in words and words.split()[-1] == node
            if is_daemon or f"SLURMD_NODENAME={node}" in variables(entry) or words.startswith(f"slurmstepd {node}"):
                ours.append(int(entry.name))
    for pid in ours:
        os.kill(pid, signal.SIGKILL)


def variables(entry: Path) -> list[str]:
    try:
        return (entry / "environ").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def test_nothing_is_lost_but_the_dead_node_which_is_named(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Two nodes hang; one of them dies while it is examined. A drained one has left its report in the folder."""
    folder = tmp_path / "reports"
    machine = (cluster.folder / "machines/gpu6").read_text(encoding="utf-8")
    health_check = f"{machine}exec gpuenv fleet node --host-only -o {folder}\n"
    subprocess.run(["sh", "-c", health_check], env={"SLURMD_NODENAME": "gpu6"}, check=True, capture_output=True)
    cluster.call("scontrol", "update", "NodeName=gpu6", "State=DRAIN", "Reason=repair")
    started = time.monotonic()
    process = start(cluster, folder, "--nodes", "gpu[1-8]")
    time.sleep(8)
    kill_node(cluster, "gpu8")
    code, found, messages = finish(process)
    elapsed = time.monotonic() - started
    assert code == 1
    assert found["nodes"] == ["gpu1", "gpu2", "gpu3", "gpu4", "gpu5", "gpu7", "gpu8", "gpu6"]
    assert found["fit"] == ["gpu1", "gpu2", "gpu3", "gpu6"]
    assert [(entry["node"], entry["code"]) for entry in found["unfit"]] == [
        ("gpu4", "DRV107"),
        ("gpu5", "GPU206"),
        ("gpu7", "DRV100"),
    ]
    assert [entry["node"] for entry in found["silent"]] == ["gpu8"]
    (drained,) = found["unavailable"]
    assert (drained["node"], drained["reason"]) == ("gpu6", "its state in Slurm is drained")
    assert elapsed < TIMEOUT + WAIT + SLACK
    assert "asking 7 nodes by slurm, at most 40 s; 1 cannot be asked" in messages
    assert re.search(r"\d of 8 nodes: \d fit, \d unfit, \d unknown", messages)
    files = sorted(path.name for path in folder.iterdir())
    assert files == ["_collection.json", *(f"gpu{number}.json" for number in range(1, 8))]
    assert {parse_node_report((folder / name).read_bytes()).run for name in files[1:] if name != "gpu6.json"} == {
        found["run"]
    }
    name = f"gpuenv-{found['run']}"
    assert cluster.call("squeue", "-h", "-t", "PENDING,RUNNING", "--name", name) == "", "no job is left"


def test_a_busy_node_and_an_unknown_one_are_named(cluster: SlurmCluster, tmp_path: Path) -> None:
    """From within a job, too, whose variables would make each command a step of it."""
    number = cluster.submit("#!/bin/sh\nsleep 60\n", "--nodelist=gpu1", "--exclusive")
    cluster.await_job(number, "JobState=RUNNING")
    options = ("--nodes", "gpu[1-2,99]", "--wait", "3", "--quorum", "0.5")
    code, found, _ = finish(start(cluster, tmp_path / "reports", *options, SLURM_JOB_ID=number, SLURM_NNODES="1"))
    cluster.call("scancel", number)
    assert (code, found["fit"], found["unfit"]) == (8, ["gpu2"], [])
    silent = {entry["node"]: entry["reason"] for entry in found["silent"]}
    assert set(silent) == {"gpu1", "gpu99"}
    assert re.match("its state in Slurm is allocated;|.*Requested nodes are busy", silent["gpu1"])  # sinfo may lag
    assert silent["gpu99"].startswith("not a node of this Slurm cluster")
