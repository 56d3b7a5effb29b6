"""Checks of the driver: its parts, their versions, its kernel module, and whether it starts the GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuenv.doctor.driver_libraries import (
    folder_of,
    is_foreign,
    is_in_image,
    is_newer,
    libraries_in_use,
    library_name,
    library_path,
    matching_libraries,
    mismatched_libraries,
    unsearched_libcuda,
)
from gpuenv.doctor.evidence import evidence_of, hardware_events, kernel_drivers, log_evidence, matching_log_lines
from gpuenv.doctor.fixes.containers import matching_libraries_fix, remove_from_image_fixes
from gpuenv.doctor.fixes.distributions import (
    REMOVE_RUN_FILE,
    driver_fixes,
    family,
    module_build_command,
    reinstall_fixes,
    restart_fix,
    system_steps,
)
from gpuenv.doctor.fixes.gpus import CONNECT_POWER, ENLARGE_PCI_WINDOW, POWER_CYCLE
from gpuenv.doctor.fixes.kernel_module import (
    is_absolute_block,
    is_off_by_prime_select,
    kind_suffix,
    module_blocks,
    module_install_fixes,
    nouveau_or_nova,
    replace_nouveau_fixes,
    signed_module_fixes,
    unblock_fixes,
)
from gpuenv.doctor.fixes.variables import path_with_folder, with_folder_fix
from gpuenv.doctor.predicates import (
    COS_DRIVER_ROOT,
    GPU_OPERATOR_ROOT,
    gpus_bound_to_nova,
    gpus_bound_to_other_drivers,
    gpus_not_listed,
    image_driver_libraries,
    is_driver_probed,
    is_passed_through,
    is_system_container,
    kernel_driver_names,
    libcuda_absent,
    libraries_absent,
    passed_through_gpus,
    unfound_wsl_libcuda,
)
from gpuenv.doctor.registry import EXPECT_NO_GPU, CheckContext, NotKnown, Outcome, Symptom, check
from gpuenv.matrix.needs import versions_differ
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import HIDDEN_HOST, driver_sees_gpu, host_is_hidden, is_contained, module_loaded, nvidia_on_bus
from gpuenv.model.nvidia import Cuda, Nvml
from gpuenv.model.snapshot import (
    Container,
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

_DRIVER_REQUIRES = ("DRV100", "DRV101", "GPU201", "GPU202", "CTR301", "CTR305", "CTR306")
# The kernel's messages: Linux, kernel/module/signing.c (module_sig_check) and security/lockdown/lockdown.c.
# And modprobe's, by error number: EKEYREJECTED, or ENOKEY for a module without a signature.
_REFUSALS = ("is rejected", "unsigned module loading is restricted", "Key was rejected", "Required key not available")
# Linux, kernel/module/main.c (check_modinfo, simplify_symbols) and kernel/module/version.c (check_version).
_OTHER_KERNEL = pattern(r"\bnvidia\w*: (?:version magic|disagrees about version of symbol|Unknown symbol)")
_OTHER_MODULE = pattern(r"(?!nvidia)\w+: loading of")  # some releases name the module


@check("DRV115", Cause.DRIVER_KERNEL_INCOMPATIBLE, requires=(*_DRIVER_REQUIRES, "GPU204"))
def module_not_built(ctx: CheckContext) -> Outcome:
    """The driver has no module for the running kernel.

    What it means: the driver is installed, but has no module for this kernel, and a module for another kernel cannot be
    loaded. With DKMS, the build failed, usually because the kernel is newer than the driver supports or its headers are
    missing, or it was never started. With packages, the package for this kernel is not installed.
    How it is seen: DKMS's tree, or the folder of another kernel, has the driver's module, and the folder of the running
    kernel has none.
    What to do: build it again with DKMS, or install it from the same source as the other kernel's; if the build fails,
    read its log and install a newer driver, or boot the kernel for which the module was built.
    """
    snapshot = ctx.snapshot
    driver, kernel, builds = snapshot.driver, snapshot.host.kernel.value, snapshot.driver.dkms
    others = driver.module_kernels.value if not libraries_absent(snapshot) else ()  # else this is a leftover
    if kernel is None or not (builds or others) or _is_driven(snapshot) or passed_through_gpus(snapshot):
        return
    if driver.module.value is not Module.NOT_INSTALLED or ("built", kernel) in {(b.state, b.kernel) for b in builds}:
        return
    failed = [build for build in builds if build.state == "failed" and build.kernel == kernel]
    title = (
        f"DKMS {'failed to build' if failed else 'did not build'} the NVIDIA driver's module for this kernel, {kernel}"
    )
    yield Symptom(
        title if builds else f"The NVIDIA driver's module is not installed for this kernel, {kernel}",
        evidence_of(snapshot, "host.kernel")
        + tuple(Evidence("driver.dkms", _build_text(build), "/var/lib/dkms") for build in builds)
        + (evidence_of(snapshot, "driver.module_kernels") if others else ())
        + evidence_of(snapshot, "driver.module"),
        (
            *(fix for b in failed if b.compiler for fix in system_steps(snapshot, "compiler", compiler=b.compiler)),
            *(Fix(f"Read the build log: /var/lib/dkms/{b.module}/{b.release}/build/make.log") for b in failed),
            *module_install_fixes(snapshot, kernel),
            Fix(
                f"If the driver is too old for this kernel, install a newer driver, or boot {_older_kernel(snapshot)}."
            ),
        ),
    )


def _older_kernel(snapshot: Snapshot) -> str:
    """The newest other kernel that has the module."""
    driver, running = snapshot.driver, snapshot.host.kernel.value
    built = [build.kernel for build in driver.dkms if build.state == "built" and build.kernel not in (None, running)]
    others = [*(driver.module_kernels.value or ()), *built]
    return f"{others[-1]}, for which it has a module" if others else "an older kernel"


def _build_text(build: DkmsBuild) -> str:
    compiler = f", without {build.compiler}, which built the kernel" if build.compiler else ""
    return f"{build.module} {build.release} {build.state}" + (f" for {build.kernel}" if build.kernel else "") + compiler


@check("DRV116", Cause.DRIVER_KERNEL_INCOMPATIBLE, requires=(*_DRIVER_REQUIRES, "GPU204", "DRV115"))
def module_refused(ctx: CheckContext) -> Outcome:
    """The kernel refuses the driver's module: its signature is not trusted, or it is for another kernel.

    What it means: with Secure Boot the kernel loads only signed modules. A module built on this machine is signed with
    a key that must be enrolled in the firmware once, or it is not signed at all. A module built for another kernel, or
    for another build of it, cannot be loaded either.
    How it is seen: the module is installed for this kernel and not loaded, and the kernel log has a refusal.
    What to do: enrol the key that signs the modules (mokutil prompts for a password, and so does the next boot), or
    install modules that the distribution has signed, or turn Secure Boot off in the firmware. Rebuild a module that is
    for another kernel.
    """
    snapshot = ctx.snapshot
    if _is_driven(snapshot) or snapshot.driver.module.value is not Module.NOT_LOADED:
        return
    texts = [m.text for m in snapshot.kernel_log.value or () if any(refusal in m.text for refusal in _REFUSALS)]
    unsigned = [line for line in texts if not _OTHER_MODULE.match(line)]
    if unsigned:
        yield Symptom(
            "The kernel refuses the NVIDIA driver's module: it has no trusted signature",
            log_evidence(snapshot, unsigned[-3:]) + evidence_of(snapshot, "host.secure_boot", "driver.module"),
            signing_fixes(ctx, is_unsigned=any("unsigned" in line for line in unsigned)),
        )
    lines, kernel = matching_log_lines(snapshot, _OTHER_KERNEL), snapshot.host.kernel.value
    if lines:
        yield Symptom(
            "The kernel refuses the NVIDIA driver's module: it was built for another kernel",
            lines + evidence_of(snapshot, "host.kernel", "driver.module"),
            (
                *(module_install_fixes(snapshot, kernel) if kernel else ()),
                Fix("Then load it.", ("sudo", "modprobe", "nvidia")),
            ),
        )


def signing_fixes(ctx: CheckContext, *, is_unsigned: bool = False) -> tuple[Fix, ...]:
    """How to load a module with Secure Boot; one without any signature is signed first, by building it again."""
    snapshot = ctx.snapshot
    if snapshot.driver.uninstaller.known and not snapshot.driver.dkms:
        return _run_file_signing_fixes(snapshot)
    sign: tuple[Fix, ...] = ()
    if is_unsigned:
        rebuild = _signed_builds(snapshot) or system_steps(snapshot, "sign-module", open=kind_suffix(ctx))
        sign = (*system_steps(snapshot, "new-key"), *rebuild)
    restart = restart_fix(snapshot, "and confirm the key; this ends all programs")
    return (*sign, *system_steps(snapshot, "enrol-key"), restart, *signed_module_fixes(ctx))


def _run_file_signing_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How NVIDIA's installer signs its modules: it offers a new key, and keeps its certificate in this folder.

    NVIDIA, driver README, Installing the NVIDIA Driver, Signing the NVIDIA Kernel Module.
    """
    return (
        Fix("Run the installer of the driver (NVIDIA's .run file) again, and let it sign the modules with a new key."),
        Fix(
            "Enrol that key for Secure Boot: choose a password, restart, and confirm it in the blue screen.",
            shell_line="sudo mokutil --import /usr/share/nvidia/nvidia-modsign-crt-*.der",
        ),
        restart_fix(snapshot, "and confirm the key; this ends all programs"),
        Fix(
            "Or turn Secure Boot off in the firmware, or replace this driver by the distribution's packages: first "
            "remove it.",
            REMOVE_RUN_FILE.command,
        ),
    )


