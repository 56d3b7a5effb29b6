"""Cures where they can be had: a Snapshot may be of Windows, of macOS or of a container. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpuenv.model.finding import Fix
from gpuenv.model.pattern import pattern

_OTHERS = ("windows", "darwin")
_INSTALLERS = frozenset(("apt-get", "dnf", "pacman", "ubuntu-drivers", "zypper"))
# Programs of Linux, which the cures name; what else they name is everywhere, or is the target's own interpreter.
_OF_LINUX = frozenset(
    (
        *_INSTALLERS,
        *(
            "akmods",
            "dkms",
            "dmesg",
            "dracut",
            "mkinitcpio",
            "modinfo",
            "mokutil",
            "modprobe",
            "nvidia-ctk",
            "nvidia-modprobe",
        ),
        *("prime-select", "rmmod", "sh", "systemctl", "update-initramfs", "which"),
    )
)
_OF_A_ROOT = _INSTALLERS | {"akmods", "dkms", "dracut", "mkinitcpio", "update-initramfs"}  # what they change is there
_SAYS_WHERE = pattern(r"\b(host|there|on the node)\b")
_PACKAGE = pattern(r"[A-Za-z0-9._+-]+")
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


def from_a_container(fixes: Iterable[Fix]) -> tuple[Fix, ...]:
    """The same, from inside of a container: the driver, its module and its services are the host's, whoever is root."""
    return tuple(_on_the_host(fix) if fix.command and fix.command[0] == "sudo" else fix for fix in fixes)


def on_an_image(fixes: Iterable[Fix], image: str | None) -> tuple[Fix, ...]:
    """The same where the root is an image: packages are layered onto it, and nothing below /usr is changed in place.

    rpm-ostree(1): install. What else changes the root has no command there; its words stand.
    """
    return tuple(fixes) if image != "ostree" else tuple(_layered(fix) for fix in fixes)


def _layered(fix: Fix) -> Fix:
    program, command = _program(fix), fix.command or ()
    if program == "dnf" and "install" in command:
        words = [word for word in command if word not in ("sudo", program) and not word.startswith("-")]
        verb, *packages = words
        # A stream of a module and a group are no packages, which is all that is layered.
        whole = verb != "install" or any(not _PACKAGE.fullmatch(word) for word in packages)
        return replace(fix, command=None if whole else ("sudo", "rpm-ostree", "install", *packages))
    return replace(fix, command=None) if program in _OF_A_ROOT else fix


def _on_the_host(fix: Fix) -> Fix:
    """Says where, unless that is said already; of the host's distribution a container knows nothing."""
    command = None if _program(fix) in _INSTALLERS else fix.command
    if _SAYS_WHERE.search(fix.text):
        return replace(fix, command=command)
    first = fix.text.split(" ")[0]
    text = fix.text if first.isupper() else fix.text[0].lower() + fix.text[1:]
    return replace(fix, text=f"On the host: {text}", command=command)


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
