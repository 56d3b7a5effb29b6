"""Cures for another system than Linux: a Snapshot may be of Windows or of macOS. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpuenv.model.finding import Fix

_OTHERS = ("windows", "darwin")
# Programs of Linux, which the cures name; what else they name is everywhere, or is the target's own interpreter.
_OF_LINUX = frozenset(
    (
        *("akmods", "apt-get", "dkms", "dmesg", "dnf", "mokutil", "modprobe", "nvidia-ctk", "nvidia-modprobe"),
        *("pacman", "rmmod", "sh", "systemctl", "ubuntu-drivers", "which", "zypper"),
    )
)
_AGAIN = Fix("Restart the machine; where it comes back, install its NVIDIA driver again.")


def for_system(fixes: Iterable[Fix], os: str | None) -> tuple[Fix, ...]:
    """The cures that can be had on a system; those that need a program of Linux are none elsewhere.

    Args:
        fixes: as they are for Linux.
        os: ``linux``, ``windows`` or ``darwin``; None where it is not known.
    """
    if os not in _OTHERS:
        return tuple(fixes)
    given = tuple(fixes)
    found = tuple(_translated(fix, os) for fix in given if _program(fix) not in _OF_LINUX)
    return found or ((_AGAIN,) if given else ())


def _program(fix: Fix) -> str | None:
    words = [word for word in fix.command or () if word != "sudo"]
    return words[0] if words else None


def _translated(fix: Fix, os: str) -> Fix:
    """With the command as it is there; without one, where its words say all."""
    program, command = _program(fix), fix.command
    if command is None or os != "windows":
        return fix
    plain = tuple(word for word in command if word != "sudo")
    if program == "reboot":
        return replace(fix, command=("shutdown", "/r", "/t", "0"))
    if program == "env":
        return replace(fix, command=None)
    return replace(fix, command=("py", *plain[1:]) if program == "python3" else plain)
