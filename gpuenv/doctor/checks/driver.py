"""The driver: is it there, whole and of one version, is its kernel module loaded, does it start the GPUs?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuenv.doctor.driver_libraries import counterparts, folder, is_foreign, is_newer, name, strays, unfound, used
from gpuenv.doctor.evidence import evidence_of, hardware_lines, holders, lines_with, logged
from gpuenv.doctor.fixes.containers import libraries_of_the_host
from gpuenv.doctor.fixes.distributions import (
    COMPUTE_PART,
    driver_fixes,
    family,
    install_command,
    module_build,
    restart,
    the_compiler,
)
from gpuenv.doctor.fixes.gpus import CONNECT_POWER, GIVE_ROOM, WAKE_UP
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
    baked_libraries,
    held_by_nova,
    held_by_others,
    holders_of,
    is_passed_on,
    left_out,
    libcuda_absent,
    libraries_absent,
    like_a_machine,
    passed_on,
    probed,
    unfound_in_wsl,
)
from gpuenv.doctor.registry import NONE_EXPECTED, CheckContext, Outcome, Symptom, check
from gpuenv.matrix.needs import versions_differ
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import driver_sees_gpu, is_contained, module_loaded, nvidia_on_bus
from gpuenv.model.nvidia import Cuda, Nvml
from gpuenv.model.snapshot import (
    DkmsBuild,
    DriverLibrary,
    LibraryOrigin,
    Module,
    PciGpu,
    Snapshot,
    SourceState,
    Virtualization,
)
from gpuenv.model.strings import pattern

ABSENT = ("DRV100", "DRV101", "GPU201", "GPU202", "CTR301", "CTR305", "CTR306")
# As the kernel words it: Linux, kernel/module/signing.c (module_sig_check) and security/lockdown/lockdown.c.
# And as modprobe repeats the number of the error: EKEYREJECTED, or ENOKEY of a module without a signature.
_REFUSALS = ("is rejected", "unsigned module loading is restricted", "Key was rejected", "Required key not available")
# Linux, kernel/module/main.c (check_modinfo, simplify_symbols) and kernel/module/version.c (check_version).
_OTHER_KERNEL = pattern(r"\bnvidia\w*: (?:version magic|disagrees about version of symbol|Unknown symbol)")
_OF_ANOTHER = pattern(r"(?!nvidia)\w+: loading of")  # some releases name the module


@check("DRV115", Cause.DRIVER_KERNEL_INCOMPATIBLE, requires=(*ABSENT, "GPU204"))
def module_not_built(ctx: CheckContext) -> Outcome:
    """There is no module of the driver for the running kernel.

    What it means: the driver is installed, but this kernel has no module of it. Where DKMS builds it, the build failed,
    usually since the kernel is newer than the driver knows or its headers are missing, or nobody has started it; where
    packages bring it, the one for this kernel is not installed. The module of another kernel cannot be loaded.
    How it is seen: DKMS's tree, or the folder of another kernel, has the driver's module, and the folder of the running
    kernel has none.
    What to do: build it again where DKMS builds it, or install the module from where that of the other kernel comes;
    where the build fails, read its log and install a newer driver, or start the kernel that the module was built for.
    """
    snapshot = ctx.snapshot
    driver, kernel, builds = snapshot.driver, snapshot.host.kernel.value, snapshot.driver.dkms
    others = driver.module_kernels.value if not libraries_absent(snapshot) else ()  # else it was removed, but for this
    if kernel is None or not (builds or others) or _is_usable(snapshot) or passed_on(snapshot):
        return
    if driver.module.value is not Module.NOT_INSTALLED or ("built", kernel) in {(b.state, b.kernel) for b in builds}:
        return
    failed = [build for build in builds if build.state == "failed" and build.kernel == kernel]
    title = (
        f"DKMS {'could not build' if failed else 'has not built'} the NVIDIA driver's module for this kernel, {kernel}"
    )
    yield Symptom(
        title if builds else f"The NVIDIA driver's module is not installed for this kernel, {kernel}",
        evidence_of(snapshot, "host.kernel")
        + tuple(Evidence("driver.dkms", _told(build), "/var/lib/dkms") for build in builds)
        + (evidence_of(snapshot, "driver.module_kernels") if others else ())
        + evidence_of(snapshot, "driver.module"),
        (
            *(the_compiler(snapshot, build.compiler) for build in failed if build.compiler),
            *(Fix(f"Read why it failed: /var/lib/dkms/{b.module}/{b.release}/build/make.log") for b in failed),
            *into_this_kernel(snapshot, kernel),
            Fix("Where the driver is too old for this kernel, install a newer one, or start an older kernel."),
        ),
    )


def _told(build: DkmsBuild) -> str:
    wanted = f", without {build.compiler}, which built the kernel" if build.compiler else ""
    return f"{build.module} {build.release} {build.state}" + (f" for {build.kernel}" if build.kernel else "") + wanted


@check("DRV116", Cause.DRIVER_KERNEL_INCOMPATIBLE, requires=(*ABSENT, "GPU204", "DRV115"))
def module_refused(ctx: CheckContext) -> Outcome:
    """The kernel refuses the driver's module: no key that it trusts has signed it, or it is of another kernel.

    What it means: with Secure Boot the kernel loads signed modules alone. A module that was built on this machine is
    signed with a key of this machine, which the firmware has to be told once, or it is not signed at all. And a module
    that was built for another kernel, or by another build of it, does not fit this one.
    How it is seen: the module is installed for this kernel and not loaded, and the kernel's log has a refusal.
    What to do: enrol the key that signs the modules (mokutil asks for a password, and the next start for it again), or
    install modules that the distribution has signed, or turn Secure Boot off in the firmware. A module of another
    kernel is built anew.
    """
    snapshot = ctx.snapshot
    if _is_usable(snapshot) or snapshot.driver.module.value is not Module.NOT_LOADED:
        return
    texts = [m.text for m in snapshot.kernel_log.value or () if any(words in m.text for words in _REFUSALS)]
    unsigned = [line for line in texts if not _OF_ANOTHER.match(line)]
    if unsigned:
        yield Symptom(
            "The kernel refuses the NVIDIA driver's module: it bears no signature that is trusted here",
            logged(snapshot, unsigned[-3:]) + evidence_of(snapshot, "host.secure_boot", "driver.module"),
            signing_fixes(snapshot),
        )
    lines, kernel = lines_with(snapshot, _OTHER_KERNEL), snapshot.host.kernel.value
    if lines:
        yield Symptom(
            "The kernel refuses the NVIDIA driver's module: it was built for another kernel",
            lines + evidence_of(snapshot, "host.kernel", "driver.module"),
            (
                *(into_this_kernel(snapshot, kernel) if kernel else ()),
                Fix("Then load it.", ("sudo", "modprobe", "nvidia")),
            ),
        )


def signing_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How to get a module loaded under Secure Boot."""
    keys = {
        "ubuntu": "/var/lib/shim-signed/mok/MOK.der",
        "debian": "/var/lib/dkms/mok.pub",
        "fedora": "/etc/pki/akmods/certs/public_key.der",  # akmods, README.secureboot
    }
    key = keys.get(family(snapshot) or "")
    enrol = ("sudo", "mokutil", "--import", key) if key else None
    if family(snapshot) == "suse":  # openSUSE's wiki, SDB:NVIDIA drivers: a key of each package, named by its release
        enrol = ("sudo", "sh", "-c", "mokutil --import /usr/share/nvidia-pubkeys/*.der --root-pw")
    return (
        Fix("Enrol the key that signs this machine's modules, then restart and confirm it.", enrol),
        Fix("Or install modules that the distribution has signed, or turn Secure Boot off in the firmware."),
    )


