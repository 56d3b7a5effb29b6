"""Drivers that answer, and CUDA that does not start: each by what cuInit or NVML says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuenv.simulate.records import Container
from tests.scenarios.ground import both, host, stub
from tests.unseen.table import unseen

if TYPE_CHECKING:
    from gpuenv.simulate.records import Profile


def of_old_form(profile: Profile) -> Profile:
    """A MIG instance as drivers before R470 named it, of numbers that no instance has."""
    return replace(profile, environment={"CUDA_VISIBLE_DEVICES": f"MIG-{profile.gpus[0].uuid}/99/0"})


CONFINED = (
    unseen(
        "cuda-initialization-failed",
        "Docker with a seccomp profile that forbids what libcuda calls",
        "l4-550",
        both(host(container=Container.DOCKER), stub(cuda__return__cuInit="304")),
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
        first="kernel's log",
        unsaid=("nvidia-modprobe",),
    ),
    unseen(
        "mig-misconfigured",
        "a variable that names a MIG instance in the form of R450, which is there no more",
        "a100-mig-535",
        of_old_form,
        first="CUDA_VISIBLE_DEVICES",
        named=("by its UUID",),
    ),
    unseen(
        "mig-misconfigured",
        "a container that was given a GPU in MIG mode and none of its instances",
        "mig-without-instances",
        host(container=Container.DOCKER),
        first="/dev/nvidia-caps",
        named=("On the host, make",),
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
        first="kernel's log",
        named=("--timeout",),
    ),
)
