"""What the kernel's log, DKMS, AMD's driver and the driver's library files say, made into facts. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuenv.model.nvidia import pci_key, xid_event
from gpuenv.model.reading import Answer, Reading, known, missing, settle
from gpuenv.model.snapshot import AmdGpu, DriverLibrary, KernelMessage, LibraryOrigin
from gpuenv.model.text import pattern
from gpuenv.probe.parse import file_version
from gpuenv.probe.raw_kernel import AmdNode, KernelFacts, RawLibrary, RawLog

_NAMED_GPU = pattern(
    r"NVRM: (?:GPU |GPU at )(?:PCI:)?((?:[0-9a-f]{4,8}:)[0-9a-f]{2}:[0-9a-f]{2})(\.[0-7])?", re.IGNORECASE
)
_AMD = 0x1002  # PCI vendor id
_LARGEST_DIGIT = 15
# By where a library lies; the first that fits. The folders are those that kernel_driver.py looks into.
_ORIGINS = (
    (r"/stubs/", LibraryOrigin.STUB),
    (r"/compat(/|$)", LibraryOrigin.COMPAT),
    (r"/usr/lib/wsl/", LibraryOrigin.WSL),
    (r"/nix/store/|/run/opengl-driver/", LibraryOrigin.NIXOS),
    (r"/usr/lib/[^/]+/GL/nvidia-[^/]+/", LibraryOrigin.FLATPAK),
    (r"/usr/lib64-nvidia/|/usr/local/nvidia/|/var/lib/nvidia/", LibraryOrigin.CLOUD),
    (r"/usr/lib/aarch64-linux-gnu/(tegra|nvidia)/", LibraryOrigin.TEGRA),
    (r"/\.singularity\.d/libs/", LibraryOrigin.MOUNTED),
)
_SYSTEM = pattern(r"/(usr/)?lib(64)?/([\w-]+-linux-gnu/)?(nvidia/(current/)?)?lib[^/]+$")
NO_LOG = "nobody looked"


def kernel_log(log: RawLog | None) -> Reading[tuple[KernelMessage, ...]]:
    """The lines with the Xid number and the GPU that they name."""
    if log is None or log.source is None:
        return missing((log.reason if log else None) or NO_LOG)
    return known(tuple(message_of(line) for line in log.lines), log.source)


def message_of(text: str) -> KernelMessage:
    """A line with the Xid event or the GPU that it names."""
    event = xid_event(text)
    if event:
        return KernelMessage(text, *event)
    named = _NAMED_GPU.search(text)
    return KernelMessage(text, None, pci_key(f"{named[1]}{named[2] or '.0'}") if named else None)


def amd_gpus(kernel: KernelFacts) -> tuple[AmdGpu, ...]:
    """The nodes that are GPUs: a processor's has no compute target."""
    return tuple(
        AmdGpu(node.node, node.name, _gfx(node), _address(node), node.memory)
        for node in kernel.amd_nodes
        if node.properties.get("gfx_target_version", 0) > 0 and node.properties.get("vendor_id") == _AMD
    )


def _gfx(node: AmdNode) -> str | None:
    """``gfx90a`` of 90010: two decimal digits each for minor and stepping, which the name has in hexadecimal.

    Linux, drivers/gpu/drm/amd/amdkfd/kfd_device.c (gfx_target_version); LLVM, User Guide for AMDGPU, Processors.
    """
    number = node.properties["gfx_target_version"]
    major, minor, stepping = number // 10000, number // 100 % 100, number % 100
    if minor > _LARGEST_DIGIT or stepping > _LARGEST_DIGIT:
        return None
    return f"gfx{major}{minor:x}{stepping:x}"


def _address(node: AmdNode) -> str | None:
    """The PCI address of a domain and a location, which is the bus in eight bits, the device in five, the function."""
    location = node.properties.get("location_id")
    if location is None:
        return None
    domain = node.properties.get("domain", 0)
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7:x}"


def rocm(kernel: KernelFacts) -> Reading[str]:
    """ROCm's release: its own file, then its header."""
    order = ("/opt/rocm/.info/version", "rocm_version.h")
    answers = [Answer(kernel.rocm[name], name) if name in kernel.rocm else None for name in order]
    return settle(answers, "there is no /opt/rocm with a release in it")


def driver_libraries(kernel: KernelFacts) -> tuple[DriverLibrary, ...]:
    """Every file of libcuda and libnvidia-ml, with where it comes from."""
    return tuple(_library(entry) for entry in kernel.libraries)


def _library(entry: RawLibrary) -> DriverLibrary:
    release = file_version(entry.path)
    return DriverLibrary(
        entry.path, release.value if release else None, _origin(entry.path, entry.mounted), entry.mounted
    )


def _origin(path: str, mounted: bool | None) -> LibraryOrigin:  # noqa: FBT001 - a fact of the file's
    for form, origin in _ORIGINS:
        if re.search(form, path):
            return origin
    if mounted:
        return LibraryOrigin.MOUNTED
    return LibraryOrigin.SYSTEM if _SYSTEM.search(path) else LibraryOrigin.OTHER


def cuda_origin(path: str | None, kernel: KernelFacts) -> Reading[LibraryOrigin]:
    """Where the libcuda in use comes from: by its own path and, where it is one of those found, by the mounts."""
    if path is None:
        return missing("no libcuda is in use")
    # The longest, since the same library may lie in a folder and, behind a link, elsewhere.
    same = max(
        (entry for entry in kernel.libraries if path.endswith(entry.path)), key=lambda e: len(e.path), default=None
    )
    return known(
        _origin(path, same.mounted if same else None), "its path" if same is None else "its path and the mounts"
    )


def other_kernels(files: Sequence[str] | None) -> tuple[str, ...] | None:
    """The kernels that modules of the driver are of, by the files, each of which lies below its kernel's name."""
    return None if files is None else tuple(dict.fromkeys(path.partition("/")[0] for path in files))
