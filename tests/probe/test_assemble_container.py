"""GPU grants of schedulers and container engines, MPS, and container support."""

from __future__ import annotations

import pytest

from gpuenv.model.reading import Reading
from gpuenv.probe.assembly import container_support, find_grant, mps, parse_device_list, relevant_variables
from tests.probe.raw_facts import KernelFacts, RawContainerToolkit, RawEngine, RawMps, RawRules

UUID = "GPU-8cbaba1c-2629-a732-f528-66f459089ef6"
MIG = "MIG-fb42055e-9e53-5764-9278-438605a3014c"
HOST, DOCKER, POD = (KernelFacts(container=name) for name in ("none", "docker", "kubernetes"))


@pytest.mark.parametrize(
    ("kernel", "environment", "facts"),
    [
        (HOST, {}, (None, None, None)),
        (HOST, {"CUDA_VISIBLE_DEVICES": "0,1"}, (None, None, None)),
        (HOST, {"NVIDIA_VISIBLE_DEVICES": "0"}, (None, None, None)),
        (HOST, {"SLURM_JOB_ID": "1", "SLURM_JOB_GPUS": "2,3"}, ("slurm", 2, ("2", "3"))),
        (HOST, {"SLURM_JOB_GPUS": "0-3,6"}, ("slurm", 5, ("0", "1", "2", "3", "6"))),
        (HOST, {"SLURM_JOB_GPUS": "2,3", "SLURM_STEP_GPUS": "3"}, ("slurm", 1, ("3",))),
        (HOST, {"SLURM_GPUS_ON_NODE": "4"}, ("slurm", 4, None)),
        (HOST, {"SLURM_JOB_ID": "1"}, ("slurm", None, None)),
        (HOST, {"SLURM_JOB_ID": "1", "SLURM_GPUS_ON_NODE": "gpu:2"}, ("slurm", None, None)),
        (HOST, {"_CONDOR_AssignedGPUs": "CUDA1, CUDA2"}, ("htcondor", 2, ("CUDA1", "CUDA2"))),
        (HOST, {"_CONDOR_AssignedGPUs": "10000"}, ("htcondor", 0, ())),
        (HOST, {"_CONDOR_AssignedGPUs": "none"}, ("htcondor", 0, ())),
        (DOCKER, {}, (None, None, None)),
        (DOCKER, {"NVIDIA_VISIBLE_DEVICES": "all"}, ("container-engine", None, None)),
        (DOCKER, {"NVIDIA_VISIBLE_DEVICES": "none"}, ("container-engine", 0, ())),
        (DOCKER, {"NVIDIA_VISIBLE_DEVICES": "void"}, ("container-engine", None, None)),
        (DOCKER, {"NVIDIA_VISIBLE_DEVICES": ""}, ("container-engine", None, None)),
        (DOCKER, {"NVIDIA_VISIBLE_DEVICES": "0,2"}, ("container-engine", 2, ("0", "2"))),
        (DOCKER, {"NVIDIA_VISIBLE_DEVICES": "0:1"}, ("container-engine", 1, ("0:1",))),
        (POD, {"NVIDIA_VISIBLE_DEVICES": f"{UUID},{MIG}"}, ("kubernetes", 2, (UUID, MIG))),
        (DOCKER, {"NVIDIA_VISIBLE_DEVICES": "nvidia.com/gpu=all"}, ("container-engine", None, None)),
        (DOCKER, {"NVIDIA_VISIBLE_DEVICES": "nvidia.com/gpu=all,nvidia.com/pva=all"}, ("container-engine", None, None)),
        (DOCKER, {"NVIDIA_VISIBLE_DEVICES": "runtime.nvidia.com/gpu=0"}, ("container-engine", 1, ("0",))),
        (DOCKER, {"NVIDIA_VISIBLE_DEVICES": "nvidia.com/pva=all"}, ("container-engine", None, None)),
        (DOCKER, {"NVIDIA_VISIBLE_DEVICES": "all", "SLURM_STEP_GPUS": "1"}, ("slurm", 1, ("1",))),
    ],
)
def test_a_grant_names_its_granter_and_its_gpus(
    kernel: KernelFacts, environment: dict[str, str], facts: tuple[str | None, int | None, tuple[str, ...] | None]
) -> None:
    grant = find_grant(kernel, environment)
    assert (grant.by.value, grant.gpus.value, grant.devices.value) == facts
    for reading in (grant.by, grant.gpus, grant.devices):
        assert (reading.source is not None) is reading.known
        assert (reading.reason is not None) is not reading.known


