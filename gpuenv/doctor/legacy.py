"""How to come to the last driver branch that drives an old GPU, by the distribution. Pure.

Ubuntu: its packages nvidia-driver-BRANCH. RPM Fusion: Howto NVIDIA, its packages of legacy branches (akmod-nvidia-580xx
with Fedora 44). Arch Linux, News, NVIDIA 590 driver drops Pascal support (December 2025): nvidia-580xx-dkms of the AUR.
NixOS Wiki, NVIDIA, Legacy branches (all read November 2026).
"""

from __future__ import annotations

from gpuenv.doctor.machine import contained
from gpuenv.model.finding import Fix
from gpuenv.model.snapshot import Snapshot

_ELSEWHERE = {
    "arch": "nvidia-{0}xx-dkms from the AUR",
    "nixos": "hardware.nvidia.package = config.boot.kernelPackages.nvidiaPackages.legacy_{0}",
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
    if contained(snapshot) or (name not in _ELSEWHERE and name not in _PACKAGES):
        return Fix(f"{words}.")
    if name in _ELSEWHERE:
        return Fix(f"{words}: {_ELSEWHERE[name].format(branch)}.")
    return Fix(f"{words}.", ("sudo", *(part.format(branch) for part in _PACKAGES[name])))
