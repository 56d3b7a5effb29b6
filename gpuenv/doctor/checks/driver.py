"""Is the driver there, whole, and loaded?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuenv.doctor.checks.module import ABSENT, signing_fixes
from gpuenv.doctor.driver_libraries import folder, unfound
from gpuenv.doctor.evidence import readings, searched, source
from gpuenv.doctor.fixes.distributions import compute_part, driver_fixes, module_build, restart
from gpuenv.doctor.fixes.kernel_module import (
    blocks,
    by_prime_select,
    free_driver,
    in_its_place,
    into_this_kernel,
    keeps_out,
    let_through,
)
from gpuenv.doctor.predicates import (
    OF_CONTAINER_OPTIMIZED_OS,
    OF_THE_OPERATOR,
    contained,
    driver_sees_gpu,
    held_by_nova,
    held_by_others,
    holders_of,
    is_passed_on,
    libcuda_absent,
    libraries_absent,
    module_loaded,
    nvidia_on_bus,
    passed_on,
    probed,
    unfound_in_wsl,
)
from gpuenv.doctor.registry import NONE_EXPECTED, Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.nvidia import Nvml
from gpuenv.model.snapshot import DriverLibrary, LibraryOrigin, Module, PciGpu, Snapshot, SourceState, Virtualization

_IN_A_CONTAINER = Fix("Where this is a container: start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility.")
_ABSENT = (*ABSENT, "DRV115", "DRV116", "DRV120", "DRV121", "DRV122")
_OF_A_MANAGER = Fix(  # NVIDIA, Virtual GPU Software User Guide: the Virtual GPU Manager of a hypervisor
    "This is the host of virtual GPUs: the vGPU manager, which is its driver, brings no CUDA. Compute in a virtual "
    "machine that has a vGPU, with the guest driver, or put the ordinary driver in the manager's place."
)
_LOAD = ("sudo", "modprobe", "nvidia")
_NOT_LOADED = "The NVIDIA driver is installed, but its kernel module is not loaded"


@check("DRV104", Cause.NOUVEAU_LOADED, requires=_ABSENT)
def nouveau_loaded(facts: Facts) -> Outcome:
    """The nouveau module holds the GPU.

    What it means: the free driver drives the screen, but it cannot run CUDA, and NVIDIA's module cannot take the GPU
    while nouveau has it.
    How it is seen: the kernel binds an NVIDIA device to nouveau, or to nova, which follows it for newer GPUs, and the
    nvidia module is not loaded.
    What to do: install NVIDIA's driver (its package blocks nouveau), then restart. Where its module is there already,
    and a line in modprobe.d or a kernel parameter keeps it out, take that out; where nothing does, keep nouveau out of
    the initial RAM disk too.
    """
    snapshot = facts.snapshot
    held = [gpu for gpu in nvidia_on_bus(snapshot) or () if gpu.kernel_driver == "nouveau"]
    by_nova = held_by_nova(snapshot)
    free = [gpu for gpu in nvidia_on_bus(snapshot) or () if not is_passed_on(gpu)]
    if module_loaded(snapshot) or not (held or by_nova or (snapshot.driver.nouveau.value and free)):
        return
    yield Symptom(
        f"The {free_driver(snapshot)} module holds the NVIDIA GPU, so NVIDIA's driver cannot use it",
        _holders((*held, *by_nova))
        + readings(snapshot, "driver.module")
        + (readings(snapshot, "driver.module_blocks") if blocks(snapshot) else ()),
        in_its_place(facts),
    )


@check("DRV105", Cause.DRIVER_MODULE_NOT_LOADED, requires=(*_ABSENT, "DRV104", "GPU204"))
def module_not_loaded(facts: Facts) -> Outcome:
    """The driver is installed, but its kernel module is not loaded.

    What it means: the libraries are there, yet the kernel does not drive the GPU: the module was not built for the
    running kernel, was refused (Secure Boot), is kept out by a line in modprobe.d, or was not loaded yet. After an
    update that removed the modules of the running kernel, none can be loaded until the next start.
    How it is seen: NVML says that the driver is not loaded, or the module lies in the kernel's folder, unloaded. Where
    DKMS's tree or the kernel's log tells why, a finding of its own says so.
    What to do: where all GPUs are passed on to virtual machines (vfio-pci, pciback or their like holds them), use them
    there; else take out what keeps it from being loaded; load it by hand and read what the kernel says; after a kernel
    update, rebuild it (DKMS) or restart.
    """
    snapshot = facts.snapshot
    if module_loaded(snapshot) or contained(snapshot) or snapshot.host.wsl.value:
        return
    told = snapshot.driver.nvml_init.value == Nvml.DRIVER_NOT_LOADED
    installed = snapshot.driver.module.value is Module.NOT_LOADED
    if driver_sees_gpu(snapshot) or not (told or installed):
        return
    away, others = passed_on(snapshot), held_by_others(snapshot)
    yield Symptom(
        _title(away, others),
        _holders((*away, *others))
        + readings(snapshot, "driver.module")
        + source(snapshot, "nvml")
        + readings(snapshot, "host.kernel")
        + (readings(snapshot, "host.secure_boot") if snapshot.host.secure_boot.value else ())
        + (readings(snapshot, "driver.module_blocks") if snapshot.driver.module_blocks.value else ())
        + (readings(snapshot, "driver.module_kernels") if _is_replaced(snapshot) else ()),
        _in_virtual_machines(away) if away else tuple(_out_of_its_way(others) or _loading(snapshot)),
    )


def _title(away: Sequence[PciGpu], others: Sequence[PciGpu]) -> str:
    if away:
        return f"{_kept(away)}, so the NVIDIA driver's module is not loaded"
    held = f", and {holders_of(others)} has the GPU" if others else ""
    return f"{_NOT_LOADED}{held}"


def _kept(away: Sequence[PciGpu]) -> str:
    return f"{holders_of(away)} keeps every NVIDIA GPU for virtual machines"


def _in_virtual_machines(away: Sequence[PciGpu]) -> tuple[Fix, ...]:
    there = f"Use the GPU in the virtual machine that it is passed on to by {holders_of(away)}, and gpuenv there."
    return (Fix(there), NONE_EXPECTED)


def _out_of_its_way(others: Sequence[PciGpu]) -> tuple[Fix, ...]:
    """NVIDIA's module takes no device that another kernel driver has, and then it does not stay loaded."""
    if not others:
        return ()
    name = holders_of(others)
    keep = Fix(f"Keep {name} off the GPU, as by the line blacklist {name} in a file below /etc/modprobe.d; restart.")
    return (keep, Fix("Then load NVIDIA's module, where it is not loaded by itself.", _LOAD))