def _signed_builds(snapshot: Snapshot) -> tuple[Fix, ...]:
    """Rebuilds a DKMS module with a signature. dkms(8): build signs it, install copies it into the kernel's folder."""
    kernel = snapshot.host.kernel.value
    build = next((b for b in snapshot.driver.dkms if b.state == "built" and b.kernel == kernel), None)
    if build is None or kernel is None or family(snapshot) not in ("ubuntu", "debian"):
        return ()
    module = ("--force", "-m", build.module, "-v", str(build.release), "-k", kernel)
    return (
        Fix("Build the module again: DKMS signs it with the key.", ("sudo", "dkms", "build", *module)),
        Fix("Install it.", ("sudo", "dkms", "install", *module)),
    )


def _is_driven(snapshot: Snapshot) -> bool:
    """Whether the module is loaded, or another system loads it."""
    is_external = is_contained(snapshot) or bool(snapshot.host.wsl.value)
    return module_loaded(snapshot) or is_external or driver_sees_gpu(snapshot)


_START_REQUIRES = (*_DRIVER_REQUIRES, "GPU204")
_SINGLE_GPU_ERRORS = (Cuda.NO_DEVICE, Cuda.INVALID_DEVICE, Cuda.UNKNOWN)  # of cuInit if one GPU does not start
# open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c, RmInitAdapter: NV_ERR_INSUFFICIENT_POWER.
_NO_POWER = pattern(r"NVRM: .*does not have the necessary power cables connected")
# open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c, of a GPU whose registers read as all ones;
# Linux, drivers/pci/pci.c, pci_power_up. A GPU that falls off the bus during use has an Xid of its own.
_NO_ANSWER = pattern(
    r"NVRM: .*fallen off the bus and is not responding"
    r"|\bnvidia [0-9a-f:.]+: Unable to change power state from D3cold to D0, device inaccessible"
)
# open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c, nv_pci_probe.
_NO_BAR = pattern(r"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid|NVRM: BAR\d is 0M @ 0x0")


