"""What CuPy raises and warns of itself, and what its absence looks like."""

from __future__ import annotations

from gpuenv.explain.records import Level, Signature, Sway
from gpuenv.model.causes import Cause

_OLD_MODULES = "util|core|prof|sparse|binary|creation|cupyx_util|statistics"
_EVER_THERE = (
    "show_config|ndarray|array|cuda|__version__|zeros|ones|asarray|arange|get_default_memory_pool|float32|float64|RawKernel|"
    "asnumpy|empty|random|linalg|fft|dot|sum|ElementwiseKernel|fuse|is_available|get_array_module"
)

SIGNATURES = (
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
        "cupy.core-not-built",
        "CPython, of CuPy up to 7",
        ("cannot import name",),
        ((Cause.CUPY_SDIST_BUILD_FAILURE, 0.6), (Cause.CORRUPT_INSTALLATION, 0.2), (Cause.CUDA_LIBRARY_MISSING, 0.08)),
        "CPython, ImportError; CuPy up to 7 was installed without its extension modules where the build found no CUDA",
        pattern=r"cannot import name '?(?:core|cublas|curand)'?(?! from 'cupy\w)(?=$|\s*[(.]|\s)",
        title="CuPy was built from source without its CUDA parts",
        needs=("cupy", "cuda"),
        decides="how CuPy was installed: the log of pip install",
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
        "crash.segfault",
        "the shell and faulthandler",
        ("segmentation fault", "sigsegv", "access violation"),
        (
            (Cause.LIBRARY_PATH_CONFLICT, 0.28),
            (Cause.TORCH_CUPY_CONFLICT, 0.16),
            (Cause.OPTIONAL_LIBRARY_MISSING, 0.12),
            (Cause.CORRUPT_INSTALLATION, 0.1),
        ),
        "signal 11, beside what is known of a CUDA program: most often two versions of one library in a process",
        pattern=r"Segmentation fault|SIGSEGV|Windows fatal exception: access violation",
        sways=(Sway("torch-there", Cause.TORCH_CUPY_CONFLICT, 4), Sway("torch-error", Cause.TORCH_CUPY_CONFLICT, 3)),
        level=Level.WARNING,
        needs=("cupy-crash-frame", "cupy-there", "toolkit-there"),
        decides="the libraries that are loaded, from /proc/PID/maps or gpuenv doctor",
    ),
    Signature(
        "cupy.assertion",
        "CuPy",
        (".pyx", ".pxi", "exception ignored in: 'cupy"),
        ((Cause.CUPY_BUG, 0.78),),
        "CPython's traceback: an assertion or an internal slip in CuPy's own compiled code",
        pattern=(
            r"(?:AssertionError|SystemError)\s+Exception ignored in: 'cupy|cupy\w*[/.\\][\w/.\\]*\.p(?:yx|xi)\"?,? line \d+, in [\w.]+ "
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
