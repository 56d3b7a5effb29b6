"""The user's word that a package may not come as a wheel: honoured, although nothing is built here.

uv says by itself that it finds nothing then. pip takes the word back without a sound where wheels alone are asked for
on its command line, so that it is asked what it was told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from gpuenv.install.backends.pip import Pip
from gpuenv.install.errors import NothingFits
from gpuenv.install.settings import BY_VARIABLE, Setting, joined, pip_setting, told_by_pip

if TYPE_CHECKING:
    from gpuenv.install.resolving import Caller

_ALL, _NONE = ":all:", ":none:"
# What goes before what, the last one above all (pip documentation, Configuration, "Precedence / Override order").
_PARTS: Mapping[str, int] = {"global": 0, "install": 1, BY_VARIABLE: 2}


@dataclass(frozen=True, slots=True)
class _Words:
    """Who may not come as a wheel, each with the setting that says so, and who may come as nothing else."""

    built: dict[str, Setting] = field(default_factory=dict)
    wheels: set[str] = field(default_factory=set)

    def no_binary(self, name: str, setting: Setting) -> None:
        """One name of no-binary: all others go where it is all of them, and it is in the other list no more."""
        if name in (_ALL, _NONE):
            self.built.clear()
        if name == _ALL:
            self.wheels.clear()
        if name != _NONE:
            self.built[name] = setting
            self.wheels.discard(name)

    def only_binary(self, name: str) -> None:
        """Likewise of only-binary."""
        if name in (_ALL, _NONE):
            self.wheels.clear()
        if name == _ALL:
            self.built.clear()
        if name != _NONE:
            self.wheels.add(name)
            self.built.pop(name, None)

    def against(self, name: str) -> Setting | None:
        """What forbids the wheel of a package: its own name goes before all of them."""
        return self.built.get(name) or (None if name in self.wheels else self.built.get(_ALL))


def refuse_wheels(caller: Caller, names: Iterable[str]) -> None:
    """Nothing is installed in a form that the user has ruled out.

    Raises:
        NothingFits: where one of these packages is to be built.
    """
    if not isinstance(caller.installer, Pip):
        return
    words = _words(caller, caller.installer)
    found = {name: setting for name in names if (setting := words.against(name)) is not None}
    if found:
        told = joined(tuple(dict.fromkeys(found.values())))
        raise NothingFits(
            f"{', '.join(found)}: may not come as a wheel, and nothing is built here",
            f"Look first at your own settings that bear on it: {told}.",
        )


def _words(caller: Caller, installer: Pip) -> _Words:
    words = _Words()
    told = [entry for entry in told_by_pip(caller, installer) if entry[0] in _PARTS]
    for part, key, value in sorted(told, key=lambda entry: _PARTS[entry[0]]):
        names = [text.strip() for text in value.strip("'\"").split(",")]
        for name in (text if text in (_ALL, _NONE) else canonicalize_name(text) for text in names if text):
            if key == "no-binary":
                words.no_binary(name, pip_setting(part, key, value))
            elif key == "only-binary":
                words.only_binary(name)
    return words
