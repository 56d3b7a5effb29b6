"""Questions about a machine that several checks ask."""

from __future__ import annotations

from collections.abc import Iterable

from gpuenv.model.gpus import driver_sees_gpu, is_contained, nvidia_on_bus
from gpuenv.model.nvidia import pci_key
from gpuenv.model.snapshot import Container, DriverLibrary, LibraryOrigin, PciGpu, Snapshot, SourceState

# What keeps a device for a virtual machine. Linux, drivers/vfio/pci: vfio-pci, and a variant for each kind of device,
# such as nvgrace_gpu_vfio_pci; drivers/xen/xen-pciback/pci_stub.c and drivers/pci/pci-stub.c: the name of the driver.
_KEEPERS, _KEEPERS_ENDING = ("pciback", "pci-stub"), ("vfio-pci", "vfio_pci")
_TAKING = ("nvidia", "nouveau")  # each has checks of its own
# Linux, drivers/gpu/nova-core/nova_core.rs: the driver's name, and the module's.
NOVA, _OF_NOVA = "nova_core", ("NovaCore", "nova_core")
# Where the driver container of NVIDIA's GPU Operator mounts its root on the node (its documentation, hostPaths).
OF_THE_OPERATOR = "/run/nvidia/driver"
# Where cos-extensions puts the driver (Google, Container-Optimized OS, Run GPUs).
OF_CONTAINER_OPTIMIZED_OS = "/var/lib/nvidia"


def is_passed_on(gpu: PciGpu) -> bool:
    """Whether a kernel driver holds it that keeps devices for virtual machines."""
    holder = gpu.kernel_driver or ""
    return holder in _KEEPERS or holder.endswith(_KEEPERS_ENDING)


def passed_on(snapshot: Snapshot) -> tuple[PciGpu, ...]:
    """The GPUs of a machine that keeps all of them for virtual machines; none where one is left for its own driver."""
    on_bus = nvidia_on_bus(snapshot) or ()
    return on_bus if all(map(is_passed_on, on_bus)) else ()


def holders_of(gpus: Iterable[PciGpu]) -> str:
    """The names of the kernel drivers that hold these."""
    return " and ".join(dict.fromkeys(gpu.kernel_driver for gpu in gpus if gpu.kernel_driver))


def held_by_nova(snapshot: Snapshot) -> tuple[PciGpu, ...]:
    """The GPUs bound to nova, the kernel's successor of nouveau."""
    return tuple(gpu for gpu in nvidia_on_bus(snapshot) or () if gpu.kernel_driver in _OF_NOVA)


def held_by_others(snapshot: Snapshot) -> tuple[PciGpu, ...]:
    """The GPUs bound to an unsuitable kernel driver: that of a framebuffer, or one for programs in user space."""
    return tuple(
        gpu
        for gpu in nvidia_on_bus(snapshot) or ()
        if gpu.kernel_driver not in (None, *_TAKING, *_OF_NOVA) and not is_passed_on(gpu)
    )


def left_out(snapshot: Snapshot) -> tuple[PciGpu, ...]:
    """The GPUs on the bus that the driver's libraries do not list, and that are the driver's to drive."""
    listed = {
        pci_key(gpu.pci.value) for gpu in snapshot.gpus if gpu.index.known or gpu.ordinal.known or gpu.fault.known
    }
    return tuple(
        device
        for device in nvidia_on_bus(snapshot) or ()
        if pci_key(device.pci) not in listed and not is_passed_on(device)
    )


def libraries_absent(snapshot: Snapshot) -> bool:
    """Whether neither NVML nor libcuda is to be found."""
    return all(snapshot.source(name).state is SourceState.ABSENT for name in ("nvml", "libcuda"))


def libcuda_absent(snapshot: Snapshot) -> bool:
    """Whether the loader finds no libcuda."""
    return snapshot.source("libcuda").state is SourceState.ABSENT


def like_a_machine(snapshot: Snapshot) -> bool:
    """Whether this is a container that is set up like a machine, with its own packages of the driver's libraries."""
    return snapshot.host.container.value in (Container.LXC, Container.NSPAWN)


def baked_libraries(snapshot: Snapshot) -> tuple[DriverLibrary, ...]:
    """The libraries in use that are files of a container's image, and of another version than the host's module."""
    module = snapshot.driver.module_version.value
    used = [path for path in (snapshot.driver.cuda_library.value, snapshot.driver.nvml_library.value) if path]
    if module is None or not is_contained(snapshot):
        return ()
    return tuple(
        entry
        for entry in snapshot.driver.libraries
        if entry.mounted is False
        and entry.origin in (LibraryOrigin.SYSTEM, LibraryOrigin.OTHER)
        and entry.release not in (None, module)
        and any(path.endswith(entry.path) for path in used)
    )


def without_gpu(snapshot: Snapshot) -> bool:
    """Whether this is a container without a GPU; those on the bus are the host's.

    GPUs that nvidia-smi lists count: a paste of a container may have nothing else.
    """
    listed = snapshot.gpu_count.source == "nvidia-smi" and snapshot.gpu_count.value
    return is_contained(snapshot) and not listed and not driver_sees_gpu(snapshot)


def newer_libcuda_to_come(snapshot: Snapshot) -> bool:
    """Whether a container without a GPU has a cuda-compat libcuda in its image, newer than the host's driver.

    The container toolkit lets it be found first once the container is started with a GPU: NVIDIA's repository
    nvidia-container-toolkit, pull request 906, Add CUDA forward compatibility hook, February 2025.
    """
    module = snapshot.driver.module_version.value
    compat = (entry.release for entry in snapshot.driver.libraries if entry.origin is LibraryOrigin.COMPAT)
    newer = any(release is not None and module is not None and release > module for release in compat)
    return newer and without_gpu(snapshot)


def unfound_in_wsl(snapshot: Snapshot) -> DriverLibrary | None:
    """The libcuda that Windows brings, where the loader does not find it."""
    if not snapshot.host.wsl.value or not libcuda_absent(snapshot):
        return None
    return next((entry for entry in snapshot.driver.libraries if entry.origin is LibraryOrigin.WSL), None)


def probed(snapshot: Snapshot) -> bool:
    """Whether the driver was probed at all."""
    return snapshot.source("libcuda").state is not SourceState.NOT_ASKED