def _is_usable(snapshot: Snapshot) -> bool:
    """Whether the module is loaded, or is not for this system to load."""
    elsewhere = is_contained(snapshot) or bool(snapshot.host.wsl.value)
    return module_loaded(snapshot) or elsewhere or driver_sees_gpu(snapshot)


_BEFORE = (*ABSENT, "GPU204")
_OF_A_GPU = (Cuda.NO_DEVICE, Cuda.INVALID_DEVICE, Cuda.UNKNOWN)  # of cuInit, where one of the GPUs does not start
# open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c, RmInitAdapter: NV_ERR_INSUFFICIENT_POWER.
_NO_POWER = pattern(r"NVRM: .*does not have the necessary power cables connected")
# open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c, of a GPU whose registers read as ones alone;
# Linux, drivers/pci/pci.c, pci_power_up. One that falls off the bus while it is in use has an Xid of its own.
_NO_ANSWER = pattern(
    r"NVRM: .*fallen off the bus and is not responding"
    r"|\bnvidia [0-9a-f:.]+: Unable to change power state from D3cold to D0, device inaccessible"
)
# open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c, nv_pci_probe.
_NO_ROOM = pattern(r"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid|NVRM: BAR\d is 0M @ 0x0")


@check("DRV120", Cause.GPU_HARDWARE_FAULT, requires=_BEFORE)
def without_power(ctx: CheckContext) -> Outcome:
    """A GPU has no power: a cable is not connected.

    What it means: the board is on the PCI bus, which feeds it a little, but its own power connector gets none or too
    little, so the driver does not start it.
    How it is seen: the driver does not list the GPU, and says in the kernel's log that the power cables are missing.
    What to do: switch the machine off and connect every power cable of the board, of the kind that it needs.
    """
    yield from _unstarted(
        ctx.snapshot,
        _NO_POWER,
        "A GPU is not started, since its power cables are not connected",
        CONNECT_POWER,
    )


