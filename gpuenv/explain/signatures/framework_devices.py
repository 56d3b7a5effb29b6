"""Messages of torch, Chainer, TensorFlow and JAX about host and device, two GPUs and types that do not agree."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.model.causes import Cause

_ATEN = "torch 0.4 to 2.11, aten/src/ATen"

SIGNATURES = (
    Signature(
        "torch.host-and-device",
        "torch",
        (
            *(
                "expected object of ",
                "and weight type",
                "expected device c",
                "indices should be either on cpu",
                "cannot pin 'torch.cuda",
            ),
            *("but found one of them on device: cpu", "but got device cpu"),
        ),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.84), (Cause.CROSS_DEVICE_ARRAY, 0.04)),
        f"{_ATEN}: TensorUtils.cpp, TensorAdvancedIndexing.cpp and native/Memory.cpp; torch/nn/parallel",
        pattern=(
            r"Expected object of (?:backend|device type) (?P<one>CPU|CUDA) but got (?:backend|device type) (?!(?P=one))(?:CPU|CUDA)"
            r"|Input type \((?:torch\.(?!cuda)\w+\) and weight type \(torch\.cuda\.|torch\.cuda\.\w+\) and weight type \(torch\.(?!cuda))"
            r"|Expected object of type (?:torch\.cuda\.\w+ but found type torch\.(?!cuda)|torch\.(?!cuda)\w+ but found type torch\.cuda)"
            r"|expected device (?:cuda:\d+ but got device cpu|cpu but got device cuda)|indices should be either on cpu or on the same device as the indexed"
            r"|cannot pin 'torch\.cuda\.\w+' only dense CPU|on device cuda:\d+ \(device_ids\[0\]\) but found one of them on device: cpu"
        ),
        title="Tensors of the host and of the GPU meet in one operation",
    ),
    Signature(
        "torch.two-devices",
        "torch",
        ("but found one of them on device: cuda", "indices must be on the current device", "but got device cuda"),
        ((Cause.CROSS_DEVICE_ARRAY, 0.8), (Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.08)),
        f"{_ATEN}: TensorUtils.cpp; native/cuda/Embedding.cu; torch/nn/parallel/data_parallel.py",
        pattern=(
            r"on device cuda:\d+ \(device_ids\[0\]\) but found one of them on device: cuda|Input, output and indices must be on the current device"
            r"|expected device cuda:\d+ but got device cuda:\d"
        ),
        title="Tensors of two GPUs meet in one operation",
    ),
    Signature(
        "torch.types-apart",
        "torch, Chainer",
        (
            "but expected float",
            "but expected double",
            "but expected half",
            "but expected long",
            "not implemented for '",
            "expect: ",
        ),
        ((Cause.DTYPE_MISMATCH, 0.7), (Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.04)),
        f"{_ATEN}: TypeProperties.h and Dispatch.h; chainer, utils/type_check.py",
        pattern=(
            r"Found dtype \w+ but expected (?:Float|Double|Half|Long|BFloat16|Int)|\"\w+\" not implemented for '(?:Half|BFloat16|Float|Double|Long|Int|Char|Byte|Bool|ComplexFloat|ComplexHalf|Float8_\w+)'"
            r"|Expect: [\w.\[\]]{1,60}dtype(?:\.kind)? [=!]= \S{1,40} Actual: "
        ),
        title="The operation does not take tensors of this type",
        modifiers=(Modifier("cpu-torch", Cause.CPU_ONLY_FRAMEWORK, 10),),
        decisive_fact="the types of the tensors, and whether they are on the GPU",
    ),
    Signature(
        "tf.no-such-device",
        "TensorFlow, JAX",
        (
            "was explicitly assigned to",
            "requested, but no platforms",
            "unknown backend: 'gpu'",
            "unknown backend: 'cuda'",
        ),
        (
            (Cause.CPU_ONLY_FRAMEWORK, 0.42),
            (Cause.NO_DRIVER, 0.16),
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.12),
            (Cause.CONTAINER_WITHOUT_GPU, 0.06),
        ),
        "tensorflow, core/common_runtime/placer.cc; jax/_src/xla_bridge.py: backends",
        pattern=(
            r"was explicitly assigned to \S*/?device:GPU:\d\S* but available devices are \[(?![^\]]*GPU)"
            r"|Unknown backend:? '?(?:gpu|cuda)'?.{0,40}requested, but no platforms that are instances of|Unknown backend: '(?:gpu|cuda)'"
        ),
        title="The framework has no GPU: a build for the CPU alone, or CUDA did not start",
        modifiers=(
            Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 30),
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8),
            Modifier("cpu-torch", Cause.CPU_ONLY_FRAMEWORK, 10),
            Modifier("driver-none", Cause.NO_DRIVER, 12),
        ),
        decisive_fact="what pip list shows of the framework, and what nvidia-smi says in the same shell",
    ),
    Signature(
        "tf.sync-failed",
        "TensorFlow",
        ("gpu sync failed",),
        ((Cause.ASYNC_ERROR_SURFACED_LATE, 0.5), (Cause.OUT_OF_MEMORY, 0.16), (Cause.ILLEGAL_MEMORY_ACCESS, 0.15)),
        "tensorflow, core/common_runtime/gpu/gpu_util.cc",
        pattern=r"(?:InternalError|INTERNAL|Error)\b.{0,40}: GPU sync failed",
        title="A kernel that was launched earlier failed",
        asynchronous=True,
        decisive_fact="the first CUDA error in the log, and whether it comes with CUDA_LAUNCH_BLOCKING=1 too",
    ),
    Signature(
        "tf.no-room",
        "TensorFlow, vLLM, accelerate",
        (
            *("dst tensor is not initialized", "can be stored in kv cache", "you have enough gpu ram"),
            "kv cache is needed",
        ),
        ((Cause.OUT_OF_MEMORY, 0.76), (Cause.GPU_BUSY, 0.1)),
        "tensorflow, gpu_util.cc; vllm, worker and v1/core/kv_cache_utils.py; transformers, quantizers",
        pattern=(
            r"Dst tensor is not initialized|larger than the maximum number of tokens that can be stored in KV cache|Make sure you have enough GPU RAM to fit"
            r"|KV cache is needed, which is larger than the available KV cache memory"
        ),
        title="The model does not fit into what is free on the GPU",
        decisive_fact="how much is free and who holds the rest: nvidia-smi",
    ),
)
