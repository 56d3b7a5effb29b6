"""Machines of public reports: the driver, its module and its libraries."""

from __future__ import annotations

from gpuenv.simulate.profile import ContainerEngine, KernelModule
from tests.scenarios.driver_states import NOT_RESPONDING, NUMPY, NUMPY_1, VERSION_MISMATCH, kernel_log, other_devices
from tests.scenarios.public_reports import (
    AFTER_SUSPEND,
    GEFORCE,
    H100,
    INTEL,
    L4,
    LINE_12,
    SECURE_BOOT,
    T4,
    V100,
    card,
    case,
    driver_release,
    further_libraries,
    nodes_of_another_user,
)
from tests.scenarios.scenario import combine, driver, files, host, stub, target

DRIVER = (
    case(
        "openSUSE/nvidia-driver-G06#52",
        "device-node-permission",
        L4,
        combine(
            host(distribution="opensuse-leap 15.6"),
            stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4", nvml__return__nvmlInit_v2="4"),
        ),
        nodes_of_another_user(0o660),
        fix_text="usermod",
        unprivileged=True,
        needs_root=True,
    ),
    case(
        "NVIDIA/nvidia-docker#284",
        "device-node-permission",
        "gtx1080ti-580",
        combine(
            host(distribution="opensuse-leap 42.2"),
            driver_release("375.26", level=8000),
            stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4", nvml__return__nvmlInit_v2="4"),
            target(toolkit=None),
        ),
        nodes_of_another_user(0o660),
        fix_text="usermod",
        unprivileged=True,
        needs_root=True,
    ),
    case(
        "MicrosoftDocs/azure-docs#111536",
        "driver-module-not-loaded",
        T4,
        combine(driver(module=KernelModule.INSTALLED_NOT_LOADED), SECURE_BOOT),
        fix_text="Secure Boot",
    ),
    case(
        "CachyOS/linux-cachyos#118",
        "driver-kernel-incompatible",
        "gtx1080ti-580",
        combine(
            host(distribution="cachyos", kernel="6.6.2-3-cachyos"),
            driver(module=KernelModule.NONE),
            NOT_RESPONDING,
            files(**{"lib__modules__6.6.1-arch1-1__modules.dep": "extramodules/nvidia.ko.zst:\n"}),
        ),
        fix_text="build",
    ),
    case(
        "cupy/cupy#8395",
        "nouveau-loaded",
        "nouveau-gtx1080ti",
        combine(
            host(kernel="6.5.0-41-generic", distribution="ubuntu 22.04"),
            card("GA107M [GeForce RTX 3050 Mobile]", "8.6", "25a2"),
            other_devices(INTEL),
            target("cupy-cuda11x==13.2.0", NUMPY_1, toolkit="11.5"),
        ),
        fix_text="nvidia",
    ),
    case(
        "illinois-scicomp/machine-shop-maintenance#70",
        "driver-library-version-mismatch",
        L4,
        combine(
            host(distribution="debian 11", kernel="5.10.0-21-amd64"),
            driver(version="520.56.06", library="525.85.12", cuda=12000),
            VERSION_MISMATCH,
            files(**{"var__lib__dkms__nvidia-current__520.56.06__5.10.0-21-amd64__x86_64__module__nvidia.ko": ""}),
        ),
        fix_text="apt",
    ),
    case(
        "NVIDIA/nvidia-docker#584",
        "driver-library-version-mismatch",
        V100,
        combine(
            host(distribution="rhel 7.4"),
            driver(version="387.36", library="384.81", cuda=9000),
            VERSION_MISMATCH,
            further_libraries("387.36", "libcuda", "libnvidia-ml"),
            target(NUMPY_1, toolkit=None),
        ),
        fix_text="ldconfig",
    ),
    case(
        "NVIDIA/nvidia-container-toolkit#394",
        "driver-library-version-mismatch",
        "gtx1080ti-580",
        combine(
            driver(version="550.54.14", library="550.67", cuda=12040),
            card("NVIDIA GeForce RTX 3060", "8.6", "2504"),
            VERSION_MISMATCH,
            target(LINE_12, NUMPY, toolkit="12.4"),
        ),
        fix_text="reboot",
    ),
    case(
        "NVIDIA/nvidia-docker#737",
        "driver-library-version-mismatch",
        "gtx1080ti-580",
        combine(
            host(container=ContainerEngine.DOCKER),
            driver(version="390.46", library="384.81", cuda=9000, module=KernelModule.PROPRIETARY),
            VERSION_MISMATCH,
            target(NUMPY_1, toolkit=None),
        ),
        fix_text="recreate the container",
    ),
    case(
        "easydiffusion/easydiffusion#379",
        "driver-library-version-mismatch",
        "gtx1080ti-580",
        combine(
            host(distribution="ubuntu 20.04"),
            driver(version="470.141.03", library="515.65.01", cuda=11070),
            VERSION_MISMATCH,
            target("cupy-cuda11x==13.6.0", NUMPY_1, toolkit="11.8"),
        ),
        fix_text="reboot",
    ),
    case("cupy/cupy#1790", "no-driver", "no-driver-h100", fix_text="driver"),
    case("gbionics/jaxsim#50", "suspend-resume-lost-gpu", GEFORCE, AFTER_SUSPEND, fix_text="nvidia_uvm"),
    case(
        "pop-os/default-settings#64",
        "suspend-resume-lost-gpu",
        "gtx1080ti-580",
        combine(host(distribution="pop 22.04"), AFTER_SUSPEND),
        fix_text="nvidia_uvm",
    ),
    case(
        "mumax/3#167",
        "suspend-resume-lost-gpu",
        "gtx1080ti-580",
        combine(host(distribution="ubuntu 16.04"), AFTER_SUSPEND),
        fix_text="nvidia_uvm",
    ),
    case(
        "NVIDIA/open-gpu-kernel-modules#900",
        "gpu-hardware-fault",
        GEFORCE,
        combine(
            host(distribution="arch", kernel="6.15.6-zen1-1-zen"),
            driver_release("575.64.03", level=12090),
            stub(**{"nvml__return__*@0": "15", "cuda__return__cuInit": "101", "smi__exit": "15"}),
            kernel_log(
                "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
                "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.",
            ),
        ),
    ),
    case(
        "NVIDIA/open-gpu-kernel-modules#507",
        "gpu-hardware-fault",
        "rtx4090-545",
        combine(
            host(distribution="gentoo", kernel="6.3.4-gentoo"),
            driver_release("530.41.03", level=12010),
            card("NVIDIA GeForce RTX 3070 Ti Laptop GPU", "8.6", "24a0"),
            stub(**{"nvml__return__*@0": "15", "cuda__return__cuInit": "101", "smi__exit": "15"}),
            kernel_log("NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
        ),
    ),
    case(
        "vllm-project/vllm#5222",
        "gpu-hardware-fault",
        H100,
        combine(
            stub(
                gpu__0__ecc="1",
                gpu__0__ecc__volatile__uncorrected="1",
                gpu__0__remapped__uncorrected="1",
                gpu__0__remapped__pending="1",
            ),
            kernel_log(
                "NVRM: Xid (PCI:0000:3a:00): 95, pid=412, name=python3, Uncontained: FBHUB. RST: Yes, D-RST: No"
            ),
        ),
        fix_text="reset it",
    ),
)