@check("DRV121", Cause.GPU_HARDWARE_FAULT, requires=_BEFORE)
def no_room_on_the_bus(ctx: CheckContext) -> Outcome:
    """The machine has given a GPU no room for its memory on the PCI bus.

    What it means: a GPU shows its memory through windows (BARs) whose addresses the firmware, or the hypervisor, hands
    out. Where the room below 4 GiB is too small and none above it is used, the GPU gets none, and the module cannot
    drive it. It bears the cause of the hardware, since the machine has to be set up otherwise, and no other driver and
    no other kernel would find the GPU: it is on the bus and cannot be reached there.
    How it is seen: the driver does not list the GPU, and says in the kernel's log that a region is invalid.
    What to do: turn on "Above 4G Decoding" in the firmware, or let the kernel hand the addresses out anew; for a
    virtual machine give it a larger 64-bit window.
    """
    yield from _unstarted(
        ctx.snapshot,
        _NO_ROOM,
        "A GPU cannot be driven: the machine's firmware has given its memory no room on the PCI bus",
        GIVE_ROOM,
    )


@check("DRV122", Cause.GPU_HARDWARE_FAULT, requires=(*_BEFORE, "DRV120", "DRV121"))
def does_not_answer(ctx: CheckContext) -> Outcome:
    """A GPU is on the PCI bus and answers no more.

    What it means: the kernel counted the GPU when it started, and the driver gets nothing but ones from it: it fell off
    the bus, lost its power, or did not wake from the deepest sleep (D3cold), into which laptops send it. Where it is
    the only GPU, the module does not even stay loaded, and loading it again brings the same.
    How it is seen: the driver does not list the GPU, and it or the kernel's PCI code says so in the kernel's log.
    What to do: switch the machine off wholly and on again, which a restart may not do; where it comes back, keep the
    GPU out of the deepest sleep, and check seating, power and cooling.
    """
    if hardware_lines(ctx.snapshot):
        return  # the event has a finding of its own
    yield from _unstarted(ctx.snapshot, _NO_ANSWER, "A GPU on the PCI bus does not answer", WAKE_UP)


