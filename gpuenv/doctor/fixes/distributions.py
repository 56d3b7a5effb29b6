"""Commands that install the driver and what belongs to it, by distribution; gpuenv runs none of them.

Packages: NVIDIA, Driver Installation Guide (branch 620), Kernel Modules, table 5 (read 2026-11-21), and the READMEs of
NVIDIA's packaging repositories for the fabric manager (read November 2026); Debian, package nvidia-driver; Ubuntu,
ubuntu-drivers; RPM Fusion, Howto NVIDIA; Arch, package nvidia-open; NVIDIA, Installing the NVIDIA Container Toolkit.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.doctor.driver_requirements import OPEN, PROPRIETARY, Wants, no_one_driver, to_drive, wanted, wants
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
# Those whose name as people see it (PRETTY_NAME of os-release, inxi's Distro) does not begin with their ID.
_SEEN = {
    **dict.fromkeys(("linux mint", "pop!_os", "kde neon"), "ubuntu"),
    **dict.fromkeys(("red hat enterprise linux", "oracle linux", "amazon linux"), "rhel"),
}
_APT, _DNF = ("sudo", "apt-get", "install"), ("sudo", "dnf", "install")
_PACMAN, _ZYPPER = ("sudo", "pacman", "-S"), ("sudo", "zypper", "install")
_INSTALL = {"ubuntu": _APT, "debian": _APT, "rhel": _DNF, "fedora": _DNF, "arch": _PACMAN, "suse": _ZYPPER}
_Names = Mapping[str, str]  # of a package, by family; braces stand for the driver's branch and version
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
_OWN_PROGRAMS = {"cos": ("sudo", "cos-extensions", "install", "gpu")}
_LAST_BEFORE_TURING = 580  # the matrix's row of Maxwell, Pascal and Volta


def family(snapshot: Snapshot) -> str | None:
    """``debian``, ``ubuntu``, ``rhel``, ``fedora``, ``arch`` or ``suse``; None for another distribution."""
    name = (snapshot.host.distribution.value or "").casefold()
    seen = next((kind for words, kind in _SEEN.items() if name.startswith(words)), None)
    return seen or _FAMILIES.get(name.partition(" ")[0])


def install_command(snapshot: Snapshot, names: _Names) -> tuple[str, ...] | None:
    """The command that installs a package for the driver that is there; None where its name is not known."""
    kind, branch, version = family(snapshot) or "", snapshot.driver.branch.value, snapshot.driver.version.value
    name = names.get(kind, "")
    unknown = not name or (branch is None and "{branch}" in name) or (version is None and "{version}" in name)
    return None if unknown else (*_INSTALL[kind], *name.format(branch=branch, version=version).split())


def driver_fixes(ctx: CheckContext) -> tuple[Fix, ...]:
    """How to install the driver here."""
    snapshot = ctx.snapshot
    if ctx.needs.tegra:
        return (Fix("Install the driver that comes with JetPack: flash the board, or install nvidia-jetpack."),)
    if snapshot.host.wsl.value or snapshot.host.os.value == "windows":
        where = "; install none in Linux" if snapshot.host.wsl.value else ""
        install = Fix(f"Install the NVIDIA driver in Windows (NVIDIA's app or its download page){where}.")
        return _with_what_shows_it(snapshot, install)
    own = _OWN_PROGRAMS.get((snapshot.host.distribution.value or "").partition(" ")[0])
    by_itself = (Fix("Let the system's own program install the NVIDIA driver.", own),) if own else ()
    return no_one_driver(ctx) or by_itself or _driver_package(ctx)


def _with_what_shows_it(snapshot: Snapshot, install: Fix) -> tuple[Fix, ...]:
    """What WSL needs in addition to a driver in Windows, where it has no /dev/dxg and so sees no GPU.

    Microsoft, Comparing WSL versions, and Advanced settings configuration in WSL: gpuSupport.
    """
    looked = snapshot.source("kernel").state is not SourceState.NOT_ASKED
    if not snapshot.host.wsl.value or is_contained(snapshot) or driver_nodes(snapshot) or not looked:
        return (install,)
    if (snapshot.host.kernel.value or "").endswith("-Microsoft"):  # that of WSL 2 ends in -microsoft-standard-WSL2
        return (Fix("Convert this distribution to WSL 2, in Windows (wsl --set-version): WSL 1 shows no GPU."), install)
    return (install, Fix("Where .wslconfig in Windows says gpuSupport=false, take that out, and restart WSL."))


def _driver_package(ctx: CheckContext) -> tuple[Fix, ...]:
    snapshot = ctx.snapshot
    kind, needed = family(snapshot), wanted(ctx)
    late = needed.last is not None and _chooses_newest(ctx)
    # What a driver needs in addition to its packages where these are layered onto an image.
    without_nouveau = blacklist_fix(
        snapshot, "nouveau", "Keep nouveau out by the kernel's parameters, before that restart."
    )
    if by_other_means := _declared(snapshot, needed, with_older=late):
        return by_other_means
    if late and needed.last is not None:
        words = f"Install the NVIDIA driver of branch {needed.last} with its proprietary modules, then restart"
        return (older_driver(snapshot, kind, needed.last, words), *without_nouveau)
    if kind == "debian" and OPEN in needed.kinds:  # its package brings the proprietary ones
        return (Fix(f"Install the NVIDIA driver of {needed.words}, then restart."),)
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
    stream = (Fix("Choose the open kernel modules, from NVIDIA's repository.", enable),) if streams else ()
    return (*stream, install)


def _chooses_newest(ctx: CheckContext) -> bool:
    """Whether the distribution's usual package may be too new for one of the GPUs.

    Debian's releases have branches before 590; ubuntu-drivers goes by one GPU, and knows which of them it is for.
    """
    kind, needed = family(ctx.snapshot), wanted(ctx)
    if kind == "debian":
        return needed.last is not None and needed.last < _LAST_BEFORE_TURING
    gpus = [gpu for part in to_drive(ctx) for gpu in part]
    return kind != "ubuntu" or len({wants((gpu,), ctx.snapshot, ctx.matrix) for gpu in gpus}) > 1


def driver_location(snapshot: Snapshot) -> str:
    """Where the driver is to be changed, where that is not here: on a container's host, in Windows for WSL."""
    if snapshot.host.wsl.value:
        return " in Windows"
    return " on the host" if is_contained(snapshot) else ""


