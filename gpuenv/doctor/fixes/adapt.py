"""Fixes for Linux adapted to the machine at hand: Windows, macOS, a container, an image, pixi, and ``--python``."""

from __future__ import annotations

from collections.abc import Iterable

from gpuenv.doctor.fixes.packages import name_in, names_in
from gpuenv.model.finding import Fix
from gpuenv.model.snapshot import Target
from gpuenv.model.strings import pattern

_OTHERS = ("windows", "darwin")
_INSTALLERS = frozenset(("apt-get", "dnf", "pacman", "ubuntu-drivers", "zypper"))
# Programs of Linux, which the cures name; what else they name is everywhere, or is the target's own interpreter.
_OF_A_ROOT = _INSTALLERS | {"akmods", "dkms", "dracut", "mkinitcpio", "update-initramfs"}  # what they change is there
_OF_LINUX = _OF_A_ROOT | {"dmesg", "modinfo", "mokutil", "modprobe", "nvidia-ctk", "nvidia-modprobe", "prime-select"}
_OF_LINUX |= {"rmmod", "sh", "systemctl", "which"}
_SAYS_WHERE = pattern(r"\b(host|there|on the node)\b")
_PACKAGE = pattern(r"[A-Za-z0-9._+-]+")
_AGAIN = Fix("Restart the machine; where it comes back, install its NVIDIA driver again.")


def for_system(fixes: Iterable[Fix], os: str | None) -> tuple[Fix, ...]:
    """The fixes that are possible on ``windows`` or ``darwin``: none that needs a program of Linux."""
    if os not in _OTHERS:
        return tuple(fixes)
    given = tuple(fixes)
    found = tuple(_translated(fix, os) for fix in given if _program(fix) not in _OF_LINUX)
    return found or ((_AGAIN,) if given else ())


def adapt_for_container(fixes: Iterable[Fix]) -> tuple[Fix, ...]:
    """The fixes as seen from inside a container: driver, module and services are the host's."""
    adapted = []
    for fix in fixes:
        if not fix.command or fix.command[0] != "sudo":
            adapted.append(fix)
            continue
        first, text = fix.text.split(" ")[0], fix.text
        if not _SAYS_WHERE.search(text):
            text = f"On the host: {text if first.isupper() else text[0].lower() + text[1:]}"
        command = None if _program(fix) in _INSTALLERS else fix.command  # the host's distribution is unknown
        adapted.append(fix._replace(text=text, command=command))
    return tuple(adapted)


def adapt_for_ostree(fixes: Iterable[Fix], image: str | None) -> tuple[Fix, ...]:
    """The fixes where the root is an ostree image: packages are layered onto it, /usr cannot be changed in place.

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
        return fix._replace(command=None if whole else ("sudo", "rpm-ostree", "install", *packages))
    return fix._replace(command=None) if program in _OF_A_ROOT else fix


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
        return fix._replace(command=("shutdown", "/r", "/t", "0"))
    if program == "env":
        return fix._replace(command=None)
    return fix._replace(command=("py", *plain[1:]) if program == "python3" else plain)


# A cure in an environment of pixi's: its manifest says what is there, so its own commands change it.
# What another installer puts there or takes out comes back at pixi's next command. pixi, Command Line Reference, "pixi
# add", "pixi remove" and "pixi reinstall" of 0.72.0 (read 2026-11-22): ``--pypi`` is for wheels; ``pixi add`` takes
# conda's specifications and PyPI's requirements as they are.

_PLACE = pattern(r"(.+)/\.pixi/envs/([^/]+)")
_CONDA_NAME = pattern(r"[^A-Za-z0-9._-].*")  # what follows the name in a specification of conda's
_DEFAULT = "default"


def for_pixi(fixes: tuple[Fix, ...], target: Target) -> tuple[Fix, ...]:
    """The fixes as pixi commands, where the target is an environment of pixi."""
    if target.made_by.value != "pixi":
        return fixes
    where, found = "in the folder of the pixi project", _PLACE.fullmatch(target.prefix.value or "")
    if found is not None:
        of_one = "" if found[2] == _DEFAULT else f", for a feature of its environment {found[2]}"
        where = f"in the pixi project {found[1]}{of_one}"
    adapted = []
    for fix in fixes:
        words = _as_pixi(fix.command) if fix.command else None
        text = f"{fix.text.removesuffix('.')}, {where}."
        adapted.append(fix._replace(text=text, command=words, safe=False) if words else fix)
    return tuple(dict.fromkeys(adapted))


def _as_pixi(command: tuple[str, ...]) -> tuple[str, ...] | None:
    """What pip's, uv's or conda's words are for pixi; None for another program's."""
    by_conda = command[0] in ("conda", "mamba", "micromamba")
    if not by_conda and "pip" not in command[:3]:
        return None
    verb, *rest = command[1:] if by_conda else command[command.index("pip") + 1 :]
    words, kind = names_in(rest), () if by_conda else ("--pypi",)
    if verb in ("remove", "uninstall"):
        return ("pixi", "remove", *kind, *words)
    if "--force-reinstall" in command:
        return ("pixi", "reinstall", *(_CONDA_NAME.sub("", word) if by_conda else name_in(word) for word in words))
    return ("pixi", "add", *kind, *words) if verb == "install" else None


# explain and run are about a text or a program, whoever's; what lock and bundle make is advised for another machine.
ABOUT_A_TARGET = ("doctor", "preflight", "resolve", "install", "rollback", "probe", "smoke")
_OURS, _OPTION = "gpuenv", "--python"
# Not where it stands already, and not where the command lists what is the same for every target.
_IN_WORDS = pattern(
    rf"\b{_OURS} (?:{'|'.join(ABOUT_A_TARGET)})\b(?![^.;,()]* {_OPTION}\b)(?<!rollback)(?! --list)"
    rf"|\b{_OURS} rollback\b(?![^.;,()]* {_OPTION}\b)"
)


def with_target_option(fixes: Iterable[Fix], python: str | None) -> tuple[Fix, ...]:
    """The fixes with ``--python`` in each gpuenv command, in commands and texts; unchanged if ``python`` is None."""
    if python is None:
        return tuple(fixes)
    adapted = []
    for fix in fixes:
        command = fix.command
        if command and _OURS in command and _OPTION not in command:  # also behind env -u NAME
            end = command.index(_OURS) + 2
            if command[end - 1 : end] and command[end - 1] in ABOUT_A_TARGET:
                command = (*command[:end], _OPTION, python, *command[end:])
        adapted.append(fix._replace(text=words_about(fix.text, python), command=command))
    return tuple(adapted)


def words_about(text: str, python: str | None) -> str:
    """A sentence with ``--python`` behind each command of ours that stands in it."""
    if python is None:
        return text
    import shlex  # noqa: PLC0415 - for a cure alone

    return _IN_WORDS.sub(lambda found: f"{found[0]} {_OPTION} {shlex.quote(python)}", text)