def _unstarted(snapshot: Snapshot, words: re.Pattern[str], title: str, fixes: tuple[Fix, ...]) -> Outcome:
    """In a container the log is the host's, and a GPU that is not started is none of those that it was given."""
    lines, missing = lines_with(snapshot, words), left_out(snapshot)
    if not lines or not missing or is_contained(snapshot):
        return
    devices = tuple(
        Evidence(f"PCI device {d.pci}", "not listed by the driver", "/sys/bus/pci/devices") for d in missing
    )
    yield Symptom(
        title,
        lines + devices + evidence_of(snapshot, "driver.version", "nvml"),
        fixes,
        Severity.WARNING if driver_sees_gpu(snapshot) and not _keeps_cuda_from_all(snapshot) else Severity.ERROR,
    )


def _keeps_cuda_from_all(snapshot: Snapshot) -> bool:
    """Whether CUDA starts for no GPU, the others included, and nothing else that was read explains that.

    After a sleep it is the module of CUDA's memory that has lost its state, and a GPU in MIG mode may have no instance.
    """
    if snapshot.driver.cuda_init.value not in _OF_A_GPU or any(gpu.mig.value for gpu in snapshot.gpus):
        return False
    return not (snapshot.driver.cuda_init.value == Cuda.UNKNOWN and snapshot.host.suspends.value)


_IN_A_CONTAINER = Fix("Where this is a container: start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility.")
_ABSENT = (*ABSENT, "DRV115", "DRV116", "DRV120", "DRV121", "DRV122")
_OF_A_MANAGER = Fix(  # NVIDIA, Virtual GPU Software User Guide: the Virtual GPU Manager of a hypervisor
    "This is the host of virtual GPUs: the vGPU manager, which is its driver, brings no CUDA. Compute in a virtual "
    "machine that has a vGPU, with the guest driver, or put the ordinary driver in the manager's place."
)
_LOAD = ("sudo", "modprobe", "nvidia")
_NOT_LOADED = "The NVIDIA driver is installed, but its kernel module is not loaded"


@check("DRV104", Cause.NOUVEAU_LOADED, requires=_ABSENT)
def nouveau_loaded(ctx: CheckContext) -> Outcome:
    """The nouveau module holds the GPU.

    What it means: the free driver drives the screen, but it cannot run CUDA, and NVIDIA's module cannot take the GPU
    while nouveau has it.
    How it is seen: the kernel binds an NVIDIA device to nouveau, or to nova, which follows it for newer GPUs, and the
    nvidia module is not loaded.
    What to do: install NVIDIA's driver (its package blocks nouveau), then restart. Where its module is there already,
    and a line in modprobe.d or a kernel parameter keeps it out, take that out; where nothing does, keep nouveau out of
    the initial RAM disk too.
    """
    snapshot = ctx.snapshot
    held = [gpu for gpu in nvidia_on_bus(snapshot) or () if gpu.kernel_driver == "nouveau"]
    by_nova = held_by_nova(snapshot)
    free = [gpu for gpu in nvidia_on_bus(snapshot) or () if not is_passed_on(gpu)]
    if module_loaded(snapshot) or not (held or by_nova or (snapshot.driver.nouveau.value and free)):
        return
    yield Symptom(
        f"The {free_driver(snapshot)} module holds the NVIDIA GPU, so NVIDIA's driver cannot use it",
        holders((*held, *by_nova))
        + evidence_of(snapshot, "driver.module")
        + (evidence_of(snapshot, "driver.module_blocks") if blocks(snapshot) else ()),
        in_its_place(ctx),
    )


@check("DRV105", Cause.DRIVER_MODULE_NOT_LOADED, requires=(*_ABSENT, "DRV104", "GPU204"))
def module_not_loaded(ctx: CheckContext) -> Outcome:
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
    snapshot = ctx.snapshot
    if module_loaded(snapshot) or is_contained(snapshot) or snapshot.host.wsl.value:
        return
    told = snapshot.driver.nvml_init.value == Nvml.DRIVER_NOT_LOADED
    installed = snapshot.driver.module.value is Module.NOT_LOADED
    if driver_sees_gpu(snapshot) or not (told or installed):
        return
    away, others = passed_on(snapshot), held_by_others(snapshot)
    title = f"{_NOT_LOADED}{f', and {holders_of(others)} has the GPU' if others else ''}"
    yield Symptom(
        f"{_kept(away)}, so the NVIDIA driver's module is not loaded" if away else title,
        holders((*away, *others))
        + evidence_of(snapshot, "driver.module", "nvml", "host.kernel")
        + (evidence_of(snapshot, "host.secure_boot") if snapshot.host.secure_boot.value else ())
        + (evidence_of(snapshot, "driver.module_blocks") if snapshot.driver.module_blocks.value else ())
        + (evidence_of(snapshot, "driver.module_kernels") if _is_replaced(snapshot) else ()),
        _in_virtual_machines(away) if away else tuple(_loading(snapshot, others)),
    )


