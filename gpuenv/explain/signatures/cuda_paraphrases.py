"""CUDA errors that programs report in their own words, without CUDA's name of the error."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.explain.signatures.cuda_start import NO_DEVICE_SWAYS
from gpuenv.model.causes import Cause

_SIDE = r"\b(?:default|side|other|second|separate|transfer|copy|non-?default|non-?blocking|different|two|another) streams?\b"
_WRONG = r"\b(?:wrong|incorrect|stale|garbage|races?|race condition|mismatch\w*|corrupt\w*)\b"
_OLD = r"(?:Fermi|Kepler|Maxwell|Pascal|Volta)"

SIGNATURES = (
    Signature(
        "program.memory-words",
        "TensorFlow, ONNX Runtime, DirectML, Julia, vLLM",
        (
            *("oom when allocating", "memory for requested buffer", "out of gpu memory", "not enough gpu"),
            *("memory for the cache blocks", "out of memory trying", "out of memory while trying", "insufficient gpu"),
        ),
        ((Cause.OUT_OF_MEMORY, 0.88),),
        "tensorflow/core/framework/op_kernel.cc; onnxruntime, bfc_arena.cc; CUDA.jl, pool.jl; vllm, core/kv_cache_utils.py",
        pattern=(
            r"OOM when allocating tensor(?!.{0,200}(?:/device:CPU|allocator cpu\b))|Failed to allocate memory for requested buffer of size|Out of GPU memory trying to allocate"
            r"|(?:not enough|insufficient) GPU (?:video )?memory|No available memory for the cache blocks|out of memory (?:while )?trying to allocate \d[\d.]{0,20} ?(?:bytes|[KMGT]i?B)"
        ),
    ),
    Signature(
        "program.no-device-words",
        "programs that use CUDA",
        ("no cuda", "not found", "not detected"),
        (
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.26),
            (Cause.NO_NVIDIA_GPU, 0.18),
            (Cause.NO_DRIVER, 0.16),
            (Cause.CONTAINER_WITHOUT_GPU, 0.08),
        ),
        "the words of programs where cudaGetDeviceCount gave none",
        pattern=(
            r"^(?!.*\bskip)(?:.*\b)?no CUDA(?:[- ](?:capable|enabled|compatible))? (?:devices?|GPUs?|cards?) (?!is detected)(?:\w+ ){0,2}?(?:found|detected|available|present|visible)\b"
            r"|^(?!.*\bskip).*\b(?:says?|get|gets|got|reports?|with|error:?) (?:\W)?no CUDA-capable device\b(?! (?:is|are|was|were) (?:detected|found))"
            r"|^(?!.*\bskip).*\bCUDA[- ](?:capable|enabled|compatible) (?:device|GPU|card)s? (?:was |were )?not (?:found|detected)"
        ),
        level=Level.WARNING,
        title="The program sees no GPU",
        unless=r"\b(?:if|when|unless|where) (?:no|there)\b|\bexits? with\b|\bskip|\bneeded\b|\bif\b.{0,30}\bno CUDA",
        modifiers=NO_DEVICE_SWAYS,
        decisive_fact="what nvidia-smi -L lists in the same shell, and the value of CUDA_VISIBLE_DEVICES",
    ),
    Signature(
        "program.memory-taken",
        "vLLM",
        ("less than desired gpu memory utilization",),
        ((Cause.GPU_BUSY, 0.55), (Cause.OUT_OF_MEMORY, 0.35)),
        "vllm, worker/gpu_worker.py: init_device",
        pattern=r"Free memory on device .{0,80} less than desired GPU memory utilization",
        title="Less of the GPU's memory is free than the program is set to take",
        decisive_fact="which processes nvidia-smi lists on that GPU",
    ),
    Signature(
        "onnx.no-provider",
        "ONNX Runtime",
        ("is not in available provider",),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.88),),
        "onnxruntime/capi/onnxruntime_inference_collection.py: check_and_normalize_provider_args",
        pattern=r"Specified provider '(?:CUDA|Tensorrt)ExecutionProvider' is not in available provider",
        title="The onnxruntime there is built without CUDA",
    ),
    Signature(
        "thrust.no-image",
        "Thrust and CUB",
        ("no kernel image",),
        ((Cause.NO_KERNEL_IMAGE, 0.6), (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.2)),
        "thrust, system_error.h; cut off",
        pattern=r"no kernel image(?! (?:is available|found|in|installed)\b)",
        requires=("cuda", "cupy", "torch-error", "rocm"),
        title="A binary holds no code for this GPU",
        modifiers=(
            Modifier("gpu-older", Cause.GPU_REMOVED_FROM_TOOLKIT, 40),
            Modifier("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 10),
            Modifier("jetson", Cause.JETSON_TEGRA, 60),
        ),
        decisive_fact="the GPU and the CUDA of the binary: --assume gpu=NAME, --assume toolkit=VERSION",
    ),
    Signature(
        "toolkit.support-dropped",
        "programs and release notes",
        ("support", "needs cuda"),
        ((Cause.GPU_REMOVED_FROM_TOOLKIT, 0.62), (Cause.NO_KERNEL_IMAGE, 0.15)),
        "CUDA Toolkit 13.0 Release Notes, Deprecated and Dropped Features; the words of programs",
        pattern=(
            rf"(?:dropp\w+|remov\w+|end\w*(?: of)?|no longer|without) support\w*(?: for| of)? .{{0,30}}\b{_OLD}\b|\b{_OLD}\b.{{0,60}}(?:no longer supported|not supported (?:any ?more|by CUDA)|support (?:was|is|has been) (?:dropped|removed))"
            r"|(?:device|GPU|card)\b.{0,60}\bnot supported by (?:this |your |the )?CUDA \d"
        ),
        title="This CUDA no longer compiles for the GPU",
        requires=("cuda", "cupy", "torch-error"),
        level=Level.WARNING,
        modifiers=(Modifier("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 20),),
        decisive_fact="the GPU and the CUDA there: --assume gpu=NAME, --assume toolkit=VERSION",
    ),
    Signature(
        "torch.cublas-runtime",
        "torch before 1.5",
        ("cublas runtime error",),
        ((Cause.LIBRARY_NOT_INITIALIZED, 0.45), (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.25), (Cause.OUT_OF_MEMORY, 0.1)),
        "aten/src/THC/THCBlas.cu and THCGeneral.cpp: _cublasGetErrorEnum",
        pattern=r"cublas runtime error ?: ",
        title="cuBLAS failed; it often does so where torch's CUDA is older than the GPU",
        modifiers=(Modifier("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 15),),
        decisive_fact="the GPU, and the CUDA that torch was built with: torch.version.cuda",
    ),
    Signature(
        "torch.says-false",
        "torch, called by hand",
        ("cuda.is_available()", "cuda available", "torch is not able to use gpu"),
        (
            (Cause.CPU_ONLY_FRAMEWORK, 0.4),
            (Cause.NO_DRIVER, 0.15),
            (Cause.CONTAINER_WITHOUT_GPU, 0.1),
            (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.1),
        ),
        "torch/cuda/__init__.py: is_available; torch/utils/collect_env.py",
        pattern=(
            r"cuda\.is_available\(\)[`)\]'\": ]{0,4}(?:Out\[\d{1,3}\]: )?(?:(?:returns?|returned|is|gives|prints|=+|[-=]>|#|是|为|返回|显示|输出) ?){0,2}[`'\"]?False\b"
            r"|Torch is not able to use GPU|\bCUDA available\??\s{0,3}[:=]\s{0,3}False"
        ),
        title="torch sees no usable GPU",
        level=Level.WARNING,
        modifiers=(
            Modifier("cpu-torch", Cause.CPU_ONLY_FRAMEWORK, 20),
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8),
            Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 60),
            Modifier("jetson", Cause.JETSON_TEGRA, 60),
        ),
        decisive_fact="torch.version.cuda: None is a build without CUDA",
    ),
    Signature(
        "torch.version-none",
        "torch, called by hand",
        ("version.cuda",),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.85),),
        "torch/version.py",
        pattern=r"torch\.version\.cuda[`)\]'\": ]{0,4}(?:(?:returns?|is|gives|prints|=+|[-=]>|#) ?){0,2}[`'\"]?None\b",
        title="The installed torch is built without CUDA",
        level=Level.WARNING,
    ),
    Signature(
        "triton.resources",
        "Triton",
        ("out of resource: ", "outofresources"),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.85),),
        "triton/runtime/errors.py: OutOfResources",
        pattern=r"out of resource: (?:shared memory|threads|registers|tensor memory)",
        title="A kernel wants more shared memory or threads than the GPU has",
    ),
    Signature(
        "rocm.memory-fault",
        "ROCm's runtime",
        ("memory access fault by gpu",),
        ((Cause.ILLEGAL_MEMORY_ACCESS, 0.55), (Cause.ROCM_MISMATCH, 0.3)),
        "ROCR-Runtime, core/runtime/runtime.cpp: VMFaultHandler",
        title="A kernel on an AMD GPU touched memory that is not its own",
    ),
    Signature(
        "stream.words",
        "programs and tests",
        ("stream",),
        ((Cause.STREAM_RACE, 0.62),),
        "CUDA C++ Programming Guide, Streams; the words of reports",
        pattern=(
            rf"{_SIDE}.{{0,200}}(?:{_WRONG}|\bnot (?:wait|synchroni)\w*|\bbefore .{{0,60}}(?:finish|complet|done|end))"
            rf"|(?:{_WRONG}|\bbefore the copy|\bfrom before).{{0,120}}{_SIDE}"
            r"|\b(?:correct|right|fine|disappears|goes away|passes)\b.{0,60}\b(?:synchronize\(|Stream\.null|wait_event|wait_stream)"
        ),
        level=Level.WARNING,
        requires=("cupy", "cuda", "torch-error", "rocm"),
        title="Work on two streams is not ordered",
        decisive_fact="whether it goes away with CUDA_LAUNCH_BLOCKING=1, or with an event between the streams",
    ),
)
