"""Types, modes and arguments that CuPy and cupyx refuse, most of which NumPy and SciPy accept."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.model.causes import Cause

_CUPY = "CuPy"
_WHEELS = "cupy-cuda101 8.6.0 and cupy-cuda12x 13.6.0, what the files of cupy and cupyx raise"

SIGNATURES = (
    Signature(
        "cupy.types-apart",
        _CUPY,
        (
            *(
                "no loop matching",
                "same dtype (actual",
                "must be compatible with input",
                "be promoted",
                "type promoted",
            ),
            *("with dtypes", "conversion for types", "data type mismatch", "incorrect dtype", "type mismatch"),
        ),
        ((Cause.DTYPE_MISMATCH, 0.76), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.1)),
        f"{_WHEELS}: cublas.py, _core/_gufuncs.py, _math/sumprod.py, array_api, cupyx/jit, cupyx/scipy/sparse",
        pattern=(
            r"No loop matching the specified signature and casting was found for ufunc|must be the same dtype \(actual: "
            r"|dtype of `to_\w+` must be compatible with input|scalars (?:can only|cannot) be promoted with|cannot be type promoted together"
            r"|Cannot perform \S+ with dtypes |no supported conversion for types: |(?:Data type|Type) mismatch (?:of variable|in conditional expression)"
            r"|Incorrect dtype \"[^\"]{1,40}\" provided"
        ),
        title="The types of the arrays do not agree",
        requires=("cupy",),
    ),
    Signature(
        "cupy.type-refused",
        _CUPY,
        (
            *("unsupported in linalg", "complex dtype", "complex type", "complex output type", "dtype (actual"),
            *("output type not supported", "for nccl", "for complex dtype", "geru or gerc", "supported for dlpack"),
            *("only float and double and", "data type not supported", "is supported, and both must"),
        ),
        ((Cause.DTYPE_MISMATCH, 0.5), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.34)),
        f"{_WHEELS}: linalg, cublas.py, cupyx/scipy, cupyx/distributed, _core/dlpack.pyx",
        pattern=(
            r"float16 is unsupported in linalg|\bcomplex (?:output )?d?types? (?:are |is )?(?:not (?:currently )?|un)supported|must have complex dtype"
            r"|unsupp?o?rted dtype \(actual: |(?:Error|Exception): (?:output type|data type) not supported|Unknown dtype \S+ for NCCL"
            r"|Use (?:dotu\(\) or dotc\(\)|geru or gerc) for complex dtype|dtype is not supported for dlpack"
            r"|Only float and double and cuComplex"
        ),
        title="CuPy does not take arrays of this type there",
        requires=("cupy",),
        modifiers=(Modifier("numpy-does", Cause.NUMPY_SEMANTICS_DIFFERENCE, 6),),
        decisive_fact="whether NumPy or SciPy takes the same array there",
    ),
    Signature(
        "cupy.not-yet",
        _CUPY,
        (
            *("not supported yet", "not yet supported", "mode not supported", "mode is not supported", "order not"),
            *(
                "not currently supported",
                "currently not supported",
                "is not supported except",
                "trim is not",
                "order is not",
            ),
            *("f-order arrays is not", "only two-dimensional sparse", "only up to three axes", "footprint is not"),
            *(
                "inputs are not supported",
                "more than 1 output",
                "not implemented in the cupy",
                "axes are not supported",
            ),
        ),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.66), (Cause.CUPY_BUG, 0.12)),
        f"{_WHEELS}: _creation, _indexing, _manipulation, fft, cupyx/scipy/ndimage, signal, sparse and interpolate",
        pattern=(
            r"(?:\w+Error|Exception|Warning): (?:'?[\w ]{1,60}'? )?(?:is |are )?(?:not yet supported|not supported yet|(?:not currently|currently not) supported)\b"
            r"|(?:boundary|interpolation) mode (?:is )?not supported(?! \(actual)|spline order (?:is )?not supported|\w+Error: General subsets of FFT axes not currently supported"
            r"|Indexing with sparse matrices is not supported except|Multi-?dimensional (?:trim is|inputs are) not supported"
            r"|PlanNd for F-order arrays is not supported|Only two-dimensional sparse arrays are supported|Only up to three axes is supported"
            r"|all-zero footprint is not supported|\w+Error: mode '\w+' is not supported"
        ),
        title="NumPy or SciPy does this, CuPy does not",
        requires=("cupy",),
    ),
    Signature(
        "cupyx.boundary-mode",
        "cupyx.scipy.ndimage",
        ("boundary mode not supported (actual",),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.46), (Cause.CUPY_BUG, 0.4)),
        f"{_WHEELS}: cupyx/scipy/ndimage/_util.py; SciPy names no actual mode",
        title="cupyx.scipy.ndimage refuses a boundary mode that SciPy may take",
        decisive_fact="whether scipy.ndimage takes the same mode",
    ),
    Signature(
        "cupyx.shape-refused",
        "cupyx.scipy.ndimage",
        ("affine shape", "affine matrix", "array has incorrect shape", "output shape not correct", "equal rank"),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.5), (Cause.CUPY_BUG, 0.3)),
        f"{_WHEELS}: cupyx/scipy/ndimage/_interpolation.py, _filters_core.py, _measurements.py and _util.py",
        pattern=(
            r"RuntimeError: (?:improper affine shape|no proper affine matrix provided|(?:structure|footprint|\w+) array has incorrect shape"
            r"|output shape not correct|structure and input must have equal rank)"
        ),
        title="cupyx.scipy.ndimage refuses an argument of this shape",
        requires=("cupy",),
        decisive_fact="whether scipy.ndimage takes the same arguments",
    ),
    Signature(
        "cupy.wants-its-own",
        _CUPY,
        (
            *("must be cupyx.", "lists of cupy ndarrays", "must be cupy arrays", "use cupy.linalg.norm"),
            *("must be csr sparse", "must be scipy.sparse"),
        ),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.6), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.25)),
        f"{_WHEELS}: cupyx/scipy/sparse/linalg, cupyx/cusparse.py, _indexing",
        pattern=(
            r"\b\w+ must be cupyx\.scipy\.sparse\.\w+|choicelist only accepts lists of cupy ndarrays|elements of multi_index must be cupy arrays"
            r"|input is not sparse\. use cupy\.linalg\.norm|\w must be CSR sparse matrix"
        ),
        title="A function of CuPy was given an array or matrix that is not one of CuPy's",
        requires=("cupy",),
        decisive_fact="whether the argument is one of NumPy's or SciPy's",
    ),
    Signature(
        "cupy.fusion",
        "CuPy, functions under cupy.fuse",
        ("_fusion", "_arrayproxy", "_scalarproxy", "in cupy.fuse", "fusion supports", "cupy.fuse"),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.6), (Cause.CUPY_BUG, 0.2)),
        f"{_WHEELS}: _core/_fusion_interface.py, fusion.pyx and new_fusion.pyx",
        pattern=(
            r"'_(?:Fusion\w*|ArrayProxy|ScalarProxy)' object (?:has no attribute|is not|does not|cannot|of type)|Cannot convert to Python scalar in cupy\.fuse"
            r"|The fusion supports `\[\.\.\.\]`|(?:must be|cannot be|not supported).{0,40}\b(?:in|by|under) (?:cupy\.)?fus(?:e|ion)\b|'_(?:Fusion\w*|ArrayProxy|ScalarProxy)' and '"
        ),
        title="The function does under cupy.fuse what only an array can do",
    ),
    Signature(
        "cupy.modules-moved",
        "CPython, of CuPy since 8",
        ("no module named 'cupy.cuda.", "no module named 'cupy.c", "cupy.cuda."),
        ((Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.86), (Cause.CORRUPT_INSTALLATION, 0.06)),
        "the wheels of CuPy 7 and 8: cupy/cuda had modules of these names up to 7, since then cupy_backends has them",
        pattern=r"No module named '?cupy\.cuda\.(?P<name>cublas|curand|cusolver|cusparse|nvrtc|driver)\b",
        title="cupy.cuda.{name} is a module only up to CuPy 7: the library above is of that time",
    ),
    Signature(
        "cupy.dlpack-host",
        _CUPY,
        ("backs the incoming dlpack", "dlpack tensor", "unsupported device in dltensor"),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.76), (Cause.ROCM_MISMATCH, 0.08)),
        "CuPy 8 to 14, _core/dlpack.pyx: DLPackMemory; NumPy, _core/src/multiarray/dlpack.c",
        pattern=(
            r"CuPy is built against CUDA, different from the backend that backs the incoming"
            r"|Unsupported device in DLTensor(?!\. Only CUDA)"
        ),
        title="A DLPack tensor of the host was handed to CuPy, or one of the GPU to NumPy",
    ),
    Signature(
        "cupy.dlpack-used",
        "CuPy, NumPy, torch",
        ("consumed multiple times", "invalid capsule", "exported too new major"),
        ((Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.5), (Cause.CUPY_BUG, 0.1)),
        "CuPy 13 and 14, _core/dlpack.pyx; torch, csrc/utils/tensor_new.cpp: a capsule is named by the version of DLPack",
        pattern=(
            r"from_dlpack received an invalid capsule|DLPack tensor object cannot be consumed multiple times|DLPack exported too new major version"
        ),
        title="The two sides do not speak the same version of DLPack, or the tensor was taken twice",
        decisive_fact="the releases of CuPy and of the library that took or gave the tensor",
    ),
    Signature(
        "cupyx.install-library",
        "cupyx.tools.install_library",
        (
            "the cuda version specified is not supported",
            "currently this tool only supports",
            "library/cuda combination",
        ),
        ((Cause.OPTIONAL_LIBRARY_MISSING, 0.66),),
        f"{_WHEELS}: cupyx/tools/install_library.py",
        pattern=(
            r"The CUDA version specified is not supported\. Should be one of|Currently this tool only supports \S+ or \S+ architecture for NCCL"
            r"|Specified library/CUDA combination not supported"
        ),
        title="CuPy's tool has no such optional library for this CUDA or platform",
    ),
    Signature(
        "cupy.no-cl",
        _CUPY,
        ("cl.exe could not be found", "failed to find cl.exe"),
        ((Cause.CUDA_PATH_WRONG, 0.55), (Cause.CUPY_SDIST_BUILD_FAILURE, 0.15)),
        f"{_WHEELS}: cuda/compiler.py, the host compiler that nvcc needs on Windows",
        pattern=r"cl\.exe could not be found in|Failed to find cl\.exe with setuptools",
        title="The host compiler that nvcc needs on Windows is not found",
        decisive_fact="whether the build tools of Visual Studio are installed, and PATH names cl.exe",
    ),
    Signature(
        "cupy.generated-code",
        "NVRTC and nvcc, of a kernel that CuPy writes itself",
        (
            "type_in0",
            "type_in1",
            "type_out0",
            "in0_type",
            "out0_type",
            "/include/cupy/",
            "\\include\\cupy\\",
            ".cuh(",
            ".cubin.cu",
        ),
        ((Cause.CUPY_BUG, 0.46), (Cause.DTYPE_MISMATCH, 0.18), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.1)),
        "CuPy 5 to 14, _core/_kernel.pyx and _reduction.pyx: the names of types in generated kernels; NVRTC's front end",
        pattern=(
            r"\berror:.{0,120}\b_?type_(?:in|out)\d(?:_raw)?\b|\berror:.{0,120}\b(?:in|out)\d_type\b|operand types are: _?type_(?:in|out)\d"
            r"|[/\\]include[/\\]cupy[/\\][\w/\\]{0,40}\w+\.cuh\(\d+\): error"
        ),
        title="A kernel that CuPy itself has written does not compile",
        modifiers=(
            Modifier("user-kernel", Cause.CUPY_BUG, 0.3),
            Modifier("user-kernel", Cause.DTYPE_MISMATCH, 3),
        ),
        decisive_fact="the types of the arrays, and whether the newest CuPy of the line does the same",
    ),
    Signature(
        "cupy.own-slip",
        _CUPY,
        ("cupy/", "cupyx/", "cupy\\", "cupyx\\"),
        ((Cause.CUPY_BUG, 0.5), (Cause.CORRUPT_INSTALLATION, 0.06)),
        "CPython's traceback: the exception of a slip comes right after a frame of CuPy's own Python code",
        pattern=(
            r"\bcupyx?[/\\](?!testing)[\w/\\.]{1,120}(?:\"?, line \d+|:\d+),? in \w+(?:\([^)]*\))? "
            r"(?:KeyError|UnboundLocalError|NameError|ZeroDivisionError|AssertionError|RecursionError)\b"
        ),
        title="CuPy's own code failed where it did not mean to",
        decisive_fact="whether the newest CuPy of the line does the same",
    ),
    Signature(
        "cupy.private-sources",
        "gcc and MSVC, of CuPy's own headers",
        (
            "cupy_cusparse.h",
            "cupy_cusolver.h",
            "cupy_cublas.h",
            "cupy_backends/",
            "cupy/cuda/",
            "cupy_cuda.h",
            "cupy_hip",
        ),
        ((Cause.CUPY_SDIST_BUILD_FAILURE, 0.5), (Cause.CUPY_BUG, 0.36)),
        "CuPy 4 to 9, cupy/cuda and cupy_backends/cuda: headers that declare what a CUDA of their time lacks",
        pattern=(
            r"(?:cupy_backends|cupy/cuda)/\S*\bcupy_\w+\.h:\d+:\d+: (?:fatal )?error: (?:conflicting declaration|redefinition|redeclaration|.{0,40}has not been declared|multiple definition|previous declaration|conflicting types)"
        ),
        title="The headers of this CuPy do not fit the CUDA that it is built with",
        modifiers=(Modifier("rocm", Cause.ROCM_MISMATCH, 20),),
        decisive_fact="whether this release of CuPy knows that CUDA: gpuenv matrix show --full",
    ),
)