@check("DRV120", Cause.GPU_HARDWARE_FAULT, requires=_START_REQUIRES)
def without_power(ctx: CheckContext) -> Outcome:
    """A GPU has no power: a cable is not connected.

    What it means: the board is on the PCI bus, which supplies a little power, but its own power connector supplies none
    or too little, so the driver does not start it.
    How it is seen: the driver does not list the GPU, and reports in the kernel log that the power cables are missing.
    What to do: switch the machine off and connect every power cable that the board needs.
    """
    yield from _unstarted(
        ctx.snapshot,
        _NO_POWER,
        "The driver does not start a GPU because its power cables are not connected",
        CONNECT_POWER,
    )


@check("DRV121", Cause.GPU_HARDWARE_FAULT, requires=_START_REQUIRES)
def no_room_on_the_bus(ctx: CheckContext) -> Outcome:
    """A GPU has no address range for its memory on the PCI bus.

    What it means: a GPU exposes its memory through windows (BARs) whose addresses the firmware, or the hypervisor,
    assigns. If the space below 4 GiB is too small and none above it is used, the GPU gets none, and the module cannot
    drive it. It counts as a hardware fault because the machine's setup must change: another driver or kernel would not
    help.
    How it is seen: the driver does not list the GPU, and reports in the kernel log that a region is invalid.
    What to do: turn on "Above 4G Decoding" in the firmware, or let the kernel reassign the addresses; give a virtual
    machine a larger 64-bit window.
    """
    yield from _unstarted(
        ctx.snapshot,
        _NO_BAR,
        "The driver cannot use a GPU: the firmware assigned no address range to its memory on the PCI bus",
        ENLARGE_PCI_WINDOW,
    )


@check("DRV122", Cause.GPU_HARDWARE_FAULT, requires=(*_START_REQUIRES, "DRV120", "DRV121"))
def does_not_answer(ctx: CheckContext) -> Outcome:
    """A GPU is on the PCI bus but no longer responds.

    What it means: the kernel found the GPU at boot, but the driver reads only one bits from it: it fell off the bus,
    lost its power, or did not wake from the deepest sleep state (D3cold), which laptops use. If it is the only GPU, the
    module does not even stay loaded, and loading it again does not help.
    How it is seen: the driver does not list the GPU, and the driver or the kernel's PCI code reports it in the kernel
    log.
    What to do: power the machine off completely, because a restart may not be enough; if it happens again, disable the
    deepest sleep state, and check seating, power and cooling.
    """
    if hardware_events(ctx.snapshot):
        return  # GPU209 reports the event
    yield from _unstarted(ctx.snapshot, _NO_ANSWER, "A GPU on the PCI bus does not respond", POWER_CYCLE)


def _unstarted(snapshot: Snapshot, regex: re.Pattern[str], title: str, fixes: tuple[Fix, ...]) -> Outcome:
    """A GPU that is not listed, with the reason in the log; in a container the log is the host's and does not count."""
    lines, missing = matching_log_lines(snapshot, regex), gpus_not_listed(snapshot)
    if not lines or not missing or is_contained(snapshot):
        return
    devices = tuple(
        Evidence(f"PCI device {d.pci}", "not listed by the driver", "/sys/bus/pci/devices") for d in missing
    )
    yield Symptom(
        title,
        lines + devices + evidence_of(snapshot, "driver.version", "nvml"),
        fixes,
        Severity.WARNING if driver_sees_gpu(snapshot) and not _cuda_starts_nowhere(snapshot) else Severity.ERROR,
    )


def _cuda_starts_nowhere(snapshot: Snapshot) -> bool:
    """Whether CUDA starts on no GPU, and no fact other than the GPU that is not started explains it.

    After a sleep the module of CUDA's memory has lost its state, and a GPU in MIG mode may have no instance.
    """
    if snapshot.driver.cuda_init.value not in _SINGLE_GPU_ERRORS or any(gpu.mig.value for gpu in snapshot.gpus):
        return False
    return not (snapshot.driver.cuda_init.value == Cuda.UNKNOWN and snapshot.host.suspends.value)


