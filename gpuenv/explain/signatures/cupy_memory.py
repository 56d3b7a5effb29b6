"""Messages of CuPy's memory pool and kernel cache."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_CUPY = "CuPy"
# The folders of compiled kernels: CuPy's, jitify's, the driver's, and those of libraries that work the same way.
_FOLDER = r"(?:kernel_cache|jitify_cache|\.cupy\b|cupy_cache|CUPY_CACHE|\.cubin|ComputeCache|\.cudf\b|\.triton\b|torch_extensions|deep_gemm|torchinductor_\w|[/\\]tmp[/\\]triton[/\\]|\.cache/flashinfer)"


def _pool_limit_weights(values: Mapping[str, str]) -> Weights:
    """A pool's own limit refused it where the request alone would have fitted."""
    requested, limit = (
        int(values[name].replace(",", "")) if name in values else None for name in ("requested", "limit")
    )
    if limit is not None and requested is not None and requested <= limit:
        return ((Cause.MEMORY_POOL_RETENTION, 0.72), (Cause.OUT_OF_MEMORY, 0.25))
    return ((Cause.OUT_OF_MEMORY, 0.92), (Cause.MEMORY_POOL_RETENTION, 0.05))


def _access_denied_weights(values: Mapping[str, str]) -> Weights:
    """Windows refuses to replace a file that another process has open, as it does a read-only one."""
    if "lock" in values:  # made by the first user, and no other user may open it
        return ((Cause.KERNEL_CACHE_UNWRITABLE, 0.56), (Cause.KERNEL_CACHE_RACE, 0.38))
    if "moving" in values:
        return ((Cause.KERNEL_CACHE_UNWRITABLE, 0.6), (Cause.KERNEL_CACHE_RACE, 0.3))
    return ((Cause.KERNEL_CACHE_UNWRITABLE, 0.9),)


def _cache_conflict_weights(values: Mapping[str, str]) -> Weights:
    """A folder that is there where it is to be made, and a server's file that is gone, may be out of order alone."""
    if "folder" in values or "stale" in values:
        return ((Cause.KERNEL_CACHE_RACE, 0.5), (Cause.KERNEL_CACHE_UNWRITABLE, 0.42))
    return ((Cause.KERNEL_CACHE_RACE, 0.82), (Cause.KERNEL_CACHE_UNWRITABLE, 0.12))