def other_kernel_modules(snapshot: Snapshot, *, wants_open: bool) -> Fix:
    """How to come to the open kernel modules, or the proprietary ones, up to branch 580 for older GPUs."""
    if is_declared(snapshot):
        words = f"Write hardware.nvidia.open = {'true' if wants_open else 'false'}; into configuration.nix"
        return Fix(f"{words}, let it be built, and restart.", _BUILT)
    if wants_open:
        words = "Install the open kernel modules of the driver in place of the proprietary ones, then restart."
        return Fix(words, install_command(snapshot, _OPEN_MODULES))
    branch = min(snapshot.driver.branch.value or _LAST_BEFORE_TURING, _LAST_BEFORE_TURING)
    words = f"Install the proprietary kernel modules of branch {branch} in place of the open ones, then restart."
    names = {"debian": "nvidia-kernel-dkms", "ubuntu": f"nvidia-driver-{branch}"}
    return Fix(words, install_command(snapshot, names))


def kernel_headers(snapshot: Snapshot, kernel: str) -> tuple[str, ...] | None:
    """The command that installs the headers of a kernel."""
    kind = family(snapshot) or ""
    name = headers_package(kind, snapshot.host.distribution.value or "", kernel)
    return (*_INSTALL[kind], name) if name else None


def the_compiler(snapshot: Snapshot, name: str) -> Fix:
    """How to come to the compiler that the kernel was built with; Debian and Ubuntu have a package of each."""
    return Fix(
        f"Install the compiler that this kernel was built with, {name}, and let DKMS build the module again.",
        install_command(snapshot, dict.fromkeys(("ubuntu", "debian"), name)),
    )


def module_build(snapshot: Snapshot, kernel: str | None = None) -> tuple[str, ...]:
    """The command that builds the driver's module for the running kernel."""
    if family(snapshot) == "fedora":
        return ("sudo", "akmods", "--force", *(("--kernels", kernel) if kernel else ()))
    return ("sudo", "dkms", "autoinstall", *(("-k", kernel) if kernel else ()))


def initial_disk(snapshot: Snapshot) -> tuple[str, ...] | None:
    """The command that rebuilds the initial RAM disk, which may contain modules and blacklists too."""
    commands = {
        **dict.fromkeys(("ubuntu", "debian"), ("update-initramfs", "-u")),
        **dict.fromkeys(("fedora", "rhel", "suse"), ("dracut", "--force")),
        "arch": ("mkinitcpio", "-P"),
    }
    found = commands.get(family(snapshot) or "")
    return ("sudo", *found) if found else None


def restart(snapshot: Snapshot, why: str) -> Fix:
    """Starting the machine anew: the whole of WSL from Windows, and from a container the host."""
    if snapshot.host.wsl.value:
        return Fix(f"Restart WSL, in Windows, {why}.", ("wsl.exe", "--shutdown"))
    if is_contained(snapshot):
        return Fix(f"Restart the host, there, {why}.", ("sudo", "reboot"))
    return Fix(f"Restart the machine, {why}.", ("sudo", "reboot"))