_IN_A_CONTAINER = Fix("If this is a container: start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility.")
_MODULE_REQUIRES = (*_DRIVER_REQUIRES, "DRV115", "DRV116", "DRV120", "DRV121", "DRV122")
_VGPU_HOST = Fix(  # NVIDIA, Virtual GPU Software User Guide: the Virtual GPU Manager of a hypervisor
    "This is a host of virtual GPUs: its driver, the vGPU manager, does not support CUDA. Compute in a virtual machine "
    "that has a vGPU, with the guest driver, or replace the manager with the ordinary driver."
)
_LOAD = ("sudo", "modprobe", "nvidia")
_NOT_LOADED = "The NVIDIA driver is installed, but its kernel module is not loaded"


@check("DRV104", Cause.NOUVEAU_LOADED, requires=_MODULE_REQUIRES)
def nouveau_loaded(ctx: CheckContext) -> Outcome:
    """The nouveau module holds the GPU.

    What it means: nouveau, the free driver, drives the screen but cannot run CUDA, and NVIDIA's module cannot use the
    GPU while nouveau holds it.
    How it is seen: the kernel binds an NVIDIA device to nouveau, or to nova, its successor for newer GPUs, and the
    nvidia module is not loaded.
    What to do: install NVIDIA's driver (its package blocks nouveau), then restart. If its module is already installed
    and a line in modprobe.d or a kernel parameter blocks it, remove that; if nothing blocks it, block nouveau in the
    initramfs too.
    """
    snapshot = ctx.snapshot
    by_nouveau = [gpu for gpu in nvidia_on_bus(snapshot) or () if gpu.kernel_driver == "nouveau"]
    by_nova = gpus_bound_to_nova(snapshot)
    free = [gpu for gpu in nvidia_on_bus(snapshot) or () if not is_passed_through(gpu)]
    if module_loaded(snapshot) or not (by_nouveau or by_nova or (snapshot.driver.nouveau.value and free)):
        return
    yield Symptom(
        f"The {nouveau_or_nova(snapshot)} module holds the NVIDIA GPU, so NVIDIA's driver cannot use it",
        kernel_drivers((*by_nouveau, *by_nova))
        + evidence_of(snapshot, "driver.module")
        + (evidence_of(snapshot, "driver.module_blocks") if module_blocks(snapshot) else ()),
        replace_nouveau_fixes(ctx),
    )


@check("DRV105", Cause.DRIVER_MODULE_NOT_LOADED, requires=(*_MODULE_REQUIRES, "DRV104", "GPU204"))
def module_not_loaded(ctx: CheckContext) -> Outcome:
    """The driver is installed, but its kernel module is not loaded.

    What it means: the libraries are installed, but the kernel does not drive the GPU: the module was not built for the
    running kernel, was refused (Secure Boot), is blocked by a line in modprobe.d, or was not loaded yet. After an
    update that removed the modules of the running kernel, none can be loaded until the next boot.
    How it is seen: NVML reports that the driver is not loaded, or the module is in the kernel's folder but not loaded.
    If DKMS's tree or the kernel log shows why, another finding reports that.
    What to do: if all GPUs are passed through to virtual machines (bound to vfio-pci or pciback), use them there; else
    remove what blocks the module; load it by hand and read the kernel's messages; after a kernel update, rebuild it
    (DKMS) or restart.
    """
    snapshot = ctx.snapshot
    if module_loaded(snapshot) or is_contained(snapshot) or snapshot.host.wsl.value:
        return
    is_reported = snapshot.driver.nvml_init.value == Nvml.DRIVER_NOT_LOADED
    is_installed = snapshot.driver.module.value is Module.NOT_LOADED
    if driver_sees_gpu(snapshot) or not (is_reported or is_installed):
        return
    passed_on, others = passed_through_gpus(snapshot), gpus_bound_to_other_drivers(snapshot)
    title = f"{_NOT_LOADED}{f', and {kernel_driver_names(others)} has the GPU' if others else ''}"
    yield Symptom(
        f"{_passthrough_text(passed_on)}, so the NVIDIA driver's module is not loaded" if passed_on else title,
        kernel_drivers((*passed_on, *others))
        + evidence_of(snapshot, "driver.module", "nvml", "host.kernel")
        + (evidence_of(snapshot, "host.secure_boot") if snapshot.host.secure_boot.value else ())
        + (evidence_of(snapshot, "driver.module_blocks") if snapshot.driver.module_blocks.value else ())
        + (evidence_of(snapshot, "driver.module_kernels") if _is_replaced(snapshot) else ()),
        _passthrough_fixes(passed_on) if passed_on else tuple(_loading_fixes(ctx, others)),
    )


def _passthrough_text(passed_on: Sequence[PciGpu]) -> str:
    return f"{kernel_driver_names(passed_on)} reserves every NVIDIA GPU for virtual machines"


def _passthrough_fixes(passed_on: Sequence[PciGpu]) -> tuple[Fix, ...]:
    text = f"Use the GPU in the virtual machine to which {kernel_driver_names(passed_on)} passes it."
    return (Fix(text), EXPECT_NO_GPU)


