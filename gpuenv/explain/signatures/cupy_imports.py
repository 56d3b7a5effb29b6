"""Messages where import cupy, or the first kernel, lacks something other than CuPy's own files.

The texts are those of cupy-cuda12x 13.6.0, 14.1.0 and 14.2.0, run without what each of them needs (2026-11-22).
"""

from __future__ import annotations

from gpuenv.explain.explanation_types import Signature
from gpuenv.model.causes import Cause

SIGNATURES = (
    Signature(
        "cupy.dependency",
        "CPython",
        ("cuda.pathfinder", "fastrlock", "no module named 'cuda'"),
        ((Cause.CORRUPT_INSTALLATION, 0.8), (Cause.CUPY_SHADOWED, 0.06)),
        "cupy-cuda12x 14.2.0 without cuda-pathfinder, 13.6.0 without fastrlock",
        pattern=r"No module named '(?P<name>cuda(?:\.pathfinder)?|fastrlock)'(?!;)",
        title="CuPy needs the module {name}, and that is not installed",
        requires=("cupy",),
        decisive_fact="what pip check says in the target",
    ),
    Signature(
        "cupy.optional-module",
        "CPython",
        ("cupy.cuda", "cupy_backends.cuda"),
        ((Cause.OPTIONAL_LIBRARY_MISSING, 0.6), (Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.25)),
        "CuPy, cupy/cuda/__init__.py: modules of optional libraries, and stand-ins where those are not there",
        pattern=(
            r"module '(?:cupy\.cuda|cupy_backends\.cuda\.libs)\.(?:nccl|cudnn|cutensor|cusparselt)' has no attribute"
            r"|module 'cupy\.cuda' has no attribute '(?:nccl|cudnn|cutensor|cusparselt)'"
        ),
        title="CuPy was built, or runs, without that optional library",
        decisive_fact="what cupy.show_config() says of NCCL, cuDNN and cuTENSOR",
    ),
    Signature(
        "cupy.old-pathfinder",
        "CPython",
        ("find_nvidia_binary_utility",),
        ((Cause.CORRUPT_INSTALLATION, 0.88),),
        "cupy-cuda12x 14.2.0 beside cuda-pathfinder 1.0.0",
        pattern=r"cannot import name '?find_nvidia_binary_utility",
        title="The cuda-pathfinder there is older than this CuPy needs",
    ),
    Signature(
        "python.shadowed-cuda",
        "the Python interpreter",
        ("'cuda' is not a package",),
        ((Cause.CUPY_SHADOWED, 0.9),),
        "CPython 3.11, importlib._bootstrap; run with a cuda.py beside the program",
        pattern=r"No module named 'cuda\.\w+'; 'cuda' is not a package",
        title="A file named cuda.py is imported in place of NVIDIA's package",
    ),
    Signature(
        "cupy.no-temporary-folder",
        "CPython",
        ("no usable temporary directory",),
        ((Cause.KERNEL_CACHE_UNWRITABLE, 0.85),),
        "CPython, Lib/tempfile.py; cupy/cuda/compiler.py: compile_using_nvrtc",
        pattern=r"No usable temporary directory(?: name)? found",
        title="There is no folder for temporary files, into which CuPy puts a source while it is compiled",
        requires=("cupy",),
    ),
    Signature(
        "cupy.variable-number",
        "CuPy",
        ("invalid literal for int()", "could not convert string to float"),
        ((Cause.CUPY_VARIABLE_INVALID, 0.9),),
        "cupy-cuda12x 14.2.0, imported with CUPY_ENABLE_UMP=yes and CUPY_CUDA_PER_THREAD_DEFAULT_STREAM=yes",
        pattern=(
            r"in init cupy\S* ValueError: invalid literal for int\(\)"
            r"|_parse_limit_string ValueError: (?:invalid literal for int\(\)|could not convert string to float)"
        ),
        title="A variable of CuPy's, whose name begins with CUPY_, holds no number where one is needed",
        decisive_fact="env | grep CUPY_",
    ),
    Signature(
        "cupy.empty-cache-folder",
        "CuPy",
        ("no such file or directory: ''",),
        ((Cause.CUPY_VARIABLE_INVALID, 0.9),),
        "cupy-cuda12x 14.1.0 and 14.2.0, imported with CUPY_CACHE_DIR set and empty",
        title="CUPY_CACHE_DIR is set and empty",
        requires=("cupy-cache-frame",),
    ),
    Signature(
        "uvm.no-room",
        "the driver's log",
        ("request_free_mem_region",),
        ((Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.93),),
        "CUDA 13.2 Update 1, Release Notes, Known Issues: CUDA initialization with KASLR",
        pattern=r"nvidia-uvm: .*request_free_mem_region\(\) err",
        title="The kernel gives CUDA's memory manager no room: turn HMM off (uvm_disable_hmm=1)",
    ),
    Signature(
        "nvrm.no-firmware",
        "the driver's log",
        ("firmware load for nvidia/", "no firmware image found"),
        ((Cause.DRIVER_INSTALL_BROKEN, 0.85), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.08)),
        "Linux, drivers/base/firmware_loader/main.c; open-gpu-kernel-modules: RmFetchGspRmImages",
        pattern=r"\bnvidia [\w:.]+: Direct firmware load for nvidia/\S+ failed|NVRM: .*No firmware image found",
        title="The driver does not find its firmware for the GPU",
    ),
)
