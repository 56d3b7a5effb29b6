"""Adapts fixes for Linux to the machine at hand: Windows, macOS, a container, an image, pixi, and ``--python``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from gpuenv.doctor.fixes.packages import canonical_name, requirement_arguments
from gpuenv.model.finding import Fix
from gpuenv.model.snapshot import Target
from gpuenv.model.strings import pattern

_OTHER_SYSTEMS = ("windows", "darwin")
_INSTALLERS = frozenset(("apt-get", "dnf", "pacman", "ubuntu-drivers", "zypper"))
# Linux programs in fixes; other programs exist everywhere, or are the target's own interpreter.
_ROOT_CHANGERS = {*_INSTALLERS, "akmods", "dkms", "dracut", "mkinitcpio", "update-initramfs"}  # they change the root
_LINUX_PROGRAMS = {
    *_ROOT_CHANGERS,
    *("dmesg", "modinfo", "mokutil", "modprobe", "nvidia-ctk", "nvidia-modprobe", "prime-select", "driverctl"),
    *("envycontrol", "grubby", "kmodgenca", "lspci", "ps", "rmmod", "sh", "systemctl", "timeout", "which"),
}
_NAMES_HOST = pattern(r"\b(host|there|on the node)\b")
_PACKAGE = pattern(r"(?:https://[A-Za-z0-9._/+-]+\.rpm|[A-Za-z0-9._+-]+)")
_RESTART = Fix("Restart the machine; if the problem returns, reinstall its NVIDIA driver.")


def adapt_for_system(fixes: Iterable[Fix], os: str | None) -> tuple[Fix, ...]:
    """The fixes that are possible on ``windows`` or ``darwin``, without those that need a Linux program."""
    if os not in _OTHER_SYSTEMS:
        return tuple(fixes)
    linux_fixes = tuple(fixes)
    found = tuple(_translate(fix, os) for fix in linux_fixes if _program(fix) not in _LINUX_PROGRAMS)
    return found or ((_RESTART,) if linux_fixes else ())


def adapt_for_container(fixes: Iterable[Fix]) -> tuple[Fix, ...]:
    """The fixes as seen from inside a container: driver, module and services belong to the host."""
    adapted = []
    for fix in fixes:
        if not fix.command or fix.command[0] != "sudo":
            adapted.append(fix)
            continue
        first_word, text = fix.text.split(" ")[0], fix.text
        if not _NAMES_HOST.search(text):
            text = f"On the host: {text if first_word.isupper() else text[0].lower() + text[1:]}"
        command = None if _program(fix) in _INSTALLERS else fix.command  # the host's distribution is unknown
        adapted.append(fix._replace(text=text, command=command))
    return tuple(adapted)


def adapt_for_ostree(fixes: Iterable[Fix], image: str | None) -> tuple[Fix, ...]:
    """The fixes for a root that is an ostree image: packages are layered onto it, /usr cannot be changed in place.

    rpm-ostree(1): install. Other changes of the root lose their command and keep their text.
    """
    if image != "ostree":
        return tuple(fixes)
    adapted: list[Fix] = []
    for fix in map(_layer, fixes):
        packages = (fix.command or ())[3:] if (fix.command or ())[:3] == _LAYER else ()
        adapted.append(fix)
        if packages and all(package.startswith("https://") for package in packages):
            adapted.append(_RESTART_AFTER_REPOSITORY)
    return tuple(adapted)


_LAYER = ("sudo", "rpm-ostree", "install")
_RESTART_AFTER_REPOSITORY = Fix(
    "Restart the machine: the next step finds the packages of a new repository only then.",
    ("sudo", "systemctl", "reboot"),
)
_BACKGROUND_BUILD = ", and wait some minutes: akmods builds its module after that"  # here as a part of the step


def _layer(fix: Fix) -> Fix:
    program, command = _program(fix), fix.command or ()
    if program == "dnf" and "install" in command:
        arguments = [word for word in command if word not in ("sudo", program) and not word.startswith("-")]
        verb, *packages = arguments
        # Only packages can be layered, not module streams and groups.
        impossible = verb != "install" or any(not _PACKAGE.fullmatch(word) for word in packages)
        text = fix.text.replace(_BACKGROUND_BUILD, "")
        return fix._replace(text=text, command=None if impossible else (*_LAYER, *packages))
    return fix._replace(command=None) if program in _ROOT_CHANGERS else fix


def _program(fix: Fix) -> str | None:
    command = [word for word in fix.command or () if word != "sudo"]
    return command[0] if command else None


def _translate(fix: Fix, os: str) -> Fix:
    """The fix with its command for Windows; without one if the text suffices."""
    program, command = _program(fix), fix.command
    if command is None or os != "windows":
        return fix
    plain = tuple(word for word in command if word != "sudo")
    if program == "reboot":
        return fix._replace(command=("shutdown", "/r", "/t", "0"))
    if program == "env":
        return fix._replace(command=None)
    return fix._replace(command=("py", *plain[1:]) if program == "python3" else plain)


# Fixes in a pixi environment use pixi's own commands: it reverts what other installers change. pixi, Command Line
# Reference, "pixi add", "pixi remove" and "pixi reinstall" of 0.72.0 (read 2026-11-22): ``--pypi`` is for wheels;
# ``pixi add`` takes conda's specifications and PyPI's requirements as they are.

_PIXI_PREFIX = pattern(r"(.+)/\.pixi/envs/([^/]+)")
_CONDA_SPEC_REST = pattern(r"[^A-Za-z0-9._-].*")  # what follows the name in a specification of conda's
_DEFAULT_ENVIRONMENT = "default"


def adapt_for_pixi(fixes: tuple[Fix, ...], target: Target) -> tuple[Fix, ...]:
    """The fixes as pixi commands, if the target is a pixi environment."""
    if target.made_by.value != "pixi":
        return fixes
    where, found = "in the folder of the pixi project", _PIXI_PREFIX.fullmatch(target.prefix.value or "")
    if found is not None:
        feature = "" if found[2] == _DEFAULT_ENVIRONMENT else f", for a feature of its environment {found[2]}"
        where = f"in the pixi project {found[1]}{feature}"
    adapted = []
    for fix in fixes:
        command = _as_pixi(fix.command) if fix.command else None
        text = f"{fix.text.removesuffix('.')}, {where}."
        adapted.append(fix._replace(text=text, command=command, safe=False) if command else fix)
    return tuple(dict.fromkeys(adapted))


def _as_pixi(command: tuple[str, ...]) -> tuple[str, ...] | None:
    """The pixi command for a command of pip, uv or conda; None for another program."""
    by_conda = command[0] in ("conda", "mamba", "micromamba")
    if not by_conda and "pip" not in command[:3]:
        return None
    verb, *rest = command[1:] if by_conda else command[command.index("pip") + 1 :]
    packages, kind = requirement_arguments(rest), () if by_conda else ("--pypi",)
    if verb in ("remove", "uninstall"):
        return ("pixi", "remove", *kind, *packages)
    if "--force-reinstall" in command:
        return (
            "pixi",
            "reinstall",
            *(_CONDA_SPEC_REST.sub("", word) if by_conda else canonical_name(word) for word in packages),
        )
    return ("pixi", "add", *kind, *packages) if verb == "install" else None


# Commands with --python. explain and run concern a text or a program, lock and bundle another machine.
TARGET_COMMANDS = ("doctor", "preflight", "resolve", "install", "rollback", "probe", "smoke")
_PROGRAM, _OPTION = "gpuenv", "--python"
# Not if the option is present, nor if the command lists what is the same for every target.
_COMMAND_IN_TEXT = pattern(
    rf"\b{_PROGRAM} (?:{'|'.join(TARGET_COMMANDS)})\b(?![^.;,()]* {_OPTION}\b)(?<!rollback)(?! --list)"
    rf"|\b{_PROGRAM} rollback\b(?![^.;,()]* {_OPTION}\b)"
)


def with_target_option(fixes: Iterable[Fix], python: str | None) -> tuple[Fix, ...]:
    """The fixes with ``--python`` in each gpuenv command, in commands and texts; unchanged if ``python`` is None."""
    if python is None:
        return tuple(fixes)
    adapted = []
    for fix in fixes:
        command = fix.command
        if command and _PROGRAM in command and _OPTION not in command:  # also behind env -u NAME
            end = command.index(_PROGRAM) + 2
            if command[end - 1 : end] and command[end - 1] in TARGET_COMMANDS:
                command = (*command[:end], _OPTION, python, *command[end:])
        adapted.append(fix._replace(text=add_target_option(fix.text, python), command=command))
    return tuple(adapted)


def add_target_option(text: str, python: str | None) -> str:
    """A sentence with ``--python`` in each gpuenv command; unchanged if ``python`` is None."""
    if python is None:
        return text
    return _COMMAND_IN_TEXT.sub(lambda found: f"{found[0]} {_OPTION} {shlex.quote(python)}", text)
