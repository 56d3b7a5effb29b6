"""Installs and removals of packages in a target: by pip, uv or conda, whichever manages them."""

from __future__ import annotations

import re
from itertools import chain

from gpuenv.model.cupy import conda_record, is_cupy
from gpuenv.model.finding import Fix
from gpuenv.model.snapshot import Snapshot, SourceState, Target


def pip_fix(snapshot: Snapshot, text: str, *arguments: str) -> Fix:
    """An install or uninstall in the target: by conda for conda's packages, else by pip, or by uv without pip.

    An externally managed target gets no command. ``text`` is a sentence, ``arguments`` are those of pip.
    """
    target = snapshot.target
    interpreter = target.executable.value or "python"
    named = [name_in(word) for word in arguments[1:] if not word.startswith("-")] if target.conda_packages else []
    if named and all(conda_record(name, target.conda_packages) for name in named):
        return Fix(f"{text} Conda put it there.", ("conda", *_condas_words(target, arguments, named)), safe=True)
    if target.externally_managed.value:
        stop = "" if text.endswith(".") else "."
        return Fix(f"{text}{stop} The system manages this Python: do it in a virtual environment of your own.")
    asked = snapshot.source("target").state is SourceState.ANSWERED  # else nobody knows that pip is not there
    if "pip" in target.packages or not target.python.known or not asked:
        return Fix(text, (interpreter, "-m", "pip", *arguments), safe=True)
    plain = tuple(argument for argument in arguments if argument != "-y")
    return Fix(text, ("uv", "pip", plain[0], "--python", interpreter, *plain[1:]), safe=True)


def name_in(requirement: str) -> str:
    """The canonical name of a distribution in a requirement, be its release one that packaging refuses."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - 8 ms, and few targets need it
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - likewise

    try:
        name = Requirement(requirement).name
    except InvalidRequirement:  # metadata may say any release: numpy==1.26-patched
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
    return canonicalize_name(name)


def condas_cupy(target: Target) -> tuple[str, ...]:
    """Every package of conda's CuPy: what is done to one leaves the files of the others as they are."""
    return tuple(name for name in target.conda_packages if is_cupy(name))


def condas_anew(target: Target, names: tuple[str, ...]) -> tuple[str, ...]:
    """Conda's words to put packages in anew; CuPy in the release that is there, from the matrix's channel."""
    there = target.conda_packages
    channel = ("--channel=conda-forge",) if any(map(is_cupy, names)) else ()
    specs = (f"{name}={there[name]}" if is_cupy(name) else name for name in names)
    return ("install", "--force-reinstall", *condas_prefix(target), *channel, *specs)


def _condas_words(target: Target, arguments: tuple[str, ...], named: list[str]) -> tuple[str, ...]:
    """The arguments for conda that do what these arguments do for pip."""
    of_each = (condas_cupy(target) if is_cupy(name) else (name,) for name in named)
    packages = tuple(dict.fromkeys(chain.from_iterable(of_each)))
    if arguments[0] == "uninstall":
        return ("remove", *condas_prefix(target), *packages)
    if "--force-reinstall" in arguments:
        return condas_anew(target, packages)
    return ("install", *condas_prefix(target), *(word for word in arguments[1:] if not word.startswith("-")))


def condas_prefix(target: Target) -> tuple[str, ...]:
    """Conda's words for the environment."""
    prefix = target.prefix.value
    return (f"--prefix={prefix}",) if prefix else ()
