"""Drivers that are missing, refused or kept out, on systems whose cures differ from those of their families."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.simulate.records import Module, PciSpec, Shown
from tests.scenarios.ground import both, driver, gpus, host
from tests.scenarios.states import ANSWERS_NOT, NONE_LISTED, NOTHING, beside, said
from tests.unseen.quiet import DEBIANS_OWN, INTEL, SECURE_BOOT
from tests.unseen.table import placed, unseen

L4, V100, PASCAL, GEFORCE = "l4-550", "v100-580", "gtx1080ti-580", "rtx5090-570"
NOT_LOADED = both(driver(module=Module.INSTALLED_NOT_LOADED), ANSWERS_NOT)
NOUVEAU_ALONE = driver(module=Module.NOUVEAU, **NOTHING)
ABSENT = driver(module=Module.NONE, **NOTHING)
NEW_6_1, OLD_6_1 = "6.1.0-32-amd64", "6.1.0-28-amd64"
HWE = "6.8.0-60-generic"
FC = "6.17.8-200.fc42.x86_64"
NO_GCC = """\
DKMS make.log for nvidia-550.163.01 for kernel 6.8.0-60-generic (x86_64)
make[1]: Entering directory '/usr/src/linux-headers-6.8.0-60-generic'
warning: the compiler differs from the one used to build the kernel
  The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0
  You are using:           cc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'
