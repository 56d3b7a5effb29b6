"""How the driver and related packages are installed on the machine at hand; gpuenv runs none of these commands.

The steps of each distribution are rows of fixes.csv; this module selects those that the GPUs need.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuenv.doctor.driver_requirements import (
    OPEN,
    PROPRIETARY,
    DriverRequirement,
    conflicting_gpus,
    driver_requirement,
    gpus_to_drive,
    requirement_of,
)
from gpuenv.doctor.fixes.table import Row, branches_of, rows_of, steps, steps_of
from gpuenv.doctor.registry import CheckContext
from gpuenv.model.finding import Fix
from gpuenv.model.gpus import driver_nodes, is_contained
from gpuenv.model.snapshot import Container, Snapshot
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
    "linux mint": "linuxmint",
    "pop!_os": "pop",
    "kde neon": "neon",
    "red hat enterprise linux": "rhel",
    "oracle linux": "ol",
    "amazon linux": "amzn",
    "opensuse leap": "opensuse-leap",
    "opensuse tumbleweed": "opensuse-tumbleweed",
    "suse linux enterprise": "sles",
}
# Google, Container-Optimized OS, Run GPUs: it has no package manager.
_SYSTEM_INSTALLERS = {"cos": ("sudo", "cos-extensions", "install", "gpu")}
_FIRST_OPEN = 515  # NVIDIA, Driver Installation Guide, Kernel Modules: the first branch with open ones
_LAST_BEFORE_TURING = 580  # the matrix's row of Maxwell, Pascal and Volta
_RELEASE = pattern(r"(?<= )\d+(?:\.\d+)?")


class System(NamedTuple):
    """A distribution as the table of fixes names it: ``rhel`` 9 for Rocky Linux 9.5."""

    name: str
    release: str
    family: str | None

    @property
    def places(self) -> tuple[str, ...]:
        """Its names in the table, the most specific first."""
        return (f"{self.name} {self.release}", self.name, *((self.family,) if self.family else ()))

    @property
    def repository(self) -> str:
        """The folder of NVIDIA's repository for it: ``debian12``, ``ubuntu2404``."""
        return f"{self.name}{self.release.replace('.', '')}"


def system_of(snapshot: Snapshot) -> System:
    """The distribution of this machine."""
    text = (snapshot.host.distribution.value or "").casefold()
    name = next((key for prefix, key in _DISPLAY_NAMES.items() if text.startswith(prefix)), text.partition(" ")[0])
    kind = _FAMILIES.get(name)
    found = _RELEASE.search(text)
    release = found[0] if found else ""
    if name != "ubuntu":
        release = release.partition(".")[0]
    return System("rhel" if kind == "rhel" and name != "amzn" else name, release, kind)


def family(snapshot: Snapshot) -> str | None:
    """``debian``, ``ubuntu``, ``rhel``, ``fedora``, ``arch`` or ``suse``; None for another distribution."""
    return system_of(snapshot).family


def system_steps(snapshot: Snapshot, task: str, **more: object) -> tuple[Fix, ...]:
    """The steps of a task on this machine; in a container the host's distribution is unknown."""
    places = () if is_contained(snapshot) else system_of(snapshot).places
    return steps_of(task, places, **{**_values(snapshot), **more})


def module_build_command(snapshot: Snapshot, kernel: str | None = None) -> tuple[str, ...]:
    """The command that builds the driver's module for the running kernel."""
    (step,) = system_steps(snapshot, "module-build", text="")
    command = step.command or ()
    option = "--kernels" if "akmods" in command else "-k"
    return (*command, *((option, kernel) if kernel else ()))


def _values(snapshot: Snapshot) -> dict[str, object]:
    """Values of the table's placeholders; the branch and the version are those of the installed driver."""
    system, driver, kernel = system_of(snapshot), snapshot.driver, snapshot.host.kernel.value
    headers = headers_of_all_kernels(snapshot)
    return {
        "release": system.release or None,
        "repository": system.repository,
        "nvidia_arch": "sbsa" if snapshot.host.arch.value == "aarch64" else "x86_64",
        "headers": headers_package(system, kernel) if kernel else None,
        "all_headers": headers,
        "kernel_image": _kernel_package(system, kernel, headers),
        "branch": driver.branch.value,
        "version": driver.module_version.value or driver.version.value,
    }


