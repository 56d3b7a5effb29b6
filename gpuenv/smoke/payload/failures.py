"""What keeps a test from its answer: a lack of memory, of the GPU or of the host, and what an exception means."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

# Of cudaError_t (driver_types.h of CUDA 12.9); CUresult has the same numbers for these.
MEMORY_ALLOCATION = 2
CANNOT_START = {3, 35, 100, 101, 201, 802, 803, 804}
DEVICES_UNAVAILABLE = 46
NO_CODE = {209, 218, 222}
CONTEXT_LOST = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721}
ILLEGAL_ACCESS = {700, 714, 716, 717, 718}
HARDWARE = {214, 220}

GIB = 1024.0**3
CONTEXT = 1.5 * GIB  # more than the driver takes for a process's own context
RESERVE = 256 << 20  # bytes left alone: other tests run at the same time, and libraries take workspaces
DEFAULT_MEMORY = 64 << 20  # bytes that a test without ``memory`` may take
MIN_SHARE = 1 / 64.0  # of the size that a level names

# The classes as CuPy 12 to 14 name them, and how each library says that it found no room.
LIBRARY_ERRORS = ("CUBLASError", "CUSOLVERError", "CuSparseError", "CuFFTError", "CURANDError")
ALLOCATION_STATUSES = ("ALLOC_FAILED", "ALLOCATION_FAILED", "INSUFFICIENT_RESOURCES")
# What cublasCreate and cusolverDnCreate say, among other things, where there is no room for a handle: tensorflow, issue
# 9489; CUDA.jl, which frees memory then and tries again (lib/cusolver/dense.jl, cusolverDnCreate).
HANDLE_STATUSES = ("NOT_INITIALIZED", "INTERNAL_ERROR")
# torch.OutOfMemoryError, which is no MemoryError; numba's CudaAPIError, jax's XlaRuntimeError and JaxRuntimeError.
TORCH_MEMORY_ERROR = "OutOfMemoryError"
OTHER_MEMORY_ERRORS = ("CUDA_ERROR_OUT_OF_MEMORY", "RESOURCE_EXHAUSTED")

INTEGRATED = 18  # cudaDevAttrIntegrated (driver_types.h)
MEMINFO = "/proc/meminfo"
MEMBERSHIP, GROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"
# Limit, use, and what of that is files and their names, which the kernel gives away when memory is asked for: CUDA's
# libraries may well be gigabytes (Control Group v2, Memory Interface Files; cgroup-v1/memory, which tells no names).
CGROUP_V2 = ("memory.max", "memory.current", "")
CGROUP_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
FILES = ("inactive_file", "active_file", "slab_reclaimable")


class Verdict(NamedTuple):
    """How a test ended that did not pass.

    ``status`` and ``trouble`` are words of the result, ``cause`` a slug of the closed list of causes or None.
    """

    status: str
    trouble: str
    detail: str
    cause: Optional[str] = None


# Exceptions.


def classify(kind: str, status: Optional[int], text: str) -> Verdict:
    """What an exception means, by its class, its CUDA status and its text; not where it is about memory."""
    if status in CONTEXT_LOST:
        cause = "illegal-memory-access" if status in ILLEGAL_ACCESS else None
        cause = "gpu-hardware-fault" if status in HARDWARE else cause
        return Verdict("crashed", "context-lost", "the CUDA context is lost: %s" % text, cause)
    if status == DEVICES_UNAVAILABLE:
        detail = "the GPU is taken: %s (another process has it, and its compute mode lets in one alone)" % text
        return Verdict("busy", "device-unavailable", detail, "compute-mode-exclusive")
    if status in CANNOT_START:
        return Verdict("skipped", "no-device", "CUDA shows this program no GPU: %s" % text)
    if "libcuda.so.1" in text and "cannot open shared object file" in text:
        return Verdict("skipped", "no-device", "there is no CUDA driver here: %s" % text)
    library = kind in ("ImportError", "ModuleNotFoundError") and "lib" in text and ".so" in text
    cause = "no-kernel-image" if status in NO_CODE else "cuda-library-missing" if library else None
    return Verdict("failed", "error", "%s: %s" % (kind, text), cause)


def verdict_on_exception(error: Exception) -> Verdict:
    """What an exception means that is not about the GPU's memory."""
    text = first_line(error)
    if isinstance(error, MemoryError):  # a system may refuse what it cannot give, and end no process for it
        return Verdict("skipped", "host-memory", "the host gave this program no more memory: %s" % text)
    return classify(type(error).__name__, cuda_status(error), text)