def _kept(away: Sequence[PciGpu]) -> str:
    return f"{holders_of(away)} keeps every NVIDIA GPU for virtual machines"


def _in_virtual_machines(away: Sequence[PciGpu]) -> tuple[Fix, ...]:
    there = f"Use the GPU in the virtual machine that it is passed on to by {holders_of(away)}, and gpuenv there."
    return (Fix(there), NONE_EXPECTED)


def _loading(snapshot: Snapshot, others: Sequence[PciGpu]) -> Iterator[Fix]:
    """How the module comes to be loaded, by what keeps it from it, the likeliest first.

    NVIDIA's module takes no device that another kernel driver has (``others``), and then it does not stay loaded.
    """
    kernel, name = snapshot.host.kernel.value, holders_of(others)
    if others:
        yield Fix(f"Keep {name} off the GPU, as by the line blacklist {name} in a file below /etc/modprobe.d; restart.")
        yield Fix("Then load NVIDIA's module, where it is not loaded by itself.", _LOAD)
    elif _is_replaced(snapshot):
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
def no_driver(ctx: CheckContext) -> Outcome:
    """No NVIDIA driver is installed.

    What it means: there is neither the kernel module nor libcuda. A CUDA toolkit, conda packages or CUDA wheels do not
    contain the driver.
    How it is seen: the loader finds neither libcuda.so.1 nor libnvidia-ml.so.1, and no nvidia module is loaded.
    What to do: install the driver with the system's package manager, then restart. Under WSL install the driver in
    Windows, and none in Linux. On a host that passes its GPUs on to virtual machines none is needed.
    """
    snapshot = ctx.snapshot
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
        holders(away)
        + (Evidence("NVIDIA GPUs on the PCI bus", seen or "unknown", "/sys/bus/pci/devices"),)
        + evidence_of(snapshot, "libcuda", "nvml", "driver.module"),
        _in_virtual_machines(away) if away else driver_fixes(ctx),
    )


@check("DRV108", Cause.DRIVER_INSTALL_BROKEN, requires=(*_ABSENT, "CTR302", "DRV106"))
def driver_incomplete(ctx: CheckContext) -> Outcome:
    """A part of the driver is missing: there is no libcuda.

    What it means: the kernel module is loaded or NVML answers, but CUDA's own driver library is not found, so no CUDA
    program can start. Server packages without compute parts, or a removed package, leave it so.
    Or it is there, in a folder that the loader was not told of: that of a cloud's image, NixOS' own, or the one in
    which NVIDIA's GPU Operator keeps the driver of a node.
    How it is seen: the loader does not find libcuda.so.1 while another part of the driver is there.
    What to do: install the driver's compute package of the same version, or reinstall the driver; where the library of
    the loaded module is there, let the loader look in its folder.
    """
    snapshot = ctx.snapshot
    lying = unfound(snapshot)
    if lying is not None:
        yield Symptom(
            f"The loader does not find the driver's libcuda, which is there: {lying.path}",
            evidence_of(snapshot, "libcuda")
            + (Evidence("driver.libraries", lying.path, "the folders that drivers use"),)
            + evidence_of(snapshot, "driver.module_version", "environment.LD_LIBRARY_PATH"),
            tuple(_found(snapshot, lying)),
        )
        return
    other_part = module_loaded(snapshot) or snapshot.source("nvml").state in (SourceState.ANSWERED, SourceState.FAILED)
    if is_contained(snapshot) or not libcuda_absent(snapshot) or not other_part:
        return
    yield Symptom(
        "The driver is incomplete: libcuda.so.1 is not found",
        evidence_of(snapshot, "libcuda", "nvml", "driver.module"),
        (
            _OF_A_MANAGER
            if any(gpu.virtualization.value is Virtualization.HOST_VGPU for gpu in snapshot.gpus)
            else Fix(
                "Install the compute part of the same driver, or reinstall the driver.",
                install_command(snapshot, COMPUTE_PART),
            ),
            *(() if snapshot.host.container.known else (_IN_A_CONTAINER,)),
        ),
    )


