"""Scenarios of what refuses: drivers a GPU, kernels a driver, containers their nodes, CuPy an environment."""

from __future__ import annotations

from gpuenv.simulate.profile import ContainerEngine, DeviceNodeSpec, KernelModule, PciVisibility
from tests.scenarios.ground import Scenario, both, driver, gpus, host, stub, target
from tests.scenarios.spoiling import numpy_of_another_python, requiring, script_named_cuda, script_named_numpy
from tests.scenarios.states import NONE_LISTED, NOTHING, NUMPY, said

L4, H100, GEFORCE = "l4-550", "h100-535", "rtx5090-570"
CLOSED = tuple(DeviceNodeSpec(name, 0o000) for name in ("nvidia0", "nvidiactl", "nvidia-uvm"))


OLD_FINDER = ("cupy-cuda12x==14.2.0", NUMPY, "cuda-pathfinder==1.0.0")
FINDER = "cuda-pathfinder==1.*,>=1.3.4"
REFUSED = (
    Scenario(
        "cupy-shadowed",
        "a script named cuda.py",
        L4,
        target("cupy-cuda12x==14.2.0", NUMPY, "cuda-pathfinder==1.9.0"),
        script_named_cuda,
    ),
    Scenario("numpy-incompatible", "a script named numpy.py", L4, spoil=script_named_numpy),
    Scenario("numpy-incompatible", "PYTHONPATH of a module of the cluster's", L4, spoil=numpy_of_another_python),
    Scenario("corrupt-installation", "fastrlock is gone", L4, spoil=requiring("numpy>=2", "fastrlock>=0.5")),
    Scenario("corrupt-installation", "a finder that is too old", L4, target(*OLD_FINDER), requiring(FINDER)),
    Scenario(
        "gpu-too-new-for-driver",
        "Blackwell under the proprietary modules",
        GEFORCE,
        both(
            driver(module=KernelModule.PROPRIETARY),
            gpus(shown=PciVisibility.BUS),
            NONE_LISTED,
            said("NVRM: installed in this system requires use of the NVIDIA open kernel modules."),
        ),
    ),
    Scenario(
        "gpu-too-new-for-driver",
        "Blackwell, started by the proprietary modules, which then give up; the log cannot be read",
        GEFORCE,
        both(driver(module=KernelModule.PROPRIETARY), gpus(shown=PciVisibility.KERNEL), NONE_LISTED),
    ),
    Scenario(
        "gpu-removed-from-driver",
        "Pascal under the open modules",
        "gtx1080ti-580",
        both(driver(module=KernelModule.OPEN), gpus(shown=PciVisibility.BUS), NONE_LISTED),
    ),
    Scenario(
        "gpu-too-new-for-driver",
        "a GPU that is in no table",
        L4,
        both(
            gpus(shown=PciVisibility.BUS, device="3fff"),
            NONE_LISTED,
            said("NVRM: installed in this system is not supported by the NVIDIA 550.163.01 driver release."),
        ),
    ),
    Scenario(
        "driver-kernel-incompatible",
        "the module of another build of the kernel",
        L4,
        both(
            driver(module=KernelModule.INSTALLED_NOT_LOADED),
            said("nvidia: version magic '6.1.0-17-amd64 SMP preempt' should be '6.1.0-18-amd64 SMP preempt'"),
        ),
    ),
    Scenario(
        "driver-kernel-incompatible",
        "no room for the GPU's memory",
        H100,
        both(
            stub(cuda__return__cuInit="802"),
            said("nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:9] request_free_mem_region() err -34"),
        ),
    ),
    Scenario(
        "driver-install-broken",
        "its firmware is not there",
        L4,
        both(
            gpus(shown=PciVisibility.KERNEL),
            NONE_LISTED,
            said("nvidia 0000:31:00.0: Direct firmware load for nvidia/550.163.01/gsp_ga10x.bin failed with error -2"),
        ),
    ),
    Scenario(
        "cuda-initialization-failed",
        "a GPU of a confidential machine that takes no work yet",
        H100,
        both(gpus(name="NVIDIA H100 PCIe"), stub(cuda__return__cuInit="802")),
    ),
    Scenario(
        "device-node-permission",
        "the nodes of a group that the user is not in",
        L4,
        both(
            host(container=ContainerEngine.DOCKER),
            driver(nodes=CLOSED),
            stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4", nvml__return__nvmlInit_v2="4"),
        ),
        without_rights=True,
    ),
    Scenario(
        "container-without-gpu",
        "Docker in WSL without --gpus",
        "wsl-rtx3060-560",
        both(host(container=ContainerEngine.DOCKER), driver(nodes=(), **NOTHING)),
    ),
)
