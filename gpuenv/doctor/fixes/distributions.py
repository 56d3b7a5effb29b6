"""Commands that install the driver and related packages, by distribution; gpuenv runs none of them.

Packages: NVIDIA, Driver Installation Guide (branch 620), Kernel Modules, table 5 (read 2026-11-21), and the READMEs of
NVIDIA's packaging repositories for the fabric manager (read November 2026); Debian, package nvidia-driver; Ubuntu,
ubuntu-drivers; RPM Fusion, Howto NVIDIA; Arch, package nvidia-open; NVIDIA, Installing the NVIDIA Container Toolkit.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.doctor.driver_requirements import (
    OPEN,
    PROPRIETARY,
    DriverRequirement,
    conflicting_gpus,
    driver_requirement,
    gpus_to_drive,
    requirement_of,
)
from gpuenv.doctor.registry import CheckContext
from gpuenv.model.finding import Fix
from gpuenv.model.gpus import driver_nodes, is_contained
from gpuenv.model.snapshot import Container, Snapshot, SourceState
from gpuenv.model.strings import pattern

_FAMILIES = {
    **dict.fromkeys(("ubuntu", "linuxmint", "pop", "elementary", "zorin", "neon", "tuxedo"), "ubuntu"),
    **dict.fromkeys(("debian", "raspbian", "kali", "devuan"), "debian"),
    **dict.fromkeys(("rhel", "centos", "rocky", "almalinux", "ol", "amzn", "scientific", "virtuozzo"), "rhel"),
    **dict.fromkeys(("fedora", "nobara"), "fedora"),
    **dict.fromkeys(("arch", "manjaro", "endeavouros", "cachyos", "garuda", "artix"), "arch"),
    **dict.fromkeys(("opensuse-leap", "opensuse-tumbleweed", "opensuse", "sles", "sled", "suse"), "suse"),
}
# Distributions whose display name (PRETTY_NAME of os-release, inxi's Distro) does not begin with their ID.
_DISPLAY_NAMES = {
    **dict.fromkeys(("linux mint", "pop!_os", "kde neon"), "ubuntu"),
    **dict.fromkeys(("red hat enterprise linux", "oracle linux", "amazon linux"), "rhel"),
}
_APT, _DNF = ("sudo", "apt-get", "install"), ("sudo", "dnf", "install")
_PACMAN, _ZYPPER = ("sudo", "pacman", "-S"), ("sudo", "zypper", "install")
_INSTALL = {"ubuntu": _APT, "debian": _APT, "rhel": _DNF, "fedora": _DNF, "arch": _PACMAN, "suse": _ZYPPER}
_Names = Mapping[str, str]  # package names by family, with placeholders for the driver's branch and version
COMPUTE_PART = {  # libcuda
    "debian": "libcuda1",
    "fedora": "xorg-x11-drv-nvidia-cuda",
    "rhel": "nvidia-driver-cuda",
    "arch": "nvidia-utils",
    "ubuntu": "libnvidia-compute-{branch}",
}
FIRMWARE = {"debian": "firmware-nvidia-gsp", "ubuntu": "nvidia-firmware-{branch}-{version}"}
FABRIC_MANAGER = {
    **dict.fromkeys(("debian", "suse", "rhel"), "cuda-drivers-fabricmanager-{branch}"),
    "ubuntu": "nvidia-fabricmanager-{branch}",
}
_OPEN_DRIVER = dict.fromkeys(("rhel", "arch", "suse"), "nvidia-open")
_OPEN_MODULES = {**_OPEN_DRIVER, "debian": "nvidia-open-kernel-dkms", "ubuntu": "nvidia-driver-{branch}-open"}
# Google, Container-Optimized OS, Run GPUs: it has no package manager.
_SYSTEM_INSTALLERS = {"cos": ("sudo", "cos-extensions", "install", "gpu")}
_LAST_BEFORE_TURING = 580  # the matrix's row of Maxwell, Pascal and Volta


def family(snapshot: Snapshot) -> str | None:
    """``debian``, ``ubuntu``, ``rhel``, ``fedora``, ``arch`` or ``suse``; None for another distribution."""
    name = (snapshot.host.distribution.value or "").casefold()
    by_name = next((kind for prefix, kind in _DISPLAY_NAMES.items() if name.startswith(prefix)), None)
    return by_name or _FAMILIES.get(name.partition(" ")[0])


def install_command(snapshot: Snapshot, names: _Names) -> tuple[str, ...] | None:
    """The command that installs a package for the installed driver; None if its name is unknown."""
    kind, branch, version = family(snapshot) or "", snapshot.driver.branch.value, snapshot.driver.version.value
    name = names.get(kind, "")
    unknown = not name or (branch is None and "{branch}" in name) or (version is None and "{version}" in name)
    return None if unknown else (*_INSTALL[kind], *name.format(branch=branch, version=version).split())


def driver_fixes(ctx: CheckContext) -> tuple[Fix, ...]:
    """How to install the driver."""
    snapshot = ctx.snapshot
    if ctx.needs.tegra:
        return (Fix("Install the driver of JetPack: flash the board, or install nvidia-jetpack."),)
    if snapshot.host.wsl.value or snapshot.host.os.value == "windows":
        not_in_linux = ", not in Linux" if snapshot.host.wsl.value else ""
        install = Fix(f"Install the NVIDIA driver in Windows{not_in_linux} (NVIDIA's app or its download page).")
        return _wsl_driver_fixes(snapshot, install)
    command = _SYSTEM_INSTALLERS.get((snapshot.host.distribution.value or "").partition(" ")[0])
    by_system = (Fix("Install the NVIDIA driver with the system's own program.", command),) if command else ()
    return conflicting_gpus(ctx) or by_system or _driver_package(ctx)


def _wsl_driver_fixes(snapshot: Snapshot, install: Fix) -> tuple[Fix, ...]:
    """Fixes for WSL without /dev/dxg, which sees no GPU whatever driver Windows has.

    Microsoft, Comparing WSL versions, and Advanced settings configuration in WSL: gpuSupport.
    """
    is_kernel_probed = snapshot.source("kernel").state is not SourceState.NOT_ASKED
    if not snapshot.host.wsl.value or is_contained(snapshot) or driver_nodes(snapshot) or not is_kernel_probed:
        return (install,)
    if (snapshot.host.kernel.value or "").endswith("-Microsoft"):  # WSL 2 ends in -microsoft-standard-WSL2
        return (
            Fix("Convert this distribution to WSL 2, in Windows (wsl --set-version): WSL 1 has no GPU support."),
            install,
        )
    return (install, Fix("If .wslconfig in Windows has gpuSupport=false, remove that line and restart WSL."))


def _driver_package(ctx: CheckContext) -> tuple[Fix, ...]:
    snapshot = ctx.snapshot
    kind, needed = family(snapshot), driver_requirement(ctx)
    newest_is_too_new = needed.last is not None and _chooses_newest(ctx)
    # Needed in addition to packages that are layered onto an image.
    without_nouveau = blacklist_fix(snapshot, "nouveau", "Before that restart, blacklist nouveau by kernel parameters.")
    if fixes := _immutable_system_fixes(snapshot, needed, with_older=newest_is_too_new):
        return fixes
    if newest_is_too_new and needed.last is not None:
        text = f"Install the NVIDIA driver of branch {needed.last} with its proprietary modules, then restart"
        return (driver_branch_fix(snapshot, kind, needed.last, text), *without_nouveau)
    if kind == "debian" and OPEN in needed.kinds:  # its package has the proprietary ones
        return (Fix(f"Install the NVIDIA driver of {needed.text}, then restart."),)
    if kind in ("ubuntu", "debian"):
        command = ("sudo", "ubuntu-drivers", "install") if kind == "ubuntu" else (*_APT, "nvidia-driver")
        needs = " (from the non-free component)" if kind == "debian" else ""
        return (Fix(f"Install the NVIDIA driver{needs}, then restart.", command),)
    if kind == "fedora":
        packages = ("akmod-nvidia", "xorg-x11-drv-nvidia-cuda")
        install = Fix("Install the NVIDIA driver (from RPM Fusion), then restart.", (*_DNF, *packages))
        return (install, *without_nouveau)
    install = Fix("Install the NVIDIA driver, then restart.", install_command(snapshot, _OPEN_DRIVER))
    enable = ("sudo", "dnf", "module", "enable", "nvidia-driver:open-dkms")
    streams = kind == "rhel" and release_of(snapshot) in WITH_STREAMS
    stream = (Fix("Select the open kernel modules from NVIDIA's repository.", enable),) if streams else ()
    return (*stream, install)


def _chooses_newest(ctx: CheckContext) -> bool:
    """Whether the distribution's default package may be too new for one of the GPUs.

    Debian's releases have branches before 590; ubuntu-drivers considers one GPU, and knows which branch it needs.
    """
    kind, needed = family(ctx.snapshot), driver_requirement(ctx)
    if kind == "debian":
        return needed.last is not None and needed.last < _LAST_BEFORE_TURING
    gpus = [gpu for part in gpus_to_drive(ctx) for gpu in part]
    return kind != "ubuntu" or len({requirement_of((gpu,), ctx.snapshot, ctx.matrix) for gpu in gpus}) > 1


def driver_location(snapshot: Snapshot) -> str:
    """Where the driver is to be changed, if not here: on a container's host, in Windows for WSL."""
    if snapshot.host.wsl.value:
        return " in Windows"
    return " on the host" if is_contained(snapshot) else ""


