"""How to install the driver's module for the running kernel, and how to lift a blacklist or replace nouveau.

Ubuntu's packages linux-modules-nvidia-* install it into kernel/nvidia-BRANCH, with "srv" for the server's and "-open"
for the open one, for Ubuntu's own kernels (read off linux-signatures-nvidia-5.15.0-112-generic, and off the log of
ubuntu-drivers-common). DKMS uses updates/dkms on Debian and Ubuntu. NVIDIA's own installer without DKMS uses
kernel/drivers/video (INSTALL_MOD_DIR in the logs of the driver's own build).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuenv.doctor.driver_requirements import OPEN, driver_requirement
from gpuenv.doctor.fixes.distributions import (
    blacklist_fix,
    driver_fixes,
    family,
    is_declared,
    module_build_command,
    restart_fix,
    system_steps,
)
from gpuenv.doctor.predicates import NOVA, gpus_bound_to_nova, libraries_absent
from gpuenv.doctor.registry import CheckContext
from gpuenv.model.finding import Fix
from gpuenv.model.gpus import TURNED_OFF, is_contained
from gpuenv.model.snapshot import Module, PciGpu, Snapshot
from gpuenv.model.strings import pattern

_PREBUILT = pattern(r"(?P<kernel>[^/]+)/kernel/nvidia-(?P<branch>\d{1,4})(?P<server>srv)?(?P<open>-open)?/nvidia\.ko")
# 6.8.0-45-generic; the mainline builds have six digits in the middle (6.12.1-061201-generic).
_UBUNTU_KERNEL = pattern(r"(?P<series>\d+\.\d+)\.0-\d{1,4}-(?P<flavour>[a-z][a-z0-9-]*)")
# The kind of kernel: "arch" of 6.6.1-arch1-1, "cachyos" of 6.6.2-3-cachyos.
_KERNEL_KIND = pattern(r"[a-z]{2,}")
_PACKAGED_FAMILIES = ("rhel", "suse")  # usually with a package of the module, not DKMS
_DKMS_FOLDER, _INSTALLER_FOLDER = "/updates/dkms/", "/kernel/drivers/video/"


def module_install_fixes(snapshot: Snapshot, kernel: str) -> tuple[Fix, ...]:
    """How to install the module for this kernel; by package only if a package installed it for another kernel."""
    files, others = snapshot.driver.module_files.value or (), snapshot.driver.module_kernels.value or ()
    uses_dkms = snapshot.driver.dkms or any(_DKMS_FOLDER in path for path in files)
    by_akmods = family(snapshot) == "fedora" and not any(_INSTALLER_FOLDER in path for path in files)
    if uses_dkms or by_akmods:
        return _build_fixes(snapshot, kernel)
    package = _package(snapshot, kernel, files)
    if package:
        command = ("sudo", "apt-get", "install", package)
        return (Fix("Install the driver's module for this kernel, then load it.", command),)
    same_kind = [other for other in others if _KERNEL_KIND.findall(other) == _KERNEL_KIND.findall(kernel)]
    if same_kind and family(snapshot) == "arch":  # keeps one release of each kernel: it was updated
        return (restart_fix(snapshot, f"to boot the kernel that has the module, {same_kind[-1]}"),)
    if family(snapshot) == "arch" or not (others or family(snapshot) in _PACKAGED_FAMILIES):
        alternative = Fix("Or install its package for this kernel, or boot a kernel that has the module.")
        return (*_build_fixes(snapshot, kernel), alternative)
    return (_install_hint(snapshot, others, files),)


def _build_fixes(snapshot: Snapshot, kernel: str) -> tuple[Fix, ...]:
    return (
        *system_steps(snapshot, "headers"),
        Fix(
            "Build the module for this kernel; then load it (sudo modprobe nvidia).",
            module_build_command(snapshot, kernel),
        ),
        *system_steps(snapshot, "kernel-update"),
    )


def _package(snapshot: Snapshot, kernel: str, files: tuple[str, ...]) -> str | None:
    """Ubuntu's package for this kernel, if another of its kernels has one of the same flavour and branch."""
    running, branch = _UBUNTU_KERNEL.fullmatch(kernel), snapshot.driver.branch.value
    prebuilt = [match for path in files if (match := _PREBUILT.match(path))]
    if running is None or family(snapshot) != "ubuntu" or len(prebuilt) != len(files):
        return None
    kinds = set()
    for match in prebuilt:
        other = _UBUNTU_KERNEL.fullmatch(match["kernel"])
        is_same_flavour = other is not None and other["flavour"] == running["flavour"]
        if is_same_flavour and branch in (None, int(match["branch"])):
            kinds.add(match["branch"] + ("-server" if match["server"] else "") + (match["open"] or ""))
    return f"linux-modules-nvidia-{kinds.pop()}-{kernel}" if len(kinds) == 1 else None


