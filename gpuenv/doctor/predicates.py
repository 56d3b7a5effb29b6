"""Conditions of a machine that several checks test."""

from __future__ import annotations

from collections.abc import Iterable

from gpuenv.model.gpus import driver_sees_gpu, is_contained, nvidia_on_bus
from gpuenv.model.nvidia import Cuda, pci_key
from gpuenv.model.snapshot import (
    Container,
    DeviceNode,
    DriverLibrary,
    LibraryOrigin,
    PciGpu,
    Snapshot,
    SourceState,
)
from gpuenv.model.strings import pattern

# Kernel drivers that reserve a device for a virtual machine. Linux, drivers/vfio/pci: vfio-pci, and a variant for each
# kind of device, such as nvgrace_gpu_vfio_pci; drivers/xen/xen-pciback/pci_stub.c and drivers/pci/pci-stub.c.
_PASSTHROUGH_DRIVERS, _PASSTHROUGH_SUFFIXES = ("pciback", "pci-stub"), ("vfio-pci", "vfio_pci")
_GPU_DRIVERS = ("nvidia", "nouveau")  # covered by checks of their own
# Linux, drivers/gpu/nova-core/nova_core.rs: the driver's name, and the module's.
NOVA, _NOVA_NAMES = "nova_core", ("NovaCore", "nova_core")
_GPU_NODE = pattern(r"/dev/nvidia\d+")
# CUDA Driver API, CUresult: the stub is loaded, or libcuda does not fit the driver or the GPU.
_WRONG_LIBCUDA = (Cuda.STUB_LIBRARY, Cuda.SYSTEM_DRIVER_MISMATCH, Cuda.COMPAT_NOT_SUPPORTED_ON_DEVICE)
# Where the driver container of NVIDIA's GPU Operator mounts its root on the node (its documentation, hostPaths).
GPU_OPERATOR_ROOT = "/run/nvidia/driver"
# Where cos-extensions installs the driver (Google, Container-Optimized OS, Run GPUs).
COS_DRIVER_ROOT = "/var/lib/nvidia"


def is_passed_through(gpu: PciGpu) -> bool:
    """Whether the GPU is bound to a kernel driver for passthrough to virtual machines."""
    name = gpu.kernel_driver or ""
    return name in _PASSTHROUGH_DRIVERS or name.endswith(_PASSTHROUGH_SUFFIXES)


def passed_through_gpus(snapshot: Snapshot) -> tuple[PciGpu, ...]:
    """The GPUs, if all of them are passed through to virtual machines; else empty."""
    on_bus = nvidia_on_bus(snapshot) or ()
    return on_bus if all(map(is_passed_through, on_bus)) else ()


def kernel_driver_names(gpus: Iterable[PciGpu]) -> str:
    """Names of the kernel drivers to which these GPUs are bound."""
    return " and ".join(dict.fromkeys(gpu.kernel_driver for gpu in gpus if gpu.kernel_driver))


def gpus_bound_to_nova(snapshot: Snapshot) -> tuple[PciGpu, ...]:
    """The GPUs bound to nova, the successor of nouveau in the kernel."""
    return tuple(gpu for gpu in nvidia_on_bus(snapshot) or () if gpu.kernel_driver in _NOVA_NAMES)


def gpus_bound_to_other_drivers(snapshot: Snapshot) -> tuple[PciGpu, ...]:
    """The GPUs bound to an unsuitable kernel driver: a framebuffer's, or one for drivers in user space."""
    return tuple(
        gpu
        for gpu in nvidia_on_bus(snapshot) or ()
        if gpu.kernel_driver not in (None, *_GPU_DRIVERS, *_NOVA_NAMES) and not is_passed_through(gpu)
    )


def gpus_not_listed(snapshot: Snapshot) -> tuple[PciGpu, ...]:
    """The GPUs on the bus that the driver should drive and does not list."""
    listed = {
        pci_key(gpu.pci.value) for gpu in snapshot.gpus if gpu.index.known or gpu.ordinal.known or gpu.fault.known
    }
    return tuple(
        device
        for device in nvidia_on_bus(snapshot) or ()
        if pci_key(device.pci) not in listed and not is_passed_through(device)
    )


