"""Messages that several causes have: what else a text shows tells which of them it is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpuenv.model.causes import Cause
from gpuenv.model.record import dataclass

# What is said of an NVIDIA GPU or its driver where only a card of AMD's is named: neither is there.
_OF_NVIDIA = frozenset(
    (
        *(Cause.NO_DRIVER, Cause.DRIVER_MODULE_NOT_LOADED, Cause.DRIVER_KERNEL_INCOMPATIBLE, Cause.NOUVEAU_LOADED),
        *(Cause.DRIVER_TOO_OLD_FOR_CUDA, Cause.DRIVER_INSTALL_BROKEN, Cause.CUDA_INITIALIZATION_FAILED),
        *(Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.CONTAINER_WITHOUT_GPU, Cause.CONTAINER_DRIVER_CAPABILITIES),
        *(Cause.DEVICE_NODE_MISSING, Cause.WSL_LIBCUDA),
    )
)
_NVIDIA_NAMED = frozenset(("nvidia-card", "smi-table", "module-loaded", "gpu-known"))
_MAJORS = (10, 11, 12, 13)
_NOT_FOUND = (Cause.CUDA_LIBRARY_MISSING, Cause.WINDOWS_DLL_LOAD_FAILURE, Cause.CUDA_HEADERS_MISSING)
_OF_LINE = 0.7
_OF_AMD = 0.8  # how much of such a cause is then another's


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


# One further fact decides: what cured it, whose memory or library it is, where alone it comes.
_NO_GPU_SEEN = (
    *(Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.NO_NVIDIA_GPU, Cause.NO_DRIVER, Cause.DRIVER_MODULE_NOT_LOADED),
    *(Cause.CONTAINER_WITHOUT_GPU, Cause.CUDA_INITIALIZATION_FAILED, Cause.CONTAINER_TOOLKIT_BROKEN),
)
_OF_LIBRARIES = (
    *(Cause.LIBRARY_NOT_INITIALIZED, Cause.DRIVER_LIBRARY_VERSION_MISMATCH, Cause.CONTAINER_CGROUP_LOST_GPU),
    *(Cause.CPU_ONLY_FRAMEWORK, Cause.DRIVER_TOO_OLD_FOR_CUDA, Cause.CUFFT_PLAN_FAILURE),
)
DECIDED = (
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
    Shift("ended-well", (Cause.OPTIONAL_LIBRARY_MISSING,), Cause.OPTIONAL_LIBRARY_PROBE_MISREAD, 0.75),
)
SHIFTS = (
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
    *DECIDED,
    Shift("exclusive", (Cause.INVALID_DEVICE_ORDINAL,), Cause.COMPUTE_MODE_EXCLUSIVE, 0.6),
)


def told_apart(weights: Mapping[Cause, float], marks: Collection[str]) -> dict[Cause, float]:
    """What a message says, moved to the causes that the rest of the text means."""
    told = dict(weights)
    for shift in SHIFTS:
        moved = {cause: told[cause] * shift.share for cause in shift.causes if shift.mark in marks and cause in told}
        move(told, moved, shift.meant)
    return _of_the_card(_of_the_line(told, marks), marks)


def _of_the_line(told: dict[Cause, float], marks: Collection[str]) -> dict[Cause, float]:
    """A library that is not found, where the one line of wheels that is named is not of the CUDA that is there."""
    lines = {major for major in _MAJORS if f"line-{major}" in marks}
    there = {major for major in _MAJORS if f"toolkit-{major}" in marks}
    if len(lines) == 1 and there and not lines & there:
        moved = {cause: told[cause] * _OF_LINE for cause in _NOT_FOUND if cause in told}
        move(told, moved, Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR)
    return told


def _of_the_card(told: dict[Cause, float], marks: Collection[str]) -> dict[Cause, float]:
    """A message of CUDA's where the card is AMD's: there is no NVIDIA GPU, or a build for ROCm does not fit."""
    if "amd-card" in marks and not _NVIDIA_NAMED.intersection(marks):
        moved = {cause: weight * _OF_AMD for cause, weight in told.items() if cause in _OF_NVIDIA}
        move(told, moved, Cause.ROCM_MISMATCH if "rocm-build" in marks else Cause.NO_NVIDIA_GPU)
    return told


def move(told: dict[Cause, float], moved: Mapping[Cause, float], meant: Cause) -> None:
    """Takes these shares from their causes and gives them to the one that is meant."""
    for cause, weight in moved.items():
        told[cause] -= weight
    if moved:
        told[meant] = told.get(meant, 0.0) + sum(moved.values())