def _holders(gpus: Iterable[PciGpu]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(f"kernel driver of {gpu.pci}", gpu.kernel_driver or "none", "/sys/bus/pci/devices") for gpu in gpus
    )


def _loading(snapshot: Snapshot) -> Iterator[Fix]:
    """How the module comes to be loaded, by what keeps it from it, the likeliest first."""
    kernel = snapshot.host.kernel.value
    if _is_replaced(snapshot):
        yield restart(snapshot, "for the modules of the running kernel are gone from the disk, as after an update")
    elif by_prime_select(snapshot):
        yield from let_through(snapshot)
    elif snapshot.driver.module.value is Module.NOT_INSTALLED and kernel:
        yield from into_this_kernel(snapshot, kernel)
        yield from let_through(snapshot)
        yield Fix("Then load it.", _LOAD)
    elif any(map(keeps_out, blocks(snapshot))):
        yield from let_through(snapshot)
    else:
        yield Fix("Load the module and see what the kernel says if it refuses.", _LOAD)
        yield from signing_fixes(snapshot) if snapshot.host.secure_boot.value else ()
        built = Fix("After a kernel update, build the module for this kernel.", module_build(snapshot))
        yield from let_through(snapshot) if blocks(snapshot) else (built,)


def _is_replaced(snapshot: Snapshot) -> bool:
    """Whether modules are there for other kernels alone, and the running one has no folder: it was updated."""
    return bool(snapshot.driver.module_kernels.value) and snapshot.driver.module.value is None


