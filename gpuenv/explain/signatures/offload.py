"""Messages of the runtimes of other compilers: IREE, TVM, SYCL, OpenMP, OpenACC, Kokkos, Warp, Taichi, TensorRT, OptiX."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

_LIMITS = "the block size and the shared memory of the launch that fails, and what the GPU gives"
_NONE_SEEN = (
    Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 30),
    Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8),
    Modifier("started-without-gpu", Cause.CONTAINER_WITHOUT_GPU, 12),
    Modifier("driver-none", Cause.NO_DRIVER, 12),
    Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 8),
)

SIGNATURES = (
    Signature(
        "offload.shared-memory",
        "IREE, XLA, TVM and TileLang, Warp, CUDA.jl, Kokkos, xFormers and torch, DeepGEMM",
        (
            *("requested shared memory", "shared memory size limit exceeded", "allowed dynamic shared memory size"),
            *("configure kernel dynamic shared memory", "insufficient shared memory", "dynamic shared memory exceeds"),
            *("requires too much shared memory", "archspec::smem_capacity", "static shared memory exceeds"),
        ),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.86),),
        "IREE, hal/drivers/cuda/native_executable.c; XLA, codegen/triton; TVM, cuda_module.cc; Warp, context.py; "
        "CUDA.jl, execution.jl; Kokkos, Kokkos_Cuda_Parallel_Team.hpp; torch, mem_eff_attention; DeepGEMM, csrc/jit_kernels",
        pattern=(
            r"requested shared memory size of \d+ (?:bytes )?larger than allowed size of \d|Shared memory size limit exceeded"
            r"|Failed to set the allowed dynamic shared memory size to \d|Failed to configure kernel dynamic shared memory for this device"
            r"|Parallel\w+< ?Cuda ?> insufficient shared memory|Amount of (?:dynamic|static) shared memory exceeds (?:device|kernel) limit"
            r"|This kernel requires too much shared memory on this machine|smem_size <= SM\d+ArchSpec::smem_capacity"
        ),
        title="A kernel wants more shared memory than the GPU gives to a block",
        decisive_fact=_LIMITS,
    ),
    Signature(
        "offload.launch",
        "SYCL, OpenACC of GCC",
        (
            *("work-items in a work-group", "registers available on the hardware", "allocation of local memory on the"),
            *("non-uniform work-groups", "accelerator has insufficient resources", "local memory for kernel exceeds"),
        ),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.84),),
        "DPC++, sycl/source/detail/error_handling and unified-runtime's adapter for CUDA; GCC, libgomp/plugin/plugin-nvptx.c",
        pattern=(
            r"number of work-items in a work-group (?:cannot )?exceed|Exceeded the number of registers available on the hardware"
            r"|Excessive allocation of local memory on the device|Local memory for kernel exceeds the amount requested"
            r"|Non-uniform work-groups are not supported by the target device"
            r"|The Nvidia accelerator has insufficient resources to launch '"
        ),
        title="The launch asks for more threads, registers or shared memory than the GPU gives",
        decisive_fact=_LIMITS,
    ),
    Signature(
        "offload.other-architecture",
        "Kokkos, OpenMP of LLVM, NVIDIA's HPC compilers, TensorRT",
        (
            *("likely mismatch of architecture", "running kernels compiled for", "no images found compatible"),
            *("rebuild this file with -gpu=", "generated on an incompatible device"),
        ),
        ((Cause.NO_KERNEL_IMAGE, 0.85), (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.05)),
        "Kokkos, Kokkos_Cuda_Instance.cpp; LLVM, offload/libomptarget/interface.cpp; nvc, its runtime; "
        "TensorRT, deserializeCudaEngine",
        pattern=(
            r"Cuda::initialize ERROR: (?:likely mismatch of architecture|running kernels compiled for)"
            r"|No images found compatible with the installed hardware|Rebuild this file with -gpu=\w+ to use NVIDIA"
            r"|engine plan file is generated on an incompatible device"
        ),
        title="The program is compiled for GPUs of other capabilities",
        decisive_fact="the GPU's compute capability, and the architectures that the build names",
    ),
    Signature(
        "offload.other-memory",
        "OpenACC of NVIDIA's compilers, OpenMP of LLVM, Kokkos, TVM",
        (
            *("clause was not found on device", "does not exist for host address", "inaccessible memory space"),
            "is directly accessed by host memory",
        ),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.8),),
        "nvc, its runtime; LLVM, offload/libomptarget/omptarget.cpp; Kokkos, Kokkos_View.hpp; TVM, verify_memory.cc",
        pattern=(
            r"data in .{1,30}clause was not found on device|device mapping required by 'present' map type modifier does not exist"
            r"|ERROR: attempt to access inaccessible memory space|Variable `?\S{1,60} is directly accessed by host memory"
        ),
        title="What is on the host is used as if it were on the GPU",
        decisive_fact="where the data was put on the GPU before it is used there",
    ),
    Signature(
        "sycl.status",
        "DPC++ and its runtime for CUDA",
        ("pi_error_", "ur_result_error_", "pi_result_error"),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.8),),
        "unified-runtime, ur_api.h, and DPC++'s pi.h: results of a call",
        pattern=(
            r"(?:UR_RESULT|PI)_ERROR_(?:(?P<memory>OUT_OF_(?:DEVICE_MEMORY|RESOURCES)|MEM_OBJECT_ALLOCATION_FAILURE)"
            r"|(?P<binary>INVALID_BINARY|DEVICE_IMAGE\w*|UNSUPPORTED_VERSION)|(?P<launch>INVALID_WORK_GROUP_SIZE|INVALID_WORK_ITEM_SIZE))\b"
        ),
        weights_fn=lambda values: (
            ((Cause.OUT_OF_MEMORY, 0.8), (Cause.INVALID_KERNEL_LAUNCH, 0.06))
            if "memory" in values
            else ((Cause.NO_KERNEL_IMAGE, 0.7),)
            if "binary" in values
            else ((Cause.INVALID_KERNEL_LAUNCH, 0.8),)
        ),
        title="A call of SYCL's runtime failed",
        decisive_fact="the device that sycl-ls names, and what the program was built for",
    ),
    Signature(
        "sycl.no-device",
        "SYCL",
        ("no device of requested type available",),
        (
            (Cause.NO_DRIVER, 0.3),
            (Cause.CPU_ONLY_FRAMEWORK, 0.18),
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.14),
            (Cause.NO_NVIDIA_GPU, 0.12),
            (Cause.CONTAINER_WITHOUT_GPU, 0.1),
        ),
        "DPC++, sycl/source/device_selector.cpp",
        requires=("cuda", "nvidia-card", "smi-table"),
        title="SYCL finds no GPU: no driver, or no plug-in for CUDA",
        modifiers=_NONE_SEEN,
        decisive_fact="what sycl-ls lists, and what nvidia-smi says in the same shell",
    ),
    Signature(
        "taichi.fell-back",
        "Taichi",
        ("falling back to cpu", "libcuda.so lib not found"),
        (
            (Cause.NO_DRIVER, 0.45),
            (Cause.NO_NVIDIA_GPU, 0.18),
            (Cause.CONTAINER_WITHOUT_GPU, 0.12),
            (Cause.WSL_LIBCUDA, 0.05),
        ),
        "taichi, lang/misc.py: adaptive_arch_select; rhi/cuda/cuda_driver.cpp",
        pattern=r"Arch=\[?<?Arch\.cuda\b.{0,30} is not supported, falling back to CPU|libcuda\.so lib not found",
        level=Level.WARNING,
        title="Taichi finds no driver of NVIDIA's and computes on the CPU",
        modifiers=(*_NONE_SEEN, Modifier("wsl", Cause.WSL_LIBCUDA, 15)),
        decisive_fact="what nvidia-smi says in the same shell",
    ),
    Signature(
        "optix.older-driver",
        "OptiX",
        ("unsupported_abi_version", "does not support abi version"),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.85),),
        "optix_types.h: OptixResult; Cycles, device/optix",
        pattern=r"OPTIX_ERROR_UNSUPPORTED_ABI_VERSION|installed driver does not support ABI version",
        title="The driver is older than the OptiX that the program was built with",
    ),
    Signature(
        "candle.cpu-build",
        "candle and other Rust crates",
        ("has not been built with cuda support", "not compiled with cuda support"),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.86),),
        "candle, candle-core/src/error.rs: NotCompiledWithCudaSupport",
        title="The program there is built without CUDA",
        evidence="cpu-torch",
    ),
)
