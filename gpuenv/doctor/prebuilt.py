"""How the driver's module comes to the running kernel, by what has put it into the folder of another one. Pure.

Ubuntu's packages linux-modules-nvidia-* lay it into kernel/nvidia-BRANCH, with "srv" for the server's and "-open" for
the open one, for Ubuntu's own kernels (read off linux-signatures-nvidia-5.15.0-112-generic, and off the log of
ubuntu-drivers-common). DKMS uses updates/dkms on Debian and Ubuntu. NVIDIA's own installer without DKMS uses
kernel/drivers/video (INSTALL_MOD_DIR in the logs of the driver's own build).
"""

from __future__ import annotations

import re

from gpuenv.doctor.remedies import family, kernel_headers, module_build, restart
from gpuenv.model.finding import Fix
from gpuenv.model.pattern import pattern
from gpuenv.model.snapshot import Snapshot

_PREBUILT = pattern(r"(?P<kernel>[^/]+)/kernel/nvidia-(?P<branch>\d{1,4})(?P<server>srv)?(?P<open>-open)?/nvidia\.ko")
# 6.8.0-45-generic; the mainline builds have six digits in the middle (6.12.1-061201-generic).
_OF_UBUNTU = pattern(r"\d+\.\d+\.0-\d{1,4}-(?P<flavour>[a-z][a-z0-9-]*)")
# Which of a distribution's kernels it is: "arch" of 6.6.1-arch1-1, "cachyos" of 6.6.2-3-cachyos.
_WORDS = pattern(r"[a-z]{2,}")
_PACKAGED = ("rhel", "suse")  # whose usual way is a package of the module, without a tree of DKMS
_BY_DKMS, _BY_INSTALLER = "/updates/dkms/", "/kernel/drivers/video/"


def into_this_kernel(snapshot: Snapshot, kernel: str) -> tuple[Fix, ...]:
    """Words and commands; a package only where it is known that it has brought the module to another kernel."""
    files, others = snapshot.driver.module_files.value or (), snapshot.driver.module_kernels.value or ()
    if _by_dkms(snapshot, files):
        return _built_here(snapshot, kernel)
    package = _package(snapshot, kernel, files)
    if package:
        command = ("sudo", "apt-get", "install", package)
        return (Fix("Install the driver's module for this kernel, then load it.", command),)
    updated = [other for other in others if _WORDS.findall(other) == _WORDS.findall(kernel)]
    if updated and family(snapshot) == "arch":  # which keeps one release of each kernel: it was updated
        return (restart(snapshot, f"so that the kernel starts that has the module, {updated[-1]}"),)
    if family(snapshot) == "arch" or not (others or family(snapshot) in _PACKAGED):
        either = Fix("Or install the package that brings it for this kernel, or start the kernel that has one.")
        return (*_built_here(snapshot, kernel), either)
    return (_in_words(snapshot, others, files),)


def _by_dkms(snapshot: Snapshot, files: tuple[str, ...]) -> bool:
    """Whether it is built on this machine: by DKMS, or by the akmods of Fedora."""
    if snapshot.driver.dkms or any(_BY_DKMS in path for path in files):
        return True
    return family(snapshot) == "fedora" and not any(_BY_INSTALLER in path for path in files)


def _built_here(snapshot: Snapshot, kernel: str) -> tuple[Fix, ...]:
    return (
        Fix("Install the headers of this kernel.", kernel_headers(snapshot, kernel)),
        Fix("Build the module for this kernel.", module_build(snapshot, kernel)),
    )


def _package(snapshot: Snapshot, kernel: str, files: tuple[str, ...]) -> str | None:
    """Ubuntu's package for this kernel, where another of its kernels has one of the same flavour and branch."""
    own, branch = _OF_UBUNTU.fullmatch(kernel), snapshot.driver.branch.value
    prebuilt = [match for path in files if (match := _PREBUILT.match(path))]
    if own is None or family(snapshot) != "ubuntu" or len(prebuilt) != len(files):
        return None
    kinds = {
        _kind(match) for match in prebuilt if _is_alike(match["kernel"], own) and branch in (None, int(match["branch"]))
    }
    return f"linux-modules-nvidia-{kinds.pop()}-{kernel}" if len(kinds) == 1 else None


def _is_alike(kernel: str, own: re.Match[str]) -> bool:
    other = _OF_UBUNTU.fullmatch(kernel)
    return other is not None and other["flavour"] == own["flavour"]


def _kind(match: re.Match[str]) -> str:
    return match["branch"] + ("-server" if match["server"] else "") + (match["open"] or "")


def _in_words(snapshot: Snapshot, others: tuple[str, ...], files: tuple[str, ...]) -> Fix:
    if family(snapshot) and any(_BY_INSTALLER in path for path in files):
        return Fix("Run the installer that has installed the driver (NVIDIA's .run file) again, under this kernel.")
    if not others:
        return Fix("Install the driver's module for this kernel in the way in which the driver was installed.")
    return Fix(f"Install the driver's module for this kernel from where that of the other is, or start {others[-1]}.")
