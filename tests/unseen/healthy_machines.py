"""Unusual machines on which CuPy works: no findings."""

from __future__ import annotations

from gpuenv.simulate.profile import CompatSpec, ContainerEngine, KernelModule, MigSpec, PciSpec, PciVisibility
from tests.scenarios.driver_states import NUMPY, kernel_log, other_devices
from tests.scenarios.scenario import combine, driver, gpus, host, stub, target, variables
from tests.unseen.machine_table import LXC, case, more_gpus, with_files, with_variables
from tests.unseen.target_setups import (
    arch_package,
    cache_in_memory,
    empty_path_entries,
    missing_cache_directory,
    pip_leftovers,
)

L4, H100, H200 = "l4-550", "h100-535", "h200-580"
MIG_UUID = "MIG-6e7a3c10-52d4-5b1f-9c00-000000000001"
APU = {
    "sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 24\nvendor_id 4098\ndevice_id 5567\n"
    "gfx_target_version 110003\nlocal_mem_size 0\n",
    "sys/class/kfd/kfd/topology/nodes/1/name": "ip discovery\n",
}
GT_710 = {
    "name": "NVIDIA GeForce GT 710",
    "capability": "3.5",
    "device": "128b",
    "pci": "0000:05:00.0",
    "pci_class": "0x030000",
    "shown": PciVisibility.BUS,
    "memory": 2048 << 20,
    "uuid": "GPU-6e7a3c10-52d4-4b1f-9c00-0000000000aa",
}
EXCLUDED = {"shown": PciVisibility.KERNEL}
OLD_GPU = {
    "name": "Tesla V100-PCIE-32GB",
    "capability": "7.0",
    "device": "1db6",
    "pci": "0000:af:00.0",
    "memory": 32768 << 20,
    "uuid": "GPU-6e7a3c10-52d4-4b1f-9c00-0000000000bb",
}

