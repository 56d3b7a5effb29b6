"""Lines that resemble the message of a failure without being one: written, not captured."""

from __future__ import annotations

# Output of healthy programs.
HEALTHY_OUTPUT = (
    "torch 2.8.0+cu129, CUDA available: True, cuDNN 91002, NCCL version 2.27.3",
    "nouveau is blacklisted and not loaded; lsmod lists nvidia, nvidia_uvm and nvidia_modeset",
    "The kernel cache is shared by all ranks of the job, and every rank took its CUDA kernels from there",
    "Two CUDA streams were used, and the results are equal with and without synchronisation",
    "The machine has CUDA 12.4 and pip installed cupy-cuda12x, no import failed",
    "| NVIDIA-SMI 580.65.06  Driver Version: 580.65.06  CUDA Version: 13.0  |\nno error",
    "NVRTC finds vector_types.h and cuda_fp16.h in the wheel's include folder",
    "complex128 in, complex128 out: there is no loss of precision on the GPU",
    "0 errors on GPU 1, 0 errors on GPU 2, cuda:1 and cuda:2 are healthy",
    "cuda:1 was faster than cuda:0, both runs ended with exit status 0",
    "nvidia-smi answered within 30 ms, nvmlInit returned NVML_SUCCESS",
    "The module nvidia.ko is signed with an enrolled key and was loaded",
    "/dev/nvidia-uvm, /dev/nvidiactl and /dev/nvidia0 are mounted into the container",
    "root  1204  0.0  0.0  8124  2304 ?  Ss  10:02  0:00 /usr/bin/nvidia-persistenced --verbose",
    "cupy_jitify_exercise(10): warning: cooperative_groups.h: [jitify] File not found",
    "cub/detail/detect_cuda_runtime.cuh(39): warning: cuda_runtime_api.h: [jitify] File not found",
    "cupy: the sum of 2**31 float32 elements is right, larger arrays are handled with int64 indices",
    "CUDA 12 wheels run on the V100, CUDA 13 wheels on the H100",
    "| N/A   31C    P0    62W / 300W |      0MiB / 16384MiB |      0%   E. Process |",
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
    "cupy 14.2.0: memory pool 512 MiB used of 1.0 GiB, all blocks freed at the end, GPU memory back at 3 MiB",
    "Memory usage of the job: 2.1 GiB on the GPU, constant over 500 steps",
    "free_all_blocks() was called, GPU memory was released\ncupy done",
    "nvidia-smi shows no processes, 3MiB / 81559MiB of the GPU memory are used",
    "the training process has ended, the GPU memory is free again (nvidia-smi: 0 MiB)",
    "zombie processes: 0, defunct: 0\nGPU 0: 35C",
    "CUDA_VISIBLE_DEVICES=2 python train.py\nusing cuda:0, which is NVIDIA A100 (GPU 2 of the node)",
    "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\nimport torch\nprint(torch.cuda.device_count())\n1",
    "GPU 0: NVIDIA A100-SXM4-40GB\n  MIG 1g.5gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3)\ncuda ok",
    "MIG Mode\n        Current                 : Disabled\n        Pending                 : Disabled",
    "    Clocks Event Reasons\n        SW Power Cap            : Not Active\n        HW Slowdown : Not Active\nGPU ok",
    "GPU clocks are at their maximum, no throttling, 61 C, power cap 400 W",
    "nvidia_uvm 1691648 2 - Live 0x0000000000000000 (OE)\nnvidia 9715712 30 nvidia_uvm, Live",
    "crw-rw---- 1 root video 195, 0 Nov 21 09:00 /dev/nvidia0\nIt is closed to all others on purpose.",
    "uid=1000(ann) groups=1000(ann),44(video)\ncrw-rw---- 1 root video 195, 0 Nov 21 09:00 /dev/nvidia0",
    "numpy and cupy give the same result, max difference 1e-7",
    "Radeon RX 7900 XTX, gfx1100, HSA_OVERRIDE_GFX_VERSION is not set, rocminfo ok",
    "The stream is synchronized with the default stream before the copy; results agree on CUDA and CPU.",
    "SKIPPED [3] tests/test_gpu.py: no CUDA device available",
    "-- Autodetected CUDA architecture(s): 8.6\n-- Configuring done",
    "Compute Mode                          : Exclusive_Process\nNVIDIA A100, 1 process, ok",
    "| N/A   36C    P0    41W / 300W |  70799MiB / 81559MiB |      0%      Default |\nThe server waits for requests.",
    "|    0   N/A  N/A     31794      C   [Not Found]                      5371MiB |",
    "LnkSta: Speed 2.5GT/s (downgraded), Width x16\nKernel driver in use: nvidia",
    (
        "Installed CUDA version 12.6 does not match the version torch was compiled with 12.4 but since the APIs are "
        "compatible, accepting this combination"
    ),
    "Available providers: ['CUDAExecutionProvider', 'CPUExecutionProvider']",
    "[h264_nvenc] encoder ready, libnvidia-encode.so.1 is mounted in the container",
    "cupy.fuse made one kernel of three; cupyx.scipy.ndimage.zoom: mode nearest, order 1",
)

