"""GPUs that work, but not as they should."""

from __future__ import annotations

import pytest

from gpuenv.doctor.checks import health as checks
from gpuenv.doctor.registry import CheckFunction
from gpuenv.matrix.tables import Matrix
from gpuenv.model.finding import Severity
from gpuenv.model.reading import known
from gpuenv.model.snapshot import DeviceNode, Driver, Gpu, GpuHealth, Grant, PcieLink, Snapshot, Virtualization
from tests.doctor.test_gpu import IDLE, run_check

ENABLED = "MIG mode is pending: it will be enabled by the next reset"
DISABLED = "MIG mode is pending: it will be disabled by the next reset"
UNLICENSED = "this virtual GPU has no licence and will be slowed down"


def pcie(width: int, most: int) -> Gpu:
    return IDLE._replace(pcie=PcieLink(width=known(width, "nvml"), width_most=known(most, "nvml")))


def power(limit: float, default: float) -> Gpu:
    health = GpuHealth(power_limit=known(limit, "nvml"), power_limit_default=known(default, "nvml"))
    return IDLE._replace(health=health)


def mig(*, now: bool, pending: bool) -> Gpu:
    return IDLE._replace(mig=known(now, "nvml"), mig_pending=known(pending, "nvml"))


def vgpu(kind: Virtualization, *, licensed: bool) -> Gpu:
    return IDLE._replace(virtualization=known(kind, "nvml"), licensed=known(licensed, "nvml"))


def inforom(*, valid: bool) -> Gpu:
    return IDLE._replace(health=GpuHealth(inforom_valid=known(valid, "nvml")))


@pytest.mark.parametrize(
    ("check", "gpu", "title"),
    [
        (checks.pcie_link_narrow, pcie(1, 16), "its PCIe link has 1 of 16 lanes"),
        (checks.pcie_link_narrow, pcie(4, 16), "its PCIe link has 4 of 16 lanes"),
        (checks.pcie_link_narrow, pcie(8, 16), None),
        (checks.pcie_link_narrow, pcie(1, 1), None),
        (checks.power_limit_low, power(100, 400), "its power limit is 100 W, and 400 W by default"),
        (checks.power_limit_low, power(250, 400), None),
        (checks.power_limit_low, power(200, 400), None),
        (checks.mig_mode_pending, mig(now=False, pending=True), ENABLED),
        (checks.mig_mode_pending, mig(now=True, pending=False), DISABLED),
        (checks.mig_mode_pending, mig(now=True, pending=True), None),
        (checks.vgpu_unlicensed, vgpu(Virtualization.VGPU, licensed=False), UNLICENSED),
        (checks.vgpu_unlicensed, vgpu(Virtualization.VGPU, licensed=True), None),
        (checks.vgpu_unlicensed, vgpu(Virtualization.PASSTHROUGH, licensed=False), None),
        (checks.inforom_corrupt, inforom(valid=False), "its infoROM is corrupt"),
        (checks.inforom_corrupt, inforom(valid=True), None),
        (checks.inforom_corrupt, IDLE, None),
    ],
)  # fmt: skip
def test_a_silent_fault_is_a_warning(matrix: Matrix, check: CheckFunction, gpu: Gpu, title: str | None) -> None:
    symptoms = run_check(matrix, check, Snapshot(gpus=(gpu,)))
    assert [symptom.title.partition(": ")[2] for symptom in symptoms] == ([] if title is None else [title])
    assert {symptom.severity for symptom in symptoms} <= {Severity.WARNING}


CLOSED = DeviceNode("/dev/nvidia1", accessible=False, mode="crw-------", owner="root:root")
OPEN = DeviceNode("/dev/nvidia0", accessible=True, mode="crw-rw-rw-", owner="root:root")
SHARED = Snapshot(
    gpus=(IDLE,), driver=Driver(cuda_init=known(0, "libcuda"), device_nodes=(OPEN, CLOSED)), grant=Grant()
)


def test_a_device_node_that_this_user_may_not_open_is_named(matrix: Matrix) -> None:
    (symptom,) = run_check(matrix, checks.gpu_node_closed, SHARED)
    assert symptom.title == "This user may not open /dev/nvidia1: CUDA does not list this GPU"
    assert symptom.evidence[0].value == "crw------- root:root"


@pytest.mark.parametrize(
    "snapshot",
    [
        SHARED._replace(grant=Grant(gpus=known(1, "SLURM_JOB_GPUS"))),
        SHARED._replace(driver=SHARED.driver._replace(cuda_init=known(100, "libcuda"))),
        SHARED._replace(driver=SHARED.driver._replace(device_nodes=(OPEN, CLOSED._replace(mode="crw-rw-rw-")))),
        SHARED._replace(driver=SHARED.driver._replace(device_nodes=(OPEN, CLOSED._replace(path="/dev/nvidia-caps")))),
    ],
    ids=["granted", "another-check", "control-group", "another-device"],
)
def test_closed_nodes_by_design_are_no_finding(matrix: Matrix, snapshot: Snapshot) -> None:
    assert run_check(matrix, checks.gpu_node_closed, snapshot) == []
