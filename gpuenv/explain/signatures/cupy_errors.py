"""Errors and warnings of CuPy itself, and the errors of a missing CuPy."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.cupy_names import EVER, SINCE_LONG, SOMETIMES
from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_SLIP = (
    r"(?:AssertionError|UnboundLocalError|SystemError|ZeroDivisionError|NameError|KeyError|IndexError|OverflowError)\b"
)
_OLD_MODULES = "util|core|prof|sparse|binary|creation|cupyx_util|statistics"


def _missing_name_weights(values: Mapping[str, str]) -> Weights:
    """Every CuPy has it, some have it, or none: its files are gone, its release is another, or only NumPy has it."""
    if values["name"] in SINCE_LONG:
        return (
            (Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.48),
            (Cause.CORRUPT_INSTALLATION, 0.3),
            (Cause.MULTIPLE_CUPY_PACKAGES, 0.14),
        )
    if values["name"] in EVER:
        return ((Cause.CORRUPT_INSTALLATION, 0.6), (Cause.MULTIPLE_CUPY_PACKAGES, 0.25))
    if values["name"] in SOMETIMES:
        return ((Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.7), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.15))
    return ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.45), (Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.42))


def _core_import_weights(values: Mapping[str, str]) -> Weights:
    """Importing ``cupyx`` first names it in the error even where all of CuPy is missing."""
    if values.get("beside"):
        return ((Cause.CUPY_NOT_INSTALLED, 0.6), (Cause.CORRUPT_INSTALLATION, 0.3))
    return ((Cause.CORRUPT_INSTALLATION, 0.85), (Cause.MULTIPLE_CUPY_PACKAGES, 0.06))


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
        # Who caught the error and warns goes on without CuPy.
        modifiers=(Modifier("import-caught", Cause.OPTIONAL_LIBRARY_PROBE_MISREAD, 14),),
    ),
    Signature(
        "cupy.core-not-built",
        "CPython, of CuPy up to 7",
        ("cannot import name",),
        ((Cause.CUPY_SDIST_BUILD_FAILURE, 0.6), (Cause.CORRUPT_INSTALLATION, 0.2), (Cause.CUDA_LIBRARY_MISSING, 0.08)),
        "CPython, ImportError; CuPy up to 7 was installed without its extension modules where the build found no CUDA",
        pattern=r"cannot import name '?(?:core|cublas|curand)'?(?! from 'cupy\w)(?=$|\s*[(.]|\s)",
        title="CuPy was built from source without its CUDA parts",
        requires=("cupy", "cuda"),
        decisive_fact="how CuPy was installed: the log of pip install",
    ),
    Signature(
        "cupy.files-missing",
        "CPython",
        ("no module named 'cupy", "cannot import name", "module 'cupy' has no attribute", "cupy_backends"),
        ((Cause.CORRUPT_INSTALLATION, 0.85), (Cause.MULTIPLE_CUPY_PACKAGES, 0.06)),
        "CPython, ModuleNotFoundError, ImportError and AttributeError on names that every CuPy has",
        pattern=(
            r"No module named '(?!cupy\.cuda\.(?:cublas|curand|cusolver|cusparse|nvrtc|driver)\b)(?:cupy\.(?:cuda|_core|_environment|_version|random|fft|linalg|_creation)[\w.]*|cupy_backends[\w.]*|(?P<beside>cupyx))'(?<!nccl')(?<!cudnn')(?<!cutensor')"
            r"|cannot import name '(?:_core|_environment|_version|core|cuda|_kernel|ndarray|fusion)' from (?:partially initialized module )?'cupy"
        ),
        title="Files of CuPy are missing",
        weights_fn=_core_import_weights,
        modifiers=(
            Modifier("own-cupy-file", Cause.CORRUPT_INSTALLATION, 0.8),
            Modifier("cupy-asks", Cause.CORRUPT_INSTALLATION, 0.35),
            Modifier("cupy-asks", Cause.CUPY_BUG, 30),
        ),
    ),
    Signature(
        "cupy.api-changed",
        "programs above CuPy",
        ("cupy",),
        ((Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.86),),
        "CuPy, Upgrade Guide: what each major version removed; chainer, backends/cuda.py",
        pattern=(
            rf"No module named '?cupy\.(?:{_OLD_MODULES})\b|cannot import name '\w+' from '(?:cupy|cupyx)[\w.]*'(?! \(unknown)"
            rf"|module 'cupy\.cuda' has no attribute '(?!nccl|cudnn|cutensor)\w+'|module 'cupy(?:x)?(?:\.(?!cuda'|cuda\.nccl'|scipy\b|(?:linalg|fft|random|polynomial|ma|lib)')\w+)+' has no attribute '\w+'"
            rf"|(?<!you )(?<!project )(?:requires?|needs) cupy\S* ?(?:[<>=~!]=?) ?\d|cupy (?:version )?\d\S* is (?:not supported|too (?:old|new)|incompatible)"
            r"|\b\w+ \S+ requires cupy\S*[<>=~!]\S+, but you have"
        ),
        unless=r"\b(?:which|that) (?:fits|is (?:fine|ok|compatible|new enough|allowed))\b|\b(?:is|are) (?:satisfied|met|fulfilled)\b|already satisfied",
        title="A library above CuPy needs another version of it",
        modifiers=(
            Modifier("cupy-files", Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.5),
            # It is CuPy itself that asks for a module of its own: no library above it is involved.
            Modifier("cupy-asks", Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.08),
            Modifier("cupy-asks", Cause.CUPY_BUG, 50),
            Modifier("cupy-asks", Cause.CORRUPT_INSTALLATION, 25),
            Modifier("cupy-asks-at-start", Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.1),
            Modifier("cupy-asks-at-start", Cause.CORRUPT_INSTALLATION, 25),
        ),
    ),
    Signature(
        "cupyx.scipy-name",
        "programs above CuPy",
        ("module 'cupyx.scipy",),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.6), (Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.3)),
        "CPython, AttributeError; CuPy documentation, Routines (SciPy): a part of SciPy's",
        pattern=r"module 'cupyx\.scipy[\w.]*' has no attribute '\w+'",
        title="CuPy has a part of SciPy's functions, and this one not, or not in this release",
    ),
    Signature(
        "cupy.missing-name",
        "programs above CuPy",
        ("module 'cupy' has no attribute", "from 'cupy'"),
        ((Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.45), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.42)),
        "CPython, AttributeError and ImportError; the names of CuPy's releases 4 to 14: gpuenv/explain/cupy_names.py",
        pattern=r"module 'cupy' has no attribute '(?P<name>\w+)'(?! \(consider)",
        title="CuPy has no {name} there: files of it are missing, its release is another, or NumPy alone has it",
        weights_fn=_missing_name_weights,
        # What CuPy's own files do not find in it yet, they import in a circle.
        modifiers=(
            Modifier("cupy-file-frame", Cause.CUPY_BUG, 45),
            Modifier("cupy-file-frame", Cause.CORRUPT_INSTALLATION, 0.5),
        ),
        decisive_fact="the CuPy release: --assume cupy=NAME==VERSION",
    ),
    Signature(
        "cupy.part-missing-name",
        "programs above CuPy",
        ("module 'cupy.",),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.48), (Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.42)),
        "CPython, AttributeError; CuPy documentation, Routines: the parts that it has as NumPy has them",
        pattern=r"module 'cupy\.(?:linalg|fft|random|polynomial|ma|lib)' has no attribute '\w+'",
        title="CuPy has a part of NumPy's functions, and this one not, or not in this release",
        decisive_fact="whether NumPy has it, and since which release CuPy does",
    ),
    Signature(
        "cupyx.missing-name",
        "programs above CuPy",
        ("module 'cupyx",),
        ((Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.42), (Cause.CUPY_BUG, 0.3)),
        "CPython, AttributeError: a module of cupyx that must be imported by itself, or that the release lacks",
        pattern=r"module 'cupyx' has no attribute '\w+'",
        decisive_fact="the CuPy release, and whether importing that module by its full name helps",
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
        decisive_fact="the original error that follows it",
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
        modifiers=(
            Modifier("torch-there", Cause.TORCH_CUPY_CONFLICT, 4),
            Modifier("torch-error", Cause.TORCH_CUPY_CONFLICT, 3),
        ),
        level=Level.WARNING,
        requires=("cupy-crash-frame", "cupy-there", "toolkit-there"),
        decisive_fact="the libraries that are loaded, from /proc/PID/maps or gpuenv doctor",
    ),
    Signature(
        "cupy.assertion",
        "CuPy",
        (".pyx", ".pxi", "exception ignored in: 'cupy"),
        ((Cause.CUPY_BUG, 0.78),),
        "CPython's traceback: an assertion or an internal slip in CuPy's own compiled code",
        pattern=(
            rf"Exception ignored in: 'cupy\S*' {_SLIP}|(?:AssertionError|SystemError)\s+Exception ignored in: 'cupy"
            rf"|cupy\w*[/.\\][\w/.\\]*\.p(?:yx|xi)\"?,? line \d+, in [\w.]+ {_SLIP}"
        ),
        title="An assertion inside of CuPy failed",
        decisive_fact="whether the newest CuPy of the line does the same",
    ),
    Signature(
        "cupy.init-slip",
        "CuPy",
        ("in init cupy",),
        ((Cause.CUPY_BUG, 0.7), (Cause.CUPY_SDIST_BUILD_FAILURE, 0.1)),
        "CPython's traceback: a slip while a compiled module of CuPy starts, before anything of the program runs",
        pattern=r"\.pyx\"?,? line \d+, in init cupy[\w.]* (?:AttributeError|NameError|KeyError|UnboundLocalError|TypeError)(?!.*numpy)",
        title="CuPy fails while it is imported, in its own code",
        decisive_fact="whether the newest CuPy of the line does the same, and how this one was built",
    ),
    Signature(
        "cupy.init-attribute",
        "CPython",
        ("objects is not writable",),
        ((Cause.CUPY_BUG, 0.6), (Cause.CUPY_SDIST_BUILD_FAILURE, 0.2)),
        "CPython, Objects/methodobject.c: a compiled function that a newer Cython made of another kind",
        pattern=r"attribute '__\w+__' of 'builtin_function_or_method' objects is not writable",
        requires=("cupy",),
        decisive_fact="the Cython that built this CuPy",
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
        decisive_fact="the path that Python prints for cupy.__file__",
    ),
    Signature(
        "cupy.unknown-accelerator",
        "CuPy",
        ("unknown accelerator",),
        ((Cause.CUPY_VARIABLE_INVALID, 0.6),),
        "cupy-cuda12x 13.6.0 and 14.2.0, imported with CUPY_ACCELERATORS=cudnn: cupy/_core/_accelerator.pyx",
        pattern=r"ValueError: Unknown accelerator: ?(?P<name>.*)",
        title="CUPY_ACCELERATORS names an accelerator that CuPy does not know: {name}",
        modifiers=(Modifier("cupy", Cause.CUPY_VARIABLE_INVALID, 9),),
        decisive_fact="whether it is CuPy that says so: another library may have accelerators too",
    ),
)
