"""How the driver comes to systems that no package manager changes: by a configuration, or in an image. Pure.

NixOS Wiki, NVIDIA: services.xserver.videoDrivers, hardware.nvidia.open, and unfree packages. Universal Blue's images
are changed for each other by rpm-ostree rebase; of those with the driver the names end in -nvidia, or in -nvidia-open
for Turing and newer (ublue-os/bazzite-dx#150, ublue-os/bluefin, discussion 3081). RPM Fusion, Howto NVIDIA, OSTree:
the kernel's parameters. openSUSE's forum, 190227, of MicroOS: transactional-update has no modules of DKMS (all read
November 2026).
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.joint import PROPRIETARY, Wants
from gpuenv.doctor.legacy import OF_NIXOS
from gpuenv.model.finding import Fix
from gpuenv.model.snapshot import Snapshot

_BUILT = ("sudo", "nixos-rebuild", "boot")
_OF_UNIVERSAL_BLUE = ("bazzite", "bluefin", "aurora", "ucore")
_TRANSACTIONAL = ("opensuse-microos", "opensuse-leap-micro", "sle-micro", "sl-micro")
_KERNEL_PARAMETERS = ("sudo", "rpm-ostree", "kargs")


def declared(snapshot: Snapshot, needed: Wants, *, with_older: bool) -> tuple[Fix, ...]:
    """What to write, or which image to take; nothing where a package manager does it.

    Args:
        snapshot: the machine.
        needed: what its GPUs want of a driver.
        with_older: whether the newest driver is too new for one of them.
    """
    name = (snapshot.host.distribution.value or "").partition(" ")[0]
    older = needed.last if with_older else None
    if name == "nixos":
        lines = " ".join(_of_nixos(needed, older))
        words = f"Write {lines} into configuration.nix (the driver is unfree), let it be built, and restart."
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


def modules_of_the_other_kind(snapshot: Snapshot, *, wants_open: bool) -> tuple[Fix, ...]:
    """What to write for the open kernel modules, or against them; nothing where a package manager brings them."""
    if not is_declared(snapshot):
        return ()
    words = f"Write hardware.nvidia.open = {'true' if wants_open else 'false'}; into configuration.nix"
    return (Fix(f"{words}, let it be built, and restart.", _BUILT),)


def _open(needed: Wants) -> bool | None:
    """Whether the open modules drive these GPUs; None where nothing is known of them."""
    if PROPRIETARY in needed.kinds:
        return False
    return True if needed.kinds or needed.first is not None else None


def _of_nixos(needed: Wants, older: int | None) -> Iterator[str]:
    yield 'services.xserver.videoDrivers = [ "nvidia" ];'
    if _open(needed) is not None:
        yield f"hardware.nvidia.open = {'true' if _open(needed) else 'false'};"
    if older is not None:
        yield f"{OF_NIXOS.format(older)};"


def besides_the_package(snapshot: Snapshot) -> tuple[Fix, ...]:
    """What a driver that is layered onto an image needs beside its packages."""
    words = "Keep nouveau out by the kernel's parameters, before that restart."
    return (Fix(words, _without("nouveau")),) if _is_ostree(snapshot) else ()


def is_declared(snapshot: Snapshot) -> bool:
    """Whether the files below /etc/modprobe.d are made from the system's configuration, which says the driver too."""
    return (snapshot.host.distribution.value or "").startswith("nixos")


def kept_away(snapshot: Snapshot, name: str, when: str) -> Fix | None:
    """How an image's root is kept from a module, the initial RAM disk with it; None where that is no image.

    Args:
        snapshot: the machine.
        name: the module's.
        when: what comes before, such as ``Where nouveau comes back,``; with a capital letter.
    """
    words = f"{when} keep {name} out by the kernel's parameters."
    return Fix(words, _without(name)) if _is_ostree(snapshot) else None


def _without(name: str) -> tuple[str, ...]:
    return (*_KERNEL_PARAMETERS, f"--append=rd.driver.blacklist={name}", f"--append=modprobe.blacklist={name}")


def _is_ostree(snapshot: Snapshot) -> bool:
    return snapshot.host.image.value == "ostree"