def _loading_fixes(ctx: CheckContext, others: Sequence[PciGpu]) -> Iterator[Fix]:
    """How to load the module, by what prevents it, the likeliest first.

    NVIDIA's module takes no device of another kernel driver (``others``), and then it does not stay loaded.
    """
    snapshot, name = ctx.snapshot, kernel_driver_names(others)
    kernel = snapshot.host.kernel.value
    if others:
        yield Fix(f"Unbind {name} from the GPU, such as by the line blacklist {name} in /etc/modprobe.d; restart.")
        yield Fix("Then load NVIDIA's module, if it is not loaded automatically.", _LOAD)
    elif _is_replaced(snapshot):
        yield restart_fix(
            snapshot, "because the modules of the running kernel are gone from the disk, as after an update"
        )
    elif is_off_by_prime_select(snapshot):
        yield from unblock_fixes(snapshot)
    elif snapshot.driver.module.value is Module.NOT_INSTALLED and kernel:
        yield from module_install_fixes(snapshot, kernel)
        yield from unblock_fixes(snapshot)
        yield Fix("Then load it.", _LOAD)
    elif any(map(is_absolute_block, module_blocks(snapshot))):
        yield from unblock_fixes(snapshot)
    else:
        yield Fix("Load the module and read the kernel's message if it refuses.", _LOAD)
        yield from signing_fixes(ctx) if snapshot.host.secure_boot.value else ()
        build = Fix("After a kernel update, build the module for this kernel.", module_build_command(snapshot))
        yield from unblock_fixes(snapshot) if module_blocks(snapshot) else (build,)


def _is_replaced(snapshot: Snapshot) -> bool:
    """Whether only other kernels have modules and the running one has no folder: it was updated."""
    return bool(snapshot.driver.module_kernels.value) and snapshot.driver.module.value is None


@check("DRV106", Cause.NO_DRIVER, requires=(*_MODULE_REQUIRES, "DRV104", "DRV105"))
def no_driver(ctx: CheckContext) -> Outcome:
    """No NVIDIA driver is installed.

    What it means: there is neither the kernel module nor libcuda. A CUDA toolkit, conda packages or CUDA wheels do not
    contain the driver.
    How it is seen: the loader finds neither libcuda.so.1 nor libnvidia-ml.so.1, and no nvidia module is loaded.
    What to do: install the driver with the system's package manager, then restart. Under WSL install the driver in
    Windows, not in Linux. A host that passes its GPUs through to virtual machines needs none.
    """
    snapshot = ctx.snapshot
    assumed = "driver.version" in snapshot.assumed and not snapshot.driver.version.known
    if not assumed and (module_loaded(snapshot) or not libraries_absent(snapshot) or not is_driver_probed(snapshot)):
        return
    if not assumed and unfound_wsl_libcuda(snapshot):
        return
    if not assumed and host_is_hidden(snapshot):
        yield NotKnown(HIDDEN_HOST)
        return
    on_bus, passed_on = nvidia_on_bus(snapshot), passed_through_gpus(snapshot)
    found = ", ".join(f"{gpu.name or gpu.device} at {gpu.pci}" for gpu in on_bus or ())
    yield Symptom(
        f"{_passthrough_text(passed_on)}, and no NVIDIA driver is installed here"
        if passed_on
        else "No NVIDIA driver is installed" + (", though there is an NVIDIA GPU" if on_bus else ""),
        kernel_drivers(passed_on)
        + (Evidence("NVIDIA GPUs on the PCI bus", found or "unknown", "/sys/bus/pci/devices"),)
        + evidence_of(snapshot, "libcuda", "nvml", "driver.module"),
        _passthrough_fixes(passed_on) if passed_on else driver_fixes(ctx),
    )


@check("DRV108", Cause.DRIVER_INSTALL_BROKEN, requires=(*_MODULE_REQUIRES, "CTR302", "DRV106"))
def driver_incomplete(ctx: CheckContext) -> Outcome:
    """A part of the driver is missing: there is no libcuda.

    What it means: the kernel module is loaded or NVML answers, but CUDA's driver library is not found, so no CUDA
    program can start. Server packages without compute parts, or a removed package, are usual causes. Or the library is
    in a folder that the loader does not search: that of a cloud's image, of NixOS, or the one in which NVIDIA's GPU
    Operator keeps a node's driver.
    How it is seen: the loader does not find libcuda.so.1, but another part of the driver is installed.
    What to do: install the driver's compute package of the same version, or reinstall the driver; if the library of the
    loaded module exists, add its folder to the loader's search path.
    """
    snapshot = ctx.snapshot
    unsearched = unsearched_libcuda(snapshot)
    if unsearched is not None:
        yield Symptom(
            f"The loader does not find the driver's libcuda, which exists: {unsearched.path}",
            evidence_of(snapshot, "libcuda")
            + (Evidence("driver.libraries", unsearched.path, "the folders that drivers use"),)
            + evidence_of(snapshot, "driver.module_version", "environment.LD_LIBRARY_PATH"),
            tuple(_search_path_fixes(snapshot, unsearched)),
        )
        return
    other_part = module_loaded(snapshot) or snapshot.source("nvml").state in (SourceState.ANSWERED, SourceState.FAILED)
    if is_contained(snapshot) or not libcuda_absent(snapshot) or not other_part:
        return
    yield Symptom(
        "The driver is incomplete: libcuda.so.1 is not found",
        evidence_of(snapshot, "libcuda", "nvml", "driver.module"),
        (
            *(
                (_VGPU_HOST,)
                if any(gpu.virtualization.value is Virtualization.HOST_VGPU for gpu in snapshot.gpus)
                else system_steps(snapshot, "libcuda")
            ),
            *(() if snapshot.host.container.known else (_IN_A_CONTAINER,)),
        ),
    )


