"""Messages of code loaders and linkers: the driver's own compiler, Windows, and programs that open libraries."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.explain.signatures.loader import TOOLKIT
from gpuenv.model.causes import Cause

_DLL = r"(?:cublas|cublasLt|cufft|curand|cusolver|cusparse|nvrtc|cudart|cudnn\w{0,40}?|nvJitLink)64_\w{1,12}\.dll"
_WINDOWS = ((Cause.WINDOWS_DLL_LOAD_FAILURE, 0.62), (Cause.CUDA_LIBRARY_MISSING, 0.2))

SIGNATURES = (
    Signature(
        "windows.depends-on",
        "ONNX Runtime, Windows's own loader, .NET",
        ("which depends on", "loadlibrary", "error 126", "error code is 126", "error code 126", "dllnotfoundexception"),
        _WINDOWS,
        "onnxruntime, core/session/provider_bridge_ort.cc: Error loading, which depends on; Paddle, dynamic_loader.cc; .NET",
        pattern=(
            rf"which depends on \"?\S{{1,80}}\.dll\"? which is missing|DllNotFoundException: .{{0,60}}{_DLL}"
            rf"|LoadLibrary\w{{0,3}}(?:\([^()]{{1,120}}\))? (?:failed|error)[^\n]{{0,30}}\b126\b|\.dll\b.{{0,60}}\(?(?:with )?[Ee]rror:? (?:code (?:is )?)?126\b|third-party dynamic library \((?!cudnn)\w+\.dll\).{{0,80}}error code is 126"
        ),
        title="A DLL that another one depends on is not found",
        requires=("cuda", "cupy", "torch-error"),
        decisive_fact="which of the DLLs it depends on is not found: PATH, and the folders beside it",
    ),
    Signature(
        "rust.dynamic-names",
        "cudarc",
        ("unable to dynamically load the",),
        ((Cause.CUDA_LIBRARY_MISSING, 0.6), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.04)),
        "cudarc, src/lib.rs: panic_no_lib_found",
        pattern=r"Unable to dynamically load the \"(?:nvrtc|cublas\w{0,2}|cudart|cufft|curand|cusolver|cusparse)\" shared library",
        title="A program does not find a CUDA library",
        modifiers=(Modifier("windows", Cause.WINDOWS_DLL_LOAD_FAILURE, 30),),
        decisive_fact="the CUDA that is installed, and where it is searched",
    ),
    Signature(
        "hashcat.no-nvrtc",
        "hashcat",
        ("cuda sdk toolkit not installed", "failed to initialize nvidia rtc library"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.74), (Cause.CUDA_PATH_WRONG, 0.08)),
        "hashcat, src/backend.c: no NVRTC was found",
        title="The CUDA toolkit's NVRTC is not found",
    ),
    Signature(
        "executable.short",
        "ld.so",
        ("error while loading shared libraries: lib",),
        ((Cause.CUDA_LIBRARY_MISSING, 0.8), (Cause.LIBRARY_PATH_CONFLICT, 0.05)),
        "glibc, elf/rtld.c, cut off behind the name: of a program's own library",
        pattern=rf"error while loading shared libraries: lib(?P<library>{TOOLKIT})\.so[.\d]*(?![\w.])(?!: cannot open shared)",
        title="lib{library} is not found",
        modifiers=(Modifier("jetson", Cause.JETSON_TEGRA, 60),),
        decisive_fact="the CUDA that is installed, and where it is searched",
    ),
    Signature(
        "executable.short-optional",
        "ld.so",
        ("error while loading shared libraries: lib",),
        ((Cause.OPTIONAL_LIBRARY_MISSING, 0.8),),
        "glibc, elf/rtld.c, cut off behind the name",
        pattern=r"error while loading shared libraries: lib(?P<library>cudnn\w*|nccl|cutensor\w*|cusparseLt)\.so[.\d]*(?![\w.])(?!: cannot open shared)",
        title="lib{library} is not found",
    ),
    Signature(
        "paddle.dynamic-library",
        "PaddlePaddle, XLA, Torch 7, quantum simulators",
        (
            *(
                "that paddle depends on is not configured",
                "cannot load cudnn shared library",
                "dnn library is not found",
            ),
            *(
                "dnn library not found",
                "not found in library path",
                "failed to open libcutensor",
                "failed to open libcustatevec",
            ),
            "cudnn support libraries",
        ),
        ((Cause.OPTIONAL_LIBRARY_MISSING, 0.76), (Cause.LIBRARY_PATH_CONFLICT, 0.08)),
        "Paddle, phi/backends/dynload/dynamic_loader.cc; XLA, dnn.cc: DNN library is not found; cudnn.torch, ffi.lua",
        pattern=(
            r"third-party dynamic library \((?:lib)?(?:cudnn|nccl|cutensor|cusparseLt)\w*\.\w+\) that Paddle depends on is not configured correctly|Cannot load cudnn shared library"
            r"|DNN library (?:is )?not found|\blibcudnn \(R\d\) not found in library path|Failed to open libcu(?:tensor|statevec)\w*\.so"
            r"|cuDNN support libraries (?:are )?not installed"
        ),
        title="An optional CUDA library is not found",
    ),
    Signature(
        "driver.jit-log",
        "the driver's compiler of PTX, nvlink and OptiX",
        (
            *("unresolved extern function", "failed to parse input ptx string", "invalid ptx input", "ptx2llvm-module"),
            *("binary format for key=", "undefined reference to '"),
            *(),
        ),
        ((Cause.NVRTC_OUTPUT_INVALID, 0.7), (Cause.CUPY_BUG, 0.06)),
        "libnvidia-ptxjitcompiler, nvlink and libnvoptix, the strings of the binaries; triton, backends/nvidia/compiler.py: PTXASError",
        pattern=(
            r"[Uu]nresolved extern function '|Failed to parse input PTX string|Invalid PTX input: |Binary format for key='.{0,20}', ident='.{0,80}' is not recogni[sz]ed"
            r"|(?:cuLink\w+|nvlink|error ?:).{0,40}Undefined reference to '\w+' in '"
        ),
        title="The linker or the assembler of the driver rejects the code",
        modifiers=(Modifier("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 8),),
        decisive_fact="what the log of the link says, and the versions of the compiler and of the driver",
    ),
    Signature(
        "triton.ptxas",
        "Triton",
        ("failed with error code", "internal triton ptx codegen"),
        ((Cause.NVRTC_OUTPUT_INVALID, 0.42), (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.25)),
        "triton, backends/nvidia/compiler.py: PTXASError",
        pattern=r"`?ptxas`? failed with error code \d|Internal Triton PTX codegen error",
        level=Level.WARNING,
        title="Triton's ptxas rejects the code",
        modifiers=(Modifier("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 8),),
        decisive_fact="what ptxas printed: an unknown architecture, or an error in a line",
    ),
    Signature(
        "nvrtc.builtins-words",
        "programs that use NVRTC",
        ("nvrtc-builtins", "builtin operation failure", "builtins library"),
        ((Cause.NVRTC_BUILTINS_MISMATCH, 0.78), (Cause.CUDA_LIBRARY_MISSING, 0.1)),
        "libnvrtc, nvrtcGetErrorString: NVRTC_ERROR_BUILTIN_OPERATION_FAILURE; the loaders of programs",
        pattern=(
            r"\bnvrtc-builtins\w*(?:\.dll|\.so[.\d]*)?\b.{0,60}\b(?:(?:could|can|was|is)(?:n't| not) (?:be )?(?:found|loaded|opened)|error 126|not found|fail\w*|not installed|missing)"
            r"|\b(?:fail\w*|cannot|could not|unable) (?:to )?(?:load|open|find) \S{0,40}nvrtc-builtins|(?i:nvrtc|cupy|warp|compil\w+).{0,80}\bbuiltin operation failure|NVRTC.{0,60}builtins library not found"
        ),
        level=Level.WARNING,
        title="NVRTC does not find the builtins library of its own version",
        decisive_fact="the versions of libnvrtc and libnvrtc-builtins that are loaded: gpuenv doctor",
    ),
    Signature(
        "toolkit.header-named",
        "gcc and clang, as ninja and Triton repeat them",
        (".h: no such file", '.h": no such file', ".hpp: no such file", ".cuh: no such file", "needed by"),
        ((Cause.CUDA_HEADERS_MISSING, 0.78), (Cause.CUDA_PATH_WRONG, 0.08)),
        "gcc, libcpp/files.cc, cut off in front; ninja, src/build.cc",
        pattern=(
            r"(?<!fatal error: )(?<!fatal error )[\"'<]?\b(?:cuda|cuda_runtime(?:_api)?|cuda_fp(?:16|8|4)|cuda_bf16|curand(?:_kernel)?|cublas\w*|cufft\w*|cusparse|cusolver\w*|nvrtc|vector_types|math_constants|cuComplex|cooperative_groups)\.h(?:pp)?[\">']?: No such file"
            r"|/include/(?:cuda|cublas|curand|cufft|cusparse|nvrtc)\w*\.h', needed by .{1,120}missing and no known rule to make it"
        ),
        title="A CUDA header that a compile needs is not found",
        modifiers=(
            Modifier("building-cupy", Cause.CUPY_SDIST_BUILD_FAILURE, 40),
            Modifier("building-cupy", Cause.CUDA_HEADERS_MISSING, 0.15),
        ),
        decisive_fact="whether the headers are installed, and where CUDA_HOME points",
    ),
    Signature(
        "toolkit.optional-header",
        "gcc and clang",
        ("cudnn.h", "nccl.h", "cutensor.h", "cusparselt.h"),
        ((Cause.OPTIONAL_LIBRARY_MISSING, 0.66), (Cause.CUDA_PATH_WRONG, 0.08)),
        "gcc, libcpp/files.cc: of a library that the toolkit does not have",
        pattern=r"\b(?:cudnn|nccl|cutensor|cusparseLt)\w{0,12}\.h[\">']?: No such file",
        title="The header of an optional CUDA library is not found",
        modifiers=(Modifier("building-cupy", Cause.CUPY_SDIST_BUILD_FAILURE, 12),),
    ),
    Signature(
        "toolkit.compiler-gone",
        "CMake, MSBuild, XLA, Theano, the shell",
        (
            *("is not a full path to an existing compiler", "msb4019", "can't find ptxas binary", "/bin/nvcc"),
            *("nvcc compiler not found", "that does not match the version used to compile"),
        ),
        ((Cause.CUDA_PATH_WRONG, 0.78), (Cause.CUDA_LIBRARY_MISSING, 0.06)),
        "CMake, CMakeDetermineCompiler; MSBuild and CUDA's props; XLA, gpu_backend_lib; Theano, nvcc_compiler.py; apex, setup.py",
        pattern=(
            r"The CMAKE_CUDA_COMPILER:\s.{1,160} is not a full path to an existing compiler tool|MSB4019: .{0,160}\bCUDA [\d.]+\.props\W.{0,20}not found"
            r"|Can't find ptxas binary in|nvcc compiler not found on \$PATH|\S*/cuda\S*/bin/nvcc: (?:No such file|not found)|sh: \S*/bin/nvcc: not found"
            r"|compiled with a version of [Cc][Uu][Dd][Aa] that does ?n[o']t match the version used to compile"
        ),
        title="The CUDA toolkit is looked for where it is not, or where another version is",
        modifiers=(Modifier("building-cupy", Cause.CUPY_SDIST_BUILD_FAILURE, 20),),
        decisive_fact="whether that folder is there, and what CUDA_HOME and PATH name",
    ),
)
