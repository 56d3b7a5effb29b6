"""Restricted processes and hardware newer than the matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuenv.simulate.profile import ContainerEngine, PciVisibility
from tests.scenarios.driver_states import NO_DRIVER_LIBRARIES, NUMPY
from tests.scenarios.public_reports import nodes_of_another_user
from tests.scenarios.scenario import combine, driver, gpus, host, stub, target
from tests.unseen.machine_table import case, with_variables

if TYPE_CHECKING:
    from gpuenv.simulate.profile import Profile


def with_r450_mig_name(profile: Profile) -> Profile:
    """CUDA_VISIBLE_DEVICES names a missing MIG instance in the form of drivers before R470."""
    return replace(profile, environment={"CUDA_VISIBLE_DEVICES": f"MIG-{profile.gpus[0].uuid}/99/0"})


def with_second_k80(profile: Profile) -> Profile:
    """An older GPU that the driver does not support."""
    old = replace(profile.gpus[0], name="Tesla K80", capability="3.7", pci="0000:05:00.0", device="102d", uuid="GPU-1")
    return replace(profile, gpus=(*profile.gpus, replace(old, shown=PciVisibility.BUS)))


RESTRICTIONS = (
    case(
        "cuda-initialization-failed",
        "Docker with a seccomp profile that blocks libcuda",
        "l4-550",
        combine(host(container=ContainerEngine.DOCKER), stub(cuda__return__cuInit="304")),
        first_fix="--security-opt seccomp=unconfined",
        included=("strace",),
        excluded=("nvidia-modprobe", "then restart the machine"),
    ),
    case(
        "cuda-initialization-failed",
        "a security module that blocks libcuda",
        "l4-550",
        stub(cuda__return__cuInit="304"),
        first_fix="strace",
        excluded=("nvidia-modprobe", "--security-opt"),
    ),
    case(
        "cuda-initialization-failed",
        "a batch system that limits the virtual memory of a job",
        "l4-550",
        stub(cuda__return__cuInit="2"),
        first_fix="ulimit -v",
        excluded=("nvidia-modprobe",),
    ),
    case(
        "cuda-initialization-failed",
        "an unknown error with nvidia-uvm loaded",
        "l4-550",
        stub(cuda__return__cuInit="214"),
        first_fix="kernel log",
        excluded=("nvidia-modprobe",),
    ),
    case(
        "mig-misconfigured",
        "a variable with a missing MIG instance in the form of R450",
        "a100-mig-535",
        with_r450_mig_name,
        first_fix="CUDA_VISIBLE_DEVICES",
        included=("export CUDA_VISIBLE_DEVICES=MIG-00000000-0000-0000-0000-000000000000",),
    ),
    case(
        "mig-misconfigured",
        "a container with a MIG GPU and none of its instances",
        "mig-without-instances",
        host(container=ContainerEngine.DOCKER),
        first_fix="/dev/nvidia-caps",
        included=("On the host, create",),
    ),
    case(
        "sources-disagree",
        "an NVML that fails while CUDA works",
        "l4-550",
        stub(
            nvml__return__nvmlInitWithFlags="999",
            nvml__return__nvmlInit_v2="999",
            smi__exit="255",
            smi__text="Failed to initialize NVML: Unknown Error\\n",
        ),
        first_fix="nvidia-smi",
        error=False,
    ),
    case(
        "gpu-hardware-fault",
        "a GPU that requires a reset",
        "l4-550",
        stub(**{"nvml__return__*@0": "16", "cuda__return__cuInit": "101"}),
        first_fix="--gpu-reset",
    ),
    case(
        "driver-unresponsive",
        "eight GPUs without persistence mode that start after the deadline",
        "h100x8-550",
        combine(
            stub(nvml__delay__nvmlInitWithFlags="9", cuda__delay__cuInit="9", smi__delay="9"),
            lambda profile: replace(profile, timeout=3.0),
        ),
        first_fix="kernel log",
        included=("--timeout",),
    ),
    case(
        "container-without-gpu",
        "Docker with gVisor without its NVIDIA proxy",
        "gvisor-h200-580",
        combine(
            driver(version="none", library="none", cuda=0, **NO_DRIVER_LIBRARIES),
            lambda profile: replace(profile, gpus=()),
        ),
        first_fix="--nvproxy",
    ),
    case(
        "device-node-permission",
        "a Jetson for a user outside its groups",
        "jetson-orin-540",
        stub(cuda__return__cuInit="100"),
        nodes_of_another_user(0o660),
        first_fix="usermod",
        excluded=("NVreg",),
        unprivileged=True,
        needs_root=True,
    ),
    case(
        "gpu-too-new-for-toolkit",
        "a GPU newer than the matrix",
        "h200-580",
        combine(
            driver(version="650.10.01", library="650.10.01", cuda=14000),
            gpus(name="NVIDIA R200", capability="14.0", device="3999"),
            target(NUMPY, toolkit=None),
        ),
        first_fix="gpuenv matrix refresh",
        included=("another GPU",),
        independent=("cupy-not-installed",),
    ),
    case(
        "gpu-removed-from-driver",
        "a K80 next to a supported GPU under R580",
        "gtx1080ti-580",
        with_second_k80,
        first_fix="branch 470",
        included=("keep the driver",),
        error=False,
    ),
    case(
        "",
        "a list of GPUs with a trailing comma",
        "h100x8-550",
        with_variables(CUDA_VISIBLE_DEVICES="0,1,"),
    ),
    case(
        "cuda-initialization-failed",
        "a vGPU for desktops only",
        "vgpu-a10-570",
        combine(gpus(name="NVIDIA A10-4B"), stub(cuda__return__cuInit="100")),
        first_fix="ends in Q or C",
        excluded=("nvidia-modprobe", "dmesg"),
    ),
    case(
        "cuda-initialization-failed",
        "MIG instances whose nodes only root can read",
        "a100-mig-535",
        stub(cuda__return__cuInit="100"),
        first_fix="/dev/nvidia-caps",
    ),
)
