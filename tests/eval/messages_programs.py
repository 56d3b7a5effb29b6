"""Messages about a program's CUDA work, its caches and its image, by cause."""

PROGRAMS: dict[str, tuple[str, ...]] = {
    "kernel-cache-unwritable": (
        "OSError: [Errno 122] Disk quota exceeded: '/home/user/.cupy/kernel_cache/tmp1'",
        "  File \"/venv/lib/python3.12/site-packages/cupy/cuda/compiler.py\", line 394, in _compile\nFileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp', '/usr/tmp', '/app']",
        "OSError: [Errno 30] Read-only file system: '.cupy/kernel_cache/tmpx1'",
        "PermissionError: [Errno 13] Permission denied: '/root/.cupy/kernel_cache'",
        "OSError: [Errno 28] No space left on device: '.cupy/kernel_cache/tmp2'",
        "OSError: [Errno 122] Disk quota exceeded: '.cupy/kernel_cache/a.cubin'",
    ),
    "kernel-cache-race": (
        "OSError: [Errno 26] Text file busy: '/home/user/.cupy/kernel_cache/a.cubin'",
        "PermissionError: [WinError 32] The process cannot access the file because it is being used by another process: '.cupy\\\\kernel_cache\\\\tmp'",
        "FileExistsError: [Errno 17] File exists: '.cupy/kernel_cache'",
        "OSError: [Errno 116] Stale file handle: '.cupy/kernel_cache/0f.cubin'",
    ),
    "out-of-memory": (
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes (allocated so far: 16,000,000,000 bytes).",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "cudaErrorMemoryAllocation: out of memory",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
        "CUBLAS_STATUS_ALLOC_FAILED",
    ),
    "memory-pool-retention": (
        "Out of memory allocating 100,000 bytes (allocated so far: 950,000 bytes, limit set to: 1,000,000 bytes).",
        "import cupy\nmempool used_bytes: 0 total_bytes: 536870912",
        "cupy: GPU memory is not released after del",
    ),
    "async-error-surfaced-late": (
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorLaunchFailure: unspecified launch failure",
        "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
        "RuntimeError: CUDA error: unspecified launch failure",
        "CUDNN_STATUS_EXECUTION_FAILED",
    ),
    "illegal-memory-access": (
        "========= Invalid __global__ read of size 4 bytes",
        "CUDADriverError: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
        "RuntimeError: CUDA error: device-side assert triggered",
        "CUDA_ERROR_MISALIGNED_ADDRESS: misaligned address",
        "NVRM: Xid (PCI:0000:01:00): 31, pid=99, name=python3, Ch 00000008, MMU Fault",
    ),
    "invalid-kernel-launch": (
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch",
        "cudaErrorInvalidConfiguration: invalid configuration argument",
        "ptxas error   : Entry function 'k' uses too much shared data (0x20000 bytes, 0xc000 max)",
        "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: too many blocks in cooperative launch",
    ),
    "stream-race": (
        "========= Error: Race reported between Read access and Write access",
        "CSAN detected a possible data race on tensor with data pointer 139",
        "========= Error: Potential RAW hazard detected at __shared__ 0x0 in block (0,0,0)",
        "========= Error: Race reported between Write access and Read access",
    ),
    "implicit-host-device-conversion": (
        "TypeError: Argument 'a' has incorrect type (expected cupy._core.core._ndarray_base, got numpy.ndarray)",
        "TypeError: Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly.",
        "TypeError: Unsupported type <class 'numpy.ndarray'>",
        "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    ),
    "cross-device-array": (
        "BufferError: Can't export tensors on a different CUDA device index. Expected: 1. Current device: 0.",
        "RuntimeError: CUDA error: peer access has not been enabled",
        "ValueError: Array device must be same as the current device: array device = 0 while current = 1",
        "The device where the array resides (1) is different from the current device (0).",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!",
        "cudaErrorPeerAccessUnsupported: peer access is not supported between these two devices",
    ),
    "dtype-mismatch": (
        "TypeError: Type is mismatched. x <class 'numpy.float64'> <class 'numpy.float32'> T",
        "RuntimeError: expected scalar type Float but found Double",
        "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float",
    ),
    "numpy-semantics-difference": (
        "AttributeError: module 'cupyx.scipy.signal' has no attribute 'butter'",
        "TypeError: Unsupported type <class 'list'>",
        "ValueError: Unsupported dtype object",
        "TypeError: 'cupy.ndarray' object cannot be interpreted as an integer",
    ),
    "fork-after-cuda-init": (
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess.",
        "CudaDriverError: CUDA initialized before forking",
        "Process Process-2:\nCUDARuntimeError: cudaErrorInitializationError: initialization error",
    ),
    "library-not-initialized": (
        "cupy_backends.cuda.libs.cublas.CUBLASError: CUBLAS_STATUS_NOT_INITIALIZED",
        "CUSOLVER_STATUS_NOT_INITIALIZED",
        "CUDNN_STATUS_NOT_INITIALIZED",
        "CURAND_STATUS_INITIALIZATION_FAILED",
    ),
    "cufft-plan-failure": (
        "cupy.cuda.cufft.CuFFTError: CUFFT_INTERNAL_ERROR",
        "CUFFT_ALLOC_FAILED",
        "RuntimeError: cuFFT error: CUFFT_INVALID_SIZE",
        "Failed to create cuFFT batched plan with scratch allocator",
    ),
    "cupy-bug": (
        '  File "cupy/_core/_routines_manipulation.pyx", line 10, in cupy._core._routines_manipulation.f\nAssertionError',
        '  File "cupy/cuda/memory.pyx", line 3, in cupy.cuda.memory._g\nUnboundLocalError: local variable',
        "cupy internal error: please report this to the developers",
    ),
    "image-requires-other-driver": (
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.6, please update your driver to a newer version, or use an earlier cuda container: unknown",
        "nvidia-container-cli: requirement error: unsatisfied condition: brand = tesla",
        "ERROR: This container was built for NVIDIA Driver Release 555.42 or later, but\n       version 535.183.01 was detected and compatibility mode is UNAVAILABLE.",
    ),
    "dockerfile-fault": (
        "docker: Error response from daemon: manifest for nvidia/cuda:latest not found: manifest unknown: manifest unknown.",
        "W: GPG error: https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64  InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY A4B469963BF863CC",
        "services.app Additional property gpus is not allowed",
        "failed to solve: nvidia/cuda:12.1-base: docker.io/nvidia/cuda:12.1-base: not found",
    ),
}