make[3]: *** [scripts/Makefile.build:243: /var/lib/dkms/nvidia/550.163.01/build/nvidia/nv.o] Error 1
"""


def ostree(name: str, release: str, variant: str) -> dict[str, str]:
    release_file = f'ID={name}\nID_LIKE="fedora"\nVERSION_ID="{release}"\nVARIANT_ID={variant}\n'
    release_file += f"OSTREE_VERSION='{release}.20261101.0'\n"
    return {"etc/os-release": release_file, "run/ostree-booted": ""}


UNBOOTED = (
    unseen(
        "nouveau-loaded",
        "Fedora Silverblue as it was installed",
        L4,
        both(host(distribution="fedora 43"), NOUVEAU_ALONE, placed(ostree("fedora", "43", "silverblue"))),
        first="rpm-ostree",
        unsaid=("dnf install", "apt-get"),
    ),
    unseen(
        "nouveau-loaded",
        "Bazzite's image for other makers' cards",
        GEFORCE,
        both(host(distribution="bazzite 43"), NOUVEAU_ALONE, placed(ostree("bazzite", "43", "bazzite"))),
        first="rebase",
        unsaid=("dnf install", "apt-get"),
    ),
    unseen(
        "nouveau-loaded",
        "NixOS without a line about the driver",
        L4,
        both(host(distribution="nixos 25.11", kernel="6.12.58"), NOUVEAU_ALONE),
        first="videoDrivers",
        unsaid=("apt-get", "/etc/modprobe.d"),
    ),
    unseen(
        "no-driver",
        "Arch with a GTX 1070, which its packages no longer drive",
        PASCAL,
        both(
            host(distribution="arch rolling", kernel="6.18.2-arch2-1"),
            ABSENT,
            gpus(name="NVIDIA GeForce GTX 1070", device="1b81"),
        ),
        first="580xx",
        unsaid=("nvidia-open",),
    ),
    unseen(
        "no-driver",
        "Rocky Linux with a V100, which the open modules do not drive",
        V100,
        both(host(distribution="rocky 9.6"), ABSENT),
        first="dnf",
        unsaid=("nvidia-open", "open-dkms"),
    ),
    unseen(
        "nouveau-loaded",
        "a driver that is installed, and an initial RAM disk from before it",
        L4,
        both(
            host(distribution="ubuntu 22.04", kernel="5.15.0-119-generic"),
            driver(module=Module.NOUVEAU),
            ANSWERS_NOT,
            placed(
                {
                    "etc/modprobe.d/blacklist-nouveau.conf": "blacklist nouveau\noptions nouveau modeset=0\n",
                    "lib/modules/5.15.0-119-generic/modules.dep": "updates/dkms/nvidia.ko:\n"
                    "kernel/drivers/gpu/drm/nouveau/nouveau.ko:\n",
                    "var/lib/dkms/nvidia/550.163.01/5.15.0-119-generic/x86_64/module/nvidia.ko": "",
                }
            ),
        ),
        first="update-initramfs",
        unsaid=("ubuntu-drivers",),
    ),
    unseen(
        "driver-kernel-incompatible",
        "Debian's nvidia-current beside a new kernel without headers",
        PASCAL,
        both(
            host(distribution="debian 12", kernel=NEW_6_1),
            driver(module=Module.NONE, version="535.247.01", library="535.247.01", cuda=12020),
            ANSWERS_NOT,
            placed(
                {
                    "etc/modprobe.d/nvidia.conf": DEBIANS_OWN,
                    "etc/modprobe.d/nvidia-blacklists-nouveau.conf": "blacklist nouveau\n",
                    f"lib/modules/{OLD_6_1}/modules.dep": "updates/dkms/nvidia-current.ko:\n",
                    f"var/lib/dkms/nvidia-current/535.247.01/{OLD_6_1}/x86_64/module/nvidia-current.ko": "",
                    "usr/src/nvidia-current-535.247.01/dkms.conf": 'PACKAGE_NAME="nvidia-current"\n',
                }
            ),
        ),
        first=f"linux-headers-{NEW_6_1}",
        unsaid=("Take out", "linux-modules-nvidia"),
    ),
    unseen(
        "driver-kernel-incompatible",
        "Ubuntu's newer kernel, which was built by a newer compiler than the one there",
        L4,
        both(
            host(distribution="ubuntu 22.04", kernel=HWE),
            driver(module=Module.NONE),
            ANSWERS_NOT,
            placed(
                {
                    "var/lib/dkms/nvidia/550.163.01/build/make.log": NO_GCC,
                    "usr/src/nvidia-550.163.01/dkms.conf": 'PACKAGE_NAME="nvidia"\n',
                    "proc/version": f"Linux version {HWE} (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-12 "
                    "(Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0, GNU ld 2.38) #63~22.04.1-Ubuntu SMP\n",
                }
            ),
        ),
        named=("gcc-12",),
    ),
    unseen(
        "driver-kernel-incompatible",
        "Fedora with akmods, which has not built for the new kernel",
        L4,
        both(
            host(distribution="fedora 42", kernel=FC),
            driver(module=Module.NONE, folder="usr/lib64"),
            ANSWERS_NOT,
            placed(
                {
                    "lib/modules/6.17.5-200.fc42.x86_64/modules.dep": "extra/nvidia/nvidia.ko.xz:\n",
                    "usr/src/akmods/nvidia-kmod.latest": "",
                    "usr/sbin/akmods": "",
                    "var/cache/akmods/nvidia/.last.log": "",
                }
            ),
        ),
        first="akmods",
        unsaid=("apt-get", "dkms"),
    ),
    unseen(
        "driver-kernel-incompatible",
        "RHEL with NVIDIA's compiled modules, of which none is out for the new kernel",
        L4,
        both(
            host(distribution="rhel 9.6", kernel="5.14.0-570.60.1.el9_6.x86_64"),
            driver(module=Module.NONE, folder="usr/lib64"),
            ANSWERS_NOT,
            placed({"lib/modules/5.14.0-427.42.1.el9_4.x86_64/modules.dep": "extra/drivers/video/nvidia/nvidia.ko:\n"}),
        ),
        unsaid=("apt-get", "linux-modules-nvidia", "mokutil"),
    ),
    unseen(
        "driver-kernel-incompatible",
        "Debian with Secure Boot, whose key of DKMS nobody has enrolled",
        L4,
        both(
            host(distribution="debian 12", kernel=NEW_6_1),
            NOT_LOADED,
            placed(
                {
                    **SECURE_BOOT,
                    "var/lib/dkms/mok.pub": "",
                    "var/lib/dkms/mok.key": "",
                    f"var/lib/dkms/nvidia-current/550.163.01/{NEW_6_1}/x86_64/module/nvidia-current.ko": "",
                    "etc/modprobe.d/nvidia-blacklists-nouveau.conf": "blacklist nouveau\n",
                }
            ),
            said("Loading of module with unavailable key is rejected"),
        ),
        first="mokutil",
        named=("/var/lib/dkms/mok.pub",),
    ),
    unseen(
        "driver-module-not-loaded",
        "a kernel parameter that an experiment with virtual machines has left behind",
        L4,
        both(
            host(distribution="fedora 42", kernel=FC),
            NOT_LOADED,
            placed(
                {
                    "proc/cmdline": f"BOOT_IMAGE=(hd0,gpt2)/vmlinuz-{FC} root=UUID=1f ro rd.driver.blacklist=nouveau "
                    "modprobe.blacklist=nouveau,nvidia,nvidia_drm intel_iommu=on iommu=pt\n",
                    "etc/modprobe.d/vfio.conf": "options vfio-pci ids=10de:1eb8,10de:10f8\n",
                }
            ),
        ),
        first="modprobe.blacklist",
        unsaid=("dnf install", "akmods"),
    ),
    unseen(
        "driver-module-not-loaded",
        "EnvyControl has taken the GPU off the bus",
        L4,
        both(
            host(distribution="arch rolling", kernel="6.18.2-arch2-1"),
            NOT_LOADED,
            lambda profile: replace(profile, gpus=()),
            beside(INTEL),
            placed(
                {
                    "etc/modprobe.d/blacklist-nvidia.conf": "# Automatically generated by EnvyControl\n\n"
                    "blacklist nouveau\nblacklist nvidia\nblacklist nvidia_drm\nblacklist nvidia_uvm\n"
                    "blacklist nvidia_modeset\nalias nouveau off\nalias nvidia off\nalias nvidia_drm off\n",
                    "etc/udev/rules.d/50-remove-nvidia.rules": "# Automatically generated by EnvyControl\n"
                    'ACTION=="add", SUBSYSTEM=="pci", ATTR{vendor}=="0x10de", ATTR{class}=="0x03[0-9]*", '
                    'ATTR{remove}="1"\n',
                }
            ),
        ),
        first="blacklist-nvidia.conf",
        unsaid=("another host",),
    ),
    unseen(
        "no-nvidia-gpu",
        "an image with the driver, started on an instance without a GPU",
        L4,
        both(
            host(distribution="ubuntu 22.04", kernel="6.8.0-1029-aws"),
            NOT_LOADED,
            lambda profile: replace(profile, gpus=()),
            beside(PciSpec("0000:00:03.0", "0x030000", "1d0f", "1111", None)),
            said("nvidia: loading out-of-tree module taints kernel.", "NVRM: No NVIDIA GPU found."),
        ),
        first="nstance",
        unsaid=("modprobe", "ubuntu-drivers", "apt-get"),
    ),
    unseen(
        "gpu-too-old-for-any-driver",
        "a Quadro of Fermi's under R535",
        PASCAL,
        both(
            host(distribution="debian 12"),
            driver(version="535.247.01", library="535.247.01", cuda=12020),
            gpus(name="NVIDIA Quadro 4000", capability="2.0", device="06dd", shown=Shown.BUS),
            NONE_LISTED,
            said(
                "NVRM: The NVIDIA Quadro 4000 GPU installed in this system is",
                "NVRM:  supported through the NVIDIA 390.xx Legacy drivers. Please",
                "NVRM:  visit http://www.nvidia.com/object/unix.html for more",
                "NVRM:  information.  The 535.247.01 NVIDIA driver will ignore",
                "NVRM:  this GPU.  Continuing probe...",
                "NVRM: No NVIDIA GPU found.",
            ),
        ),
    ),
    unseen(
        "gpu-too-new-for-driver",
        "a virtual machine with Debian 12, its R535 and an RTX PRO 6000 Blackwell",
        GEFORCE,
        both(
            host(distribution="debian 12", kernel=NEW_6_1),
            driver(module=Module.PROPRIETARY, version="535.247.01", library="535.247.01", cuda=12020),
            gpus(name="NVIDIA RTX PRO 6000 Blackwell Server Edition", device="2bb5", shown=Shown.BUS),
            NONE_LISTED,
            placed({"etc/modprobe.d/nvidia-blacklists-nouveau.conf": "blacklist nouveau\n"}),
            said(
                "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2bb5)",
                "NVRM: installed in this system is not supported by the",
                "NVRM: NVIDIA 535.247.01 driver release.",
                "nvidia: probe of 0000:01:00.0 failed with error -1",
            ),
        ),
        named=("57",),
    ),
    unseen(
        "gpu-hardware-fault",
        "a laptop's card that does not wake from its deepest sleep",
        L4,
        both(
            host(distribution="ubuntu 24.04"),
            NOT_LOADED,
            gpus(name="NVIDIA GeForce RTX 4060 Laptop GPU", device="28e0", pci="0000:01:00.0"),
            beside(INTEL),
            said(
                "nvidia 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible",
                "NVRM: The NVIDIA GPU 0000:01:00.0",
                "NVRM: (PCI ID: 10de:28e0) installed in this system has",
                "NVRM: fallen off the bus and is not responding to commands.",
                "nvidia: probe of 0000:01:00.0 failed with error -1",
                "NVRM: The NVIDIA probe routine failed for 1 device(s).",
                "NVRM: None of the NVIDIA devices were initialized.",
            ),
        ),
        unsaid=("ubuntu-drivers", "apt-get"),
    ),
)
