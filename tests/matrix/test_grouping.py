"""Machines with equal needs share a resolution, and the resolver reads nothing but the needs."""

from __future__ import annotations

import dataclasses
import typing
from random import Random

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.matrix.needs import Needs, needs_of
from gpuenv.matrix.resolve import resolve, resolve_all
from gpuenv.matrix.tables import Matrix
from gpuenv.matrix.what_if import resolve_fleet
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.versions import DriverVersion
from gpuenv.simulate.profile import shipped_machines
from tests.matrix.resolutions import machine
from tests.matrix.table import PLATFORMS, PYTHONS


def _random_machines(matrix: Matrix, count: int) -> list[Snapshot]:
    """Machines of few kinds, so that some are equal."""
    random = Random(7)  # noqa: S311 - no secret
    packages = ("torch=2.15.0", "torch=2.6.0", "cudf-cu12=26.10.2", "jax-cuda13-plugin=0.12.0.1", "requests=2.32.0")
    return [
        assume(
            Snapshot(),
            (
                *random.choice(PLATFORMS)[1],
                f"python={random.choice(PYTHONS)}",
                f"driver={random.choice(('470.82.01', '550.54.15', '580.95.05', 'none'))}",
                f"gpu={random.choice(('V100', 'H100', 'GTX 980', 'B200'))}",
                f"package.{random.choice(packages)}",
            ),
            matrix,
        )
        for _ in range(count)
    ]


def _other_serials(snapshot: Snapshot, number: int) -> Snapshot:
    """The same machine with other identities and readings that change from minute to minute."""
    gpus = tuple(
        gpu._replace(uuid=known(f"GPU-{number:08x}-0000-0000-0000-000000000000", "nvml")) for gpu in snapshot.gpus
    )
    return snapshot._replace(
        gpus=gpus, taken_at=f"2026-11-28T10:{number % 60:02d}:00Z", environment={"JOB": str(number)}
    )


@pytest.mark.long
def test_every_machine_has_the_resolution_that_it_has_alone(matrix: Matrix) -> None:
    machines = [*shipped_machines(matrix).values(), *_random_machines(matrix, 200)]
    machines += [_other_serials(snapshot, number) for number, snapshot in enumerate(machines)]
    together = resolve_all(machines, matrix)
    assert together == [resolve(snapshot, matrix) for snapshot in machines]
    assert len({id(resolution) for resolution in together}) <= len(machines) / 2


def test_a_driver_written_otherwise_is_quoted_as_its_machine_writes_it(matrix: Matrix) -> None:
    one, other = machine(matrix, "driver=550.54.15", "gpu=V100"), machine(matrix, "driver=550.054.15", "gpu=V100")
    assert needs_of(one, matrix) == needs_of(other, matrix)
    explanations = [resolution.explanation for resolution in resolve_all((one, other), matrix)]
    assert "driver 550.54.15" in explanations[0]
    assert "driver 550.054.15" in explanations[1]


def _types(hint: object) -> set[type]:
    """Every record in a type hint, and in the fields of these records."""
    found: set[type] = set()
    for part in (hint, typing.get_origin(hint), *typing.get_args(hint)):
        if isinstance(part, type) and part is not hint:
            found |= _types(part)
        if isinstance(part, type) and (dataclasses.is_dataclass(part) or hasattr(part, "_fields")):
            found.add(part)
            for inner in typing.get_type_hints(part).values():
                found |= _types(inner)
        elif part is not hint:
            found |= _types(part)
    return found


def test_only_the_text_of_a_driver_is_left_out_of_comparisons() -> None:
    """The key of a group is the needs and that text."""
    ignored = {
        (record, field.name)
        for record in _types(Needs)
        if dataclasses.is_dataclass(record)
        for field in dataclasses.fields(record)
        if not field.compare
    }
    assert ignored == {(DriverVersion, "text")}


def test_machines_of_a_fleet_keep_their_order(matrix: Matrix) -> None:
    v100, h100 = machine(matrix, "driver=550", "gpu=V100"), machine(matrix, "driver=550", "gpu=H100")
    fleet = resolve_fleet({"a": v100, "b": h100, "c": v100, "d": h100}, matrix)
    assert [answer.machines for answer in fleet.answers] == [("a", "b", "c", "d")]