def verdict_on_setup_error(error: Exception) -> Verdict:
    """An error before the test could take any memory: where there is none even for the context, others hold it."""
    if cuda_status(error) == MEMORY_ALLOCATION:
        detail = "there is no room even for this program's context: others hold the GPU's memory"
        return Verdict("busy", "memory-held-by-others", detail, "gpu-busy")
    return verdict_on_exception(error)


def verdict_on_lost_context(cp: Any) -> Optional[Verdict]:
    """Whether the context is lost, whatever the library that failed first says of it."""
    try:
        cp.cuda.runtime.deviceSynchronize()
    except cp.cuda.runtime.CUDARuntimeError as error:
        trouble = verdict_on_exception(error)
        return trouble if trouble.trouble == "context-lost" else None
    return None


def cuda_status(error: Exception) -> Optional[int]:
    """The CUDA error; the libraries (cuBLAS, cuFFT and so on) number theirs in ways of their own."""
    status = getattr(error, "status", None)
    own = type(error).__name__ in ("CUDARuntimeError", "CUDADriverError")
    return status if own and isinstance(status, int) else None


def first_line(error: Exception) -> str:
    """CuPy frames some messages with lines of = signs, and tells the original error of a failed import at their end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" =\t")]
    if "Original error:" in lines[:-1]:
        return lines[lines.index("Original error:") + 1][:500]
    return (lines[0] if lines else type(error).__name__)[:500]


# A lack of memory.


def verdict_on_memory_error(error: Exception, cp: Any, total: int) -> Optional[Verdict]:
    """Whose fault a lack of the GPU's memory is; None where the error is about something else."""
    kind, text = type(error).__name__, str(error)
    known = isinstance(error, cp.cuda.memory.OutOfMemoryError) or cuda_status(error) == MEMORY_ALLOCATION
    if not known and kind not in LIBRARY_ERRORS and not is_memory_error(kind, text):
        return None
    free = free_and_total(cp)[0]
    if not known and not is_memory_error(kind, text, free):
        return None
    pool = cp.get_default_memory_pool()
    return explain_lack_of_memory(requested_bytes(error), pool.total_bytes(), free, total, pool.get_limit())


def requested_bytes(error: Exception) -> int:
    """CuPy says: Out of memory allocating 1,024 bytes (allocated so far: ...)."""
    words = str(error).replace(",", "").split()
    place = words.index("allocating") + 1 if "allocating" in words else len(words)
    return int(words[place]) if place < len(words) and words[place].isdigit() else 0


def is_memory_error(kind: str, text: str, free: float = math.inf) -> bool:
    """Whether a library found no room on the GPU, by the class of its error and what it says.

    Some words say so only where next to nothing is free: ``free`` is in bytes.
    """
    if kind == TORCH_MEMORY_ERROR or any(word in text for word in OTHER_MEMORY_ERRORS):
        return True
    words = ALLOCATION_STATUSES + (HANDLE_STATUSES if free < RESERVE else ())
    return kind in LIBRARY_ERRORS and any(word in text.upper() for word in words)


def explain_lack_of_memory(wanted: float, own: float, free: float, total: float, limit: float) -> Verdict:
    """Whose fault it is that an allocation failed, all in bytes.

    Args:
        wanted: size of the allocation; 0 if unknown.
        own: what this process's pool holds.
        free: what the GPU has left.
        total: what the GPU has.
        limit: the pool's own limit, or 0.
    """
    if limit and own + wanted > limit:
        detail = "out of memory: the pool's limit is %s" % format_size(limit)
        return Verdict("failed", "out-of-memory", detail, "out-of-memory")
    others = total - free - own - CONTEXT
    told = "%s of %s are free, this test holds %s" % (format_size(free), format_size(total), format_size(own))
    if others > 0 and own + wanted <= total - CONTEXT:
        detail = "other processes hold about %s of the GPU's memory: %s" % (format_size(others), told)
        return Verdict("busy", "memory-held-by-others", detail, "gpu-busy")
    return Verdict("failed", "out-of-memory", "out of memory: %s" % told, "out-of-memory")


def format_size(count: float) -> str:
    """A number of bytes for people."""
    if count >= GIB:
        return "%.1f GiB" % (count / GIB)
    return "%.0f MiB" % (max(count, 0.0) / 1024.0**2)


# Room for a test before it begins.


class AvailableMemory(NamedTuple):
    """Bytes that there are for a test.

    ``free`` and ``total`` of the GPU; ``limit`` of the pool, the user's own, or 0; ``host`` that may be taken of the
    host's, or 0 if unknown; ``shared`` where the two are one memory.
    """

    free: int
    total: int
    limit: int = 0
    host: int = 0
    shared: bool = False


