"""Messages of nvidia-installer, DKMS and akmods about a kernel module that is not built or not installed."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

_INSTALLER = "nvidia-installer"
_DKMS = "DKMS, akmods and mkinitcpio"

SIGNATURES = (
    Signature(
        "installer.kernel-source",
        _INSTALLER,
        (
            *("kernel source path", "kernel header file", "version of the kernel sources", "development tool"),
            "kernel source tree",
        ),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.86),),
        "nvidia-installer, kernel.c: determine_kernel_source_path; misc.c: find_system_utils",
        pattern=(
            r"The kernel source path '[^']*' (?:is invalid|does not exist)|The kernel header file '[^']*' does not exist"
            r"|Neither the '[^']*' nor the '[^']*' kernel header file exists|Unable to determine the version of the kernel sources"
            r"|Unable to find the development tool `(?:cc|gcc|make|ld)`"
        ),
        title="The headers or the compiler to build the driver's module with are missing",
        evidence="module-build-failed",
    ),
    Signature(
        "installer.kernel-refused",
        _INSTALLER,
        (
            "real-time kernel",
            "preempt_rt kernel",
            "xen kernel",
            "cc version check",
            "compiler used to compile the kernel",
        ),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.9),),
        "nvidia-installer, kernel.c; open-gpu-kernel-modules, kernel-open/conftest.sh: sanity checks",
        pattern=(
            r"The kernel you are installing for is a (?:PREEMPT_RT|Xen) kernel|NVIDIA driver does not support real-time kernels"
            r"|CC version check failed"
        ),
        title="The driver does not build for a kernel or with a compiler like this",
        evidence="module-build-failed",
    ),
    Signature(
        "installer.build-failed",
        _INSTALLER,
        ("kernel module", "dkms build"),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.9),),
        "nvidia-installer, kernel.c: build_kernel_modules; install-from-cwd.c: install through DKMS",
        pattern=(
            r"Checking to see whether the nvidia kernel module was successfully built|The nvidia kernel module was not created"
            r"|Failed to run `\S*dkms (?:build|install) .*nvidia|Failed to install the kernel module through DKMS"
        ),
        title="The driver's module could not be built for the running kernel",
        evidence="module-build-failed",
        modifiers=(Modifier("secure-boot", Cause.DRIVER_KERNEL_INCOMPATIBLE, 2),),
    ),
    Signature(
        "installer.failed",
        _INSTALLER,
        ("installation has failed.", "method of installing the nvidia driver"),
        (
            (Cause.DRIVER_INSTALL_BROKEN, 0.5),
            (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.3),
            (Cause.NOUVEAU_LOADED, 0.05),
        ),
        "nvidia-installer, install-from-cwd.c and misc.c",
        pattern=r"Installation has failed\. .*nvidia-installer\.log|alternate method of installing the NVIDIA driver was detected",
        title="The installation of the driver ended early; its log says why",
        modifiers=(
            Modifier("module-build-failed", Cause.DRIVER_KERNEL_INCOMPATIBLE, 10),
            Modifier("nouveau", Cause.NOUVEAU_LOADED, 30),
            Modifier("secure-boot", Cause.DRIVER_KERNEL_INCOMPATIBLE, 6),
        ),
        decisive_fact="the first ERROR in /var/log/nvidia-installer.log",
    ),
    Signature(
        "installer.uvm",
        _INSTALLER,
        ("unified memory module",),
        (
            (Cause.DRIVER_MODULE_NOT_LOADED, 0.42),
            (Cause.DEVICE_NODE_MISSING, 0.3),
            (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.2),
        ),
        "nvidia-installer, kernel.c: test_kernel_module",
        pattern=r"NVIDIA Unified Memory (?:kernel )?module failed to load",
        title="nvidia-uvm, which CUDA needs, was not loaded",
        decisive_fact="what modprobe nvidia-uvm says",
    ),
    Signature(
        "installer.nouveau",
        _INSTALLER,
        ("to disable nouveau", "disable nouveau"),
        ((Cause.NOUVEAU_LOADED, 0.8),),
        "nvidia-installer, nouveau.c",
        pattern=r"modprobe configuration files to disable Nouveau|(?<!not )(?<!n't )(?:(?:need|required) to|must) disable (?:the )?Nouveau",
        title="The nouveau module was found, and has to be gone before the driver loads",
        level=Level.WARNING,
        evidence="nouveau",
    ),
    Signature(
        "installer.no-hardware",
        "NVIDIA Installer for Windows",
        ("compatible graphics hardware",),
        ((Cause.NO_NVIDIA_GPU, 0.36), (Cause.GPU_REMOVED_FROM_DRIVER, 0.3), (Cause.GPU_TOO_NEW_FOR_DRIVER, 0.25)),
        "NVIDIA Installer for Windows",
        pattern=r"could not find compatible graphics hardware",
        title="This driver release supports no GPU of this machine",
        decisive_fact="the GPU's generation: --assume gpu=NAME",
    ),
    Signature(
        "dkms.nvidia-step",
        _DKMS,
        (
            *("build_exclusive", "nvidia.ko", "autoinstall", "application of patch", "kernel headers for module"),
            *("nvidia-kmod", "depmod", "akmods/nvidia"),
        ),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.88),),
        "dkms 2.8 to 3.1: build_module, install_module, autoinstall; akmods; pacman's hook 70-dkms-install",
        pattern=(
            r"module nvidia\S* includes a BUILD_EXCLUSIVE directive|Build of nvidia\S*\.ko\S* failed for"
            r"|Application of patch .* failed\. .*/dkms/nvidia|\bnvidia\S*/\S+ autoinstall failed|dkms autoinstall on .* failed for .*\bnvidia"
            r"|Missing \S+ kernel headers for module nvidia|Building and installing nvidia-kmod ?\[FAILED\]|/akmods/nvidia\S*failed\.log"
            r"|depmod: ERROR:.*nvidia\S*\.ko|depmod problems.*nvidia"
        ),
        title="The driver's module could not be built or installed for this kernel",
        evidence="module-build-failed",
    ),
    Signature(
        "dkms.nvidia",
        _DKMS,
        ("nvidia",),
        (),
        "dkms, common.postinst: Loading new ... DKMS files; dkms status",
        pattern=r"Loading new nvidia\S* DKMS files|/dkms/nvidia|\bnvidia\S*/\d\S*(?:,|:) (?:added|built|installed)|\bnvidia-\d\S* DKMS|dkms \w+ .*\bnvidia|\bnvidia-(?:current|kernel-dkms|dkms|open-dkms|srv)\b|\bDKMS: nvidia",
        level=Level.EVIDENCE,
        evidence="dkms-nvidia",
    ),
    Signature(
        "dkms.bad-status",
        _DKMS,
        ("bad return status", "bad exit status"),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.86),),
        "dkms 2.8 to 3.1: build_module, invoke_command",
        title="The driver's module could not be built for the running kernel",
        requires=("dkms-nvidia", "nvidia-module"),
    ),
    Signature(
        "dkms.no-headers",
        _DKMS,
        ("kernel headers for", "linux headers are missing"),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.86),),
        "dkms 2.8 to 3.1: prepare_kernel; common.postinst",
        pattern=(
            r"kernel headers for (?:target )?(?:this )?kernel \S* ?(?:at \S+ )?(?:cannot be found|do not seem to be installed)"
            r"|Linux headers are missing, which may explain"
        ),
        title="The headers of the running kernel are missing, so the driver's module is not built",
        requires=("dkms-nvidia", "nvidia-module"),
    ),
)