# Prose about the same subjects: documentation, release notes, satisfied users.
PROSE = (
    "This release reduces GPU memory usage; memory is now freed after each batch.",
    "Fixed a GPU memory leak in the data loader (CUDA 12.4).",
    "CuPy uses a memory pool, so memory is not freed immediately when an array goes out of scope.",
    "Call cupy.get_default_memory_pool().free_all_blocks() to release memory.",
    "How to free memory in CuPy: see the documentation, Memory Management.",
    "GPU memory grows with the batch size; on an A100 a batch of 64 takes 31 GiB (CUDA).",
    "Set CUDA_VISIBLE_DEVICES to choose the GPUs; it is ignored on CPU-only builds.",
    "CUDA_VISIBLE_DEVICES must be set before importing torch.",
    "The variable CUDA_VISIBLE_DEVICES has no effect on nvidia-smi, which always lists all GPUs.",
    "export CUDA_VISIBLE_DEVICES=0  # only use the first GPU",
    "MIG lets one A100 be used as up to seven GPUs; a CUDA process sees only one instance.",
    "MIG is not available on GeForce cards.",
    "nvidia-smi -c EXCLUSIVE_PROCESS",
    "The fan curve keeps the GPU from overheating at 300 W.",
    "GPU boost clocks drop at 70 C by design; throttling starts at 83 C.",
    "nvidia-persistenced started (pid 812).",
    "Containers do not lose the GPU after daemon-reload since we use CDI (nvidia-container-toolkit 1.17).",
    "Either cupy-cuda12x or cupy-cuda13x can be installed, not both.",
    "Supported: cupy-cuda12x and cupy-cuda13x.",
    "The package has wheels for both cupy-cuda12x and cupy-cuda13x.",
    "NumPy does broadcasting the same way as CuPy.",
    "cupy.linalg.svd differs from numpy in the sign of the vectors, which is allowed.",
    "CuPy is mostly compatible with NumPy; see Differences between CuPy and NumPy.",
    "torch.cuda.is_available() returns True, device_count() is 8",
    "The driver and the CUDA runtime library versions match.",
    "This build requires CUDA compute capability >= 7.0, your GPU has 8.6: OK",
    "FlashAttention-2 supports Ampere, Ada and Hopper GPUs.",
    "zlibwapi.dll found in C:\\Windows\\System32",
    "Error handling: the program exits with 2 if no CUDA device is found.",
    "If no CUDA-capable device is found, the CPU is used.",
    "No CUDA devices are needed to build the documentation.",
    "Checking for CUDA device ... found",
    "Users of other GPUs: another process may use the GPU at the same time (MPS).",
    "job 123 finished, GPU memory in use: 0 MiB",
    "The zombie reaper cleans up processes in the container; GPU not affected.",
    "numpy works with cupy arrays through __array_function__.",
    "disk quota: 3 GB of 10 GB used; .cupy 120 MB",
    "The GPU is not throttled: clocks 1980 MHz, no slowdown.",
)
# Faults in a program's own code, and faults without a relation to a GPU.
OTHER_FAULTS = (
    (
        'Traceback (most recent call last):\n  File "watch.py", line 2, in <module>\n    import pynvml\n'
        "ModuleNotFoundError: No module named 'pynvml'"
    ),
    "ModuleNotFoundError: No module named 'pynvml'",
    'error: Microsoft Visual C++ 14.0 or greater is required. Get it with "Microsoft C++ Build Tools"',
    "./app: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by ./app)",
    "vboxdrv.c:120:5: error: implicit declaration of function 'set_pages_x'",
    "make[1]: *** [Makefile:1851: /var/lib/dkms/zfs/2.1.5/build] Error 2",
    "update-alternatives: error: no alternatives for editor",
    "RuntimeError: structure array has incorrect shape",
    "FATAL: Error inserting zfs (/lib/modules/3.2.0-4-amd64/extra/zfs.ko): No such device",
    "ModuleNotFoundError: No module named 'gpu_helpers'",
    "ModuleNotFoundError: No module named 'cuda_utils'",
    (
        '[ 12%] Building CUDA object CMakeFiles/foo.dir/a.cu.o\n/src/a.cu(33): error: expected a ";"\n'
        '1 error detected in the compilation of "/src/a.cu".\n'
        "make[2]: *** [CMakeFiles/foo.dir/build.make:76: CMakeFiles/foo.dir/a.cu.o] Error 2"
    ),
    (
        '[ 40%] Building CUDA object CMakeFiles/app.dir/main.cu.o\nsrc/main.cu(7): error: identifier "n" is undefined\n'
        "make[1]: *** [CMakeFiles/Makefile2:83: CMakeFiles/app.dir/all] Error 2\nmake: *** [Makefile:91: all] Error 2"
    ),
    (
        'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    int(cp.array([1, 2]))\n'
        '  File "cupy/_core/core.pyx", line 1000, in cupy._core.core._ndarray_base.__int__\n'
        "TypeError: only size-1 arrays can be converted to Python scalars"
    ),
    (
        'Traceback (most recent call last):\n  File "a.py", line 9, in <module>\n    x.reshape(7, 7)\n'
        '  File "cupy/_core/core.pyx", line 800, in cupy._core.core._ndarray_base.reshape\n'
        "ValueError: cannot reshape array of size 48 into shape (7, 7)"
    ),
    "ImportError: cannot import name 'load' from 'mylib.gpu' (/app/mylib/gpu.py)",
    "[1:ERROR:gpu_process_host.cc(992)] GPU process launch failed: error_code=1002",
    "ERROR 1045 (28000): Access denied for user 'gpu'@'localhost' (using password: YES)",
    (
        "##[error]fatal: could not read Username for 'https://localhost': prompts disabled\nrepository cuda-lib\n"
        "##[error]The process '/usr/bin/git' failed with exit code 128"
    ),
    "SyntaxError: invalid syntax\n    import cupy as cp as np",
    (
        "Setting up nvidia-driver-550 (550.54.14-0ubuntu1) ...\nBuilding initial module for 6.8.0-31-generic\nDone.\n"
        "nvidia.ko.zst:\nRunning module version sanity check.\n - Original module\n"
        "   - No original module exists within this kernel\n - Installation\ndepmod..."
    ),
    (
        "wandb: WARNING A graphql request initiated by the public wandb API timed out (timeout=19 sec).\n"
        "wandb: Run history: train/loss\nwandb: Run summary: gpu.0.memory 88.1"
    ),
    "requests.exceptions.ReadTimeout: HTTPConnectionPool(host='gpu-node', port=8000): Read timed out.",
    "Note: the first call of a CuPy function is slow because the kernel is compiled. It is not an error.",
    "I have an NVIDIA RTX 4090. My game runs slower since I changed the monitor. What could be wrong?",
    "How do I convert a cupy array to a torch tensor without copying? torch.as_tensor(x, device='cuda') makes no copy.",
)

# Texts that state no fact of the machine.
WITHOUT_FACTS = (
    "assert torch.cuda.is_available()",
    "if not torch.cuda.is_available(): device = 'cpu'  # False on the CI",
    ">>> torch.cuda.is_available()\nTrue",
    "torch.version.cuda is not None",
    "cupy 13.0.0 is installed, cupy-cuda12x would be the wheel",
    "the kernels use the default stream, which is correct",
    "if the linker cannot find the library, set LIBRARY_PATH",
    "Support for Kepler is there up to CUDA 11.8",
)

# Texts that say the opposite of a message.
OPPOSITES = (
    "My driver supports CUDA 12.4 but torch here is built for 11.8, and everything works.",
    "nvidia-smi says the driver supports CUDA 13.0, but nvcc is 12.4.",
    "CUDA 12.4 is installed.\nvboxdrv: make: scripts/basic/fixdep: Permission denied",
    "Note: cupy-cuda12x depends on numpy, so numpy is installed too.",
    "we only found wheels for `rmm-parser` (v0.2) with the following Python ABI tag: cp39",
    "you are not required to disable Nouveau on this machine",
)
