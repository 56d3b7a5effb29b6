"""What a person has to run on the machine at hand, by its distribution; gpuenv runs none of it. Pure.

Packages: NVIDIA, Driver Installation Guide (branch 620), Kernel Modules, table 5 (read 2026-11-21), and the READMEs of
NVIDIA's packaging repositories for the fabric manager (read November 2026); Debian, package nvidia-driver; Ubuntu,
ubuntu-drivers; RPM Fusion, Howto NVIDIA; Arch, package nvidia-open; NVIDIA, Installing the NVIDIA Container Toolkit.
"""

from __future__ import annotations

from gpuenv.doctor.declared import besides_the_package, declared
from gpuenv.doctor.headers import headers_package
from gpuenv.doctor.joint import OPEN, no_one_driver, to_drive, wanted, wants
from gpuenv.doctor.legacy import WITH_STREAMS, older_driver, release_of
from gpuenv.doctor.registry import Facts
from gpuenv.model.finding import Fix
from gpuenv.model.host import Container
from gpuenv.model.presence import contained, driver_nodes
from gpuenv.model.snapshot import Snapshot, SourceState

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
# Google, Container-Optimized OS, Run GPUs: it has no package manager.
_OWN_PROGRAMS = {"cos": ("sudo", "cos-extensions", "install", "gpu")}
_LAST_BEFORE_TURING = 580  # the matrix's row of Maxwell, Pascal and Volta


def family(snapshot: Snapshot) -> str | None:
    """``debian``, ``ubuntu``, ``rhel``, ``fedora``, ``arch`` or ``suse``; None for another distribution."""
    name = (snapshot.host.distribution.value or "").casefold()
    seen = next((kind for words, kind in _SEEN.items() if name.startswith(words)), None)
    return seen or _FAMILIES.get(name.partition(" ")[0])


def _package(snapshot: Snapshot, names: dict[str, str]) -> tuple[str, ...] | None:
    """The command that installs a package, by the names that it has in each family."""
    kind = family(snapshot)
    return (*_INSTALL[kind], *names[kind].split()) if kind in names and kind in _INSTALL else None


def driver_fixes(facts: Facts) -> tuple[Fix, ...]:
    """How to install the driver here."""
    snapshot = facts.snapshot
    if facts.needs.tegra:
        return (Fix("Install the driver that comes with JetPack: flash the board, or install nvidia-jetpack."),)
    if snapshot.host.wsl.value or snapshot.host.os.value == "windows":
        where = "; install none in Linux" if snapshot.host.wsl.value else ""
        install = Fix(f"Install the NVIDIA driver in Windows (NVIDIA's app or its download page){where}.")
        return _with_what_shows_it(snapshot, install)
    return no_one_driver(facts) or _by_its_own_program(snapshot) or _driver_package(facts)


def _with_what_shows_it(snapshot: Snapshot, install: Fix) -> tuple[Fix, ...]:
    """What WSL needs beside a driver in Windows, where it has no /dev/dxg, by which alone it sees a GPU.

    Microsoft, Comparing WSL versions, and Advanced settings configuration in WSL: gpuSupport.
    """
    looked = snapshot.source("kernel").state is not SourceState.NOT_ASKED
    if not snapshot.host.wsl.value or contained(snapshot) or driver_nodes(snapshot) or not looked:
        return (install,)
    if (snapshot.host.kernel.value or "").endswith("-Microsoft"):  # that of WSL 2 ends in -microsoft-standard-WSL2
        return (Fix("Convert this distribution to WSL 2, in Windows (wsl --set-version): WSL 1 shows no GPU."), install)
    return (install, Fix("Where .wslconfig in Windows says gpuSupport=false, take that out, and restart WSL."))


def _by_its_own_program(snapshot: Snapshot) -> tuple[Fix, ...]:
    own = _OWN_PROGRAMS.get((snapshot.host.distribution.value or "").partition(" ")[0])
    return (Fix("Let the system's own program install the NVIDIA driver.", own),) if own else ()


