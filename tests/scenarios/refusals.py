"""Scenarios of rejections: of a GPU by the driver, of a module by the kernel, of an environment by CuPy."""

from __future__ import annotations

from gpuenv.simulate.profile import ContainerEngine, DeviceNodeSpec, KernelModule, PciVisibility
from tests.scenarios.driver_states import NO_DEVICES, NO_DRIVER_LIBRARIES, NUMPY, kernel_log
from tests.scenarios.scenario import Scenario, combine, driver, gpus, host, stub, target
from tests.scenarios.target_setups import (
    cupy_requirements,
    numpy_of_another_python,
    script_named_cuda,
    script_named_numpy,
)

L4, H100, GEFORCE = "l4-550", "h100-535", "rtx5090-570"
CLOSED_NODES = tuple(DeviceNodeSpec(name, 0o000) for name in ("nvidia0", "nvidiactl", "nvidia-uvm"))


OLD_PATHFINDER = ("cupy-cuda12x==14.2.0", NUMPY, "cuda-pathfinder==1.0.0")
PATHFINDER = "cuda-pathfinder==1.*,>=1.3.4"
REFUSALS = (
    Scenario(
        "cupy-shadowed",
        "a script named cuda.py",
        L4,
        target("cupy-cuda12x==14.2.0", NUMPY, "cuda-pathfinder==1.9.0"),
        script_named_cuda,
    ),
    Scenario("numpy-incompatible", "a script named numpy.py", L4, setup=script_named_numpy),
    Scenario("numpy-incompatible", "PYTHONPATH of an environment module", L4, setup=numpy_of_another_python),
    Scenario("corrupt-installation", "a missing fastrlock", L4, setup=cupy_requirements("numpy>=2", "fastrlock>=0.5")),
    Scenario(
        "corrupt-installation",
        "a cuda-pathfinder that is too old",
        L4,
        target(*OLD_PATHFINDER),
        cupy_requirements(PATHFINDER),
    ),
    Scenario(
        "gpu-too-new-for-driver",
        "Blackwell under the proprietary modules",
        GEFORCE,
        combine(
            driver(module=KernelModule.PROPRIETARY),
            gpus(shown=PciVisibility.BUS),
            NO_DEVICES,
            kernel_log("NVRM: installed in this system requires use of the NVIDIA open kernel modules."),
        ),
    ),
    Scenario(
        "gpu-too-new-for-driver",
        "Blackwell under the proprietary modules, with an unreadable log",
        GEFORCE,
        combine(driver(module=KernelModule.PROPRIETARY), gpus(shown=PciVisibility.KERNEL), NO_DEVICES),
    ),
    Scenario(
        "gpu-removed-from-driver",
        "Pascal under the open modules",
        "gtx1080ti-580",
        combine(driver(module=KernelModule.OPEN), gpus(shown=PciVisibility.BUS), NO_DEVICES),
    ),
    Scenario(
        "gpu-too-new-for-driver",
        "an unlisted GPU",
        L4,
        combine(
            gpus(shown=PciVisibility.BUS, device="3fff"),
            NO_DEVICES,
            kernel_log("NVRM: installed in this system is not supported by the NVIDIA 550.163.01 driver release."),
        ),
    ),
    Scenario(
        "driver-kernel-incompatible",
        "a module for another build of the kernel",
        L4,
        combine(
            driver(module=KernelModule.INSTALLED_NOT_LOADED),
            kernel_log("nvidia: version magic '6.1.0-17-amd64 SMP preempt' should be '6.1.0-18-amd64 SMP preempt'"),
        ),
    ),
    Scenario(
        "driver-kernel-incompatible",
        "no address range for the GPU's memory",
        H100,
        combine(
            stub(cuda__return__cuInit="802"),
            kernel_log("nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:9] request_free_mem_region() err -34"),
        ),
    ),
    Scenario(
        "driver-install-broken",
        "a missing firmware",
        L4,
        combine(
            gpus(shown=PciVisibility.KERNEL),
            NO_DEVICES,
            kernel_log(
                "nvidia 0000:31:00.0: Direct firmware load for nvidia/550.163.01/gsp_ga10x.bin failed with error -2"
            ),
        ),
    ),
    Scenario(
        "cuda-initialization-failed",
        "a GPU in confidential-computing mode that is not ready",
        H100,
        combine(gpus(name="NVIDIA H100 PCIe"), stub(cuda__return__cuInit="802")),
    ),
    Scenario(
        "device-node-permission",
        "nodes of a group to which the user does not belong",
        L4,
        combine(
            host(container=ContainerEngine.DOCKER),
            driver(nodes=CLOSED_NODES),
            stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4", nvml__return__nvmlInit_v2="4"),
        ),
        unprivileged=True,
    ),
    Scenario(
        "container-without-gpu",
        "Docker in WSL without --gpus",
        "wsl-rtx3060-560",
        combine(host(container=ContainerEngine.DOCKER), driver(nodes=(), **NO_DRIVER_LIBRARIES)),
    ),
)
