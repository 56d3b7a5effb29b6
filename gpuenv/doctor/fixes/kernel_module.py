"""How the driver's kernel module comes to the running kernel, past a blacklist and past nouveau.

Ubuntu's packages linux-modules-nvidia-* lay it into kernel/nvidia-BRANCH, with "srv" for the server's and "-open" for
the open one, for Ubuntu's own kernels (read off linux-signatures-nvidia-5.15.0-112-generic, and off the log of
ubuntu-drivers-common). DKMS uses updates/dkms on Debian and Ubuntu. NVIDIA's own installer without DKMS uses
kernel/drivers/video (INSTALL_MOD_DIR in the logs of the driver's own build).
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.driver_requirements import wanted
from gpuenv.doctor.fixes.distributions import (
    blacklist_fix,
    driver_fixes,
    family,
    initial_disk,
    is_declared,
    kernel_headers,
    module_build,
    restart,
)
from gpuenv.doctor.predicates import NOVA, held_by_nova, libraries_absent
from gpuenv.doctor.registry import CheckContext
from gpuenv.model.finding import Fix
from gpuenv.model.gpus import TURNED_OFF
from gpuenv.model.snapshot import Module, Snapshot
from gpuenv.model.strings import pattern

_PREBUILT = pattern(r"(?P<kernel>[^/]+)/kernel/nvidia-(?P<branch>\d{1,4})(?P<server>srv)?(?P<open>-open)?/nvidia\.ko")
# 6.8.0-45-generic; the mainline builds have six digits in the middle (6.12.1-061201-generic).
_OF_UBUNTU = pattern(r"\d+\.\d+\.0-\d{1,4}-(?P<flavour>[a-z][a-z0-9-]*)")
# Which of a distribution's kernels it is: "arch" of 6.6.1-arch1-1, "cachyos" of 6.6.2-3-cachyos.
_WORDS = pattern(r"[a-z]{2,}")
_PACKAGED = ("rhel", "suse")  # whose usual way is a package of the module, without a tree of DKMS
_BY_DKMS, _BY_INSTALLER = "/updates/dkms/", "/kernel/drivers/video/"


def into_this_kernel(snapshot: Snapshot, kernel: str) -> tuple[Fix, ...]:
    """How the module is installed for this kernel; by package only where one installed it for another kernel."""
    files, others = snapshot.driver.module_files.value or (), snapshot.driver.module_kernels.value or ()
    built_here = snapshot.driver.dkms or any(_BY_DKMS in path for path in files)
    by_akmods = family(snapshot) == "fedora" and not any(_BY_INSTALLER in path for path in files)
    if built_here or by_akmods:
        return _built_here(snapshot, kernel)
    package = _package(snapshot, kernel, files)
    if package:
        command = ("sudo", "apt-get", "install", package)
        return (Fix("Install the driver's module for this kernel, then load it.", command),)
    updated = [other for other in others if _WORDS.findall(other) == _WORDS.findall(kernel)]
    if updated and family(snapshot) == "arch":  # which keeps one release of each kernel: it was updated
        return (restart(snapshot, f"so that the kernel starts that has the module, {updated[-1]}"),)
    if family(snapshot) == "arch" or not (others or family(snapshot) in _PACKAGED):
        either = Fix("Or install the package that brings it for this kernel, or start the kernel that has one.")
        return (*_built_here(snapshot, kernel), either)
    return (_in_words(snapshot, others, files),)


def _built_here(snapshot: Snapshot, kernel: str) -> tuple[Fix, ...]:
    return (
        Fix("Install the headers of this kernel.", kernel_headers(snapshot, kernel)),
        Fix("Build the module for this kernel.", module_build(snapshot, kernel)),
    )


def _package(snapshot: Snapshot, kernel: str, files: tuple[str, ...]) -> str | None:
    """Ubuntu's package for this kernel, where another of its kernels has one of the same flavour and branch."""
    own, branch = _OF_UBUNTU.fullmatch(kernel), snapshot.driver.branch.value
    prebuilt = [match for path in files if (match := _PREBUILT.match(path))]
    if own is None or family(snapshot) != "ubuntu" or len(prebuilt) != len(files):
        return None
    kinds = set()
    for match in prebuilt:
        other = _OF_UBUNTU.fullmatch(match["kernel"])
        alike = other is not None and other["flavour"] == own["flavour"]
        if alike and branch in (None, int(match["branch"])):
            kinds.add(match["branch"] + ("-server" if match["server"] else "") + (match["open"] or ""))
    return f"linux-modules-nvidia-{kinds.pop()}-{kernel}" if len(kinds) == 1 else None


def _in_words(snapshot: Snapshot, others: tuple[str, ...], files: tuple[str, ...]) -> Fix:
    if family(snapshot) and any(_BY_INSTALLER in path for path in files):
        return Fix("Run the installer that has installed the driver (NVIDIA's .run file) again, under this kernel.")
    if not others:
        return Fix("Install the driver's module for this kernel in the way in which the driver was installed.")
    return Fix(f"Install the driver's module for this kernel from where that of the other is, or start {others[-1]}.")


# What keeps the driver's kernel module from being loaded, and how to let it through.
# modprobe.d(5): a blacklist line has modprobe ignore the module's own aliases, by which the kernel asks for it; by its
# name it can be loaded all the same. modprobe(8): modprobe.blacklist= is such a line. The kernel's module_blacklist=,
# an install line with a command that does nothing, and an alias for the module's own name keep it out by every name.
# dracut.cmdline(7): rd.driver.blacklist= is for the initial RAM disk.

