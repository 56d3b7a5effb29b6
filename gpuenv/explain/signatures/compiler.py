"""Messages of NVRTC, nvcc, ptxas, nvJitLink and CuPy's use of them."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_NVRTC = "NVRTC"
_TURING = 75  # the oldest compute capability that CUDA 13 compiles for: an older name was removed from a toolkit
_FIT = (
    Modifier("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 15),
    Modifier("gpu-older", Cause.GPU_REMOVED_FROM_TOOLKIT, 15),
)


def _architecture_weights(values: Mapping[str, str]) -> Weights:
    number = int(values["number"])
    if number < _TURING:  # too old for this compiler, and written into a build
        return ((Cause.BUILD_ARCH_LIST_UNSUPPORTED, 0.75), (Cause.GPU_REMOVED_FROM_TOOLKIT, 0.2))
    return ((Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.58), (Cause.BUILD_ARCH_LIST_UNSUPPORTED, 0.35))


SIGNATURES = (
    Signature(
        "nvrtc.invalid-architecture",
        _NVRTC,
        ("invalid value for --gpu-architecture", "nvrtc_error_invalid_option"),
        ((Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.5), (Cause.GPU_REMOVED_FROM_TOOLKIT, 0.42)),
        "libnvrtc 12 and 13, the strings of the binary; nvrtc.h, nvrtcResult",
        title="NVRTC does not know the architecture of this GPU",
        modifiers=(
            *_FIT,
            Modifier("card-before-turing", Cause.GPU_REMOVED_FROM_TOOLKIT, 3.5),
            Modifier("card-after-ampere", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 3),
            Modifier("toolkit-before-9", Cause.GPU_REMOVED_FROM_TOOLKIT, 0.1),
            Modifier("toolkit-before-9", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 2),
            # From CuPy 8 on the modules are cupy_backends.*, and CuPy caps what it asks NVRTC for by NVRTC's version:
            # a name that NVRTC still refuses is one that it no longer knows.
            Modifier("cupy-8", Cause.GPU_REMOVED_FROM_TOOLKIT, 4),
            Modifier("nvrtc-error-named", Cause.GPU_REMOVED_FROM_TOOLKIT, 1.8),
            Modifier("cuda-13", Cause.GPU_REMOVED_FROM_TOOLKIT, 5),
            # No CUDA that an older CuPy can be built with has dropped more than Fermi and the first Kepler.
            Modifier("old-cupy", Cause.GPU_REMOVED_FROM_TOOLKIT, 0.3),
            Modifier("requested-fermi-kepler", Cause.GPU_REMOVED_FROM_TOOLKIT, 8),
            Modifier("torch-error", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 2.5),
            Modifier("torch-gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 15),
        ),
        decisive_fact="the GPU and NVRTC's version: --assume gpu=NAME, --assume toolkit=VERSION",
    ),
    Signature(
        "nvcc.architecture",
        "nvcc and ptxas",
        (
            "is not defined for option",
            "unsupported gpu architecture",
            "unrecognized option '-arch",
            "unknown cuda arch",
        ),
        ((Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.55), (Cause.BUILD_ARCH_LIST_UNSUPPORTED, 0.35)),
        "nvcc and ptxas, the strings of the binaries; torch/utils/cpp_extension.py",
        pattern=(
            r"(?:Unsupported gpu architecture '|Value ')(?:compute|sm|lto)_(?P<number>\d{2,3})[af]?'"
            r"|Unknown CUDA arch \((?P<dotted>\d{1,2}\.\d)\)"
        ),
        title="The compiler does not know the requested architecture",
        weights_fn=lambda values: _architecture_weights(
            values if "number" in values else {"number": values["dotted"].replace(".", "")}
        ),
        modifiers=(
            *_FIT,
            Modifier("building", Cause.BUILD_ARCH_LIST_UNSUPPORTED, 2.2),
            Modifier("gpu-known", Cause.BUILD_ARCH_LIST_UNSUPPORTED, 0.8),
            Modifier("card-before-turing", Cause.GPU_REMOVED_FROM_TOOLKIT, 8),
            Modifier("card-after-ampere", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 2.5),
            Modifier("arch-listed", Cause.BUILD_ARCH_LIST_UNSUPPORTED, 5),
            Modifier("arch-detected", Cause.BUILD_ARCH_LIST_UNSUPPORTED, 0.15),
        ),
        decisive_fact="nvcc --version, and where the architecture comes from: the GPU, or a list in the build",
    ),
    Signature(
        "cmake.architectures",
        "CMake",
        ("cuda_architectures", "cuda_arch", "arch_list"),
        ((Cause.BUILD_ARCH_LIST_UNSUPPORTED, 0.8),),
        "CMake, Modules/Internal/CMakeCUDAArchitecturesValidate.cmake; torch/utils/cpp_extension.py",
        pattern=(
            r"CUDA_ARCHITECTURES.{0,80}(?:is empty|not supported|invalid|unsupported|must be|not one of)"
            r"|(?:error|invalid|unsupported).{0,80}(?:TORCH_CUDA_ARCH_LIST|CUDA_ARCH_LIST|CMAKE_CUDA_ARCHITECTURES)"
            r"|CUDA_ARCH_LIST.{0,60}(?:not supported|unsupported|unknown|invalid)"
        ),
    ),
    Signature(
        "nvrtc.builtins",
        _NVRTC,
        ("nvrtc-builtins", "failed to load builtins", "builtin_operation_failure", "nvrtc_error unknown (7)"),
        ((Cause.NVRTC_BUILTINS_MISMATCH, 0.86), (Cause.CUDA_LIBRARY_MISSING, 0.08), (Cause.TORCH_CUPY_CONFLICT, 0.03)),
        "libnvrtc, the strings of the binary; nvrtc.h, NVRTC_ERROR_BUILTIN_OPERATION_FAILURE is 7",
        pattern=(
            r"failed to open (?:lib)?nvrtc-builtins|failed to load builtins|NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"
            r"|NVRTC_ERROR unknown \(7\)|(?:lib)?nvrtc-builtins\S* is installed correctly"
            r"|libnvrtc-builtins\S*: cannot open shared object"
        ),
        title="NVRTC does not find the builtins library of its own version",
        modifiers=(
            Modifier("torch-error", Cause.TORCH_CUPY_CONFLICT, 8),
            Modifier("torch-first", Cause.TORCH_CUPY_CONFLICT, 20),
        ),
        decisive_fact="the versions of libnvrtc and libnvrtc-builtins that are loaded: gpuenv doctor",
    ),
    Signature(
        "nvrtc.builtins-loading",
        "callers of NVRTC",
        ("nvrtc-builtins",),
        ((Cause.CUDA_LIBRARY_MISSING, 0.6), (Cause.NVRTC_BUILTINS_MISMATCH, 0.35)),
        "NVRTC for Windows; the loader's messages",
        pattern=r"(?:error|failed|failure) (?:in |while )?loading (?:lib)?nvrtc-builtins|nvrtc-builtins\S* (?:was )?not found",
        title="NVRTC's builtins library is not found",
        decisive_fact="whether the library is installed anywhere: gpuenv doctor",
    ),
    Signature(
        "nvrtc.headers-of-two",
        "NVRTC and nvcc",
        ("cuda_bf16", "cuda_fp16", "__half", "__nv_", "cccl", "cuda compiler and cuda toolkit", "/include/"),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.6), (Cause.CUDA_PATH_WRONG, 0.24), (Cause.CUDA_HEADERS_MISSING, 0.06)),
        "libnvrtc (EDG front end); CCCL, cuda_toolkit.h: version check",
        pattern=(
            r"cuda\S*/include/\S+\.hp?p?\(\d+\): (?:catastrophic )?error|incomplete type \"?__nv_\w+|cuda_(?:bf16|fp16|fp8|fp6|fp4)\.hp?p?\(\d+\): error"
            r"|CUDA compiler and CUDA toolkit headers are incompatible|identifier \"__(?:nv|half|builtin_nv)\w*\" is undefined"
        ),
        title="The compiler and the CUDA headers are of different versions",
        modifiers=(  # what a header declares is undefined where the header is not found
            Modifier("header-not-found", Cause.LIBRARY_PATH_CONFLICT, 0.15),
            Modifier("header-not-found", Cause.CUDA_PATH_WRONG, 0.3),
            Modifier("header-not-found", Cause.CUDA_HEADERS_MISSING, 8),
        ),
        decisive_fact="the folder that the headers come from, and NVRTC's version: gpuenv doctor",
    ),
    Signature(
        "jitify.failed",
        "CuPy",
        ("jitifyexception", "jitify fatal error"),
        (
            (Cause.NVRTC_BUILTINS_MISMATCH, 0.36),
            (Cause.CUDA_HEADERS_MISSING, 0.28),
            (Cause.LIBRARY_PATH_CONFLICT, 0.2),
        ),
        "CuPy, cupy/cuda/compiler.py and jitify.hpp",
        title="CuPy's preprocessing of a kernel (Jitify) failed",
        decisive_fact="the lines after it: a header that is not found, or NVRTC's own complaint",
    ),
    Signature(
        "cupy.nvrtc-compilation",
        "CuPy",
        ("nvrtc_error_compilation",),
        ((Cause.CUDA_HEADERS_MISSING, 0.28), (Cause.LIBRARY_PATH_CONFLICT, 0.22), (Cause.CUPY_BUG, 0.08)),
        "nvrtc.h, NVRTC_ERROR_COMPILATION; CuPy documentation, Installation: CuPy always raises NVRTC_ERROR_COMPILATION (6)",
        title="NVRTC could not compile a kernel",
        modifiers=(
            Modifier("user-kernel", Cause.LIBRARY_PATH_CONFLICT, 0.4),
            Modifier("user-kernel", Cause.CUDA_HEADERS_MISSING, 0.5),
        ),
        decisive_fact="the compiler's messages after it",
    ),
    Signature(
        "ptxas.error",
        "ptxas and nvJitLink",
        ("ptxas", "nvjitlink_error", "nvjitlinkerror", "culinkadddata", "culinkcomplete"),
        ((Cause.NVRTC_OUTPUT_INVALID, 0.5), (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.15)),
        "ptxas and libnvJitLink, the strings of the binaries; cuda.h, cuLink*",
        pattern=(
            r"ptxas (?:application )?ptx input, line \d+; (?:error|fatal)|ptxas (?:fatal|error)\s*: (?!\s*Value|.*version)"
            r"|NVJITLINK_ERROR_(?:PTX_COMPILE|INTERNAL|INVALID_INPUT|UNRECOGNIZED_OPTION)|nvJitLinkError|cuLink(?:AddData|Complete|AddFile)\S* .*CUDA_ERROR_(?:INVALID|NO_BINARY)"
        ),
        title="The linker rejects the code that the compiler made",
        modifiers=(Modifier("driver-older", Cause.DRIVER_TOO_OLD_FOR_CUDA, 5),),
        decisive_fact="the versions of NVRTC, nvJitLink and the driver: gpuenv doctor",
    ),
    Signature(
        "hiprtc.error",
        "HIPRTC",
        ("hiprtc_error", "hipcc", "hipmoduleload", "supported in hip", "supported on rocm"),
        ((Cause.ROCM_MISMATCH, 0.8),),
        "CuPy, cupy_backends/cuda/libs/nvrtc.pyx built for ROCm; hiprtc.h, hiprtcResult",
        pattern=r"HIPRTC_ERROR_\w+|hipcc(?! +command).*(?:not found|failed|error|does not generate)|could not find any hipcc|not (?:yet )?supported (?:in HIP|on ROCm)",
        level=Level.ERROR,
    ),
    Signature(
        "nvvm.missing",
        "numba, XLA and TensorFlow",
        ("libnvvm", "libdevice", "nvvm"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.55), (Cause.CUDA_PATH_WRONG, 0.35)),
        "numba/cuda/cudadrv/nvvm.py; XLA, llvm_gpu_backend/nvptx_libdevice_path.cc",
        pattern=(
            r"(?:libNVVM|libdevice) cannot be found|Missing libdevice|can't find libdevice|libdevice(?:\S*)? (?:is |was )?(?:not found|required)"
            r"|NvvmSupportError|could not find libdevice|nvvm/libdevice.*not found"
        ),
        title="libNVVM or libdevice, parts of the CUDA toolkit, are not found",
    ),
    Signature(
        "nvrtc.program-creation",
        "NVRTC",
        ("nvrtc_error_program_creation_failure", "nvrtc_error_out_of_memory"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.25), (Cause.NVRTC_BUILTINS_MISMATCH, 0.25)),
        "nvrtc.h, nvrtcResult",
        pattern=r"NVRTC_ERROR_(?:PROGRAM_CREATION_FAILURE|(?P<memory>OUT_OF_MEMORY))",
        weights_fn=lambda values: (
            ((Cause.OUT_OF_MEMORY, 0.7),)
            if "memory" in values
            else ((Cause.CUDA_LIBRARY_MISSING, 0.25), (Cause.NVRTC_BUILTINS_MISMATCH, 0.25))
        ),
        decisive_fact="the versions of the NVRTC libraries that are loaded: gpuenv doctor",
    ),
    Signature(
        "cupy.sm-guard",
        "CUDA's headers, in a kernel of CuPy's own",
        ("only supported for sm_", "requires sm_", "only supported on sm_"),
        ((Cause.CUPY_BUG, 0.4), (Cause.GPU_REMOVED_FROM_TOOLKIT, 0.3)),
        "CCCL, cuda/barrier and cuda/pipeline: guards on __CUDA_ARCH__",
        pattern=r"(?:CUDA|cuda)\b.{0,60}(?:only supported (?:for|on)|requires) sm_\d\d",
        title="A header that a kernel includes is for newer GPUs alone",
        requires=("cupy",),
        decisive_fact="whether the kernel is CuPy's own or the program's",
    ),
)
