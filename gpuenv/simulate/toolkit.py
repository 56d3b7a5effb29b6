"""The CUDA libraries of a pretend toolkit: files that load, of which NVRTC alone answers, with its release."""

from __future__ import annotations

import os
from pathlib import Path

from gpuenv.model.cuda_libraries import WANTED
from gpuenv.simulate.build import compile_library

NVRTC = "int nvrtcVersion(int *major, int *minor) {{ *major = {0}; *minor = {1}; return 0; }}\n"


def compile_toolkit(release: str, folder: Path) -> Path:
    """The folder with the libraries that CuPy loads of a CUDA release; compiled where they are not there yet.

    Args:
        release: such as ``12.4``.
        folder: where such folders are kept.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
    """
    libraries = folder / f"cuda-{release}"
    if libraries.is_dir():
        return libraries
    libraries.mkdir(parents=True)
    major, minor = map(int, release.split("."))
    nvrtc = folder / f"nvrtc-{release}.c"
    nvrtc.write_text(NVRTC.format(major, minor), encoding="utf-8")
    for library in WANTED[major]:
        source = nvrtc if library.name == "nvrtc" else Path(os.devnull)
        compile_library(source, library.soname, libraries / library.soname)
    return libraries
