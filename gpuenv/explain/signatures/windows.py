"""Messages of the loader of Windows, directly and through Python."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.explain.signatures.loader import DLLS
from gpuenv.model.causes import Cause

SIGNATURES = (
    Signature(
        "windows.cuda-dll",
        "Windows",
        ("dll",),
        ((Cause.WINDOWS_DLL_LOAD_FAILURE, 0.48), (Cause.CUDA_LIBRARY_MISSING, 0.42)),
        "CuPy, cupy_backends/cuda/_softlink.pyx and cupyx/_runtime.py; Windows loader, error 126",
        pattern=(
            rf"failed to load {DLLS}(?!: FileNotFoundError)|(?:could not load|cannot find|unable to load).{{0,60}}{DLLS}"
            rf"|{DLLS}['\"]?(?: was)? (?<!-> )not found(?! \(or)|Could not locate {DLLS}"
            rf"|because {DLLS} (?:was not found|is missing)|{DLLS} (?:is|was) missing\b"
        ),
        title="A CUDA DLL is not found",
        decisive_fact="whether the DLL is in CUDA_PATH\\bin, or in a package of the environment",
    ),
    Signature(
        "windows.dll-list",
        "CuPy on Windows",
        (".dll -> not found",),
        ((Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.55), (Cause.WINDOWS_DLL_LOAD_FAILURE, 0.4)),
        "CuPy, cupy/_environment.py: _diagnose_win32_dll_load",
        pattern=rf"{DLLS} -> not found",
        title="CuPy's wheel wants CUDA DLLs that are not there",
        modifiers=(Modifier("cuda-major-differs", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 8),),
        decisive_fact="the CUDA that is installed: CUDA_PATH, and the framework beside it",
    ),
    Signature(
        "windows.dll-load-failed",
        "CPython on Windows",
        ("dll load failed",),
        ((Cause.WINDOWS_DLL_LOAD_FAILURE, 0.82), (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.1)),
        "CPython, Python/dynload_win.c",
        pattern=r"DLL load failed(?:: | while importing (?!driver\b)\w+)",
        title="A DLL on which CuPy depends is not found, and Windows does not say which",
        requires=("cupy", "cuda"),
        modifiers=(
            # Where torch was imported first, its CUDA DLLs are in the process already.
            Modifier("torch-first", Cause.TORCH_CUPY_CONFLICT, 60),
            Modifier("torch-first", Cause.WINDOWS_DLL_LOAD_FAILURE, 0.5),
            # It is found, and lacks a function: it is of another version.
            Modifier("dll-lacks-procedure", Cause.LIBRARY_PATH_CONFLICT, 20),
            Modifier("dll-lacks-procedure", Cause.WINDOWS_DLL_LOAD_FAILURE, 0.6),
        ),
        decisive_fact="which CUDA the wheel is for, and which DLLs CUDA_PATH\\bin has",
    ),
    Signature(
        "windows.error-126",
        "the loader of Windows",
        ("winerror 126", "winerror 127", "failed with error 126", "zlibwapi.dll"),
        ((Cause.WINDOWS_DLL_LOAD_FAILURE, 0.7), (Cause.CUDA_LIBRARY_MISSING, 0.15)),
        "Windows, ERROR_MOD_NOT_FOUND and ERROR_PROC_NOT_FOUND, in CPython's OSError; cuDNN 8 needs zlibwapi.dll",
        pattern=r"\[WinError 12[67]\]|LoadLibrary failed with error 126 |(?:Could not locate|cannot find) zlibwapi\.dll",
        title="A DLL, or one that it depends on, is not found",
        requires=("cupy", "cuda"),
    ),
    Signature(
        "windows.error-193",
        "the loader of Windows",
        ("winerror 193",),
        ((Cause.WINDOWS_DLL_LOAD_FAILURE, 0.5), (Cause.CORRUPT_INSTALLATION, 0.36)),
        "Windows, ERROR_BAD_EXE_FORMAT: a DLL of 32 bits, or a damaged one",
        title="A DLL is damaged, or of 32 bits in a process of 64",
        requires=("cupy", "cuda"),
    ),
    Signature(
        "windows.module-not-found",
        "CPython on Windows",
        ("could not find module",),
        ((Cause.WINDOWS_DLL_LOAD_FAILURE, 0.8), (Cause.CUDA_LIBRARY_MISSING, 0.08)),
        "CPython, Lib/ctypes/__init__.py and Modules/_ctypes/callproc.c: load_library, error 126",
        pattern=rf"Could not find module '(?!.*(?:{DLLS}|cudart|nvcuda|nvvm)).*' \(or one of its dependencies\)",
        title="A DLL that a program loads, or one that it depends on, is not found",
        requires=("cupy", "cuda"),
        decisive_fact="which CUDA it was built with, and which DLLs CUDA_PATH\\bin has",
    ),
    Signature(
        "windows.dll-driver",
        "CPython on Windows",
        ("dll load failed while importing driver", "nvcuda.dll"),
        ((Cause.NO_DRIVER, 0.62), (Cause.WINDOWS_DLL_LOAD_FAILURE, 0.32)),
        "CPython, Python/dynload_win.c; CuPy, cupy_backends.cuda.api.driver links nvcuda.dll",
        pattern=r"DLL load failed while importing driver|nvcuda\.dll.{0,60}(?:not found|could not|missing|cannot)|(?:find|load) module '?nvcuda\.dll",
        title="nvcuda.dll, which only the display driver brings, is not found",
        decisive_fact="whether nvidia-smi works on this Windows machine",
    ),
)
