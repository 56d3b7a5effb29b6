"""Messages where the CUDA toolkit, its folder or its headers are not found."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

_HEADERS = (
    r"(?:cuda_runtime(?:_api)?|cuda_fp16|cuda_fp8|cuda_fp4|cuda_fp6|cuda_bf16|vector_types|vector_functions|cuda|cuComplex"
    r"|cooperative_groups|curand_kernel|curand|cufft\w*|cublas\w*|cusparse|cusolver\w*|nvrtc|cuda_profiler_api|math_constants"
    r"|device_functions|builtin_types|driver_types|texture_types|nvToolsExt|nvtx3/\w+|cub/\w[\w/.-]*|thrust/\w[\w/.-]*"
    r"|cuda/std/\w[\w/.-]*|cuda/\w+|cccl/\w[\w/.-]*|mma|sm_\d\d\w+)(?:\.(?:h|hpp|cuh))?"
)

SIGNATURES = (
    Signature(
        "cupy.nvcc-elsewhere",
        "CuPy's setup",
        ("nvcc path",),
        ((Cause.CUDA_PATH_WRONG, 0.6), (Cause.CUPY_SDIST_BUILD_FAILURE, 0.2)),
        "CuPy, install/cupy_builder/install_build.py: get_cuda_path",
        pattern=r"nvcc path != CUDA_PATH",
        level=Level.WARNING,
        title="CUDA_PATH is not the toolkit of the nvcc that is found first",
        evidence="cuda-path-differs",
        decisive_fact="whether CUDA_PATH has bin and include",
    ),
    Signature(
        "nvrtc.header-missing",
        "NVRTC, nvcc and C++ compilers",
        (
            "cannot open source file",
            "could not open source file",
            "no such file",
            "file not found",
            "cannot open include",
            "not found: ",
        ),
        ((Cause.CUDA_HEADERS_MISSING, 0.88),),
        "libnvrtc (EDG front end), the strings of the binary; gcc, clang and MSVC (C1083)",
        pattern=(
            rf"(?:cannot|could not) open (?:source|include) file:? [\"'<]{_HEADERS}[\">']"
            rf"|fatal error:? (?:C1083.*)?[\"'<]?{_HEADERS}[\">']?:? (?:file )?(?:No such file|not found)"
            rf"|(?:include file|header)s? (?:was )?not found:? \W*{_HEADERS}"
        ),
        title="A CUDA header that a compile needs is not found",
        modifiers=(
            Modifier("building-cupy", Cause.CUPY_SDIST_BUILD_FAILURE, 40),
            Modifier("building-cupy", Cause.CUDA_HEADERS_MISSING, 0.15),
            Modifier("cuda-path-differs", Cause.CUDA_HEADERS_MISSING, 0.3),
        ),
        decisive_fact="whether the headers are installed: nvidia-cuda-runtime of the same minor, or a toolkit",
    ),
    Signature(
        "nvrtc.source-missing",
        "NVRTC and nvcc",
        ("catastrophic error",),
        ((Cause.CUDA_HEADERS_MISSING, 0.5), (Cause.CUPY_BUG, 0.12)),
        "libnvrtc (EDG front end), the strings of the binary",
        pattern=rf"catastrophic error: (?:cannot|could not) open source file(?! [\"'<]{_HEADERS}[\">'])",
        title="A header that a kernel includes is not found",
        decisive_fact="whether the header is of CUDA, of the C++ library or of the program",
    ),
    Signature(
        "cupy.headers-not-found",
        "CuPy",
        ("headers",),
        ((Cause.CUDA_HEADERS_MISSING, 0.6), (Cause.CUDA_PATH_WRONG, 0.25)),
        "CuPy 14, cupy/_environment.py and cupy/cuda/compiler.py",
        pattern=r"CUDA headers (?:could )?not (?:be )?found|(?:failed|unable) to (?:find|locate) (?:the )?CUDA (?:toolkit )?(?:headers|include)",
    ),
    Signature(
        "cupy.root-not-found",
        "CuPy",
        ("cuda root directory", "cuda path could not be detected"),
        ((Cause.CUDA_PATH_WRONG, 0.78), (Cause.CUDA_HEADERS_MISSING, 0.15)),
        "CuPy 14, cupy/_environment.py",
        pattern=r"failed to auto-detect CUDA root directory|CUDA path could not be detected",
        title="CuPy does not find the root of the CUDA toolkit",
    ),
    Signature(
        "build.cuda-home",
        "torch, CMake, setup scripts",
        ("cuda_home", "cuda_path", "cuda_toolkit_root_dir", "cuda_root", "cudatoolkit_root"),
        ((Cause.CUDA_PATH_WRONG, 0.85),),
        "torch/utils/cpp_extension.py; CMake, FindCUDAToolkit.cmake; pycuda, numba and JAX",
        pattern=(
            r"(?:CUDA_HOME|CUDA_PATH|CUDA_ROOT|CUDAToolkit_ROOT|CUDA_TOOLKIT_ROOT_DIR)(?: environment variable)?.{0,40}"
            r"(?:is not set|not set|not found or specified|not defined|does not exist|is incorrect|points? to|invalid|is not a directory|must be set)"
            r"|(?:set|specify|define) (?:the )?`?(?:CUDA_HOME|CUDA_PATH|CUDA_TOOLKIT_ROOT_DIR)(?! environment variable if CuPy)"
        ),
        title="CUDA_PATH or CUDA_HOME is not set, or points to nothing",
        modifiers=(
            Modifier("building-cupy", Cause.CUPY_SDIST_BUILD_FAILURE, 20),
            Modifier("failed-to-import-cupy", Cause.CUDA_PATH_WRONG, 0.1),
        ),
    ),
    Signature(
        "build.path-list",
        "the shell, in what a report quotes",
        ("cuda_home=", "cuda_path="),
        ((Cause.CUDA_PATH_WRONG, 0.82),),
        "CUDA Installation Guide for Linux, Environment Setup: the variable holds one folder, and no list of them",
        pattern=r"CUDA_(?:HOME|PATH)=(?:\$\{?CUDA_(?:HOME|PATH)\}?:/|/[^\s:;]+:/|:/)",
        title="CUDA_HOME is a list of folders, where one is expected",
    ),
    Signature(
        "build.toolkit-not-found",
        "CMake and setup scripts",
        (
            "could not find cuda",
            "could not find nvcc",
            "nvcc",
            "cuda toolkit",
            "cudatoolkit",
            "cuda compiler",
            "cuda is not found",
            "cuda installation",
            "cuda root",
        ),
        ((Cause.CUDA_PATH_WRONG, 0.62), (Cause.CUDA_LIBRARY_MISSING, 0.1)),
        "CMake, FindCUDA and CMakeDetermineCUDACompiler; cupy/cuda/compiler.py; the shell",
        pattern=(
            r"Could NOT find CUDA(?:Toolkit)?(?! drivers)|Failed to find nvcc|nvcc does not exist|CUDA is not found\.|Cannot find compiler 'cl\.exe'|nvcc: (?:command )?not found|nvcc['\"]? is not recognized"
            r"|No such file or directory: '?\S*nvcc|(?:could not|cannot|unable to|failed to) (?:find|locate) (?:the )?(?:CUDA toolkit|CUDA compiler|nvcc)"
            r"|Failed to run `?nvcc`? command|No CMAKE_CUDA_COMPILER could be found|CUDA (?:toolkit|installation|root|home)(?: directory| folder)? (?:was |is |could )?not (?:be )?found"
        ),
        title="The CUDA toolkit's compiler is not found",
        modifiers=(Modifier("building-cupy", Cause.CUPY_SDIST_BUILD_FAILURE, 20),),
        decisive_fact="whether a toolkit is installed, and whether CUDA_PATH and PATH name it",
    ),
    Signature(
        "build.cuda-mismatch",
        "torch and setup scripts",
        ("mismatches the version that was used to compile", "detected cuda version"),
        ((Cause.CUDA_PATH_WRONG, 0.75),),
        "torch/utils/cpp_extension.py: CUDA_MISMATCH_MESSAGE",
        pattern=r"detected CUDA version \((?P<found>[\d.]+)\) mismatches the version that was used to compile \S+ ?\(?(?P<built>[\d.]+)?",
        title="CUDA_HOME is CUDA {found}, the framework was built with another",
    ),
    Signature(
        "windows.dll-directory",
        "CuPy on Windows",
        ("add_dll_directory", "winerror"),
        ((Cause.CUDA_PATH_WRONG, 0.85),),
        "os.add_dll_directory, called by cupy/_environment.py with CUDA_PATH/bin",
        pattern=r"\[WinError [23]\].*(?:CUDA|NVIDIA GPU Computing)|add_dll_directory(?!.{0,40}environ).*cuda_path",
        title="CUDA_PATH names a folder that is not there",
    ),
)
