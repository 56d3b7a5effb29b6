"""Identifiers of NVIDIA's drivers, libraries and wheels: PCI ids, return codes, Xids, sonames, generations."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple

from gpuenv.model.strings import parse_integer, pattern

NVIDIA = "10de"  # PCI vendor id
AMD = "1002"
INTEL = "8086"
# NVIDIA, Xid Errors, Viewing Xid Error Messages: with and without "PCI:" and a domain, in MIG mode with the instance.
_EVENT = pattern(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2})(?P<function>\.[0-7])?[^)]*\): "
    r"(?P<xid>\d{1,4})\b",
    re.IGNORECASE,
)

# NVIDIA, Xid Errors, Analyzing Xid Errors with the Xid Catalog (catalogue of October 2025).
# Those that the catalogue resolves by a reset, a reboot or an inspection of the board, and then support. It resolves
# others by restarting the application (13, 31, 69, 94), by nothing (43, 44, 45, 63, 92), or by software (109, 119,
# 120); and an endless kernel may cause 46, "GPU stopped processing".
FALLEN_OFF_THE_BUS = 79
HARDWARE_XIDS = {
    48: "double-bit memory error",
    54: "auxiliary power is not connected",
    62: "internal micro-controller halted",
    64: "memory remapping failed",
    74: "NVLink error",
    FALLEN_OFF_THE_BUS: "GPU has fallen off the bus",
    95: "uncontained memory error",
    136: "link training failed",
    140: "unrecovered memory error",
    143: "GPU could not be initialized",
    158: "GPU fatal timeout",
}
# Of these: faults of the memory, whose repair NVML reports, and faults of contact, power or heat.
MEMORY_XIDS = frozenset({48, 64, 95, 140})
CONTACT_XIDS = frozenset({54, 74, FALLEN_OFF_THE_BUS})
# An illegal access of a kernel causes 13 or 31 (graphics engine exception, page fault); its terminated process, 43 and
# 45.
PROGRAM_XIDS = frozenset({13, 31, 43, 45})


def pci_key(address: str | None) -> str | None:
    """Normalizes a PCI address: ``00000000:17:00.0`` and ``0000:17:00.0`` are the same device."""
    match = re.fullmatch(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-9a-fA-F])", address or "")
    if not match:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def uuid_key(uuid: str | None) -> str | None:
    """Returns a UUID without its ``GPU-`` prefix, which libcuda omits."""
    digits = re.sub(r"^(GPU|MIG)-", "", uuid or "").lower()
    return digits or None


class Nvml(IntEnum):
    """Return codes of NVML that distinguish causes: ``nvmlReturn_t`` (nvml.h, as nvidia-ml-py 13.615.71 has it)."""

    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    DRIVER_NOT_LOADED = 9
    LIBRARY_NOT_FOUND = 12
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    UNKNOWN = 999


class Cuda(IntEnum):
    """Return codes of the CUDA driver API that distinguish causes: ``CUresult`` (cuda.h of CUDA 13.0)."""

    OUT_OF_MEMORY = 2
    STUB_LIBRARY = 34
    NO_DEVICE = 100
    INVALID_DEVICE = 101
    OPERATING_SYSTEM = 304
    SYSTEM_NOT_READY = 802
    SYSTEM_DRIVER_MISMATCH = 803
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804
    MPS_CONNECTION_FAILED = 805
    MPS_RPC_FAILURE = 806
    MPS_SERVER_NOT_READY = 807
    MPS_MAX_CLIENTS_REACHED = 808
    MPS_MAX_CONNECTIONS_REACHED = 809
    MPS_CLIENT_TERMINATED = 810
    UNKNOWN = 999


# NVIDIA, CUDA GPU Compute Capability (developer.nvidia.com/cuda-gpus) and its page of legacy GPUs, read November 2026.
GENERATIONS = {
    "fermi": ("2.0", "2.1"),
    "kepler": ("3.0", "3.2", "3.5", "3.7"),
    "maxwell": ("5.0", "5.2", "5.3"),
    "pascal": ("6.0", "6.1", "6.2"),
    "volta": ("7.0", "7.2"),
    "turing": ("7.5",),
    "ampere": ("8.0", "8.6", "8.7"),
    "ada": ("8.9",),
    "hopper": ("9.0",),
    "blackwell": ("10.0", "10.1", "10.3", "11.0", "12.0", "12.1"),
}


def generation_of(capability: str | None) -> str | None:
    """Returns the generation of a compute capability such as ``9.0``; None if no document names one."""
    return next((name for name, capabilities in GENERATIONS.items() if capability in capabilities), None)


class CudaLibrary(NamedTuple):
    """A CUDA library that CuPy loads at run time: its name, which is also cuda-pathfinder's, and its soname."""

    name: str
    soname: str


