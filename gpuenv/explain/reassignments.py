"""Tables of evidence that decides which of a message's causes is meant.

"No CUDA-capable device is detected" has two dozen causes, and so have an unknown error of ``cuInit``, a libcuda that is
not found and a driver that NVML cannot reach. What else the text shows mostly tells which: the mode of a device node,
how the container was started, which driver holds the card.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuenv.model.causes import Cause


@dataclass(frozen=True, slots=True)
class Reassignment:
    """Evidence that moves a share of the weight of some causes to another one.

    Attributes:
        evidence: name of something that the text or the machine shows.
        causes: those that the messages name.
        target: the cause that gets the share.
        share: how much; below a half, the cause that the message names stays first, but is no longer certain.
    """

    evidence: str
    causes: tuple[Cause, ...]
    target: Cause
    share: float


_NO_GPU_SEEN = (
    *(Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.NO_NVIDIA_GPU, Cause.NO_DRIVER, Cause.DRIVER_MODULE_NOT_LOADED),
    *(Cause.CONTAINER_WITHOUT_GPU, Cause.CUDA_INITIALIZATION_FAILED, Cause.CONTAINER_TOOLKIT_BROKEN),
)
_OF_LIBRARIES = (
    *(Cause.LIBRARY_NOT_INITIALIZED, Cause.DRIVER_LIBRARY_VERSION_MISMATCH, Cause.CONTAINER_CGROUP_LOST_GPU),
    *(Cause.CPU_ONLY_FRAMEWORK, Cause.DRIVER_TOO_OLD_FOR_CUDA, Cause.CUFFT_PLAN_FAILURE),
)
# Applied to every message, in this order.
ALWAYS = (
    Reassignment("others-hold", (Cause.OUT_OF_MEMORY, Cause.LIBRARY_NOT_INITIALIZED), Cause.GPU_BUSY, 0.8),
    # What CuPy brings compiled, and not its run-time compiler, lacks code for the GPU.
    Reassignment(
        "cupy-binary", (Cause.NO_KERNEL_IMAGE, Cause.GPU_TOO_NEW_FOR_TOOLKIT), Cause.CUPY_TOO_OLD_FOR_GPU, 0.75
    ),
    # A list in the program is read once; after that, a number that is not in it is requested.
    Reassignment("visible-in-code", (Cause.INVALID_DEVICE_ORDINAL,), Cause.VISIBLE_DEVICES_SET_TOO_LATE, 0.4),
    # A conflict of libraries has a cause of its own where the text shows which packages contain the two.
    Reassignment("pip-and-conda", (Cause.LIBRARY_PATH_CONFLICT,), Cause.MIXED_PIP_CONDA, 0.6),
    # TensorFlow from pip with conda's cuDNN was the way of its guide: a path may be all that is missing.
    Reassignment("pip-and-conda", (Cause.OPTIONAL_LIBRARY_MISSING,), Cause.MIXED_PIP_CONDA, 0.4),
    Reassignment("cupy-of-conda-and-pip", (Cause.MULTIPLE_CUPY_PACKAGES,), Cause.MIXED_PIP_CONDA, 0.2),
    Reassignment("foreign-name", (Cause.CUPY_NOT_INSTALLED,), Cause.UNTRUSTED_PACKAGE_NAME, 0.6),
    Reassignment("two-frameworks", (Cause.LIBRARY_PATH_CONFLICT,), Cause.TORCH_CUPY_CONFLICT, 0.6),
    Reassignment("two-cupys", (Cause.CUPY_API_VERSION_INCOMPATIBLE,), Cause.MULTIPLE_CUPY_PACKAGES, 0.6),
    # On a Tegra board, wheels, containers and CUDA are those of its platform.
    Reassignment(
        "jetson",
        (
            *(Cause.CPU_ONLY_FRAMEWORK, Cause.DRIVER_TOO_OLD_FOR_CUDA),
            *(Cause.LIBRARY_PATH_CONFLICT, Cause.OPTIONAL_LIBRARY_MISSING),
        ),
        Cause.JETSON_TEGRA,
        0.55,
    ),
    Reassignment("jetson", (Cause.CONTAINER_TOOLKIT_BROKEN,), Cause.JETSON_TEGRA, 0.4),
    Reassignment("graphics-of-another", (Cause.CONTAINER_TOOLKIT_BROKEN, Cause.NO_DRIVER), Cause.NO_NVIDIA_GPU, 0.6),
    # Docker asks for the toolkit on a machine without any NVIDIA GPU too; what was given is not what lacks.
    Reassignment(
        "reported-without-nvidia",
        (Cause.CONTAINER_TOOLKIT_BROKEN, Cause.CONTAINER_WITHOUT_GPU, Cause.NO_DRIVER),
        Cause.NO_NVIDIA_GPU,
        0.65,
    ),
    # Who has to install a driver inside a container was given no GPU with it.
    Reassignment(
        "driver-put-inside", (Cause.CONTAINER_CGROUP_LOST_GPU, Cause.NO_DRIVER), Cause.CONTAINER_WITHOUT_GPU, 0.6
    ),
    Reassignment("capability-given", (Cause.CONTAINER_DRIVER_CAPABILITIES,), Cause.CONTAINER_WITHOUT_GPU, 0.6),
    Reassignment("rocm-image", (Cause.CONTAINER_TOOLKIT_BROKEN,), Cause.ROCM_MISMATCH, 0.6),
    # The container toolkit only repeats what it does not find.
    Reassignment("mig-capability-missing", (Cause.CONTAINER_TOOLKIT_BROKEN,), Cause.MIG_MISCONFIGURED, 0.7),
    Reassignment("driver-file-missing", (Cause.CONTAINER_TOOLKIT_BROKEN,), Cause.DRIVER_INSTALL_BROKEN, 0.7),
    # What an image was made with cannot be right on the machine that made it.
    Reassignment("driver-in-image", (Cause.DRIVER_LIBRARY_VERSION_MISMATCH,), Cause.DOCKERFILE_FAULT, 0.7),
    Reassignment("stubs-in-image", (Cause.LIBRARY_PATH_CONFLICT,), Cause.DOCKERFILE_FAULT, 0.6),
    Reassignment("building-image", (Cause.CUDA_PATH_WRONG, Cause.PLATFORM_WHEEL_MISSING), Cause.DOCKERFILE_FAULT, 0.4),
    Reassignment("building-image", (Cause.CUPY_SDIST_BUILD_FAILURE,), Cause.DOCKERFILE_FAULT, 0.3),
    Reassignment("reported-not-loaded", (Cause.DEVICE_NODE_MISSING,), Cause.DRIVER_MODULE_NOT_LOADED, 0.6),
    # One further fact decides: what cured it, whose memory or library it is, where alone it comes.
    Reassignment("path-cleared-helps", (*_OF_LIBRARIES, *_NO_GPU_SEEN), Cause.LIBRARY_PATH_CONFLICT, 0.75),
    Reassignment("other-copy-first", (*_OF_LIBRARIES, *_NO_GPU_SEEN), Cause.LIBRARY_PATH_CONFLICT, 0.65),
    Reassignment("stub-loaded", _NO_GPU_SEEN, Cause.LIBRARY_PATH_CONFLICT, 0.75),
    Reassignment(
        "other-framework-first",
        (
            *(Cause.LIBRARY_PATH_CONFLICT, Cause.LIBRARY_NOT_INITIALIZED, Cause.OUT_OF_MEMORY),
            *(Cause.CUPY_NOT_INSTALLED, Cause.CUDA_INITIALIZATION_FAILED),
        ),
        Cause.TORCH_CUPY_CONFLICT,
        0.65,
    ),
    Reassignment(
        "pip-and-conda",
        (
            Cause.LIBRARY_NOT_INITIALIZED,
            Cause.CUDA_LIBRARY_MISSING,
            Cause.FORK_AFTER_CUDA_INIT,
            Cause.CROSS_DEVICE_ARRAY,
        ),
        Cause.MIXED_PIP_CONDA,
        0.55,
    ),
    Reassignment(
        "files-differ",
        (
            *(Cause.CUPY_API_VERSION_INCOMPATIBLE, Cause.LIBRARY_NOT_INITIALIZED, Cause.OPTIONAL_LIBRARY_MISSING),
            *(Cause.CUDA_LIBRARY_MISSING, Cause.NUMPY_INCOMPATIBLE),
        ),
        Cause.CORRUPT_INSTALLATION,
        0.6,
    ),
    Reassignment(
        "foreign-name-written",
        (Cause.CUPY_NOT_INSTALLED, Cause.CUPY_SDIST_BUILD_FAILURE),
        Cause.UNTRUSTED_PACKAGE_NAME,
        0.6,
    ),
    Reassignment(
        "two-lines-named",
        (
            *(Cause.CUDA_LIBRARY_MISSING, Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, Cause.CORRUPT_INSTALLATION),
            *(Cause.DRIVER_TOO_OLD_FOR_CUDA, Cause.NUMPY_SEMANTICS_DIFFERENCE, Cause.CUPY_API_VERSION_INCOMPATIBLE),
        ),
        Cause.MULTIPLE_CUPY_PACKAGES,
        0.55,
    ),
    Reassignment(
        "root-gone",
        (Cause.CUDA_HEADERS_MISSING, Cause.CUDA_LIBRARY_MISSING, Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        Cause.CUDA_PATH_WRONG,
        0.65,
    ),
    Reassignment(
        "dockerfile-mentioned",
        (
            *(Cause.CUDA_HEADERS_MISSING, Cause.CUDA_LIBRARY_MISSING, Cause.CPU_ONLY_FRAMEWORK),
            *(Cause.LIBRARY_PATH_CONFLICT, Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR),
        ),
        Cause.DOCKERFILE_FAULT,
        0.6,
    ),
    Reassignment("driver-installed-in-image", (Cause.DRIVER_LIBRARY_VERSION_MISMATCH,), Cause.DOCKERFILE_FAULT, 0.7),
    Reassignment("during-image-build", _NO_GPU_SEEN, Cause.DOCKERFILE_FAULT, 0.7),
    Reassignment("older-image-works", (Cause.DRIVER_TOO_OLD_FOR_CUDA,), Cause.IMAGE_REQUIRES_OTHER_DRIVER, 0.6),
    Reassignment(
        "building-cupy",
        (
            *(Cause.GPU_TOO_NEW_FOR_TOOLKIT, Cause.BUILD_ARCH_LIST_UNSUPPORTED, Cause.CUDA_LIBRARY_MISSING),
            Cause.NO_DRIVER,
        ),
        Cause.CUPY_SDIST_BUILD_FAILURE,
        0.5,
    ),
    Reassignment("pool-holds-it", (Cause.OUT_OF_MEMORY, Cause.GPU_BUSY), Cause.MEMORY_POOL_RETENTION, 0.7),
    Reassignment("room-reported", (Cause.OUT_OF_MEMORY,), Cause.MEMORY_POOL_RETENTION, 0.35),
    Reassignment(
        "preforked",
        (Cause.LIBRARY_NOT_INITIALIZED, Cause.CUDA_INITIALIZATION_FAILED),
        Cause.FORK_AFTER_CUDA_INIT,
        0.65,
    ),
    Reassignment(
        "devices-apart",
        (Cause.ILLEGAL_MEMORY_ACCESS, Cause.ASYNC_ERROR_SURFACED_LATE, Cause.LIBRARY_NOT_INITIALIZED),
        Cause.CROSS_DEVICE_ARRAY,
        0.6,
    ),
    Reassignment("blamed-elsewhere", (Cause.ILLEGAL_MEMORY_ACCESS,), Cause.ASYNC_ERROR_SURFACED_LATE, 0.45),
    Reassignment("rerun-ok", (Cause.CUPY_TOO_OLD_FOR_GPU, Cause.GPU_TOO_NEW_FOR_TOOLKIT), Cause.KERNEL_CACHE_RACE, 0.7),
    Reassignment("rerun-ok", (Cause.KERNEL_CACHE_UNWRITABLE,), Cause.KERNEL_CACHE_RACE, 0.6),
    Reassignment("single-process", (Cause.KERNEL_CACHE_RACE,), Cause.KERNEL_CACHE_UNWRITABLE, 0.6),
    # It is there, and the loader does not look where it is: the library is installed.
    Reassignment("reported-present", (Cause.OPTIONAL_LIBRARY_MISSING,), Cause.CUDA_LIBRARY_MISSING, 0.6),
    Reassignment("library-there", (Cause.OPTIONAL_LIBRARY_MISSING,), Cause.CUDA_LIBRARY_MISSING, 0.6),
    Reassignment("ended-well", (Cause.OPTIONAL_LIBRARY_MISSING,), Cause.OPTIONAL_LIBRARY_PROBE_MISREAD, 0.75),
    Reassignment("exclusive", (Cause.INVALID_DEVICE_ORDINAL,), Cause.COMPUTE_MODE_EXCLUSIVE, 0.6),
)

# What such messages name: causes among which only another fact decides.
_OPEN = (
    *(Cause.NO_NVIDIA_GPU, Cause.NO_DRIVER, Cause.DRIVER_MODULE_NOT_LOADED, Cause.DRIVER_INSTALL_BROKEN),
    *(Cause.DRIVER_KERNEL_INCOMPATIBLE, Cause.NOUVEAU_LOADED, Cause.SUSPEND_RESUME_LOST_GPU),
    *(Cause.CUDA_INITIALIZATION_FAILED, Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.CPU_ONLY_FRAMEWORK),
    *(Cause.CONTAINER_WITHOUT_GPU, Cause.CONTAINER_TOOLKIT_BROKEN, Cause.CONTAINER_DRIVER_CAPABILITIES),
    *(Cause.CONTAINER_CGROUP_LOST_GPU, Cause.DEVICE_NODE_MISSING, Cause.DEVICE_NODE_PERMISSION, Cause.WSL_LIBCUDA),
)
_DEVICES = (*_OPEN, Cause.GPU_HARDWARE_FAULT, Cause.GPU_TOO_NEW_FOR_DRIVER, Cause.GPU_REMOVED_FROM_DRIVER)
# Only these make a program report that it sees no device, and not what the driver lacks.
_NO_DEVICE = (
    *(Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.NO_NVIDIA_GPU, Cause.NO_DRIVER, Cause.CUDA_INITIALIZATION_FAILED),
    *(Cause.CPU_ONLY_FRAMEWORK, Cause.CONTAINER_WITHOUT_GPU),
)
_START = (*_OPEN, Cause.FORK_AFTER_CUDA_INIT)
_RUN = (*_START, Cause.ILLEGAL_MEMORY_ACCESS, Cause.ASYNC_ERROR_SURFACED_LATE)
# Without what the table above has moved by the same evidence: a fact counts once.
_ON_TEGRA = tuple(cause for cause in _OPEN if cause not in (Cause.CONTAINER_TOOLKIT_BROKEN, Cause.CPU_ONLY_FRAMEWORK))
_NOT_LOADED = tuple(cause for cause in _START if cause is not Cause.DEVICE_NODE_MISSING)

# Of a message that leaves its cause open; the later one says more, where a text shows two.
IF_UNDECIDED = (
    Reassignment("new-kernel", _OPEN, Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.4),
    Reassignment("not-suspended", (Cause.SUSPEND_RESUME_LOST_GPU,), Cause.CUDA_INITIALIZATION_FAILED, 0.8),
    Reassignment("does-not-fork", (Cause.FORK_AFTER_CUDA_INIT,), Cause.CUDA_INITIALIZATION_FAILED, 0.8),
    Reassignment(
        "smi-reported-working",
        (Cause.SUSPEND_RESUME_LOST_GPU, Cause.FORK_AFTER_CUDA_INIT),
        Cause.CUDA_INITIALIZATION_FAILED,
        0.35,
    ),
    Reassignment(
        "smi-reported-working",
        (Cause.NO_NVIDIA_GPU, Cause.DRIVER_MODULE_NOT_LOADED),
        Cause.CUDA_INITIALIZATION_FAILED,
        0.6,
    ),
    Reassignment("jetson", _ON_TEGRA, Cause.JETSON_TEGRA, 0.4),
    Reassignment("wsl", _OPEN, Cause.WSL_LIBCUDA, 0.35),
    Reassignment("reported-not-loaded", _NOT_LOADED, Cause.DRIVER_MODULE_NOT_LOADED, 0.6),
    Reassignment("driver-half-there", _OPEN, Cause.DRIVER_INSTALL_BROKEN, 0.6),
    Reassignment("pci-without-nvidia", (*_DEVICES, Cause.DRIVER_TOO_OLD_FOR_CUDA), Cause.NO_NVIDIA_GPU, 0.65),
    # A runtime of Colab without an accelerator is what it starts with.
    Reassignment("colab", (*_NOT_LOADED, Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.NO_DRIVER), Cause.NO_NVIDIA_GPU, 0.6),
    Reassignment("nouveau-holds", _DEVICES, Cause.NOUVEAU_LOADED, 0.7),
    Reassignment("legacy-named", _DEVICES, Cause.GPU_REMOVED_FROM_DRIVER, 0.55),
    Reassignment("suspend", _RUN, Cause.SUSPEND_RESUME_LOST_GPU, 0.55),
    Reassignment("exclusive", _OPEN, Cause.COMPUTE_MODE_EXCLUSIVE, 0.6),
    Reassignment("nodes-closed", _DEVICES, Cause.DEVICE_NODE_PERMISSION, 0.7),
    Reassignment("root-may", _DEVICES, Cause.DEVICE_NODE_PERMISSION, 0.7),
    Reassignment("uvm-absent", _START, Cause.DEVICE_NODE_MISSING, 0.6),
    Reassignment("started-without-gpu", (*_OPEN, Cause.DRIVER_TOO_OLD_FOR_CUDA), Cause.CONTAINER_WITHOUT_GPU, 0.6),
    Reassignment(
        "capabilities-lack-compute", (*_OPEN, Cause.DRIVER_TOO_OLD_FOR_CUDA), Cause.CONTAINER_DRIVER_CAPABILITIES, 0.65
    ),
    Reassignment("restart-brings-back", _OPEN, Cause.CONTAINER_CGROUP_LOST_GPU, 0.65),
    Reassignment("compat", _OPEN, Cause.FORWARD_COMPAT_UNSUPPORTED, 0.5),
    Reassignment("mig", _NO_DEVICE, Cause.MIG_MISCONFIGURED, 0.5),
    Reassignment("hidden", _OPEN, Cause.VISIBLE_DEVICES_HIDE_GPU, 0.65),
    Reassignment("tested-faulty", _RUN, Cause.GPU_HARDWARE_FAULT, 0.65),
)
