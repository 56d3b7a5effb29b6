"""Messages of the dynamic loaders of Linux and Windows, directly and through Python."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause
from gpuenv.model.nvidia import CUDA_LIBRARIES
from gpuenv.model.strings import parse_integer

_LD = "ld.so"
_DLERROR = "glibc, elf/dl-load.c and dl-version.c; CPython's ImportError repeats them"
_OPENING = r"\.so(?P<soname>[.\d]*): cannot open shared object file"
TOOLKIT = r"(?:cudart(?:_static)?|cudadevrt|cublas|cublasLt|cufft|cufftw|curand|cusolver|cusolverMg|cusparse|nvrtc|nvJitLink|nvToolsExt|cupti|nvblas|npp\w+|nvjpeg|cudla|nvvm|cufile)"
DLLS = r"(?:nvrtc64|cudart64|cublas64|cublasLt64|cufft64|curand64|cusolver64|cusparse64|nvJitLink|nvrtc-builtins64)_[\w]+\.dll"
_NOT_OF_CUPY = ("nvvm", "npp", "nvjpeg", "cudla", "nvblas", "cupti", "cufftw")  # CuPy opens none of these
_SHARED_MAJOR = 11  # up to 11.0 a library's name held the minor version, so a wheel was for one minor only
# Names of CUDA 12 and 13 with a lower number: libcufft.so.11, libcusolver.so.11 and libcurand.so.10.
_OF_TODAY = {entry.soname for major, entries in CUDA_LIBRARIES.items() if major > _SHARED_MAJOR for entry in entries}


def _missing_library_weights(values: Mapping[str, str]) -> Weights:
    """An old name can only be wanted by an old wheel line; a present one may simply not be installed."""
    if values.get("named") and not values.get("failed"):  # not searched: a variable or a setting named the file
        return ((Cause.CUDA_PATH_WRONG, 0.6), (Cause.CUDA_LIBRARY_MISSING, 0.3))
    if values.get("library", "").startswith(_NOT_OF_CUPY):
        return ((Cause.CUDA_LIBRARY_MISSING, 0.6), (Cause.CUDA_PATH_WRONG, 0.3))
    soname = values.get("soname", "").strip(".")
    major = parse_integer(soname.split(".")[0]) or 0
    if values.get("failed"):  # CuPy, TensorFlow and what goes through ctypes open it by name when it is first used
        return ((Cause.CUDA_LIBRARY_MISSING, 0.62), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.32))
    if 0 < major <= _SHARED_MAJOR and f"lib{values.get('library', '')}.so.{soname}" not in _OF_TODAY:
        return ((Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.6), (Cause.CUDA_LIBRARY_MISSING, 0.32))
    return ((Cause.CUDA_LIBRARY_MISSING, 0.48), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.42))


_MAJOR_SWAYS = (
    Modifier("cuda-major-differs", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 8),
    Modifier("cuda-major-differs", Cause.CUDA_LIBRARY_MISSING, 0.3),
    # Where the text does not name CuPy, another program may want it, whose wheels are none of CuPy's.
    Modifier("cuda-of-another-differs", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 2),
    Modifier("cuda-major-same", Cause.CUDA_LIBRARY_MISSING, 4),
    Modifier("cuda-major-same", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.3),
    Modifier("ctk-extra", Cause.CUDA_LIBRARY_MISSING, 5),
    Modifier("base-image", Cause.CUDA_LIBRARY_MISSING, 4),
    Modifier("executable", Cause.CUDA_LIBRARY_MISSING, 4),
    Modifier("jetson", Cause.JETSON_TEGRA, 60),
    # It is not CuPy that wants it.
    Modifier("other-owner", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.02),
    Modifier("other-owner", Cause.CUDA_LIBRARY_MISSING, 1.5),
)

SIGNATURES = (
    Signature(
        "ld.libcuda",
        _LD,
        ("libcuda.so", "library libcuda", 'library "libcuda', "library 'libcuda"),
        (
            (Cause.NO_DRIVER, 0.62),
            (Cause.CONTAINER_WITHOUT_GPU, 0.13),
            (Cause.WSL_LIBCUDA, 0.08),
            (Cause.CONTAINER_DRIVER_CAPABILITIES, 0.05),
            (Cause.DRIVER_INSTALL_BROKEN, 0.04),
        ),
        _DLERROR,
        pattern=(
            r"libcuda\.so(?:\.1)?: cannot open shared object|libcuda\.so\S* .*(?:not found|no such file|could not be (?:found|loaded))"
            r"|(?:can(?:not|'t)|could(?: not|n't)) (?:find|load|open|locate)\b.{0,40}libcuda\.so|(?:unable to (?:find|load|locate|open)|failed to (?:load|open|find|dlopen))\b.{0,40}libcuda\.so"
            r"|(?:failed to (?:load|open)|could not load).{0,60}libcuda\.so"
            r"|(?:could not|cannot|unable to|failed to) (?:load|open|find|locate)(?: (?:the )?(?:shared )?library)?[ '\"`:]{0,4}libcuda\b(?!rt)"
        ),
        title="The loader does not find libcuda, which only the driver brings",
        modifiers=(
            Modifier("wsl", Cause.WSL_LIBCUDA, 40),
            Modifier("wsl", Cause.NO_DRIVER, 0.3),
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8),
            Modifier("container", Cause.NO_DRIVER, 0.4),
            Modifier("container", Cause.CONTAINER_DRIVER_CAPABILITIES, 2),
            Modifier("host", Cause.CONTAINER_WITHOUT_GPU, 0.05),
            Modifier("smi-works", Cause.CONTAINER_DRIVER_CAPABILITIES, 20),
            Modifier("capabilities-lack-compute", Cause.CONTAINER_DRIVER_CAPABILITIES, 30),
            Modifier("capabilities-lack-compute", Cause.CONTAINER_WITHOUT_GPU, 0.2),
            Modifier("smi-works", Cause.NO_DRIVER, 0.2),
            Modifier("started-without-gpu", Cause.CONTAINER_WITHOUT_GPU, 6),
            # The kernel has the driver's module: only its libraries are not there.
            Modifier("module-loaded", Cause.DRIVER_INSTALL_BROKEN, 20),
            Modifier("module-loaded", Cause.NO_DRIVER, 0.25),
            Modifier("smi-reported-working", Cause.DRIVER_INSTALL_BROKEN, 10),
            Modifier("smi-reported-working", Cause.NO_DRIVER, 0.4),
            Modifier("smi-table", Cause.DRIVER_INSTALL_BROKEN, 4),
            Modifier("hook", Cause.CONTAINER_WITHOUT_GPU, 0.02),
            Modifier("hook", Cause.CONTAINER_DRIVER_CAPABILITIES, 0.1),
            Modifier("hook", Cause.DRIVER_INSTALL_BROKEN, 3),
            Modifier("jetson", Cause.JETSON_TEGRA, 3),
            Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 60),
        ),
        decisive_fact="whether this is a container or WSL: --assume container=yes, --assume wsl=yes",
    ),
    Signature(
        "loader.libcuda-names",
        "CUDA bindings of other languages",
        (
            "cuda lib under the names",
            "cuda driver library cannot be found",
            "cuda driver could not",
            "cuda driver library could not",
            "or load the nvidia driver",
        ),
        ((Cause.NO_DRIVER, 0.6), (Cause.WSL_LIBCUDA, 0.14), (Cause.CONTAINER_WITHOUT_GPU, 0.12)),
        "cudarc, panic_no_lib_found; numba/cuda/cudadrv/driver.py",
        pattern=r"Unable to find cuda lib under the names|CUDA driver (?:library )?(?:cannot|could not) be (?:found|loaded)|find or load the NVIDIA driver",
        title="The loader does not find libcuda, which only the driver brings",
        modifiers=(
            Modifier("wsl", Cause.WSL_LIBCUDA, 40),
            Modifier("wsl", Cause.NO_DRIVER, 0.3),
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8),
            Modifier("gpu-none", Cause.NO_DRIVER, 3),
        ),
        decisive_fact="whether this is a container or WSL: --assume container=yes, --assume wsl=yes",
    ),
    Signature(
        "ld.libnvidia-ml",
        _LD,
        ("libnvidia-ml.so",),
        ((Cause.NO_DRIVER, 0.58), (Cause.CONTAINER_WITHOUT_GPU, 0.16), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.1)),
        f"{_DLERROR}; libnvidia-container; go-nvml",
        pattern=(
            r"libnvidia-ml\.so(?:\.1)?['\"]?: (?:cannot open|undefined|no such file)"
            r"|(?:\b(?:can)?not|n't|\bunable|\bfail\w*|\berror)\b.{0,30}(?:load|open|(?<!couldn't )find|locat)\w{0,3}\b.{0,48}libnvidia-ml\.so"
            r"|\bload\w*.{0,20}\b(?:failed|error)\b.{0,48}libnvidia-ml\.so"
        ),
        title="The loader does not find libnvidia-ml, a part of the driver",
        modifiers=(
            Modifier("wsl", Cause.WSL_LIBCUDA, 60),
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 3),
            Modifier("kubernetes", Cause.CONTAINER_TOOLKIT_BROKEN, 5),
            Modifier("hook", Cause.CONTAINER_WITHOUT_GPU, 0.1),
            Modifier("caps-without-utility", Cause.CONTAINER_DRIVER_CAPABILITIES, 60),
            Modifier("smi-reported-working", Cause.NO_DRIVER, 0.2),
            Modifier("smi-reported-working", Cause.CONTAINER_TOOLKIT_BROKEN, 3),
            Modifier("module-loaded", Cause.DRIVER_INSTALL_BROKEN, 40),
            Modifier("module-loaded", Cause.NO_DRIVER, 0.25),
        ),
        decisive_fact="whether nvidia-smi works on the host",
    ),
    Signature(
        "ld.toolkit-library",
        _LD,
        ("cannot open shared object file", "dlerror: lib", "shared object file: no such"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.48), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.42)),
        _DLERROR,
        pattern=rf"(?P<failed>failed to load lib\S+ ?\w*Error: |Could not load library lib\S+ Error: |dlerror: |OSError: |Could not load \w+ native library: )?(?P<named>/usr/local/cuda\S*/|/opt/cuda\S*/)?(?:lib)(?P<library>{TOOLKIT}){_OPENING}",
        title="lib{library}.so{soname} is not found",
        weights_fn=_missing_library_weights,
        modifiers=_MAJOR_SWAYS,
        decisive_fact="the CUDA that is installed (nvcc --version, pip list), and the CuPy: --assume toolkit=, --assume cupy=",
    ),
    Signature(
        "ld.toolkit-library-short",
        _LD,
        ("importerror: lib",),
        ((Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.55), (Cause.CUDA_LIBRARY_MISSING, 0.35)),
        f"{_DLERROR}; cut off",
        pattern=rf"ImportError: lib(?P<library>{TOOLKIT})\.so(?P<soname>[.\d]*)(?!\S)(?!.*cannot open)",
        title="lib{library}.so{soname} is not found",
        weights_fn=_missing_library_weights,
        modifiers=_MAJOR_SWAYS,
        decisive_fact="the CUDA that is installed, and the CuPy: --assume toolkit=, --assume cupy=",
    ),
    Signature(
        "cupy.softlink",
        "CuPy",
        (
            "cupy failed to load",
            "failed to load lib",
            "could not find module",
            "failed to load cu",
            "failed to load nv",
        ),
        ((Cause.CUDA_LIBRARY_MISSING, 0.62), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.3)),
        "CuPy 11 to 14, cupy_backends/cuda/_softlink.pyx",
        pattern=rf"CuPy failed to load (?:lib)?{TOOLKIT}|Could not find module '?{DLLS}",
        title="CuPy could not load a CUDA library when it was first used",
        modifiers=_MAJOR_SWAYS,
        decisive_fact="the CUDA that is installed (nvcc --version, pip list), and the CuPy",
    ),
    Signature(
        "ld.static-tls",
        _LD,
        ("static tls block",),
        ((Cause.JETSON_TEGRA, 0.5), (Cause.LIBRARY_PATH_CONFLICT, 0.2)),
        f"{_DLERROR}; on aarch64, where libraries loaded late find no room",
        pattern=r"cannot allocate memory in static TLS block",
        requires=("cupy", "cuda"),
        decisive_fact="whether this is a Jetson board, and whether importing that library first helps",
    ),
    Signature(
        "ld.optional-library",
        _LD,
        ("libnccl", "libcudnn", "libcutensor", "libcusparselt", "libnvshmem", "libnvinfer", "cutensor.dll", "cudnn"),
        ((Cause.OPTIONAL_LIBRARY_MISSING, 0.74), (Cause.CUDA_LIBRARY_MISSING, 0.14)),
        _DLERROR,
        pattern=(
            r"(?P<file>lib(?P<library>nccl|cudnn\w*|cutensor\w*|cusparseLt|nvshmem\w*|(?<!dlerror: lib)nvinfer\w*)\.so[.\d]*): cannot open shared object"
            r"|(?:Could not (?:load|find|locate)|Unable to load|cannot find)[^\n]{0,60}(?:(?P<any>lib(?:nccl|cudnn\w*|cutensor|cusparseLt)\.so[.\d]*)|cudnn\w*64\w*\.dll|cutensor\.dll)(?!.{0,200}undefined symbol)|cudnn\w*64\w*\.dll (?:is|was) (?:missing|not found)"
        ),
        title="An optional CUDA library is not found",
        modifiers=(
            # To CuPy cuDNN is optional; a framework for Windows has linked it.
            Modifier("dll-named", Cause.WINDOWS_DLL_LOAD_FAILURE, 60),
            Modifier("cupy", Cause.WINDOWS_DLL_LOAD_FAILURE, 0.25),
            Modifier("cupy", Cause.CUDA_LIBRARY_MISSING, 0.2),
            Modifier("cupy", Cause.OPTIONAL_LIBRARY_MISSING, 2),
        ),
    ),
    Signature(
        "ld.rocm-library",
        _LD,
        (
            "libamdhip64",
            "libhiprtc",
            "librocblas",
            "libhip",
            "librocm",
            "librocsolver",
            "librocfft",
            "hipcreate",
            "hip_",
        ),
        ((Cause.ROCM_MISMATCH, 0.9),),
        _DLERROR,
        pattern=r"lib(?:amdhip64|hiprtc|rocblas|hip\w+|rocm\w+|roc\w+)\.so\S*: (?:cannot open|undefined|version)|undefined symbol: \w*(?:hip[A-Z]|rocblas|rocsolver)\w+",
        title="A ROCm library of the version that the wheel wants is not found",
    ),
    Signature(
        "ld.wrong-symbol",
        _LD,
        ("undefined symbol", "not defined in file", "symbol lookup error"),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.9),),
        _DLERROR,
        pattern=(
            r"(?<!libtorch_cuda.so: )undefined symbol:? (?:__)?(?:nvJitLink|cublas|cusparse|cusolver|cufft|curand|cudnn|cudart|cuda[A-Z]|nvrtc)\w*"
            r"|symbol \w+,? version lib(?:cu\w+|nv\w+)\.so\S* not defined in file|version [`']lib(?:cu\w+|nv\w+)\.so\S*' not found"
            r"|(?<!libtorch_cuda.so: )undefined symbol: \w+, version lib(?:cu\w+|nv\w+)\.so"
            r"|lib(?:cudnn|cublas|cusparse|cusolver|cufft|nccl)\w*\.so\S*: undefined symbol: (?!cu(?-i:[A-Z])|nvml)"
        ),
        title="Another version of a CUDA library is found first: it lacks a symbol",
        decisive_fact="which file is taken: LD_DEBUG=libs, or gpuenv doctor",
    ),
    Signature(
        "cupy.import-frames",
        "CuPy",
        ("in init cupy", "failed to import cupy", "cupy is not correctly installed"),
        (
            (Cause.CUDA_LIBRARY_MISSING, 0.22),
            (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.22),
            (Cause.WINDOWS_DLL_LOAD_FAILURE, 0.08),
            (Cause.NUMPY_INCOMPATIBLE, 0.06),
            (Cause.ROCM_MISMATCH, 0.04),
            (Cause.CORRUPT_INSTALLATION, 0.05),
        ),
        "CuPy, cupy/__init__.py; Cython's frames of a module that does not initialise",
        pattern=r"in init cupy(?:_backends)?\.[\w.]+(?: .*Error)|Failed to import CuPy\b|CuPy is not correctly installed",
        level=Level.WARNING,
        title="CuPy's compiled modules cannot be loaded",
        modifiers=(
            Modifier("rocm", Cause.ROCM_MISMATCH, 60),
            Modifier("windows", Cause.WINDOWS_DLL_LOAD_FAILURE, 8),
            Modifier("numpy-error", Cause.NUMPY_INCOMPATIBLE, 10),
        ),
        decisive_fact="the last line of the traceback, which names the library or symbol",
    ),
    Signature(
        "ld.driver-symbol",
        _LD,
        ("undefined symbol: cu", "undefined symbol: nvml"),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.7), (Cause.LIBRARY_PATH_CONFLICT, 0.2)),
        f"{_DLERROR}; cuda.h and nvml.h: only the driver's libraries have functions of these names",
        pattern=r"undefined symbol: (?:cu(?-i:[A-Z])\w+|nvml(?-i:[A-Z])\w+)",
        title="The driver's library lacks a function that the program calls: the driver is older",
        decisive_fact="the driver's version, and which libcuda is loaded",
    ),
)