def _driver_package(facts: Facts) -> tuple[Fix, ...]:
    snapshot = facts.snapshot
    kind, needed = family(snapshot), wanted(facts)
    late = needed.last is not None and _chooses_newest(facts)
    if by_other_means := declared(snapshot, needed, with_older=late):
        return by_other_means
    if late and needed.last is not None:
        words = f"Install the NVIDIA driver of branch {needed.last} with its proprietary modules, then restart"
        return (older_driver(snapshot, kind, needed.last, words), *besides_the_package(snapshot))
    if kind == "debian" and OPEN in needed.kinds:  # its package brings the proprietary ones
        return (Fix(f"Install the NVIDIA driver of {needed.words}, then restart."),)
    if kind in ("ubuntu", "debian"):
        command = ("sudo", "ubuntu-drivers", "install") if kind == "ubuntu" else (*_APT, "nvidia-driver")
        needs = " (from the non-free component)" if kind == "debian" else ""
        return (Fix(f"Install the NVIDIA driver{needs}, then restart.", command),)
    if kind == "fedora":
        packages = ("akmod-nvidia", "xorg-x11-drv-nvidia-cuda")
        install = Fix("Install the NVIDIA driver (from RPM Fusion), then restart.", (*_DNF, *packages))
        return (install, *besides_the_package(snapshot))
    return (*_stream(snapshot), Fix("Install the NVIDIA driver, then restart.", _open_driver(snapshot)))


def _chooses_newest(facts: Facts) -> bool:
    """Whether the distribution's usual way may bring a driver that is too new for one of the GPUs.

    Debian's releases have branches before 590; ubuntu-drivers goes by one GPU, and knows which of them it is for.
    """
    kind, needed = family(facts.snapshot), wanted(facts)
    if kind == "debian":
        return needed.last is not None and needed.last < _LAST_BEFORE_TURING
    gpus = [gpu for part in to_drive(facts) for gpu in part]
    return kind != "ubuntu" or len({wants((gpu,), facts.snapshot, facts.matrix) for gpu in gpus}) > 1


def whose(snapshot: Snapshot) -> str:
    """Where the driver is to be changed, where that is not here: on a container's host, in Windows for WSL."""
    if snapshot.host.wsl.value:
        return " in Windows"
    return " on the host" if contained(snapshot) else ""


def _stream(snapshot: Snapshot) -> tuple[Fix, ...]:
    if family(snapshot) != "rhel" or release_of(snapshot) not in WITH_STREAMS:
        return ()
    enable = ("sudo", "dnf", "module", "enable", "nvidia-driver:open-dkms")
    return (Fix("Choose the open kernel modules, from NVIDIA's repository.", enable),)


def _open_driver(snapshot: Snapshot) -> tuple[str, ...] | None:
    return _package(snapshot, {"rhel": "nvidia-open", "arch": "nvidia-open", "suse": "nvidia-open"})


def open_modules(snapshot: Snapshot) -> Fix:
    """How to come to the open kernel modules of the driver that is there."""
    branch = snapshot.driver.branch.value
    names = {
        "debian": "nvidia-open-kernel-dkms",
        **dict.fromkeys(("rhel", "arch", "suse"), "nvidia-open"),
        **({"ubuntu": f"nvidia-driver-{branch}-open"} if branch else {}),
    }
    words = "Install the open kernel modules of the driver in place of the proprietary ones, then restart."
    return Fix(words, _package(snapshot, names))


def proprietary_modules(snapshot: Snapshot) -> Fix:
    """How to come to the proprietary kernel modules, for a GPU before Turing, which branch 580 is the last to drive."""
    branch = min(snapshot.driver.branch.value or _LAST_BEFORE_TURING, _LAST_BEFORE_TURING)
    names = {"debian": "nvidia-kernel-dkms", "ubuntu": f"nvidia-driver-{branch}"}
    words = f"Install the proprietary kernel modules of branch {branch} in place of the open ones, then restart."
    return Fix(words, _package(snapshot, names))


