"""Messages of compilers about the sources of the driver's modules, and of old tools that load a module."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.model.causes import Cause

# Files of NVIDIA's kernel modules, by the names that no other module has.
_SOURCES = (
    r"(?:nv-(?:linux|mm|mmap|acpi|pci|pci-table|dma|dmabuf|drm|frontend|i2c|kthread-q|p2p|procfs|reg|vm|vtophys|caps|cray|gpu-numa|ibmnpu|msi|pat|nano-timer|usermap|memdbg|register-module|time|timer|chrdev|instance|gvi|ipc-soc|clk|platform|host1x|backlight|lock|hash|list-helpers|procfs-utils|pgprot|proto|report-err|retpoline|caps-imex|modeset-interface)"
    r"|os-(?:interface|mlock|pci|registry|usermap|smp)|uvm(?:\d+|_\w+)?|nvidia-(?:drm|modeset|peermem|uvm|dma|p2p)[\w-]*|nv_(?:uvm_interface|speculation_barrier|stdarg)|nv(?:link|lnk)_\w+|nv-?kernel|nvkms\w*)"
)

SIGNATURES = (
    Signature(
        "kernel.source-refused",
        "gcc and clang, in a build of the driver's module",
        (
            *(
                "nv-",
                "os-interface",
                "os-mlock",
                "os-pci",
                "os-registry",
                "os-usermap",
                "uvm",
                "nvidia-drm",
                "nvidia-modeset",
            ),
            *("nvidia-peermem", "nv_uvm_interface", "nv_speculation", "nvlink_", "nvkms"),
        ),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.86),),
        "open-gpu-kernel-modules, kernel-open; NVIDIA-Linux .run archives 304 to 575, folder kernel",
        pattern=rf"(?:^|[\s/'\"]){_SOURCES}\.[ch]:\d+(?::\d+)?:? (?:fatal )?error\b",
        title="The driver's source does not compile against the running kernel",
        evidence="module-build-failed",
    ),
    Signature(
        "kernel.installer-build",
        "make, in the folder into which nvidia-installer unpacks",
        ("selfgz", "/nvidia-linux-", "dkms/nvidia"),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.84),),
        "Linux, scripts/Makefile.build; nvidia-installer and makeself, which unpack into /tmp/selfgz*",
        pattern=r"make(?:\[\d\])?: \*\*\* \[.{0,200}(?:/selfgz\d+|/NVIDIA-Linux-|dkms/nvidia).{0,160}\] \w+ \d",
        title="The driver's module could not be built for the running kernel",
        evidence="module-build-failed",
    ),
    Signature(
        "kernel.patch-refused",
        "GNU patch, over the sources of the driver's module",
        (".rej",),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.8),),
        "GNU patch, patch.c: abort_hunk and the name of the file of rejects",
        pattern=r"hunks? FAILED -- saving rejects to file \S*(?:conftest\.sh|os-\w+\.[ch]|nv[\w-]*\.[ch]|nvidia[\w-]*(?:\.\w+)?)\.rej",
        title="A patch that makes the driver's module fit the kernel does not apply to this driver",
        decisive_fact="the release of the driver and of the kernel that the patch is for",
    ),
    Signature(
        "insmod.no-device",
        "module-init-tools",
        ("error inserting",),
        (
            (Cause.NO_NVIDIA_GPU, 0.32),
            (Cause.NOUVEAU_LOADED, 0.28),
            (Cause.GPU_REMOVED_FROM_DRIVER, 0.12),
            (Cause.GPU_TOO_NEW_FOR_DRIVER, 0.1),
        ),
        "module-init-tools 3.16, modprobe.c and insmod.c; errno ENODEV",
        pattern=r"error inserting '?\S*nvidia\S*(?: \([^)]*\))?:? (?:-1 )?No such device",
        title="The driver's module found no GPU that it could take",
        modifiers=(Modifier("nouveau", Cause.NOUVEAU_LOADED, 12), Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 12)),
        decisive_fact="what lspci -k shows as the kernel driver in use",
    ),
    Signature(
        "insmod.other-kernel",
        "module-init-tools",
        ("error inserting",),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.88),),
        "module-init-tools 3.16, modprobe.c and insmod.c; errno ENOEXEC, ENOENT of a symbol and EKEYREJECTED",
        pattern=(
            r"error inserting '?\S*nvidia\S*(?: \([^)]*\))?:? (?:-1 )?(?:Invalid module format|Unknown symbol|Exec format error|Required key|Key was rejected)"
        ),
        title="The driver's module was built for another kernel, or is not signed for it",
        evidence="module-build-failed",
    ),
    Signature(
        "wsl.linux-driver",
        "apt and dpkg under WSL",
        (
            "libnvidia-compute",
            "nvidia-driver",
            "libcuda1",
            "nvidia-utils",
            "libnvidia-gl",
            "cuda-drivers",
            "nvidia-dkms",
        ),
        ((Cause.WSL_LIBCUDA, 0.62), (Cause.DRIVER_INSTALL_BROKEN, 0.1)),
        "NVIDIA, CUDA on WSL User Guide, Getting Started: do not install any Linux driver in WSL",
        pattern=(
            r"^(?:ii +|hi +)?(?:libnvidia-compute|nvidia-driver|libcuda1|nvidia-utils|libnvidia-gl|cuda-drivers|nvidia-dkms)\S*\s+(?:install\b|hold\b|\d+[.\d]+\S*)"
            r"|(?:install(?:ed|ing)?|apt(?:-get)? install(?: -y)?|Setting up|Unpacking)(?: the)? (?:libnvidia-compute|nvidia-driver|libcuda1|nvidia-utils|libnvidia-gl|cuda-drivers|nvidia-dkms)"
        ),
        requires=("wsl",),
        title="Inside WSL a package of the Linux driver stands in the way of the libcuda that Windows brings",
        decisive_fact="which libcuda.so.1 is loaded: ldconfig -p | grep libcuda",
    ),
)