def _kernel_package(system: System, kernel: str | None, headers: str) -> str | None:
    if system.family == "suse":
        match = _SUSE_KERNEL.fullmatch(kernel or "")
        return f"kernel-{match['kind']}" if match else None
    return headers.replace("headers", "kernel" if "proxmox" in headers else "image")


def driver_fixes(ctx: CheckContext) -> tuple[Fix, ...]:
    """How to install the driver that the GPUs need."""
    snapshot = ctx.snapshot
    if ctx.needs.tegra:
        return (
            Fix(
                "Install the driver of JetPack 6 or newer with its packages.", ("sudo", "apt-get", "install", _JETPACK)
            ),
            Fix(
                "If the board has JetPack 5 or older: flash it with JetPack 6, by NVIDIA's SDK Manager; it deletes "
                "what is on the board."
            ),
        )
    if snapshot.host.wsl.value or snapshot.host.os.value == "windows":
        not_in_linux = ", not in Linux" if snapshot.host.wsl.value else ""
        install = Fix(f"Install the NVIDIA driver in Windows{not_in_linux} (NVIDIA's app or its download page).")
        return _wsl_driver_fixes(snapshot, install)
    command = _SYSTEM_INSTALLERS.get(system_of(snapshot).name)
    by_system = (Fix("Install the NVIDIA driver with the system's own program.", command),) if command else ()
    needed = driver_requirement(ctx)
    return conflicting_gpus(ctx) or by_system or driver_package_fixes(snapshot, needed, exact=_chooses_wrongly(ctx))


_JETPACK = "nvidia-jetpack"


def driver_update_fixes(ctx: CheckContext, wanted: str) -> tuple[Fix, ...]:
    """How to update the driver to at least a version: ``>= 580.65.06``; empty if it belongs to another system."""
    snapshot, needed = ctx.snapshot, driver_requirement(ctx)
    found = _BRANCH.search(wanted)
    if found is None or is_contained(snapshot) or snapshot.host.wsl.value or snapshot.host.os.value != "linux":
        return ()
    first = max(int(found[0]), needed.first or 0)
    needed = needed._replace(first=first)
    if not needed.possible or ctx.needs.tegra or family(snapshot) is None:
        return ()
    return driver_package_fixes(snapshot, needed, exact=True, lead=f"Or update the driver to {wanted}")


_BRANCH = pattern(r"\d{3}(?=\.)")


def _wsl_driver_fixes(snapshot: Snapshot, install: Fix) -> tuple[Fix, ...]:
    """Fixes for WSL without /dev/dxg, which sees no GPU whatever driver Windows has.

    Microsoft, Comparing WSL versions, and Advanced settings configuration in WSL: gpuSupport.
    """
    if not snapshot.host.wsl.value or is_contained(snapshot) or driver_nodes(snapshot) or not snapshot.is_probed:
        return (install,)
    if (snapshot.host.kernel.value or "").endswith("-Microsoft"):  # WSL 2 ends in -microsoft-standard-WSL2
        name = snapshot.environment.get("WSL_DISTRO_NAME")
        text = "WSL 1 has no GPU support: convert this distribution to WSL 2, in Windows; this ends its programs."
        return (
            *(() if name else (Fix("Show the name of this distribution.", ("wsl.exe", "-l", "-v")),)),
            Fix(text, ("wsl.exe", "--set-version", name or "DISTRO", "2")),
            Fix(
                "If Windows refuses: turn on its Virtual Machine Platform, and restart Windows.",
                ("wsl.exe", "--install", "--no-distribution"),
            ),
            install,
        )
    return (
        Fix(
            "See whether .wslconfig in Windows has gpuSupport=false; if so, remove that line and restart WSL.",
            shell_line="grep -n -i gpuSupport /mnt/c/Users/*/.wslconfig",
        ),
        Fix("Restart WSL after that; this ends its programs.", _RESTART_WSL),
        Fix(f"Or, if it has no such line: {install.text[0].lower()}{install.text[1:]}"),
    )


