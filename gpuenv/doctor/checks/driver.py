"""Is the driver there, whole, and loaded?"""

from __future__ import annotations

from gpuenv.doctor.checks.module import ABSENT, signing_fixes
from gpuenv.doctor.evidence import fact, source
from gpuenv.doctor.machine import (
    baked_libraries,
    contained,
    driver_sees_gpu,
    libcuda_absent,
    libraries_absent,
    module_loaded,
    nvidia_on_bus,
    probed,
    unfound_in_wsl,
)
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.doctor.remedies import compute_part, driver_fixes, module_build, restart
from gpuenv.doctor.updates import not_by_restart
from gpuenv.matrix.needs import versions_differ
from gpuenv.model.causes import Cause
from gpuenv.model.codes import Nvml
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.record import replace
from gpuenv.model.snapshot import Container, Module, Snapshot, SourceState

_IN_A_CONTAINER = Fix("Where this is a container: start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility.")
_ABSENT = (*ABSENT, "DRV115", "DRV116")


@check("DRV104", Cause.NOUVEAU_LOADED, requires=_ABSENT)
def nouveau_loaded(facts: Facts) -> Outcome:
    """The nouveau module holds the GPU.

    What it means: the free driver drives the screen, but it cannot run CUDA, and NVIDIA's module cannot take the GPU
    while nouveau has it.
    How it is seen: the kernel binds an NVIDIA device to nouveau, and the nvidia module is not loaded.
    What to do: install NVIDIA's driver (its package blocks nouveau), then restart.
    """
    snapshot = facts.snapshot
    held = [gpu for gpu in nvidia_on_bus(snapshot) or () if gpu.kernel_driver == "nouveau"]
    if module_loaded(snapshot) or not (held or (snapshot.driver.nouveau.value and nvidia_on_bus(snapshot))):
        return
    yield Symptom(
        "The nouveau module holds the NVIDIA GPU, so NVIDIA's driver cannot use it",
        tuple(Evidence(f"kernel driver of {gpu.pci}", "nouveau", "/sys/bus/pci/devices") for gpu in held)
        + fact("driver.module", snapshot.driver.module),
        (*driver_fixes(facts), restart(snapshot, "so that the new module takes the GPU")),
    )


@check("DRV105", Cause.DRIVER_MODULE_NOT_LOADED, requires=(*_ABSENT, "DRV104", "GPU204"))
def module_not_loaded(facts: Facts) -> Outcome:
    """The driver is installed, but its kernel module is not loaded.

    What it means: the libraries are there, yet the kernel does not drive the GPU: the module was not built for the
    running kernel, was refused (Secure Boot), or was not loaded yet.
    How it is seen: NVML says that the driver is not loaded, or the module lies in the kernel's folder, unloaded. Where
    DKMS's tree or the kernel's log tells why, a finding of its own says so.
    What to do: load it by hand and read what the kernel says; after a kernel update, rebuild it (DKMS) or restart.
    """
    snapshot = facts.snapshot
    if module_loaded(snapshot) or contained(snapshot) or snapshot.host.wsl.value:
        return
    told = snapshot.driver.nvml_init.value == Nvml.DRIVER_NOT_LOADED
    installed = snapshot.driver.module.value is Module.NOT_LOADED
    if driver_sees_gpu(snapshot) or not (told or installed):
        return
    yield Symptom(
        "The NVIDIA driver is installed, but its kernel module is not loaded",
        fact("driver.module", snapshot.driver.module)
        + source(snapshot, "nvml")
        + fact("host.kernel", snapshot.host.kernel)
        + (fact("host.secure_boot", snapshot.host.secure_boot) if snapshot.host.secure_boot.value else ()),
        _loading(snapshot),
    )


def _loading(snapshot: Snapshot) -> tuple[Fix, ...]:
    """What stands behind a module that is not loaded, the likeliest first."""
    load = Fix("Load the module and see what the kernel says if it refuses.", ("sudo", "modprobe", "nvidia"))
    build = Fix("After a kernel update, build the module for this kernel.", module_build(snapshot))
    if snapshot.driver.module.value is Module.NOT_INSTALLED:
        kernel = snapshot.host.kernel.value or "this kernel"
        here = Fix(f"Build the driver's module for the running kernel, {kernel}: it has none.", build.command)
        other = Fix("Or install the package that brings it for this kernel, or start the kernel that has one.")
        return (here, other, replace(load, text="Then load it."))
    signed = signing_fixes(snapshot) if snapshot.host.secure_boot.value else ()
    return (load, *signed, build)


@check("DRV106", Cause.NO_DRIVER, requires=(*_ABSENT, "DRV104", "DRV105"))
def no_driver(facts: Facts) -> Outcome:
    """No NVIDIA driver is installed.

    What it means: there is neither the kernel module nor libcuda. A CUDA toolkit, conda packages or CUDA wheels do not
    contain the driver.
    How it is seen: the loader finds neither libcuda.so.1 nor libnvidia-ml.so.1, and no nvidia module is loaded.
    What to do: install the driver with the system's package manager, then restart. Under WSL install the driver in
    Windows, and none in Linux.
    """
    snapshot = facts.snapshot
    assumed = "driver.version" in snapshot.assumed and not snapshot.driver.version.known
    if not assumed and (module_loaded(snapshot) or not libraries_absent(snapshot) or not probed(snapshot)):
        return
    if not assumed and unfound_in_wsl(snapshot):
        return
    on_bus = nvidia_on_bus(snapshot)
    seen = ", ".join(f"{gpu.name or gpu.device} at {gpu.pci}" for gpu in on_bus or ())
    yield Symptom(
        "No NVIDIA driver is installed" + (", though there is an NVIDIA GPU" if on_bus else ""),
        (Evidence("NVIDIA GPUs on the PCI bus", seen or "unknown", "/sys/bus/pci/devices"),)
        + source(snapshot, "libcuda")
        + source(snapshot, "nvml")
        + fact("driver.module", snapshot.driver.module),
        driver_fixes(facts),
    )


