"""A cure in an environment of pixi's: its manifest says what is there, so its own commands change it. Pure.

What another installer puts there or takes out comes back at pixi's next command. pixi, Command Line Reference, "pixi
add", "pixi remove" and "pixi reinstall" of 0.72.0 (read 2026-11-22): ``--pypi`` is for wheels; ``pixi add`` takes
conda's specifications and PyPI's requirements as they are.
"""

from __future__ import annotations

from dataclasses import replace

from gpuenv.doctor.packages import name_in
from gpuenv.model.finding import Fix
from gpuenv.model.pattern import pattern
from gpuenv.model.target import Target

_PLACE = pattern(r"(.+)/\.pixi/envs/([^/]+)")
_CONDA_NAME = pattern(r"[^A-Za-z0-9._-].*")  # what follows the name in a specification of conda's
_DEFAULT = "default"
_WITH_AN_ARGUMENT = ("--python",)


def for_pixi(fixes: tuple[Fix, ...], target: Target) -> tuple[Fix, ...]:
    """The cures as a project of pixi's needs them; the same ones where the target is none."""
    if target.made_by.value != "pixi":
        return fixes
    told = (_told(fix, target.prefix.value or "") for fix in fixes)
    return tuple(dict.fromkeys(told))


def _told(fix: Fix, prefix: str) -> Fix:
    words = _as_pixi(fix.command) if fix.command else None
    if words is None:
        return fix
    return replace(fix, text=f"{fix.text.removesuffix('.')}, {_where(prefix)}.", command=words, safe=False)


def _where(prefix: str) -> str:
    found = _PLACE.fullmatch(prefix)
    if found is None:
        return "in the folder of the pixi project"
    of_one = "" if found[2] == _DEFAULT else f", for a feature of its environment {found[2]}"
    return f"in the pixi project {found[1]}{of_one}"


def _as_pixi(command: tuple[str, ...]) -> tuple[str, ...] | None:
    """What pip's, uv's or conda's words are for pixi; None for another program's."""
    by_conda = command[0] in ("conda", "mamba", "micromamba")
    if not by_conda and "pip" not in command[:3]:
        return None
    verb, words = _words(command[1:] if by_conda else command[command.index("pip") + 1 :])
    kind = () if by_conda else ("--pypi",)
    if verb in ("remove", "uninstall"):
        return ("pixi", "remove", *kind, *words)
    if "--force-reinstall" in command:
        return ("pixi", "reinstall", *(_CONDA_NAME.sub("", word) if by_conda else name_in(word) for word in words))
    return ("pixi", "add", *kind, *words) if verb == "install" else None


def _words(command: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The verb, and what it is about, apart from options."""
    verb, *rest = command
    found, passed_over = [], False
    for word in rest:
        if not passed_over and not word.startswith("-"):
            found.append(word)
        passed_over = not passed_over and word in _WITH_AN_ARGUMENT
    return verb, tuple(found)
