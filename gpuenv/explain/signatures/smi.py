"""Messages of nvidia-smi."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_SMI = "nvidia-smi"

_MUCH, _IDLE = 0.6, 5  # of the memory; percent of the time


def _held_memory_weights(values: Mapping[str, str]) -> Weights:
    """Much of the memory is taken while the GPU does nothing: a program holds it that is idle or gone."""
    if int(values["used"]) < _MUCH * int(values["total"]) or int(values["percent"]) > _IDLE:
        return ()
    return ((Cause.GPU_BUSY, 0.45),)


SIGNATURES = (
    Signature(
        "smi.held-by-nobody",
        _SMI,
        ("mib |", "mib / "),
        ((Cause.GPU_BUSY, 0.45),),
        "nvidia-smi, the table: memory in use and utilisation",
        pattern=r"\b(?P<used>\d{1,8})MiB / +(?P<total>\d{1,8})MiB \| +(?P<percent>\d{1,3})% ",
        weights_fn=_held_memory_weights,
        requires=("complaint",),  # a server that waits for work looks the same
        level=Level.WARNING,
        title="Most of the GPU's memory is taken, while nothing runs on it",
        decisive_fact="which processes hold the driver's device nodes: fuser -v /dev/nvidia*",
    ),
    Signature(
        "smi.exclusive",
        _SMI,
        ("e. process |", "e. thread |", "prohibited |"),
        ((Cause.COMPUTE_MODE_EXCLUSIVE, 0.62), (Cause.GPU_BUSY, 0.1)),
        "nvidia-smi, the table: column Compute M.",
        pattern=r"\b\d{1,3}% +(?:E\. (?:Process|Thread)|Prohibited) \|",
        requires=("complaint",),
        level=Level.WARNING,
        title="The GPU takes one process only, or none, by its compute mode",
        decisive_fact="the compute mode: nvidia-smi -q -d COMPUTE",
    ),
    Signature(
        "smi.no-cuda",
        _SMI,
        ("cuda version: err!", "cuda version: n/a"),
        ((Cause.CONTAINER_DRIVER_CAPABILITIES, 0.34), (Cause.DRIVER_INSTALL_BROKEN, 0.3)),
        "nvidia-smi, the table: the CUDA version is what libcuda answers",
        level=Level.WARNING,
        title="nvidia-smi works, and libcuda is not there or does not answer",
        modifiers=(
            Modifier("container", Cause.CONTAINER_DRIVER_CAPABILITIES, 6),
            Modifier("host", Cause.CONTAINER_DRIVER_CAPABILITIES, 0.1),
            Modifier("wsl", Cause.WSL_LIBCUDA, 60),
            Modifier("wsl", Cause.CONTAINER_DRIVER_CAPABILITIES, 0.3),
        ),
        decisive_fact="whether this is a container or WSL: --assume container=yes, --assume wsl=yes",
    ),
    Signature(
        "smi.process-gone",
        _SMI,
        ("unknown error",),
        ((Cause.GPU_BUSY, 0.5),),
        "nvidia-smi, the table of processes: the name of one that is not there any more",
        pattern=r"\| +\d+ +(?:N/A +N/A +)?\d+ +(?:C|G|C\+G) +Unknown Error +\d+MiB",
        level=Level.WARNING,
        title="A process of which nvidia-smi knows no name holds the GPU's memory",
        decisive_fact="which processes hold the driver's device nodes: fuser -v /dev/nvidia*",
    ),
    Signature(
        "smi.no-communication",
        _SMI,
        ("communicate with the nvidia driver",),
        (
            (Cause.DRIVER_MODULE_NOT_LOADED, 0.5),
            (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.2),
            (Cause.NOUVEAU_LOADED, 0.12),
            (Cause.NO_DRIVER, 0.08),
        ),
        "nvidia-smi, the strings of the program",
        title="nvidia-smi is installed, but the kernel does not drive the GPU",
        modifiers=(
            Modifier("nouveau", Cause.NOUVEAU_LOADED, 20),
            Modifier("secure-boot", Cause.DRIVER_KERNEL_INCOMPATIBLE, 8),
            Modifier("module-build-failed", Cause.DRIVER_KERNEL_INCOMPATIBLE, 10),
            Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 5),
        ),
        decisive_fact="whether lsmod shows nvidia or nouveau, and what sudo modprobe nvidia answers",
    ),
    Signature(
        "smi.no-devices",
        _SMI,
        ("no devices were found",),
        (
            (Cause.GPU_HARDWARE_FAULT, 0.25),
            (Cause.GPU_TOO_NEW_FOR_DRIVER, 0.2),
            (Cause.DEVICE_NODE_PERMISSION, 0.15),
            (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.1),
            (Cause.GPU_REMOVED_FROM_DRIVER, 0.1),
        ),
        "nvidia-smi, the strings of the program",
        title="The driver is loaded, but none of its GPUs could be used",
        modifiers=(
            Modifier("container", Cause.DEVICE_NODE_PERMISSION, 2.5),
            Modifier("container", Cause.CONTAINER_CGROUP_LOST_GPU, 3),
            Modifier("gpu-newer-than-driver", Cause.GPU_TOO_NEW_FOR_DRIVER, 20),
            Modifier("gpu-older-than-driver", Cause.GPU_REMOVED_FROM_DRIVER, 20),
        ),
        decisive_fact="what the kernel says of the GPU: sudo dmesg | grep NVRM",
    ),
    Signature(
        "smi.no-handle",
        _SMI,
        ("unable to determine the device handle",),
        ((Cause.GPU_HARDWARE_FAULT, 0.78), (Cause.DRIVER_INSTALL_BROKEN, 0.06)),
        "nvidia-smi, the strings of the program",
        title="The driver lists a GPU that it cannot reach",
        decisive_fact="the Xid events in the kernel's log: sudo dmesg | grep Xid",
    ),
    Signature(
        "smi.in-use",
        _SMI,
        ("in use by another client", "is currently in use", "currently being used by one or more"),
        ((Cause.GPU_BUSY, 0.7), (Cause.MIG_MISCONFIGURED, 0.15)),
        "nvidia-smi, the strings of the program: --gpu-reset, -mig; nvmlErrorString(NVML_ERROR_IN_USE)",
        pattern=r"GPU.*in use by another client|(?:GPU|nvidia).*currently (?:in use|being used by one or more)",
        modifiers=(Modifier("mig", Cause.MIG_MISCONFIGURED, 6),),
        title="Programs hold the GPU, so its mode cannot be changed",
    ),
    Signature(
        "smi.mig-none",
        _SMI,
        ("no mig", "mig device", "migenabled", "mig mode", "gpu instance"),
        ((Cause.MIG_MISCONFIGURED, 0.85),),
        "nvidia-smi mig, the strings of the program; NVIDIA device plugin for Kubernetes, internal/rm",
        pattern=(
            r"No MIG-enabled devices found|No MIG devices found|no MIG devices (?:are )?(?:available|present)"
            r"|migEnabled=true was not configured correctly|more than one MIG device type present"
            r"|(?:Unable|Failed) to (?:enable|disable|set) MIG mode|invalid MIG (?:device|configuration|mode)"
            r"|(?:Failed|Unable) to create (?:GPU|compute) instance|all devices on the node must be configured with the same"
            r"|MIG (?:device|instance)s? (?:is |was |are )?not (?:found|supported|configured)"
        ),
    ),
    Signature(
        "smi.throttled",
        _SMI,
        ("slowdown", "power brake"),
        ((Cause.GPU_THROTTLED, 0.85),),
        "nvidia-smi -q, section Clocks Event Reasons",
        pattern=r"(?:HW|SW) (?:Thermal |Power Brake )?Slowdown\s*:\s*Active|hw_(?:thermal_|power_brake_)?slowdown\W+Active",
        title="The GPU's clock is held down",
    ),
    Signature(
        "smi.power-cap-warning",
        "the kernel and monitoring programs",
        ("thermal", "throttl", "power cap"),
        ((Cause.GPU_THROTTLED, 0.7),),
        "DCGM, dcgm_errors.h: clocks event and thermal violation; nvidia-smi dmon",
        pattern=(
            r"GPU \S* ?(?:is |has been )?(?:thermally? |power )?throttl(?:ed|ing)|(?:thermal|power) violation.*GPU"
            r"|GPU.*(?:thermal|power) violation|detected clocks? (?:event|throttle) .*thermal"
        ),
    ),
    Signature(
        "smi.command-not-found",
        "the shell",
        ("nvidia-smi",),
        ((Cause.NO_DRIVER, 0.55), (Cause.CONTAINER_WITHOUT_GPU, 0.15)),
        "bash, dash, zsh, cmd.exe and execvp",
        pattern=(
            r"nvidia-smi['\"]?:? (?:command )?not found|nvidia-smi['\"]? is not recognized"
            r"|No such file or directory: '?nvidia-smi|Command '?nvidia-smi'? not found|nvidia-smi: No such file"
            r"|\W?nvidia-smi\W? failed\. Ensure that you have CUDA installed"
            r"|\bnvidia-smi\b.{0,60}\b(?:no such command|(?:is|was) not (?:a (?:known|valid) )?(?:command|installed|found))\b"
        ),
        modifiers=(
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8),
            Modifier("caps-without-utility", Cause.CONTAINER_DRIVER_CAPABILITIES, 60),
            Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 8),
            Modifier("jetson", Cause.JETSON_TEGRA, 60),
            Modifier("aarch64", Cause.JETSON_TEGRA, 40),  # JetPack up to 5 brings a driver and no nvidia-smi
        ),
        title="nvidia-smi, which comes with the driver, is not installed",
        decisive_fact="whether lspci shows an NVIDIA GPU, and whether this is a container",
    ),
    Signature(
        "smi.exec-not-found",
        "container engines",
        ("nvidia-smi",),
        ((Cause.CONTAINER_WITHOUT_GPU, 0.72), (Cause.CONTAINER_DRIVER_CAPABILITIES, 0.12)),
        "runc, libcontainer: exec",
        pattern=r"exec: \\?\"?nvidia-smi\\?\"?: (?:executable file not found|stat)|nvidia-smi.*executable file not found in \$PATH|executable file `nvidia-smi` not found",
        title="The container was started without the driver's programs",
    ),
    Signature(
        "smi.timeout",
        "callers of nvidia-smi",
        ("nvidia-smi", "nvml", "rpc error: timed out", "blocked for more than"),
        ((Cause.DRIVER_UNRESPONSIVE, 0.85),),
        "subprocess.TimeoutExpired of Python; libnvidia-container, src/rpc.c; Linux, kernel/hung_task.c",
        pattern=(
            r"nvidia-smi.*tim(?:ed|e) ?out|driver rpc error: timed out|task nvidia\S* blocked for more than"
            r"|NVML\S* .*timed out|task \S+ blocked for more than .*nvidia"
        ),
        title="A call into the driver does not come back",
    ),
    Signature(
        "smi.no-library",
        "nvidia-smi",
        ("couldn't find libnvidia-ml", "couldn't find nvml"),
        (
            (Cause.DRIVER_INSTALL_BROKEN, 0.5),
            (Cause.NO_DRIVER, 0.16),
            (Cause.CONTAINER_TOOLKIT_BROKEN, 0.12),
            (Cause.CONTAINER_DRIVER_CAPABILITIES, 0.04),
        ),
        "nvidia-smi, the strings of the program: it is a part of the driver itself, and was found",
        title="nvidia-smi is there, and libnvidia-ml, which comes in the same driver, is not found",
        modifiers=(
            Modifier("container", Cause.CONTAINER_TOOLKIT_BROKEN, 8),
            Modifier("wsl", Cause.WSL_LIBCUDA, 60),
        ),
        decisive_fact="whether this is a container, and which packages of the driver are installed",
    ),
    Signature(
        "smi.reset-refused",
        "nvidia-smi",
        ("being used by", "in use by another client"),
        ((Cause.GPU_BUSY, 0.8),),
        "nvidia-smi, the strings of the program",
        pattern=r"reset.{0,40}\bGPU\b.{0,40}(?:it's|it is|is being|being) (?:being )?used by|GPU.{0,40}in use by another client",
        title="Another process uses the GPU",
    ),
    Signature(
        "smi.error-fields",
        "nvidia-smi",
        ("err!",),
        ((Cause.GPU_HARDWARE_FAULT, 0.6), (Cause.DRIVER_UNRESPONSIVE, 0.15)),
        "nvidia-smi, the table: ERR! stands where the GPU does not answer",
        pattern=r"(?<!Version: )(?<!Version:)(?<!npm )\bERR!\s+(?:\d+C\b|ERR!|N/A|P\d\b)|(?:\dC?|N/A)\s+ERR!|shows? ERR!.{0,30}(?:fan|power|temp|memory)",
        title="The GPU does not answer what nvidia-smi asks",
        decisive_fact="what the kernel's log says of the GPU (Xid), and whether a power cycle helps",
    ),
)