def container_toolkit(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How the host's engine gets to hand GPUs to containers; of the host's distribution a container knows nothing."""
    install = (
        None
        if is_contained(snapshot)
        else install_command(snapshot, dict.fromkeys(_INSTALL, "nvidia-container-toolkit"))
    )
    where = "If that is refused: on the host, install" if is_contained(snapshot) else "Install"
    first = Fix(f"{where} the NVIDIA container toolkit.", install)
    if snapshot.host.container.value is Container.PODMAN:
        describe = ("sudo", "nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.yaml")
        return (first, Fix("Let it describe the GPUs, there.", describe))
    return (
        first,
        Fix("Tell Docker of it, there.", ("sudo", "nvidia-ctk", "runtime", "configure", "--runtime=docker")),
        Fix("Restart Docker, there.", ("sudo", "systemctl", "restart", "docker")),
    )


# How the driver comes to systems that no package manager changes: by a configuration, or in an image.
# NixOS Wiki, NVIDIA: services.xserver.videoDrivers, hardware.nvidia.open, and unfree packages. Universal Blue's images
# are changed for each other by rpm-ostree rebase; of those with the driver the names end in -nvidia, or in -nvidia-open
# for Turing and newer (ublue-os/bazzite-dx#150, ublue-os/bluefin, discussion 3081). RPM Fusion, Howto NVIDIA, OSTree:
# the kernel's parameters. openSUSE's forum, 190227, of MicroOS: transactional-update has no modules of DKMS (all read
# November 2026).

_BUILT = ("sudo", "nixos-rebuild", "boot")
_OF_UNIVERSAL_BLUE = ("bazzite", "bluefin", "aurora", "ucore")
_TRANSACTIONAL = ("opensuse-microos", "opensuse-leap-micro", "sle-micro", "sl-micro")
_KERNEL_PARAMETERS = ("sudo", "rpm-ostree", "kargs")


def _declared(snapshot: Snapshot, needed: Wants, *, with_older: bool) -> tuple[Fix, ...]:
    """How an immutable system gets the driver: by its configuration or image; empty for one with a package manager.

    ``with_older``: whether the newest driver is too new for one of the GPUs.
    """
    name = (snapshot.host.distribution.value or "").partition(" ")[0]
    older = needed.last if with_older else None
    if name == "nixos":
        lines = ['services.xserver.videoDrivers = [ "nvidia" ];']
        if _open(needed) is not None:
            lines.append(f"hardware.nvidia.open = {'true' if _open(needed) else 'false'};")
        if older is not None:
            lines.append(f"{OF_NIXOS.format(older)};")
        words = f"Write {' '.join(lines)} into configuration.nix (the driver is unfree), let it be built, and restart."
        return (Fix(words, _BUILT),)
    if name in _OF_UNIVERSAL_BLUE:
        ending = {True: "-nvidia-open", False: "-nvidia", None: "-nvidia-open, or -nvidia for a GPU before Turing"}
        words = "Change to this system's image with the driver (rpm-ostree rebase): its name ends in"
        return (
            Fix(f"{words} {ending[_open(needed)]}. Then restart."),
            Fix("See which image it is now.", ("rpm-ostree", "status")),
        )
    if name in _TRANSACTIONAL:
        words = "Install the NVIDIA driver with a module that is built already, as DKMS builds none there"
        return (Fix(f"{words}: transactional-update pkg install, then restart."),)
    return ()


def _open(needed: Wants) -> bool | None:
    """Whether the open modules drive these GPUs; None where nothing is known of them."""
    if PROPRIETARY in needed.kinds:
        return False
    return True if needed.kinds or needed.first is not None else None


def blacklist_fix(snapshot: Snapshot, name: str, words: str) -> tuple[Fix, ...]:
    """How a module is kept out on an ostree image, its initial RAM disk included; empty elsewhere."""
    if snapshot.host.image.value != "ostree":
        return ()
    blacklist = (f"--append=rd.driver.blacklist={name}", f"--append=modprobe.blacklist={name}")
    return (Fix(words, (*_KERNEL_PARAMETERS, *blacklist)),)


def is_declared(snapshot: Snapshot) -> bool:
    """Whether the system's configuration generates /etc/modprobe.d and names the driver (NixOS)."""
    return (snapshot.host.distribution.value or "").startswith("nixos")


# The package with the headers of a kernel: distributions have kernels of several kinds, and a package for each.
# Read off public scripts and spec files that install them, and distributions' advisories: Proxmox VE has Debian's
# system with kernels of its own (pve-headers, and proxmox-headers since 6.5). Oracle Linux has Red Hat's kernels and
# UEK (kernel-uek-devel). Red Hat's own for pages of 64 KiB and for real time bear a plus and their kind at the end
# (kernel-64k, kernel-rt). Amazon Linux 2023 has 6.1 as "kernel" and each newer one with its number (kernel6.12-devel).
# SUSE's bear theirs at the end (kernel-default, kernel-azure, kernel-rt, kernel-64kb, kernel-longterm).

_NUMBERS = pattern(r"(?P<major>\d+)\.(?P<minor>\d+)\.")
_OF_PROXMOX = pattern(r"\d[\d.-]*-pve")
_WITH_KIND = pattern(r"(?P<plain>[^+]+)\+(?P<kind>64k|rt)")
_OF_SUSE = pattern(r".*-(?P<kind>default|azure|rt|64kb|longterm)")
_FIRST_OF_PROXMOX = (6, 5)


def headers_package(family: str, distribution: str, kernel: str) -> str | None:
    """The package with the headers of a kernel, with its release where several may be installed; None if unknown.

    Args:
        family: of ``family()``.
        distribution: ``amzn 2023``, or its display name.
        kernel: the output of ``uname -r``.
    """
    if family == "debian" and _OF_PROXMOX.fullmatch(kernel):
        return f"{'proxmox' if _numbers(kernel) >= _FIRST_OF_PROXMOX else 'pve'}-headers-{kernel}"
    if family in ("ubuntu", "debian"):
        return f"linux-headers-{kernel}"
    if family in ("fedora", "rhel"):
        return _of_red_hat(distribution, kernel)
    if family == "suse":
        own = _OF_SUSE.fullmatch(kernel)
        return f"kernel-{own['kind'] if own else 'default'}-devel"
    return "linux-headers" if family == "arch" and "-arch" in kernel else None  # its other kernels have their own


def _of_red_hat(distribution: str, kernel: str) -> str:
    if own := _WITH_KIND.fullmatch(kernel):
        return f"kernel-{own['kind']}-devel-{own['plain']}"
    if "uek" in kernel:
        return f"kernel-uek-devel-{kernel}"
    major, minor = _numbers(kernel)
    if distribution.startswith(("amzn 2023", "Amazon Linux 2023")) and (major, minor) > (6, 1):
        return f"kernel{major}.{minor}-devel-{kernel}"
    return f"kernel-devel-{kernel}"


def _numbers(kernel: str) -> tuple[int, int]:
    found = _NUMBERS.match(kernel)
    return (int(found["major"]), int(found["minor"])) if found else (0, 0)


# How to come to the last driver branch that drives an old GPU, by the distribution.
# Ubuntu: its packages nvidia-driver-BRANCH. RPM Fusion: Howto NVIDIA, its packages of legacy branches
# (akmod-nvidia-580xx with Fedora 44). Arch Linux, News, NVIDIA 590 driver drops Pascal support (December 2025):
# nvidia-580xx-dkms of the AUR. NixOS Wiki, NVIDIA, Legacy branches. NVIDIA/yum-packaging-nvidia-driver,
# docs/guide-rhel8.md, Select an installation branch: the stream NNN-dkms holds on to a branch, with the proprietary
# modules (all read November 2026).

WITH_STREAMS = ("8", "9")  # releases of the RHEL family in which the driver is a module of dnf
_NUMBER = pattern(r"(?<= )\d+")
_STREAM = "nvidia-driver:{0}-dkms"
OF_NIXOS = "hardware.nvidia.package = config.boot.kernelPackages.nvidiaPackages.legacy_{0}"
_ELSEWHERE = {
    "arch": "nvidia-{0}xx-dkms from the AUR",
    "nixos": OF_NIXOS,
}
_PACKAGES = {
    "ubuntu": ("apt-get", "install", "nvidia-driver-{0}"),
    "fedora": ("dnf", "install", "--allowerasing", "akmod-nvidia-{0}xx", "xorg-x11-drv-nvidia-{0}xx-cuda"),
}


def older_driver(snapshot: Snapshot, kind: str | None, branch: int, words: str) -> Fix:
    """How to install the driver of a branch, by package where its name is known; ``words`` has no full stop."""
    name = kind or (snapshot.host.distribution.value or "").partition(" ")[0]
    if is_contained(snapshot):
        return Fix(f"{words}.")
    if name == "rhel" and release_of(snapshot) in WITH_STREAMS:
        return Fix(f"{words} (from NVIDIA's repository).", ("sudo", "dnf", "module", "install", _STREAM.format(branch)))
    if name in _ELSEWHERE:
        return Fix(f"{words}: {_ELSEWHERE[name].format(branch)}.")
    command = ("sudo", *(part.format(branch) for part in _PACKAGES[name])) if name in _PACKAGES else None
    return Fix(f"{words}.", command)


def release_of(snapshot: Snapshot) -> str:
    """``9`` of rocky 9.5, and of Rocky Linux 9.5 (Blue Onyx); empty if unknown."""
    found = _NUMBER.search(snapshot.host.distribution.value or "")
    return found[0] if found else ""
