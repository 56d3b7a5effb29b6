"""Healthy machines with old log lines, stale files and harmless variables."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.simulate.profile import KernelModule, PciSpec
from tests.scenarios.driver_states import NUMPY, kernel_log, other_devices
from tests.scenarios.scenario import combine, driver, gpus, host, stub, target
from tests.unseen.machine_table import case, more_gpus, with_files

L4, H200, PASCAL = "l4-550", "h200-580", "gtx1080ti-580"
INTEL = PciSpec("0000:00:02.0", "0x030000", "8086", "a7a0", "i915")
ASPEED = PciSpec("0004:02:00.0", "0x030000", "1a03", "2000", "ast")
HYPER_V = PciSpec("0000:00:08.0", "0x030000", "1414", "5353", "hyperv_drm")
SECURE_BOOT = {
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\0\0\0\x01",
    "sys/kernel/security/lockdown": "none [integrity] confidentiality\n",
    "sys/module/module/parameters/sig_enforce": "N\n",
}
KERNEL = "5.15.0-119-generic"
TAINTED_KERNEL = kernel_log(
    "nvidia: loading out-of-tree module taints kernel.",
    "nvidia: module license 'NVIDIA' taints kernel.",
    "Disabling lock debugging due to kernel taint",
    "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025",
)
DEBIAN_INSTALL_LINE = """\
install nvidia modprobe -i nvidia-current $CMDLINE_OPTS
install nvidia-modeset modprobe nvidia ; modprobe -i nvidia-current-modeset $CMDLINE_OPTS
install nvidia-drm modprobe nvidia-modeset ; modprobe -i nvidia-current-drm $CMDLINE_OPTS
install nvidia-uvm modprobe nvidia ; modprobe -i nvidia-current-uvm $CMDLINE_OPTS
alias char-major-195* nvidia
"""
P40 = {
    "name": "Tesla P40",
    "capability": "6.1",
    "device": "1b38",
    "pci": "0000:65:00.0",
    "memory": 24576 << 20,
    "uuid": "GPU-6e7a3c10-52d4-4b1f-9c00-0000000000ee",
}

HARMLESS_FACTS = (
    case(
        "",
        "a laptop with runtime power management and many suspends",
        L4,
        combine(
            host(distribution="ubuntu 24.04", kernel="6.8.0-60-generic"),
            gpus(name="NVIDIA GeForce RTX 4060 Laptop GPU", device="28e0", memory=8188 << 20, pci="0000:01:00.0"),
            other_devices(INTEL),
            with_files(
                {
                    "sys/bus/pci/devices/0000:01:00.0/power/runtime_status": "suspended\n",
                    "sys/bus/pci/devices/0000:01:00.0/power_state": "D3cold\n",
                    "sys/power/suspend_stats/success": "14\n",
                    "etc/prime-discrete": "on-demand\n",
                    "etc/modprobe.d/nvidia-runtimepm.conf": 'options nvidia "NVreg_DynamicPowerManagement=0x02"\n',
                }
            ),
            stub(gpu__0__persistence="0"),
        ),
    ),
    case(
        "",
        "Secure Boot with an enrolled key and an old rejection in the log",
        L4,
        combine(
            host(kernel=KERNEL),
            with_files(
                {
                    **SECURE_BOOT,
                    "var/lib/dkms/mok.pub": "",
                    f"var/lib/dkms/nvidia/550.163.01/{KERNEL}/x86_64/module/nvidia.ko": "",
                    "var/log/kern.log": (
                        "Nov 20 07:00:00 desk kernel: [    0.000000] Linux version 5.15.0-119-generic (buildd@lcy02)\n"
                        "Nov 20 07:00:09 desk kernel: [    9.1] Loading of module with unavailable key is rejected\n"
                        "Nov 20 07:21:00 desk kernel: [    0.000000] Linux version 5.15.0-119-generic (buildd@lcy02)\n"
                        "Nov 20 07:21:09 desk kernel: [    9.400000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  "
                        "550.163.01  Tue Apr  8 12:41:17 UTC 2025\n"
                    ),
                }
            ),
        ),
    ),
    case(
        "",
        "a virtual machine with a compute vGPU of an L40S",
        L4,
        combine(
            driver(version="550.144.03", library="550.144.03"),
            gpus(name="NVIDIA L40S-24C", device="26b9", pci="0000:02:01.0", memory=24576 << 20, pci_class="0x030000"),
            other_devices(PciSpec("0000:00:0f.0", "0x030000", "15ad", "0405", "vmwgfx")),
            stub(gpu__0__virtualization="2", gpu__0__persistence="1"),
            with_files({"etc/nvidia/gridd.conf": "FeatureType=4\n"}),
        ),
    ),
    case(
        "",
        "an Azure instance with an A100 in another PCI domain",
        "a100-mig-535",
        combine(
            host(distribution="ubuntu 22.04", kernel="6.8.0-1021-azure"),
            gpus(mig=(), pci="0001:00:00.0", name="NVIDIA A100 80GB PCIe", device="20b5", memory=81920 << 20),
            other_devices(HYPER_V),
        ),
    ),
    case(
        "",
        "Amazon Linux 2 with a warning about an unsigned module",
        L4,
        combine(
            host(distribution="amzn 2", kernel="5.10.236-228.935.amzn2.x86_64"),
            driver(folder="usr/lib64"),
            other_devices(PciSpec("0000:00:03.0", "0x030000", "1d0f", "1111", None)),
            TAINTED_KERNEL,
        ),
        assumptions=("--assume", "python=3.11"),
    ),
    case(
        "",
        "RHEL 7 with a K40 and R470",
        "k80-470",
        combine(
            host(distribution="rhel 7.9", kernel="3.10.0-1160.119.1.el7.x86_64"),
            lambda profile: replace(profile, gpus=profile.gpus[:1]),
            driver(folder="usr/lib64"),
            gpus(name="Tesla K40m", capability="3.5", device="1023", memory=11441 << 20),
            target("cupy-cuda11x==12.3.0", "numpy==1.24.4", toolkit="11.4"),
        ),
        assumptions=("--assume", "python=3.8", "--assume", "libc=glibc-2.17"),
    ),
    case(
        "",
        "Guix with the driver in its store",
        L4,
        combine(
            host(distribution="guix", kernel="6.12.30"),
            driver(folder="gnu/store/0k8qxs4gmnmwdy2kvbf1cm3v0kn6s6pl-nvidia-driver-550.163.01/lib"),
            with_files(
                {
                    "lib/modules/6.12.30/modules.dep": "",
                    "run/booted-system/kernel/lib/modules/6.12.30/modules.dep": "extra/nvidia.ko:\n",
                }
            ),
        ),
    ),
    case(
        "",
        "Bazzite with nouveau blacklisted by kernel arguments",
        L4,
        combine(
            host(distribution="bazzite 43", kernel="6.17.7-ba22.fc43.x86_64"),
            driver(folder="usr/lib64", module=KernelModule.OPEN),
            with_files(
                {
                    **SECURE_BOOT,
                    "run/ostree-booted": "",
                    "proc/cmdline": "BOOT_IMAGE=(hd0,gpt2)/ostree/default/vmlinuz ostree=/ostree/boot.1 rhgb quiet "
                    "rd.driver.blacklist=nouveau modprobe.blacklist=nouveau nvidia-drm.modeset=1\n",
                    "usr/lib/modprobe.d/nvidia.conf": "blacklist nouveau\nblacklist nova_core\n"
                    "options nvidia-drm modeset=1 fbdev=1\n",
                    "lib/modules/6.17.7-ba22.fc43.x86_64/modules.dep": "extra/nvidia/nvidia.ko.xz:\n",
                }
            ),
        ),
    ),
    case(
        "",
        "an Ampere Altra with an L40S",
        "gb200-580",
        combine(
            host(arch="aarch64", distribution="rocky 9.5", kernel="5.14.0-503.el9.aarch64+64k"),
            lambda profile: replace(profile, gpus=profile.gpus[:1]),
            driver(folder="usr/lib64"),
            gpus(name="NVIDIA L40S", capability="8.9", device="26b9", pci="0001:01:00.0", memory=46068 << 20),
            other_devices(ASPEED),
        ),
    ),
    case(
        "",
        "Tumbleweed with two kernels and modules for both",
        H200,
        combine(
            host(distribution="opensuse-tumbleweed 20261110", kernel="6.17.9-1-default"),
            driver(folder="usr/lib64"),
            with_files(
                {
                    "lib/modules/6.17.8-1-default/modules.dep": "updates/nvidia.ko.zst:\n",
                    "lib/modules/6.17.9-1-default/modules.dep": "weak-updates/updates/nvidia.ko.zst:\n",
                    "etc/modprobe.d/nvidia-default.conf": "options nvidia NVreg_DeviceFileGID=483 "
                    "NVreg_DeviceFileMode=0660\nblacklist nouveau\n",
                }
            ),
        ),
    ),
    case(
        "",
        "Debian's packages with a renamed module and an install line",
        PASCAL,
        combine(
            host(distribution="debian 12", kernel="6.1.0-32-amd64"),
            driver(
                version="535.247.01",
                library="535.247.01",
                cuda=12020,
                folder="usr/lib/x86_64-linux-gnu/nvidia/current",
            ),
            target("cupy-cuda12x==14.2.0", NUMPY, toolkit="12.2"),
            with_files(
                {
                    "lib/modules/6.1.0-32-amd64/modules.dep": "updates/dkms/nvidia-current.ko:\n",
                    "var/lib/dkms/nvidia-current/535.247.01/6.1.0-32-amd64/x86_64/module/nvidia-current.ko": "",
                    "etc/modprobe.d/nvidia.conf": DEBIAN_INSTALL_LINE,
                    "etc/modprobe.d/nvidia-blacklists-nouveau.conf": "blacklist nouveau\n",
                }
            ),
        ),
    ),
    case(
        "",
        "a P40 and an L4 under one driver",
        L4,
        more_gpus(P40),
    ),
    case(
        "",
        "a GPU under full load at its power limit",
        L4,
        stub(
            gpu__0__clock__reasons="0x4",
            gpu__0__clock__sm="1695",
            gpu__0__clock__max__sm="2040",
            gpu__0__power__usage="71800",
            gpu__0__power__limit="72000",
            gpu__0__temperature="68",
            gpu__0__memory__free=str(18000 << 20),
            gpu__0__processes="3011:4194304000",
        ),
    ),
    case(
        "",
        "leftover 32-bit libraries",
        L4,
        with_files(
            {
                f"usr/lib/i386-linux-gnu/{name}": ""
                for name in ("libcuda.so.535.183.01", "libnvidia-ml.so.535.183.01", "libcuda.so.1")
            }
        ),
    ),
)
