"""Verdicts on tests that do not pass: what an exception means, and what uses up the memory."""

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

MOST_TEXT = 4000  # characters of an error that are reported; gpuenv shortens it once its secrets are recognized
GIB = 1024.0**3
CONTEXT = 1.5 * GIB  # upper bound of the memory that the driver takes for a context
RESERVE = 256 << 20  # bytes left free for parallel tests and the libraries' workspaces
DEFAULT_MEMORY = 64 << 20  # bytes allowed for a test without ``memory``
MIN_SHARE = 1 / 64.0  # of the size of the level

# Exception classes of CuPy 12 to 14, and the statuses by which the libraries report a failed allocation.
LIBRARY_ERRORS = ("CUBLASError", "CUSOLVERError", "CuSparseError", "CuFFTError", "CURANDError")
ALLOCATION_STATUSES = ("ALLOC_FAILED", "ALLOCATION_FAILED", "INSUFFICIENT_RESOURCES")
# Statuses of cublasCreate and cusolverDnCreate when, among other reasons, no memory is left for a handle: tensorflow,
# issue 9489; CUDA.jl, which then frees memory and tries again (lib/cusolver/dense.jl, cusolverDnCreate).
HANDLE_STATUSES = ("NOT_INITIALIZED", "INTERNAL_ERROR")
# torch.OutOfMemoryError, which is not a MemoryError; numba's CudaAPIError, jax's XlaRuntimeError and JaxRuntimeError.
TORCH_MEMORY_ERROR = "OutOfMemoryError"
OTHER_MEMORY_ERRORS = ("CUDA_ERROR_OUT_OF_MEMORY", "RESOURCE_EXHAUSTED")

INTEGRATED = 18  # cudaDevAttrIntegrated (driver_types.h)
MEMINFO = "/proc/meminfo"
MEMBERSHIP, GROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"
# Limit, usage, and the part of it that caches files and their names, which the kernel reclaims on demand: CUDA's
# libraries may take gigabytes (Control Group v2, Memory Interface Files; cgroup-v1/memory, which counts no names).
CGROUP_V2 = ("memory.max", "memory.current", "")
CGROUP_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
FILES = ("inactive_file", "active_file", "slab_reclaimable")


class SmokeVerdict(NamedTuple):
    """How a test ended that did not pass.

    ``status`` and ``trouble`` are values of the result's enumerations, ``cause`` is the slug of a cause or None.
    """

    status: str
    trouble: str
    detail: str
    cause: Optional[str] = None


# Exceptions.


def classify(kind: str, status: Optional[int], text: str) -> SmokeVerdict:
    """Returns the verdict on an exception by its class, CUDA status and text; not for memory errors."""
    if status in CONTEXT_LOST:
        cause = "illegal-memory-access" if status in ILLEGAL_ACCESS else None
        cause = "gpu-hardware-fault" if status in HARDWARE else cause
        return SmokeVerdict("crashed", "context-lost", "the CUDA context is lost: %s" % text, cause)
    if status == DEVICES_UNAVAILABLE:
        detail = "the GPU is in use: %s (its compute mode allows only one process)" % text
        return SmokeVerdict("busy", "device-unavailable", detail, "compute-mode-exclusive")
    if status in CANNOT_START:
        return SmokeVerdict("skipped", "no-device", "CUDA finds no GPU: %s" % text)
    if "libcuda.so.1" in text and "cannot open shared object file" in text:
        return SmokeVerdict("skipped", "no-device", "no CUDA driver is installed: %s" % text)
    library = kind in ("ImportError", "ModuleNotFoundError") and "lib" in text and ".so" in text
    cause = "no-kernel-image" if status in NO_CODE else "cuda-library-missing" if library else None
    return SmokeVerdict("failed", "error", "%s: %s" % (kind, text), cause)


def verdict_on_exception(error: Exception) -> SmokeVerdict:
    """Returns the verdict on an exception that is not about GPU memory."""
    text = first_line(error)
    if isinstance(error, MemoryError):  # some systems refuse an allocation instead of killing a process
        return SmokeVerdict("skipped", "host-memory", "the host is out of memory: %s" % text)
    return classify(type(error).__name__, cuda_status(error), text)


def verdict_on_setup_error(error: Exception) -> SmokeVerdict:
    """Returns the verdict on an error before the test allocated memory: if even the context fails, others hold it."""
    if cuda_status(error) == MEMORY_ALLOCATION:
        detail = "no memory is left even for a CUDA context: other processes hold the GPU's memory"
        return SmokeVerdict("busy", "memory-held-by-others", detail, "gpu-busy")
    return verdict_on_exception(error)


