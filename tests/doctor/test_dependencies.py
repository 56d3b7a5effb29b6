"""What CuPy requires itself, and is not there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.assume import assume
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.snapshot import Snapshot

GIVEN = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100", "numpy=2.1.0")
FINDER = "cuda-pathfinder==1.*,>=1.3.4"


def found(matrix: Matrix, requires: str, **packages: str) -> list[Finding]:
    snapshot = assume(Snapshot(), [*GIVEN, "cupy=cupy-cuda12x==14.2.0"], matrix)
    (cupy,) = snapshot.target.cupy
    target = replace(
        snapshot.target,
        cupy=(replace(cupy, requires=(requires,)),),
        packages={
            **snapshot.target.packages,
            **{name.replace("_", "-"): release for name, release in packages.items()},
        },
    )
    snapshot = replace(snapshot, target=target)
    findings = diagnose(snapshot, matrix, resolve(snapshot, matrix), lambda: 0.0).findings
    return [finding for finding in findings if finding.code == "WHL517"]


@pytest.mark.parametrize(
    ("requires", "packages", "severity"),
    [
        (FINDER, {}, Severity.ERROR),
        (FINDER, {"cuda_pathfinder": "1.0.0"}, Severity.ERROR),
        (FINDER, {"cuda_pathfinder": "2.0.0"}, Severity.WARNING),
        ("fastrlock >=0.5", {}, Severity.ERROR),
    ],
)
def test_what_is_missing_is_named_with_its_cure(
    matrix: Matrix, requires: str, packages: dict[str, str], severity: Severity
) -> None:
    (finding,) = found(matrix, requires, **packages)
    assert finding.severity is severity
    assert requires in finding.title
    assert finding.fix[0].command is not None
    assert requires.replace(" ", "") in finding.fix[0].command


@pytest.mark.parametrize(
    ("requires", "packages"),
    [
        (FINDER, {"cuda_pathfinder": "1.9.0"}),
        ("fastrlock>=0.5", {"fastrlock": "0.8.3"}),
        ("numpy<2.6,>=2.0", {}),  # a check of its own
        ("some-library>=3", {}),  # the target does not tell of it
        ("fastrlock; python_version < '3'", {}),
        ("fastrlock is no requirement", {}),
    ],
)
def test_what_is_there_or_cannot_be_told_is_no_matter(matrix: Matrix, requires: str, packages: dict[str, str]) -> None:
    assert found(matrix, requires, **packages) == []