_RESTART_WSL = ("wsl.exe", "--shutdown")


def driver_package_fixes(
    snapshot: Snapshot, needed: DriverRequirement, *, exact: bool, lead: str = "Install the NVIDIA driver"
) -> tuple[Fix, ...]:
    """How to install a driver that meets a requirement: the distribution's packages, else NVIDIA's repository.

    ``exact``: whether the distribution's own choice of a branch may be wrong; ``lead`` begins the first sentence.
    """
    kind = f", {needed.text}" if needed != _ANY_DRIVER else ""
    if is_contained(snapshot):
        return (Fix(f"On the host: {lead[0].lower()}{lead[1:]}{kind}, then restart it."),)
    # Needed in addition to packages that are layered onto an image.
    without_nouveau = blacklist_fix(snapshot, "Before that restart, block nouveau and nova by kernel parameters.")
    if fixes := _immutable_system_fixes(snapshot, needed, with_older=exact and needed.last is not None):
        return fixes
    found = _package_steps(snapshot, needed, exact=exact)
    first = Fix(f"{lead}{kind}, {'in these steps' if found else 'then restart: no package of it is known here'}.")
    if not found:
        return (first,)
    key = system_steps(snapshot, "enrol-key") if snapshot.host.secure_boot.value else ()
    last = (restart_fix(snapshot, "so that the new module is loaded; this ends all programs"), _CHECK)
    of_run_file = (REMOVE_RUN_FILE,) if snapshot.driver.uninstaller.known else ()
    return (first, *of_run_file, *found, *without_nouveau, *key, *last)


REMOVE_RUN_FILE = Fix(
    "First remove the driver of NVIDIA's .run file: its files take the place of those of packages.",
    ("sudo", "nvidia-uninstall"),
)
_ANY_DRIVER = DriverRequirement(None, None, frozenset())
_CHECK = Fix("Then check: it lists the GPU and the driver.", ("nvidia-smi",))


def _package_steps(snapshot: Snapshot, needed: DriverRequirement, *, exact: bool) -> tuple[Fix, ...]:
    wants_open, is_bounded = OPEN in needed.kinds, needed.last is not None
    tasks = ["driver-open" if wants_open else "driver"]
    if exact:
        tasks.insert(0, "driver-branch")
    tasks.append("nvidia-driver-branch" if is_bounded else "nvidia-driver")
    places = system_of(snapshot).places
    for task in tasks:
        for row in rows_of(task, places):
            branch = _branch(row, needed)
            takes_newest = not row.branches and task != "nvidia-driver"
            is_missing = branch is None or (wants_open and 0 < branch < _FIRST_OPEN)
            if is_missing or (takes_newest and is_bounded and (exact or not _has_branch(places, needed))):
                continue
            rows = [other for other in rows_of(task, places) if other.branches == row.branches]
            values = {**_values(snapshot), "branch": branch, "open": "-open" if wants_open else ""}
            repository = rows_of("nvidia-repository", places) if task.startswith("nvidia-") else ()
            hold = rows_of("hold-branch", places) if is_bounded and task.endswith("-branch") else ()
            return steps((*repository, *rows, *hold), **values)
    return ()


def _has_branch(places: tuple[str, ...], needed: DriverRequirement) -> bool:
    """Whether the distribution has a branch that meets a requirement, as far as known."""
    rows = rows_of("driver-branch", places)
    return not rows or any(_branch(row, needed) is not None for row in rows)


def _branch(row: Row, needed: DriverRequirement) -> int | None:
    """The first branch of a row that meets a requirement; 0 if the distribution chooses.

    ``any`` stands for the packages of older branches, which only a GPU that no newer one drives needs.
    """
    branches = branches_of(row)
    if branches is None:
        return needed.last if row.branches else 0
    return next((branch for branch in branches if needed.met_by(branch, None)), None)