def verdict_on_lost_context(cp: Any) -> Optional[SmokeVerdict]:
    """Returns a verdict if the context is lost, whatever error the library reported first."""
    try:
        cp.cuda.runtime.deviceSynchronize()
    except cp.cuda.runtime.CUDARuntimeError as error:
        verdict = verdict_on_exception(error)
        return verdict if verdict.trouble == "context-lost" else None
    return None


def cuda_status(error: Exception) -> Optional[int]:
    """Returns the CUDA error code; None for other libraries (cuBLAS, cuFFT and so on), whose codes differ."""
    status = getattr(error, "status", None)
    is_cuda = type(error).__name__ in ("CUDARuntimeError", "CUDADriverError")
    return status if is_cuda and isinstance(status, int) else None


def first_line(error: Exception) -> str:
    """Returns the essential line: CuPy frames messages with = signs and quotes the original import error at the end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" =\t")]
    if "Original error:" in lines[:-1]:
        return lines[lines.index("Original error:") + 1][:MOST_TEXT]
    return (lines[0] if lines else type(error).__name__)[:MOST_TEXT]


# A lack of memory.


def verdict_on_memory_error(error: Exception, cp: Any, total: int) -> Optional[SmokeVerdict]:
    """Returns the verdict on a lack of GPU memory; None for other errors."""
    kind, text = type(error).__name__, str(error)
    is_certain = isinstance(error, cp.cuda.memory.OutOfMemoryError) or cuda_status(error) == MEMORY_ALLOCATION
    if not is_certain and kind not in LIBRARY_ERRORS and not is_memory_error(kind, text):
        return None
    free = free_and_total(cp)[0]
    if not is_certain and not is_memory_error(kind, text, free):
        return None
    pool = cp.get_default_memory_pool()
    return explain_lack_of_memory(requested_bytes(error), pool.total_bytes(), free, total, pool.get_limit())


def requested_bytes(error: Exception) -> int:
    """Parses CuPy's message: Out of memory allocating 1,024 bytes (allocated so far: ...)."""
    tokens = str(error).replace(",", "").split()
    index = tokens.index("allocating") + 1 if "allocating" in tokens else len(tokens)
    return int(tokens[index]) if index < len(tokens) and tokens[index].isdigit() else 0


def is_memory_error(kind: str, text: str, free: float = math.inf) -> bool:
    """Whether a library failed to allocate GPU memory, by the class and the text of its error.

    Some texts mean that only if almost nothing is free; ``free`` is in bytes.
    """
    if kind == TORCH_MEMORY_ERROR or any(error in text for error in OTHER_MEMORY_ERRORS):
        return True
    statuses = ALLOCATION_STATUSES + (HANDLE_STATUSES if free < RESERVE else ())
    return kind in LIBRARY_ERRORS and any(status in text.upper() for status in statuses)


def explain_lack_of_memory(wanted: float, held: float, free: float, total: float, limit: float) -> SmokeVerdict:
    """Returns the verdict on a failed allocation; all numbers in bytes.

    This process's pool has ``held``, and a ``limit`` or 0; ``wanted`` is 0 if unknown.
    """
    if limit and held + wanted > limit:
        detail = "out of memory: the pool's limit is %s" % format_size(limit)
        return SmokeVerdict("failed", "out-of-memory", detail, "out-of-memory")
    others = total - free - held - CONTEXT
    usage = "%s of %s are free, this test holds %s" % (format_size(free), format_size(total), format_size(held))
    if others > 0 and held + wanted <= total - CONTEXT:
        detail = "other processes hold about %s of the GPU's memory: %s" % (format_size(others), usage)
        return SmokeVerdict("busy", "memory-held-by-others", detail, "gpu-busy")
    return SmokeVerdict("failed", "out-of-memory", "out of memory: %s" % usage, "out-of-memory")


def format_size(count: float) -> str:
    """Formats a number of bytes."""
    if count >= GIB:
        return "%.1f GiB" % (count / GIB)
    return "%.0f MiB" % (max(count, 0.0) / 1024.0**2)


# Memory for a test before it starts.


class AvailableMemory(NamedTuple):
    """Memory available for a test, in bytes.

    ``free`` and ``total`` of the GPU; ``limit`` that the user set for the pool, or 0; ``host``, what this process may
    still take of the host's memory, or 0 if unknown; ``shared`` if GPU and host share one memory.
    """

    free: int
    total: int
    limit: int = 0
    host: int = 0
    shared: bool = False


def fit_size(test: Any, sizes: Dict[str, Any], memory: AvailableMemory) -> Any:
    """Returns the sizes, halved until they fit into the memory of GPU, pool and host, and a verdict if none fits."""
    sizes, shrinks = dict(sizes), test.SHRINKS
    least = max(sizes[shrinks] * MIN_SHARE, 1) if shrinks else 0
    while _verdict_on_size(test, sizes, memory) and shrinks and sizes[shrinks] > least:
        sizes[shrinks] //= 2
    return sizes, _verdict_on_size(test, sizes, memory)


