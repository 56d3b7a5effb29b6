"""Messages of CuPy 7 to 14, from the strings of its wheels: about ROCm, host arrays, types, missing libraries."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

_CUPY = "CuPy"
_WHEELS = "the strings of the wheels of CuPy 7 to 14"

SIGNATURES = (
    Signature(
        "cupy.set-cuda-path",
        _CUPY,
        ("cuda path to environment variable", "set `cuda_path`", "`cuda_path`"),
        ((Cause.CUDA_PATH_WRONG, 0.82),),
        f"{_WHEELS}; CuPy 2 to 6, cupy/core/carray.pxi",
        pattern=r"set the CUDA path to environment variable `?CUDA_PATH|(?:set|specify) `CUDA_PATH`",
        title="CuPy does not know where the CUDA toolkit is",
    ),
    Signature(
        "cupy.device-runtime",
        _CUPY,
        ("cudadevrt",),
        ((Cause.CUDA_LIBRARY_MISSING, 0.78), (Cause.CUDA_PATH_WRONG, 0.12)),
        _WHEELS,
        pattern=r"cudadevrt is not found|cannot find -?l?cudadevrt|libcudadevrt\.a\S*: (?:no such|cannot open)",
        title="The toolkit's device runtime (cudadevrt) is not found",
    ),
    Signature(
        "cupy.built-without",
        _CUPY,
        ("thrust is needed", "reinstall cupy", "pylibraft", "cuvs", "nvtx is not installed", "cuquantum-python"),
        ((Cause.OPTIONAL_LIBRARY_MISSING, 0.72), (Cause.CUPY_SDIST_BUILD_FAILURE, 0.12)),
        _WHEELS,
        pattern=(
            r"Thrust is needed to use cupy|then reinstall CuPy|(?:pylibraft|nvtx) is not installed|cuVS \S+ \S+ or pylibraft .*should be installed"
            r"|forgot to install cuQuantum"
        ),
        title="A library that this function of CuPy needs is not there",
    ),
    Signature(
        "cupy.nccl-old",
        _CUPY,
        ("is not available in this version",),
        ((Cause.OPTIONAL_LIBRARY_MISSING, 0.7), (Cause.LIBRARY_PATH_CONFLICT, 0.15)),
        _WHEELS,
        pattern=r"nccl\w+ is not available in this version",
        title="The NCCL there is older than the function needs",
    ),
    Signature(
        "cupy.hip",
        "CuPy for ROCm",
        ("hip", "rocm", "backs the incoming"),
        ((Cause.ROCM_MISMATCH, 0.8),),
        _WHEELS,
        pattern=(
            r"\bHIP (?:does not|currently does not) (?:support|allow)|Failed to auto-detect ROCm root|(?:hipFFT|rocFFT|hipSPARSE)\S* (?:does not|currently cannot|'s)"
            r"|(?:not supported|unsupported|not implemented) (?:on|in|for) (?:HIP|ROCm)|requires ROCm|built against ROCm\S*, different from the backend that backs|could not find any hipcc"
        ),
        title="CuPy for ROCm does not have this, or does not find ROCm",
        evidence="rocm",
    ),
    Signature(
        "cupy.host-array",
        _CUPY,
        (
            *("cpu arrays cannot be", "cupy ndarry on cpu", "exported to cpu", "can be set to cupy.ndarray"),
            *("cupy arrays can be concatenated", "as a kernel parameter", "to be a cupy.ndarray", "to a cupy.ndarray"),
            "b must be cupy.ndarray",
        ),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.84), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.08)),
        _WHEELS,
        pattern=(
            r"CPU arrays cannot be (?:directly )?imported|Accessing a CuPy ndarr\w+ on CPU|GPU memory cannot be exported to CPU|Only numpy\.ndarray can be set to cupy"
            r"|Only cupy arrays can be concatenated|numpy\.ndarray of shape .* as a kernel parameter|required to be a cupy\.ndarray or a scalar|copying a numpy\.ndarray to a cupy\.ndarray"
            r"|\b\w must be cupy\.ndarray"
        ),
        title="A host array was handed to a function of CuPy, or a GPU array to the host",
    ),
    Signature(
        "cupy.other-device",
        _CUPY,
        ("between devices", "allocated in a different device"),
        ((Cause.CROSS_DEVICE_ARRAY, 0.84),),
        _WHEELS,
        pattern=r"cannot copy non-contiguous array between devices|is allocated in a different device",
        title="An array of one GPU is used on another",
    ),
    Signature(
        "cupy.dtype-words",
        _CUPY,
        ("only supports ", "bfloat16", "dtype is only supported", "invalid type cast", "dtype mismatch"),
        ((Cause.DTYPE_MISMATCH, 0.8),),
        _WHEELS,
        pattern=(
            r"cupy\.\w+\.at only supports .* as data type|CuPy does not support bfloat16|FP16 dtype is only supported on GPU|Invalid type cast in '"
            r"|(?:cutensor |output )?dtype mismatch(?: \(a:|: \(|: \S+ !=)"
        ),
        title="CuPy does not take this type there",
        requires=("cupy",),
    ),
    Signature(
        "cupy.numpy-words",
        _CUPY,
        ("masked arrays", "big-endian byte-order", "indexing is not supported, currently", "boolean subtract"),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.84),),
        _WHEELS,
        pattern=r"CuPy (?:currently )?does not support (?:masked arrays|the big-endian)|Advanced indexing is not supported, currently|cupy boolean subtract",
        title="NumPy does this, CuPy does not",
    ),
    Signature(
        "cupy.workspace",
        _CUPY,
        ("memory of workspace", "pinned memory ("),
        ((Cause.OUT_OF_MEMORY, 0.62),),
        _WHEELS,
        pattern=r"cuTENSOR: failed to allocate memory of workspace|pinned memory \(\d+ bytes\) could not be allocated",
        title="CuPy could not allocate memory, and goes on more slowly",
        level=Level.WARNING,
        decisive_fact="how much memory of the GPU and of the host is free",
    ),
    Signature(
        "cudart.zero-dimensions",
        "CUDA runtime",
        ("all dimensions must be nonzero",),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.93),),
        "libcudart 12.9 and 13, the strings of the binary",
        title="The grid or the block of a launch has a dimension of zero",
    ),
    Signature(
        "cupy.headers-cub",
        _CUPY,
        ("cub headers are not found", "cccl requires c++"),
        ((Cause.CUDA_HEADERS_MISSING, 0.7), (Cause.LIBRARY_PATH_CONFLICT, 0.15)),
        _WHEELS,
        title="CuPy does not find the headers of CUB",
    ),
    Signature(
        "pip.externally-managed",
        "pip and uv",
        ("externally-managed-environment", "externally managed"),
        ((Cause.TARGET_ENVIRONMENT_BROKEN, 0.55),),
        "PEP 668; pip, exceptions.py: ExternallyManagedEnvironment; uv: externally managed",
        pattern=r"error: externally-managed-environment|interpreter at \S+ is externally managed",
        title="This Python belongs to the operating system, which installs into it alone: a virtual environment is wanted",
        requires=("cupy", "cuda"),
        decisive_fact="whether a virtual environment was meant",
    ),
    Signature(
        "numba.disabled",
        "numba",
        ("numba_disable_cuda",),
        ((Cause.VISIBLE_DEVICES_HIDE_GPU, 0.62),),
        "numba/cuda/cudadrv/driver.py",
        pattern=r"CUDA is disabled due to setting NUMBA_DISABLE_CUDA|NUMBA_DISABLE_CUDA=1",
        title="A variable turns CUDA off for numba",
    ),
    Signature(
        "nvswitch.sxid",
        "the driver's log",
        ("sxid",),
        ((Cause.GPU_HARDWARE_FAULT, 0.62), (Cause.FABRIC_MANAGER_NOT_RUNNING, 0.2)),
        "NVIDIA Fabric Manager User Guide, NVSwitch SXid Errors",
        pattern=r"\bSXid\b ?\(PCI:[\w:.]+\): (?P<number>\d+), (?:Fatal|Non-fatal)",
        title="An NVSwitch reports SXid {number}",
        decisive_fact="the meaning of the SXid in NVIDIA's table, and the state of the fabric manager",
        modifiers=(Modifier("system-not-ready", Cause.FABRIC_MANAGER_NOT_RUNNING, 6),),
    ),
)
