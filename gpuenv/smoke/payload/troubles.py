"""What an exception, or a lack of memory, means: pure functions over numbers and texts."""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

# Of cudaError_t (driver_types.h of CUDA 12.9); CUresult has the same numbers for these.
MEMORY_ALLOCATION = 2
CANNOT_START = {3, 35, 100, 101, 201, 802, 803, 804}
DEVICES_UNAVAILABLE = 46
NO_CODE = {209, 218, 222}
LOST = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721}
ILLEGAL_ACCESS = {700, 714, 716, 717, 718}
HARDWARE = {214, 220}

GIB = 1024.0**3
CONTEXT = 1.5 * GIB  # more than the driver takes for a process's own context
RESERVE = 256 << 20  # bytes left alone: other tests run beside this one, and libraries take workspaces

# The classes as CuPy 12 to 14 name them, and how each library says that it found no room.
LIBRARY_ERRORS = ("CUBLASError", "CUSOLVERError", "CuSparseError", "CuFFTError", "CURANDError")
NO_ROOM = ("ALLOC_FAILED", "ALLOCATION_FAILED", "INSUFFICIENT_RESOURCES")
# What cublasCreate and cusolverDnCreate say, among other things, where there is no room for a handle: tensorflow, issue
# 9489; CUDA.jl, which frees memory then and tries again (lib/cusolver/dense.jl, cusolverDnCreate).
NO_HANDLE = ("NOT_INITIALIZED", "INTERNAL_ERROR")
# torch.OutOfMemoryError, which is no MemoryError; numba's CudaAPIError, jax's XlaRuntimeError and JaxRuntimeError.
TORCH = "OutOfMemoryError"
OTHERS_NO_ROOM = ("CUDA_ERROR_OUT_OF_MEMORY", "RESOURCE_EXHAUSTED")


class Trouble(NamedTuple):
    """How a test ended that did not end well.

    ``status`` and ``trouble`` are words of the result, ``cause`` a slug of the closed list of causes or None.
    """

    status: str
    trouble: str
    detail: str
    cause: Optional[str] = None


def classify(kind: str, status: Optional[int], text: str) -> Trouble:
    """What an exception of a test means, by its class, its CUDA status and its text; memory is told by another."""
    if status in LOST:
        cause = "illegal-memory-access" if status in ILLEGAL_ACCESS else None
        cause = "gpu-hardware-fault" if status in HARDWARE else cause
        return Trouble("crashed", "context-lost", "the CUDA context is lost: %s" % text, cause)
    if status == DEVICES_UNAVAILABLE:
        detail = "the GPU is taken: %s (another process has it, and its compute mode lets in one alone)" % text
        return Trouble("busy", "device-unavailable", detail, "compute-mode-exclusive")
    if status in CANNOT_START:
        return Trouble("skipped", "no-device", "CUDA shows this program no GPU: %s" % text)
    if "libcuda.so.1" in text and "cannot open shared object file" in text:
        return Trouble("skipped", "no-device", "there is no CUDA driver here: %s" % text)
    library = kind in ("ImportError", "ModuleNotFoundError") and "lib" in text and ".so" in text
    cause = "no-kernel-image" if status in NO_CODE else "cuda-library-missing" if library else None
    return Trouble("failed", "error", "%s: %s" % (kind, text), cause)


def lack_of_memory(wanted: float, own: float, free: float, total: float, limit: float) -> Trouble:
    """Whose fault it is that an allocation failed, all in bytes.

    Args:
        wanted: what was asked for; 0 where nobody knows.
        own: what this process's pool holds.
        free: what the GPU has left.
        total: what the GPU has.
        limit: the pool's own limit, or 0.
    """
    if limit and own + wanted > limit:
        detail = "out of memory: the pool's limit is %s" % size(limit)
        return Trouble("failed", "out-of-memory", detail, "out-of-memory")
    others = total - free - own - CONTEXT
    told = "%s of %s are free, this test holds %s" % (size(free), size(total), size(own))
    if others > 0 and own + wanted <= total - CONTEXT:
        detail = "other processes hold about %s of the GPU's memory: %s" % (size(others), told)
        return Trouble("busy", "memory-held-by-others", detail, "gpu-busy")
    return Trouble("failed", "out-of-memory", "out of memory: %s" % told, "out-of-memory")


def found_no_room(kind: str, text: str, free: float = math.inf) -> bool:
    """Whether a library found no room on the GPU: each says so in words of its own.

    Args:
        kind: the class of its error.
        text: what it says.
        free: bytes that the GPU has left; what a library says of more than that counts where it is next to nothing.
    """
    if kind == TORCH or any(word in text for word in OTHERS_NO_ROOM):
        return True
    words = NO_ROOM + (NO_HANDLE if free < RESERVE else ())
    return kind in LIBRARY_ERRORS and any(word in text.upper() for word in words)


def too_little(needed: float, free: float, total: float) -> Optional[Trouble]:
    """Why a test cannot even begin: others hold the memory, or the GPU has too little; None where there is enough."""
    if needed <= free:
        return None
    told = "needs %s; %s of %s are free" % (size(needed), size(free), size(total))
    if needed <= total - CONTEXT:
        return Trouble("busy", "memory-held-by-others", "%s, the rest is held by others" % told, "gpu-busy")
    return Trouble("skipped", "too-small", told)


def too_little_beside(needed: float, room: float) -> Optional[Trouble]:
    """Why a test cannot even begin where the host has too little memory; nobody knows where ``room`` is 0."""
    if not room or needed <= room:
        return None
    detail = "needs %s of the host's memory; this program may take %s more" % (size(needed), size(room))
    return Trouble("skipped", "host-memory", detail)


def refused_beside(text: str) -> Trouble:
    """A lack of the host's memory that Python tells: a system may refuse what it cannot give, and end nobody for it."""
    return Trouble("skipped", "host-memory", "the host gave this program no more memory: %s" % text)


def above_limit(needed: float, limit: float) -> Trouble:
    """A test that the pool's limit leaves no room for: the limit is the user's own wish."""
    detail = "needs %s; the memory pool's limit is %s (CUPY_GPU_MEMORY_LIMIT)" % (size(needed), size(limit))
    return Trouble("skipped", "too-small", detail)


def size(count: float) -> str:
    """A number of bytes for people."""
    if count >= GIB:
        return "%.1f GiB" % (count / GIB)
    return "%.0f MiB" % (max(count, 0.0) / 1024.0**2)