def _verdict_on_size(test: Any, sizes: Dict[str, Any], memory: AvailableMemory) -> Optional[SmokeVerdict]:
    """Returns the verdict on a size that does not fit; None if it fits."""
    required = test.memory(sizes)
    if required and memory.limit and required > memory.limit:  # set by the user
        detail = "needs %s; the memory pool's limit is %s (CUPY_GPU_MEMORY_LIMIT)" % (
            format_size(required),
            format_size(memory.limit),
        )
        return SmokeVerdict("skipped", "too-small", detail)
    needed, on_host = (required or DEFAULT_MEMORY) + RESERVE, int(required * test.HOST) or DEFAULT_MEMORY
    verdict = verdict_on_gpu_memory(needed, memory.free, memory.total)
    if not memory.shared:
        return verdict or _verdict_on_host_memory(on_host, memory.host)
    # Others hold the memory if the GPU's part does not fit, but both parts would fit without them.
    is_held = verdict and not _verdict_on_host_memory(needed + on_host, memory.total - CONTEXT)
    return verdict if is_held else _verdict_on_host_memory(needed + on_host, memory.host or memory.free)


def verdict_on_gpu_memory(needed: float, free: float, total: float) -> Optional[SmokeVerdict]:
    """Returns a verdict if others hold the GPU's memory or it has too little; None if there is enough."""
    if needed <= free:
        return None
    usage = "needs %s; %s of %s are free" % (format_size(needed), format_size(free), format_size(total))
    if needed <= total - CONTEXT:
        return SmokeVerdict("busy", "memory-held-by-others", "%s, other processes hold the rest" % usage, "gpu-busy")
    return SmokeVerdict("skipped", "too-small", usage)


def _verdict_on_host_memory(needed: float, available: float) -> Optional[SmokeVerdict]:
    if not available or needed <= available:
        return None
    detail = "needs %s of the host's memory; %s are available" % (format_size(needed), format_size(available))
    return SmokeVerdict("skipped", "host-memory", detail)


def current_memory(cp: Any) -> AvailableMemory:
    """Returns the memory available to this process on the current device."""
    limit = int(cp.get_default_memory_pool().get_limit())
    return AvailableMemory(*free_and_total(cp), limit, free_host_memory(), is_integrated(cp))


def is_integrated(cp: Any) -> bool:
    """Whether the current device shares its memory with the host."""
    return bool(cp.cuda.runtime.deviceGetAttribute(INTEGRATED, cp.cuda.Device().id))


def free_and_total(cp: Any) -> Tuple[int, int]:
    """Returns the free and the total bytes of the current device.

    On a GPU that shares the host's memory, CUDA reports the kernel's MemFree as free, which counts cached files as
    used although the kernel reclaims them on demand.
    """
    free, total = (int(number) for number in cp.cuda.runtime.memGetInfo())
    if is_integrated(cp):
        free = max(free, min(available_memory(MEMINFO), total))
    return free, total


def available_memory(path: str) -> int:
    """Returns the bytes that programs can take without swapping; 0 if unknown."""
    return _entry(path, "MemAvailable:") * 1024


def free_host_memory(meminfo: str = MEMINFO, membership: str = MEMBERSHIP, groups: str = GROUPS) -> int:
    """Returns the bytes of host memory that this process may still take; 0 if unknown.

    A container or a batch system may limit it to a part of the free memory, and kill it beyond that.
    """
    return min((room for room in (available_memory(meminfo), *_cgroup_headroom(membership, groups)) if room), default=0)


def _cgroup_headroom(membership: str, groups: str) -> Iterator[int]:
    """Yields what the limits of its control groups leave, upwards; a container sees its own group as the root."""
    for line in _text(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        top, names = (groups + "/memory", CGROUP_V1) if controllers else (groups, CGROUP_V2)
        folder = top + path.rstrip("/")
        while len(folder) >= len(top):
            limit, used = _text("%s/%s" % (folder, names[0])).strip(), _text("%s/%s" % (folder, names[1])).strip()
            if limit.isdigit() and used.isdigit():
                files = sum(_entry(folder + "/memory.stat", names[2] + kind) for kind in FILES)
                yield max(int(limit) - int(used) + files, 1)
            folder = folder.rpartition("/")[0]


def _entry(path: str, name: str) -> int:
    """Returns the number after a name at the start of a line; 0 if absent."""
    lines = [line.split() for line in _text(path).splitlines()]
    return next((int(line[1]) for line in lines if line[:1] == [name] and "".join(line[1:2]).isdigit()), 0)


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