def signed_module_fixes(ctx: CheckContext) -> tuple[Fix, ...]:
    """How to load a module that the distribution has signed instead of DKMS's own.

    Ubuntu's /etc/depmod.d/ubuntu.conf prefers DKMS's folder, so its package is removed. The package of one kernel does
    not provide nvidia-dkms-BRANCH, which the driver needs; that of a series of kernels does (noble's package list).
    """
    kernel = _UBUNTU_KERNEL.fullmatch(ctx.snapshot.host.kernel.value or "")
    series = f"{kernel['flavour']}-{kernel['series']}" if kernel else None
    return system_steps(ctx.snapshot, "signed-module", series=series, open=kind_suffix(ctx))


def kind_suffix(ctx: CheckContext) -> str:
    """The end of the names of Ubuntu's packages: ``-open`` if a GPU needs the open modules."""
    return "-open" if OPEN in driver_requirement(ctx).kinds else ""


def _install_hint(snapshot: Snapshot, others: tuple[str, ...], files: tuple[str, ...]) -> Fix:
    if family(snapshot) and any(_INSTALLER_FOLDER in path for path in files):
        return Fix("Run the installer of the driver (NVIDIA's .run file) again under this kernel.")
    if not others:
        return Fix("Install the driver's module for this kernel in the same way as the driver.")
    return Fix(f"Install the driver's module for this kernel from the source of the other one, or boot {others[-1]}.")


# Configuration that keeps the driver's kernel module from being loaded, and how to remove it.
# modprobe.d(5): a blacklist line makes modprobe ignore the module's own aliases, by which the kernel requests it; by
# its name it can still be loaded. modprobe(8): modprobe.blacklist= is such a line. The kernel's module_blacklist=, an
# install line with a command that does nothing, and an alias for the module's own name block it by every name.
# dracut.cmdline(7): rd.driver.blacklist= is for the initramfs.

_INITRAMFS_BLOCK = "/proc/cmdline: rd.driver.blacklist="
# canonical/nvidia-prime, prime-select, _blacklist_nvidia; others write the same line into files of their own below /etc
# (system76-power.conf, and blacklist-nvidia.conf, which EnvyControl's extension for GNOME reads; seen 2026-11-22).
_ENVYCONTROL_FILE = "/etc/modprobe.d/blacklist-nvidia.conf: "  # bayasdev/envycontrol, BLACKLIST_PATH
_PRIME_SELECT_FILES = ("/lib/modprobe.d/blacklist-nvidia.conf: ", "/usr/lib/modprobe.d/blacklist-nvidia.conf: ")


def module_blocks(snapshot: Snapshot) -> tuple[str, ...]:
    """Lines that block the module in the running system, without those for the initramfs alone."""
    found = snapshot.driver.module_blocks.value or ()
    return tuple(block for block in found if not block.startswith(_INITRAMFS_BLOCK))


def is_absolute_block(block: str) -> bool:
    """Whether it blocks the module by every name, not only by its aliases."""
    _, _, line = block.partition(": ")
    return not line.startswith(("blacklist", "modprobe.blacklist="))


def is_off_by_prime_select(snapshot: Snapshot) -> bool:
    """Whether Ubuntu's prime-select has switched the GPU off: its line, in its file, on its system."""
    is_ubuntu = family(snapshot) == "ubuntu"
    return is_ubuntu and any(
        b.startswith(_PRIME_SELECT_FILES) and b.endswith(TURNED_OFF) for b in module_blocks(snapshot)
    )


