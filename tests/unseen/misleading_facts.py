"""Containers, jobs, limits and hardware: one cause each, with misleading facts."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.simulate.profile import ContainerEngine, DeviceNodeSpec, KernelModule, MigSpec, PciVisibility
from tests.scenarios.driver_states import (
    NO_DEVICES,
    NO_DRIVER_LIBRARIES,
    NOT_RESPONDING,
    NUMPY,
    VERSION_MISMATCH,
    kernel_log,
)
from tests.scenarios.scenario import combine, driver, gpus, host, stub, target, variables
from tests.unseen.healthy_containers import L4_UUID, SECOND_L4
from tests.unseen.machine_table import PODMAN, case, more_gpus, with_files, with_variables
from tests.unseen.target_setups import empty_module

L4, H200, PASCAL = "l4-550", "h200-580", "gtx1080ti-580"
FOURTH_GPU_GRANTED = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_GPUS": "3",
    "SLURM_GPUS_ON_NODE": "1",
    "SLURM_JOB_USER": "somebody",
}
EARLIER_XID = (
    "Nov 20 07:00:00 node17 kernel: [    0.000000] Linux version 5.15.0-119-generic (buildd@lcy02-amd64-075)\n"
    "Nov 20 09:30:01 node17 kernel: [ 9001.000100] NVRM: Xid (PCI:0000:31:00): 79, GPU has fallen off the bus.\n"
    "Nov 21 06:00:00 node17 kernel: [    0.000000] Linux version 5.15.0-119-generic (buildd@lcy02-amd64-075)\n"
    "Nov 21 06:00:09 node17 kernel: [    9.412000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.163.01\n"
)
TWO_NODES = (DeviceNodeSpec("nvidia0", 0o666), DeviceNodeSpec("nvidiactl", 0o666))
WITHOUT_UVM = {"proc/modules": "nvidia_drm 1 0 - Live 0x0\nnvidia_modeset 1 1 - Live 0x0\nnvidia 1 1 - Live 0x0\n"}


MISLEADING_FACTS = (
    case(
        "driver-install-broken",
        "a node with the driver in the GPU operator's container",
        L4,
        combine(
            host(distribution="ubuntu 22.04", kernel="5.15.0-119-generic"),
            driver(**NO_DRIVER_LIBRARIES),
            with_files(
                {
                    "run/nvidia/driver/usr/bin/nvidia-smi": "",
                    "run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.1": "",
                    "run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01": "",
                    "run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.163.01": "",
                    "run/nvidia/validations/driver-ready": "",
                }
            ),
        ),
        first_fix="/run/nvidia/driver",
        excluded=("apt-get install", "ubuntu-drivers", "modprobe"),
    ),
    case(
        "visible-devices-hide-gpu",
        "an empty variable and an old Xid 79",
        L4,
        combine(with_files({"var/log/kern.log": EARLIER_XID}), with_variables(CUDA_VISIBLE_DEVICES="")),
        first_fix="CUDA_VISIBLE_DEVICES",
        excluded=("reset", "eseat"),
    ),
    case(
        "visible-devices-hide-gpu",
        "a job that names its GPU by its number on the host",
        L4,
        with_variables(**FOURTH_GPU_GRANTED, CUDA_VISIBLE_DEVICES="3"),
        first_fix="CUDA_VISIBLE_DEVICES",
        excluded=("--gres", "--gpus"),
    ),
    case(
        "visible-devices-hide-gpu",
        "a pod with one slice and a launcher that numbers processes",
        "a100-mig-535",
        combine(
            host(container=ContainerEngine.KUBERNETES),
            gpus(mig=(MigSpec("3g.20gb", 19968 << 20, 1),)),
            with_variables(NVIDIA_VISIBLE_DEVICES="void", CUDA_VISIBLE_DEVICES="1", LOCAL_RANK="1"),
        ),
        first_fix="CUDA_VISIBLE_DEVICES",
        excluded=("-cgi", "-mig 0"),
    ),
    case(
        "gpu-busy",
        "a model server that uses almost all memory",
        L4,
        stub(gpu__0__memory__free=str(260 << 20), gpu__0__processes="2817:23521656832"),
        error=False,
        excluded=("kill -9", "reset"),
    ),
    case(
        "gpu-throttled",
        "a passively cooled P40 in a desktop",
        PASCAL,
        combine(
            gpus(name="Tesla P40", device="1b38", memory=24576 << 20, pci_class="0x030200"),
            stub(
                gpu__0__clock__reasons="0x68",
                gpu__0__clock__sm="544",
                gpu__0__clock__max__sm="1531",
                gpu__0__temperature="96",
                gpu__0__power__usage="61000",
                gpu__0__power__limit="250000",
            ),
        ),
        error=False,
        first_fix="Cool it",
        excluded=("pdate the driver", "-pl"),
    ),
    case(
        "gpu-hardware-fault",
        "memory errors after which the driver requests a restart",
        H200,
        combine(
            stub(cuda__return__cuInit="999"),
            kernel_log(
                "NVRM: Xid (PCI:0000:3a:00): 95, pid=9120, name=python3, Uncontained: FBHUB. RST: Yes, D-RST: No",
                "NVRM: Xid (PCI:0000:3a:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot "
                "Required)",
            ),
        ),
        included=("estart",),
    ),
    case(
        "driver-unresponsive",
        "CUDA that hangs while NVML works",
        L4,
        combine(stub(cuda__delay__cuInit="forever"), lambda profile: replace(profile, timeout=5.0)),
    ),
    case(
        "driver-too-old-for-cuda",
        "WSL with a Windows driver older than CUDA 12",
        "wsl-rtx3060-560",
        driver(version="472.84", cuda=11040),
        included=("Windows",),
        excluded=("apt-get", "ubuntu-drivers"),
    ),
    case(
        "container-without-gpu",
        "Podman without a device on a host with CDI files",
        L4,
        combine(
            PODMAN,
            host(distribution="debian 12"),
            driver(nodes=(), **NO_DRIVER_LIBRARIES),
            with_variables(NVIDIA_VISIBLE_DEVICES="all", NVIDIA_DRIVER_CAPABILITIES="compute,utility"),
        ),
        first_fix="--device",
        included=("nvidia.com/gpu",),
        excluded=("apt-get install nvidia-driver",),
    ),
    case(
        "device-node-permission",
        "rootless Podman on Fedora, whose SELinux denies access to the nodes",
        L4,
        combine(
            PODMAN,
            host(distribution="fedora 43"),
            driver(nodes=(*TWO_NODES, DeviceNodeSpec("nvidia-uvm", 0o666))),
            stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4", nvml__return__nvmlInit_v2="4"),
            with_variables(NVIDIA_VISIBLE_DEVICES="void"),
        ),
        first_fix="label=disable",
        excluded=("podman restart",),
    ),
    case(
        "container-without-gpu",
        "a pod with a granted GPU that the runtime did not inject",
        L4,
        combine(
            host(container=ContainerEngine.KUBERNETES),
            driver(nodes=(), **NO_DRIVER_LIBRARIES),
            with_variables(NVIDIA_VISIBLE_DEVICES=L4_UUID),
        ),
        included=("runtimeClass",),
    ),
    case(
        "cuda-initialization-failed",
        "a vGPU of Azure with the ordinary driver",
        L4,
        combine(
            host(distribution="ubuntu 22.04", kernel="6.8.0-1029-azure"),
            gpus(name="NVIDIA A10", capability="8.6", device="2236", pci="0002:00:00.0", shown=PciVisibility.BUS),
            NO_DEVICES,
            kernel_log(
                "NVRM: The NVIDIA GPU 0002:00:00.0 (PCI ID: 10de:2236)",
                "NVRM: installed in this system is not supported by the",
                "NVRM: NVIDIA 550.163.01 driver release.",
                "nvidia: probe of 0002:00:00.0 failed with error -1",
            ),
        ),
        first_fix="GRID",
    ),
    case(
        "container-driver-capabilities",
        "Apptainer with --nv on a host whose ldconfig does not list libcuda",
        L4,
        combine(
            host(container=ContainerEngine.APPTAINER, distribution="rocky 9.6"),
            driver(folder=".singularity.d/libs", libcuda=False),
        ),
        first_fix="ldconfig -p",
        excluded=("NVIDIA_DRIVER_CAPABILITIES",),
    ),
    case(
        "device-node-missing",
        "a headless server without nvidia-uvm",
        L4,
        combine(
            host(distribution="gentoo 2.17", kernel="6.12.58-gentoo"),
            driver(nodes=TWO_NODES, folder="usr/lib64"),
            with_files(WITHOUT_UVM),
            stub(cuda__return__cuInit="999"),
        ),
        first_fix="nvidia-uvm",
        excluded=("nstall",),
    ),
    case(
        "device-node-missing",
        "a systemd service with PrivateDevices",
        L4,
        combine(
            driver(nodes=()), NOT_RESPONDING, with_variables(INVOCATION_ID="8d3f0d4bb3f0", JOURNAL_STREAM="9:112233")
        ),
        excluded=("reboot", "nstall"),
    ),
    case(
        "driver-library-version-mismatch",
        "a Flatpak application with an outdated driver extension",
        "flatpak-rtx4090",
        combine(driver(version="560.35.03"), VERSION_MISMATCH),
        first_fix="flatpak update",
        excluded=("reboot", "apt-get"),
    ),
    case(
        "driver-library-version-mismatch",
        "Arch after a driver update, with an old Xid in the log",
        H200,
        combine(
            host(distribution="arch rolling", kernel="6.17.9-arch1-1"),
            driver(module=KernelModule.OPEN, version="580.95.05", library="580.105.08", cuda=13000),
            VERSION_MISMATCH,
            kernel_log("NVRM: Xid (PCI:0000:3a:00): 31, pid=1201, name=python3, Ch 00000008, intr 00000000. MMU Fault"),
        ),
        first_fix="eboot",
        excluded=("apt-get",),
    ),
    case(
        "fabric-manager-not-running",
        "a pod on a node whose fabric manager is not running",
        "fabric-manager",
        combine(host(container=ContainerEngine.KUBERNETES), with_variables(NVIDIA_VISIBLE_DEVICES="all")),
        first_fix="host",
    ),
    case(
        "corrupt-installation", "an installation on a full disk", L4, setup=empty_module, first_fix="--force-reinstall"
    ),
    case(
        "platform-wheel-missing",
        "an Alpine image",
        L4,
        combine(host(container=ContainerEngine.DOCKER, distribution="alpine 3.22"), target(NUMPY)),
        included=("glibc",),
        assumptions=("--assume", "python=3.12", "--assume", "libc=musl-1.2"),
    ),
    case(
        "cuda-library-missing",
        "a driver for CUDA 12.4 without a toolkit, and an outdated CUDA_HOME",
        L4,
        target("cupy-cuda12x==14.2.0", NUMPY, toolkit=None),
        setup=variables(CUDA_HOME="/usr/local/cuda-11.2"),
        first_fix="[ctk]",
        independent=("cuda-path-wrong",),
    ),
    case(
        "driver-too-old-for-cuda",
        "R515 with the wheel of CUDA 12, a hidden GPU and an old NumPy",
        L4,
        combine(
            driver(version="515.105.01", library="515.105.01", cuda=11070),
            gpus(name="NVIDIA A10", capability="8.6", device="2236"),
            more_gpus(SECOND_L4),
            target("cupy-cuda12x==13.6.0", "numpy==1.26.4", toolkit="11.7"),
            with_variables(CUDA_VISIBLE_DEVICES="0"),
        ),
        first_fix="cupy-cuda11x",
    ),
)
