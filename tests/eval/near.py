"""Lines that come near to a message of a failure, and are none: written, not run."""

from __future__ import annotations

# What healthy programs say.
NEAR = (
    "torch 2.8.0+cu129, CUDA available: True, cuDNN 91002, NCCL version 2.27.3",
    "CUDA used to build PyTorch: 12.9\nGPU models and configuration: GPU 0: NVIDIA H100 80GB HBM3",
    "Using CUDA device 0: NVIDIA A100-SXM4-80GB (compute capability 8.0)",
    "cuFFT plan cache: 3 of 16 plans, 12 MiB",
    "Building wheel for numpy (pyproject.toml) ... done",
    "Successfully installed cupy-cuda12x-14.2.0 numpy-2.4.6",
    "Collecting cupy-cuda12x\n  Downloading cupy_cuda12x-14.2.0-cp312-cp312-manylinux2014_x86_64.whl (136.1 MB)",
    '"Capabilities": [["gpu", "compute", "utility"]]',
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    "export CUDA_PATH=/usr/local/cuda-12.9",
    "nvidia-container-cli: configured the container for 1 GPU",
    "INFO[0000] Found 2 CDI devices\nnvidia.com/gpu=0\nnvidia.com/gpu=all",
    "dkms status\nnvidia/580.65.06, 6.12.43+deb13-amd64, x86_64: installed",
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.65.06",
    "PM: suspend entry (deep)\nPM: suspend exit",
    "libstdc++.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libstdc++.so.6",
    "strings libstdc++.so.6 | grep GLIBCXX_3.4.30\nGLIBCXX_3.4.30",
    "GET /healthz 200, gpu 31 GiB of 80 GiB in use, 0 Xid events, 0 retired pages",
    "Process-3: step 100, loss 0.12, device cuda:1",
    "stat /dev/nvidia0: character special file, mode 0666",
    "numba 0.62.1, CUDA_VISIBLE_DEVICES=0,1, 2 devices found",
    "UserWarning: lr_scheduler.step() was called before optimizer.step()",
    "error: unknown file type '.xyz' (from 'src/module.xyz')",
    "AttributeError: attribute '__name__' of 'builtin_function_or_method' objects is not writable",
    "error: externally-managed-environment",
    "npm ERR! code 404\nnpm ERR! 404 Not Found - GET http://localhost/left-pad",
    "npm ERR! 2 vulnerabilities",
    "dpkg: warning: no kernel image installed, nvidia-dkms is skipped",
    "update-initramfs: there is no kernel image in /boot for nvidia",
    "Release 2.0: dropped support for Pascal case in the names of columns",
    "The connection was reset; the file is being used by another process.",
    "java.lang.OutOfMemoryError: out of memory trying to allocate an array",
    "OOM when allocating tensor with shape[8,4] and type float on /replica:0/device:CPU:0 by allocator cpu",
    "Capacity:\n  nvidia.com/gpu:  8\nAllocated resources:\n  nvidia.com/gpu     0            0\nEvents: none",
    'openat(AT_FDCWD, "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", O_RDONLY|O_CLOEXEC) = 3',
    "loaded /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 (NVML 580.65.06)",
    "find / -name libnvidia-ml.so.1\n/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "$ ls /dev/nvidia*\n/dev/nvidia0  /dev/nvidiactl  /dev/nvidia-uvm\nbash: foo: command not found",
    "ls: /dev/nvidia0 /dev/nvidiactl\nls: cannot access '/dev/nope': No such file or directory",
    "/dev/nvidia0 exists, /etc/foo: No such file or directory",
    "find: '/proc/1/task': Permission denied\n./home/ComputeCache",
    "du: cannot read directory './private': Permission denied\n4.0K ./.triton",
    "curl returned: 999",
    "current database: initialization error",
    "custom CUDA tasks done: 1999 of 1999",
)

# What states no fact of the machine.
NOTHING_STATED = (
    "assert torch.cuda.is_available()",
    "if not torch.cuda.is_available(): device = 'cpu'  # False on the CI",
    ">>> torch.cuda.is_available()\nTrue",
    "torch.version.cuda is not None",
    "cupy 13.0.0 is installed, cupy-cuda12x would be the wheel",
    "the kernels use the default stream, which is correct",
    "if the linker cannot find the library, set LIBRARY_PATH",
    "Support for Kepler is there up to CUDA 11.8",
)

# What says the opposite.
OPPOSITES = (
    "My driver supports CUDA 12.4 but torch here is built for 11.8, and everything works.",
    "nvidia-smi says the driver supports CUDA 13.0, but nvcc is 12.4.",
    "CUDA 12.4 is installed.\nvboxdrv: make: scripts/basic/fixdep: Permission denied",
    "Note: cupy-cuda12x depends on numpy, so numpy is installed too.",
    "we only found wheels for `rmm-parser` (v0.2) with the following Python ABI tag: cp39",
    "you are not required to disable Nouveau on this machine",
)