def switch_off_lines(snapshot: Snapshot) -> tuple[str, ...]:
    """The lines with which programs switch a laptop's GPU off."""
    return tuple(block for block in module_blocks(snapshot) if _is_switched_off(block))


def unblock_fixes(snapshot: Snapshot) -> Iterator[Fix]:
    """How to remove the lines that block the module."""
    found = module_blocks(snapshot)
    if not found:
        return
    if is_off_by_prime_select(snapshot):
        yield Fix("Switch the GPU on, then restart.", ("sudo", "prime-select", "on-demand"))
        return
    if by_envycontrol := any(block.startswith(_ENVYCONTROL_FILE) and _is_switched_off(block) for block in found):
        file = _ENVYCONTROL_FILE.partition(":")[0]
        text = f"If EnvyControl wrote {file}: switch the GPU on, which also removes its udev rules; then restart."
        yield Fix(text, ("sudo", "envycontrol", "-s", "hybrid"))
    tool = " (or switch the GPU on with the program that wrote it)" if any(map(_is_switched_off, found)) else ""
    remove = "Or remove" if by_envycontrol else "Remove"
    yield Fix(f"{remove} the lines that block the module{tool}: {'; '.join(found)}")
    at_boot = all(block.startswith("/proc/cmdline") for block in found)
    text = "update the boot loader's configuration" if at_boot else "rebuild the initramfs"
    text = f"Then {text}, and restart."
    yield from (Fix(text),) if at_boot else system_steps(snapshot, "initramfs", text=text)


def excluded_gpu_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How to let the module drive a GPU that one of its options leaves out; empty without such an option."""
    excluding = ("NVreg_ExcludedGpus", "NVreg_AssignGpus")
    found = [line for line in snapshot.driver.module_options.value or () if any(name in line for name in excluding)]
    if not (found or snapshot.driver.excluded_gpus.value) or is_contained(snapshot):
        return ()
    lines = [line for line in found if not line.startswith("/proc/driver/")]  # which shows the loaded module's options
    where = f"Remove this one from its list: {'; '.join(lines)}" if lines else "Find its line, and remove this one."
    search = (
        None if lines else "grep -rns -e NVreg_ExcludedGpus -e NVreg_AssignGpus /etc/modprobe.d /usr/lib/modprobe.d"
    )
    text = "If the module is in the initramfs, as on most desktops: rebuild it."
    return (
        Fix(f"An option leaves GPUs out of the driver. {where}", shell_line=search),
        *system_steps(snapshot, "initramfs", text=text),
        restart_fix(snapshot, "so that the module reads its options again; this ends all programs"),
    )


def unbind_fixes(snapshot: Snapshot, held: Sequence[PciGpu]) -> tuple[Fix, ...]:
    """How to take GPUs back from a kernel driver that reserves them for virtual machines; empty without any.

    driverctl(8): set-override writes a file in /etc/driverctl.d. Linux, vfio-pci: options vfio-pci ids=VENDOR:DEVICE.
    """
    if not held or is_contained(snapshot):
        return ()
    name = held[0].kernel_driver or ""
    ids = " or ".join(dict.fromkeys(f"{gpu.vendor}:{gpu.device}" for gpu in held))
    folders = "/etc/modprobe.d /etc/driverctl.d /etc/default/grub /proc/cmdline"
    return (
        Fix(f"{name} reserves the GPU for a virtual machine: use it there."),
        Fix(f"Or find where it is bound to {name}.", shell_line=f"grep -rns -e vfio -e {ids.split(' ')[0]} {folders}"),
        *(
            Fix("If driverctl did it, undo it.", ("sudo", "driverctl", "unset-override", gpu.pci))
            for gpu in held
            if name == "vfio-pci"
        ),
        *system_steps(
            snapshot,
            "initramfs",
            text=f"If a file or a kernel parameter names {ids}, remove that, and rebuild the initramfs.",
        ),
        restart_fix(snapshot, "so that NVIDIA's module takes the GPU"),
    )


def reload_uvm_fixes() -> tuple[Fix, ...]:
    """How to reload the module of CUDA's memory, which is stale after a suspend."""
    return (
        Fix(
            "Reload the module of CUDA's memory, stale after a suspend: first end every CUDA program and unload it.",
            ("sudo", "rmmod", "nvidia_uvm"),
        ),
        Fix("Load it again; if it could not be unloaded, restart.", ("sudo", "modprobe", "nvidia_uvm")),
    )