_NOWHERE = "No such file"  # what the loader says of a library that another one needs


@check("DRV114", Cause.DRIVER_INSTALL_BROKEN, requires=(*_ABSENT, "DRV106", "DRV108"))
def libcuda_unloadable(ctx: CheckContext) -> Outcome:
    """There is a libcuda, or an NVML library, but it cannot be loaded.

    What it means: the file is empty, cut short, of another architecture, or needs a library that is not there. Images
    that were committed from a running container hold empty files in the place of the driver's libraries; in those of a
    Jetson a part of the driver is often missing.
    CUDA needs libcuda alone; nvidia-smi and whatever else reads the GPU's state need NVML.
    How it is seen: the loader finds libcuda.so.1 or libnvidia-ml.so.1 and refuses it.
    What to do: remove the file that the loader refuses; in a container the host's is mounted in its place. On a host,
    reinstall the driver, which brings what is missing, too.
    """
    snapshot = ctx.snapshot
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
        evidence_of(snapshot, "libcuda", "nvml"),
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


def _found(snapshot: Snapshot, library: DriverLibrary) -> Iterator[Fix]:
    place = _OF_NIXOS if library.origin is LibraryOrigin.NIXOS else folder(library)
    if place.startswith(OF_THE_OPERATOR):
        yield _OF_A_NODE
    elif place in _USUAL:
        anew = ("ldconfig",) if is_contained(snapshot) else ("sudo", "ldconfig")
        yield Fix("Let the loader's cache and the link libcuda.so.1 be made anew.", anew)
        yield _OWN_LOADER
    else:
        if place.startswith(OF_CONTAINER_OPTIMIZED_OS) and not is_contained(snapshot):
            yield _TO_BE_LOADED
        yield Fix("Let the loader look there for this program.", ("env", f"LD_LIBRARY_PATH={place}", "python"))
        if is_contained(snapshot):
            yield Fix(f"For every program in the container: set LD_LIBRARY_PATH={place} where it is started.")
        elif library.origin is not LibraryOrigin.NIXOS:
            told = f"echo {place} > /etc/ld.so.conf.d/nvidia-driver.conf && ldconfig"
            yield Fix("For every program: name the folder to the loader.", ("sudo", "sh", "-c", told))


_OUT_OF_THE_IMAGE = Fix(
    "Take libcuda and libnvidia-ml out of the image: the host's are mounted when the container starts."
)
# A container keeps what was mounted when it was started; a description by CDI names files of one version.
_ANEW = (
    Fix("Start the container again: it has the libraries of the driver that the host had before."),
    Fix(
        "Where it is started by CDI, describe the host's driver anew first, there.",
        ("sudo", "nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.yaml"),
    ),
    Fix("Or make the container anew: the libraries that the host has now are mounted into it then."),
)
# Flatpak documentation, Extensions: org.freedesktop.Platform.GL.nvidia-VERSION is chosen by the host's driver.
_OF_FLATPAK = (
    Fix("Let Flatpak fetch the extension of the host's driver, there.", ("flatpak", "update")),
    Fix("Then start the application again."),
)