_NOWHERE = "No such file"  # the loader's message for a missing dependency
_REFUSED_FILE = pattern(r"(?:.*: )?(/\S+\.so[\d.]*): ")


def _unloadable_fixes(snapshot: Snapshot, name: str, path: str | None, *, is_incomplete: bool) -> Iterator[Fix]:
    """Removes the file from an image, since the host's is mounted; on a host reinstalls its package, or removes it."""
    if is_contained(snapshot) and not is_incomplete and path:
        yield from remove_from_image_fixes(snapshot, (path,))
        return
    if path is None and not is_incomplete and not is_contained(snapshot):
        text = f"Remove the file of {name} that the loader finds first, which this shows, or reinstall its driver."
        yield Fix(text, shell_line=f"ldconfig -p | grep {name}.so.1")
        return
    if is_contained(snapshot) or path is None:
        yield Fix("Reinstall the driver, which restores missing files; a container must use the host's.")
        return
    yield from reinstall_fixes(snapshot, name, path)
    if not is_incomplete:
        yield Fix("If no package owns the file, remove it: it hides the driver's.", ("sudo", "rm", path))


@check("DRV114", Cause.DRIVER_INSTALL_BROKEN, requires=(*_MODULE_REQUIRES, "DRV106", "DRV108"))
def libcuda_unloadable(ctx: CheckContext) -> Outcome:
    """NVML or libcuda exists but cannot be loaded.

    What it means: the file is empty, truncated, of another architecture, or needs a missing library. Images committed
    from a running container have empty files instead of the driver's libraries; images for a Jetson often lack a part
    of the driver. CUDA needs only libcuda; nvidia-smi and other tools that read the GPU's state need NVML.
    How it is seen: the loader finds libcuda.so.1 or libnvidia-ml.so.1 and refuses it.
    What to do: remove the file that the loader refuses; in a container the host's is mounted instead. On a host,
    reinstall the driver, which restores missing files.
    """
    snapshot = ctx.snapshot
    libcuda = snapshot.source("libcuda").state is SourceState.FAILED and not snapshot.driver.cuda_init.known
    nvml = snapshot.driver.nvml_init.value == Nvml.LIBRARY_NOT_FOUND and (
        snapshot.source("nvml").state is SourceState.FAILED
    )
    if not libcuda and not nvml:
        return
    source, name = ("libcuda", "libcuda") if libcuda else ("nvml", "libnvidia-ml")
    message = snapshot.source(source).detail or ""
    found = _REFUSED_FILE.match(message)
    path = found[1] if found else library_path(snapshot, name)
    yield Symptom(
        f"{name}.so.1 exists, but cannot be loaded{f': {path}' if path else ''}",
        evidence_of(snapshot, "libcuda", "nvml")
        + ((Evidence("the loader's message", message, source),) if message else ()),
        tuple(_unloadable_fixes(snapshot, name, path, is_incomplete=_NOWHERE in message)),
        Severity.ERROR if libcuda else Severity.WARNING,
        in_image=is_in_image(snapshot, path),
    )


