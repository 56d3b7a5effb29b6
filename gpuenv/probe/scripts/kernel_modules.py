"""Kernel modules: which are loaded, for which kernels the driver's was built, and what keeps it from being loaded."""

from __future__ import annotations

import os
import re
from itertools import islice

from telling import is_folder, names, read

_WHOLE = 8_000_000  # bytes; modules.dep has about one million
_DEEP = 4  # folders below updates/ and extra/ in which modules are looked for
_MOST_KERNELS, _MOST_BLOCKS = 16, 8
_MOST_FILES = 8  # of one kernel: Ubuntu has one a branch
# Debian's packages name the module after themselves, so that several releases of the driver can lie side by side:
# nvidia-current, nvidia-current-open, nvidia-tesla-470, nvidia-legacy-390xx; their companions end in -drm and so on.
_NAME = r"nvidia(?:-current|-tesla(?:-\d{3})?|-legacy-\d{3}xx)?(?:-open)?"
_MODULE_FILE = rf"{_NAME}\.ko(\.\w+)?"
_LISTED = rf"(?m)(?:^|[\s:])((?:\S*/)?{_NAME}\.ko[.\w]*)"
_TREE = "/lib/modules"
# modprobe.d(5): of files with one name, that of the first folder counts; these commands name a module, and a command
# that only fails, or does nothing, keeps it out.
_FOLDERS = tuple(f"{folder}/modprobe.d" for folder in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"))
_BLOCKING = (
    rf"\s*(blacklist\s+{_NAME}|alias\s+nvidia\s+off"
    rf"|install\s+{_NAME}\s+(/usr)?/bin/(false|true))\s*$"
)
# The kernel's own parameter, modprobe's (modprobe(8)), and dracut's (dracut.cmdline(7)).
_PARAMETER = r"(?:module_blacklist|modprobe\.blacklist|rd\.driver\.blacklist)=(?:\S*,)?nvidia(?:,\S*)?$"


def modules(root: str) -> dict[str, object]:
    """Which kernel modules are loaded, and whether the nvidia one is built for this kernel."""
    listed = read(root, "/proc/modules", _WHOLE)
    loaded = {line.split(" ", 1)[0] for line in (listed or "").splitlines()}
    loaded |= {name for name in ("nvidia", "nouveau") if is_folder(root, f"/sys/module/{name}")}
    told = listed is not None or is_folder(root, "/sys/module")
    return {
        "nvidia_loaded": "nvidia" in loaded if told else None,
        "nouveau_loaded": "nouveau" in loaded if told else None,
        "module_installed": module_installed(root),
    }


def module_installed(root: str) -> bool | None:
    """Whether an nvidia module lies in the folder of the running kernel; None where that folder is not to be seen."""
    kernel = os.uname().release
    return bool(_of_kernel(root, kernel)) or (False if is_folder(root, f"{_TREE}/{kernel}") else None)


def _of_kernel(root: str, kernel: str) -> list[str]:
    """The files of the module in a kernel's folder, as modules.dep names them, else as they are found."""
    listed = re.findall(_LISTED, read(root, f"{_TREE}/{kernel}/modules.dep", _WHOLE) or "")
    if listed:
        return sorted({path.rpartition(f"/{kernel}/")[2] for path in listed})
    found = [path for part in ("updates", "extra") for path in _below(root, f"{_TREE}/{kernel}/{part}", _DEEP)]
    return [path[len(f"{_TREE}/{kernel}/") :] for path in found]


def _below(root: str, folder: str, deep: int) -> list[str]:
    found = names(root, folder)
    files = [f"{folder}/{name}" for name in found if re.fullmatch(_MODULE_FILE, name)]
    if files or not deep:
        return files
    below = [f"{folder}/{name}" for name in found if ".ko" not in name]
    return next((files for path in below if is_folder(root, path) and (files := _below(root, path, deep - 1))), [])


def module_files(root: str) -> list[str]:
    """The nvidia modules of other kernels, each below its kernel's name; asked where the running one has none.

    Where a file lies tells what has put it there.
    """
    if module_installed(root):
        return []
    others = [kernel for kernel in names(root, _TREE) if kernel != os.uname().release]
    having = islice(((kernel, files) for kernel in others if (files := _of_kernel(root, kernel))), _MOST_KERNELS)
    return [f"{kernel}/{path}" for kernel, files in having for path in files[:_MOST_FILES]]


def module_blocks(root: str) -> list[str]:
    """What keeps the nvidia module from being loaded: files with the line, parameters of the kernel."""
    seen: set[str] = set()
    found = []
    for folder in _FOLDERS:
        for name in names(root, folder, end=".conf"):
            if name in seen:
                continue
            seen.add(name)
            lines = (read(root, f"{folder}/{name}") or "").splitlines()
            found += [f"{folder}/{name}: {line.strip()}" for line in lines if re.match(_BLOCKING, line)]
    words = (read(root, "/proc/cmdline") or "").split()
    found += [f"/proc/cmdline: {word}" for word in words if re.match(_PARAMETER, word)]
    return found[:_MOST_BLOCKS]