@check(
    "DRV107",
    Cause.DRIVER_LIBRARY_VERSION_MISMATCH,
    Cause.DRIVER_INSTALL_BROKEN,
    requires=(*ABSENT, "DRV115", "DRV116", "DRV105", "DRV106"),
)
def library_mismatch(ctx: CheckContext) -> Outcome:
    """Kernel module and user-space library are of different versions.

    What it means: the driver was updated on disk while the old module is still loaded, so the two refuse to talk.
    Nothing needs to be reinstalled. Where libcuda alone is of another version, a package was held back, or a second
    libcuda is found first. In a container the library in use may be a part of the image instead of the host's, or one
    that the host had when the container was started.
    How it is seen: NVML answers with a version mismatch, or CUDA with error 803. A library that is a file of the image
    stands in no mount.
    What to do: restart the machine; where that brings the same back, let the package manager finish the update; where
    a library is at fault, install or remove that one. In a container: take the libraries out of the image, so that the
    host's are used, or start it again; in one that is set up like a machine (LXC), install those of exactly the host's
    version.
    """
    snapshot = ctx.snapshot
    if not versions_differ(snapshot, ctx.matrix):
        return
    yield _in_a_container(snapshot) if is_contained(snapshot) else _on_a_host(snapshot)


def _on_a_host(snapshot: Snapshot) -> Symptom:
    found = strays(snapshot)
    libcuda = [entry for entry in found if name(entry) == "libcuda"]
    if libcuda and snapshot.driver.nvml_init.value == 0:  # then NVML is of the module's version: no restart helps
        return _of_libcuda_alone(snapshot, libcuda)
    right = counterparts(snapshot, found)
    if right and not any(is_newer(snapshot, entry) and not is_foreign(snapshot, entry) for entry in found):
        return _beside_the_right(snapshot, found, right)
    # Newer ones wait for the restart that follows an update, whatever else lies about.
    return Symptom(
        "The loaded kernel module and the driver's libraries are of different versions",
        _evidence(snapshot),
        (*_to_finish(snapshot), _restarted(snapshot)),
    )


def _of_libcuda_alone(snapshot: Snapshot, libcuda: list[DriverLibrary]) -> Symptom:
    """The rest of the driver is whole: libcuda is another driver's, or its package was held back."""
    module, stray = snapshot.driver.module_version.value, libcuda[0]
    to_finish_first = is_newer(snapshot, stray) and not is_foreign(snapshot, stray)  # an update of some packages
    if not to_finish_first and (right := counterparts(snapshot, libcuda)):
        return _beside_the_right(snapshot, libcuda, right)
    # A package brings the release of its repository: Arch Linux has but the newest, Ubuntu the newest of a branch.
    command = None if family(snapshot) == "arch" else install_command(snapshot, COMPUTE_PART)
    later = "Where its package is of another release by now, update the whole driver and restart."
    install = Fix(f"Install the libcuda of the same driver, of exactly {module}. {later}", command)
    if is_foreign(snapshot, stray):
        words = f"Take {stray.path} off the loader's path (LD_LIBRARY_PATH, /etc/ld.so.conf.d)."
        missing = Fix(f"Where no libcuda is found then, install that of the same driver, of exactly {module}.")
        title = f"The loader finds a libcuda of another driver than {module}, which is loaded: {stray.path}"
        evidence = _evidence(snapshot) + evidence_of(snapshot, "environment.LD_LIBRARY_PATH")
        return Symptom(title, evidence, (Fix(words), missing), cause=Cause.DRIVER_INSTALL_BROKEN)
    title = f"libcuda is of {stray.release}, and the rest of the driver of {module}"
    return Symptom(title, _evidence(snapshot), (install,), cause=Cause.DRIVER_INSTALL_BROKEN)


