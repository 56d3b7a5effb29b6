"""The checks of other packages, as the commands need them."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuenv.doctor.diagnose import Diagnosis, Terms
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.plugins.discover import Plugin


@cache
def plugins() -> tuple[Plugin, ...]:
    """The checks that other packages bring to this environment."""
    from gpuenv.plugins.discover import find_plugins

    return find_plugins(_own_codes)


def _own_codes() -> tuple[str, ...]:
    from gpuenv.doctor.registry import all_checks

    return tuple(check.code for check in all_checks())


def known_codes() -> tuple[str, ...]:
    """The code of every check: gpuenv's own, then those of other packages."""
    return (*_own_codes(), *(plugin.code for plugin in plugins()))


def with_plugins(
    diagnosis: Diagnosis, found: Sequence[Plugin], facts: Snapshot, terms: Terms, seconds: float
) -> Diagnosis:
    """The diagnosis with what the checks of other packages say of the machine.

    Args:
        diagnosis: by gpuenv's own checks.
        found: those of other packages.
        facts: the machine.
        terms: on what terms it is judged.
        seconds: that all this may take, as the caller says.
    """
    if not found:
        return diagnosis
    from gpuenv.doctor.diagnose import extended, left_out
    from gpuenv.plugins.run import MOST_SECONDS, run_plugins

    wanted = [plugin for plugin in found if plugin.code not in terms.left_out]
    told = run_plugins(wanted, facts, os.environ, min(seconds, MOST_SECONDS))
    runs = [entry.run for entry in told] + [left_out(p.code) for p in found if p.code in terms.left_out]
    return extended(diagnosis, [finding for entry in told for finding in entry.findings], runs, terms)
