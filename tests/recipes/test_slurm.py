"""The Slurm recipes on a real Slurm of eight nodes, four of them sick."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gpuenv
from tests.support.slurm import missing_part, simulated_machine, slurm_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.slurm import SlurmCluster
    from tests.support.target import CudaLibraries

pytestmark = pytest.mark.slurm
RECIPES = Path(gpuenv.__file__).parent / "recipes/slurm"
FIT = {"gpu1": "h200-580", "gpu2": "no-cupy", "gpu3": "l4-550", "gpu4": "a100-corrected-errors"}
SICK = {"gpu5": "mismatch-535", "gpu6": "a100-row-failed", "gpu7": "gpu-lost", "gpu8": "hung-nvml"}
REASONS = {
    "gpu5": "gpuenv DRV107: The loaded kernel module and the driver's libraries have different versions",
    "gpu6": "gpuenv GPU206: GPU 0 (NVIDIA A100-SXM4-40GB): a memory row could not be remapped",
    "gpu7": "gpuenv GPU203: GPU 2 (NVIDIA A100-SXM4-40GB) has fallen off the bus",
    "gpu8": "gpuenv DRV100: ",
}
DRAINED = {**dict.fromkeys(FIT, "idle"), **dict.fromkeys(SICK, "drained")}
TRAIN = '#!/bin/sh\necho "trained on $SLURMD_NODENAME"\n'
HEALTH_CHECK_LIMIT = 60  # seconds, after which Slurm kills it


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> Iterator[SlurmCluster]:
    if part := missing_part():
        pytest.fail(part)
    folder = tmp_path_factory.mktemp("slurm")
    machines = {
        node: simulated_machine(name, folder / f"machine-{node}", stub_driver, cuda_libraries)
        for node, name in (FIT | SICK).items()
    }
    with slurm_cluster(folder, machines, RECIPES / "node.sh") as running:
        yield running


@pytest.fixture
def idle(cluster: SlurmCluster) -> SlurmCluster:
    """The cluster with every node in service and no health check."""
    cluster.reconfigure(interval=0)
    cluster.await_idle()
    return cluster


def assert_sick_nodes_are_named(cluster: SlurmCluster) -> None:
    reasons = cluster.reasons()
    assert set(reasons) == set(SICK)
    assert all(reason.startswith(REASONS[node]) for node, reason in reasons.items()), reasons


def test_the_prolog_drains_sick_nodes_and_their_jobs_run_elsewhere(idle: SlurmCluster) -> None:
    """Eight jobs for eight nodes: four are requeued, none is held, and all are trained on fit nodes."""
    numbers = [idle.submit(TRAIN) for _ in idle.nodes]
    for number in numbers:
        description = idle.await_job(number, "JobState=COMPLETED|Reason=JobHeld")
        assert "JobState=COMPLETED" in description
        output = (idle.folder / f"job-{number}.out").read_text(encoding="utf-8")
        assert output.removeprefix("trained on ").strip() in FIT
    idle.await_states(DRAINED)
    assert_sick_nodes_are_named(idle)
    restarts = [idle.call("scontrol", "show", "job", number).count("Restarts=1") for number in numbers]
    assert sum(restarts) == len(SICK)


def test_the_health_check_drains_sick_nodes_within_its_limit(idle: SlurmCluster) -> None:
    started = time.monotonic()
    idle.reconfigure(interval=5)
    idle.await_states(DRAINED)
    assert_sick_nodes_are_named(idle)
    assert time.monotonic() - started < HEALTH_CHECK_LIMIT + 30


def test_a_job_on_a_node_that_is_bad_for_it_runs_on_another_one(idle: SlurmCluster) -> None:
    """The node passes the prolog; at first, the job's own preflight finds it bad."""
    text = (RECIPES / "job.sh").read_text(encoding="utf-8")
    assert text.count("\ncode=0\n") == 1
    bad = (idle.folder / "machines/gpu5").read_text(encoding="utf-8")
    again = 'if [ -n "${SLURM_RESTART_COUNT:-}" ]; then\necho "trained on $SLURMD_NODENAME"\nexit\nfi\n'
    number = idle.submit(text.replace("\ncode=0\n", f"\n{again}{bad}code=0\n"), "--open-mode=append")
    description = idle.await_job(number, "JobState=COMPLETED")
    excluded = re.search(r"ExcNodeList=(gpu\d)", description)
    assert excluded, description
    output = (idle.folder / f"job-{number}.out").read_text(encoding="utf-8")
    assert "Try another host: driver-library-version-mismatch" in output
    assert re.search(rf"trained on (?!{excluded[1]})gpu", output), output
