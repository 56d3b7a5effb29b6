"""Kernels for which the module was not built, or that reject its signature."""

from __future__ import annotations

from gpuenv.simulate.profile import KernelModule
from tests.scenarios.driver_states import NOT_RESPONDING, kernel_log
from tests.scenarios.scenario import combine, driver, host
from tests.unseen.harmless_facts import DEBIAN_INSTALL_LINE, SECURE_BOOT
from tests.unseen.machine_table import case, with_files

L4, PASCAL = "l4-550", "gtx1080ti-580"
NOT_LOADED = combine(driver(module=KernelModule.INSTALLED_NOT_LOADED), NOT_RESPONDING)
NEW_KERNEL, OLD_6_1 = "6.1.0-32-amd64", "6.1.0-28-amd64"
HWE = "6.8.0-60-generic"
FEDORA_KERNEL = "6.17.8-200.fc42.x86_64"
NO_GCC = """\
DKMS make.log for nvidia-550.163.01 for kernel 6.8.0-60-generic (x86_64)
make[1]: Entering directory '/usr/src/linux-headers-6.8.0-60-generic'
warning: the compiler differs from the one used to build the kernel
  The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0
  You are using:           cc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'
make[3]: *** [scripts/Makefile.build:243: /var/lib/dkms/nvidia/550.163.01/build/nvidia/nv.o] Error 1
"""


UNBUILT_MODULES = (
    case(
        "driver-kernel-incompatible",
        "Debian's nvidia-current and a new kernel without headers",
        PASCAL,
        combine(
            host(distribution="debian 12", kernel=NEW_KERNEL),
            driver(module=KernelModule.NONE, version="535.247.01", library="535.247.01", cuda=12020),
            NOT_RESPONDING,
            with_files(
                {
                    "etc/modprobe.d/nvidia.conf": DEBIAN_INSTALL_LINE,
                    "etc/modprobe.d/nvidia-blacklists-nouveau.conf": "blacklist nouveau\n",
                    f"lib/modules/{OLD_6_1}/modules.dep": "updates/dkms/nvidia-current.ko:\n",
                    f"var/lib/dkms/nvidia-current/535.247.01/{OLD_6_1}/x86_64/module/nvidia-current.ko": "",
                    "usr/src/nvidia-current-535.247.01/dkms.conf": 'PACKAGE_NAME="nvidia-current"\n',
                }
            ),
        ),
        first_fix=f"linux-headers-{NEW_KERNEL}",
        excluded=("Remove the lines", "linux-modules-nvidia"),
    ),
    case(
        "driver-kernel-incompatible",
        "Ubuntu's HWE kernel with a newer compiler than the installed one",
        L4,
        combine(
            host(distribution="ubuntu 22.04", kernel=HWE),
            driver(module=KernelModule.NONE),
            NOT_RESPONDING,
            with_files(
                {
                    "var/lib/dkms/nvidia/550.163.01/build/make.log": NO_GCC,
                    "usr/src/nvidia-550.163.01/dkms.conf": 'PACKAGE_NAME="nvidia"\n',
                    "proc/version": f"Linux version {HWE} (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-12 "
                    "(Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0, GNU ld 2.38) #63~22.04.1-Ubuntu SMP\n",
                }
            ),
        ),
        included=("gcc-12",),
    ),
    case(
        "driver-kernel-incompatible",
        "Fedora with a new kernel for which akmods did not build",
        L4,
        combine(
            host(distribution="fedora 42", kernel=FEDORA_KERNEL),
            driver(module=KernelModule.NONE, folder="usr/lib64"),
            NOT_RESPONDING,
            with_files(
                {
                    "lib/modules/6.17.5-200.fc42.x86_64/modules.dep": "extra/nvidia/nvidia.ko.xz:\n",
                    "usr/src/akmods/nvidia-kmod.latest": "",
                    "usr/sbin/akmods": "",
                    "var/cache/akmods/nvidia/.last.log": "",
                }
            ),
        ),
        first_fix="akmods",
        excluded=("apt-get", "dkms"),
    ),
    case(
        "driver-kernel-incompatible",
        "RHEL with a new kernel without precompiled modules",
        L4,
        combine(
            host(distribution="rhel 9.6", kernel="5.14.0-570.60.1.el9_6.x86_64"),
            driver(module=KernelModule.NONE, folder="usr/lib64"),
            NOT_RESPONDING,
            with_files(
                {"lib/modules/5.14.0-427.42.1.el9_4.x86_64/modules.dep": "extra/drivers/video/nvidia/nvidia.ko:\n"}
            ),
        ),
        excluded=("apt-get", "linux-modules-nvidia", "mokutil"),
    ),
    case(
        "driver-kernel-incompatible",
        "Debian with Secure Boot and an unenrolled DKMS key",
        L4,
        combine(
            host(distribution="debian 12", kernel=NEW_KERNEL),
            NOT_LOADED,
            with_files(
                {
                    **SECURE_BOOT,
                    "var/lib/dkms/mok.pub": "",
                    "var/lib/dkms/mok.key": "",
                    f"var/lib/dkms/nvidia-current/550.163.01/{NEW_KERNEL}/x86_64/module/nvidia-current.ko": "",
                    "etc/modprobe.d/nvidia-blacklists-nouveau.conf": "blacklist nouveau\n",
                }
            ),
            kernel_log("Loading of module with unavailable key is rejected"),
        ),
        first_fix="mokutil",
        included=("/var/lib/dkms/mok.pub",),
    ),
)
