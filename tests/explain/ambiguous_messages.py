"""Messages with several causes, each with evidence that decides between them or with evidence that does not."""

from __future__ import annotations

from gpuenv.model.causes import Cause

ARCH = "nvrtc: error: invalid value for --gpu-architecture (-arch)"
FABRIC = "nvidia-fabricmanager.service: Failed with result 'exit-code'"
OUT = "torch.cuda.OutOfMemoryError: CUDA out of memory."
SYMBOL = "ImportError: {}libcusparse.so.12: undefined symbol: __nvJitLinkCreate_12_8, version libnvJitLink.so.12"
CUDNN = "RuntimeError: CUDNN_STATUS_VERSION_MISMATCH"
CLI = "nvidia-container-cli: {}: no such file or directory"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
REFUSED = "PermissionError: [WinError 5] Access is denied: 'C:\\a\\kernel_cache\\b.cubin'"
GLIBC = "/lib64/libc.so.6: version `GLIBC_2.38' not found (required by {})"
OTHER = "Process 77 has {} GiB memory in use"
MINE = "Including non-PyTorch memory, this process has {} GiB"
MISMATCHED = Cause.DRIVER_LIBRARY_VERSION_MISMATCH
KERNEL = Cause.DRIVER_KERNEL_INCOMPATIBLE
HANDLE = "RuntimeError: CUBLAS_STATUS_NOT_INITIALIZED"
UNSEEN = "RuntimeError: no CUDA-capable device is detected"
NVRTC = "RuntimeError: CuPy failed to load libnvrtc.so.12"
ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"
ASSERT = "RuntimeError: CUDA error: device-side assert triggered"
IMAGE = "CUDA_ERROR_INVALID_IMAGE: device kernel image is invalid (cupy)"
NO_CUDNN = "libcudnn.so.9: cannot open shared object file"
NO_CUPY = "ModuleNotFoundError: No module named 'cupy'"
BLAS = "ImportError: libcublas.so.12: cannot open shared object file"
HEADER = 'cannot open source file "cuda_fp16.h"'

