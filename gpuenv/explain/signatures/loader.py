"""What the dynamic loader of Linux and that of Windows print, directly and through Python."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Signature, Sway, Weights
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


def _by_age(values: Mapping[str, str]) -> Weights:
    """An old name can only be wanted by an old wheel line; a present one may simply not be installed."""
    if values.get("named") and not values.get("failed"):  # nobody searched: a variable or a setting named the file
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
    Sway("cuda-major-differs", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 8),
    Sway("cuda-major-differs", Cause.CUDA_LIBRARY_MISSING, 0.3),
    # Where nobody speaks of CuPy, another program may want it, whose wheels are none of CuPy's.
    Sway("cuda-of-another-differs", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 2),
    Sway("cuda-major-same", Cause.CUDA_LIBRARY_MISSING, 4),
    Sway("cuda-major-same", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.3),
    Sway("ctk-extra", Cause.CUDA_LIBRARY_MISSING, 5),
    Sway("base-image", Cause.CUDA_LIBRARY_MISSING, 4),
    Sway("executable", Cause.CUDA_LIBRARY_MISSING, 4),
    Sway("jetson", Cause.JETSON_TEGRA, 60),
    # It is not CuPy that wants it.
    Sway("other-owner", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.02),
    Sway("other-owner", Cause.CUDA_LIBRARY_MISSING, 1.5),
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
        sways=(
            Sway("wsl", Cause.WSL_LIBCUDA, 40),
            Sway("wsl", Cause.NO_DRIVER, 0.3),
            Sway("container", Cause.CONTAINER_WITHOUT_GPU, 8),
            Sway("container", Cause.NO_DRIVER, 0.4),
            Sway("container", Cause.CONTAINER_DRIVER_CAPABILITIES, 2),
            Sway("host", Cause.CONTAINER_WITHOUT_GPU, 0.05),
            Sway("smi-works", Cause.CONTAINER_DRIVER_CAPABILITIES, 20),
            Sway("capabilities-lack-compute", Cause.CONTAINER_DRIVER_CAPABILITIES, 30),
            Sway("capabilities-lack-compute", Cause.CONTAINER_WITHOUT_GPU, 0.2),
            Sway("smi-works", Cause.NO_DRIVER, 0.2),
            Sway("started-without-gpu", Cause.CONTAINER_WITHOUT_GPU, 6),
            # The kernel has the driver's module: only its libraries are not there.
            Sway("module-loaded", Cause.DRIVER_INSTALL_BROKEN, 20),
            Sway("module-loaded", Cause.NO_DRIVER, 0.25),
            Sway("smi-said-to-work", Cause.DRIVER_INSTALL_BROKEN, 10),
            Sway("smi-said-to-work", Cause.NO_DRIVER, 0.4),
            Sway("smi-table", Cause.DRIVER_INSTALL_BROKEN, 4),
            Sway("hook", Cause.CONTAINER_WITHOUT_GPU, 0.02),
            Sway("hook", Cause.CONTAINER_DRIVER_CAPABILITIES, 0.1),
            Sway("hook", Cause.DRIVER_INSTALL_BROKEN, 3),
            Sway("jetson", Cause.JETSON_TEGRA, 3),
            Sway("gpu-none", Cause.NO_NVIDIA_GPU, 60),
        ),
        decides="whether this is a container or WSL: --assume container=yes, --assume wsl=yes",
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
        sways=(
            Sway("wsl", Cause.WSL_LIBCUDA, 40),
            Sway("wsl", Cause.NO_DRIVER, 0.3),
            Sway("container", Cause.CONTAINER_WITHOUT_GPU, 8),
            Sway("gpu-none", Cause.NO_DRIVER, 3),
        ),
        decides="whether this is a container or WSL: --assume container=yes, --assume wsl=yes",
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
        sways=(
            Sway("wsl", Cause.WSL_LIBCUDA, 60),
            Sway("container", Cause.CONTAINER_WITHOUT_GPU, 3),
            Sway("kubernetes", Cause.CONTAINER_TOOLKIT_BROKEN, 5),
            Sway("hook", Cause.CONTAINER_WITHOUT_GPU, 0.1),
            Sway("caps-without-utility", Cause.CONTAINER_DRIVER_CAPABILITIES, 60),
            Sway("smi-said-to-work", Cause.NO_DRIVER, 0.2),
            Sway("smi-said-to-work", Cause.CONTAINER_TOOLKIT_BROKEN, 3),
            Sway("module-loaded", Cause.DRIVER_INSTALL_BROKEN, 40),
            Sway("module-loaded", Cause.NO_DRIVER, 0.25),
        ),
        decides="whether nvidia-smi works on the host",
    ),
    Signature(
        "ld.toolkit-library",
        _LD,
        ("cannot open shared object file", "dlerror: lib", "shared object file: no such"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.48), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.42)),
        _DLERROR,
        pattern=rf"(?P<failed>failed to load lib\S+ ?\w*Error: |Could not load library lib\S+ Error: |dlerror: |OSError: |Could not load \w+ native library: )?(?P<named>/usr/local/cuda\S*/|/opt/cuda\S*/)?(?:lib)(?P<library>{TOOLKIT}){_OPENING}",
        title="lib{library}.so{soname} is not found",
        judge=_by_age,
        sways=_MAJOR_SWAYS,
        decides="the CUDA that is installed (nvcc --version, pip list), and the CuPy: --assume toolkit=, --assume cupy=",
    ),
    Signature(
        "ld.toolkit-library-short",
        _LD,
        ("importerror: lib",),
        ((Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.55), (Cause.CUDA_LIBRARY_MISSING, 0.35)),
        f"{_DLERROR}; cut off",
        pattern=rf"ImportError: lib(?P<library>{TOOLKIT})\.so(?P<soname>[.\d]*)(?!\S)(?!.*cannot open)",
        title="lib{library}.so{soname} is not found",
        judge=_by_age,
        sways=_MAJOR_SWAYS,
        decides="the CUDA that is installed, and the CuPy: --assume toolkit=, --assume cupy=",
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
        sways=_MAJOR_SWAYS,
        decides="the CUDA that is installed (nvcc --version, pip list), and the CuPy",
    ),
    Signature(
        "ld.static-tls",
        _LD,
        ("static tls block",),
        ((Cause.JETSON_TEGRA, 0.5), (Cause.LIBRARY_PATH_CONFLICT, 0.2)),
        f"{_DLERROR}; on aarch64, where libraries loaded late find no room",
        pattern=r"cannot allocate memory in static TLS block",
        needs=("cupy", "cuda"),
        decides="whether this is a Jetson board, and whether importing that library first helps",
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
        sways=(
            # To CuPy cuDNN is optional; a framework for Windows has linked it.
            Sway("dll-named", Cause.WINDOWS_DLL_LOAD_FAILURE, 60),
            Sway("cupy", Cause.WINDOWS_DLL_LOAD_FAILURE, 0.25),
            Sway("cupy", Cause.CUDA_LIBRARY_MISSING, 0.2),
            Sway("cupy", Cause.OPTIONAL_LIBRARY_MISSING, 2),
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
        decides="which file is taken: LD_DEBUG=libs, or gpuenv doctor",
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
        sways=(
            Sway("rocm", Cause.ROCM_MISMATCH, 60),
            Sway("windows", Cause.WINDOWS_DLL_LOAD_FAILURE, 8),
            Sway("numpy-error", Cause.NUMPY_INCOMPATIBLE, 10),
        ),
        decides="the last line of the traceback, which names the library or symbol",
    ),
    Signature(
        "ld.driver-symbol",
        _LD,
        ("undefined symbol: cu", "undefined symbol: nvml"),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.7), (Cause.LIBRARY_PATH_CONFLICT, 0.2)),
        f"{_DLERROR}; cuda.h and nvml.h: only the driver's libraries have functions of these names",
        pattern=r"undefined symbol: (?:cu(?-i:[A-Z])\w+|nvml(?-i:[A-Z])\w+)",
        title="The driver's library lacks a function that the program calls: the driver is older",
        decides="the driver's version, and which libcuda is loaded",
    ),
)