def libraries_absent(snapshot: Snapshot) -> bool:
    """Whether neither NVML nor libcuda is found."""
    return all(snapshot.source(name).state is SourceState.ABSENT for name in ("nvml", "libcuda"))


def is_open_to_all(node: DeviceNode) -> bool:
    """Whether its mode allows every user to read and write; then only a control group can deny access.

    access(2) checks both (Linux, fs/namei.c, inode_permission: devcgroup_inode_permission).
    """
    return node.mode[-3:-1] == "rw"


def is_gpu_node(path: str) -> bool:
    """Whether a device node belongs to one GPU, as /dev/nvidia0 does."""
    return _GPU_NODE.fullmatch(path) is not None


def closed_nodes(snapshot: Snapshot) -> tuple[DeviceNode, ...]:
    """Returns the nodes that this process may not open, except those of GPUs that were granted to others.

    The control group of a job closes the latter, whose mode allows every user, and leaves another GPU open.
    """
    nodes = snapshot.driver.device_nodes
    has_gpu = any(is_gpu_node(node.path) and node.accessible for node in nodes)
    return tuple(
        node
        for node in nodes
        if not node.accessible and not (has_gpu and is_gpu_node(node.path) and is_open_to_all(node))
    )


def machine_fails_cuda(snapshot: Snapshot) -> bool:
    """Whether cuInit fails by a fault of the machine, not by the choice of libcuda, which some codes report."""
    code = snapshot.driver.cuda_init.value
    return bool(code) and code not in _WRONG_LIBCUDA


def libcuda_absent(snapshot: Snapshot) -> bool:
    """Whether the loader finds no libcuda."""
    return snapshot.source("libcuda").state is SourceState.ABSENT


def is_system_container(snapshot: Snapshot) -> bool:
    """Whether this is a system container, which installs the driver's libraries from packages of its own."""
    return snapshot.host.container.value in (Container.LXC, Container.NSPAWN)


def image_driver_libraries(snapshot: Snapshot) -> tuple[DriverLibrary, ...]:
    """The driver libraries in use that belong to the container's image and differ in version from the host's module."""
    module = snapshot.driver.module_version.value
    paths = [path for path in (snapshot.driver.cuda_library.value, snapshot.driver.nvml_library.value) if path]
    if module is None or not is_contained(snapshot):
        return ()
    return tuple(
        entry
        for entry in snapshot.driver.libraries
        if entry.mounted is False
        and entry.origin in (LibraryOrigin.SYSTEM, LibraryOrigin.OTHER)
        and entry.release not in (None, module)
        and any(path.endswith(entry.path) for path in paths)
    )


def is_container_without_gpu(snapshot: Snapshot) -> bool:
    """Whether this is a container without a GPU; GPUs on the bus belong to the host.

    GPUs that nvidia-smi lists count: a paste from a container may contain nothing else.
    """
    smi_count = snapshot.gpu_count.source == "nvidia-smi" and snapshot.gpu_count.value
    return is_contained(snapshot) and not smi_count and not driver_sees_gpu(snapshot)


def expects_compat_libcuda(snapshot: Snapshot) -> bool:
    """Whether a container without a GPU has a cuda-compat libcuda in its image that is newer than the host's driver.

    Started with a GPU, the container loads it first: NVIDIA's repository nvidia-container-toolkit, pull request 906,
    Add CUDA forward compatibility hook, February 2025.
    """
    module = snapshot.driver.module_version.value
    compat = (entry.release for entry in snapshot.driver.libraries if entry.origin is LibraryOrigin.COMPAT)
    newer = any(release is not None and module is not None and release > module for release in compat)
    return newer and is_container_without_gpu(snapshot)


def unfound_wsl_libcuda(snapshot: Snapshot) -> DriverLibrary | None:
    """The libcuda of the Windows driver, if the loader does not find it."""
    if not snapshot.host.wsl.value or not libcuda_absent(snapshot):
        return None
    return next((entry for entry in snapshot.driver.libraries if entry.origin is LibraryOrigin.WSL), None)


def is_driver_probed(snapshot: Snapshot) -> bool:
    """Whether libcuda was probed."""
    return snapshot.source("libcuda").state is not SourceState.NOT_ASKED
