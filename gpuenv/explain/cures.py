"""What to do about each cause, where no machine is at hand that would tell it more exactly. Pure data."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix

_REMOVE = Fix(
    "Remove every CuPy from the environment, then install the one line that fits: gpuenv resolve names it.",
    ("python", "-m", "pip", "uninstall", "cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"),
)
_RESOLVE = Fix("Let gpuenv name the wheel that fits the driver, the GPU and the Python.", ("gpuenv", "resolve"))
LOOK_AT_IT = Fix("Let gpuenv look at the machine itself.", ("gpuenv", "doctor"))
_BLOCKING = Fix(
    "Run once more so that each launch is waited for: the traceback then ends at the kernel that fails.",
    ("env", "CUDA_LAUNCH_BLOCKING=1", "python", "PROGRAM"),
)
_SANITIZER = Fix("Run it under the memory checker of the CUDA toolkit.", ("compute-sanitizer", "python", "PROGRAM"))
_REBOOT = Fix("Restart the machine.", ("sudo", "reboot"))
# No line is named: that of another CUDA would be a second CuPy in the environment. The extra came with CuPy 14.
_CTK = Fix(
    "Install CUDA's libraries beside CuPy: the extra [ctk] of the line and release that is there, from CuPy 14 on.",
    ("gpuenv", "resolve"),
)
_DRIVER = Fix("Install a newer driver with the system's package manager, then restart.")
_SMI = Fix("See who holds the GPU and how much memory is free.", ("nvidia-smi",))
_GPUS_ALL = Fix("Start the container with access to the GPUs.", ("docker", "run", "--gpus", "all", "IMAGE"))

CURES: Mapping[Cause, tuple[Fix, ...]] = {
    Cause.NO_NVIDIA_GPU: (Fix("Use a machine, an instance type or a job that has an NVIDIA GPU."),),
    Cause.NO_DRIVER: (
        Fix("Install NVIDIA's driver with the system's package manager, then restart. No CUDA package contains it."),
        LOOK_AT_IT,
    ),
    Cause.DRIVER_MODULE_NOT_LOADED: (
        Fix("Load the module and read what the kernel says if it refuses.", ("sudo", "modprobe", "nvidia")),
        Fix("After a kernel update, build the module for this kernel.", ("sudo", "dkms", "autoinstall")),
    ),
    Cause.DRIVER_INSTALL_BROKEN: (
        Fix("Remove every package of the driver, install one release of it whole, from one source, and restart."),
    ),
    Cause.DRIVER_KERNEL_INCOMPATIBLE: (
        Fix("Install the headers of the running kernel and build the module again.", ("sudo", "dkms", "autoinstall")),
        Fix("Under Secure Boot, enroll the key that signs the module (mokutil --import), or switch Secure Boot off."),
        Fix("If the kernel is newer than the driver allows, start the former kernel or take a newer driver."),
    ),
    Cause.NOUVEAU_LOADED: (
        Fix("Install NVIDIA's driver, whose package blocks nouveau, and restart. With Secure Boot, enroll its key."),
    ),
    Cause.DRIVER_LIBRARY_VERSION_MISMATCH: (
        _REBOOT,
        Fix("If it stays after a restart, two drivers are installed: remove the older one. Make containers anew."),
    ),
    Cause.DRIVER_TOO_OLD_FOR_CUDA: (_DRIVER, Fix("Or take the CUDA and the wheel that this driver runs."), _RESOLVE),
    Cause.FORWARD_COMPAT_UNSUPPORTED: (
        Fix("Take the compat folder out of LD_LIBRARY_PATH or out of the image: this GPU does not allow it."),
        _DRIVER,
    ),
    Cause.SUSPEND_RESUME_LOST_GPU: (
        Fix("End the programs that use the GPU and load nvidia-uvm anew.", ("sudo", "modprobe", "-r", "nvidia_uvm")),
        Fix("Then load it.", ("sudo", "modprobe", "nvidia_uvm")),
        Fix("To keep it from happening, set NVreg_PreserveVideoMemoryAllocations=1 and enable nvidia-suspend.service."),
    ),
    Cause.DRIVER_UNRESPONSIVE: (Fix("Read the kernel's log for NVRM and Xid lines, then restart."), _REBOOT),
    Cause.CUDA_INITIALIZATION_FAILED: (LOOK_AT_IT,),
    Cause.SOURCES_DISAGREE: (LOOK_AT_IT,),
    Cause.GPU_REMOVED_FROM_DRIVER: (
        Fix("Install the last driver branch that supports this GPU; on GPUs before Turing, not the open modules."),
    ),
    Cause.GPU_TOO_NEW_FOR_DRIVER: (
        _DRIVER,
        Fix("Blackwell and later need the open kernel modules of the driver."),
    ),
    Cause.GPU_REMOVED_FROM_TOOLKIT: (
        Fix("Take the wheel of an older CUDA major, which still compiles for this GPU."),
        _RESOLVE,
    ),
    Cause.GPU_TOO_NEW_FOR_TOOLKIT: (Fix("Take a wheel or a toolkit of a newer CUDA, which knows this GPU."), _RESOLVE),
    Cause.GPU_TOO_OLD_FOR_ANY_DRIVER: (Fix("No maintained driver supports this GPU: use another one."),),
    Cause.CUPY_TOO_OLD_FOR_GPU: (Fix("Install a newer CuPy, which knows this GPU."), _RESOLVE),
    Cause.NO_KERNEL_IMAGE: (
        Fix("Install a build of that library for this GPU's compute capability, or build it with that architecture."),
    ),
    Cause.BUILD_ARCH_LIST_UNSUPPORTED: (
        Fix("Take the architecture out of the build's list (TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES)."),
        Fix("Or build with a CUDA that knows it."),
    ),
    Cause.COMPUTE_MODE_EXCLUSIVE: (
        Fix("End the program that holds the GPU, or take another GPU."),
        Fix("Or let several programs share it.", ("sudo", "nvidia-smi", "-c", "DEFAULT")),
    ),
    Cause.MIG_MISCONFIGURED: (
        Fix("List the instances; name one of them in CUDA_VISIBLE_DEVICES.", ("nvidia-smi", "-L")),
        Fix("If there is none, create one, or switch MIG off."),
    ),
    Cause.FABRIC_MANAGER_NOT_RUNNING: (
        Fix(
            "Start the fabric manager of the driver's version.", ("sudo", "systemctl", "start", "nvidia-fabricmanager")
        ),
    ),
    Cause.FABRIC_MANAGER_NOT_NEEDED: (
        Fix(
            "Nothing is wrong with the GPUs. The service may be switched off.",
            ("sudo", "systemctl", "disable", "--now", "nvidia-fabricmanager"),
        ),
    ),
    Cause.GPU_THROTTLED: (Fix("See why the clock is held down.", ("nvidia-smi", "-q", "-d", "PERFORMANCE")),),
    Cause.GPU_BUSY: (_SMI,),
    Cause.GPU_TEST_FAILED: (
        Fix("Repeat the test alone and read all that it says.", ("gpuenv", "smoke", "--only", "TEST", "-v")),
        LOOK_AT_IT,
        Fix("Where other hosts pass with the same environment, restart this one and have its GPU looked at."),
    ),
    Cause.GPU_HARDWARE_FAULT: (
        Fix("Read the Xid events in the kernel's log; restart, and test the GPU alone. If it comes back, replace it."),
    ),
    Cause.VISIBLE_DEVICES_HIDE_GPU: (
        Fix("Unset the variable for this command.", ("env", "-u", "CUDA_VISIBLE_DEVICES", "python", "PROGRAM")),
        Fix("Look where the shell, the job script or the program itself sets it. No driver has to be installed."),
    ),
    Cause.VISIBLE_DEVICES_SET_TOO_LATE: (
        Fix("Set CUDA_VISIBLE_DEVICES in the shell, or before the first import of a GPU library."),
    ),
    Cause.INVALID_DEVICE_ORDINAL: (
        Fix("Use a device number below what the process sees; CUDA_VISIBLE_DEVICES numbers them anew from 0."),
    ),
    Cause.JETSON_TEGRA: (Fix("Install what is built for this JetPack: its own wheels, or the l4t images."),),
    Cause.ROCM_MISMATCH: (Fix("Install the build that is made for the ROCm release and the GPU that are there."),),
    Cause.CUPY_NOT_INSTALLED: (Fix("Install the wheel line that fits, into the environment that runs."), _RESOLVE),
    Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR: (_REMOVE, _RESOLVE),
    Cause.MULTIPLE_CUPY_PACKAGES: (_REMOVE,),
    Cause.CUPY_SDIST_BUILD_FAILURE: (
        Fix("Install a wheel instead of the plain name cupy, which is built from source."),
        _RESOLVE,
    ),
    Cause.CORRUPT_INSTALLATION: (_REMOVE, Fix("If it stays, make the environment anew.")),
    Cause.PYTHON_UNSUPPORTED: (Fix("Use a Python for which the line has wheels."), _RESOLVE),
    Cause.PLATFORM_WHEEL_MISSING: (
        Fix(
            "Use a platform that has wheels: Linux with a recent glibc, or Windows; there are none for macOS and musl."
        ),
        _RESOLVE,
    ),
    Cause.NUMPY_INCOMPATIBLE: (
        Fix("Install a NumPy of the range that this CuPy asks for, or a newer CuPy."),
        LOOK_AT_IT,
    ),
    Cause.MIXED_PIP_CONDA: (Fix("Take CuPy and CUDA from one of the two, pip or conda, in a fresh environment."),),
    Cause.TORCH_CUPY_CONFLICT: (
        Fix(
            "Take the CuPy line of the CUDA major that the other framework brings: cupy-cuda13x beside CUDA 13 wheels."
        ),
        LOOK_AT_IT,
    ),
    Cause.UNTRUSTED_PACKAGE_NAME: (Fix("Remove it; CuPy's own wheels are cupy-cuda12x and cupy-cuda13x."), _RESOLVE),
    Cause.CUPY_API_VERSION_INCOMPATIBLE: (Fix("Install the CuPy release that the library above it was written for."),),
    Cause.CPU_ONLY_FRAMEWORK: (Fix("Install the build of the framework that has CUDA, for the driver's CUDA level."),),
    Cause.OPTIONAL_LIBRARY_MISSING: (
        Fix("Install the library for CuPy's CUDA major, with pip (nvidia-nccl-cu12, cutensor-cu12) or conda."),
    ),
    Cause.OPTIONAL_LIBRARY_PROBE_MISREAD: (Fix("Nothing has to be done unless the program uses that library."),),
    Cause.CUDA_LIBRARY_MISSING: (_CTK, Fix("Or install a CUDA toolkit of the wheel's major and name it in CUDA_PATH.")),
    Cause.CUDA_HEADERS_MISSING: (
        _CTK,
        Fix("Or install the headers of NVRTC's minor: nvidia-cuda-runtime, conda's cuda-cudart-dev, or a devel image."),
    ),
    Cause.NVRTC_BUILTINS_MISMATCH: (
        Fix("Keep one CUDA: NVRTC and its builtins from one folder. Unset LD_LIBRARY_PATH, or remove one of the two."),
        LOOK_AT_IT,
    ),
    Cause.NVRTC_OUTPUT_INVALID: (Fix("Bring NVRTC, nvJitLink and the driver to versions that fit."), LOOK_AT_IT),
    Cause.CUDA_PATH_WRONG: (
        Fix(
            "Let CUDA_PATH name the root of the toolkit in use.",
            ("env", "CUDA_PATH=/usr/local/cuda", "python", "PROGRAM"),
        ),
    ),
    Cause.LIBRARY_PATH_CONFLICT: (
        Fix("Try it without the variable.", ("env", "-u", "LD_LIBRARY_PATH", "python", "PROGRAM")),
        LOOK_AT_IT,
    ),
    Cause.LIBSTDCXX_MISMATCH: (
        Fix("Let the environment's libstdc++ be found first, or install a newer one (conda: libstdcxx-ng)."),
    ),
    Cause.WINDOWS_DLL_LOAD_FAILURE: (
        Fix("Install the CUDA toolkit of the wheel's major, or the wheel's [ctk] extra, and set CUDA_PATH."),
    ),
    Cause.TARGET_ENVIRONMENT_BROKEN: (Fix("Make the environment anew with an interpreter that is there."),),
    Cause.CONTAINER_WITHOUT_GPU: (
        _GPUS_ALL,
        Fix("Podman: --device nvidia.com/gpu=all; Kubernetes: a limit of nvidia.com/gpu; Apptainer: --nv."),
    ),
    Cause.CONTAINER_TOOLKIT_BROKEN: (
        Fix("Install the NVIDIA container toolkit on the host with the system's package manager."),
        Fix("Configure the engine.", ("sudo", "nvidia-ctk", "runtime", "configure", "--runtime=docker")),
        Fix("Restart it.", ("sudo", "systemctl", "restart", "docker")),
    ),
    Cause.CONTAINER_DRIVER_CAPABILITIES: (
        Fix(
            "Start the container with the compute capability.",
            ("docker", "run", "--gpus", "all", "-e", "NVIDIA_DRIVER_CAPABILITIES=compute,utility", "IMAGE"),
        ),
    ),
    Cause.CONTAINER_CGROUP_LOST_GPU: (
        Fix("Start the container again; use CDI, or name the device nodes, to keep it from happening."),
    ),
    Cause.DEVICE_NODE_PERMISSION: (
        Fix("Add the user to the group that owns /dev/nvidia* (often video), and log in again."),
    ),
    Cause.DEVICE_NODE_MISSING: (Fix("Make the nodes.", ("sudo", "nvidia-modprobe", "-c", "0", "-u")),),
    Cause.WSL_LIBCUDA: (
        Fix("Remove every NVIDIA driver package inside WSL: the driver belongs to Windows."),
        Fix("Let the loader find it.", ("env", "LD_LIBRARY_PATH=/usr/lib/wsl/lib", "python", "PROGRAM")),
        Fix("If the driver of Windows is old, update it there, and restart WSL: wsl --shutdown."),
    ),
    Cause.KERNEL_CACHE_UNWRITABLE: (
        Fix(
            "Name a folder that this user may write.",
            ("env", "CUPY_CACHE_DIR=/tmp/cupy-cache-of-this-user", "python", "PROGRAM"),
        ),
    ),
    Cause.KERNEL_CACHE_RACE: (
        Fix("Give each user or process a cache of its own with CUPY_CACHE_DIR, or set CUPY_CACHE_IN_MEMORY=1."),
    ),
    Cause.OUT_OF_MEMORY: (_SMI, Fix("Work in smaller pieces, or free the pool: mempool.free_all_blocks().")),
    Cause.MEMORY_POOL_RETENTION: (
        Fix("Free what the pool holds before the large allocation: mempool.free_all_blocks(); raise its limit."),
    ),
    Cause.ASYNC_ERROR_SURFACED_LATE: (_BLOCKING, _SANITIZER),
    Cause.ILLEGAL_MEMORY_ACCESS: (_SANITIZER, _BLOCKING),
    Cause.INVALID_KERNEL_LAUNCH: (
        Fix("Launch with at most 1024 threads a block, and less shared memory; above 48 KiB ask for it explicitly."),
    ),
    Cause.STREAM_RACE: (Fix("Order the streams with an event: stream.wait_event(event), or synchronize."),),
    Cause.IMPLICIT_HOST_DEVICE_CONVERSION: (
        Fix("Convert explicitly: cupy.asarray(x) to the GPU, cupy.asnumpy(x) or x.get() to the host."),
    ),
    Cause.CROSS_DEVICE_ARRAY: (
        Fix("Work inside 'with cupy.cuda.Device(n)' of the array's device, or copy it there with cupy.asarray."),
    ),
    Cause.DTYPE_MISMATCH: (Fix("Convert to one dtype with astype; hand scalars to kernels as numpy.float32(x)."),),
    Cause.NUMPY_SEMANTICS_DIFFERENCE: (
        Fix("Read 'Differences between CuPy and NumPy' and the comparison table in CuPy's documentation."),
    ),
    Cause.FORK_AFTER_CUDA_INIT: (
        Fix("Start the workers with the method spawn: multiprocessing.set_start_method('spawn')."),
    ),
    Cause.LIBRARY_NOT_INITIALIZED: (
        _SMI,
        Fix("Look whether the GPU's memory is full, and which library is loaded."),
        LOOK_AT_IT,
    ),
    Cause.CUFFT_PLAN_FAILURE: (
        Fix("Take a smaller batch or a size with small prime factors; free memory; empty the plan cache."),
    ),
    Cause.CUPY_BUG: (Fix("Upgrade to the newest release of the line; if it stays, report it to CuPy."),),
    Cause.IMAGE_REQUIRES_OTHER_DRIVER: (_DRIVER, Fix("Or use an image of an older CUDA, which this driver serves.")),
    Cause.DOCKERFILE_FAULT: (
        Fix("Mend the file: an image tag that exists, the present signing key, devices with capabilities: [gpu]."),
    ),
    Cause.CUPY_SHADOWED: (
        Fix("Rename the file or folder named cupy that Python finds first, and remove its __pycache__."),
        LOOK_AT_IT,
    ),
    Cause.CUPY_VARIABLE_INVALID: (
        Fix("Look at the variables whose names begin with CUPY_, and unset or correct the one that is refused."),
        LOOK_AT_IT,
    ),
    Cause.REQUIREMENT_NOT_MET: (Fix("Use a machine that meets the requirement."),),
}
