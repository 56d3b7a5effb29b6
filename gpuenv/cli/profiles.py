"""The machine profiles that travel with the program, as machines to resolve for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpuenv.cli.errors import CommandError
from gpuenv.data import data_path
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.resolution import Resolution
    from gpuenv.model.snapshot import Snapshot


def shipped_machines(matrix: Matrix) -> Mapping[str, Snapshot]:
    """Each profile's machine, by the profile's name."""
    from gpuenv.simulate.facts import snapshot_of
    from gpuenv.simulate.profile import load

    profiles = (load(path) for path in sorted(data_path("machines").glob("*.yaml")))
    return {profile.name: snapshot_of(profile, matrix) for profile in profiles}


def machine_lines(matrix: Matrix, *, verbose: bool) -> Iterator[str]:
    """What is named for every machine profile, or why nothing is.

    Raises:
        CommandError: where a machine gets neither a wheel nor a reason: then the rows say nothing of it.
    """
    from gpuenv.matrix.resolve import resolve

    machines = shipped_machines(matrix)
    without = 0
    for name, machine in machines.items():
        resolution = resolve(machine, matrix, wheels_only=True)
        if resolution.wheel is None and not resolution.rejected:
            raise CommandError(ExitCode.MATRIX_INVALID, f"{name}: no wheel is named for it, and no reason is given")
        without += resolution.wheel is None
        if verbose:
            named = " ".join(resolution.wheel.requirements) if resolution.wheel else "none"
            yield f"  {name}: {named}"
        if resolution.wheel is None:
            yield from (f"    {line}" for line in _reasons(resolution)) if verbose else ()
    yield f"{len(machines)} machine profiles: {len(machines) - without} resolve, {without} do not, each for a reason"


def _reasons(resolution: Resolution) -> Iterator[str]:
    """What stands against the newest release of each line."""
    told: set[str] = set()
    for entry in resolution.rejected:
        if entry.candidate.name not in told:
            told.add(entry.candidate.name)
            yield f"not {entry.candidate.label}: needs {entry.needed}, found {entry.found}"