def other_kernel_modules_fix(snapshot: Snapshot, *, wants_open: bool) -> Fix:
    """How to change to the open kernel modules, or to the proprietary ones, up to branch 580 for older GPUs."""
    if is_declared(snapshot):
        option = f"hardware.nvidia.open = {'true' if wants_open else 'false'};"
        return Fix(f"Write {option} into configuration.nix, rebuild, and restart.", _NIXOS_REBUILD)
    if wants_open:
        text = "Replace the driver's proprietary kernel modules with the open ones, then restart."
        return Fix(text, install_command(snapshot, _OPEN_MODULES))
    branch = min(snapshot.driver.branch.value or _LAST_BEFORE_TURING, _LAST_BEFORE_TURING)
    text = f"Replace the open kernel modules with the proprietary ones of branch {branch}, then restart."
    names = {"debian": "nvidia-kernel-dkms", "ubuntu": f"nvidia-driver-{branch}"}
    return Fix(text, install_command(snapshot, names))


def kernel_headers_command(snapshot: Snapshot, kernel: str) -> tuple[str, ...] | None:
    """The command that installs the headers of a kernel."""
    kind = family(snapshot) or ""
    name = headers_package(kind, snapshot.host.distribution.value or "", kernel)
    return (*_INSTALL[kind], name) if name else None


