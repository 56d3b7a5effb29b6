"""gpuenv's own commands in a cure: about the same target, where the caller has named one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpuenv.model.finding import Fix
from gpuenv.model.pattern import pattern

# explain and run are about a text or a program, whoever's; what lock and bundle make is advised for another machine.
ABOUT_A_TARGET = ("doctor", "preflight", "resolve", "install", "rollback", "probe", "smoke")
_OURS, _OPTION = "gpuenv", "--python"
# Not where it stands already, and not where the command lists what is the same for every target.
_IN_WORDS = pattern(
    rf"\b{_OURS} (?:{'|'.join(ABOUT_A_TARGET)})\b(?![^.;,()]* {_OPTION}\b)(?<!rollback)(?! --list)"
    rf"|\b{_OURS} rollback\b(?![^.;,()]* {_OPTION}\b)"
)


def about(fixes: Iterable[Fix], python: str | None) -> tuple[Fix, ...]:
    """The cures with ``--python`` in each command of ours, in their words too.

    Args:
        fixes: as they are for the target that is found without a word.
        python: the target as the caller named it; None where nobody did.
    """
    if python is None:
        return tuple(fixes)
    return tuple(
        replace(fix, text=words_about(fix.text, python), command=fix.command and _command(fix.command, python))
        for fix in fixes
    )


def words_about(text: str, python: str | None) -> str:
    """A sentence with ``--python`` behind each command of ours that stands in it."""
    if python is None:
        return text
    import shlex  # noqa: PLC0415 - for a cure alone

    return _IN_WORDS.sub(lambda found: f"{found[0]} {_OPTION} {shlex.quote(python)}", text)


def _command(command: tuple[str, ...], python: str) -> tuple[str, ...]:
    """The command about this target, also behind ``env -u NAME``; another program's as it is."""
    if _OURS not in command or _OPTION in command:
        return command
    end = command.index(_OURS) + 2
    verb = command[end - 1 : end]
    return (*command[:end], _OPTION, python, *command[end:]) if set(verb) & set(ABOUT_A_TARGET) else command
