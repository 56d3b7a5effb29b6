"""Which packages, programs and files are a driver's, or bring one along. Pure.

NVIDIA's CUDA Installation Guide for Linux, Meta Packages (read November 2026): ``cuda``, ``cuda-X-Y`` and
``cuda-runtime-X-Y`` bring the driver, ``cuda-toolkit*``, ``cuda-libraries*`` and ``cuda-cudart*`` do not. Debian's and
Ubuntu's names of the driver's packages: packages.debian.org and packages.ubuntu.com.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_PACKAGES = re.compile(
    r"(?:"
    r"nvidia-(?:driver|headless|utils|dkms|kernel|open|smi|compute-utils|firmware|settings|fabricmanager)(?:[-_.].*)?"
    r"|libnvidia-(?:compute|ml|cfg|decode|encode|extra|gl|common|fbc|nvcuvid|ptxjitcompiler)[-\d].*"
    r"|libnvidia-ml1|libcuda1(?:-.*)?|libnvcuvid1"
    r"|cuda-drivers(?:-.*)?|cuda-runtime-\d+-\d+|cuda-\d+-\d+|cuda"
    r"|xserver-xorg-video-nvidia.*|akmod-nvidia.*|kmod-nvidia.*|xorg-x11-drv-nvidia.*"
    r")"
)
_RUNFILE = re.compile(r"NVIDIA-Linux-[\w.-]+\.run")
_CUDA_RUNFILE = re.compile(r"cuda_[\d.]+(?:_[\d.]+)?_linux(?:_[a-z0-9]+)?\.run")
_LIBRARY = re.compile(r"lib(?:cuda|nvidia-ml|nvcuvid|nvidia-ptxjitcompiler)\.so[\d.]*$")
_INSTALL = re.compile(r"\b(?:apt-get|apt|aptitude|yum|dnf|microdnf|zypper|apk)\b[^&|;]*?\b(?:install|add)\b([^&|;]*)")


def is_driver_package(word: str) -> bool:
    """Whether a package, as one writes it for apt or dnf, is a driver's or brings one."""
    return bool(_PACKAGES.fullmatch(re.split(r"[=:/<>]", word)[0]))


def is_driver_library(path: str) -> bool:
    """Whether a file is one of the driver's libraries; those of a compatibility package are not meant."""
    return bool(_LIBRARY.search(path)) and "/compat/" not in path and "/stubs/" not in path


def runfile(words: Sequence[str]) -> str | None:
    """The installer that puts a driver in place: the driver's own, or CUDA's where it is told to or not told not to."""
    for word in words:
        name = word.rsplit("/", 1)[-1]
        if _RUNFILE.fullmatch(name):
            return name
        if _CUDA_RUNFILE.fullmatch(name) and ("--driver" in words or not {"--toolkit", "--samples"} & set(words)):
            return name
    return None


def driver_in(step: str) -> str | None:
    """The first package or file of a driver that a step of an image's history brings."""
    for match in _INSTALL.finditer(step):
        for word in match[1].split():
            if is_driver_package(word):
                return word
    copied = step.split("COPY", 1)[1].split() if "COPY" in step else []
    return next((word for word in copied if is_driver_library(word)), None)