@check("DRV106", Cause.NO_DRIVER, requires=(*_ABSENT, "DRV104", "DRV105"))
def no_driver(facts: Facts) -> Outcome:
    """No NVIDIA driver is installed.

    What it means: there is neither the kernel module nor libcuda. A CUDA toolkit, conda packages or CUDA wheels do not
    contain the driver.
    How it is seen: the loader finds neither libcuda.so.1 nor libnvidia-ml.so.1, and no nvidia module is loaded.
    What to do: install the driver with the system's package manager, then restart. Under WSL install the driver in
    Windows, and none in Linux. On a host that passes its GPUs on to virtual machines none is needed.
    """
    snapshot = facts.snapshot
    assumed = "driver.version" in snapshot.assumed and not snapshot.driver.version.known
    if not assumed and (module_loaded(snapshot) or not libraries_absent(snapshot) or not probed(snapshot)):
        return
    if not assumed and unfound_in_wsl(snapshot):
        return
    on_bus, away = nvidia_on_bus(snapshot), passed_on(snapshot)
    seen = ", ".join(f"{gpu.name or gpu.device} at {gpu.pci}" for gpu in on_bus or ())
    yield Symptom(
        f"{_kept(away)}, and no NVIDIA driver is installed here"
        if away
        else "No NVIDIA driver is installed" + (", though there is an NVIDIA GPU" if on_bus else ""),
        _holders(away)
        + (Evidence("NVIDIA GPUs on the PCI bus", seen or "unknown", "/sys/bus/pci/devices"),)
        + source(snapshot, "libcuda")
        + source(snapshot, "nvml")
        + readings(snapshot, "driver.module"),
        _in_virtual_machines(away) if away else driver_fixes(facts),
    )


@check("DRV108", Cause.DRIVER_INSTALL_BROKEN, requires=(*_ABSENT, "CTR302", "DRV106"))
def driver_incomplete(facts: Facts) -> Outcome:
    """A part of the driver is missing: there is no libcuda.

    What it means: the kernel module is loaded or NVML answers, but CUDA's own driver library is not found, so no CUDA
    program can start. Server packages without compute parts, or a removed package, leave it so.
    Or it is there, in a folder that the loader was not told of: that of a cloud's image, NixOS' own, or the one in
    which NVIDIA's GPU Operator keeps the driver of a node.
    How it is seen: the loader does not find libcuda.so.1 while another part of the driver is there.
    What to do: install the driver's compute package of the same version, or reinstall the driver; where the library of
    the loaded module is there, let the loader look in its folder.
    """
    snapshot = facts.snapshot
    lying = unfound(snapshot)
    if lying is not None:
        yield _not_looked_in(snapshot, lying)
        return
    other_part = module_loaded(snapshot) or snapshot.source("nvml").state in (SourceState.ANSWERED, SourceState.FAILED)
    if contained(snapshot) or not libcuda_absent(snapshot) or not other_part:
        return
    yield Symptom(
        "The driver is incomplete: libcuda.so.1 is not found",
        source(snapshot, "libcuda") + source(snapshot, "nvml") + readings(snapshot, "driver.module"),
        (
            _OF_A_MANAGER
            if any(gpu.virtualization.value is Virtualization.HOST_VGPU for gpu in snapshot.gpus)
            else Fix("Install the compute part of the same driver, or reinstall the driver.", compute_part(snapshot)),
            *(() if snapshot.host.container.known else (_IN_A_CONTAINER,)),
        ),
    )


_NOWHERE = "No such file"  # what the loader says of a library that another one needs


