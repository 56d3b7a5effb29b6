"""The codes of all checks: those of gpuenv and those of plug-ins."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuenv.plugins.discovery import Plugin


@cache
def plugins() -> tuple[Plugin, ...]:
    """The checks of plug-ins in this environment."""
    from gpuenv.plugins.discovery import find_plugins

    return find_plugins()


def known_codes() -> tuple[str, ...]:
    """The codes of all checks: gpuenv's own, then those of plug-ins."""
    from gpuenv.doctor.checks import all_checks

    return (*(check.code for check in all_checks()), *(plugin.code for plugin in plugins()))