def compiler_fix(snapshot: Snapshot, name: str) -> Fix:
    """How to install the compiler that the kernel was built with; Debian and Ubuntu have a package of each."""
    return Fix(
        f"Install {name}, the compiler that built this kernel, and let DKMS build the module again.",
        install_command(snapshot, dict.fromkeys(("ubuntu", "debian"), name)),
    )


def module_build_command(snapshot: Snapshot, kernel: str | None = None) -> tuple[str, ...]:
    """The command that builds the driver's module for the running kernel."""
    if family(snapshot) == "fedora":
        return ("sudo", "akmods", "--force", *(("--kernels", kernel) if kernel else ()))
    return ("sudo", "dkms", "autoinstall", *(("-k", kernel) if kernel else ()))


def initramfs_command(snapshot: Snapshot) -> tuple[str, ...] | None:
    """The command that rebuilds the initramfs, which may contain modules and blacklists too."""
    commands = {
        **dict.fromkeys(("ubuntu", "debian"), ("update-initramfs", "-u")),
        **dict.fromkeys(("fedora", "rhel", "suse"), ("dracut", "--force")),
        "arch": ("mkinitcpio", "-P"),
    }
    found = commands.get(family(snapshot) or "")
    return ("sudo", *found) if found else None


def restart_fix(snapshot: Snapshot, why: str) -> Fix:
    """How to restart the machine: for WSL in Windows, for a container the host."""
    if snapshot.host.wsl.value:
        return Fix(f"Restart WSL, in Windows, {why}.", ("wsl.exe", "--shutdown"))
    if is_contained(snapshot):
        return Fix(f"Restart the host, {why}.", ("sudo", "reboot"))
    return Fix(f"Restart the machine, {why}.", ("sudo", "reboot"))