def firmware(snapshot: Snapshot) -> tuple[str, ...] | None:
    """The command that installs the firmware of the driver that is there."""
    branch, version = snapshot.driver.branch.value, snapshot.driver.version.value
    names = {
        "debian": "firmware-nvidia-gsp",
        **({"ubuntu": f"nvidia-firmware-{branch}-{version}"} if branch and version else {}),
    }
    return _package(snapshot, names)


def compute_part(snapshot: Snapshot) -> tuple[str, ...] | None:
    """The command that installs libcuda beside the rest of the driver."""
    branch = snapshot.driver.branch.value
    names = {
        "debian": "libcuda1",
        "fedora": "xorg-x11-drv-nvidia-cuda",
        "rhel": "nvidia-driver-cuda",
        "arch": "nvidia-utils",
        **({"ubuntu": f"libnvidia-compute-{branch}"} if branch else {}),
    }
    return _package(snapshot, names)


def kernel_headers(snapshot: Snapshot, kernel: str) -> tuple[str, ...] | None:
    """The command that installs the headers of a kernel."""
    kind = family(snapshot) or ""
    name = headers_package(kind, snapshot.host.distribution.value or "", kernel)
    return (*_INSTALL[kind], name) if name else None


def the_compiler(snapshot: Snapshot, name: str) -> Fix:
    """How to come to the compiler that the kernel was built with; Debian and Ubuntu have a package of each."""
    return Fix(
        f"Install the compiler that this kernel was built with, {name}, and let DKMS build the module again.",
        _package(snapshot, dict.fromkeys(("ubuntu", "debian"), name)),
    )


def module_build(snapshot: Snapshot, kernel: str | None = None) -> tuple[str, ...]:
    """The command that builds the driver's module for the running kernel."""
    if family(snapshot) == "fedora":
        return ("sudo", "akmods", "--force", *(("--kernels", kernel) if kernel else ()))
    return ("sudo", "dkms", "autoinstall", *(("-k", kernel) if kernel else ()))


def initial_disk(snapshot: Snapshot) -> tuple[str, ...] | None:
    """The command that makes the initial RAM disk anew, in which modules and what keeps them out may stand too."""
    commands = {
        **dict.fromkeys(("ubuntu", "debian"), ("update-initramfs", "-u")),
        **dict.fromkeys(("fedora", "rhel", "suse"), ("dracut", "--force")),
        "arch": ("mkinitcpio", "-P"),
    }
    found = commands.get(family(snapshot) or "")
    return ("sudo", *found) if found else None


def fabric_manager(snapshot: Snapshot) -> tuple[str, ...] | None:
    """The command that installs the fabric manager of the driver's branch."""
    branch = snapshot.driver.branch.value
    if branch is None:
        return None
    name = f"cuda-drivers-fabricmanager-{branch}"
    names = {"debian": name, "suse": name, "rhel": name, "ubuntu": f"nvidia-fabricmanager-{branch}"}
    return _package(snapshot, names)


def restart(snapshot: Snapshot, why: str) -> Fix:
    """Starting the machine anew: the whole of WSL from Windows, and from a container the host."""
    if snapshot.host.wsl.value:
        return Fix(f"Restart WSL, in Windows, {why}.", ("wsl.exe", "--shutdown"))
    if contained(snapshot):
        return Fix(f"Restart the host, there, {why}.", ("sudo", "reboot"))
    return Fix(f"Restart the machine, {why}.", ("sudo", "reboot"))


def container_toolkit(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How the host's engine gets to hand GPUs to containers; of the host's distribution a container knows nothing."""
    install = None if contained(snapshot) else _package(snapshot, dict.fromkeys(_INSTALL, "nvidia-container-toolkit"))
    where = "If that is refused: on the host, install" if contained(snapshot) else "Install"
    first = Fix(f"{where} the NVIDIA container toolkit.", install)
    if snapshot.host.container.value is Container.PODMAN:
        describe = ("sudo", "nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.yaml")
        return (first, Fix("Let it describe the GPUs, there.", describe))
    return (
        first,
        Fix("Tell Docker of it, there.", ("sudo", "nvidia-ctk", "runtime", "configure", "--runtime=docker")),
        Fix("Restart Docker, there.", ("sudo", "systemctl", "restart", "docker")),
    )
