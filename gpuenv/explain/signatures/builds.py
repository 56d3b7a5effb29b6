"""Messages of building CuPy from source, and of a NumPy that does not fit a build."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

SIGNATURES = (
    Signature(
        "cupy.sdist-failed",
        "pip and CuPy's setup",
        (
            "cupy",
            "cuda support",
            "cuda environment is invalid",
            "include files not found",
            "nvcc not in path",
            "cython version",
            "stub file",
            "unknown file type",
            "-> cupy",
            "with poetry but",
            "\u2500> cupy",
            "compute capability",
            "nvtoolsext",
            "chainer",
        ),
        ((Cause.CUPY_SDIST_BUILD_FAILURE, 0.93),),
        "CuPy, install/cupy_builder; pip, wheel_builder.py; uv, uv-build-frontend",
        pattern=(
            r"Failed (?:building wheel for|to build(?: installable wheels.*\()?|to build `) ?'?cupy|Building wheel for cupy \(\S+\)(?: \.\.\.)? ?.*(?:error|failed)"
            r"|Failed to download and build `cupy[=`]|Failed to fetch wheel: cupy==.{0,80}backend failed|Failed building editable for cupy|errored out with exit status \d+:? .*[/\\]cupy_?\w*[/\\]setup\.py"
            r"|could not build wheels for cupy|Your CUDA environment is invalid|Skip installing cuda support|WARNING: Include files not found: \['cu"
            r"|WARNING: nvcc not in path|WARNING: Cannot (?:build|link|find) .*(?:cuda|nvToolsExt)|Failed to build `?cupy|setup\.py\S* .*cupy.*(?:error|failed)"
            r"|Unsupported Cython version|Cannot build a stub file|Cannot check compute capability|error: subprocess-exited-with-error.*cupy|Failed building wheel for cupy|(?:\u2500>|`->|^->) cupy\b(?!-)|unknown file type '\.cu'|not a problem with poetry but (?:with|one of the following issues with) cupy|failed with error code \d+ in \S*[/\\](?:cupy|chainer)[/\\]?(?:$|\s)"
        ),
        title="pip built CuPy from source, and the build failed",
        evidence="building-cupy",
        modifiers=(Modifier("jetson", Cause.JETSON_TEGRA, 5),),
    ),
    Signature(
        "cupy.sdist-compiler",
        "CuPy's setup on Windows",
        ("visual studio", "cl.exe", "visual c++", "vcvarsall", "error lnk1"),
        ((Cause.CUPY_SDIST_BUILD_FAILURE, 0.85),),
        "setuptools, msvc.py; CuPy, install/cupy_builder",
        pattern=r"Unable to find a compatible Visual Studio|command '?cl\.exe'? failed|Microsoft Visual C\+\+ \S+ (?:or greater )?is required|Unable to find vcvarsall|fatal error LNK1(?:104|181|120)\b",
        title="CuPy was built from source without a usable compiler",
        requires=("building-cupy", "cupy", "cuda"),
    ),
    Signature(
        "cupy.sdist-building",
        "pip",
        ("cupy",),
        ((Cause.CUPY_SDIST_BUILD_FAILURE, 0.5), (Cause.JETSON_TEGRA, 0.12)),
        "pip, wheel_builder.py; the name of a source archive",
        pattern=r"Building wheels? for (?:collected packages: )?(?:.*, )?cupy\b(?!-)|(?:Downloading|Using cached|Processing) \S*cupy-\d[\w.]*\.tar\.gz|Running setup\.py install for cupy\b",
        title="pip builds CuPy from source: the plain name cupy has no wheels",
        level=Level.WARNING,
        evidence="building-cupy",
        modifiers=(
            Modifier("aarch64", Cause.JETSON_TEGRA, 12),
            Modifier("jetson", Cause.JETSON_TEGRA, 40),
            Modifier("cupy-built", Cause.CUPY_SDIST_BUILD_FAILURE, 0),
            Modifier("cupy-built", Cause.JETSON_TEGRA, 0),
        ),
        decisive_fact="whether the build ended, and how: its last lines",
    ),
    Signature(
        "cupy.sdist-configuring",
        "CuPy's setup",
        ("configuring module: ", "cupy configuration summary"),
        ((Cause.CUPY_SDIST_BUILD_FAILURE, 0.5),),
        "CuPy, install/cupy_builder/_features.py and _context.py: what each build prints",
        title="CuPy is built from source: the plain name cupy has no wheels",
        level=Level.WARNING,
        evidence="building-cupy",
        modifiers=(
            Modifier("cupy-built", Cause.CUPY_SDIST_BUILD_FAILURE, 0),
            Modifier("cupy-configured", Cause.CUPY_SDIST_BUILD_FAILURE, 0),
        ),
        decisive_fact="whether the build ended, and how: its last lines",
    ),
    Signature(
        "cupy.sdist-gcc",
        "gcc and g++, in a build of CuPy",
        ("fatal error", "error: command", "command 'gcc'", "command 'g++'", "cupy"),
        ((Cause.CUPY_SDIST_BUILD_FAILURE, 0.85), (Cause.JETSON_TEGRA, 0.05)),
        "setuptools, command/build_ext.py",
        pattern=r"error: [Cc]ommand ['\"]?\S*(?:gcc|g\+\+|nvcc|cc|cl\.exe)\b.*|fatal error.*\w\.h\b(?!.*(?:nccl|cudnn|cutensor|cusparseLt)\.h)|\bcupy(?:_backends|x)?/\S{1,80}\.(?:cpp|cxx|cu|pyx):\d+(?::\d+)?: error: ",
        requires=("building-cupy",),
        modifiers=(Modifier("jetson", Cause.JETSON_TEGRA, 30), Modifier("aarch64", Cause.JETSON_TEGRA, 20)),
    ),
    Signature(
        "stub.no-wheel",
        "the placeholder packages of NVIDIA on PyPI",
        ("-stub:testing wheel", "didn't find wheel for"),
        ((Cause.PYTHON_UNSUPPORTED, 0.55), (Cause.PLATFORM_WHEEL_MISSING, 0.35)),
        "wheel-stub and nvidia-stub, wheel.py: each wheel of the index against each tag of the interpreter",
        pattern=r"(?:wheel|nvidia)-stub:Testing wheel|Didn't find wheel for \S+ \d",
        title="The index has no wheel of that package for this Python and platform",
        modifiers=(
            Modifier("windows", Cause.PLATFORM_WHEEL_MISSING, 12),
            Modifier("darwin", Cause.PLATFORM_WHEEL_MISSING, 12),
            Modifier("musl", Cause.PLATFORM_WHEEL_MISSING, 12),
        ),
        decisive_fact="the version of Python and the platform: the names of the wheels tell which there are",
    ),
    Signature(
        "build.cuda-undeclared",
        "gcc and hipcc",
        ("was not declared in this scope", "use of undeclared identifier"),
        ((Cause.CUPY_SDIST_BUILD_FAILURE, 0.45), (Cause.CUDA_HEADERS_MISSING, 0.15), (Cause.CUDA_PATH_WRONG, 0.1)),
        "gcc, cp/name-lookup.cc; clang, DiagnosticSemaKinds.td",
        pattern=r"(?:['\u2018`](?:cuda|cublas|cufft|curand|cusparse|nvrtc)\w{1,80}['\u2019]? was not declared in this scope|undeclared identifier '(?:cuda|cublas|cufft|curand|cusparse|nvrtc)\w{1,80}')",
        title="The source calls a function of CUDA that the headers there do not have",
        modifiers=(Modifier("rocm", Cause.ROCM_MISMATCH, 60),),
        decisive_fact="which CUDA or ROCm the headers are of",
    ),
    Signature(
        "numpy.required",
        "pip's consistency check",
        ("requires numpy", "has requirement numpy"),
        ((Cause.NUMPY_INCOMPATIBLE, 0.93),),
        "pip, commands/install.py: dependency conflicts",
        pattern=r"cupy\S* \S+ (?:requires|has requirement) numpy\S*.*(?:but you have|but you'll have|which is incompatible)",
        title="The NumPy there is outside the range that this CuPy asks for",
    ),
    Signature(
        "numpy.abi",
        "NumPy and extension modules",
        (
            *("numpy.core.multiarray failed", "multiarray failed to import", "size changed, may indicate"),
            *("compiled using numpy 1", "_array_api not found", "_umath_api not found", "module compiled against a"),
        ),
        ((Cause.NUMPY_INCOMPATIBLE, 0.76),),
        "NumPy 1.24 to 2.3, _core/src/multiarray and __multiarray_api.c; Cython, __Pyx_ImportType",
        pattern=(
            r"numpy\.(?:_?core)\.(?:multiarray|umath) failed to import|numpy\.(?:dtype|ndarray|ufunc|flatiter|broadcast) size changed|compiled using NumPy 1\.\S+ cannot be run in"
            r"|_(?:ARRAY|UMATH)_API not found|module compiled against (?:API|ABI) version 0x\w+ but this version of numpy"
        ),
        title="The NumPy there does not fit what was compiled against it",
        evidence="numpy-error",
        modifiers=(Modifier("cupy", Cause.NUMPY_INCOMPATIBLE, 2), Modifier("cupy-banner", Cause.NUMPY_INCOMPATIBLE, 2)),
    ),
    Signature(
        "numpy.names-gone",
        "NumPy and programs above it",
        ("module 'numpy' has no attribute", "from 'numpy", "_multiarray_umath", "numpy 2.0 release"),
        ((Cause.NUMPY_INCOMPATIBLE, 0.86),),
        "numpy/core and numpy/_core, multiarray; numpy/__init__.py: __former_attrs__",
        pattern=(
            r"module 'numpy' has no attribute '\w+'|cannot import name '\w+' from 'numpy"
            r"|`?np\.\w+`? was removed in the NumPy 2\.0 release|(?:Error|No module named)\W.{0,40}numpy\._?core\._multiarray_umath"
        ),
        title="The NumPy there does not fit what was compiled against it",
        evidence="numpy-error",
        requires=("cupy", "cupy-banner"),
    ),
    Signature(
        "cmake.cuda-differs",
        "torch's CMake files",
        ("findcuda says", "headers say the version is"),
        ((Cause.CUDA_PATH_WRONG, 0.85),),
        "torch/share/cmake/Caffe2/public/cuda.cmake",
        pattern=r"FindCUDA says CUDA version|headers say the version is \d",
        title="nvcc and the CUDA headers that are found are of two versions",
        decisive_fact="which nvcc comes first in PATH, and what CUDA_HOME says",
    ),
    Signature(
        "cmake.unknown-arch",
        "CMake's and torch's lists of architectures",
        ("unknown cuda arch",),
        ((Cause.BUILD_ARCH_LIST_UNSUPPORTED, 0.75), (Cause.NO_KERNEL_IMAGE, 0.1)),
        "CMake, FindCUDA/select_compute_arch.cmake; torch/utils/cpp_extension.py: _get_cuda_arch_flags",
        pattern=r"Unknown CUDA Architecture Name \S+|Unknown CUDA arch \(\S+\) or GPU not supported",
        title="The build names an architecture that its tools do not know",
    ),
    Signature(
        "build.no-nvcc",
        "build tools",
        ("nvcc", "cmake_cuda_compiler", "cannot find cuda_home"),
        ((Cause.CUDA_PATH_WRONG, 0.72), (Cause.CUDA_HEADERS_MISSING, 0.1)),
        "CMake, CMakeDetermineCUDACompiler.cmake; setup scripts that call nvcc",
        pattern=(
            r"Cannot find CUDA_HOME|nvcc (?:was |is )?not (?:found )?(?:on|in) (?:your |the )?PATH|No CMAKE_CUDA_COMPILER could be found"
            r"|Failed to (?:find|locate) nvcc|(?:could not|cannot|unable to) (?:find|locate|run|execute) (?:the )?['`\"]?nvcc\b|Could not detect nvcc"
        ),
        title="The CUDA compiler nvcc is not found",
        modifiers=(
            Modifier("cupy", Cause.CUPY_SDIST_BUILD_FAILURE, 15),
            Modifier("building-cupy", Cause.CUPY_SDIST_BUILD_FAILURE, 4),
        ),
        decisive_fact="whether a toolkit is installed, and whether its bin folder is in PATH",
    ),
)
