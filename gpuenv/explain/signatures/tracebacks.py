"""Causes shown by the frames of a traceback, where its last line does not show them or is cut off."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause
from gpuenv.model.versions import ComputeCapability

_LAST_BY_MINOR = 10  # up to CUDA 10 each wheel line of CuPy was for one minor version
# CUDA Toolkit Release Notes, 12.0: Kepler (3.x) is removed; the PTX of XLA is of no CUDA before.
_FIRST_OF_CUDA_12 = ComputeCapability(5, 0)


def _wheel_weights(values: Mapping[str, str]) -> Weights:
    """The name of a wheel line holds the CUDA that it is for."""
    line, cuda = values["line"].lower(), values["cuda"].split(".")
    major, minor = (line[:-1], "x") if line.endswith("x") or int(line) < _LAST_BY_MINOR else (line[:-1], line[-1])
    same = int(major) == int(cuda[0]) and (int(major) > _LAST_BY_MINOR or len(cuda) == 1 or minor in {"x", cuda[1]})
    return () if same else ((Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.62),)


def _ptxas_weights(values: Mapping[str, str]) -> Weights:
    """What a compiler does not know is newer than it, but for what later ones have dropped."""
    older = ComputeCapability.parse(values["capability"]) < _FIRST_OF_CUDA_12 if "capability" in values else False
    if older:
        return ((Cause.GPU_REMOVED_FROM_TOOLKIT, 0.7), (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.1))
    return ((Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.8), (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.05))


SIGNATURES = (
    Signature(
        "told.other-wheel",
        "reports",
        ("cupy-cuda", "cupy_cuda"),
        ((Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.62),),
        "CuPy documentation, Installation: the wheel line of each CUDA",
        pattern=(
            r"\b(?:using|uses?|have|has|had|installed|with|on|is|runs?|machine|container|system|toolkit)\b.{0,24}\bCUDA (?:toolkit |version |runtime )?(?P<cuda>\d{1,2}(?:\.\d)?)\b.{0,120}\b(?:installed|got|have|has|using|uses|is|with|pulls|installs|but)\b.{0,40}\bcupy[-_]cuda(?P<line>\d{2,3}|\d\dx)\b"
        ),
        weights_fn=_wheel_weights,
        requires=("complaint",),
        level=Level.WARNING,
        title="The CuPy wheel there is for another CUDA than the one that is named",
        decisive_fact="the CUDA that is installed and the CuPy: --assume toolkit=VERSION, --assume cupy=NAME==VERSION",
    ),
    Signature(
        "numpy.of-two",
        "NumPy 2",
        ("can_cast() does not support python", "unable to avoid copy while creating an array"),
        ((Cause.NUMPY_INCOMPATIBLE, 0.72), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.1)),
        "NumPy 2.0 to 2.3, _core/src/multiarray: array_can_cast_safely, and PyArray_CheckFromAny_int",
        pattern=r"can_cast\(\) does not support Python ints|Unable to avoid copy while creating an array as requested",
        title="What CuPy asks of NumPy is no longer so in NumPy 2",
        requires=("cupy",),
        decisive_fact="the versions of NumPy and CuPy",
    ),
    Signature(
        "cupy.conda-headers",
        "CuPy",
        ("_get_conda_cuda_path", "_get_include_dir_from_conda_or_wheel"),
        ((Cause.MIXED_PIP_CONDA, 0.46), (Cause.CUPY_BUG, 0.3), (Cause.CUDA_HEADERS_MISSING, 0.1)),
        "CuPy 13 and 14, cupy/_environment.py: the headers are looked for where the CuPy there says that it is from",
        pattern=r"_get_conda_cuda_path\(\)|\bin _get_include_dir_from_conda_or_wheel",
        title="CuPy looks for CUDA's headers as one of conda's packages, or one of pip's, would",
        decisive_fact="whether pip list and conda list both show a CuPy",
    ),
    Signature(
        "cupy.conda-prefix",
        "CuPy",
        ("conda_prefix",),
        ((Cause.CUPY_BUG, 0.74),),
        "CuPy 14.0, cupy/_environment.py: a variable that only an activated environment has",
        pattern=r"\bKeyError: 'CONDA_PREFIX'",
        requires=("cupy",),
        title="CuPy relies on a variable that is set only where conda's environment is activated",
        decisive_fact="whether it works with the environment activated, and with the newest CuPy of the line",
    ),
    Signature(
        "cupy.second-import",
        "CPython",
        ("__reduce_cython__",),
        (
            (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.4),
            (Cause.CUDA_LIBRARY_MISSING, 0.22),
            (Cause.CORRUPT_INSTALLATION, 0.1),
        ),
        "Cython: what the second import of a module says, whose first one failed",
        pattern=r"type object 'cupy\S+' has no attribute '__reduce_cython__'",
        title="An earlier import of CuPy failed; this is the message of the next one",
        decisive_fact="the first error, in a new Python: most often a CUDA library that is not found",
    ),
    Signature(
        "cupy.builder-frames",
        "CuPy's setup",
        ("cupy_builder",),
        ((Cause.CUPY_SDIST_BUILD_FAILURE, 0.82),),
        "CuPy 10 to 14, install/cupy_builder: frames of a build",
        pattern=r"[/\\]cupy_builder[/\\]\w+\W{1,3}\w{2}\W{1,4}line \d+, in \w+|cupy_builder[/\\]\S+ .*(?:CalledProcessError|non-zero exit status|raise )",
        title="CuPy was built from source, and the build failed",
        evidence="building-cupy",
    ),
    Signature(
        "cupy.sdist-link",
        "the linkers of Windows and Linux",
        ("lnk2019", "lnk2001", "lnk1120", "undefined reference", "cannot find -lcu"),
        ((Cause.CUPY_SDIST_BUILD_FAILURE, 0.84),),
        "link.exe and ld, with a symbol that Cython made of a module of CuPy's",
        pattern=(
            r"LNK(?:2019|2001): unresolved external symbol .*__pyx_\w*cupy|undefined reference to .*(?:__pyx\w*cupy|\bcupy)|__pyx_\w*cupy\w*.*undefined reference"
            r"|cupy\S*\.obj : error LNK\d+"
        ),
        title="CuPy was built from source against another CUDA, or for another platform",
        evidence="building-cupy",
    ),
    Signature(
        "python.device-as-number",
        "programs that read CUDA_VISIBLE_DEVICES themselves",
        ("invalid literal for int()",),
        ((Cause.MIG_MISCONFIGURED, 0.74),),
        "CPython, int(); CUDA C++ Programming Guide, CUDA_VISIBLE_DEVICES: numbers, GPU-UUID or MIG-UUID",
        pattern=r"invalid literal for int\(\) with base 10: b?'(?P<kind>MIG|GPU)-",
        weights_fn=lambda values: (
            ((Cause.MIG_MISCONFIGURED, 0.74),)
            if values["kind"].upper() == "MIG"
            else ((Cause.VISIBLE_DEVICES_HIDE_GPU, 0.62), (Cause.INVALID_DEVICE_ORDINAL, 0.1))
        ),
        title="A program takes the name of a GPU or of a MIG instance in CUDA_VISIBLE_DEVICES for a number",
        decisive_fact="CUDA_VISIBLE_DEVICES, and whether it works with a number",
    ),
    Signature(
        "cupy.circular-import",
        "CPython",
        ("from partially initialized module 'cupy",),
        ((Cause.CUPY_BUG, 0.45), (Cause.CORRUPT_INSTALLATION, 0.25), (Cause.MULTIPLE_CUPY_PACKAGES, 0.1)),
        "CPython, ImportError: circular import, between modules of CuPy's own",
        pattern=r"cannot import name '(?!_core|_environment|_version|core|cuda|_kernel|ndarray|fusion)\w+' from partially initialized module 'cupy",
        title="Modules of CuPy import each other in a circle",
        decisive_fact="whether the newest CuPy of the line does the same, in an environment that has no other",
    ),
    Signature(
        "cupy.library-refused",
        "CuPy",
        (
            "cusparse_status_invalid_value",
            "cusolver_status_invalid_value",
            "cusparse_status_not_supported",
            "cutensor_status_invalid_value",
            "cutensor_status_not_supported",
            "curand_status_type_error",
        ),
        ((Cause.CUPY_BUG, 0.5), (Cause.DTYPE_MISMATCH, 0.1), (Cause.LIBRARY_PATH_CONFLICT, 0.08)),
        "cusparse.h, cusolver_common.h and cutensor/types.h: status enumerators; CuPy hands the arguments over",
        pattern=r"CU(?:SPARSE|SOLVER|TENSOR)_STATUS_(?:INVALID_VALUE|NOT_SUPPORTED)|CURAND_STATUS_TYPE_ERROR",
        title="A CUDA library refused the arguments that CuPy handed to it",
        requires=("cupy",),
        decisive_fact="whether the newest CuPy of the line does the same, and how large the arrays are",
        modifiers=(Modifier("ld-library-path", Cause.LIBRARY_PATH_CONFLICT, 6),),
    ),
    Signature(
        "nccl.multicast",
        "NCCL",
        ("nvls.cc",),
        ((Cause.FABRIC_MANAGER_NOT_RUNNING, 0.66), (Cause.CUDA_INITIALIZATION_FAILED, 0.08)),
        "NCCL, src/transport/nvls.cc: NVLink SHARP, multicast objects that the fabric manager sets up",
        pattern=r"transport/nvls\.cc:\d+ (?:NCCL WARN )?Cuda failure \d+",
        title="NVLink's multicast cannot be used: the fabric manager has not made it ready",
        decisive_fact="nvidia-smi -q, section Fabric, and whether it works with NCCL_NVLS_ENABLE=0",
    ),
    Signature(
        "xla.old-ptxas",
        "XLA and TensorFlow",
        ("ptxas does not support cc", "ptxas too old"),
        ((Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.8), (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.05)),
        "xla/stream_executor/gpu/asm_compiler.cc and cuda/subprocess_compilation.cc",
        pattern=r"ptxas does not support CC (?P<capability>\d{1,2}\.\d)|ptxas ptxas too old",
        weights_fn=_ptxas_weights,
        title="The ptxas that is found does not know the GPU",
        decisive_fact="which ptxas comes first in PATH, and of which CUDA it is",
    ),
    Signature(
        "torch.cudnn-probe",
        "torch",
        (
            "/miopen library not found",
            "cudnn library not found. check",
            "without cudnn/miopen support",
            "without cudnn support",
        ),
        ((Cause.OPTIONAL_LIBRARY_PROBE_MISREAD, 0.5), (Cause.OPTIONAL_LIBRARY_MISSING, 0.4)),
        "torch/backends/cudnn/__init__.py: is_acceptable warns, and torch goes on with kernels of its own",
        pattern=r"cuDNN(?:/MIOpen)? library not found\. Check your|PyTorch was compiled without cuDNN(?:/MIOpen)? support",
        title="torch goes on without cuDNN or MIOpen: the warning alone is no failure",
        decisive_fact="whether the program goes on behind the warning",
    ),
    Signature(
        "cudf.old-ptx",
        "cuDF",
        ("missing the necessary ptx files", "missing ptx files for"),
        ((Cause.NO_KERNEL_IMAGE, 0.85),),
        "cuDF 23.04 to 23.12, cudf/core/udf/utils.py: _get_ptx_file",
        pattern=r"installation is missing the necessary PTX files that are <= ?\d+|Missing PTX files for cc=\d+",
        title="cuDF's files hold no code for this GPU",
    ),
    Signature(
        "cupy.jitify-header",
        "Jitify, in CuPy",
        ("file not found",),
        ((Cause.CUDA_HEADERS_MISSING, 0.58), (Cause.CUDA_PATH_WRONG, 0.12)),
        "jitify.hpp: a header that is included and not in the folders of headers",
        pattern=(
            r"(?:\bwarning: (?=[\w./-]+\.(?:h|hpp|cuh): File)|(?=[\w./-]+: \[jitify\]))"
            r"(?P<header>[\w./-]+): (?:\[jitify\] )?File not found"
        ),
        level=Level.WARNING,
        evidence="header-not-found",
        requires=("cuda", "cupy"),
        unless=r"cupy_jitify_exercise|\.cuh\(\d+\): warning",  # CuPy tries its own out, and goes on without some
        title="The header {header}, which a kernel includes, is not found",
        decisive_fact="whether the toolkit's headers are installed, and where CUDA_PATH points",
    ),
)