SIGNATURES = (
    Signature(
        "cupy.memory",
        _CUPY,
        ("out of memory allocating",),
        ((Cause.OUT_OF_MEMORY, 0.92),),
        "CuPy, cupy.cuda.memory.OutOfMemoryError",
        pattern=(
            r"Out of memory allocating (?P<requested>\d[\d,]*) bytes \(allocated so far: (?P<held>\d[\d,]*) bytes"
            r"(?:, limit set to: (?P<limit>\d[\d,]*) bytes)?|Out of memory allocating"
        ),
        title="CuPy could not allocate {requested} bytes",
        weights_fn=_pool_limit_weights,
        decisive_fact="how much the pool holds without use: cupy.get_default_memory_pool().free_bytes()",
    ),
    Signature(
        "cupy.pool-retention",
        "CuPy and torch",
        (
            "free_bytes",
            "memory pool",
            "mempool",
            "reserved but unallocated",
            "reserved by pytorch",
            "not released",
            "not freed",
        ),
        ((Cause.MEMORY_POOL_RETENTION, 0.5), (Cause.OUT_OF_MEMORY, 0.2)),
        "cupy.get_default_memory_pool; torch, CUDACachingAllocator.cpp",
        pattern=(
            r"(?:GPU memory|device memory|VRAM|mempool|memory pool)\b.{0,60}(?:not (?:being )?(?:released|freed|returned)|still (?:held|reserved|in use) after)"
            r"|used_bytes\W+0\b.{0,60}(?:total_bytes|free_bytes)\W+[1-9]\d{6,}"
        ),
        level=Level.WARNING,
        title="The memory pool holds memory that no array uses",
        unless=r"\b(?:immediately|documentation)\b",
        decisive_fact="used_bytes and total_bytes of the memory pool",
        requires=("cupy", "cuda"),
    ),
    Signature(
        "cupy.cache-unwritable",
        "CuPy and the system",
        ("permission", "read-only file system", "no space left", "winerror", "disk quota"),
        ((Cause.KERNEL_CACHE_UNWRITABLE, 0.9),),
        "CuPy, cupy/cuda/compiler.py and jitify.pyx: the kernel cache; errno EACCES, EROFS, ENOSPC, EDQUOT",
        pattern=(
            r"(?:(?:Permission denied|Read-only file system|No space left on device|Disk quota exceeded)(?!\s*(?:\.{0,2}/|\d))|\[WinError (?:123|3)\]|(?P<moving>\[WinError 5\])(?!.* -> )).*"
            rf"{_FOLDER}(?:.*(?P<lock>\.lock)['\"])?|{_FOLDER}.*(?:Permission denied|Read-only file system|No space left|Disk quota)"
        ),
        title="The cache of compiled kernels cannot be written",
        weights_fn=_access_denied_weights,
        modifiers=(Modifier("many-workers", Cause.KERNEL_CACHE_RACE, 3),),
    ),
    Signature(
        "cupy.cache-race",
        "CuPy and the system",
        (
            *("kernel_cache", "jitify_cache", ".cubin", "cupy_cache", ".cupy", ".triton", "torchinductor_"),
            "torch_extensions",
        ),
        ((Cause.KERNEL_CACHE_RACE, 0.82), (Cause.KERNEL_CACHE_UNWRITABLE, 0.12)),
        "CuPy, cupy/cuda/compiler.py: tempfile and shutil.move in the kernel cache; errno EEXIST, ESTALE, EBUSY",
        pattern=(
            r"(?:\[WinError (?:32|183|17)\]|\[WinError 5\](?=.* -> )|used by another process|FileExistsError|File exists|(?P<stale>Stale file handle)|Text file busy|Device or resource busy|Resource temporarily unavailable|Directory not empty).*(?:kernel_cache|jitify_cache|\.cubin|cupy_cache|\.cupy\b|\.triton\b|torchinductor_\w+|torch_extensions)(?P<folder>(?<!cubin)/?['\"])?"
            r"|(?:kernel_cache|jitify_cache|\.cubin|cupy_cache).*(?:used by another process|File exists|Stale file handle|truncated|EOFError|corrupted)"
        ),
        title="Several processes write one kernel cache",
        weights_fn=_cache_conflict_weights,
        modifiers=(
            Modifier("many-workers", Cause.KERNEL_CACHE_RACE, 3),
            Modifier("dangling", Cause.KERNEL_CACHE_UNWRITABLE, 6),
        ),
        decisive_fact="whether several processes or users share the folder, and who may write it",
    ),
    Signature(
        "cupy.cache-vanished",
        "CuPy and the system",
        ("filenotfounderror", "no such file"),
        ((Cause.KERNEL_CACHE_RACE, 0.5), (Cause.KERNEL_CACHE_UNWRITABLE, 0.42)),
        "CuPy, cupy/cuda/compiler.py: a temporary file of the kernel cache; errno ENOENT",
        pattern=rf"(?:FileNotFoundError|No such file).*{_FOLDER}|{_FOLDER}\w*/\S*\.(?:cu|cubin|ptx|fatbin): No such file",
        title="A file in the kernel cache is gone: another process moved it, or its folder cannot be made",
        decisive_fact="whether several processes or users share the folder, and who may write it",
    ),
    Signature(
        "cupy.cache-frames",
        "CuPy and the system",
        ("_compiler_cache",),
        ((Cause.KERNEL_CACHE_UNWRITABLE, 0.45), (Cause.KERNEL_CACHE_RACE, 0.3)),
        "CuPy 14, cupy/cuda/_compiler_cache.py: os.makedirs when it is imported, open and os.replace when a kernel is kept",
        title="CuPy could not use the folder of its kernel cache",
        modifiers=(
            Modifier("cache-folder", Cause.KERNEL_CACHE_UNWRITABLE, 10),
            Modifier("windows", Cause.KERNEL_CACHE_RACE, 3),
            Modifier("multiprocessing", Cause.KERNEL_CACHE_RACE, 3),
        ),
        requires=("os-refused",),
        decisive_fact="whether several processes or users share the folder, and who may write it",
    ),
)
