"""What confines a process, or is ahead of the matrix: each by what cuInit, NVML or the kernel's files say of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuenv.simulate.profile import ContainerEngine, PciVisibility
from tests.scenarios.ground import both, driver, gpus, host, stub, target
from tests.scenarios.reported import owned
from tests.scenarios.states import NOTHING, NUMPY
from tests.unseen.table import given, unseen

if TYPE_CHECKING:
    from gpuenv.simulate.profile import Profile


def of_old_form(profile: Profile) -> Profile:
    """A MIG instance as drivers before R470 named it, of numbers that no instance has."""
    return replace(profile, environment={"CUDA_VISIBLE_DEVICES": f"MIG-{profile.gpus[0].uuid}/99/0"})


def beside_a_k80(profile: Profile) -> Profile:
    """A board of before, which the driver has not taken."""
    old = replace(profile.gpus[0], name="Tesla K80", capability="3.7", pci="0000:05:00.0", device="102d", uuid="GPU-1")
    return replace(profile, gpus=(*profile.gpus, replace(old, shown=PciVisibility.BUS)))


CONFINED = (
    unseen(
        "cuda-initialization-failed",
        "Docker with a seccomp profile that forbids what libcuda calls",
        "l4-550",
        both(host(container=ContainerEngine.DOCKER), stub(cuda__return__cuInit="304")),
        first="--security-opt seccomp=unconfined",
        named=("strace",),
        unsaid=("nvidia-modprobe", "then restart the machine"),
    ),
    unseen(
        "cuda-initialization-failed",
        "a security module on a workstation that forbids what libcuda calls",
        "l4-550",
        stub(cuda__return__cuInit="304"),
        first="strace",
        unsaid=("nvidia-modprobe", "--security-opt"),
    ),
    unseen(
        "cuda-initialization-failed",
        "a batch system that limits the virtual memory of a job",
        "l4-550",
        stub(cuda__return__cuInit="2"),
        first="ulimit -v",
        unsaid=("nvidia-modprobe",),
    ),
    unseen(
        "cuda-initialization-failed",
        "a driver whose module for CUDA's memory is at work, and an error of no kind that is known",
        "l4-550",
        stub(cuda__return__cuInit="214"),
        first="kernel log",
        unsaid=("nvidia-modprobe",),
    ),
    unseen(
        "mig-misconfigured",
        "a variable that names a MIG instance in the form of R450, which is there no more",
        "a100-mig-535",
        of_old_form,
        first="CUDA_VISIBLE_DEVICES",
        named=("the UUID of",),
    ),
    unseen(
        "mig-misconfigured",
        "a container that was given a GPU in MIG mode and none of its instances",
        "mig-without-instances",
        host(container=ContainerEngine.DOCKER),
        first="/dev/nvidia-caps",
        named=("On the host, create",),
    ),
    unseen(
        "sources-disagree",
        "an NVML that does not start beside a CUDA that does",
        "l4-550",
        stub(
            nvml__return__nvmlInitWithFlags="999",
            nvml__return__nvmlInit_v2="999",
            smi__exit="255",
            smi__text="Failed to initialize NVML: Unknown Error\\n",
        ),
        first="nvidia-smi",
        error=False,
    ),
    unseen(
        "gpu-hardware-fault",
        "a GPU of which NVML says that it requires a reset",
        "l4-550",
        stub(**{"nvml__return__*@0": "16", "cuda__return__cuInit": "101"}),
        first="--gpu-reset",
    ),
    unseen(
        "driver-unresponsive",
        "eight GPUs without persistence mode, which take longer to wake than they are given",
        "h100x8-550",
        both(
            stub(nvml__delay__nvmlInitWithFlags="9", cuda__delay__cuInit="9", smi__delay="9"),
            lambda profile: replace(profile, timeout=3.0),
        ),
        first="kernel log",
        named=("--timeout",),
    ),
    unseen(
        "container-without-gpu",
        "Docker under a gVisor that was not told of the driver",
        "gvisor-h200-580",
        both(driver(version="none", library="none", cuda=0, **NOTHING), lambda profile: replace(profile, gpus=())),
        first="--nvproxy",
    ),
    unseen(
        "device-node-permission",
        "a Jetson for a user who is in neither of its groups",
        "jetson-orin-540",
        stub(cuda__return__cuInit="100"),
        owned(0o660),
        first="usermod",
        unsaid=("NVreg",),
        without_rights=True,
        root=True,
    ),
    unseen(
        "gpu-too-new-for-toolkit",
        "a GPU that came out after the matrix",
        "h200-580",
        both(
            driver(version="650.10.01", library="650.10.01", cuda=14000),
            gpus(name="NVIDIA R200", capability="14.0", device="3999"),
            target(NUMPY, toolkit=None),
        ),
        first="gpuenv matrix refresh",
        named=("another GPU",),
        alone=("cupy-not-installed",),
    ),
    unseen(
        "gpu-removed-from-driver",
        "a K80 beside a card that works under R580",
        "gtx1080ti-580",
        beside_a_k80,
        first="branch 470",
        named=("keep the driver",),
        error=False,
    ),
    unseen("", "a list of GPUs that a script has ended with a comma", "h100x8-550", given(CUDA_VISIBLE_DEVICES="0,1,")),
    unseen(
        "cuda-initialization-failed",
        "a virtual GPU for desktops alone",
        "vgpu-a10-570",
        both(gpus(name="NVIDIA A10-4B"), stub(cuda__return__cuInit="100")),
        first="type of virtual GPU",
    ),
    unseen(
        "cuda-initialization-failed",
        "MIG instances whose nodes root alone may read",
        "a100-mig-535",
        stub(cuda__return__cuInit="100"),
        first="/dev/nvidia-caps",
    ),
)
