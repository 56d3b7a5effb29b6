"""The driver's files: what its loaded module tells, DKMS's tree, its device files and its libraries."""

from __future__ import annotations

import os
import re
import stat

from kernel_container import mounts
from telling import is_folder, names, place, read, real, word

_MOST_BUILDS = 64
_MOST_LIBRARIES = 64
_DEVICES = r"nvidia(\d+|ctl|-uvm|-modeset)|dxg|nvmap"  # nvmap is of Tegra
_LIBRARY = r"lib(cuda|nvidia-ml)\.so(\.\d[\d.]*)?"
_MOST_OF_A_LOG = 1_000_000
# The shell's words (dash's, bash's); the kernel's Makefile, target prepare; GCC's driver.
_NOT_FOUND = r"\b(gcc-\d+): (?:command )?not found"
_BUILT_BY = r"The kernel was built by: \S*gcc\S* \([^)]*\) (\d+)\."
_UNKNOWN_OPTION = r"error: unrecognized (?:command[- ]line option|argument)"
_LOG = r"make\.log for \S+ for kernel (\S+)"


def module_version(root: str) -> str | None:
    """The loaded module's version, as sysfs has it."""
    return word(root, "/sys/module/nvidia/version")


def module_banner(root: str) -> str | None:
    """The loaded module's version, kind and build, as it words them itself."""
    return word(root, "/proc/driver/nvidia/version")


def dkms(root: str) -> list[dict[str, object]]:
    """The driver's modules in DKMS's tree, which the manual page of dkms describes under ACTIONS (add, build).

    A release that was added has a folder; one that was built for a kernel has that kernel's folder with the module in
    it. The build folder is removed at the end of a build that succeeds, so a log in it is of one that failed.
    """
    tree, found = "/var/lib/dkms", []
    for module in names(root, tree, begin="nvidia"):
        for release in names(root, f"{tree}/{module}"):
            folder = f"{tree}/{module}/{release}"
            if release.startswith(("kernel-", "original_module")) or not is_folder(root, folder):
                continue
            found += [{"module": module, "release": release, **state} for state in _builds(root, folder)]
    return found[:_MOST_BUILDS]


def _builds(root: str, folder: str) -> list[dict[str, object]]:
    """What became of one release: built for some kernels, failed for one, or only added."""
    built = [
        {"kernel": kernel, "state": "built"}
        for kernel in names(root, folder)
        if kernel[:1].isdigit()
        and any(names(root, f"{folder}/{kernel}/{a}/module") for a in names(root, f"{folder}/{kernel}"))
    ]
    text = read(root, folder + "/build/make.log", _MOST_OF_A_LOG) or ""
    log = re.search(_LOG, text[:4096])
    if log and log[1] not in {entry["kernel"] for entry in built}:
        built.append({"kernel": log[1], "state": "failed", "compiler": _wanted_compiler(text)})
    return built or [{"kernel": None, "state": "added"}]


def _wanted_compiler(log: str) -> str | None:
    """The compiler of the kernel, where the log of a failed build says that it is not the one there, or is not there.

    Another minor release of it gives the same warning and does no harm: an option that it does not know does.
    """
    missing = re.search(_NOT_FOUND, log)
    if missing:
        return missing[1]
    built_by = re.search(_BUILT_BY, log)
    return f"gcc-{built_by[1]}" if built_by and re.search(_UNKNOWN_OPTION, log) else None


def device_nodes(root: str) -> list[dict[str, object]]:
    """The driver's device files; access is asked of the kernel, nothing is opened."""
    nodes = []
    for name in names(root, "/dev"):
        if not re.fullmatch(_DEVICES, name):
            continue
        path = place(root, f"/dev/{name}")
        try:
            status = os.stat(path)
        except OSError:
            continue
        nodes.append(
            {
                "path": f"/dev/{name}",
                "accessible": os.access(path, os.R_OK | os.W_OK),
                "mode": stat.filemode(status.st_mode),
                "owner": f"{status.st_uid}:{status.st_gid}",
            }
        )
    return nodes


def libraries(root: str) -> list[dict[str, object]]:
    """Every file of libcuda and libnvidia-ml in the folders that drivers use, and whether it is mounted there.

    A folder of the system may have many thousands of files: its names are read, and no file in it is asked for more.
    """
    points = mounts(root)[2]
    found: dict[str, dict[str, object]] = {}
    for folder in library_folders(root):
        for name in names(root, folder, begin="lib"):
            if not re.fullmatch(_LIBRARY, name):
                continue
            path = real(root, f"{folder}/{name}")
            if path not in found and stat.S_ISREG(_mode(place(root, path))):
                found[path] = {"path": path, "mounted": None if points is None else _is_mounted(path, points)}
    return list(found.values())[:_MOST_LIBRARIES]


def library_folders(root: str) -> list[str]:
    """Where drivers, engines and clouds put libcuda, and where others of that name lie.

    Debian's and Ubuntu's multiarch folders, /usr/lib64 (Fedora, openSUSE), /usr/lib (Arch); lib64-nvidia (Colab);
    /usr/local/nvidia (GKE); /var/lib/nvidia (Container-Optimized OS); /run/opengl-driver (NixOS); wsl (Windows); tegra
    and nvidia (Jetson); GL/nvidia-* (Flatpak); /.singularity.d/libs (Apptainer's --nv); /run/nvidia/driver (the driver
    container of NVIDIA's GPU Operator); compat and stubs (a toolkit's).
    """
    archs = [f"/usr/lib/{arch}-linux-gnu" for arch in ("x86_64", "aarch64")]
    folders = [
        *archs,
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib64-nvidia",
        "/usr/local/nvidia/lib64",
        "/usr/local/nvidia/lib",
        "/var/lib/nvidia/lib64",
    ]
    folders += ["/run/opengl-driver/lib", "/usr/lib/wsl/lib", "/.singularity.d/libs"]
    for arch in archs:
        folders += [f"{arch}/tegra", f"{arch}/nvidia", f"{arch}/nvidia/current"]
        folders += [f"{arch}/GL/{name}/lib" for name in names(root, f"{arch}/GL", begin="nvidia-")]
    folders += [f"/run/nvidia/driver{folder}" for folder in (*archs, "/usr/lib64")]
    for name in names(root, "/usr/local", begin="cuda"):
        folders += [f"/usr/local/{name}/{part}" for part in ("compat", "lib64/stubs")]
    return folders


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


def _is_mounted(path: str, points: frozenset[str]) -> bool:
    """Whether the file or a folder above it, other than the root, is a mount point."""
    parts = path.split("/")
    return any("/".join(parts[:length]) in points for length in range(2, len(parts) + 1))