def test_mounted_requests_take_precedence_over_the_variable() -> None:
    grant = find_grant(KernelFacts(container="docker", mounted_requests=("0", "1")), {"NVIDIA_VISIBLE_DEVICES": "void"})
    assert (grant.gpus.value, grant.gpus.source) == (2, "/var/run/nvidia-container-devices")
    all_gpus = find_grant(KernelFacts(container="docker", mounted_requests=("all",)), {})
    assert (all_gpus.by.value, all_gpus.gpus.value) == ("container-engine", None)


@pytest.mark.parametrize("text", ["", ",", " , ", "-", "3-1", "0-99999999999", "a-b", "GPU-1"])
def test_an_invalid_device_list_is_kept_unchanged(text: str) -> None:
    assert ",".join(parse_device_list(text)) == text.strip(" ,")


def test_only_grant_variables_are_kept_not_personal_ones() -> None:
    grants = dict.fromkeys(("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_JOB_ID"), "0")
    grants |= {"GPU_DEVICE_ORDINAL": "0", "_CONDOR_AssignedGPUs": "CUDA0"}
    names = ("SLURM_JOB_USER", "SLURM_JOB_NAME", "SLURM_SUBMIT_HOST", "SLURM_JOB_ACCOUNT", "SLURM_JOB_NODELIST")
    personal = dict.fromkeys((*names, "_CONDOR_SCRATCH_DIR", "KUBERNETES_SERVICE_HOST"), "user")
    assert relevant_variables({**grants, **personal}) == grants


def test_container_support_is_assembled() -> None:
    kernel = KernelFacts(
        device_rules=RawRules(rules=("c 195:* rwm",)),
        engine=RawEngine(configured=True, runtimes=("nvidia",), default_runtime="nvidia"),
        container_toolkit=RawContainerToolkit(installed=True, release="1.17.8-1"),
    )
    support = container_support(kernel)
    assert support.device_rules == Reading(("c 195:* rwm",), "devices.list")
    assert support.toolkit == Reading("1.17.8-1", "/var/lib/dpkg/status")
    assert support.runtimes == Reading(("nvidia",), "/etc/docker/daemon.json")
    assert support.default_runtime == Reading("nvidia", "/etc/docker/daemon.json")


@pytest.mark.parametrize(
    ("kernel", "toolkit", "runtimes"),
    [
        (KernelFacts(), "not checked", "not checked"),
        (
            KernelFacts(engine=RawEngine(), container_toolkit=RawContainerToolkit()),
            "neither nvidia-ctk nor its package is installed",
            "there is no /etc/docker/daemon.json",
        ),
        (
            KernelFacts(engine=RawEngine(configured=True), container_toolkit=RawContainerToolkit(installed=True)),
            "nvidia-ctk is installed, but not in Debian's list of packages",
            "/etc/docker/daemon.json names none",
        ),
    ],
)
def test_unknown_container_support_has_a_reason(kernel: KernelFacts, toolkit: str, runtimes: str) -> None:
    support = container_support(kernel)
    assert (support.toolkit.reason, support.runtimes.reason) == (toolkit, runtimes)


def test_the_mps_daemon_is_looked_up_in_the_clients_folder() -> None:
    facts = mps(KernelFacts(mps=RawMps("/run/mps", configured=True, daemon=True)))
    assert (facts.pipe_directory.source, facts.daemon.value, facts.daemon.source) == (
        "CUDA_MPS_PIPE_DIRECTORY",
        True,
        "/run/mps/control",
    )
    assert mps(KernelFacts(mps=RawMps("/tmp/nvidia-mps"))).pipe_directory.source == "CUDA's default"  # noqa: S108
    assert mps(KernelFacts()).daemon.reason == "not checked"