# The sonames are the DT_NEEDED entries of the extension modules in the wheels cupy-cuda11x 13.6.0, cupy-cuda12x 13.6.0
# and 14.2.0 and cupy-cuda13x 14.2.0 (Linux x86_64). Two have the same name in CUDA 12 and 13: libcusparse.so.12 and
# libcurand.so.10.
_NAMES = ("nvrtc", "cublas", "cufft", "curand", "cusolver", "cusparse")
_SONAMES = {
    11: ("11.2", "11", "10", "10", "11", "11"),
    12: ("12", "12", "11", "10", "11", "12"),
    13: ("13", "13", "12", "10", "12", "12"),
}
CUDA_LIBRARIES = {
    major: tuple(CudaLibrary(name, f"lib{name}.so.{soname}") for name, soname in zip(_NAMES, sonames, strict=True))
    for major, sonames in _SONAMES.items()
}

# Libraries that CuPy works without. Their sonames are read from the extension modules of the installed CuPy:
# cupy_backends/cuda/libs has nccl and cutensor in all these wheels, cudnn up to 13, and cusparselt in none.
OPTIONAL_LIBRARIES = ("nccl", "cutensor", "cusparselt", "cudnn")


# The names are those in the METADATA of cuda-toolkit 12.9.2.0 and 13.5.0. The wheels of CUDA 11 and 12 have the major
# version in their names; those of CUDA 13 do not, and some use their own library's version.
_SUFFIXED = pattern(r"nvidia-[a-z0-9-]+-cu(\d\d)")
_BY_CUDA_VERSION = frozenset(
    f"nvidia-{name}"
    for name in (
        *("cuda-cccl", "cuda-crt", "cuda-culibos", "cuda-cuobjdump", "cuda-cupti", "cuda-cuxxfilt", "cuda-nvcc"),
        *("cuda-nvdisasm", "cuda-nvrtc", "cuda-opencl", "cuda-profiler-api", "cuda-runtime", "cuda-sanitizer-api"),
        *("cuda-tileiras", "cudla", "nvfatbin", "nvjitlink", "nvml-dev", "nvptxcompiler", "nvtx", "nvvm"),
    )
)
# cuda-toolkit 13.5.0 requires cublas 13, npp 13, nvjpeg 13, cufft 12, cusolver 12, cusparse 12, curand 10 and cufile 1.
_OWN_MAJOR_OF_13 = {
    "nvidia-cublas": 13, "nvidia-npp": 13, "nvidia-nvjpeg": 13, "nvidia-cufft": 12, "nvidia-cusolver": 12,
    "nvidia-cusparse": 12, "nvidia-curand": 10, "nvidia-cufile": 1,
}  # fmt: skip
_FIRST_WITHOUT_SUFFIX = 13


def cuda_wheel(library: str, cuda_major: int) -> str:
    """Returns the distribution of a library, such as ``cuda-runtime``, for a CUDA major version."""
    return f"nvidia-{library}" + ("" if cuda_major >= _FIRST_WITHOUT_SUFFIX else f"-cu{cuda_major}")


def cuda_wheel_requirement(library: str, cuda_major: int) -> str:
    """Returns the requirement on a library of a CUDA major version: ``nvidia-curand-cu12``, ``nvidia-curand==10.*``."""
    name = cuda_wheel(library, cuda_major)
    if cuda_major != _FIRST_WITHOUT_SUFFIX:
        return name
    return f"{name}=={_OWN_MAJOR_OF_13.get(name, cuda_major)}.*"


def cuda_major_of_wheel(name: str, release: str) -> int | None:
    """Returns the CUDA major version of a CUDA wheel (canonical name); None if unknown or another distribution."""
    suffixed = _SUFFIXED.fullmatch(name)
    if suffixed:
        return int(suffixed[1])
    major = parse_integer(release.split(".", maxsplit=1)[0]) or 0
    if name == "cuda-toolkit":
        return major
    if name in _BY_CUDA_VERSION:
        return major if major >= _FIRST_WITHOUT_SUFFIX else None
    return _FIRST_WITHOUT_SUFFIX if major and _OWN_MAJOR_OF_13.get(name) == major else None


def xid_event(line: str) -> tuple[int, str | None] | None:
    """Returns the Xid number in a line of the kernel log and the GPU's normalized PCI address; None without one."""
    match = _EVENT.search(line)
    return (int(match["xid"]), pci_key(f"{match['pci']}{match['function'] or '.0'}")) if match else None