@check("DRV114", Cause.DRIVER_INSTALL_BROKEN, requires=(*_ABSENT, "DRV106", "DRV108"))
def libcuda_unloadable(facts: Facts) -> Outcome:
    """There is a libcuda, or an NVML library, but it cannot be loaded.

    What it means: the file is empty, cut short, of another architecture, or needs a library that is not there. Images
    that were committed from a running container hold empty files in the place of the driver's libraries; in those of a
    Jetson a part of the driver is often missing.
    CUDA needs libcuda alone; nvidia-smi and whatever else reads the GPU's state need NVML.
    How it is seen: the loader finds libcuda.so.1 or libnvidia-ml.so.1 and refuses it.
    What to do: remove the file that the loader refuses; in a container the host's is mounted in its place. On a host,
    reinstall the driver, which brings what is missing, too.
    """
    snapshot = facts.snapshot
    libcuda = snapshot.source("libcuda").state is SourceState.FAILED and not snapshot.driver.cuda_init.known
    nvml = snapshot.driver.nvml_init.value == Nvml.LIBRARY_NOT_FOUND and (
        snapshot.source("nvml").state is SourceState.FAILED
    )
    if not libcuda and not nvml:
        return
    remedy = "Remove the file that the message names, or reinstall the driver that it belongs to."
    if _NOWHERE in (snapshot.source("libcuda" if libcuda else "nvml").detail or ""):
        remedy = (
            "Reinstall the driver, which brings what is missing; in a container, the engine is to bring the host's."
        )
    yield Symptom(
        f"{'libcuda.so.1' if libcuda else 'libnvidia-ml.so.1'} is there, but cannot be loaded",
        source(snapshot, "libcuda") + source(snapshot, "nvml"),
        (Fix(remedy),),
        Severity.ERROR if libcuda else Severity.WARNING,
    )


_OF_NIXOS = "/run/opengl-driver/lib"  # the link that stays, whatever the store names the driver
_USUAL = ("/usr/lib64", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
# The whole root of the driver's container, with a C library of its own: no folder for LD_LIBRARY_PATH.
_OF_A_NODE = Fix(
    f"Run it in a pod that asks for nvidia.com/gpu: NVIDIA's GPU Operator keeps the driver of this node in "
    f"{OF_THE_OPERATOR}, and gives pods its libraries. Put no driver's packages on the node beside it."
)
_ON_ITSELF = f"{OF_CONTAINER_OPTIMIZED_OS} {OF_CONTAINER_OPTIMIZED_OS}"
_EXECUTABLE = f"mount --bind {_ON_ITSELF} && mount -o remount,exec {OF_CONTAINER_OPTIMIZED_OS}"
_TO_BE_LOADED = Fix(
    "Container-Optimized OS lets nothing of that folder be loaded until it is mounted so, at each start.",
    ("sudo", "sh", "-c", _EXECUTABLE),
)
_OWN_LOADER = Fix(
    "A Python with a loader of its own (Nix, Guix): in LD_LIBRARY_PATH, a folder with links to the driver's libraries "
    "alone; the whole of the system's folder would bring another C library along."
)


def _not_looked_in(snapshot: Snapshot, library: DriverLibrary) -> Symptom:
    """The libcuda of the loaded module's version is in a folder that the loader does not search."""
    return Symptom(
        f"The loader does not find the driver's libcuda, which is there: {library.path}",
        source(snapshot, "libcuda")
        + (Evidence("driver.libraries", library.path, "the folders that drivers use"),)
        + readings(snapshot, "driver.module_version")
        + searched(snapshot)[:1],
        tuple(_found(snapshot, library)),
    )


def _found(snapshot: Snapshot, library: DriverLibrary) -> Iterator[Fix]:
    place = _OF_NIXOS if library.origin is LibraryOrigin.NIXOS else folder(library)
    if place.startswith(OF_THE_OPERATOR):
        yield _OF_A_NODE
    elif place in _USUAL:
        anew = ("ldconfig",) if contained(snapshot) else ("sudo", "ldconfig")
        yield Fix("Let the loader's cache and the link libcuda.so.1 be made anew.", anew)
        yield _OWN_LOADER
    else:
        if place.startswith(OF_CONTAINER_OPTIMIZED_OS) and not contained(snapshot):
            yield _TO_BE_LOADED
        yield Fix("Let the loader look there for this program.", ("env", f"LD_LIBRARY_PATH={place}", "python"))
        yield from _for_every_program(snapshot, library, place)


def _for_every_program(snapshot: Snapshot, library: DriverLibrary, place: str) -> Iterator[Fix]:
    if contained(snapshot):
        yield Fix(f"For every program in the container: set LD_LIBRARY_PATH={place} where it is started.")
    elif library.origin is not LibraryOrigin.NIXOS:
        told = f"echo {place} > /etc/ld.so.conf.d/nvidia-driver.conf && ldconfig"
        yield Fix("For every program: name the folder to the loader.", ("sudo", "sh", "-c", told))