# Texts, each with its cause.
DECIDED_MESSAGES = (
    # Who holds the memory.
    (f"{OUT} Process 4410 has 30.12 GiB memory in use.", Cause.GPU_BUSY),
    (f"{OUT} {MINE.format(1.2)} memory in use. {OTHER.format(20)}.", Cause.GPU_BUSY),
    (f"{OUT} {OTHER.format(70)}. {MINE.format(0.6)}", Cause.GPU_BUSY),
    ("job 4021 holds 70 GB of it\ncudaErrorMemoryAllocation", Cause.GPU_BUSY),
    (f"| 0  N/A  N/A  991  C  python  30000MiB |  is a colleague's\n{OUT}", Cause.GPU_BUSY),
    ("CUDA_ERROR_OUT_OF_MEMORY: most of it is held by another user", Cause.GPU_BUSY),
    ("a forgotten jupyter kernel still has the memory\nCUDA out of memory", Cause.GPU_BUSY),
    ("pod 2 took 40 of 48 GB\nstd::bad_alloc: out_of_memory: RMM failure at", Cause.GPU_BUSY),
    (f"{OUT} {OTHER.format(2)}. {MINE.format(60)}", Cause.OUT_OF_MEMORY),
    (f"{OUT} no other process uses the GPU", Cause.OUT_OF_MEMORY),
    (f"{OUT} Close other programs that use the GPU.", Cause.OUT_OF_MEMORY),
    (f"{OUT} and another user is not using it", Cause.OUT_OF_MEMORY),
    (f"{OUT} and another user is using it", Cause.GPU_BUSY),
    (f"my job uses 4 GPUs and 60 GB\n{OUT}", Cause.OUT_OF_MEMORY),
    ("an earlier kernel takes long\nCUDA out of memory", Cause.OUT_OF_MEMORY),
    (f"a training of another user's job is there\n{OUT}", Cause.GPU_BUSY),
    (f"{OUT} Another server (pid 4120) is up", Cause.GPU_BUSY),
    ("CUBLAS_STATUS_NOT_INITIALIZED, another user holds 23 GB", Cause.GPU_BUSY),
    ("CUBLAS_STATUS_NOT_INITIALIZED", Cause.LIBRARY_NOT_INITIALIZED),
    (f"{OUT}\nfree_all_blocks() helps", Cause.MEMORY_POOL_RETENTION),
    (f"{OUT}\nfree_all_blocks() changes nothing", Cause.OUT_OF_MEMORY),
    (f"{OUT}\nmemory_allocated() 20 MB, memory_reserved() 19.5 GB", Cause.MEMORY_POOL_RETENTION),
    (f"{OUT} If reserved memory is >> allocated memory try setting max_split_size_mb", Cause.OUT_OF_MEMORY),
    # Whose binary has no code for the GPU, and who asks for which architecture.
    ("cupy.argsort(x): no kernel image is available for execution", Cause.CUPY_TOO_OLD_FOR_GPU),
    ("cupy.cuda.compiler: no kernel image is available for execution", Cause.NO_KERNEL_IMAGE),
    (f"{ARCH} on a Tesla K40", Cause.GPU_REMOVED_FROM_TOOLKIT),
    (f"{ARCH} on an H200", Cause.GPU_TOO_NEW_FOR_TOOLKIT),
    ("nvcc fatal : Unsupported gpu architecture 'compute_37', a Tesla K80", Cause.GPU_REMOVED_FROM_TOOLKIT),
    ("nvcc fatal : Unsupported gpu architecture 'compute_37'", Cause.BUILD_ARCH_LIST_UNSUPPORTED),
    (
        "TORCH_CUDA_ARCH_LIST=9.0\nnvcc fatal : Unsupported gpu architecture 'compute_90'",
        Cause.BUILD_ARCH_LIST_UNSUPPORTED,
    ),
    # Which machines have an NVSwitch.
    (f"{FABRIC}; the host has four L40S", Cause.FABRIC_MANAGER_NOT_NEEDED),
    (f"{FABRIC} on an HGX board", Cause.FABRIC_MANAGER_NOT_RUNNING),
    ("fabric manager version mismatch, and there is no NVSwitch", Cause.FABRIC_MANAGER_NOT_NEEDED),
    # Two versions beside each other.
    ("modinfo -F version nvidia: 550.90.07\n/sys/module/nvidia/version: 550.54.15", MISMATCHED),
    ("loaded module 535.183.01, libraries 550.54.14, cudaErrorNoDevice", MISMATCHED),
    ("nvidia/550.54.14, 6.5.0-44-generic, x86_64: installed\nuname -r: 6.8.0-40-generic", KERNEL),
    ("the tool stops: driver version 470.82 is older than 525.60", Cause.DRIVER_TOO_OLD_FOR_CUDA),
    ("requires a driver 525.60.13, found 470.82.01", Cause.DRIVER_TOO_OLD_FOR_CUDA),
    # What cannot fork, and what fell off.
    ("cuda driver library init failure: 3", Cause.CUDA_INITIALIZATION_FAILED),
    ("cuInit() returned 3", Cause.FORK_AFTER_CUDA_INIT),
    ("the GPU dropped off the bus", Cause.GPU_HARDWARE_FAULT),
    ("In [2]: torch.cuda.is_available()\nOut[2]: False", Cause.CPU_ONLY_FRAMEWORK),
    ("docker run -it org/pytorch python\ntorch.cuda.is_available()\nFalse", Cause.CONTAINER_WITHOUT_GPU),
    # Whose driver it is.
    ("WSL2: dpkg: error processing archive libnvidia-compute-550", Cause.WSL_LIBCUDA),
    ("dpkg: error processing archive libnvidia-compute-550", Cause.DRIVER_INSTALL_BROKEN),
    ("Linux 6.6.36-microsoft, cuInit: named symbol not found", Cause.WSL_LIBCUDA),
    ("NVML Shared Library Not Found, NVIDIA_DRIVER_CAPABILITIES=compute", Cause.CONTAINER_DRIVER_CAPABILITIES),
    ("lsmod: nvidia 56700928\nlibnvidia-ml.so.1: cannot open shared object file", Cause.DRIVER_INSTALL_BROKEN),
    ("nvidia-container-cli: device error: 1:2: unknown device", Cause.MIG_MISCONFIGURED),
    ("nvidia-container-cli: device error: 7: unknown device", Cause.VISIBLE_DEVICES_HIDE_GPU),
    # Whose libraries.
    (f"cudnn 8.4.1 hed43d4_0 conda-forge\nnvidia-cudnn-cu12 9.1.0.70 pypi_0 pypi\n{CUDNN}", Cause.MIXED_PIP_CONDA),
    (f"pip install torch, then conda install cuda-libraries\n{CUDNN}", Cause.MIXED_PIP_CONDA),
    (SYMBOL.format("/opt/miniconda3/envs/a/lib/"), Cause.LIBRARY_PATH_CONFLICT),
    (f"{SYMBOL.format('/opt/miniconda3/envs/a/lib/')}, torch is from pip", Cause.MIXED_PIP_CONDA),
    (f"conda 24.1 is installed\n{CUDNN}", Cause.LIBRARY_PATH_CONFLICT),
    (f"import cupy\nimport torch\n{CUDNN}", Cause.TORCH_CUPY_CONFLICT),
    (f"tensorflow and cupy in one interpreter: {CUDNN}", Cause.TORCH_CUPY_CONFLICT),
    (f"import torch\nimport numpy\n{CUDNN}", Cause.LIBRARY_PATH_CONFLICT),
    (HANDLE, Cause.LIBRARY_NOT_INITIALIZED),
    (f"{HANDLE}\nwith unset LD_LIBRARY_PATH it works", Cause.LIBRARY_PATH_CONFLICT),
    (f"{HANDLE}\nunset LD_LIBRARY_PATH and try again", Cause.LIBRARY_NOT_INITIALIZED),
    (f"{MISMATCH}\nemptying LD_LIBRARY_PATH cures it", Cause.LIBRARY_PATH_CONFLICT),
    (f"{UNSEEN}\nLD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs", Cause.LIBRARY_PATH_CONFLICT),
    (f"{UNSEEN}\nLD_LIBRARY_PATH=/usr/local/cuda/lib64", Cause.VISIBLE_DEVICES_HIDE_GPU),
    # Which board, which card.
    (f"JetPack 6.0, L4T 36.3\n{CUDNN}", Cause.JETSON_TEGRA),
    ("Jetson Orin Nano\nAssertionError: Torch not compiled with CUDA enabled", Cause.JETSON_TEGRA),
    ("AssertionError: Torch not compiled with CUDA enabled", Cause.CPU_ONLY_FRAMEWORK),
    ("podman run --gpus all rocm/tensorflow:latest\ncould not select device driver", Cause.ROCM_MISMATCH),
    (
        "docker run --gpus all nvidia/cuda:12.4.0-base\ncould not select device driver",
        Cause.CONTAINER_TOOLKIT_BROKEN,
    ),
    # What the container toolkit repeats.
    (
        CLI.format("mount error: open failed: /proc/driver/nvidia/capabilities/gpu1/mig/gi3/access"),
        Cause.MIG_MISCONFIGURED,
    ),
    (
        CLI.format("detection error: open failed: /usr/lib64/libnvidia-opencl.so.535.54"),
        Cause.DRIVER_INSTALL_BROKEN,
    ),
    (
        "nvidia-container-cli: mount error: file creation failed: /merged/libnvidia-ml.so.1: file exists",
        Cause.CONTAINER_TOOLKIT_BROKEN,
    ),
    # What an image was made with.
    (f"RUN apt-get install -y nvidia-utils-550\n{MISMATCH}", Cause.DOCKERFILE_FAULT),
    (f"sudo apt-get install nvidia-utils-550\n{MISMATCH}", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
    ("ENV LD_LIBRARY_PATH=/usr/local/cuda-12.4/lib64/stubs\nCUDA driver is a stub library", Cause.DOCKERFILE_FAULT),
    (
        "export LD_LIBRARY_PATH=/usr/local/cuda-12.4/lib64/stubs\nCUDA driver is a stub library",
        Cause.LIBRARY_PATH_CONFLICT,
    ),
    (f"{MISMATCH}\nthe image has apt-get install nvidia-utils-535 in it", Cause.DOCKERFILE_FAULT),
    (f"{MISMATCH}\napt-get install nvidia-utils-535", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
    (f"{UNSEEN} at docker build", Cause.DOCKERFILE_FAULT),
    (f"{BLAS}\nthe Dockerfile copies only /app to the second stage", Cause.DOCKERFILE_FAULT),
    ("cudaErrorInsufficientDriver\nan older image works", Cause.IMAGE_REQUIRES_OTHER_DRIVER),
    ("cudaErrorInsufficientDriver\nan older driver was there", Cause.DRIVER_TOO_OLD_FOR_CUDA),
    # Which names are CuPy's.
    (
        "Successfully installed cupy-cudnn-1.2\nModuleNotFoundError: No module named 'cupy'",
        Cause.UNTRUSTED_PACKAGE_NAME,
    ),
    (
        "Successfully installed cupy-xarray-0.1.4\nModuleNotFoundError: No module named 'cupy'",
        Cause.CUPY_NOT_INSTALLED,
    ),
    ("cupy-cuda129==1.0.0\ncupy_cuda_13==1.0", Cause.UNTRUSTED_PACKAGE_NAME),
    ("cupy-cuda11x==13.6.0\ncupy-cuda12x==14.2.0", Cause.MULTIPLE_CUPY_PACKAGES),
    (
        "pip list: cupy-cuda11x 12.3.0, cupy 13.6.0\nmodule 'cupy._core' has no attribute '_kernel'",
        Cause.MULTIPLE_CUPY_PACKAGES,
    ),
    # Who shares the cache.
    (f"joblib\n{REFUSED}", Cause.KERNEL_CACHE_RACE),
    (REFUSED, Cause.KERNEL_CACHE_UNWRITABLE),
    (
        "FileExistsError: [Errno 17] File exists: '/a/.cupy/kernel_cache', a dangling symlink",
        Cause.KERNEL_CACHE_UNWRITABLE,
    ),
    ("FileExistsError: [Errno 17] File exists: '/a/.cupy/kernel_cache/b.cubin'", Cause.KERNEL_CACHE_RACE),
    # Whose packages.
    (f"{HANDLE}\nwithout import tensorflow it works", Cause.TORCH_CUPY_CONFLICT),
    (f"{HANDLE}\nimport tensorflow comes first", Cause.LIBRARY_NOT_INITIALIZED),
    (f"{HANDLE}\nconda list: cudatoolkit 11.8; nvidia-cublas-cu12 12.1 (pypi)", Cause.MIXED_PIP_CONDA),
    (f"{NVRTC}\ncupy-cuda11x and cupy-cuda12x", Cause.MULTIPLE_CUPY_PACKAGES),
    (f"{NO_CUPY}\npip list: cupy-gpu 0.1", Cause.UNTRUSTED_PACKAGE_NAME),
    (f"{NO_CUPY}\npip install cupy-cuda12x", Cause.CUPY_NOT_INSTALLED),
    (f"{HANDLE}\nthe md5sums of libcublasLt.so.12 differ", Cause.CORRUPT_INSTALLATION),
    (f"{HANDLE}\nthe md5sums are the same", Cause.LIBRARY_NOT_INITIALIZED),
    # Which CUDA is there, and which was meant.
    (f"{NVRTC}\npip: cupy-cuda12x\n/usr/local/cuda-11.4", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR),
    (f"{NVRTC}\npip: cupy-cuda12x\n/usr/local/cuda-12.4", Cause.CUDA_LIBRARY_MISSING),
    (f"{NVRTC}\npip: cupy-cuda12x\nnvidia-smi says CUDA 13.0", Cause.CUDA_LIBRARY_MISSING),
    (HEADER, Cause.CUDA_HEADERS_MISSING),
    (f"{HEADER}\nCUDA_PATH=/opt/cuda-12.0 was deleted", Cause.CUDA_PATH_WRONG),
    # Who forked, which device, who launched.
    (f"{HANDLE}\ngunicorn --preload", Cause.FORK_AFTER_CUDA_INIT),
    (f"{HANDLE}\ngunicorn -w 4", Cause.LIBRARY_NOT_INITIALIZED),
    (f"{ILLEGAL}\nthe layers are on separate GPUs", Cause.CROSS_DEVICE_ARRAY),
    (f"{ASSERT}\n----> 3 x.cpu()", Cause.ASYNC_ERROR_SURFACED_LATE),
    (f"{ASSERT}\n----> 3 loss(x, y)", Cause.ILLEGAL_MEMORY_ACCESS),
    ("cudaErrorInvalidValue: invalid argument\nin pointerGetAttributes", Cause.CROSS_DEVICE_ARRAY),
    # One alone, or many.
    (IMAGE, Cause.CUPY_TOO_OLD_FOR_GPU),
    (f"{IMAGE}\na re-run works", Cause.KERNEL_CACHE_RACE),
    (f"{IMAGE}\noptions=('-dlto',)", Cause.NVRTC_OUTPUT_INVALID),
    # It only looks like a fault.
    (NO_CUDNN, Cause.OPTIONAL_LIBRARY_MISSING),
    (f"{NO_CUDNN}\nTask exited with return code 0", Cause.OPTIONAL_LIBRARY_PROBE_MISREAD),
    (f"{NO_CUDNN}\nTask exited with return code 1", Cause.OPTIONAL_LIBRARY_MISSING),
    # A build of CuPy, and any other.
    ("nvcc fatal   : Unsupported gpu architecture 'compute_100'", Cause.GPU_TOO_NEW_FOR_TOOLKIT),
    (
        "pip install cupy failed\nnvcc fatal   : Unsupported gpu architecture 'compute_100'",
        Cause.CUPY_SDIST_BUILD_FAILURE,
    ),
    # And the rest.
    ("cuda Exclusive_Process\nCUDA_ERROR_INVALID_DEVICE: invalid device ordinal", Cause.COMPUTE_MODE_EXCLUSIVE),
    (
        "the node was booted without the nvidia module\n/dev/nvidia0: No such file or directory",
        Cause.DRIVER_MODULE_NOT_LOADED,
    ),
    ("no NVSwitch in this machine\nFailed to start NVIDIA fabric manager service", Cause.FABRIC_MANAGER_NOT_NEEDED),
    ("8 GPUs on NVSwitch\nFailed to start NVIDIA fabric manager service", Cause.FABRIC_MANAGER_NOT_RUNNING),
    ("ptxas does not support CC 3.5", Cause.GPU_REMOVED_FROM_TOOLKIT),
    ("ptxas does not support CC 12.0", Cause.GPU_TOO_NEW_FOR_TOOLKIT),
    ("OSError: /usr/lib64/libcuda.so.1: invalid ELF header", Cause.DRIVER_INSTALL_BROKEN),
    (
        "OSError: /usr/lib64/libnvidia-ptxjitcompiler.so.1: ELF load command past end of file",
        Cause.DRIVER_INSTALL_BROKEN,
    ),
    ("OSError: /usr/local/cuda/lib64/libcublas.so.12: invalid ELF header", Cause.CORRUPT_INSTALLATION),
    (
        "Could not load library libcudnn_ops.so.9. Error: /opt/a/libcudnn_ops.so.9: undefined symbol: x",
        Cause.LIBRARY_PATH_CONFLICT,
    ),
    ("conda " + GLIBC.format("/opt/a/bin/python3.12"), Cause.TARGET_ENVIRONMENT_BROKEN),
    ("cuda " + GLIBC.format("/opt/a/libcupy.so"), Cause.PLATFORM_WHEEL_MISSING),
    ("Cannot uninstall cupy-cuda12x 13.1.0, no RECORD file was found", Cause.CORRUPT_INSTALLATION),
    ("Cannot uninstall cupy 13.1.0, no RECORD file was found", Cause.MIXED_PIP_CONDA),
    (
        "cupy/_core/include/cupy/cuda_fp16.h:3:10: fatal error: cuda.h: No such file or directory",
        Cause.CUPY_SDIST_BUILD_FAILURE,
    ),
    ("mine.cu:3:10: fatal error: cuda.h: No such file or directory", Cause.CUDA_HEADERS_MISSING),
    ("AttributeError: module 'cupyx.scipy.special' has no attribute 'hyp2f1'", Cause.NUMPY_SEMANTICS_DIFFERENCE),
    ("cupy: ValueError: non-scalar numpy.ndarray cannot be used for fill", Cause.IMPLICIT_HOST_DEVICE_CONVERSION),
    ("ModuleNotFoundError: No module named 'cupyx'", Cause.CUPY_NOT_INSTALLED),
    ("ModuleNotFoundError: No module named 'cupy_backends.cuda'", Cause.CORRUPT_INSTALLATION),
    ("cuInit(0) = 100", Cause.VISIBLE_DEVICES_HIDE_GPU),
)
