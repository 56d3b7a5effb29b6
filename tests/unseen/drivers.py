"""Faults of drivers, kernels and GPUs."""

from __future__ import annotations

from gpuenv.simulate.profile import CompatSpec, ContainerEngine, DeviceNodeSpec, KernelModule, PciVisibility
from tests.scenarios.driver_states import NO_DEVICES, NO_DRIVER_LIBRARIES, NUMPY, VERSION_MISMATCH, kernel_log
from tests.scenarios.scenario import combine, driver, gpus, host, stub, target
from tests.unseen.machine_table import LXC, case, with_files

WITHOUT_UVM = driver(nodes=(DeviceNodeSpec("nvidia0", 0o666), DeviceNodeSpec("nvidiactl", 0o666)))

DRIVERS = (
    case(
        "driver-install-broken",
        "Fedora with RPM Fusion's module and without its package for CUDA",
        "gtx1080ti-580",
        combine(host(distribution="fedora 41"), driver(**NO_DRIVER_LIBRARIES)),
        first_fix="xorg-x11-drv-nvidia-cuda",
    ),
    case(
        "driver-install-broken",
        "Debian with nvidia-smi and without libcuda1",
        "l4-550",
        combine(host(distribution="debian 12"), driver(libcuda=False)),
        first_fix="libcuda1",
    ),
    case(
        "gpu-removed-from-driver",
        "Arch moved a GTX 1060 to the open modules of R590",
        "gtx1080ti-580",
        combine(
            host(distribution="arch rolling", kernel="6.18.2-arch2-1"),
            driver(module=KernelModule.OPEN, version="590.48.01", library="590.48.01", cuda=13010),
            gpus(name="NVIDIA GeForce GTX 1060 6GB", device="1c03", shown=PciVisibility.BUS),
            NO_DEVICES,
            kernel_log(
                "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1c03)",
                "NVRM: installed in this system is not supported by open",
                "NVRM: nvidia.ko because it does not include the required GPU",
                "NVRM: System Processor (GSP).",
                "nvidia 0000:01:00.0: probe with driver nvidia failed with error -1",
            ),
        ),
        first_fix="580xx",
    ),
    case(
        "gpu-removed-from-driver",
        "NixOS moved a GTX 1050 to R595",
        "gtx1080ti-580",
        combine(
            host(distribution="nixos 26.05", kernel="6.18.20"),
            driver(version="595.58.03", library="595.58.03", cuda=13020),
            gpus(name="NVIDIA GeForce GTX 1050", device="1c8d", shown=PciVisibility.BUS),
            NO_DEVICES,
            kernel_log(
                "NVRM: The NVIDIA NVIDIA GeForce GTX 1050 GPU installed in this system is",
                "NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please",
                "NVRM:  information.  The 595.58.03 NVIDIA driver will ignore",
                "NVRM:  this GPU.  Continuing probe...",
                "NVRM: No NVIDIA GPU found.",
            ),
        ),
        first_fix="legacy_580",
    ),
    case(
        "device-node-missing",
        "a Proxmox container without nvidia-uvm",
        "l4-550",
        combine(LXC, host(distribution="debian 12"), WITHOUT_UVM, stub(cuda__return__cuInit="999")),
        first_fix="lxc",
    ),
    case(
        "driver-library-version-mismatch",
        "a Proxmox container with the libraries of an older driver than its host's",
        "l4-550",
        combine(LXC, host(distribution="debian 12"), driver(library="535.183.01"), VERSION_MISMATCH),
        first_fix="550.163.01",
        excluded=("reboot",),
    ),
    case(
        "driver-library-version-mismatch",
        "a Docker container that is older than the host's driver",
        "l4-550",
        combine(host(container=ContainerEngine.DOCKER), driver(library="535.183.01"), VERSION_MISMATCH),
        first_fix="container",
        excluded=("sudo reboot",),
    ),
    case(
        "forward-compat-unsupported",
        "an image's cuda-compat, older than the host's driver",
        "h200-580",
        combine(
            host(container=ContainerEngine.DOCKER),
            driver(compat=CompatSpec("535.183.06", 12020)),
            target("cupy-cuda12x==14.2.0", NUMPY, toolkit="12.2"),
            stub(cuda__return__cuInit="803"),
        ),
        first_fix="compat",
        excluded=("reboot",),
    ),
    case(
        "driver-library-version-mismatch",
        "an updated driver with leftover libraries, before the restart",
        "l4-550",
        combine(
            driver(library="580.95.05"),
            VERSION_MISMATCH,
            with_files(
                {
                    f"{folder}/{name}.so.550.163.01": ""
                    for folder in ("usr/lib/x86_64-linux-gnu", "usr/lib")
                    for name in ("libcuda", "libnvidia-ml")
                }
            ),
        ),
        first_fix="Restart the machine",
        excluded=("emove", "from the loader"),
    ),
    case(
        "no-driver",
        "a fresh instance of Amazon Linux",
        "l4-550",
        combine(host(distribution="amzn 2023"), driver(module=KernelModule.NONE, **NO_DRIVER_LIBRARIES)),
        first_fix="dnf",
    ),
    case(
        "no-driver",
        "Linux Mint before its driver manager was opened",
        "gtx1080ti-580",
        combine(host(distribution="linuxmint 22"), driver(module=KernelModule.NONE, **NO_DRIVER_LIBRARIES)),
        first_fix="ubuntu-drivers",
    ),
    case(
        "gpu-hardware-fault",
        "an unresponsive GSP firmware",
        "l4-550",
        combine(
            stub(
                **{"nvml__return__*@0": "15"},
                cuda__return__cuInit="999",
                smi__exit="15",
                smi__text="Unable to determine the device handle for GPU0: 0000:31:00.0: GPU is lost.\\n",
            ),
            kernel_log(
                "NVRM: Xid (PCI:0000:31:00): 119, pid=2914, name=python3, Timeout after 45s of waiting for RPC "
                "response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801702 0x4)."
            ),
        ),
    ),
    case(
        "gpu-hardware-fault",
        "a card whose power cable is not plugged in",
        "gtx1080ti-580",
        combine(
            gpus(shown=PciVisibility.KERNEL),
            NO_DEVICES,
            kernel_log(
                "NVRM: GPU 0000:01:00.0: GPU does not have the necessary power cables connected.",
                "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x24:0x1c:1435)",
                "NVRM: GPU 0000:01:00.0: rm_init_adapter failed, device minor number 0",
            ),
        ),
        first_fix="power",
    ),
    case(
        "gpu-hardware-fault",
        "a mainboard whose firmware assigns no BAR",
        "gtx1080ti-580",
        combine(
            gpus(shown=PciVisibility.BUS),
            NO_DEVICES,
            kernel_log(
                "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
                "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)",
                "NVRM: The system BIOS may have misconfigured your GPU.",
                "nvidia: probe of 0000:01:00.0 failed with error -1",
            ),
        ),
        first_fix="4G",
    ),
    case(
        "fabric-manager-not-running",
        "eight B200 on Ubuntu",
        "fabric-manager",
        combine(
            host(distribution="ubuntu 24.04"),
            driver(version="580.95.05", library="580.95.05", cuda=13000),
            gpus(name="NVIDIA B200", capability="10.0", device="2901", memory=183359 << 20),
            target("cupy-cuda13x==14.2.0", NUMPY, toolkit="13.0"),
        ),
        first_fix="fabricmanager",
    ),
    case(
        "driver-too-old-for-cuda",
        "CentOS 7 with R450 on a cluster",
        "t4-470",
        combine(
            host(distribution="centos 7"),
            driver(version="450.248.02", library="450.248.02", cuda=11000),
            target("cupy-cuda12x==13.6.0", "numpy==1.26.4"),
        ),
        first_fix="cupy-cuda11x",
        assumptions=("--assume", "python=3.9", "--assume", "libc=glibc-2.17"),
    ),
    case(
        "gpu-too-new-for-toolkit",
        "a DGX Spark with CUDA 12.8",
        "gb200-580",
        combine(
            lambda profile: profile,
            gpus(name="NVIDIA GB10", capability="12.1", device="2e12"),
            target("cupy-cuda12x==14.2.0", NUMPY, toolkit="12.4"),
        ),
    ),
    case(
        "gpu-removed-from-toolkit",
        "a V100 and an RTX 5090 under CUDA 13",
        "v100-h100-580",
        combine(target("cupy-cuda13x==14.2.0", NUMPY, toolkit="13.0")),
        first_fix="cupy-cuda12x",
        excluded=("pdate the driver",),
    ),
)