def container_toolkit_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How the host's engine gives containers a GPU; a container does not know the host's distribution."""
    install = (
        None
        if is_contained(snapshot)
        else install_command(snapshot, dict.fromkeys(_INSTALL, "nvidia-container-toolkit"))
    )
    where = "If that fails: on the host, install" if is_contained(snapshot) else "Install"
    first = Fix(f"{where} the NVIDIA container toolkit.", install)
    if snapshot.host.container.value is Container.PODMAN:
        describe = ("sudo", "nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.yaml")
        return (first, Fix("On the host, generate the CDI description of the GPUs.", describe))
    return (
        first,
        Fix(
            "On the host, configure Docker to use it.",
            ("sudo", "nvidia-ctk", "runtime", "configure", "--runtime=docker"),
        ),
        Fix("On the host, restart Docker.", ("sudo", "systemctl", "restart", "docker")),
    )


# How to install the driver on systems without a package manager: by a configuration, or in an image.
# NixOS Wiki, NVIDIA: services.xserver.videoDrivers, hardware.nvidia.open, and unfree packages. Universal Blue's images
# are changed for each other by rpm-ostree rebase; of those with the driver the names end in -nvidia, or in -nvidia-open
# for Turing and newer (ublue-os/bazzite-dx#150, ublue-os/bluefin, discussion 3081). RPM Fusion, Howto NVIDIA, OSTree:
# kernel parameters. openSUSE's forum, 190227, of MicroOS: transactional-update has no modules of DKMS (all read
# November 2026).

_NIXOS_REBUILD = ("sudo", "nixos-rebuild", "boot")
_UNIVERSAL_BLUE = ("bazzite", "bluefin", "aurora", "ucore")
_TRANSACTIONAL = ("opensuse-microos", "opensuse-leap-micro", "sle-micro", "sl-micro")
_KERNEL_PARAMETERS = ("sudo", "rpm-ostree", "kargs")


def _immutable_system_fixes(snapshot: Snapshot, needed: DriverRequirement, *, with_older: bool) -> tuple[Fix, ...]:
    """How an immutable system gets the driver: by its configuration or image; empty for one with a package manager.

    ``with_older``: whether the newest driver is too new for one of the GPUs.
    """
    name = (snapshot.host.distribution.value or "").partition(" ")[0]
    older = needed.last if with_older else None
    if name == "nixos":
        lines = ['services.xserver.videoDrivers = [ "nvidia" ];']
        if _needs_open_modules(needed) is not None:
            lines.append(f"hardware.nvidia.open = {'true' if _needs_open_modules(needed) else 'false'};")
        if older is not None:
            lines.append(f"{NIXOS_LEGACY_DRIVER.format(older)};")
        text = f"Write {' '.join(lines)} into configuration.nix (the driver is unfree), rebuild, and restart."
        return (Fix(text, _NIXOS_REBUILD),)
    if name in _UNIVERSAL_BLUE:
        suffix = {True: "-nvidia-open", False: "-nvidia", None: "-nvidia-open, or -nvidia for a GPU before Turing"}
        text = "Change to this system's image with the driver (rpm-ostree rebase): its name ends in"
        return (
            Fix(f"{text} {suffix[_needs_open_modules(needed)]}. Then restart."),
            Fix("Show the current image.", ("rpm-ostree", "status")),
        )
    if name in _TRANSACTIONAL:
        text = "Install the NVIDIA driver with a prebuilt module, as DKMS does not work on this system"
        return (Fix(f"{text}: transactional-update pkg install, then restart."),)
    return ()


def _needs_open_modules(needed: DriverRequirement) -> bool | None:
    """Whether the open modules drive these GPUs; None if unknown."""
    if PROPRIETARY in needed.kinds:
        return False
    return True if needed.kinds or needed.first is not None else None


def blacklist_fix(snapshot: Snapshot, name: str, text: str) -> tuple[Fix, ...]:
    """How to blacklist a module on an ostree image, its initramfs included; empty elsewhere."""
    if snapshot.host.image.value != "ostree":
        return ()
    blacklist = (f"--append=rd.driver.blacklist={name}", f"--append=modprobe.blacklist={name}")
    return (Fix(text, (*_KERNEL_PARAMETERS, *blacklist)),)


def is_declared(snapshot: Snapshot) -> bool:
    """Whether the system's configuration generates /etc/modprobe.d and names the driver (NixOS)."""
    return (snapshot.host.distribution.value or "").startswith("nixos")


# The package with the headers of a kernel, one for each kind of kernel.
# Read off public scripts and spec files that install them, and distributions' advisories: Proxmox VE has Debian's
# system with kernels of its own (pve-headers, and proxmox-headers since 6.5). Oracle Linux has Red Hat's kernels and
# UEK (kernel-uek-devel). Red Hat's own for pages of 64 KiB and for real time end with a plus and their kind
# (kernel-64k, kernel-rt). Amazon Linux 2023 has 6.1 as "kernel" and each newer one with its number (kernel6.12-devel).
# SUSE's end with their kind (kernel-default, kernel-azure, kernel-rt, kernel-64kb, kernel-longterm).

_NUMBERS = pattern(r"(?P<major>\d+)\.(?P<minor>\d+)\.")
_PROXMOX_KERNEL = pattern(r"\d[\d.-]*-pve")
_WITH_KIND = pattern(r"(?P<plain>[^+]+)\+(?P<kind>64k|rt)")
_SUSE_KERNEL = pattern(r".*-(?P<kind>default|azure|rt|64kb|longterm)")
_FIRST_OF_PROXMOX = (6, 5)


