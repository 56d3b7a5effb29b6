"""Messages of engines and frameworks that find no GPU, were built without one, or need another one."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_DECIDES = "what nvidia-smi says in the same place, and whether the build is one for CUDA"
_NONE_FOUND = (
    (Cause.CPU_ONLY_FRAMEWORK, 0.4),
    (Cause.NO_DRIVER, 0.2),
    (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.1),
    (Cause.CONTAINER_WITHOUT_GPU, 0.06),
)
_ABSENT = (
    Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 30),
    Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 6),
    Modifier("started-without-gpu", Cause.CONTAINER_WITHOUT_GPU, 12),
    Modifier("driver-none", Cause.NO_DRIVER, 10),
    Modifier("smi-table", Cause.CPU_ONLY_FRAMEWORK, 3),
    Modifier("smi-reported-working", Cause.CPU_ONLY_FRAMEWORK, 3),
    Modifier("cpu-torch", Cause.CPU_ONLY_FRAMEWORK, 10),
)


def _attention_weights(values: Mapping[str, str]) -> Weights:
    """An older GPU is below what the program asks for; for a newer one the build has no code."""
    if values.get("age") == "new":
        return ((Cause.NO_KERNEL_IMAGE, 0.7), (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.2))
    return ((Cause.REQUIREMENT_NOT_MET, 0.6), (Cause.NO_KERNEL_IMAGE, 0.25))


SIGNATURES = (
    Signature(
        "engine.cpu-build",
        "llama.cpp, whisper.cpp, Caffe, mmcv",
        (
            *("no usable gpu found", "gpu-layers option will be ignored", "no gpu found", "cpu-only caffe"),
            *("implementation for device cuda", "blas = 0", "blas=0"),
            "is_built()",
        ),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.68), (Cause.NO_DRIVER, 0.1)),
        "llama.cpp, common/arg.cpp and system_info; whisper.cpp: whisper_backend_init_gpu; caffe, common.hpp: NO_GPU; mmcv, pytorch_device_registry.hpp",
        pattern=(
            r"warning: (?:no usable GPU found|not compiled with GPU offload support), --(?:n-)?gpu-layers option will be ignored"
            r"|whisper_backend_init\w*: no GPU found|Cannot use GPU in CPU-only Caffe"
            r"|\w+_impl: implementation for device cuda:\d+ not found"
            r"|\bBLAS ?= ?0\b(?!.{0,200}\bCUDA(?:\.\d)? ?(?:=|:) ?(?:1|ARCHS)\b)(?<!\bCUDA = 1 \| BLAS = 0)|cuda\.is_built\(\)\W{1,8}(?:\w+ )?False"
        ),
        title="The engine is built without CUDA",
        modifiers=(Modifier("driver-none", Cause.NO_DRIVER, 5),),
        requires=("gpu", "cuda", "nvidia-card"),
        decisive_fact=_DECIDES,
    ),
    Signature(
        "engine.none-found",
        "DeepSpeed, XGBoost, Lightning, Keras",
        (
            *("setting accelerator to cpu", "device is changed from gpu to cpu", "no supported gpu backend found"),
            "no visible gpu is found",
        ),
        _NONE_FOUND,
        "deepspeed, accelerator/real_accelerator.py; xgboost, src/context.cc; lightning, accelerators; keras, multi_gpu_utils.py",
        pattern=(
            r"Setting accelerator to CPU\. If you have GPU|Device is changed from GPU to CPU as we couldn't find|No supported gpu backend found"
            r"|No visible GPU is found"
        ),
        level=Level.WARNING,
        title="The framework finds no GPU: a build for the CPU alone, or CUDA did not start",
        modifiers=_ABSENT,
        decisive_fact=_DECIDES,
    ),
    Signature(
        "onnxruntime.cpu-providers",
        "ONNX Runtime",
        ("cpuexecutionprovider",),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.66), (Cause.CUDA_LIBRARY_MISSING, 0.06)),
        "onnxruntime, python/onnxruntime_pybind_state.cc: the providers that this build has; Azure and CPU are those of the build for the CPU",
        pattern=(
            r"get_available_providers\(\)(?!.{0,60}CUDAExecutionProvider).{0,40}\[(?:'AzureExecutionProvider', )?'CPUExecutionProvider'\]"
            r"|'CUDAExecutionProvider' is not in available provider names\. ?Available providers: '(?:AzureExecutionProvider, )?CPUExecutionProvider'"
            r"|^\W*\[(?:'AzureExecutionProvider', )?'CPUExecutionProvider'\]"
        ),
        title="This ONNX Runtime is a build for the CPU, or one installed over the build for the GPU",
        decisive_fact="whether onnxruntime and onnxruntime-gpu are both installed: the two share their files",
    ),
    Signature(
        "jax.cpu-devices",
        "JAX",
        ("cpudevice(id=0)",),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.5), (Cause.NO_DRIVER, 0.1), (Cause.CUDA_INITIALIZATION_FAILED, 0.08)),
        "jax, the representation of its devices",
        pattern=r"jax\.(?:local_)?devices\((?:'gpu'|'cuda')?\)\W{1,12}\[CpuDevice\(id=0\)\]",
        level=Level.WARNING,
        title="JAX has the CPU only: no plug-in for CUDA, or CUDA did not start",
        requires=("nvidia-card", "smi-table", "smi-reported-working"),
        modifiers=_ABSENT,
        decisive_fact="whether pip list shows a plug-in of JAX for CUDA",
    ),
    Signature(
        "program.wants-newer-gpu",
        "vLLM, xformers, TensorRT-LLM, FlashAttention",
        (
            "is only supported on gpus with compute capability",
            "but your gpu has capability",
            "fp8 is not supported on",
            "bf16/gpu",
        ),
        ((Cause.REQUIREMENT_NOT_MET, 0.6), (Cause.NO_KERNEL_IMAGE, 0.2)),
        "vllm, worker.py and platforms/cuda.py: dtypes and quantisations by compute capability; xformers, ops/fmha/common.py",
        pattern=(
            r"(?:Bfloat16|BF16|FP8|FP4|MXFP4|NVFP4|Float8 \w+|\w+ quantization) is only supported on GPUs with compute capability (?:of at least |>=? ?)\d"
            r"|requires device with capability [<>]=? \(\d+, \d\) but your GPU has capability \(\d+, \d\)(?: \(too (?P<age>old|new)\))?"
            r"|FP8 is not supported on (?:this device|GPUs? )|Your setup doesn't support bf16/gpu"
        ),
        title="The GPU is sound, but below what the program asks for",
        weights_fn=_attention_weights,
        decisive_fact="whether the program has a way for this GPU: another data type or another attention",
    ),
    Signature(
        "program.requires-capability",
        "programs, and the entry points of images",
        ("compute capability", "cuda capability"),
        ((Cause.REQUIREMENT_NOT_MET, 0.42), (Cause.GPU_REMOVED_FROM_TOOLKIT, 0.36)),
        "programs that ask for a compute capability and stop",
        pattern=(
            r"\brequires? (?:at least |a )?(?:minimum )?(?:CUDA )?compute capability\b|\bneeds? (?:at least )?(?:a )?(?:CUDA )?compute capability (?:of )?\d"
            r"|\bminimum (?:required )?(?:CUDA )?(?:compute )?capability (?:of |is |required )*\d"
        ),
        title="The GPU is below what the program asks for",
        unless=r":\s*OK\b|\bsatisf(?:ied|ies)\b|\bmeets\b",
        modifiers=(
            Modifier("container", Cause.IMAGE_REQUIRES_OTHER_DRIVER, 25),
            Modifier("older-image-works", Cause.IMAGE_REQUIRES_OTHER_DRIVER, 30),
        ),
        decisive_fact="whether the GPU computes in other programs, and what asks for it: the program, or its image",
    ),
    Signature(
        "program.wants-more-gpus",
        "vLLM, Keras, DeepSpeed, Slurm, torchrun",
        (
            "exceeds the total number of available gpus",
            "we expect the following devices to be available",
            "requested node configuration is not available",
        ),
        ((Cause.REQUIREMENT_NOT_MET, 0.66), (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.08), (Cause.GPU_BUSY, 0.05)),
        "vllm, executor/ray_utils.py; keras, utils/multi_gpu_utils.py; Slurm, slurm_errno.c: ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE",
        pattern=(
            r"number of required GPUs exceeds the total number of available GPUs|To call `multi_gpu_model` with `gpus=\d+`, we expect"
            r"|Requested node configuration is not available.{0,60}gpu|gpu.{0,80}Requested node configuration is not available"
        ),
        title="The job asks for more GPUs than there are",
        decisive_fact="how many GPUs the machine has: nvidia-smi -L, CUDA_VISIBLE_DEVICES",
        modifiers=(
            Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 8),
            Modifier("visible-set", Cause.VISIBLE_DEVICES_HIDE_GPU, 3),
        ),
    ),
    Signature(
        "engine.memory",
        "XGBoost, Theano, PaddlePaddle, torch, RELION, vLLM",
        (
            *("memory allocation error on worker", "of device memory (", "would exceed allowed memory"),
            *(
                "out of memory error on gpu",
                "cudacustomallocator",
                "out of gpu memory",
                "no available memory for the cache",
            ),
        ),
        ((Cause.OUT_OF_MEMORY, 0.74), (Cause.GPU_BUSY, 0.14)),
        "xgboost, common/device_vector.cu: ThrowOOMError; Theano, cuda_ndarray.cu; Paddle, fluid/memory; torch, CUDAMallocAsyncAllocator.cpp; CUDA.jl",
        pattern=(
            r"Memory allocation error on worker \d+:|Error allocating \d+ bytes of device memory|Allocation on device(?: \d+)? would exceed allowed memory"
            r"|Out of memory error on GPU \d+|out of memory in CudaCustomAllocator|Out of GPU memory|No available memory for the cache blocks"
        ),
        title="The requested memory does not fit into what is free on the GPU",
        decisive_fact="how much is free and who holds the rest: nvidia-smi",
    ),
)
