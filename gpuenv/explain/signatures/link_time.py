"""Messages of linkers, and of loaders other than ld.so, about CUDA's libraries."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.explain.signatures.loader import TOOLKIT
from gpuenv.model.causes import Cause

_FILE = rf"(?:lib{TOOLKIT}\.so[.\d]{{0,20}}|{TOOLKIT}64_\w{{1,12}}\.dll)"

SIGNATURES = (
    Signature(
        "link.versioned-symbol",
        "GNU ld",
        ("undefined reference to",),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.85), (Cause.CUDA_LIBRARY_MISSING, 0.08)),
        "binutils, bfd/linker.c and ld/ldmain.c: undefined reference to `SYMBOL@VERSION'",
        pattern=rf"undefined reference to [`']\w{{1,80}}@@?lib{TOOLKIT}\.so",
        title="The linker takes a CUDA library of another version than the one that needs it",
        decisive_fact="which directories the linker searches first: the -L options and LIBRARY_PATH",
    ),
    Signature(
        "link.needed-not-found",
        "GNU ld",
        ("needed by", "rpath"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.5), (Cause.LIBRARY_PATH_CONFLICT, 0.38)),
        "binutils, ld/emultempl/elf.em and ldelf.c: needed by, not found",
        pattern=rf"\blib{TOOLKIT}\.so\S*, needed by \S+, not found|lib{TOOLKIT}\.so\S*, needed by \S+, may conflict with lib",
        title="A library needs a CUDA library that the linker does not find in this version",
        decisive_fact="which versions of that library are there: ldconfig -p, and the folders of LIBRARY_PATH",
    ),
    Signature(
        "link.not-found",
        "GNU ld, lld and gold",
        ("cannot find -l", "unable to find library -l", "cannot find library -l", "library not found for -l"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.5), (Cause.CUDA_PATH_WRONG, 0.38)),
        "binutils, ld/ldfile.c; lld, ELF/Driver.cpp; gold, fileread.cc",
        pattern=rf"(?:cannot find(?: library)?|unable to find library|library not found for) -l{TOOLKIT}\b",
        title="The linker does not find a CUDA library",
        modifiers=(
            Modifier("toolkit-there", Cause.CUDA_PATH_WRONG, 2),
            Modifier("cupy", Cause.CUPY_SDIST_BUILD_FAILURE, 15),
        ),
        decisive_fact="whether the toolkit is there and its lib64 folder is searched: CUDA_HOME, LIBRARY_PATH",
    ),
    Signature(
        "loader.toolkit-words",
        "programs that open CUDA's libraries themselves",
        ("cudart", "cublas", "cufft", "curand", "cusolver", "cusparse", "nvrtc", "nvjitlink", "cupti", "npp"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.62), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.1)),
        "CTranslate2, src/cuda/utils.cc and stubs; ONNX Runtime; bitsandbytes; JAX; Julia's Libdl",
        pattern=(
            rf"(?<!-> )(?<![/\\]){_FILE}['\"`]? (?:is |was )?(?:not found(?! \()|could not be (?:found|loaded|opened)|cannot be (?:found|loaded|opened)|can't be (?:found|loaded))"
            rf"|(?:did not contain|none of|could not find any of).{{0,40}}libcudart\.so"
            rf"|(?:unable to (?:find|load|locate|open|dlopen)|(?:could not|cannot|can't|couldn't) (?:find|locate|open|dlopen)|failed to (?:find|locate|open|dlopen)) (?:the )?(?:(?:shared|dynamic|CUDA|runtime) )*(?:library|file)? ?['\"`]?lib{TOOLKIT}\.so"
        ),
        title="A program does not find a CUDA library",
        modifiers=(
            Modifier("jetson", Cause.JETSON_TEGRA, 60),
            Modifier("cuda-major-differs", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 4),
            Modifier("windows", Cause.WINDOWS_DLL_LOAD_FAILURE, 15),
        ),
        decisive_fact="the CUDA that is installed (nvcc --version, pip list) and where it is searched",
    ),
    Signature(
        "tf.dso-loader",
        "TensorFlow",
        ("could not load dynamic library", "cannot dlopen some gpu libraries", "dynamic library"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.62), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.12)),
        "TensorFlow, dso_loader.cc and gpu_device.cc",
        pattern=rf"Could not load dynamic library '(?:lib)?{TOOLKIT}|Cannot dlopen some GPU libraries",
        level=Level.WARNING,
        title="TensorFlow does not find the CUDA libraries that it was built with",
    ),
    Signature(
        "dyld.toolkit-library",
        "the loader of macOS",
        ("library not loaded",),
        ((Cause.CUDA_LIBRARY_MISSING, 0.7), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.15)),
        "dyld, the strings of the program; CUDA for macOS ended with 10.2",
        pattern=rf"Library not loaded: \S*lib(?P<library>{TOOLKIT}|cuda)[.\d]*\.dylib",
        title="lib{library} is not found",
    ),
)