def _chooses_wrongly(ctx: CheckContext) -> bool:
    """Whether the distribution's default package may be too new for one of the GPUs.

    ubuntu-drivers considers one GPU, and knows which branch it needs.
    """
    needed = driver_requirement(ctx)
    if needed.last is None:
        return False
    gpus = [gpu for part in gpus_to_drive(ctx) for gpu in part]
    is_mixed = len({requirement_of((gpu,), ctx) for gpu in gpus}) > 1
    return family(ctx.snapshot) != "ubuntu" or is_mixed


def driver_location(snapshot: Snapshot) -> str:
    """Where the driver can be changed, if not here: `` on the host`` for a container, `` in Windows`` for WSL."""
    if snapshot.host.wsl.value:
        return " in Windows"
    return " on the host" if is_contained(snapshot) else ""


def reinstall_fixes(snapshot: Snapshot, library: str, path: str | None) -> tuple[Fix, ...]:
    """How to restore a library of the driver: the package that owns its file, and how to reinstall that."""
    if snapshot.host.wsl.value:
        return (Fix("Update the NVIDIA driver in Windows."),)
    if is_contained(snapshot):
        return (Fix(f"On the host: reinstall the driver's package that has {library}."),)
    return (*system_steps(snapshot, "owner", path=path), *system_steps(snapshot, "reinstall", path=path))


def other_kernel_modules_fixes(snapshot: Snapshot, *, wants_open: bool) -> tuple[Fix, ...]:
    """How to change to the open kernel modules, or to the proprietary ones, up to branch 580 for older GPUs."""
    if is_declared(snapshot):
        option = f"hardware.nvidia.open = {'true' if wants_open else 'false'};"
        return (Fix(f"Write {option} into configuration.nix, rebuild, and restart.", _NIXOS_REBUILD),)
    branch = snapshot.driver.branch.value
    if not wants_open:
        branch = min(branch or _LAST_BEFORE_TURING, _LAST_BEFORE_TURING)
    rows = rows_of(f"{'open' if wants_open else 'proprietary'}-modules", system_of(snapshot).places)
    branches = next((row.branches for row in rows if branch in (branches_of(row) or (branch,))), "")
    rows = tuple(row for row in rows if row.branches == branches)
    restart = restart_fix(snapshot, "so that the other modules are loaded; this ends all programs")
    return (*steps(rows, **{**_values(snapshot), "branch": branch}), restart)


def restart_fix(snapshot: Snapshot, why: str) -> Fix:
    """How to restart the machine: for WSL in Windows, for a container the host."""
    if snapshot.host.wsl.value:
        return Fix(f"Restart WSL, in Windows, {why}.", _RESTART_WSL)
    if is_contained(snapshot):
        return Fix(f"Restart the host, {why}.", ("sudo", "reboot"))
    return Fix(f"Restart the machine, {why}.", ("sudo", "reboot"))


