"""Messages of builds and libraries of other platforms: ROCm, Tegra boards and WSL."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_HIP: Mapping[str, Weights] = {
    "launch": ((Cause.INVALID_KERNEL_LAUNCH, 0.5), (Cause.ROCM_MISMATCH, 0.3), (Cause.CUPY_BUG, 0.08)),
    "memory": ((Cause.OUT_OF_MEMORY, 0.75), (Cause.GPU_BUSY, 0.1)),
    "access": ((Cause.ILLEGAL_MEMORY_ACCESS, 0.5), (Cause.ASYNC_ERROR_SURFACED_LATE, 0.35)),
}


def _hip_weights(values: Mapping[str, str]) -> Weights:
    """The errors that a program makes have CUDA's causes on an AMD GPU too."""
    error = values["error"].lower().replace(" ", "")
    kind = "memory" if "outofmemory" in error else "access" if "illegal" in error else "launch"
    return _HIP[kind]


SIGNATURES = (
    Signature(
        "rocm.no-binary",
        "HIP",
        ("hiperrornobinaryforgpu", "hiperrorshareobjectinitfailed", "binary for current devices"),
        ((Cause.NO_KERNEL_IMAGE, 0.72), (Cause.ROCM_MISMATCH, 0.25)),
        "hip, hip_runtime_api.h: hipErrorNoBinaryForGpu; amdhip64, the strings of the binary",
        title="The ROCm build holds no code for this GPU",
        modifiers=(Modifier("amd", Cause.ROCM_MISMATCH, 6), Modifier("cupy", Cause.ROCM_MISMATCH, 6)),
    ),
    Signature(
        "rocm.error",
        "HIP",
        (
            "hiperror",
            "hip error",
            "hsa_status",
            "rocm",
            "no rocm-capable device",
            "amdgpu",
            "for gpu arch",
            "rock module",
            "amd gpu",
        ),
        ((Cause.ROCM_MISMATCH, 0.78), (Cause.NO_KERNEL_IMAGE, 0.1)),
        "hip, hip_runtime_api.h: hipError_t; CuPy built for ROCm",
        pattern=(
            r"hipError(?!NoBinaryForGpu|ShareObjectInitFailed|(?:InvalidValue|InvalidConfiguration|LaunchFailure|LaunchOutOfResources|OutOfMemory|IllegalAddress)\b)\w+"
            r"|HIP error: (?!invalid argument|out of memory|an illegal memory)|no ROCm-capable device|HSA_STATUS_ERROR_\w+"
            r"|rocBLAS error: Cannot read .*for GPU arch|ROCk module is NOT loaded|Unable to detect amdgpu driver"
            r"|(?:cupy|torch|CUDA|nvidia).{0,60}(?:on|with|for) (?:an )?AMD (?:GPU|ROCm)|ROCm (?:is not|was not|not) (?:installed|found|supported)|/opt/rocm\S*:? (?:No such file|not found|does not exist)"
        ),
        evidence="rocm",
    ),
    Signature(
        "rocm.runtime-error",
        "HIP and ROCm",
        ("hiperror", "hip error: "),
        _HIP["launch"],
        "hip, hip_runtime_api.h: hipError_t",
        pattern=(
            r"(?:hipError|HIP error: )(?P<error>InvalidValue|InvalidConfiguration|LaunchFailure|LaunchOutOfResources"
            r"|OutOfMemory|IllegalAddress|invalid argument|out of memory|an illegal memory access)"
        ),
        weights_fn=_hip_weights,
        title="A call of HIP's failed: {error}",
        decisive_fact="whether another kernel or fewer threads do: the launch, or the build for ROCm",
        evidence="rocm",
    ),
    Signature(
        "jetson.libraries",
        "Jetson's libraries",
        ("nvrm", "libnvos", "tegra", "nvhost", "nvmap", "l4t", "jetson"),
        ((Cause.JETSON_TEGRA, 0.8),),
        "L4T, libnvrm_gpu.so and libnvos.so, the strings of the binaries",
        pattern=(
            r"NvRm(?:Gpu|Mem)\w*(?:Open|Init)\w* failed|libnv(?:rm\w*|os|dla\w*|cudla)\.so\S*: cannot open|(?:could not|cannot|failed to).{0,40}(?:/dev/nvhost|\bnvmap\b)"
            r"|(?:not (?:supported|available)|unsupported|no (?:wheels?|support)).{0,60}(?:Jetson|Tegra|L4T|JetPack)|(?:Jetson|Tegra|JetPack|L4T)[^\"]{0,60}(?:not (?:supported|available|compatible)|unsupported|requires|mismatch|no wheel)"
        ),
        title="A Tegra board needs the builds of its own platform",
        evidence="jetson",
    ),
    Signature(
        "wsl.shadow",
        "WSL",
        ("wsl", "microsoft-standard"),
        ((Cause.WSL_LIBCUDA, 0.55),),
        "ldconfig in WSL; NVIDIA, CUDA on WSL User Guide",
        pattern=(
            r"/usr/lib/wsl/lib/libcuda\S* is not a symbolic link|(?:nvidia|cuda|gpu).{0,60}(?:not (?:found|supported|available|accessible)|blocked|fail\w*|error).{0,40}\bWSL2?\b"
            r"|\bWSL2?\b.{0,60}(?:nvidia|cuda|gpu).{0,60}(?:not (?:found|supported|available|accessible)|blocked|fail\w*|error)|/usr/lib/wsl\S*: No such file"
            r"|\b(?:in|under|inside|within) WSL2?\b.{0,40}\b(?:no longer|not|never|cannot)\b.{0,40}\b(?:GPU|CUDA|nvidia)"
        ),
        level=Level.WARNING,
        evidence="wsl",
        decisive_fact="which libcuda.so.1 is loaded: ldconfig -p | grep libcuda",
    ),
    Signature(
        "wsl.old-windows-driver",
        "WSL",
        ("windows", "wsl", "dxg"),
        ((Cause.WSL_LIBCUDA, 0.8),),
        "dxgkrnl of the WSL kernel; NVIDIA, CUDA on WSL User Guide",
        pattern=r"dxgk\w*:? .*(?:Ioctl failed|open_adapter|failed)|/dev/dxg.{0,40}(?:not found|no such|missing|cannot)|Windows driver.{0,40}(?:too old|does not support WSL)",
        evidence="wsl",
    ),
)