_NIXOS_FOLDER = "/run/opengl-driver/lib"  # a stable link to the driver's folder in the store
_USUAL_FOLDERS = ("/usr/lib64", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
# The root of the driver's container, with a C library of its own: unsuitable for LD_LIBRARY_PATH.
_OPERATOR_NODE = Fix(
    f"Run it in a pod that requests nvidia.com/gpu: NVIDIA's GPU Operator keeps the driver of this node in "
    f"{GPU_OPERATOR_ROOT}, and gives pods its libraries. The node itself needs no driver packages."
)
_BIND_MOUNT = f"{COS_DRIVER_ROOT} {COS_DRIVER_ROOT}"
_REMOUNT_EXEC = f"mount --bind {_BIND_MOUNT} && mount -o remount,exec {COS_DRIVER_ROOT}"
_COS_REMOUNT = Fix(
    "Container-Optimized OS mounts that folder noexec: remount it after each boot.", ("sudo", "sh", "-c", _REMOUNT_EXEC)
)
_OWN_LOADER = Fix(
    "For a Python with its own loader (Nix, Guix): add a folder with links to the driver's libraries alone to "
    "LD_LIBRARY_PATH; the system's folder would add another C library."
)


# NixOS Wiki, Nix-ld, and NixOS options, environment.sessionVariables. /run/opengl-driver is a link to the driver.
_NIXOS_LASTING = (
    Fix(
        f'For every session: write environment.sessionVariables.LD_LIBRARY_PATH = [ "{_NIXOS_FOLDER}" ]; into '
        "configuration.nix, rebuild, and log in again.",
        ("sudo", "nixos-rebuild", "switch"),
    ),
)


def _search_path_fixes(snapshot: Snapshot, library: DriverLibrary) -> Iterator[Fix]:
    folder = _NIXOS_FOLDER if library.origin is LibraryOrigin.NIXOS else folder_of(library)
    if folder.startswith(GPU_OPERATOR_ROOT):
        yield _OPERATOR_NODE
    elif folder in _USUAL_FOLDERS:
        command = ("ldconfig",) if is_contained(snapshot) else ("sudo", "ldconfig")
        yield Fix("Rebuild the loader's cache and the link libcuda.so.1.", command)
        yield _OWN_LOADER
    else:
        if folder.startswith(COS_DRIVER_ROOT) and not is_contained(snapshot):
            yield _COS_REMOUNT
        yield with_folder_fix(snapshot, folder, "Add the folder in this shell.")
        if is_contained(snapshot):
            value = f"LD_LIBRARY_PATH={path_with_folder(snapshot, folder)}"
            by_pod = snapshot.host.container.value is Container.KUBERNETES
            how = "in env of the pod's specification" if by_pod else "when the container is started (-e)"
            yield Fix(f"For every program in the container: set {value} {how}.")
        elif library.origin is LibraryOrigin.NIXOS:
            yield from _NIXOS_LASTING
        else:
            script = f"echo {folder} > /etc/ld.so.conf.d/nvidia-driver.conf && ldconfig"
            yield Fix("For every program: add the folder to the loader's configuration.", ("sudo", "sh", "-c", script))


# A container keeps the mounts of its start; a CDI description lists files of one version.
_RESTART_CONTAINER = (
    Fix("Restart the container: it has the libraries of the host's previous driver."),
    Fix(
        "If it is started by CDI, first regenerate the description on the host.",
        ("sudo", "nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.yaml"),
    ),
    Fix("Or recreate the container: then the host's current libraries are mounted into it."),
)
# Flatpak documentation, Extensions: org.freedesktop.Platform.GL.nvidia-VERSION is chosen by the host's driver.
_FLATPAK = (
    Fix("On the host, update the Flatpak extension of the driver.", ("flatpak", "update")),
    Fix("Then restart the application."),
)


@check(
    "DRV107",
    Cause.DRIVER_LIBRARY_VERSION_MISMATCH,
    Cause.DRIVER_INSTALL_BROKEN,
    requires=(*_DRIVER_REQUIRES, "DRV115", "DRV116", "DRV105", "DRV106"),
)
def library_mismatch(ctx: CheckContext) -> Outcome:
    """Kernel module and driver libraries have different versions.

    What it means: the driver was updated on disk while the old module is still loaded, so they refuse to work together.
    Nothing needs to be reinstalled. If only libcuda has another version, a package was held back, or a second libcuda
    is found first. In a container the library in use may belong to the image instead of the host, or to the driver that
    the host had when the container was started.
    How it is seen: NVML answers with a version mismatch, or CUDA with error 803. A library that belongs to the image is
    not mounted.
    What to do: restart the machine; if that does not help, let the package manager finish the update; if a library is
    at fault, install or remove it. In a container: remove the libraries from the image, so that the host's are used, or
    restart it; in a system container (LXC), install those of exactly the host's version.
    """
    snapshot = ctx.snapshot
    if not versions_differ(snapshot, ctx.matrix):
        return
    yield _in_a_container(snapshot) if is_contained(snapshot) else _on_a_host(snapshot)


def _on_a_host(snapshot: Snapshot) -> Symptom:
    found = mismatched_libraries(snapshot)
    libcuda = [entry for entry in found if library_name(entry) == "libcuda"]
    if libcuda and snapshot.driver.nvml_init.value == 0:  # NVML matches the module, so a restart does not help
        return _libcuda_mismatch(snapshot, libcuda)
    matching = matching_libraries(snapshot, found)
    if matching and not any(is_newer(snapshot, entry) and not is_foreign(snapshot, entry) for entry in found):
        return _wrong_one_first(snapshot, found, matching)
    # Newer libraries need the restart that follows an update, whatever other libraries exist.
    return Symptom(
        "The loaded kernel module and the driver's libraries have different versions",
        _version_evidence(snapshot),
        _update_fixes(snapshot) or (_restart(snapshot),),
    )


def _libcuda_mismatch(snapshot: Snapshot, libcuda: list[DriverLibrary]) -> Symptom:
    """Only libcuda differs: it belongs to another driver, or its package was held back."""
    module, mismatched = snapshot.driver.module_version.value, libcuda[0]
    is_partial_update = is_newer(snapshot, mismatched) and not is_foreign(snapshot, mismatched)
    if not is_partial_update and (matching := matching_libraries(snapshot, libcuda)):
        return _wrong_one_first(snapshot, libcuda, matching)
    if is_foreign(snapshot, mismatched):
        text = f"Remove {mismatched.path} from the loader's path (LD_LIBRARY_PATH, /etc/ld.so.conf.d)."
        missing = Fix(f"If no libcuda is found then, install that of the same driver, of exactly {module}.")
        title = f"The loader finds a libcuda that does not belong to the loaded driver {module}: {mismatched.path}"
        evidence = _version_evidence(snapshot) + evidence_of(snapshot, "environment.LD_LIBRARY_PATH")
        return Symptom(title, evidence, (Fix(text), missing), cause=Cause.DRIVER_INSTALL_BROKEN)
    title = f"libcuda has version {mismatched.release}, but the rest of the driver has {module}"
    return Symptom(
        title, _version_evidence(snapshot), system_steps(snapshot, "libcuda"), cause=Cause.DRIVER_INSTALL_BROKEN
    )


def _wrong_one_first(snapshot: Snapshot, found: list[DriverLibrary], matching: list[DriverLibrary]) -> Symptom:
    """The loader takes libraries of another driver, although the matching ones exist."""
    module, release = snapshot.driver.module_version.value, found[0].release
    wrong, right = (" and ".join(dict.fromkeys(entry.path for entry in entries)) for entries in (found, matching))
    evidence = _version_evidence(snapshot) + tuple(
        Evidence("driver.libraries", e.path, f"of {module}") for e in matching
    )
    if list(map(folder_of, found)) == list(map(folder_of, matching)):
        text = f"Remove {wrong}, and let the links point to {right}."
        title = f"The loader finds the libraries of {release}, although those of the loaded driver {module} exist"
        return Symptom(title, evidence, (Fix(text, ("sudo", "ldconfig")),))
    text = f"Remove {wrong} from the loader's path, or delete it: the one of {module} is {right}."
    title = f"The loader first finds a library that does not belong to the loaded driver {module}"
    return Symptom(
        title,
        evidence + evidence_of(snapshot, "environment.LD_LIBRARY_PATH"),
        (Fix(text),),
        cause=Cause.DRIVER_INSTALL_BROKEN,
    )


def _in_a_container(snapshot: Snapshot) -> Symptom:
    in_image = image_driver_libraries(snapshot)
    files = tuple(Evidence("driver.libraries", entry.path, "a file of the image, not mounted") for entry in in_image)
    if is_system_container(snapshot):
        # It installs the libraries itself; if they may be the host's, newer ones need the host's restart.
        fixes = (matching_libraries_fix(snapshot), *(() if in_image or _is_older(snapshot) else (_restart(snapshot),)))
        title = "The driver's libraries in this container do not match the version of the host's kernel module"
        return Symptom(title, _version_evidence(snapshot) + files, fixes)
    if in_image:
        return Symptom(
            "The image contains driver libraries that do not match the version of the host's kernel module",
            _version_evidence(snapshot) + files,
            remove_from_image_fixes(snapshot, tuple(entry.path for entry in in_image)),
            cause=Cause.DRIVER_INSTALL_BROKEN,
            in_image=True,
        )
    if snapshot.driver.cuda_origin.value is LibraryOrigin.FLATPAK:
        return Symptom(
            "Flatpak's driver extension does not match the version of the host's kernel module",
            _version_evidence(snapshot),
            _FLATPAK if _is_older(snapshot) else (_restart(snapshot), *_FLATPAK),
        )
    mounts_known = any(entry.mounted is not None for entry in snapshot.driver.libraries)
    return Symptom(
        "The loaded kernel module and the driver's libraries have different versions",
        _version_evidence(snapshot),
        (
            *(_RESTART_CONTAINER if _is_older(snapshot) else (_restart(snapshot),)),
            *(() if mounts_known else remove_from_image_fixes(snapshot, ())),
        ),
    )


def _is_older(snapshot: Snapshot) -> bool:
    """Whether the libraries are older than the module: they belong to the host's previous driver."""
    module, library = snapshot.driver.module_version.value, snapshot.driver.library_version.value
    return module is not None and library is not None and library < module


def _restart(snapshot: Snapshot) -> Fix:
    return restart_fix(snapshot, "so that the new kernel module is loaded; nothing needs to be installed")


def _version_evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    return (
        evidence_of(snapshot, "driver.module_version", "driver.library_version")
        + tuple(Evidence("driver.libraries", entry.path, "the loader takes it") for entry in libraries_in_use(snapshot))
        + evidence_of(snapshot, "nvml", "libcuda")
    )


def _update_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """Fixes that complete an update, with its restart, if the disk has only the old driver's module."""
    driver, kernel = snapshot.driver, snapshot.host.kernel.value
    module, library = driver.module_version.value, driver.library_version.value
    releases = {build.release for build in driver.dkms if build.state == "built" and build.kernel in (None, kernel)}
    if module is None or library is None or str(module) not in releases or str(library) in releases:
        return ()
    if driver.uninstaller.known:  # DKMS's folder of modules has precedence over that of the .run file
        return (
            Fix(
                "Two drivers are installed, that of NVIDIA's .run file and that of packages: one has the libraries of "
                f"{library}, the other the module of {module}, which each restart loads again. Remove that of the "
                ".run file.",
                REMOVE_RUN_FILE.command,
            ),
            Fix("If libraries or modules of the packages are missing then, reinstall the packages."),
            restart_fix(snapshot, "so that one driver is left"),
        )
    text = f"A restart alone loads {module} again, because no module of {library} is built: finish the update first."
    return (
        *(system_steps(snapshot, "finish-update", text=text) or (Fix(text, module_build_command(snapshot, kernel)),)),
        Fix(f"Then build the module of {library} for this kernel.", module_build_command(snapshot, kernel)),
        restart_fix(snapshot, "so that it is loaded"),
    )