def container_toolkit_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How this host's engine gives containers a GPU; a container does not know the host's distribution."""
    engine = Container.PODMAN if snapshot.host.container.value is Container.PODMAN else Container.DOCKER
    configure = steps_of("configure-engine", (engine.value,))
    if not is_contained(snapshot):
        return (*system_steps(snapshot, "container-toolkit"), *configure)
    first = Fix("If that fails: on the host, install the NVIDIA container toolkit, from NVIDIA's repository of it.")
    return (first, *(fix._replace(text=f"On the host: {fix.text[0].lower()}{fix.text[1:]}") for fix in configure))


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
    name = system_of(snapshot).name
    older = needed.last if with_older else None
    if name == "nixos":
        lines = ['services.xserver.videoDrivers = [ "nvidia" ];']
        if _needs_open_modules(needed) is not None:
            lines.append(f"hardware.nvidia.open = {'true' if _needs_open_modules(needed) else 'false'};")
        if older is not None:
            lines.append(f"hardware.nvidia.package = config.boot.kernelPackages.nvidiaPackages.legacy_{older};")
        lines.append("nixpkgs.config.allowUnfree = true;")
        text = f"Write {' '.join(lines)} into configuration.nix, rebuild, and restart: the driver is unfree."
        return (Fix(text, _NIXOS_REBUILD),)
    if name in _UNIVERSAL_BLUE:
        suffix = {True: "-nvidia-open", False: "-nvidia", None: "-nvidia-open, or -nvidia for a GPU before Turing"}
        text = "Change to this system's image with the driver (rpm-ostree rebase): its name ends in"
        return (
            Fix(f"{text} {suffix[_needs_open_modules(needed)]}. Then restart."),
            Fix("Show the current image.", ("rpm-ostree", "status")),
        )
    packages = rows_of("transactional", (name,)) if _needs_open_modules(needed) is not False and older is None else ()
    if packages:
        return (
            *steps(packages),
            restart_fix(snapshot, "so that the new module is loaded; this ends all programs"),
            _CHECK,
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


def blacklist_fix(snapshot: Snapshot, text: str) -> tuple[Fix, ...]:
    """How to blacklist the free drivers on an ostree image, its initramfs included; empty elsewhere.

    RPM Fusion, Howto NVIDIA: both, for either may take the GPU if the other is blocked.
    """
    if snapshot.host.image.value != "ostree":
        return ()
    blacklist = ("--append=rd.driver.blacklist=nouveau,nova_core", "--append=modprobe.blacklist=nouveau,nova_core")
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
_DEBIAN_KIND = pattern(r"(?:cloud|rt)(?=-(?:amd64|arm64)$)")
_WITH_KIND = pattern(r"(?P<plain>[^+]+)\+(?P<kind>64k|rt)")
_SUSE_KERNEL = pattern(r".*-(?P<kind>default|azure|rt|64kb|longterm)")
# Arch Linux, Kernel: linux (6.6.1-arch1-1), linux-zen (6.4.1-zen1-1-zen), linux-lts (6.6.30-1-lts), linux-hardened.
_ARCH_KERNEL = pattern(r".*-arch.*|.*-(?P<kind>zen|lts|hardened)")
_FIRST_OF_PROXMOX = (6, 5)


def headers_package(system: System, kernel: str) -> str | None:
    """The package with the headers of a kernel, with its release if several may be installed; None if unknown."""
    if system.family == "debian" and _PROXMOX_KERNEL.fullmatch(kernel):
        return f"{'proxmox' if _numbers(kernel) >= _FIRST_OF_PROXMOX else 'pve'}-headers-{kernel}"
    if system.family in ("ubuntu", "debian"):
        return f"linux-headers-{kernel}"
    if system.family in ("fedora", "rhel"):
        return _red_hat_headers(system, kernel)
    if system.family == "suse":
        match = _SUSE_KERNEL.fullmatch(kernel)
        return f"kernel-{match['kind'] if match else 'default'}-devel"
    if system.family == "arch":
        match = _ARCH_KERNEL.fullmatch(kernel)
        return None if match is None else f"linux-{match['kind']}-headers" if match["kind"] else "linux-headers"
    return None


def headers_of_all_kernels(snapshot: Snapshot) -> str:
    """The package that keeps the headers of the newest kernel of this kind, on Debian, Proxmox VE and Ubuntu."""
    kernel = snapshot.host.kernel.value or ""
    if family(snapshot) == "ubuntu":
        return f"linux-headers-{kernel}" if kernel else "linux-headers-generic"
    if _PROXMOX_KERNEL.fullmatch(kernel):
        return "proxmox-default-headers"
    kind = _DEBIAN_KIND.search(kernel)
    arch = "arm64" if snapshot.host.arch.value == "aarch64" else "amd64"
    return f"linux-headers-{f'{kind[0]}-' if kind else ''}{arch}"


def _red_hat_headers(system: System, kernel: str) -> str:
    if match := _WITH_KIND.fullmatch(kernel):
        return f"kernel-{match['kind']}-devel-{match['plain']}"
    if "uek" in kernel:
        return f"kernel-uek-devel-{kernel}"
    major, minor = _numbers(kernel)
    if system[:2] == ("amzn", "2023") and (major, minor) > (6, 1):
        return f"kernel{major}.{minor}-devel-{kernel}"
    return f"kernel-devel-{kernel}"


def _numbers(kernel: str) -> tuple[int, int]:
    found = _NUMBERS.match(kernel)
    return (int(found["major"]), int(found["minor"])) if found else (0, 0)