HEALTHY_MACHINES = (
    case("", "a headless server without nvidia-smi", L4, driver(smi=False)),
    case(
        "",
        "a laptop with integrated AMD graphics",
        L4,
        combine(
            gpus(name="NVIDIA GeForce RTX 4060 Laptop GPU", device="28e0", pci_class="0x030000"),
            other_devices(PciSpec("0000:05:00.0", "0x038000", "1002", "15bf", "amdgpu")),
            with_files(APU),
        ),
    ),
    case(
        "",
        "an old display GPU that the driver ignores",
        "gtx1080ti-580",
        combine(
            driver(version="535.183.01", library="535.183.01", cuda=12020),
            more_gpus(GT_710),
            target("cupy-cuda12x==14.2.0", NUMPY, toolkit="12.2"),
            kernel_log(
                "NVRM: The NVIDIA GeForce GT 710 GPU installed in this system is",
                "NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please",
                "NVRM:  information.  The 535.183.01 NVIDIA driver will ignore",
                "NVRM:  this GPU.  Continuing probe...",
            ),
        ),
    ),
    case(
        "sources-disagree",
        "a second GPU that an option of the kernel module excludes",
        L4,
        combine(
            more_gpus({"pci": "0000:41:00.0", "uuid": "GPU-6e7a3c10-52d4-4b1f-9c00-0000000000cc", **EXCLUDED}),
            with_files(
                {
                    "proc/driver/nvidia/gpus/0000:41:00.0/information": "Model: \t\t NVIDIA L4\n"
                    "Bus Location: \t 0000:41:00.0\nDevice Minor: \t 1\nGPU Excluded:\t Yes\n",
                    "proc/driver/nvidia/params": 'RmMsg: ""\nExcludedGpus: "0000:41:00.0"\n',
                }
            ),
        ),
        error=False,
        first_fix="NVreg_ExcludedGpus",
    ),
    case(
        "",
        "a V100 that is hidden from CUDA 13 by UUID",
        H200,
        combine(
            driver(module=KernelModule.PROPRIETARY),
            gpus(uuid="GPU-6e7a3c10-52d4-4b1f-9c00-000000000000"),
            more_gpus(OLD_GPU),
            with_variables(CUDA_VISIBLE_DEVICES="GPU-6e7a3c10-52d4-4b1f-9c00-000000000000"),
        ),
    ),
    case(
        "",
        "the oldest driver of CUDA 12",
        H100,
        combine(
            driver(version="525.60.13", library="525.60.13", cuda=12000),
            target("cupy-cuda12x==14.2.0", NUMPY, toolkit="12.6"),
        ),
    ),
    case(
        "",
        "torch of CUDA 12.8",
        "rtx5090-570",
        target(
            "cupy-cuda12x==14.2.0",
            NUMPY,
            "torch==2.9.0",
            "nvidia-cublas-cu12==12.8.4.1",
            "nvidia-cuda-nvrtc-cu12==12.8.93",
            "nvidia-cuda-runtime-cu12==12.8.90",
            "nvidia-cudnn-cu12==9.10.2.21",
            "nvidia-nccl-cu12==2.27.5",
        ),
    ),
    case(
        "",
        "a pod with a slice of an A100",
        "a100-mig-535",
        combine(
            host(container=ContainerEngine.KUBERNETES),
            gpus(mig=(MigSpec("1g.5gb", 4864 << 20, 2),)),
            stub(gpu__0__mig__1__uuid=MIG_UUID),
            with_variables(NVIDIA_VISIBLE_DEVICES=MIG_UUID, CUDA_VISIBLE_DEVICES=MIG_UUID),
        ),
    ),
    case(
        "",
        "a read-only home and a cache in memory",
        H100,
        setup=cache_in_memory,
        unprivileged=True,
    ),
    case("", "leftovers of an interrupted pip", L4, setup=pip_leftovers),
    case("", "a cache directory that the job creates", L4, setup=missing_cache_directory),
    case("", "CuPy from source", L4, target("cupy==14.2.0", NUMPY), setup=arch_package("12")),
    case("", "CUDA_PATH with a trailing slash", L4, setup=variables(CUDA_PATH="/usr/local/cuda/")),
    case("", "empty and missing entries of LD_LIBRARY_PATH", L4, setup=empty_path_entries),
    case(
        "",
        "a Grace Hopper with pages of 64 KiB",
        "gb200-580",
        combine(
            host(arch="aarch64", kernel="6.8.0-1025-nvidia-64k", distribution="ubuntu 22.04"),
            gpus(name="NVIDIA GH200 480GB", capability="9.0", device="2342"),
        ),
    ),
    case(
        "",
        "an idle GPU with a reduced link speed",
        "rtx5090-570",
        stub(
            gpu__0__pcie__generation="1",
            gpu__0__pcie__generation__max="5",
            gpu__0__pcie__width="16",
            gpu__0__pcie__width__max="16",
            gpu__0__clock__reasons="0x1",
            gpu__0__persistence="0",
        ),
    ),
    case(
        "",
        "R470 on an A100 with cuda-compat of CUDA 12",
        "a100-mig-535",
        combine(
            gpus(mig=()),
            driver(version="470.256.02", library="470.256.02", cuda=11040, compat=CompatSpec("535.183.06", 12020)),
        ),
    ),
    case("", "a Proxmox container with its host's release", L4, combine(LXC, host(distribution="debian 12"))),
    case(
        "",
        "Xids of programs in the log",
        H100,
        kernel_log(
            "NVRM: Xid (PCI:0000:53:00): 31, pid=3122, name=python, Ch 00000008, intr 00000000. MMU Fault",
            "NVRM: Xid (PCI:0000:53:00): 13, pid=3122, name=python, Graphics Exception: ESR 0x504730=0xc03000e",
            "NVRM: Xid (PCI:0000:53:00): 43, pid=3122, name=python, Ch 00000008",
        ),
    ),
)
