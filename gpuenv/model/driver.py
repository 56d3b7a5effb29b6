"""The NVIDIA driver: its kernel module, its libraries and its device files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpuenv.model.reading import Reading
from gpuenv.model.versions import CudaVersion, DriverVersion


class Module(str, Enum):
    """The state of the ``nvidia`` kernel module."""

    LOADED = "loaded"
    NOT_LOADED = "not-loaded"
    NOT_INSTALLED = "not-installed"


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file: ``accessible`` tells whether this process may read and write it."""

    path: str
    accessible: bool
    mode: str
    owner: str


@dataclass(frozen=True, slots=True)
class DkmsBuild:
    """A driver's kernel module in DKMS's tree.

    Attributes:
        module: DKMS's name for it, such as ``nvidia``.
        release: the driver's release.
        kernel: the kernel it was built for; null where it has only been added.
        state: ``added``, ``built`` or ``failed``.
        compiler: the compiler that the kernel was built with, such as ``gcc-12``, where the build failed since another
            one, or none, is there.
    """

    module: str
    release: str
    kernel: str | None = None
    state: str = "added"
    compiler: str | None = None


class LibraryOrigin(str, Enum):
    """Where a library of the driver's comes from."""

    SYSTEM = "system"
    MOUNTED = "mounted"
    COMPAT = "compat"
    STUB = "stub"
    WSL = "wsl"
    TEGRA = "tegra"
    NIXOS = "nixos"
    FLATPAK = "flatpak"
    CLOUD = "cloud"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class DriverLibrary:
    """A file of libcuda or libnvidia-ml.

    Attributes:
        path: the file, links resolved.
        release: the driver version in its name.
        origin: where it comes from.
        mounted: whether it is mounted there, and so no part of a container's image; null where mounts are not to be
            seen.
    """

    path: str
    release: DriverVersion | None = None
    origin: LibraryOrigin = LibraryOrigin.OTHER
    mounted: bool | None = None


@dataclass(frozen=True, slots=True)
class Driver:
    """The NVIDIA driver.

    Attributes:
        version: the version in use.
        cuda: the newest CUDA version that the libcuda in use supports (not a toolkit, not a runtime).
        branch: the driver branch, such as 580.
        module: state of the kernel module.
        module_version: the kernel module's version.
        library_version: the version in the file name of the user-space library.
        flavor: ``open`` or ``proprietary`` kernel module.
        nouveau: whether the nouveau module is loaded.
        nvml_library: file that the loader takes for ``libnvidia-ml.so.1``.
        cuda_library: file that the loader takes for ``libcuda.so.1``.
        cuda_origin: where that file comes from: ``compat`` is a forward-compatibility package.
        libraries: every file of libcuda and libnvidia-ml in the folders that drivers use.
        dkms: the driver's modules in DKMS's tree.
        module_kernels: kernels other than the running one for which a module is installed, where that has none.
        module_files: the files of those modules, below ``/lib/modules``: where one lies tells what has put it there.
        module_blocks: files with the line, and kernel parameters, that keep the module from being loaded.
        nvml_init: return code of ``nvmlInit`` (0 is success).
        cuda_init: return code of ``cuInit`` (0 is success).
        device_nodes: device files under ``/dev`` that belong to the driver.
    """

    version: Reading[DriverVersion] = Reading()
    cuda: Reading[CudaVersion] = Reading()
    branch: Reading[int] = Reading()
    module: Reading[Module] = Reading()
    module_version: Reading[DriverVersion] = Reading()
    library_version: Reading[DriverVersion] = Reading()
    flavor: Reading[str] = Reading()
    nouveau: Reading[bool] = Reading()
    nvml_library: Reading[str] = Reading()
    cuda_library: Reading[str] = Reading()
    cuda_origin: Reading[LibraryOrigin] = Reading()
    libraries: tuple[DriverLibrary, ...] = ()
    dkms: tuple[DkmsBuild, ...] = ()
    module_kernels: Reading[tuple[str, ...]] = Reading()
    module_files: Reading[tuple[str, ...]] = Reading()
    module_blocks: Reading[tuple[str, ...]] = Reading()
    nvml_init: Reading[int] = Reading()
    cuda_init: Reading[int] = Reading()
    device_nodes: tuple[DeviceNode, ...] = ()
