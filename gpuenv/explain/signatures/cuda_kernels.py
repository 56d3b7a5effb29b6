"""Errors of the CUDA runtime and of the driver API while kernels run: memory, addresses, launches."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_RUNTIME = "CUDA runtime and driver API"
_SOURCE = "libcudart, cudaGetErrorString; driver_types.h and cuda.h of CUDA 13.0"

_SIZE = r"(?:\d+(?:\.\d+)? [KMGT]iB|\d+ bytes)"
_TORCH_NUMBERS = (  # torch, c10/cuda/CUDACachingAllocator.cpp, before and since 2.1
    rf"Tried to allocate (?P<requested>{_SIZE})(?: \(GPU \d+; (?P<total>{_SIZE}) total capacity; (?P<own>{_SIZE}) already allocated;"
    rf" (?P<free>{_SIZE}) free(?:; (?P<reserved>{_SIZE}) (?:reserved|cached))?"
    rf"|\. GPU(?: \d+)? has a total capacity of (?P<capacity>{_SIZE}) of which (?P<left>{_SIZE}) is free\."
    rf"(?: Process \d+ has {_SIZE} memory in use\.)*(?: Including non-PyTorch memory, this process has (?P<process>{_SIZE}))?)"
)
_ANOTHERS = (  # where no more of the message is there; a container's own process has another number, too
    rf"(?:this process has (?P<mine>{_SIZE}) memory in use\. )?Process \d+ has (?P<other>{_SIZE}) memory in use\b(?!\. Of the allocated)"
    rf"(?:\. Including non-PyTorch memory, this process has (?P<ours>{_SIZE}))?"
)
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}  # by the first letter, in any case
_MUCH = 0.5  # of a GPU's memory


def _bytes(text: str) -> float:
    number, unit = text.split()
    return float(number) * _UNITS[unit[0].lower()]


def _allocation_weights(values: Mapping[str, str]) -> Weights:
    """Where others hold most of the GPU, or the pool most of its own, and the request would fit without, they are it."""
    if "own" in values and "reserved" in values:
        idle = _bytes(values["reserved"]) - _bytes(values["own"])
        if idle >= _MUCH * _bytes(values["reserved"]) and idle + _bytes(values["free"]) >= _bytes(values["requested"]):
            return ((Cause.MEMORY_POOL_RETENTION, 0.52), (Cause.OUT_OF_MEMORY, 0.44))
    total = values.get("total") or values.get("capacity")
    held = [values[name] for name in ("process", "reserved", "own") if name in values]
    if total and held:
        size, mine, requested = _bytes(total), max(map(_bytes, held)), _bytes(values["requested"])
        others = size - mine - _bytes(values.get("free") or values.get("left") or "0 bytes")
        if others >= _MUCH * size and mine + requested < _MUCH * size:
            return ((Cause.GPU_BUSY, 0.7), (Cause.OUT_OF_MEMORY, 0.28))
    if "other" in values:
        own = values.get("mine") or values.get("ours")
        if own is None:
            return ((Cause.GPU_BUSY, 0.5), (Cause.OUT_OF_MEMORY, 0.44))
        if _bytes(values["other"]) >= _bytes(own):
            return ((Cause.GPU_BUSY, 0.7), (Cause.OUT_OF_MEMORY, 0.28))
    return ((Cause.OUT_OF_MEMORY, 0.9), (Cause.GPU_BUSY, 0.06))


SIGNATURES = (
    Signature(
        "cuda.out-of-memory",
        _RUNTIME,
        (
            "out of memory",
            "out-of-memory",
            "out_of_memory",
            "outofmemory",
            "cudaerrormemoryallocation",
            "failed to allocate",
        ),
        ((Cause.OUT_OF_MEMORY, 0.9), (Cause.GPU_BUSY, 0.06)),
        f"{_SOURCE}; cupy.cuda.memory.OutOfMemoryError; torch, c10/cuda/CUDACachingAllocator.cpp; XLA, bfc_allocator.cc",
        pattern=(
            r"(?:cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|CUDA out[ -]of[ -]memory|CUDA error: out of memory|cuda(?!\.memory\.OutOf).{0,80}out[ _]of[ _]memory(?! allocating)"
            r"|(?:cupy\S*|cuda\S*)\.OutOfMemoryError(?!: Out of memory allocating)|^OutOfMemoryError: out of memory|OutOfMemoryError: CUDA"
            r"|RESOURCE_EXHAUSTED: Out of memory|failed to allocate \S+ (?:\S+ )?\(\d+ bytes\) from device|out of memory to allocate"
            r"|(?:insufficient|not enough|out of) (?:GPU|VRAM|device|video) memory|GPU (?:is )?out of memory)"
            rf"(?:.*?(?:{_TORCH_NUMBERS}|{_ANOTHERS}))?"
        ),
        weights_fn=_allocation_weights,
        title="An allocation on the GPU is larger than what is free",
        decisive_fact="how much is free and who holds the rest: nvidia-smi",
    ),
    Signature(
        "cuda.illegal-address",
        _RUNTIME,
        ("illegal memory access", "cudaerrorillegaladdress", "cuda_error_illegal_address"),
        ((Cause.ILLEGAL_MEMORY_ACCESS, 0.48), (Cause.ASYNC_ERROR_SURFACED_LATE, 0.46)),
        f"{_SOURCE}; CUDA C++ Programming Guide, Asynchronous Concurrent Execution, Error Checking",
        title="A kernel read or wrote outside its arrays, before the line that reports it",
        asynchronous=True,
        modifiers=(
            # CuPy launches kernels through the driver API: its runtime exceptions come from calls that only wait or copy.
            Modifier("cupy-runtime-error", Cause.ASYNC_ERROR_SURFACED_LATE, 1.4),
            Modifier("explicit-synchronize", Cause.ILLEGAL_MEMORY_ACCESS, 2.5),
            Modifier("cupy-driver-error", Cause.ILLEGAL_MEMORY_ACCESS, 2),
            Modifier("copy-frame", Cause.ASYNC_ERROR_SURFACED_LATE, 2.5),
            Modifier("sanitizer", Cause.ILLEGAL_MEMORY_ACCESS, 10),
            Modifier("second-gpu", Cause.CROSS_DEVICE_ARRAY, 300),
        ),
        decisive_fact="which kernel it is: run once more with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer",
    ),
    Signature(
        "cuda.launch-failure",
        _RUNTIME,
        ("unspecified launch failure", "cudaerrorlaunchfailure", "cuda_error_launch_failed"),
        ((Cause.ASYNC_ERROR_SURFACED_LATE, 0.5), (Cause.ILLEGAL_MEMORY_ACCESS, 0.38)),
        _SOURCE,
        title="A kernel that was launched earlier died",
        asynchronous=True,
        modifiers=(Modifier("sanitizer", Cause.ILLEGAL_MEMORY_ACCESS, 10),),
        decisive_fact="which kernel it is: run once more with CUDA_LAUNCH_BLOCKING=1",
    ),
    Signature(
        "cuda.bad-code",
        _RUNTIME,
        (
            *("misaligned address", "misaligned_address", "misalignedaddress", "illegal instruction was"),
            *("illegal_instruction", "illegalinstruction", "invalid program counter", "device-side assert"),
            *("hardware stack error", "cuda_error_assert", "cudaerrorassert"),
        ),
        ((Cause.ILLEGAL_MEMORY_ACCESS, 0.6), (Cause.ASYNC_ERROR_SURFACED_LATE, 0.28)),
        _SOURCE,
        pattern=(
            r"misaligned address|(?:CUDA_ERROR_|cudaError)(?:MISALIGNED_ADDRESS|MisalignedAddress|ILLEGAL_INSTRUCTION|IllegalInstruction|ASSERT\b|Assert\b)"
            r"|an illegal instruction was encountered|invalid program counter|device-side assert triggered|hardware stack error"
        ),
        title="A kernel used an index or address that is not allowed",
        modifiers=(Modifier("blocking-elsewhere", Cause.ASYNC_ERROR_SURFACED_LATE, 4),),
        asynchronous=True,
        decisive_fact="which kernel it is: run once more with CUDA_LAUNCH_BLOCKING=1",
    ),
    Signature(
        "cuda.invalid-configuration",
        _RUNTIME,
        (
            *("invalid configuration argument", "cudaerrorinvalidconfiguration", "too many resources requested"),
            *("launchoutofresources", "launch_out_of_resources", "too many blocks in cooperative"),
            *("cooperativelaunchtoolarge", "cooperative_launch_too_large", "uses too much shared data"),
        ),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.88), (Cause.CUPY_BUG, 0.05)),
        f"{_SOURCE}; ptxas, the strings of the binary",
        title="The launch asks for more threads, registers or shared memory than the GPU gives",
        modifiers=(
            Modifier("cupy-own-kernel", Cause.CUPY_BUG, 40),
            Modifier("cupy-own-kernel", Cause.INVALID_KERNEL_LAUNCH, 0.15),
        ),
        decisive_fact="the block size, the grid and the shared memory of the launch that fails",
    ),
    Signature(
        "cuda.invalid-value",
        _RUNTIME,
        ("cuda_error_invalid_value", "cudaerrorinvalidvalue", "invalid argument"),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.42), (Cause.CROSS_DEVICE_ARRAY, 0.08), (Cause.ILLEGAL_MEMORY_ACCESS, 0.06)),
        _SOURCE,
        pattern=r"CUDA_ERROR_INVALID_VALUE|cudaErrorInvalidValue|(?:CUDA error|cu(?:da)?[A-Z]\w+ failed): invalid argument",
        title="A call was refused for one of its arguments",
        modifiers=(
            Modifier("launch-frame", Cause.INVALID_KERNEL_LAUNCH, 6),
            Modifier("func-attribute", Cause.INVALID_KERNEL_LAUNCH, 5),
            Modifier("copy-frame", Cause.INVALID_KERNEL_LAUNCH, 0.3),
            Modifier("copy-frame", Cause.CROSS_DEVICE_ARRAY, 3),
            # The pointer of an array that CuPy did not make is of another device, or of the host.
            Modifier("pointer-attributes", Cause.INVALID_KERNEL_LAUNCH, 0.1),
            Modifier("pointer-attributes", Cause.CROSS_DEVICE_ARRAY, 8),
            Modifier("pointer-attributes", Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 20),
        ),
        decisive_fact="which call it is: the last frames of the traceback",
    ),
    Signature(
        "cuda.timeout",
        _RUNTIME,
        ("launch timed out and was terminated", "cudaerrorlaunchtimeout", "cuda_error_launch_timeout"),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.4), (Cause.GPU_BUSY, 0.15), (Cause.ASYNC_ERROR_SURFACED_LATE, 0.15)),
        f"{_SOURCE}; cudaDevAttrKernelExecTimeout: a GPU that drives a screen has a run-time limit on kernels",
        title="A kernel ran longer than a GPU with a screen allows",
        asynchronous=True,
        decisive_fact="whether the GPU drives a screen",
    ),
)
