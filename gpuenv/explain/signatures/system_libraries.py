"""Messages of the loaders of glibc and musl about the C and C++ libraries, and of other users of CUDA libraries."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

_VERSIONS = "glibc 2.36, elf/dl-version.c, dl-lookup.c and dl-load.c"

# A program that is neither Python nor of CUDA asks for its own: a browser, an editor, a JavaScript engine.
_OF_A_PROGRAM = r"[^()]{0,20}\(required by (?!\S*(?:\.so|python|conda|mamba|nv\w|cuda|cupy|ptxas|jax|torch|tensorrt|trt))[^\s()]{1,120}\)"

SIGNATURES = (
    Signature(
        "ld.libstdcxx",
        "ld.so",
        ("glibcxx_", "cxxabi_"),
        ((Cause.LIBSTDCXX_MISMATCH, 0.95),),
        _VERSIONS,
        pattern=rf"version [`'\"]?(?P<symbol>(?:GLIBCXX|CXXABI)_[\d.]+)['\"]? (?:is )?(?:not found|required)(?!{_OF_A_PROGRAM})",
        title="The libstdc++ that is found first is too old: it lacks {symbol}",
    ),
    Signature(
        "ld.glibc",
        "ld.so",
        ("glibc_",),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.85), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.05)),
        _VERSIONS,
        pattern=r"version [`'\"]?(?P<symbol>GLIBC_[\d.]+)['\"]? (?:is )?(?:not found|required)",
        title="The C library is older than the binaries need: it lacks {symbol}",
        modifiers=(
            Modifier("python-itself", Cause.TARGET_ENVIRONMENT_BROKEN, 40),
            Modifier("python-itself", Cause.PLATFORM_WHEEL_MISSING, 0.15),
        ),
        requires=("cupy", "cuda", "conda", "torch-error"),
    ),
    Signature(
        "ld.glibc-of-module",
        "ld.so, of an extension module",
        ("glibc_",),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.72), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.03)),
        _VERSIONS,
        pattern=(
            r"(?:ImportError|OSError|loading shared librar\w+)\b.{0,120}version [`'\"]?(?P<symbol>GLIBC_[\d.]+)['\"]? (?:is )?not found"
            r"|version [`'\"]?GLIBC_[\d.]+['\"]? (?:is )?not found \(required by \S*(?:-packages/|\.cpython-|\.abi3)"
        ),
        title="The C library is older than the wheel or the module was built for",
    ),
    Signature(
        "ld.libstdcxx-symbol",
        "ld.so",
        ("glibcxx_", "cxxabi_"),
        ((Cause.LIBSTDCXX_MISMATCH, 0.9),),
        _VERSIONS,
        pattern=(
            r"(?<!version )[`'\"](?P<symbol>(?:GLIBCXX|CXXABI)_[\d.]+)['\"] (?:is )?not found|undefined symbol: \w+, version (?:GLIBCXX|CXXABI)_[\d.]+"
            r"|symbol \w+, version (?:GLIBCXX|CXXABI)_[\d.]+ not defined in file libstdc\+\+"
        ),
        title="The libstdc++ that is found first is too old",
    ),
    Signature(
        "musl.foreign-binary",
        "ld.so of musl",
        ("error relocating", "needed by", "ld-linux"),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.76), (Cause.CONTAINER_TOOLKIT_BROKEN, 0.06)),
        "musl 1.2, ldso/dynlink.c: a file that was made for glibc on a system that has musl",
        pattern=(
            r"Error relocating \S*(?:-packages/|libcu|libnv|nvidia|cupy)\S*: \w+: symbol not found"
            r"|Error loading shared library ld-linux-\S+: No such file or directory \(needed by \S*(?:-packages/|libcu|libnv|nvidia|cupy)"
        ),
        title="The files are made for glibc, and this system has musl",
        modifiers=(Modifier("container", Cause.CONTAINER_TOOLKIT_BROKEN, 2),),
    ),
    Signature(
        "library.other-owner",
        "the text around an error",
        (
            "cannot load library",
            "could not load library",
            "librmm",
            "libmxnet",
            "_ext.",
            "libtensorflow",
            "libcudf",
            "lightgbm",
            *("pycuda", "libdgl", "native tensorflow runtime", "libthc"),
        ),
        (),
        "cffi, ctypes and ld.so name the library or module that wants another one",
        pattern=(
            r"Could not load library lib\S+ Error: |cannot load library '(?![^']*cupy)[^']{1,160}': |/(?:site|dist)-packages/(?!cupy)\w+/\S*: ?lib\w+\.so"
            r"|native TensorFlow runtime|\blibTHC\b|\b(?:librmm|libcudf|libmxnet|libdgl|libtensorflow\w*|_pywrap_tensorflow\w*|lib_lightgbm)\b"
        ),
        level=Level.EVIDENCE,
        evidence="other-owner",
    ),
    Signature(
        "told.library-not-loaded",
        "reports",
        ("libcudnn", "libnccl", "libcutensor", "libcusparselt", "libcublas", "libcufft", "libcusolver", "libcudart")
        + ("libnvrtc", "libcusparse", "libcurand"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.5),),
        "ld.so's message, retold",
        pattern=(
            r"\blib(?P<name>cudnn\w*|nccl|cutensor\w*|cusparseLt|cublas\w*|cufft|cusolver|cusparse|curand|cudart)\.so[.\d]*(?: and lib\w+\.so[.\d]*)? "
            r"(?:(?:do|does|did|could|can|is|are|was|were)(?:n't|nt| not|not) |fails? to (?:be )?)(?:be )?(?:load\w*|found|opened|open|find)\b"
            r"|\b(?:fails?|failed|unable|cannot|can't|could not|couldn't|does not|doesn't) (?:to )?(?:find|locate|see) (?:the )?lib(?P<missed>cudnn\w*|nccl|cutensor\w*|cusparseLt|cublas\w*|cufft|cusolver|cusparse|curand|cudart|nvrtc)\.so[.\d]*"
        ),
        weights_fn=lambda values: (
            ((Cause.OPTIONAL_LIBRARY_MISSING, 0.6), (Cause.CUDA_LIBRARY_MISSING, 0.12))
            if (values.get("name") or values["missed"]).lower().startswith(("cudnn", "nccl", "cutensor", "cusparselt"))
            else ((Cause.CUDA_LIBRARY_MISSING, 0.55), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.12))
        ),
        level=Level.WARNING,
        title="A CUDA library is not found",
    ),
    Signature(
        "windows.faulting-module",
        "Windows, event Application Error 1000",
        ("faulting module",),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.3), (Cause.CUPY_BUG, 0.2)),
        "Windows, event log: the module in which a program crashed",
        pattern=(
            r"Faulting module (?:name|path): .{0,160}?(?P<module>nvcuda(?:64)?\.dll|nvlddmkm|(?:cudart|cublas|cublasLt|cufft|cusolver|cusparse|curand|nvrtc|cudnn)\w*64_\w+\.dll|(?:_softlink|driver|runtime|core|\w{1,30})\.cp\d+-win_amd64\.pyd)"
        ),
        weights_fn=lambda values: (
            ((Cause.CUPY_BUG, 0.42), (Cause.LIBRARY_PATH_CONFLICT, 0.2), (Cause.CORRUPT_INSTALLATION, 0.1))
            if values["module"].lower().endswith(".pyd")
            else ((Cause.DRIVER_INSTALL_BROKEN, 0.3), (Cause.DRIVER_UNRESPONSIVE, 0.2))
            if values["module"].lower().startswith("nv") and "rtc" not in values["module"].lower()
            else ((Cause.LIBRARY_PATH_CONFLICT, 0.5), (Cause.TORCH_CUPY_CONFLICT, 0.15))
        ),
        requires=("cupy", "cuda", "cupy-pyd"),
        title="The program crashed inside of {module}",
        decisive_fact="whether the newest CuPy of the line and the newest driver do the same",
    ),
    Signature(
        "mark.cupy-pyd",
        "the text around an error",
        ("_softlink.",),
        (),
        "CuPy's wheels for Windows: cupy_backends/cuda/_softlink",
        pattern=r"\b_softlink\.cp\d+-win",
        level=Level.EVIDENCE,
        evidence="cupy-pyd",
    ),
)