def headers_package(family: str, distribution: str, kernel: str) -> str | None:
    """The package with the headers of a kernel, with its release if several may be installed; None if unknown.

    Args:
        family: the result of ``family()``.
        distribution: ``amzn 2023``, or its display name.
        kernel: the output of ``uname -r``.
    """
    if family == "debian" and _PROXMOX_KERNEL.fullmatch(kernel):
        return f"{'proxmox' if _numbers(kernel) >= _FIRST_OF_PROXMOX else 'pve'}-headers-{kernel}"
    if family in ("ubuntu", "debian"):
        return f"linux-headers-{kernel}"
    if family in ("fedora", "rhel"):
        return _red_hat_headers(distribution, kernel)
    if family == "suse":
        match = _SUSE_KERNEL.fullmatch(kernel)
        return f"kernel-{match['kind'] if match else 'default'}-devel"
    return "linux-headers" if family == "arch" and "-arch" in kernel else None  # its other kernels have their own


def _red_hat_headers(distribution: str, kernel: str) -> str:
    if match := _WITH_KIND.fullmatch(kernel):
        return f"kernel-{match['kind']}-devel-{match['plain']}"
    if "uek" in kernel:
        return f"kernel-uek-devel-{kernel}"
    major, minor = _numbers(kernel)
    if distribution.startswith(("amzn 2023", "Amazon Linux 2023")) and (major, minor) > (6, 1):
        return f"kernel{major}.{minor}-devel-{kernel}"
    return f"kernel-devel-{kernel}"


def _numbers(kernel: str) -> tuple[int, int]:
    found = _NUMBERS.match(kernel)
    return (int(found["major"]), int(found["minor"])) if found else (0, 0)


# How to install the last driver branch for an old GPU, by distribution.
# Ubuntu: its packages nvidia-driver-BRANCH. RPM Fusion: Howto NVIDIA, its packages of legacy branches
# (akmod-nvidia-580xx with Fedora 44). Arch Linux, News, NVIDIA 590 driver drops Pascal support (December 2025):
# nvidia-580xx-dkms of the AUR. NixOS Wiki, NVIDIA, Legacy branches. NVIDIA/yum-packaging-nvidia-driver,
# docs/guide-rhel8.md, Select an installation branch: the stream NNN-dkms holds on to a branch, with the proprietary
# modules (all read November 2026).

WITH_STREAMS = ("8", "9")  # releases of the RHEL family in which the driver is a module of dnf
_NUMBER = pattern(r"(?<= )\d+")
_STREAM = "nvidia-driver:{0}-dkms"
NIXOS_LEGACY_DRIVER = "hardware.nvidia.package = config.boot.kernelPackages.nvidiaPackages.legacy_{0}"
_LEGACY_SOURCES = {
    "arch": "nvidia-{0}xx-dkms from the AUR",
    "nixos": NIXOS_LEGACY_DRIVER,
}
_PACKAGES = {
    "ubuntu": ("apt-get", "install", "nvidia-driver-{0}"),
    "fedora": ("dnf", "install", "--allowerasing", "akmod-nvidia-{0}xx", "xorg-x11-drv-nvidia-{0}xx-cuda"),
}


def driver_branch_fix(snapshot: Snapshot, kind: str | None, branch: int, text: str) -> Fix:
    """How to install the driver of a branch, by package if its name is known; ``text`` has no full stop."""
    name = kind or (snapshot.host.distribution.value or "").partition(" ")[0]
    if is_contained(snapshot):
        return Fix(f"{text}.")
    if name == "rhel" and release_of(snapshot) in WITH_STREAMS:
        return Fix(f"{text} (from NVIDIA's repository).", ("sudo", "dnf", "module", "install", _STREAM.format(branch)))
    if name in _LEGACY_SOURCES:
        return Fix(f"{text}: {_LEGACY_SOURCES[name].format(branch)}.")
    command = ("sudo", *(part.format(branch) for part in _PACKAGES[name])) if name in _PACKAGES else None
    return Fix(f"{text}.", command)


def release_of(snapshot: Snapshot) -> str:
    """``9`` of rocky 9.5, and of Rocky Linux 9.5 (Blue Onyx); empty if unknown."""
    found = _NUMBER.search(snapshot.host.distribution.value or "")
    return found[0] if found else ""
