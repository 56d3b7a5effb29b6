"""Messages of parts of the driver that are missing, hang or do not fit each other."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

# What a driver that is not found means depends on where it is looked for.
_WHERE_IT_IS = (
    Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8),
    Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 8),
    Modifier("wsl", Cause.WSL_LIBCUDA, 10),
)
_CONTAINER = "whether this is a container: --assume container=yes or no"

SIGNATURES = (
    Signature(
        "tf.kernel-dso",
        "TensorFlow",
        ("does not match dso version",),
        ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.95),),
        "xla/stream_executor/cuda/cuda_diagnostics.cc",
        pattern=r"kernel version (?P<kernel>[\d.]+) does not match DSO version (?P<library>[\d.]+)",
        title="The kernel module is {kernel}, the driver's library {library}",
    ),
    Signature(
        "tf.kernel-driver-not-running",
        "TensorFlow",
        ("kernel driver does not appear to be running", "/proc/driver/nvidia/version", "find cuda drivers"),
        (
            (Cause.DRIVER_MODULE_NOT_LOADED, 0.35),
            (Cause.NO_DRIVER, 0.3),
            (Cause.CONTAINER_WITHOUT_GPU, 0.15),
            (Cause.NO_NVIDIA_GPU, 0.1),
        ),
        "xla/stream_executor/cuda/cuda_diagnostics.cc",
        pattern=r"kernel driver does not appear to be running|could not open driver version path|Could not find cuda drivers on your machine|/proc/driver/nvidia/version.*(?:does not exist|no such file)",
        modifiers=_WHERE_IT_IS,
        decisive_fact=_CONTAINER,
    ),
    Signature(
        "driver.none-found",
        "programs that load libcuda",
        ("no cuda driver", "cuda driver not", "cuda driver is not", "cuda driver was not"),
        (
            (Cause.NO_DRIVER, 0.45),
            (Cause.CONTAINER_WITHOUT_GPU, 0.15),
            (Cause.NO_NVIDIA_GPU, 0.1),
            (Cause.WSL_LIBCUDA, 0.05),
        ),
        "ethminer, libethash-cuda: no CUDA driver found; others in like words, where libcuda is not there or has no device",
        pattern=r"\bno CUDA drivers? (?:was |were |is |are )?(?:found|detected|installed|available)\b|\bCUDA driver (?:is |was )?not (?:found|detected|installed|available)\b",
        modifiers=_WHERE_IT_IS,
        decisive_fact=_CONTAINER,
    ),
    Signature(
        "kernel.lockup",
        "the kernel",
        ("soft lockup", "hard lockup", "rcu_sched self-detected"),
        ((Cause.DRIVER_UNRESPONSIVE, 0.7),),
        "Linux, kernel/watchdog.c",
        pattern=r"(?:soft|hard) lockup.*(?:nvidia|nv_queue|nvidia-smi|irq/\d+-nvidia)",
    ),
    Signature(
        "driver.jit-missing",
        "CUDA driver",
        ("ptxjitcompiler", "jit compiler library not found", "jit_compiler_not_found", "jitcompilernotfound"),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.8),),
        "cuda.h, CUDA_ERROR_JIT_COMPILER_NOT_FOUND; libcudart, its error strings",
        pattern=(
            r"libnvidia-ptxjitcompiler\S* .*(?:cannot open|not found)|PTX JIT compiler library not found"
            r"|(?:[Uu]nable|[Cc]ould not|[Ff]ailed|[Cc]annot)(?: to)? (?:load|open|find) .{0,20}libnvidia-ptxjitcompiler"
            r"|JIT_?COMPILER_?NOT_?FOUND"
        ),
        title="libnvidia-ptxjitcompiler, a part of the driver, is missing",
        modifiers=(
            Modifier("container", Cause.CONTAINER_DRIVER_CAPABILITIES, 15),
            Modifier("capabilities-lack-compute", Cause.CONTAINER_DRIVER_CAPABILITIES, 60),
        ),
    ),
    Signature(
        "driver.packages-apart",
        "apt, dpkg, rpm and pacman",
        ("nvidia", "libcuda", "cuda-drivers"),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.85),),
        "apt, dpkg: dependency problems; rpm, pacman: file conflicts",
        pattern=(
            r"(?:lib|linux-(?:modules|objects|signatures)-|xserver-xorg-video-)?(?:nvidia|cuda1|cuda-drivers)(?!-(?:container|docker))\S* ?: (?:Depends|Pre-?Depends|Conflicts|Breaks): \S{0,24}(?:nvidia|cuda1|cuda-drivers)"
            r"|package (?:xorg-x11-drv-|akmod-|kmod-)?nvidia\S* requires \S*nvidia\S*.*none of the providers can be installed"
            r"|installing \S*nvidia\S* .*breaks dependency|nothing provides \S*nvidia-(?:kmod|driver)\S* needed by"
            r"|trying to overwrite '[^']*(?:nvidia|libcuda)[^']*', which is also in package"
            r"|dpkg: dependency problems prevent configuration of (?:lib)?nvidia"
            r"|dpkg: error processing archive \S*(?:nvidia|libcuda)"
            r"|file \S*(?:nvidia|libcuda)\S* from install of .* conflicts with file from package"
            r"|nvidia-\S+: \S*(?:nvidia|libcuda)\S* exists in filesystem|\bnvidia-\S+ and nvidia-\S+ are in conflict"
            r"|error processing package (?:lib)?nvidia-\S+ \(--configure\):? dependency problems|cannot install both \S*nvidia-\S+ and \S*nvidia|to be installed \S*nvidia-\S+ conflicts with '?\S*nvidia"
        ),
        title="Packages of the driver do not fit each other",
        # The driver is the one of Windows: none of Linux may be installed there.
        modifiers=(Modifier("wsl", Cause.WSL_LIBCUDA, 40), Modifier("wsl", Cause.DRIVER_INSTALL_BROKEN, 0.3)),
    ),
    Signature(
        "driver.packages-kernel",
        "dnf, zypper and dpkg",
        ("needed by", "errors were encountered while processing"),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.48), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.42)),
        "libsolv: nothing provides; dpkg: the packages left half configured",
        pattern=(
            r"nothing provides .{1,80} needed by (?:the to be installed )?(?:k?mod-)?nvidia-(?!container|docker)"
            r"|Errors were encountered while processing: (?:lib)?nvidia-(?!container|docker)"
        ),
        title="A package of the driver lacks what it is built with, or was left half configured",
        modifiers=(Modifier("module-build-failed", Cause.DRIVER_KERNEL_INCOMPATIBLE, 10),),
        decisive_fact="what dkms status shows for the running kernel",
    ),
    Signature(
        "driver.package-unknown",
        "apt and dnf",
        ("unable to locate package", "has no installation candidate", "was not found", "is not available, but is"),
        ((Cause.NO_DRIVER, 0.6), (Cause.DRIVER_INSTALL_BROKEN, 0.25)),
        "apt 2.6, apt-private: CacheSetHelper",
        pattern=(
            r"Unable to locate package (?:nvidia-(?:driver|utils|dkms|open|kernel)|cuda-drivers|libnvidia-(?!container))"
            r"|Package '?(?:nvidia-(?:driver|utils|dkms|open|kernel)|cuda-drivers)\S*'? (?:has no installation candidate|is not available, but is)"
            r"|Version '[^']*' for '(?:nvidia-(?:driver|utils|dkms|open|kernel)|cuda-drivers)\S*' was not found"
        ),
        title="The package source has no such driver, so none is installed",
        decisive_fact="what apt policy says of that package, and whether the package source is the distribution's or NVIDIA's",
    ),
    Signature(
        "driver.install-failed",
        "driver installers",
        ("nvidia", "driver"),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.75),),
        "nvidia-installer, the strings of the program; NVIDIA Installer for Windows",
        pattern=(
            r"an NVIDIA (?:kernel module|driver|kernel) .*appears to (?:be already|already be) loaded|NVIDIA Installer (?:failed|cannot continue)"
            r"|alternate (?:driver )?installation .*(?:was detected|method)|Installation of the NVIDIA driver .*failed"
            r"|nvidia-installer.*ERROR|Windows has stopped this device.*Code 43"
        ),
        level=Level.ERROR,
    ),
    Signature(
        "kernel.hung-task",
        "the kernel",
        ("blocked for more than",),
        ((Cause.DRIVER_UNRESPONSIVE, 0.8),),
        "Linux, kernel/hung_task.c, beside messages of the driver",
        pattern=r"task \S+ blocked for more than \d+ seconds",
        title="A process hangs in the kernel, in a call into the driver",
        requires=("nvrm",),
    ),
    Signature(
        "smi.hangs",
        "the words of reports",
        ("nvidia-smi",),
        ((Cause.DRIVER_UNRESPONSIVE, 0.7),),
        "gpuenv probe, DRV110: a child that does not answer within its deadline",
        pattern=r"nvidia-smi (?:command )?(?:just |also |is |was |may get |gets |got )*(?:hang|hung|stuck|frozen|freezes|never returns|does not return)",
        title="A call into the driver does not come back",
    ),
    Signature(
        "loader.libcuda-unfit",
        "numba and the loader",
        ("possible cuda driver libraries are found", "wrong elf class"),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.55), (Cause.LIBRARY_PATH_CONFLICT, 0.2), (Cause.NO_DRIVER, 0.1)),
        "numba/cuda/cudadrv/driver.py; glibc, elf/dl-load.c",
        pattern=r"Possible CUDA driver libraries are found but error|lib(?:cuda|nvidia-\S+)\.so\S*: wrong ELF class",
        title="A libcuda is there that cannot be loaded",
        decisive_fact="which libcuda it is: ldconfig -p | grep libcuda",
    ),
)
