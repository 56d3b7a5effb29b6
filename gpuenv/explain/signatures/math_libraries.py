"""Status names of the CUDA math and communication libraries, and their own messages."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_MATH = "cuBLAS, cuSOLVER, cuSPARSE, cuDNN, cuRAND, cuTENSOR"
_NCCL_ANY: Weights = ((Cause.CUDA_INITIALIZATION_FAILED, 0.25), (Cause.LIBRARY_PATH_CONFLICT, 0.2))
# By the end of the status' name, in which CuPy's spelling and NCCL's own agree.
_NCCL: Mapping[str, Weights] = {
    "invalidusage": ((Cause.INVALID_DEVICE_ORDINAL, 0.36), (Cause.CROSS_DEVICE_ARRAY, 0.3)),
    "systemerror": ((Cause.DEVICE_NODE_PERMISSION, 0.2), (Cause.CUDA_INITIALIZATION_FAILED, 0.2)),
    "edcudaerror": ((Cause.ASYNC_ERROR_SURFACED_LATE, 0.25), (Cause.CUDA_INITIALIZATION_FAILED, 0.2)),
}


def _cufft_weights(values: Mapping[str, str]) -> Weights:
    """The internal error of cuFFT is also what a GPU gets that is newer than the library."""
    if "internal" in values:
        return ((Cause.CUFFT_PLAN_FAILURE, 0.66), (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.14), (Cause.OUT_OF_MEMORY, 0.1))
    return ((Cause.CUFFT_PLAN_FAILURE, 0.84), (Cause.OUT_OF_MEMORY, 0.06))


SIGNATURES = (
    Signature(
        "library.not-initialized",
        _MATH,
        (
            "status_not_initialized",
            "curand_status_initialization_failed",
            "create cublas handle",
            "status_success (1 vs",
            "handle failed",
            "create cudnn handle",
            "dnn library initialization failed",
            "cudnn failed to initialize",
            *("dncreate(", "cublascreate(", "cusparsecreate(", "cudnncreate(", "curandcreate"),
            *("create cusolver", "create cublas", "create cusparse", "create cudnn"),
        ),
        ((Cause.LIBRARY_NOT_INITIALIZED, 0.76), (Cause.OUT_OF_MEMORY, 0.1), (Cause.LIBRARY_PATH_CONFLICT, 0.07)),
        "cublas_api.h, cusolver_common.h, cusparse.h, cudnn.h, curand.h: status enumerators",
        pattern=(
            r"CU\w+_STATUS_NOT_INITIALIZED|CURAND_STATUS_INITIALIZATION_FAILED|DNN library initialization failed|cuDNN failed to initialize|(?:failed to|could not|cannot) create (?:cublas|cudnn|cusolver|cusparse) ?\w* ?(?:handle|instance|context)(?!\W{1,3}CU\w+_STATUS_ALLOC_FAILED)"
            r"|Check failed: cu(?:blas|dnn|sparse|solver\w{2}|rand)Create\w*\("
            r"|Create (?:cublas|cudnn|cusolver|cusparse) ?\w* ?handle failed|CU\w+_STATUS_SUCCESS \(1 vs\.? 0\)"
        ),
        title="A CUDA library could not create its handle",
        decisive_fact="how much memory of the GPU is free: nvidia-smi",
    ),
    Signature(
        "tf.blas-launch",
        "TensorFlow",
        ("blas gemm", "blas xgemm", "blas sgemm", "blas gemv"),
        ((Cause.OUT_OF_MEMORY, 0.4), (Cause.LIBRARY_NOT_INITIALIZED, 0.36), (Cause.LIBRARY_PATH_CONFLICT, 0.1)),
        "TensorFlow, core/kernels/matmul_op.cc",
        pattern=r"Blas \w*GEM\w+ launch failed",
        title="cuBLAS could not run a product: it has no handle, or no memory for one",
        decisive_fact="how much memory of the GPU is free: nvidia-smi",
    ),
    Signature(
        "library.alloc-failed",
        _MATH,
        ("status_alloc_failed", "status_allocation_failed"),
        ((Cause.OUT_OF_MEMORY, 0.72), (Cause.LIBRARY_NOT_INITIALIZED, 0.15)),
        "cublas_api.h, cusolver_common.h, cusparse.h: status enumerators",
        title="A CUDA library could not allocate memory on the GPU",
        modifiers=(
            Modifier("handle-creation", Cause.LIBRARY_NOT_INITIALIZED, 2),
            Modifier("any-size", Cause.LIBRARY_NOT_INITIALIZED, 6),  # the handle's own memory is what is not free
        ),
    ),
    Signature(
        "library.arch-mismatch",
        _MATH,
        ("status_arch_mismatch",),
        ((Cause.NO_KERNEL_IMAGE, 0.5), (Cause.GPU_REMOVED_FROM_TOOLKIT, 0.3)),
        "cublas_api.h, cusolver_common.h, cusparse.h, cudnn.h: status enumerators",
        title="A CUDA library does not support this GPU",
        decisive_fact="the GPU's compute capability and the library's CUDA version",
    ),
    Signature(
        "library.execution-failed",
        _MATH,
        (
            *("status_execution_failed", "cublas_status_internal_error", "cublas_status_mapping_error"),
            *("curand_status_preexisting_failure", "curand_status_launch_failure"),
        ),
        (
            (Cause.ASYNC_ERROR_SURFACED_LATE, 0.42),
            (Cause.ILLEGAL_MEMORY_ACCESS, 0.2),
            (Cause.LIBRARY_PATH_CONFLICT, 0.12),
        ),
        "cublas_api.h, cudnn.h: status enumerators",
        title="A library's call reports the failure of a kernel, its own or an earlier one",
        asynchronous=True,
        decisive_fact="which kernel it is: run once more with CUDA_LAUNCH_BLOCKING=1",
    ),
    Signature(
        "library.invalid-value",
        "cuBLAS, called by torch",
        ("cublas_status_invalid_value", "cublas_status_not_supported"),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.45), (Cause.DTYPE_MISMATCH, 0.12)),
        "cublas_api.h: status enumerators; torch, aten/src/ATen/cuda/CUDABlas.cpp",
        title="cuBLAS refused a call: a library of another version may have been found first",
        decisive_fact="which libcublas is loaded: gpuenv doctor; unset LD_LIBRARY_PATH and try again",
    ),
    Signature(
        "cufft.failed",
        "cuFFT",
        (
            "cufft_",
            "cufftplan",
            "cufft error",
            "cufft plan",
            "cufft batched",
            "cufftmakeplan",
            "cufftexec",
            "cufftcreate",
            "not match the plan",
        ),
        ((Cause.CUFFT_PLAN_FAILURE, 0.84), (Cause.OUT_OF_MEMORY, 0.06)),
        "cufft.h: cufftResult; CuPy, cupy.cuda.cufft.CuFFTError",
        pattern=(
            r"(?:cufft error:? )?(?P<internal>CUFFT_INTERNAL_ERROR)|CUFFT_(?:ALLOC_FAILED|SETUP_FAILED|INVALID_SIZE|INVALID_PLAN|EXEC_FAILED|INVALID_VALUE|NO_WORKSPACE"
            r"|NOT_IMPLEMENTED|NOT_SUPPORTED|PARSE_ERROR|LICENSE_ERROR|INVALID_TYPE|INVALID_DEVICE|MISSING_DEPENDENCY|NVRTC_FAILURE|NVJITLINK_FAILURE)"
            r"|cuFFT plan and a\.shape do not match|(?:array|Batch) size does not match the plan|cuFFT plan could not be created"
            r"|cufft(?:Plan|MakePlan|Create|Exec|XtMakePlan)\w*\b.{0,120}(?:\([1-9]\d? vs\. 0\)|fail|error|returned [1-9])"
            r"|(?:failed to (?:create|make|initialize)|could not create) (?:a )?(?:batched )?cufft ?\w* ?plan|cuFFT error: "
        ),
        title="cuFFT could not make or run a plan",
        weights_fn=_cufft_weights,
        modifiers=(
            Modifier("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 40),
            Modifier("torch-gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 40),
            Modifier("gpu-newer", Cause.CUFFT_PLAN_FAILURE, 0.3),
            Modifier("torch-gpu-newer", Cause.CUFFT_PLAN_FAILURE, 0.3),
        ),
        decisive_fact="the GPU and the CUDA of cuFFT, the size of the transform, and how much memory of the GPU is free",
    ),
    Signature(
        "cusparse.context",
        "cuSPARSE",
        ("on entry to cusparse", "on entry to cublas"),
        ((Cause.TORCH_CUPY_CONFLICT, 0.45), (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.3), (Cause.LIBRARY_PATH_CONFLICT, 0.15)),
        "libcusparse, the strings of the binary",
        pattern=r"On entry to cu(?:sparse|blas)\w*\(\): CUDA context cannot be initialized",
        title="The cuSPARSE that was loaded cannot use this driver: it is of another CUDA",
        modifiers=(
            Modifier("torch-cuda-differs", Cause.TORCH_CUPY_CONFLICT, 8),
            Modifier("cuda-major-differs", Cause.TORCH_CUPY_CONFLICT, 4),
        ),
        decisive_fact="the CUDA packages in the environment: pip list shows nvidia-* of two CUDA majors",
    ),
    Signature(
        "cudnn.versions",
        "TensorFlow, torch, JAX",
        ("cudnn", "cublas", "cusparse", "cufft", "cusolver", "cupti", "outdated cuda"),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.85),),
        "xla/stream_executor/cuda/cuda_dnn.cc; torch/backends/cudnn/__init__.py; jax/_src/xla_bridge.py",
        pattern=(
            r"Loaded runtime CuDNN library: \S+ but source was compiled with|cuDNN version incompatibility"
            r"|(?:found|outdated) (?:cuDNN|cuBLAS|cuFFT|cuSPARSE|cuSOLVER|CUDA) (?:installation|version) .{0,60}(?:but|however).{0,60}(?:built|compiled|found)"
            r"|Outdated (?:cuDNN|cuBLAS|cuFFT|cuSPARSE|cuSOLVER|cuPTI|CUDA) installation\b"
        ),
        title="Another version of a CUDA library is found before the one that the program was built with",
    ),
    Signature(
        "jax.unable-to-load",
        "JAX",
        ("unable to load cu",),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.5), (Cause.CUDA_LIBRARY_MISSING, 0.45)),
        "jax/_src/xla_bridge.py: _version_check",
        pattern=r"Unable to load (?:cuPTI|(?P<optional>cuDNN)|cuBLAS|cuFFT|cuSPARSE|cuSOLVER|CUDA)\. Is it installed",
        weights_fn=lambda values: (
            ((Cause.OPTIONAL_LIBRARY_MISSING, 0.5), (Cause.LIBRARY_PATH_CONFLICT, 0.42))
            if "optional" in values
            else ((Cause.LIBRARY_PATH_CONFLICT, 0.5), (Cause.CUDA_LIBRARY_MISSING, 0.45))
        ),
        title="JAX could not load a CUDA library",
        evidence="jax-library",
        modifiers=(Modifier("ld-library-path", Cause.LIBRARY_PATH_CONFLICT, 4),),
        decisive_fact="whether it works with LD_LIBRARY_PATH unset",
    ),
    Signature(
        "optional.not-available",
        "CuPy and programs",
        ("nccl", "cudnn", "cutensor", "cusparselt", "cupyx.cutensor"),
        ((Cause.OPTIONAL_LIBRARY_MISSING, 0.74), (Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.12)),
        "CuPy, cupy/_environment.py, cupy.cuda.nccl, cupyx.cutensor; cupy_backends/cuda/libs",
        pattern=(
            r"(?:NCCL|cuDNN|cuTENSOR|cuSPARSELt) (?:is not|isn't|not) (?:available|installed|found|supported|enabled|configured)"
            r"|No module named '(?:cupyx\.cutensor|cupy_backends\.cuda\.libs\.(?:nccl|cudnn|cutensor|cusparselt)|cupy\.cuda\.(?:nccl|cudnn|cutensor)|cupy\.cudnn)'"
            r"|cannot import name '(?:nccl|cudnn|cutensor)' from 'cupy|(?:nccl|cudnn|cutensor|cusparselt) library (?:was |is )?not (?:found|installed|available)"
            r"|CuPy (?:is|was) not (?:built|configured|compiled) with (?:NCCL|cuDNN|cuTENSOR)|module 'cupy\.cuda(?:\.nccl)?' has no attribute '(?:nccl|cudnn|NcclCommunicator|cutensor)'"
            r"|(?:could not find|cannot find|failed to find|unable to find) (?:NCCL|cuDNN|cuTENSOR|cuSPARSELt)\b"
        ),
        title="A requested optional CUDA library is missing",
        modifiers=(Modifier("warning-unwanted", Cause.OPTIONAL_LIBRARY_PROBE_MISREAD, 60),),
    ),
    Signature(
        "optional.preload-warning",
        "CuPy",
        ("library could not be loaded",),
        ((Cause.OPTIONAL_LIBRARY_MISSING, 0.62), (Cause.OPTIONAL_LIBRARY_PROBE_MISREAD, 0.3)),
        "CuPy 13 and 14, cupy/_environment.py: _preload_warning",
        pattern=r"(?P<library>cuTENSOR|NCCL|cuDNN|cutensor|nccl|cudnn|cusparselt) library could not be loaded",
        title="CuPy could not load the optional library {library}",
        level=Level.WARNING,
        decisive_fact="whether the program uses {library}; if not, the warning is harmless",
    ),
    Signature(
        "tf.optional",
        "TensorFlow",
        ("tf-trt warning", "libnvinfer", "unable to register cu"),
        ((Cause.OPTIONAL_LIBRARY_PROBE_MISREAD, 0.6),),
        "TensorFlow, tf2tensorrt/utils/py_utils.cc and dso_loader.cc; xla/stream_executor: plugin registry",
        pattern=(
            r"TF-TRT Warning: (?:Could|Cannot) (?:not )?(?:find|dlopen) (?:some )?TensorRT|Could not load dynamic library 'libnvinfer"
            r"|Unable to register cu(?:DNN|FFT|BLAS) factory: Attempting to register factory for plugin"
        ),
        level=Level.WARNING,
        title="The message is about an optional library or a second registration, and is harmless",
    ),
    Signature(
        "cudnn.sublibrary",
        "cuDNN",
        ("version_mismatch",),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.82),),
        "cudnn.h: status enumerators",
        pattern=r"CUDNN_STATUS_(?:SUBLIBRARY_)?VERSION_MISMATCH",
        title="Parts of cuDNN are of different versions",
    ),
    Signature(
        "library.internal-error",
        "cuDNN, cuSOLVER, cuSPARSE",
        (
            *("cudnn_status_internal_error", "cusolver_status_internal_error", "status_insufficient_resources"),
            *("cusparse_status_internal_error", "curand_status_internal_error", "cutensor_status_internal_error"),
            *("cublaslt_status_internal_error",),
        ),
        ((Cause.OUT_OF_MEMORY, 0.36), (Cause.LIBRARY_NOT_INITIALIZED, 0.3), (Cause.LIBRARY_PATH_CONFLICT, 0.12)),
        "cudnn.h, cusolver_common.h, cusparse.h: status enumerators",
        title="A CUDA library failed inside",
        modifiers=(Modifier("handle-creation", Cause.LIBRARY_NOT_INITIALIZED, 4),),
        decisive_fact="how much memory of the GPU is free: nvidia-smi",
    ),
    Signature(
        "nccl.version",
        "NCCL",
        ("nccl",),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.72),),
        "libnccl, the strings of the binary",
        pattern=(
            r"Mismatched NCCL version detected|NCCL library is (?:too old|not backwards compatible)|(?<!libtorch_cuda.so: )undefined symbol:? nccl(?-i:[A-Z])\w+"
            r"|NCCL version mismatch"
        ),
        title="Another NCCL is loaded than the one that the program was built with",
    ),
    Signature(
        "nccl.status",
        "NCCL",
        ("nccl_error_", "ncclunhandledcudaerror", "ncclsystemerror", "ncclinternalerror", "ncclinvalidusage"),
        ((Cause.CUDA_INITIALIZATION_FAILED, 0.25), (Cause.LIBRARY_PATH_CONFLICT, 0.15)),
        "nccl.h, ncclResult_t; CuPy, cupy_backends/cuda/libs/nccl.pyx",
        pattern=(
            r"(?P<status>NCCL_ERROR_(?:UNHANDLED_CUDA_ERROR|SYSTEM_ERROR|INTERNAL_ERROR|INVALID_USAGE)"
            r"|nccl(?:UnhandledCudaError|SystemError|InternalError|InvalidUsage))"
        ),
        title="NCCL gave up: its own log says why",
        weights_fn=lambda values: next(
            (weights for end, weights in _NCCL.items() if values["status"].replace("_", "").lower().endswith(end)),
            _NCCL_ANY,
        ),
        decisive_fact="the lines of NCCL_DEBUG=INFO before it",
    ),
    Signature(
        "torch.symbol",
        "the dynamic loader, of torch's libraries",
        ("libtorch",),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.62), (Cause.TORCH_CUPY_CONFLICT, 0.25)),
        "glibc, elf/dl-lookup.c; torch finds a CUDA library that another package has loaded before",
        pattern=r"libtorch\w*\.so\S*: undefined symbol: (?:nccl|cuda[A-Z]|cublas|cusparse|cudnn|nvrtc)",
        title="torch meets another version of a CUDA library, which was loaded before it",
        modifiers=(Modifier("cupy", Cause.TORCH_CUPY_CONFLICT, 12), Modifier("cupy", Cause.LIBRARY_PATH_CONFLICT, 0.4)),
        decisive_fact="whether importing torch first helps",
    ),
)
