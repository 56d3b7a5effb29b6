"""What CuPy raises and warns of itself, and what its absence looks like."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.records import Level, Signature, Sway, Weights
from gpuenv.model.causes import Cause

_CUPY = "CuPy"
_OLD_MODULES = "util|core|prof|sparse|binary|creation|cupyx_util|statistics"
_EVER_THERE = (
    "show_config|ndarray|array|cuda|__version__|zeros|ones|asarray|arange|get_default_memory_pool|float32|float64|RawKernel|"
    "asnumpy|empty|random|linalg|fft|dot|sum|ElementwiseKernel|fuse|is_available|get_array_module"
)


def _limited(values: Mapping[str, str]) -> Weights:
    """A pool's own limit refused it where the request alone would have fitted."""
    asked, limit = (int(values[name].replace(",", "")) if name in values else None for name in ("asked", "limit"))
    if limit is not None and asked is not None and asked <= limit:
        return ((Cause.MEMORY_POOL_RETENTION, 0.72), (Cause.OUT_OF_MEMORY, 0.25))
    return ((Cause.OUT_OF_MEMORY, 0.92), (Cause.MEMORY_POOL_RETENTION, 0.05))


SIGNATURES = (
    Signature(
        "cupy.memory",
        _CUPY,
        ("out of memory allocating",),
        ((Cause.OUT_OF_MEMORY, 0.92),),
        "CuPy, cupy.cuda.memory.OutOfMemoryError",
        pattern=(
            r"Out of memory allocating (?P<asked>[\d,]+) bytes \(allocated so far: (?P<held>[\d,]+) bytes"
            r"(?:, limit set to: (?P<limit>[\d,]+) bytes)?|Out of memory allocating"
        ),
        title="CuPy could not allocate {asked} bytes",
        judge=_limited,
        decides="how much the pool holds without use: cupy.get_default_memory_pool().free_bytes()",
    ),
    Signature(
        "cupy.pool-retention",
        "CuPy and torch",
        (
            "free_bytes",
            "memory pool",
            "mempool",
            "reserved but unallocated",
            "reserved by pytorch",
            "not released",
            "not freed",
        ),
        ((Cause.MEMORY_POOL_RETENTION, 0.5), (Cause.OUT_OF_MEMORY, 0.2)),
        "cupy.get_default_memory_pool; torch, CUDACachingAllocator.cpp",
        pattern=(
            r"(?:GPU memory|device memory|VRAM|mempool|memory pool)\b.{0,60}(?:not (?:being )?(?:released|freed|returned)|still (?:held|reserved|in use) after)"
            r"|used_bytes\W+0\b.{0,60}(?:total_bytes|free_bytes)\W+[1-9]\d{6,}"
        ),
        level=Level.WARNING,
        title="The memory pool holds memory that no array uses",
        decides="used_bytes and total_bytes of the memory pool",
        needs=("cupy", "cuda"),
    ),
    Signature(
        "cupy.implicit-conversion",
        _CUPY,
        ("implicit conversion to a",),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.95),),
        "CuPy, _core/core.pyx: __array__; cudf, frame.py",
        title="A GPU array was handed to code that wants a NumPy array",
    ),
    Signature(
        "cupy.unsupported-type",
        _CUPY,
        ("unsupported type <class",),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.8), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.12)),
        "CuPy, _core/_kernel.pyx: _preprocess_args",
        pattern=r"Unsupported type <class '(?:numpy\.\w+|pandas\.\S+|torch\.Tensor)'>",
        title="A host array was handed to a function of CuPy",
    ),
    Signature(
        "cupy.unsupported-list",
        _CUPY,
        (
            "unsupported type <class",
            "expected cupy",
            "does not support",
            "only supports",
            "non-scalar",
            "unsupported dtype",
        ),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.82),),
        "CuPy, _core/_kernel.pyx and core.pyx; CuPy documentation, Differences between CuPy and NumPy",
        pattern=(
            r"Unsupported type <class '(?:list|tuple|str|range|NoneType|object|dict|set)'>|Unsupported dtype (?:object|<U\d*|\|S\d*|datetime\S*|\[|O)"
            r"|cupy\S* (?:does not|doesn't|do not) (?:yet )?support|only cupy\.ndarray\S* (?:is|are) supported|non-scalar numpy\.ndarray cannot be used"
            r"|(?:operands?|arguments?|inputs?) must be (?:a )?cupy\.ndarray"
        ),
        title="NumPy does this, CuPy does not or does it differently",
    ),
    Signature(
        "cupy.semantics",
        "CuPy's arrays in code written for NumPy",
        ("cupy",),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.68), (Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.12)),
        "CuPy documentation, Differences between CuPy and NumPy: zero-dimensional arrays, indices, lists",
        pattern=(
            r"'cupy\.(?:_core\.core\.|core\.core\.)?ndarray' object (?:cannot be interpreted|is not (?:iterable|callable|subscriptable)|has no attribute)"
            r"|(?:only integer scalar arrays|index arrays|list indices).{0,60}cupy|NotImplementedError:.{0,80}\bcupy\b|cupy\S*.{0,60}NotImplementedError"
            r"|cupy\.\w+(?:\.\w+)* is not (?:implemented|supported)|unhashable type: 'cupy"
        ),
    ),
    Signature(
        "cupy.cross-device",
        _CUPY,
        ("array device must be same", "different from the current device", "device where the array resides"),
        ((Cause.CROSS_DEVICE_ARRAY, 0.95),),
        "CuPy, _core/_kernel.pyx: _check_peer_access and _preprocess_args",
        pattern=r"Array device must be same as the current device|device where the array resides .*is different from the current",
        title="An array of one GPU is used while another is current",
    ),
    Signature(
        "cupy.type-mismatch",
        "CuPy",
        (
            "type is mismatched",
            "wrong type",
            "ufunctypeerror",
            "cannot cast",
            "scalar type",
            "same dtype",
            "wrong dtype",
        ),
        ((Cause.DTYPE_MISMATCH, 0.82),),
        "CuPy, _core/_kernel.pyx: _guess_typenums; torch, Tensor type checks",
        pattern=(
            r"Type is mismatched\.? .*<class|cupy.{0,80}(?:Cannot cast|Wrong type \(|can't cast)|(?:Cannot cast|can't cast).{0,80}cupy"
            r"|expected (?:scalar type|mat1 and mat2|m1 and m2).{0,60}(?:same dtype|but found|but got|got)|Input type \(torch\.cuda\.\w+\) and weight type \(torch\.cuda\.\w+\) should be the same"
            r"|mat1 and mat2 must have the same dtype"
        ),
        title="The types of the arrays do not agree",
    ),
    Signature(
        "cupy.rawkernel-type",
        "CuPy",
        ("float", "double", "dtype"),
        ((Cause.DTYPE_MISMATCH, 0.7),),
        "CuPy documentation, User-Defined Kernels: Kernel Arguments",
        pattern=(
            r"RawKernel.{0,80}(?:Python )?floats? .{0,40}(?:double|float64)|kernel argument.{0,60}(?:dtype|type) (?:does not match|mismatch)"
            r"|cupy.{0,60}dtypes? (?:must match|do not match|mismatch|not (?:the )?same)|dtype mismatch.{0,60}(?:cupy|cuda|gpu)"
        ),
    ),
    Signature(
        "cupy.not-installed",
        "CPython",
        ("no module named 'cupy'", "no module named cupy", "cupy is not installed", "cupy"),
        ((Cause.CUPY_NOT_INSTALLED, 0.92),),
        "CPython, ModuleNotFoundError; thinc, spacy, chainer, cuml: their own words",
        pattern=(
            r"No module named '?cupy'?(?![\w.'])|\bcupy\b (?:module |package |library )?(?:is|was) not (?:installed|found)|(?:can't|cannot|could not) find (?:the )?(?:module |package )?['`]?cupy\b"
            r"|(?:please|you need to|must|requires? you to|try to) (?:pip )?install ['`]?cupy\b|\bcupy\b(?: package)? (?:is required|must be installed|not installed|could not be imported|is missing)"
        ),
        title="CuPy is not in the environment that runs",
    ),
    Signature(
        "cupy.files-missing",
        "CPython",
        ("no module named 'cupy", "cannot import name", "module 'cupy' has no attribute", "cupy_backends"),
        ((Cause.CORRUPT_INSTALLATION, 0.85), (Cause.MULTIPLE_CUPY_PACKAGES, 0.06)),
        "CPython, ModuleNotFoundError, ImportError and AttributeError on names that every CuPy has",
        pattern=(
            r"No module named '(?:cupy\.(?:cuda|_core|_environment|_version|random|fft|linalg|_creation)[\w.]*|cupy_backends[\w.]*|cupyx)'(?<!nccl')(?<!cudnn')(?<!cutensor')"
            r"|cannot import name '(?:_core|_environment|_version|core|cuda|_kernel|ndarray|fusion)' from (?:partially initialized module )?'cupy"
            rf"|module 'cupy' has no attribute '(?:{_EVER_THERE})'"
        ),
        title="Files of CuPy are missing",
        sways=(Sway("own-cupy-file", Cause.CORRUPT_INSTALLATION, 0.8),),
    ),
    Signature(
        "cupy.api-changed",
        "programs above CuPy",
        ("cupy",),
        ((Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.86),),
        "CuPy, Upgrade Guide: what each major version removed; chainer, backends/cuda.py",
        pattern=(
            rf"No module named '?cupy\.(?:{_OLD_MODULES})\b|cannot import name '\w+' from '(?:cupy|cupyx)[\w.]*'(?! \(unknown)"
            rf"|module 'cupy\.cuda' has no attribute '(?!nccl|cudnn|cutensor)\w+'|module 'cupy(?:x)?(?:\.\w+)+' has no attribute '\w+'"
            rf"|(?:requires?|needs) cupy\S* ?(?:[<>=~!]=?) ?\d|cupy (?:version )?\d\S* is (?:not supported|too (?:old|new)|incompatible)"
            r"|\w+ \S+ requires cupy\S*[<>=~!]\S+, but you have"
        ),
        title="A library above CuPy needs another version of it",
        sways=(Sway("cupy-files", Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.5),),
    ),
    Signature(
        "cupy.unknown-function",
        "programs above CuPy",
        ("module 'cupy' has no attribute",),
        ((Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.45), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.42)),
        "CPython, AttributeError; CuPy documentation, Comparison Table: functions that are not there",
        pattern=rf"module 'cupy' has no attribute '(?!(?:{_EVER_THERE})')(?P<name>\w+)'",
        title="CuPy has no {name}: it was removed, is not there yet, or exists in NumPy alone",
        decides="the CuPy release: --assume cupy=NAME==VERSION",
    ),
    Signature(
        "chainer.environment",
        "Chainer",
        ("cuda environment is not correctly set up",),
        (
            (Cause.CUPY_NOT_INSTALLED, 0.3),
            (Cause.CUPY_SDIST_BUILD_FAILURE, 0.3),
            (Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.2),
        ),
        "chainer, backends/cuda.py: check_cuda_available",
        level=Level.WARNING,
        decides="the original error that follows it",
    ),
    Signature(
        "cupy.cache-unwritable",
        "CuPy and the system",
        ("permission", "read-only file system", "no space left", "winerror", "disk quota"),
        ((Cause.KERNEL_CACHE_UNWRITABLE, 0.9),),
        "CuPy, cupy/cuda/compiler.py and jitify.pyx: the kernel cache; errno EACCES, EROFS, ENOSPC, EDQUOT",
        pattern=(
            r"(?:Permission denied|Read-only file system|No space left on device|Disk quota exceeded|\[WinError (?:123|5|3)\]).*(?:kernel_cache|jitify_cache|\.cupy\b|cupy_cache|CUPY_CACHE|\.cubin)"
            r"|(?:kernel_cache|jitify_cache|\.cupy[/\\]|cupy_cache|\.cubin).*(?:Permission denied|Read-only file system|No space left|Disk quota)"
        ),
        title="CuPy cannot write its kernel cache",
    ),
    Signature(
        "cupy.cache-race",
        "CuPy and the system",
        ("kernel_cache", "jitify_cache", ".cubin", "cupy_cache", ".cupy"),
        ((Cause.KERNEL_CACHE_RACE, 0.82), (Cause.KERNEL_CACHE_UNWRITABLE, 0.12)),
        "CuPy, cupy/cuda/compiler.py: tempfile and shutil.move in the kernel cache; errno EEXIST, ESTALE, EBUSY",
        pattern=(
            r"(?:\[WinError (?:32|183|17)\]|used by another process|FileExistsError|File exists|Stale file handle|Text file busy|Device or resource busy|Resource temporarily unavailable|Directory not empty).*(?:kernel_cache|jitify_cache|\.cubin|cupy_cache|\.cupy\b)"
            r"|(?:kernel_cache|jitify_cache|\.cubin|cupy_cache).*(?:used by another process|File exists|Stale file handle|truncated|EOFError|corrupted)"
        ),
        title="Several processes write one kernel cache",
    ),
    Signature(
        "cupy.cache-vanished",
        "CuPy and the system",
        ("filenotfounderror", "no such file"),
        ((Cause.KERNEL_CACHE_RACE, 0.5), (Cause.KERNEL_CACHE_UNWRITABLE, 0.42)),
        "CuPy, cupy/cuda/compiler.py: a temporary file of the kernel cache; errno ENOENT",
        pattern=r"(?:FileNotFoundError|No such file).*(?:kernel_cache|jitify_cache|\.cubin|cupy_cache)",
        title="A file in the kernel cache is gone: another process moved it, or its folder cannot be made",
        decides="whether several processes or users share the folder, and who may write it",
    ),
    Signature(
        "cupy.assertion",
        "CuPy",
        (".pyx", ".pxi"),
        ((Cause.CUPY_BUG, 0.78),),
        "CPython's traceback: an assertion or an internal slip in CuPy's own compiled code",
        pattern=(
            r"cupy\w*[/.\\][\w/.\\]*\.p(?:yx|xi)\"?,? line \d+, in [\w.]+ "
            r"(?:AssertionError|UnboundLocalError|SystemError|ZeroDivisionError|NameError|KeyError|IndexError|OverflowError)\b"
        ),
        title="An assertion inside of CuPy failed",
        decides="whether the newest CuPy of the line does the same",
    ),
    Signature(
        "cupy.internal-error",
        "CuPy",
        ("cupy",),
        ((Cause.CUPY_BUG, 0.62),),
        "CuPy, its own words for what should not happen",
        pattern=r"cupy.{0,80}(?:internal error|should not happen|please (?:report|file) (?:this|an issue|a bug))|(?:please (?:report|file) (?:this|an issue|a bug)).{0,60}cupy",
    ),
    Signature(
        "cupy.shadowed",
        "CPython",
        ("partially initialized module 'cupy'", "cupy.py"),
        ((Cause.CORRUPT_INSTALLATION, 0.5),),
        "CPython, AttributeError: circular import",
        pattern=r"partially initialized module 'cupy' has no attribute|(?:^|[\"' /\\])cupy\.py\"?,? line",
        title="A file named cupy.py hides CuPy",
        decides="the path that Python prints for cupy.__file__",
    ),
)