def _is_switched_off(block: str) -> bool:
    return block.endswith(TURNED_OFF)


def nouveau_or_nova(snapshot: Snapshot) -> str:
    """Name of the free driver's module that holds the GPU."""
    return NOVA if gpus_bound_to_nova(snapshot) else "nouveau"


def replace_nouveau_fixes(ctx: CheckContext) -> tuple[Fix, ...]:
    """How NVIDIA's driver replaces the free one: lifts a blacklist, blocks the free driver, or installs NVIDIA's."""
    snapshot = ctx.snapshot
    name = nouveau_or_nova(snapshot)
    is_installed = snapshot.driver.module.value is Module.NOT_LOADED and not is_declared(snapshot)
    if is_installed and module_blocks(snapshot):
        by_file = Fix(f"If {name} is loaded again: blacklist {name}, in a file in /etc/modprobe.d.")
        text = f"If {name} is loaded again, block {name} by kernel parameters."
        return (*unblock_fixes(snapshot), *(blacklist_fix(snapshot, text) or (by_file,)))
    if is_installed and not libraries_absent(snapshot):
        text = f"NVIDIA's driver is installed: block {name} by kernel parameters."
        by_parameters = blacklist_fix(snapshot, text)
        how = f"blacklist {name}"
        if name == "nouveau":
            how = (
                f"block {name} by the lines blacklist {name} and options {name} modeset=0 in a file in /etc/modprobe.d"
            )
        text = f"NVIDIA's driver is installed: {how}, if that is missing."
        early = f"Rebuild the initramfs, which loads {name} before that file is read, and restart."
        task = "block-nouveau" if name == "nouveau" else "block-nova"
        block = system_steps(snapshot, task, text=text)
        by_files = (*block, *(() if _by_boot_loader(block) else system_steps(snapshot, "initramfs", text=early)))
        restart = restart_fix(snapshot, "so that NVIDIA's module takes the GPU")
        return (*_check_kind_fixes(ctx), *(by_parameters or by_files), restart)
    fixes = driver_fixes(ctx)
    is_immutable = snapshot.host.image.value == "ostree" or is_declared(snapshot)
    return fixes if name != NOVA or is_immutable else _with_nova_blocked(snapshot, fixes)


def _with_nova_blocked(snapshot: Snapshot, fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """Blocks nova before the restart: packages of the driver block nouveau, and older ones do not block nova."""
    place = next((index for index, fix in enumerate(fixes) if fix.command == ("sudo", "reboot")), len(fixes))
    text = f"If the package does not blacklist {NOVA}, do it before the restart."
    block = system_steps(snapshot, "block-nova", text=text)
    text = f"Rebuild the initramfs, which may load {NOVA} earlier."
    early = () if _by_boot_loader(block) else system_steps(snapshot, "initramfs", text=text)
    return (*fixes[:place], *block, *early, *fixes[place:])


def _by_boot_loader(fixes: tuple[Fix, ...]) -> bool:
    """Whether kernel parameters block the module: they hold for the initramfs too."""
    return any("grubby" in (fix.command or ()) for fix in fixes)


def _check_kind_fixes(ctx: CheckContext) -> tuple[Fix, ...]:
    """A command that shows the kind of the installed modules, which is unknown until they are loaded.

    The open ones have the licence Dual MIT/GPL (open-gpu-kernel-modules, nv.c, MODULE_LICENSE), the proprietary ones
    NVIDIA.
    """
    kinds = driver_requirement(ctx).kinds
    if len(kinds) != 1 or ctx.snapshot.driver.flavor.known:
        return ()
    text = f"First check that its modules are the {next(iter(kinds))} ones, which this GPU needs"
    return (Fix(f"{text}: the open ones have the licence Dual MIT/GPL.", ("modinfo", "-F", "license", "nvidia")),)
