"""How to come to the last driver branch that drives an old GPU, by the distribution. Pure.

Ubuntu: its packages nvidia-driver-BRANCH. RPM Fusion: Howto NVIDIA, its packages of legacy branches (akmod-nvidia-580xx
with Fedora 44). Arch Linux, News, NVIDIA 590 driver drops Pascal support (December 2025): nvidia-580xx-dkms of the AUR.
NixOS Wiki, NVIDIA, Legacy branches. NVIDIA/yum-packaging-nvidia-driver, docs/guide-rhel8.md, Select an installation
branch: the stream NNN-dkms holds on to a branch, with the proprietary modules (all read November 2026).
"""

from __future__ import annotations

from gpuenv.model.finding import Fix
from gpuenv.model.pattern import pattern
from gpuenv.model.presence import contained
from gpuenv.model.snapshot import Snapshot

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
    """Words without a full stop, with the package of a branch in them or in a command, where its name is known.

    Args:
        snapshot: the machine.
        kind: the family of its distribution.
        branch: the last one that will do.
        words: what is to be done.
    """
    name = kind or (snapshot.host.distribution.value or "").partition(" ")[0]
    if contained(snapshot):
        return Fix(f"{words}.")
    if name == "rhel" and release_of(snapshot) in WITH_STREAMS:
        return Fix(f"{words} (from NVIDIA's repository).", ("sudo", "dnf", "module", "install", _STREAM.format(branch)))
    if name in _ELSEWHERE:
        return Fix(f"{words}: {_ELSEWHERE[name].format(branch)}.")
    command = ("sudo", *(part.format(branch) for part in _PACKAGES[name])) if name in _PACKAGES else None
    return Fix(f"{words}.", command)


def release_of(snapshot: Snapshot) -> str:
    """``9`` of rocky 9.5, and of Rocky Linux 9.5 (Blue Onyx); nothing where none is told."""
    found = _NUMBER.search(snapshot.host.distribution.value or "")
    return found[0] if found else ""