_OF_THE_INITIAL_DISK = "/proc/cmdline: rd.driver.blacklist="
# canonical/nvidia-prime, prime-select, _blacklist_nvidia; others write the same line into files of their own below /etc
# (system76-power.conf, and blacklist-nvidia.conf, which EnvyControl's extension for GNOME reads; seen 2026-11-22).
_OF_PRIME_SELECT = ("/lib/modprobe.d/blacklist-nvidia.conf: ", "/usr/lib/modprobe.d/blacklist-nvidia.conf: ")


def blocks(snapshot: Snapshot) -> tuple[str, ...]:
    """What keeps it out of the system that runs; not what concerns the initial RAM disk alone."""
    found = snapshot.driver.module_blocks.value or ()
    return tuple(block for block in found if not block.startswith(_OF_THE_INITIAL_DISK))


def keeps_out(block: str) -> bool:
    """Whether it keeps the module out by every name, and not by its aliases alone."""
    _, _, line = block.partition(": ")
    return not line.startswith(("blacklist", "modprobe.blacklist="))


def by_prime_select(snapshot: Snapshot) -> bool:
    """Whether Ubuntu's prime-select has switched the GPU off: its line, in its file, on its system."""
    ours = family(snapshot) == "ubuntu"
    return ours and any(b.startswith(_OF_PRIME_SELECT) and b.endswith(TURNED_OFF) for b in blocks(snapshot))


def switched_off(snapshot: Snapshot) -> tuple[str, ...]:
    """The lines with which programs switch a laptop's GPU off."""
    return tuple(block for block in blocks(snapshot) if _is_switched_off(block))


def let_through(snapshot: Snapshot) -> Iterator[Fix]:
    """How the blacklist entries are removed."""
    found = blocks(snapshot)
    if not found:
        return
    if by_prime_select(snapshot):
        yield Fix("Switch the GPU on again, then restart.", ("sudo", "prime-select", "on-demand"))
        return
    tool = " (or switch the GPU on with the program that wrote it)" if any(map(_is_switched_off, found)) else ""
    yield Fix(f"Take out what keeps the module from being loaded{tool}: {'; '.join(found)}")
    at_boot = all(block.startswith("/proc/cmdline") for block in found)
    words = "make the boot loader's configuration anew" if at_boot else "make the initial RAM disk anew"
    yield Fix(f"Then {words}, and restart.", None if at_boot else initial_disk(snapshot))


def _is_switched_off(block: str) -> bool:
    return block.endswith(TURNED_OFF)


def free_driver(snapshot: Snapshot) -> str:
    """The name of the module that holds the GPU."""
    return NOVA if held_by_nova(snapshot) else "nouveau"


def in_its_place(ctx: CheckContext) -> tuple[Fix, ...]:
    """How NVIDIA's driver replaces the free one: lifts a blacklist, keeps the free driver out, or installs NVIDIA's."""
    snapshot = ctx.snapshot
    name = free_driver(snapshot)
    there = snapshot.driver.module.value is Module.NOT_LOADED and not is_declared(snapshot)
    if there and blocks(snapshot):
        by_file = Fix(f"Where {name} comes back, keep it out: blacklist {name}, in a file below /etc/modprobe.d.")
        words = f"Where {name} comes back, keep {name} out by the kernel's parameters."
        return (*let_through(snapshot), *(blacklist_fix(snapshot, name, words) or (by_file,)))
    if there and not libraries_absent(snapshot):
        words = f"NVIDIA's driver is installed: keep {name} out by the kernel's parameters."
        by_parameters = blacklist_fix(snapshot, name, words)
        lines = f"the line blacklist {name}"
        if name == "nouveau":
            lines = f"the lines blacklist {name} and options {name} modeset=0"
        words = f"NVIDIA's driver is installed: keep {name} out of its way, by {lines}"
        early = f"Make the initial RAM disk anew, from which {name} is loaded before that file counts, and restart."
        by_files = (
            Fix(f"{words} in a file below /etc/modprobe.d, where they are not there yet."),
            Fix(early, initial_disk(snapshot)),
        )
        taking = restart(snapshot, "so that NVIDIA's module takes the GPU")
        return (*_of_the_right_kind(ctx), *(by_parameters or by_files), taking)
    # Packages of the driver keep nouveau out; of nova the older ones know nothing.
    nova = Fix(f"Keep {NOVA} out, where the package does not: blacklist {NOVA}, in a file below /etc/modprobe.d.")
    return (
        *driver_fixes(ctx),
        *((nova,) if name == NOVA else ()),
        restart(snapshot, "so that the new module takes the GPU"),
    )


def _of_the_right_kind(ctx: CheckContext) -> tuple[Fix, ...]:
    """A look at the kind of the installed modules, which is unknown until they are loaded.

    The open ones say Dual MIT/GPL (open-gpu-kernel-modules, nv.c, MODULE_LICENSE), the proprietary ones NVIDIA.
    """
    kinds = wanted(ctx).kinds
    if len(kinds) != 1 or ctx.snapshot.driver.flavor.known:
        return ()
    words = f"See first that its modules are the {next(iter(kinds))} ones, without which nothing drives this GPU"
    return (Fix(f"{words}: the open ones say Dual MIT/GPL.", ("modinfo", "-F", "license", "nvidia")),)