@check(
    "DRV107",
    Cause.DRIVER_LIBRARY_VERSION_MISMATCH,
    Cause.DRIVER_INSTALL_BROKEN,
    requires=(*_ABSENT, "DRV105", "DRV106"),
)
def library_mismatch(facts: Facts) -> Outcome:
    """Kernel module and user-space library are of different versions.

    What it means: the driver was updated on disk while the old module is still loaded, so the two refuse to talk.
    Nothing needs to be reinstalled. In a container the library in use may be a part of the image instead of the host's.
    How it is seen: NVML answers with a version mismatch, or CUDA with error 803. A library that is a file of the image
    stands in no mount.
    What to do: restart the machine; where that brings the same back, let the package manager finish the update, or take
    the other libraries away. In a container: make it anew, or take the libraries out of the image, so that the host's
    are used; in one that is set up like a machine (LXC), install those of exactly the host's version.
    """
    snapshot = facts.snapshot
    if not versions_differ(snapshot, facts.matrix):
        return
    baked = baked_libraries(snapshot)
    out = Fix("Take libcuda and libnvidia-ml out of the image: the host's are mounted when the container starts.")
    if snapshot.host.container.value in (Container.LXC, Container.NSPAWN):
        version = snapshot.driver.module_version.value or "the host's version"
        out = Fix(f"Install the driver's libraries of exactly {version} in the container, without a kernel module.")
    again = restart(snapshot, "so that the new kernel module is loaded; nothing needs to be installed")
    fixes = (*_anew(snapshot), out, again) if contained(snapshot) else (*not_by_restart(snapshot), again)
    in_image = "The image has libraries of a driver in it that are of another version than the host's kernel module"
    yield Symptom(
        in_image if baked else "The loaded kernel module and the driver's libraries are of different versions",
        fact("driver.module_version", snapshot.driver.module_version)
        + fact("driver.library_version", snapshot.driver.library_version)
        + tuple(Evidence("driver.libraries", entry.path, "a file of the image, not mounted") for entry in baked)
        + source(snapshot, "nvml")
        + source(snapshot, "libcuda"),
        (out,) if baked else fixes,
        cause=Cause.DRIVER_INSTALL_BROKEN if baked else None,
    )


def _anew(snapshot: Snapshot) -> tuple[Fix, ...]:
    """A container keeps the libraries that were mounted when it was made, and the host's driver goes on."""
    if snapshot.host.container.value in (Container.LXC, Container.NSPAWN):
        return ()
    return (Fix("Make the container anew: the libraries that the host has now are mounted into it then."),)


@check("DRV108", Cause.DRIVER_INSTALL_BROKEN, requires=(*_ABSENT, "CTR302", "DRV106"))
def driver_incomplete(facts: Facts) -> Outcome:
    """A part of the driver is missing: there is no libcuda.

    What it means: the kernel module is loaded or NVML answers, but CUDA's own driver library is not found, so no CUDA
    program can start. Server packages without compute parts, or a removed package, leave it so.
    How it is seen: the loader does not find libcuda.so.1 while another part of the driver is there.
    What to do: install the driver's compute package of the same version, or reinstall the driver.
    """
    snapshot = facts.snapshot
    other_part = module_loaded(snapshot) or snapshot.source("nvml").state in (SourceState.ANSWERED, SourceState.FAILED)
    if contained(snapshot) or not libcuda_absent(snapshot) or not other_part:
        return
    yield Symptom(
        "The driver is incomplete: libcuda.so.1 is not found",
        source(snapshot, "libcuda") + source(snapshot, "nvml") + fact("driver.module", snapshot.driver.module),
        (
            Fix("Install the compute part of the same driver, or reinstall the driver.", compute_part(snapshot)),
            *(() if snapshot.host.container.known else (_IN_A_CONTAINER,)),
        ),
    )


@check("DRV114", Cause.DRIVER_INSTALL_BROKEN, requires=(*_ABSENT, "DRV106", "DRV108"))
def libcuda_unloadable(facts: Facts) -> Outcome:
    """There is a libcuda, or an NVML library, but it cannot be loaded.

    What it means: the file is empty, cut short, or of another architecture. Images that were committed from a running
    container hold empty files in the place of the driver's libraries.
    CUDA needs libcuda alone; nvidia-smi and whatever else reads the GPU's state need NVML.
    How it is seen: the loader finds libcuda.so.1 or libnvidia-ml.so.1 and refuses it.
    What to do: remove the file that the loader names; in a container the host's is mounted in its place. On a host,
    reinstall the driver.
    """
    snapshot = facts.snapshot
    libcuda = snapshot.source("libcuda").state is SourceState.FAILED and not snapshot.driver.cuda_init.known
    nvml = snapshot.driver.nvml_init.value == Nvml.LIBRARY_NOT_FOUND and (
        snapshot.source("nvml").state is SourceState.FAILED
    )
    if not libcuda and not nvml:
        return
    yield Symptom(
        f"{'libcuda.so.1' if libcuda else 'libnvidia-ml.so.1'} is there, but cannot be loaded",
        source(snapshot, "libcuda") + source(snapshot, "nvml"),
        (Fix("Remove the file that the message names, or reinstall the driver that it belongs to."),),
        Severity.ERROR if libcuda else Severity.WARNING,
    )
