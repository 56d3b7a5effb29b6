"""Messages of dask-cuda, Paddle, FAISS, LAMMPS, hashcat, MIG's tools, enroot and rocBLAS about the GPUs assigned to them."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause


def _device_count_weights(values: Mapping[str, str]) -> Weights:
    """Where there is no GPU at all, the requested number is not what is wrong."""
    if values.get("count") == "0":
        return ((Cause.VISIBLE_DEVICES_HIDE_GPU, 0.4), (Cause.NO_NVIDIA_GPU, 0.2), (Cause.NO_DRIVER, 0.16))
    return ((Cause.INVALID_DEVICE_ORDINAL, 0.88),)


SIGNATURES = (
    Signature(
        "dask.context-there",
        "dask-cuda and distributed",
        ("already exists on process id", "should have a cuda context assigned to device"),
        ((Cause.VISIBLE_DEVICES_SET_TOO_LATE, 0.68), (Cause.FORK_AFTER_CUDA_INIT, 0.12)),
        "dask_cuda/initialize.py; distributed/comm/ucx.py",
        pattern=r"A CUDA context for device .{1,120}already exists on process ID|should have a CUDA context assigned to device .{1,120}but instead",
        title="CUDA was initialised before dask-cuda chose the worker's GPU",
        decisive_fact="which import touches the GPU: DASK_DISTRIBUTED__DIAGNOSTICS__CUDF or a plain worker",
    ),
    Signature(
        "paddle.device-count",
        "PaddlePaddle",
        ("device id must be less than gpu count",),
        ((Cause.INVALID_DEVICE_ORDINAL, 0.88),),
        "paddle/phi/backends/gpu/cuda/cuda_info.cc",
        pattern=r"Device id must be less than GPU count(?:, but received id is: \d+\. GPU count is: (?P<count>\d+))?",
        title="The program asks for a device number that is not there",
        weights_fn=_device_count_weights,
        modifiers=(
            Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 20),
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 4),
        ),
        decisive_fact="how many GPUs the process sees, and CUDA_VISIBLE_DEVICES",
    ),
    Signature(
        "faiss.device-count",
        "FAISS",
        ("device < getnumdevices()", "invalid gpu device"),
        ((Cause.INVALID_DEVICE_ORDINAL, 0.88),),
        "faiss/gpu: the assertions on args.device",
        pattern=r"device < getNumDevices\(\)|Invalid GPU device \d+\b",
        title="The program asks for a device number that is not there",
    ),
    Signature(
        "program.accelerator-memory",
        "LAMMPS, SGLang",
        ("insufficient memory on accelerator", "try to increase --mem-fraction-static"),
        ((Cause.OUT_OF_MEMORY, 0.72), (Cause.GPU_BUSY, 0.14)),
        "LAMMPS, src/GPU/gpu_extra.h; sglang, model_executor/model_runner.py",
        title="The requested memory does not fit into what is free on the GPU",
        decisive_fact="how much is free and who holds the rest: nvidia-smi",
    ),
    Signature(
        "lammps.no-device",
        "LAMMPS",
        ("initialize a specified accelerator device",),
        (
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.24),
            (Cause.NO_DRIVER, 0.22),
            (Cause.INVALID_DEVICE_ORDINAL, 0.18),
            (Cause.CUDA_INITIALIZATION_FAILED, 0.1),
            (Cause.CONTAINER_WITHOUT_GPU, 0.06),
        ),
        "LAMMPS, src/GPU/gpu_extra.h: check_flag",
        title="The program finds no GPU, or not the one that it is to use",
        modifiers=(
            Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 20),
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8),
            Modifier("driver-none", Cause.NO_DRIVER, 12),
        ),
        decisive_fact="what nvidia-smi -L lists in the same shell, and CUDA_VISIBLE_DEVICES",
    ),
    Signature(
        "hashcat.memory",
        "hashcat",
        ("not enough allocatable device memory for this attack",),
        ((Cause.OUT_OF_MEMORY, 0.66), (Cause.GPU_BUSY, 0.1)),
        "hashcat, src/backend.c",
        requires=("cuda", "gpu", "nvidia-card", "smi-table"),  # it runs on processors too
        title="The requested memory does not fit into what is free on the GPU",
    ),
    Signature(
        "hashcat.old-driver",
        "hashcat",
        ("outdated or broken nvidia driver",),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.7), (Cause.DRIVER_INSTALL_BROKEN, 0.15)),
        "hashcat, src/backend.c: nv_warn",
        pattern=r"Device #\d+: Outdated or broken NVIDIA driver",
        title="The driver is older than the program asks for",
    ),
    Signature(
        "torch.kernel-cache",
        "torch",
        ("kernel cache directory",),
        ((Cause.KERNEL_CACHE_UNWRITABLE, 0.85),),
        "torch, aten/src/ATen/native/cuda/jit_utils.cpp",
        pattern=r"Specified kernel cache directory (?:could not be created|is not (?:writ|read)able)",
        level=Level.WARNING,
        title="The cache of compiled kernels cannot be written",
    ),
    Signature(
        "mig.not-applied",
        "nvidia-mig-parted",
        ("selected configuration not currently applied", "error applying mig configuration", "error clearing mig"),
        ((Cause.MIG_MISCONFIGURED, 0.85),),
        "nvidia-mig-parted, cmd/nvidia-mig-parted: assert and apply",
        title="The GPU's instances are not those that the configuration wants",
        evidence="mig",
    ),
    Signature(
        "mig.no-instances",
        "nvidia-smi mig",
        ("instances found", "mig mode is in pending", "no mig devices were found"),
        ((Cause.MIG_MISCONFIGURED, 0.85),),
        "nvidia-smi, option mig, the strings of the program; Slurm, gpu_nvml.c",
        pattern=r"No (?:GPU|compute) instances found(?:: Not Found)?|MIG mode is enabled, but no MIG devices were found|MIG mode is in pending (?:enable|disable) state",
        requires=("cuda", "gpu", "mig"),
        title="MIG is on, and no instance was made",
        evidence="mig",
    ),
    Signature(
        "enroot.no-toolkit",
        "enroot and pyxis",
        ("command not found: nvidia-container-cli",),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.93),),
        "enroot, conf/hooks/98-nvidia.sh",
        title="nvidia-container-cli, with which enroot hands the GPU in, is not installed",
        evidence="container",
    ),
    Signature(
        "cdi.stale",
        "crun and runc, with CDI",
        ("cannot stat", "failed to fulfil mount request", "failed to stat cdi", "error mounting"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.82), (Cause.DRIVER_INSTALL_BROKEN, 0.12)),
        "crun, src/libcrun/linux.c; CDI: the specification names files of the driver that made it",
        pattern=(
            r"(?:cannot stat `?|failed to fulfil mount request: open |error mounting \")/\S*lib(?:cuda|nvidia-[\w-]+|nvcuvid|GLX_nvidia|EGL_nvidia)\.so\.\d+\.\d[\d.]*[`'\" ]?.{0,60}(?:no such file|OCI runtime)"
        ),
        title="The CDI specification names files of a driver that is no longer there: nvidia-ctk cdi generate makes it anew",
        evidence="container",
    ),
    Signature(
        "toolkit.packages",
        "apt",
        ("nvidia-docker2 :", "nvidia-container-toolkit :", "nvidia-container-runtime :", "libnvidia-container"),
        ((Cause.CONTAINER_TOOLKIT_BROKEN, 0.88),),
        "apt, apt-pkg: unmet dependencies",
        pattern=r"(?:nvidia-docker2|nvidia-container-(?:toolkit|runtime)\S*|libnvidia-container\S*) : (?:Pre)?(?:Depends|Breaks|Conflicts): \S",
        title="Packages of the container toolkit do not fit the engine or each other",
    ),
    Signature(
        "rocm.tensile",
        "rocBLAS",
        ("tensile host", "tensilelibrary"),
        ((Cause.ROCM_MISMATCH, 0.85),),
        "rocBLAS and hipBLASLt, library/src/tensile_host.cpp",
        pattern=r"Could not initialize Tensile host|TensileLibrary\S{0,60}:? ?.{0,60}(?:No such file|Illegal seek|missing|cannot)|(?:Cannot read|missing|not found).{0,80}TensileLibrary",
        title="rocBLAS holds no code for this AMD GPU",
        evidence="rocm",
    ),
    Signature(
        "rocm.amdgpu",
        "ollama",
        ("amdgpu version file missing", "amdgpu too old", "amdgpu is not supported", "no compatible rocm library"),
        ((Cause.ROCM_MISMATCH, 0.7),),
        "ollama, discover/amd_linux.go",
        pattern=r"amdgpu version file missing|amdgpu (?:is )?too old\b|amdgpu is not supported|no compatible rocm library found",
        level=Level.WARNING,
        title="The AMD GPU or its driver does not fit the ROCm build",
        evidence="rocm",
    ),
    Signature(
        "tegra.map-failed",
        "L4T",
        ("nvmapmem",),
        ((Cause.JETSON_TEGRA, 0.52), (Cause.OUT_OF_MEMORY, 0.42)),
        "L4T, libnvrm_mem.so, the strings of the binary; errno 12 is ENOMEM",
        pattern=r"NvMapMem(?:Alloc\w*|Handle\w*): .{0,40}error \d+",
        title="The memory that a Tegra board's GPU shares with the system could not be had",
        evidence="jetson",
        decisive_fact="the release of L4T, and how much memory is free: tegrastats",
    ),
)