def fit_size(test: Any, given: Dict[str, Any], room: AvailableMemory) -> Any:
    """The sizes, halved until there is room for them on the GPU, in the pool and on the host; or why none fits."""
    given, shrinks = dict(given), test.SHRINKS
    least = max(given[shrinks] * MIN_SHARE, 1) if shrinks else 0
    while _verdict_on_size(test, given, room) and shrinks and given[shrinks] > least:
        given[shrinks] //= 2
    return given, _verdict_on_size(test, given, room)


def _verdict_on_size(test: Any, given: Dict[str, Any], room: AvailableMemory) -> Optional[Verdict]:
    """What keeps a size from fitting."""
    told = test.memory(given)
    if told and room.limit and told > room.limit:  # the user's own wish
        detail = "needs %s; the memory pool's limit is %s (CUPY_GPU_MEMORY_LIMIT)" % (
            format_size(told),
            format_size(room.limit),
        )
        return Verdict("skipped", "too-small", detail)
    needed, beside = (told or DEFAULT_MEMORY) + RESERVE, int(told * test.HOST) or DEFAULT_MEMORY
    trouble = verdict_on_gpu_memory(needed, room.free, room.total)
    if not room.shared:
        return trouble or _verdict_on_host_memory(beside, room.host)
    # Others hold what is lacking where the GPU's own part alone has no room, and both would have it without them.
    is_held = trouble and not _verdict_on_host_memory(needed + beside, room.total - CONTEXT)
    return trouble if is_held else _verdict_on_host_memory(needed + beside, room.host or room.free)


def verdict_on_gpu_memory(needed: float, free: float, total: float) -> Optional[Verdict]:
    """Why a test cannot even begin: others hold the memory, or the GPU has too little; None where there is enough."""
    if needed <= free:
        return None
    told = "needs %s; %s of %s are free" % (format_size(needed), format_size(free), format_size(total))
    if needed <= total - CONTEXT:
        return Verdict("busy", "memory-held-by-others", "%s, the rest is held by others" % told, "gpu-busy")
    return Verdict("skipped", "too-small", told)


def _verdict_on_host_memory(needed: float, room: float) -> Optional[Verdict]:
    if not room or needed <= room:
        return None
    detail = "needs %s of the host's memory; this program may take %s more" % (format_size(needed), format_size(room))
    return Verdict("skipped", "host-memory", detail)


def current_memory(cp: Any) -> AvailableMemory:
    """What there is for this process, on the current device."""
    limit = int(cp.get_default_memory_pool().get_limit())
    return AvailableMemory(*free_and_total(cp), limit, free_host_memory(), is_integrated(cp))


def is_integrated(cp: Any) -> bool:
    """Whether the current device's memory is that of the whole machine."""
    return bool(cp.cuda.runtime.deviceGetAttribute(INTEGRATED, cp.cuda.Device().id))


def free_and_total(cp: Any) -> Tuple[int, int]:
    """Bytes, of the current device.

    What CUDA calls free on a GPU that shares the machine's memory is the kernel's MemFree: it counts files that merely
    lie in memory as taken, though the kernel gives their room away when it is asked for.
    """
    free, total = (int(number) for number in cp.cuda.runtime.memGetInfo())
    if is_integrated(cp):
        free = max(free, min(available_memory(MEMINFO), total))
    return free, total


def available_memory(path: str) -> int:
    """Bytes that the kernel can give to programs without swapping; 0 where it does not tell."""
    return _entry(path, "MemAvailable:") * 1024


def free_host_memory(meminfo: str = MEMINFO, membership: str = MEMBERSHIP, groups: str = GROUPS) -> int:
    """Bytes of the host's memory that this process may still take; 0 if unknown.

    A container or a batch system may give it a part of what the machine has free, and ends it when it takes more.
    """
    return min((room for room in (available_memory(meminfo), *_cgroup_headroom(membership, groups)) if room), default=0)


def _cgroup_headroom(membership: str, groups: str) -> Iterator[int]:
    """What the limits of its control groups leave, from its own up; a container sees its own as the topmost."""
    for line in _text(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, place = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        top, names = (groups + "/memory", CGROUP_V1) if controllers else (groups, CGROUP_V2)
        folder = top + place.rstrip("/")
        while len(folder) >= len(top):
            limit, used = _text("%s/%s" % (folder, names[0])).strip(), _text("%s/%s" % (folder, names[1])).strip()
            if limit.isdigit() and used.isdigit():
                files = sum(_entry(folder + "/memory.stat", names[2] + kind) for kind in FILES)
                yield max(int(limit) - int(used) + files, 1)
            folder = folder.rpartition("/")[0]


def _entry(path: str, name: str) -> int:
    """The number after a name, in a file with one a line; 0 where there is none."""
    lines = [line.split() for line in _text(path).splitlines()]
    return next((int(words[1]) for words in lines if words[:1] == [name] and "".join(words[1:2]).isdigit()), 0)


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
