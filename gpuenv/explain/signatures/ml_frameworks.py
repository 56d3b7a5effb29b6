"""Messages of torch, TensorFlow, JAX and numba about the GPU's environment."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause
from gpuenv.model.strings import parse_integer

_TORCH = "torch"
_ON_TEGRA_ONLY = (53, 62, 72, 87, 101, 110)  # CUDA GPU Compute Capability, table of Jetson products; Thor has two
_ABSENT = (
    Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 30),
    Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 6),
    Modifier("started-without-gpu", Cause.CONTAINER_WITHOUT_GPU, 12),
    Modifier("started-without-gpu", Cause.NO_DRIVER, 0.2),
    Modifier("host", Cause.CONTAINER_WITHOUT_GPU, 0.05),
    Modifier("wsl", Cause.WSL_LIBCUDA, 12),
    Modifier("driver-none", Cause.NO_DRIVER, 15),
    Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 8),
    Modifier("cpu-torch", Cause.CPU_ONLY_FRAMEWORK, 20),
    Modifier("mig", Cause.MIG_MISCONFIGURED, 8),
)


def _capability_weights(values: Mapping[str, str]) -> Weights:
    if parse_integer(values.get("sm", "")) in _ON_TEGRA_ONLY:
        return ((Cause.JETSON_TEGRA, 0.72), (Cause.NO_KERNEL_IMAGE, 0.25))
    return ((Cause.NO_KERNEL_IMAGE, 0.78), (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.15))


SIGNATURES = (
    Signature(
        "torch.driver-too-old",
        "torch, JAX",
        (
            "driver on your system is too old",
            "driver is too old",
            "driver version is too old",
            "is older than the ptxas",
        ),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.94),),
        "torch/csrc/cuda/Module.cpp; torch/cuda/__init__.py; xla, nvptx_compiler",
        pattern=r"NVIDIA driver on your system is too old(?: \(found version (?P<level>\d+))?|(?:CUDA|NVIDIA) driver (?:version )?is too old|driver's CUDA version is \S+ which is older than the ptxas",
        title="The driver is older than the framework's CUDA needs",
    ),
    Signature(
        "torch.no-driver",
        _TORCH,
        ("found no nvidia driver",),
        (
            (Cause.NO_DRIVER, 0.76),
            (Cause.CONTAINER_WITHOUT_GPU, 0.1),
            (Cause.NO_NVIDIA_GPU, 0.06),
            (Cause.WSL_LIBCUDA, 0.03),
        ),
        "torch/cuda/__init__.py and torch/csrc/cuda",
        modifiers=(*_ABSENT, Modifier("smi-works", Cause.NO_DRIVER, 0.3)),
        decisive_fact="whether this is a container: --assume container=yes or no",
    ),
    Signature(
        "torch.no-gpus",
        _TORCH,
        (
            "no cuda gpus are available",
            "no cuda devices",
            "no cuda device found",
            "no supported devices found for platform cuda",
            "no gpu devices found",
            "no visible gpu devices",
        ),
        (
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.5),
            (Cause.NO_NVIDIA_GPU, 0.12),
            (Cause.CONTAINER_WITHOUT_GPU, 0.1),
            (Cause.NO_DRIVER, 0.08),
            (Cause.WSL_LIBCUDA, 0.03),
            (Cause.MIG_MISCONFIGURED, 0.03),
        ),
        "torch/csrc/cuda/Module.cpp: device count is 0; XLA, platform_util.cc; numba",
        pattern=r"No CUDA GPUs are available|No visible GPU devices|no supported devices found for platform CUDA|No CUDA devices? (?:was |were )?(?:found|detected|available)",
        title="The driver works, and shows this process no GPU",
        modifiers=_ABSENT,
        decisive_fact="what nvidia-smi -L lists in the same shell, and the value of CUDA_VISIBLE_DEVICES",
    ),
    Signature(
        "torch.capability",
        _TORCH,
        (
            "is not compatible with the current pytorch installation",
            "no longer supports this gpu",
            "of cuda capability",
        ),
        ((Cause.NO_KERNEL_IMAGE, 0.78), (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.15)),
        "torch/cuda/__init__.py: _check_capability",
        pattern=r"(?:with CUDA capability )?\bsm_(?P<sm>\d+) is not compatible with the current PyTorch|PyTorch no longer supports this GPU",
        title="This build of PyTorch holds no code for the GPU",
        weights_fn=_capability_weights,
        evidence="torch-error",
    ),
    Signature(
        "torch.cpu-build",
        "torch and other frameworks",
        (
            *(
                "not compiled with cuda",
                "not built with cuda",
                "without cuda",
                "no cuda support",
                "not compiled with gpu",
            ),
            *(
                "not built with gpu",
                "without gpu support",
                "compiled without",
                "gpu tree learner was not enabled",
                "cuda support",
            ),
            *(
                "gpu support",
                "not compiled to use",
                "cpu-only",
                "only cpu version",
                "cuda-enabled jaxlib is not installed",
            ),
        ),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.94),),
        "torch/cuda/__init__.py; TensorFlow, XGBoost, LightGBM, faiss, jax/_src/xla_bridge.py",
        pattern=(
            r"not (?:compiled|built|linked|configured) (?:with|to use) (?:CUDA|GPU|cuDNN)(?: (?:support|enabled|kernels?))?|(?:compiled|built|installed) without (?:CUDA|GPU)(?: support)?"
            r"|GPU Tree Learner was not enabled|CUDA-enabled jaxlib is not installed|(?:has|have|with) no (?:CUDA|GPU) support|does not (?:have|support) (?:CUDA|GPU) support"
            r"|(?:is|are) (?:a )?CPU[- ]only (?:build|version|wheel|package)|(?:CUDA|GPU) support (?:is )?not (?:enabled|compiled|available|included)"
        ),
        title="The framework there is built without CUDA",
        modifiers=(
            Modifier("jax-library", Cause.CPU_ONLY_FRAMEWORK, 0.05),
        ),  # JAX says so of a plug-in that did not start
        evidence="cpu-torch",
    ),
    Signature(
        "torch.deserialize-cpu",
        _TORCH,
        ("deserialize object on a cuda device", "torch.cuda.is_available() is false", "torch.cuda.floattensor"),
        (
            (Cause.CPU_ONLY_FRAMEWORK, 0.48),
            (Cause.NO_DRIVER, 0.2),
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.1),
            (Cause.CONTAINER_WITHOUT_GPU, 0.06),
        ),
        "torch/serialization.py; torch/__init__.py: set_default_tensor_type",
        pattern=r"deserialize object on a CUDA device but torch\.cuda\.is_available\(\) is False|set_default_tensor_type\(\W*torch\.cuda\.\w+|type torch\.cuda\.\w+ not available",
        title="torch has no usable GPU",
        modifiers=_ABSENT,
        decisive_fact="torch.version.cuda: None is a build without CUDA",
    ),
    Signature(
        "program.no-cuda",
        "programs that use a GPU framework",
        (
            "cuda is not available",
            "cuda not available",
            "cuda is unavailable",
            "gpu is not available",
            "cuda is not availab",
        ),
        (
            (Cause.CPU_ONLY_FRAMEWORK, 0.3),
            (Cause.NO_DRIVER, 0.22),
            (Cause.CONTAINER_WITHOUT_GPU, 0.1),
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.1),
        ),
        "programs that ask torch.cuda.is_available() or cupy.is_available() and give up",
        pattern=r"(?:Error|Exception|FATAL|abort\w*)\b.{0,80}\b(?:CUDA|GPU) (?:is )?(?:not availab\w*|unavailable)",
        title="The program found no usable GPU",
        modifiers=_ABSENT,
        decisive_fact="torch.version.cuda (None is a build without CUDA), and what nvidia-smi says in the same shell",
    ),
    Signature(
        "torch.num-gpus",
        _TORCH,
        ("num_gpus",),
        (
            (Cause.MIG_MISCONFIGURED, 0.48),
            (Cause.VISIBLE_DEVICES_SET_TOO_LATE, 0.3),
            (Cause.INVALID_DEVICE_ORDINAL, 0.15),
        ),
        "torch, aten/src/ATen/cuda/CUDAContext.cpp",
        pattern=r"device >= 0 && device < num_gpus",
        title="torch counts other GPUs than CUDA lets it use",
        modifiers=(
            Modifier("mig", Cause.MIG_MISCONFIGURED, 10),
            Modifier("visible-set", Cause.VISIBLE_DEVICES_SET_TOO_LATE, 4),
            Modifier("visible-in-code", Cause.VISIBLE_DEVICES_SET_TOO_LATE, 8),
        ),
        decisive_fact="whether MIG is on (nvidia-smi -L), and where CUDA_VISIBLE_DEVICES is set",
    ),
    Signature(
        "torch.nvml",
        _TORCH,
        ("can't initialize nvml",),
        ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.36), (Cause.CONTAINER_CGROUP_LOST_GPU, 0.3), (Cause.NO_DRIVER, 0.1)),
        "torch/cuda/__init__.py: _raw_device_count_nvml",
        level=Level.WARNING,
        decisive_fact="what nvidia-smi says in the same shell",
    ),
    Signature(
        "numba.capability",
        "numba",
        ("compute capability", "supported gpu compute", "is not supported on cuda"),
        ((Cause.GPU_REMOVED_FROM_TOOLKIT, 0.72), (Cause.CUDA_LIBRARY_MISSING, 0.1)),
        "numba/cuda/cudadrv/driver.py and nvvm.py",
        pattern=(
            r"GPU compute capability \S+ is not supported|(?:No supported GPU compute capabilities found)"
            r"|compute capability [\d.]+\) is not supported (?:on|by|with) CUDA"
            r"|compute capability \S+ (?:is )?(?:too old|no longer supported|below the minimum|deprecated)"
        ),
        unless=r"\brelease notes\b|\bwill be (?:removed|dropped)\b",
        decisive_fact="the GPU and the CUDA version: --assume gpu=NAME, --assume toolkit=VERSION",
        modifiers=(Modifier("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 6),),
    ),
    Signature(
        "gpu.too-new",
        "TensorFlow, torch and libraries",
        (
            "does not support",
            "not supported by",
            "unsupported gpu",
            "unsupported sm",
            "compute capability",
            "unknown gpu",
        ),
        ((Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.55), (Cause.NO_KERNEL_IMAGE, 0.2)),
        "TensorFlow, gpu_device.cc: JIT from PTX; XLA, nvptx_compiler.cc; NVRTC callers",
        pattern=(
            r"(?:was|were) not built with CUDA kernel binaries compatible with compute capability|(?:unsupported|unknown) (?:sm|gpu|compute) ?(?:version|arch\w*|capability)\b(?! ')"
            r"|CUDA \d\S* does not (?:yet )?support (?:compute capability|sm_|the GPU)|nvrtc.*does not support.*(?:compute capability|sm_)"
        ),
        level=Level.WARNING,
    ),
)
