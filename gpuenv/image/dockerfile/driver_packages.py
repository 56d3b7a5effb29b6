"""Packages, installers and files of the NVIDIA driver, and packages that depend on it.

NVIDIA, CUDA Installation Guide for Linux 13.0 (read 2026-11-21), 4.12.2 Meta Packages, table 4, says that ``cuda``,
``cuda-X-Y`` and ``cuda-runtime-X-Y`` install the driver, and does not say so of ``cuda-toolkit*`` and
``cuda-libraries*``; 6.3 Advanced Options: the parts that the installer installs by default. The driver's packages, and
the packages that depend on them, are from the package lists of Debian 12 and unstable and of Ubuntu 24.04 with its
updates (2026-11-21). The names of RPMs (nvidia-driver-*, kmod-nvidia-*, akmod-nvidia, xorg-x11-drv-nvidia-*,
nvidia-compute-G06), and the installer's --samples of CUDA 10, were only seen in public scripts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuenv.image.dockerfile.shell import SHELLS

_PACKAGES = re.compile(
    r"(?:"
    r"nvidia-(?:tesla-|legacy-\d+xx-)?(?:\d{3}-)?"
    r"(?:driver|headless|utils|dkms|kernel|open|smi|compute-utils|firmware|settings|fabricmanager|opencl-icd|cuda-mps)"
    r"(?:[-_.].*)?"
    r"|libnvidia-(?:tesla-|legacy-\d+xx-)?(?:\d{3}-)?"
    r"(?:compute|cuda|ml|cfg|decode|encode|extra|gl|glcore|eglcore|gpucomp|common|fbc|nvcuvid|nvvm|compiler|"
    r"allocator|opticalflow|ptxjitcompiler|cudadebugger)(?:[-\d].*)?"
    r"|nvidia-(?:compute|gl|video)-G\d\d.*"
    r"|libcuda1(?:-.*)?|libcudadebugger1|libnvcuvid1|libnvoptix1"
    r"|cuda-drivers(?:-.*)?|cuda-runtime-\d+-\d+|cuda-\d+-\d+|cuda"
    r"|xserver-xorg-video-nvidia.*|akmod-nvidia.*|kmod-nvidia.*|xorg-x11-drv-nvidia.*"
    r")"
)
# Of Debian and Ubuntu: they depend on libcuda1, or on libnvidia-compute of a branch, and on NVML.
_DEPENDENTS = ("nvidia-cuda-toolkit", "nvidia-cuda-dev", "libnvidia-ml-dev")
_RUNFILE = re.compile(r"NVIDIA-Linux-[\w.-]+\.run")
_CUDA_RUNFILE = re.compile(r"cuda_[\d.]+(?:_[\d.]+)?_linux(?:_[a-z0-9]+)?\.run")
_LEAVES_OUT = re.compile(r"--(?:toolkit|samples|extract|uninstall)(?:=|$)")
_LIBRARY = re.compile(r"lib(?:cuda|nvidia-ml|nvcuvid|nvidia-ptxjitcompiler)\.so[\d.]*$")
_INSTALL = re.compile(r"\b(?:apt-get|apt|aptitude|yum|dnf|microdnf|zypper|apk)\b[^&|;]*?\b(?:install|add)\b([^&|;]*)")


def is_driver_package(word: str) -> bool:
    """Whether an argument of apt or dnf is a package of the driver, or a metapackage for it."""
    return bool(_PACKAGES.fullmatch(_name(word))) and not depends_on_driver(word)


def depends_on_driver(word: str) -> bool:
    """Whether a package with another purpose depends on the driver's libraries."""
    return _name(word) in _DEPENDENTS


def _name(word: str) -> str:
    return re.split(r"[=:/<>]", word)[0]


def is_driver_library(path: str) -> bool:
    """Whether a file is a library of the driver, not of a compatibility package or a stub."""
    return bool(_LIBRARY.search(path)) and "/compat/" not in path and "/stubs/" not in path


def runfile(words: Sequence[str]) -> str | None:
    """The installer that installs a driver: the driver's own, or CUDA's unless its options leave the driver out."""
    program = words[0].rsplit("/", 1)[-1] if words else ""
    if not (program.endswith(".run") or program in SHELLS):
        return None  # a download or chmod installs nothing
    for word in words:
        name = word.rsplit("/", 1)[-1]
        if _RUNFILE.fullmatch(name) and not {"-x", "--extract-only"} & set(words):
            return name
        if _CUDA_RUNFILE.fullmatch(name) and ("--driver" in words or not any(map(_LEAVES_OUT.match, words))):
            return name
    return None


def driver_in(step: str) -> str | None:
    """The first package or file of a driver that a step of an image's history installs or copies."""
    for match in _INSTALL.finditer(step):
        for word in match[1].split():
            if is_driver_package(word) or depends_on_driver(word):
                return word
    copied = step.split("COPY", 1)[1].split() if "COPY" in step else []
    return next((word for word in copied if is_driver_library(word)), None)
