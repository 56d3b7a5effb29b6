"""What else a text shows, and which cause of a message's it means: the tables of ``apart``.

"No CUDA-capable device is detected" has two dozen causes, and so have an unknown error of ``cuInit``, a libcuda that is
not found and a driver that NVML cannot reach. What else the text shows mostly tells which: the mode of a device node,
how the container was started, which driver holds the card.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuenv.model.causes import Cause


@dataclass(frozen=True, slots=True)
class Shift:
    """Where a mark is shown, a share of what messages say of one cause is another's.

    Attributes:
        mark: something that the text or the machine shows.
        causes: those that the messages name.
        meant: the cause that has the share instead.
        share: how much; below a half, the cause that the message names stays the first, but is not sure any more.
    """

    mark: str
    causes: tuple[Cause, ...]
    meant: Cause
    share: float


_NO_GPU_SEEN = (
    *(Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.NO_NVIDIA_GPU, Cause.NO_DRIVER, Cause.DRIVER_MODULE_NOT_LOADED),
    *(Cause.CONTAINER_WITHOUT_GPU, Cause.CUDA_INITIALIZATION_FAILED, Cause.CONTAINER_TOOLKIT_BROKEN),
)
_OF_LIBRARIES = (
    *(Cause.LIBRARY_NOT_INITIALIZED, Cause.DRIVER_LIBRARY_VERSION_MISMATCH, Cause.CONTAINER_CGROUP_LOST_GPU),
    *(Cause.CPU_ONLY_FRAMEWORK, Cause.DRIVER_TOO_OLD_FOR_CUDA, Cause.CUFFT_PLAN_FAILURE),
)
# Of every message, one after the other.
OF_EVERY = (
    Shift("others-hold", (Cause.OUT_OF_MEMORY, Cause.LIBRARY_NOT_INITIALIZED), Cause.GPU_BUSY, 0.8),
    # What CuPy brings compiled, and not its run-time compiler, lacks code for the GPU.
    Shift("cupy-binary", (Cause.NO_KERNEL_IMAGE, Cause.GPU_TOO_NEW_FOR_TOOLKIT), Cause.CUPY_TOO_OLD_FOR_GPU, 0.75),
    # A list in the program is read once; after that, a number that is not in it is asked for.
    Shift("visible-in-code", (Cause.INVALID_DEVICE_ORDINAL,), Cause.VISIBLE_DEVICES_SET_TOO_LATE, 0.4),
    # A conflict of libraries has a cause of its own where the text shows who brought the two.
    Shift("pip-and-conda", (Cause.LIBRARY_PATH_CONFLICT,), Cause.MIXED_PIP_CONDA, 0.6),
    # TensorFlow from pip with conda's cuDNN was the way its guide told: a path may be all that is missing.
    Shift("pip-and-conda", (Cause.OPTIONAL_LIBRARY_MISSING,), Cause.MIXED_PIP_CONDA, 0.4),
    Shift("cupy-of-conda-and-pip", (Cause.MULTIPLE_CUPY_PACKAGES,), Cause.MIXED_PIP_CONDA, 0.2),
    Shift("foreign-name", (Cause.CUPY_NOT_INSTALLED,), Cause.UNTRUSTED_PACKAGE_NAME, 0.6),
    Shift("two-frameworks", (Cause.LIBRARY_PATH_CONFLICT,), Cause.TORCH_CUPY_CONFLICT, 0.6),
    Shift("two-cupys", (Cause.CUPY_API_VERSION_INCOMPATIBLE,), Cause.MULTIPLE_CUPY_PACKAGES, 0.6),
    # On a Tegra board, wheels, containers and CUDA are those of its platform.
    Shift(
        "jetson",
        (
            *(Cause.CPU_ONLY_FRAMEWORK, Cause.DRIVER_TOO_OLD_FOR_CUDA),
            *(Cause.LIBRARY_PATH_CONFLICT, Cause.OPTIONAL_LIBRARY_MISSING),
        ),
        Cause.JETSON_TEGRA,
        0.55,
    ),
    Shift("jetson", (Cause.CONTAINER_TOOLKIT_BROKEN,), Cause.JETSON_TEGRA, 0.4),
    Shift("graphics-of-another", (Cause.CONTAINER_TOOLKIT_BROKEN, Cause.NO_DRIVER), Cause.NO_NVIDIA_GPU, 0.6),
    # Docker asks for the toolkit on a machine without any NVIDIA GPU too; what was given is not what lacks.
    Shift(
        "said-without-nvidia",
        (Cause.CONTAINER_TOOLKIT_BROKEN, Cause.CONTAINER_WITHOUT_GPU, Cause.NO_DRIVER),
        Cause.NO_NVIDIA_GPU,
        0.65,
    ),
    # Who has to install a driver inside a container was given no GPU with it.
    Shift("driver-put-inside", (Cause.CONTAINER_CGROUP_LOST_GPU, Cause.NO_DRIVER), Cause.CONTAINER_WITHOUT_GPU, 0.6),
    Shift("capability-given", (Cause.CONTAINER_DRIVER_CAPABILITIES,), Cause.CONTAINER_WITHOUT_GPU, 0.6),
    Shift("rocm-image", (Cause.CONTAINER_TOOLKIT_BROKEN,), Cause.ROCM_MISMATCH, 0.6),
    # The container toolkit only repeats what it does not find.
    Shift("mig-capability-missing", (Cause.CONTAINER_TOOLKIT_BROKEN,), Cause.MIG_MISCONFIGURED, 0.7),
    Shift("driver-file-missing", (Cause.CONTAINER_TOOLKIT_BROKEN,), Cause.DRIVER_INSTALL_BROKEN, 0.7),
    # What an image was made with cannot be right on the machine that made it.
    Shift("driver-in-image", (Cause.DRIVER_LIBRARY_VERSION_MISMATCH,), Cause.DOCKERFILE_FAULT, 0.7),
    Shift("stubs-in-image", (Cause.LIBRARY_PATH_CONFLICT,), Cause.DOCKERFILE_FAULT, 0.6),
    Shift("building-image", (Cause.CUDA_PATH_WRONG, Cause.PLATFORM_WHEEL_MISSING), Cause.DOCKERFILE_FAULT, 0.4),
    Shift("building-image", (Cause.CUPY_SDIST_BUILD_FAILURE,), Cause.DOCKERFILE_FAULT, 0.3),
    Shift("said-not-loaded", (Cause.DEVICE_NODE_MISSING,), Cause.DRIVER_MODULE_NOT_LOADED, 0.6),
    # One further fact decides: what cured it, whose memory or library it is, where alone it comes.
    Shift("path-cleared-helps", (*_OF_LIBRARIES, *_NO_GPU_SEEN), Cause.LIBRARY_PATH_CONFLICT, 0.75),
    Shift("other-copy-first", (*_OF_LIBRARIES, *_NO_GPU_SEEN), Cause.LIBRARY_PATH_CONFLICT, 0.65),
    Shift("stub-loaded", _NO_GPU_SEEN, Cause.LIBRARY_PATH_CONFLICT, 0.75),
    Shift(
        "other-framework-first",
        (
            *(Cause.LIBRARY_PATH_CONFLICT, Cause.LIBRARY_NOT_INITIALIZED, Cause.OUT_OF_MEMORY),
            *(Cause.CUPY_NOT_INSTALLED, Cause.CUDA_INITIALIZATION_FAILED),
        ),
        Cause.TORCH_CUPY_CONFLICT,
        0.65,
    ),
    Shift(
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
    Shift(
        "files-differ",
        (
            *(Cause.CUPY_API_VERSION_INCOMPATIBLE, Cause.LIBRARY_NOT_INITIALIZED, Cause.OPTIONAL_LIBRARY_MISSING),
            *(Cause.CUDA_LIBRARY_MISSING, Cause.NUMPY_INCOMPATIBLE),
        ),
        Cause.CORRUPT_INSTALLATION,
        0.6,
    ),
    Shift(
        "foreign-name-written",
        (Cause.CUPY_NOT_INSTALLED, Cause.CUPY_SDIST_BUILD_FAILURE),
        Cause.UNTRUSTED_PACKAGE_NAME,
        0.6,
    ),
    Shift(
        "two-lines-named",
        (
            *(Cause.CUDA_LIBRARY_MISSING, Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, Cause.CORRUPT_INSTALLATION),
            *(Cause.DRIVER_TOO_OLD_FOR_CUDA, Cause.NUMPY_SEMANTICS_DIFFERENCE, Cause.CUPY_API_VERSION_INCOMPATIBLE),
        ),
        Cause.MULTIPLE_CUPY_PACKAGES,
        0.55,
    ),
    Shift(
        "root-gone",
        (Cause.CUDA_HEADERS_MISSING, Cause.CUDA_LIBRARY_MISSING, Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        Cause.CUDA_PATH_WRONG,
        0.65,
    ),
    Shift(
        "dockerfile-said",
        (
            *(Cause.CUDA_HEADERS_MISSING, Cause.CUDA_LIBRARY_MISSING, Cause.CPU_ONLY_FRAMEWORK),
            *(Cause.LIBRARY_PATH_CONFLICT, Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR),
        ),
        Cause.DOCKERFILE_FAULT,
        0.6,
    ),
    Shift("driver-installed-in-image", (Cause.DRIVER_LIBRARY_VERSION_MISMATCH,), Cause.DOCKERFILE_FAULT, 0.7),
    Shift("during-image-build", _NO_GPU_SEEN, Cause.DOCKERFILE_FAULT, 0.7),
    Shift("older-image-works", (Cause.DRIVER_TOO_OLD_FOR_CUDA,), Cause.IMAGE_REQUIRES_OTHER_DRIVER, 0.6),
    Shift(
        "building-cupy",
        (
            *(Cause.GPU_TOO_NEW_FOR_TOOLKIT, Cause.BUILD_ARCH_LIST_UNSUPPORTED, Cause.CUDA_LIBRARY_MISSING),
            Cause.NO_DRIVER,
        ),
        Cause.CUPY_SDIST_BUILD_FAILURE,
        0.5,
    ),
    Shift("pool-holds-it", (Cause.OUT_OF_MEMORY, Cause.GPU_BUSY), Cause.MEMORY_POOL_RETENTION, 0.7),
    Shift("room-said", (Cause.OUT_OF_MEMORY,), Cause.MEMORY_POOL_RETENTION, 0.35),
    Shift(
        "preforked",
        (Cause.LIBRARY_NOT_INITIALIZED, Cause.CUDA_INITIALIZATION_FAILED),
        Cause.FORK_AFTER_CUDA_INIT,
        0.65,
    ),
    Shift(
        "devices-apart",
        (Cause.ILLEGAL_MEMORY_ACCESS, Cause.ASYNC_ERROR_SURFACED_LATE, Cause.LIBRARY_NOT_INITIALIZED),
        Cause.CROSS_DEVICE_ARRAY,
        0.6,
    ),
    Shift("blamed-elsewhere", (Cause.ILLEGAL_MEMORY_ACCESS,), Cause.ASYNC_ERROR_SURFACED_LATE, 0.45),
    Shift("rerun-ok", (Cause.CUPY_TOO_OLD_FOR_GPU, Cause.GPU_TOO_NEW_FOR_TOOLKIT), Cause.KERNEL_CACHE_RACE, 0.7),
    Shift("rerun-ok", (Cause.KERNEL_CACHE_UNWRITABLE,), Cause.KERNEL_CACHE_RACE, 0.6),
    Shift("single-process", (Cause.KERNEL_CACHE_RACE,), Cause.KERNEL_CACHE_UNWRITABLE, 0.6),
    # It is there, and the loader does not look where it is: no longer a library that nobody has installed.
    Shift("said-there", (Cause.OPTIONAL_LIBRARY_MISSING,), Cause.CUDA_LIBRARY_MISSING, 0.6),
    Shift("library-there", (Cause.OPTIONAL_LIBRARY_MISSING,), Cause.CUDA_LIBRARY_MISSING, 0.6),
    Shift("ended-well", (Cause.OPTIONAL_LIBRARY_MISSING,), Cause.OPTIONAL_LIBRARY_PROBE_MISREAD, 0.75),
    Shift("exclusive", (Cause.INVALID_DEVICE_ORDINAL,), Cause.COMPUTE_MODE_EXCLUSIVE, 0.6),
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
# Of these alone a program is told that it sees no device, and not of what the driver lacks.
_NO_DEVICE = (
    *(Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.NO_NVIDIA_GPU, Cause.NO_DRIVER, Cause.CUDA_INITIALIZATION_FAILED),
    *(Cause.CPU_ONLY_FRAMEWORK, Cause.CONTAINER_WITHOUT_GPU),
)
_START = (*_OPEN, Cause.FORK_AFTER_CUDA_INIT)
_RUN = (*_START, Cause.ILLEGAL_MEMORY_ACCESS, Cause.ASYNC_ERROR_SURFACED_LATE)
# Without what the table above has moved by the same mark: a fact counts once.
_ON_TEGRA = tuple(cause for cause in _OPEN if cause not in (Cause.CONTAINER_TOOLKIT_BROKEN, Cause.CPU_ONLY_FRAMEWORK))
_NOT_LOADED = tuple(cause for cause in _START if cause is not Cause.DEVICE_NODE_MISSING)

# Of a message that leaves its cause open; the later one says more, where a text shows two.
WHERE_OPEN = (
    Shift("new-kernel", _OPEN, Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.4),
    Shift("not-suspended", (Cause.SUSPEND_RESUME_LOST_GPU,), Cause.CUDA_INITIALIZATION_FAILED, 0.8),
    Shift("does-not-fork", (Cause.FORK_AFTER_CUDA_INIT,), Cause.CUDA_INITIALIZATION_FAILED, 0.8),
    Shift(
        "smi-said-to-work",
        (Cause.SUSPEND_RESUME_LOST_GPU, Cause.FORK_AFTER_CUDA_INIT),
        Cause.CUDA_INITIALIZATION_FAILED,
        0.35,
    ),
    Shift(
        "smi-said-to-work", (Cause.NO_NVIDIA_GPU, Cause.DRIVER_MODULE_NOT_LOADED), Cause.CUDA_INITIALIZATION_FAILED, 0.6
    ),
    Shift("jetson", _ON_TEGRA, Cause.JETSON_TEGRA, 0.4),
    Shift("wsl", _OPEN, Cause.WSL_LIBCUDA, 0.35),
    Shift("said-not-loaded", _NOT_LOADED, Cause.DRIVER_MODULE_NOT_LOADED, 0.6),
    Shift("driver-half-there", _OPEN, Cause.DRIVER_INSTALL_BROKEN, 0.6),
    Shift("pci-without-nvidia", (*_DEVICES, Cause.DRIVER_TOO_OLD_FOR_CUDA), Cause.NO_NVIDIA_GPU, 0.65),
    # A runtime of Colab without an accelerator is what it starts with.
    Shift("colab", (*_NOT_LOADED, Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.NO_DRIVER), Cause.NO_NVIDIA_GPU, 0.6),
    Shift("nouveau-holds", _DEVICES, Cause.NOUVEAU_LOADED, 0.7),
    Shift("legacy-named", _DEVICES, Cause.GPU_REMOVED_FROM_DRIVER, 0.55),
    Shift("suspend", _RUN, Cause.SUSPEND_RESUME_LOST_GPU, 0.55),
    Shift("exclusive", _OPEN, Cause.COMPUTE_MODE_EXCLUSIVE, 0.6),
    Shift("nodes-closed", _DEVICES, Cause.DEVICE_NODE_PERMISSION, 0.7),
    Shift("root-may", _DEVICES, Cause.DEVICE_NODE_PERMISSION, 0.7),
    Shift("uvm-absent", _START, Cause.DEVICE_NODE_MISSING, 0.6),
    Shift("started-without-gpu", (*_OPEN, Cause.DRIVER_TOO_OLD_FOR_CUDA), Cause.CONTAINER_WITHOUT_GPU, 0.6),
    Shift(
        "capabilities-lack-compute", (*_OPEN, Cause.DRIVER_TOO_OLD_FOR_CUDA), Cause.CONTAINER_DRIVER_CAPABILITIES, 0.65
    ),
    Shift("restart-brings-back", _OPEN, Cause.CONTAINER_CGROUP_LOST_GPU, 0.65),
    Shift("compat", _OPEN, Cause.FORWARD_COMPAT_UNSUPPORTED, 0.5),
    Shift("mig", _NO_DEVICE, Cause.MIG_MISCONFIGURED, 0.5),
    Shift("hidden", _OPEN, Cause.VISIBLE_DEVICES_HIDE_GPU, 0.65),
    Shift("tested-faulty", _RUN, Cause.GPU_HARDWARE_FAULT, 0.65),
)