def _beside_the_right(snapshot: Snapshot, found: list[DriverLibrary], right: list[DriverLibrary]) -> Symptom:
    """The loader takes those of another driver, and each of the right ones is there too."""
    module, release = snapshot.driver.module_version.value, found[0].release
    named, meant = (" and ".join(dict.fromkeys(entry.path for entry in entries)) for entries in (found, right))
    evidence = _evidence(snapshot) + tuple(Evidence("driver.libraries", e.path, f"of {module}") for e in right)
    if list(map(folder, found)) == list(map(folder, right)):
        words = f"Remove {named}, and let the links lead to {meant}."
        title = f"The loader finds the libraries of {release}, and beside them are those of {module}, which is loaded"
        return Symptom(title, evidence, (Fix(words, ("sudo", "ldconfig")),))
    words = f"Take {named} off the loader's path, or remove it: the one of {module} is {meant}."
    title = f"The loader finds a library of another driver than {module}, which is loaded, first"
    return Symptom(
        title,
        evidence + evidence_of(snapshot, "environment.LD_LIBRARY_PATH"),
        (Fix(words),),
        cause=Cause.DRIVER_INSTALL_BROKEN,
    )


def _in_a_container(snapshot: Snapshot) -> Symptom:
    baked = baked_libraries(snapshot)
    own = tuple(Evidence("driver.libraries", entry.path, "a file of the image, not mounted") for entry in baked)
    if like_a_machine(snapshot):
        # Its libraries are packages of its own; where they may be the host's, newer ones wait for the host's restart.
        fixes = (libraries_of_the_host(snapshot), *(() if baked or _is_older(snapshot) else (_restarted(snapshot),)))
        title = "The driver's libraries in this container are of another version than the host's kernel module"
        return Symptom(title, _evidence(snapshot) + own, fixes)
    if baked:
        return Symptom(
            "The image has libraries of a driver in it that are of another version than the host's kernel module",
            _evidence(snapshot) + own,
            (_OUT_OF_THE_IMAGE,),
            cause=Cause.DRIVER_INSTALL_BROKEN,
        )
    if snapshot.driver.cuda_origin.value is LibraryOrigin.FLATPAK:
        return Symptom(
            "Flatpak's extension is of another version of the driver than the host's kernel module",
            _evidence(snapshot),
            _OF_FLATPAK if _is_older(snapshot) else (_restarted(snapshot), *_OF_FLATPAK),
        )
    mounts_seen = any(entry.mounted is not None for entry in snapshot.driver.libraries)
    return Symptom(
        "The loaded kernel module and the driver's libraries are of different versions",
        _evidence(snapshot),
        (*(_ANEW if _is_older(snapshot) else (_restarted(snapshot),)), *(() if mounts_seen else (_OUT_OF_THE_IMAGE,))),
    )


def _is_older(snapshot: Snapshot) -> bool:
    """Whether the libraries are older than the module: they are of the driver that the host had before."""
    module, library = snapshot.driver.module_version.value, snapshot.driver.library_version.value
    return module is not None and library is not None and library < module


def _restarted(snapshot: Snapshot) -> Fix:
    return restart(snapshot, "so that the new kernel module is loaded; nothing needs to be installed")


def _evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    return (
        evidence_of(snapshot, "driver.module_version", "driver.library_version")
        + tuple(Evidence("driver.libraries", entry.path, "the loader takes it") for entry in used(snapshot))
        + evidence_of(snapshot, "nvml", "libcuda")
    )


_FINISH = {
    **dict.fromkeys(("ubuntu", "debian"), ("sudo", "apt-get", "install", "--fix-broken")),
    **dict.fromkeys(("rhel", "fedora"), ("sudo", "dnf", "distro-sync")),
    "arch": ("sudo", "pacman", "-Syu"),
    "suse": ("sudo", "zypper", "verify"),
}


def _to_finish(snapshot: Snapshot) -> tuple[Fix, ...]:
    """What comes before the restart where the disk has the old driver's module for this kernel, and no newer one."""
    driver, kernel = snapshot.driver, snapshot.host.kernel.value
    module, library = driver.module_version.value, driver.library_version.value
    built = {build.release for build in driver.dkms if build.state == "built" and build.kernel in (None, kernel)}
    if module is None or library is None or str(module) not in built or str(library) in built:
        return ()
    return (
        Fix(
            f"A restart alone loads {module} again, for no module of {library} is built: let the update be finished.",
            _FINISH.get(family(snapshot) or "", module_build(snapshot, kernel)),
        ),
        Fix(f"Then build the module of {library} for this kernel.", module_build(snapshot, kernel)),
    )
