"""Environments older than the matrix: the installed CuPy is not reported as incompatible."""

from __future__ import annotations

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.snapshot import Snapshot
from tests.doctor.public_report_lines import built
from tests.doctor.public_reports import LINUX, libraries
from tests.doctor.test_user_machines import conda
from tests.support.diagnosis import diagnosis_of
from tests.support.matrix import MATRIX

COMPATIBLE = {
    "CUDA 10.0 on R418": ("driver=418.87.00", "gpu=V100", "python=3.6", "numpy=1.16.6", "cupy=cupy-cuda100==7.8.0"),
    "CUDA 10.2 on R440": ("driver=440.33.01", "gpu=V100", "python=3.6", "numpy=1.19.5", "cupy=cupy-cuda102==8.4.0"),
    "CUDA 11.2 on R460": ("driver=460.91.03", "gpu=A100", "python=3.7", "numpy=1.20.0", "cupy=cupy-cuda112==9.6.0"),
    "CUDA 8 on Pascal": ("driver=384.81", "gpu=P100", "python=3.5", "numpy=1.14.0", "cupy=cupy-cuda80==4.5.0"),
    "CUDA 9 on Volta": ("driver=390.46", "gpu=V100", "python=3.6", "numpy=1.14.0", "cupy=cupy-cuda90==4.5.0"),
}


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    return diagnosis_of(snapshot).findings


@pytest.mark.parametrize("name", COMPATIBLE)
def test_environments_as_old_as_their_driver_are_compatible(name: str) -> None:
    old_findings = findings(assume(Snapshot(), [*LINUX, *COMPATIBLE[name]], MATRIX))
    assert [finding.code for finding in old_findings if finding.severity is Severity.ERROR] == []
    assert {finding.code for finding in old_findings} <= {"WHL508"}


@pytest.mark.parametrize(
    ("release", "driver", "code"),
    [("10.0", "418.87.00", None), ("11.2.2", "470.82.01", None), ("11.2.2", "440.33.01", "WHL504")],
)
def test_cudatoolkit_determines_the_cuda_of_an_old_conda_cupy(release: str, driver: str, code: str | None) -> None:
    result = (*LINUX, f"driver={driver}", "gpu=V100", "python=3.9", "numpy=1.21.0", "cupy=none")
    snapshot = conda(cupy="9.6.0", cudatoolkit=release, numpy="1.21.0")(assume(Snapshot(), result, MATRIX))
    primary = next((finding for finding in findings(snapshot) if finding.primary), None)
    assert (primary and primary.code) == code


@pytest.mark.parametrize(("cuda", "gpu", "code"), [(13, "V100", "WHL505"), (12, "V100", None), (13, "H100", None)])
def test_a_source_build_is_judged_by_its_linked_cuda(cuda: int, gpu: str, code: str | None) -> None:
    result = (*LINUX, "driver=580.95.05", f"gpu={gpu}", "python=3.12", "numpy=2.1.0", "cupy=cupy==13.6.0")
    snapshot = libraries(cuda, release=f"{cuda}.0")(built("13.6.0", cuda)(assume(Snapshot(), result, MATRIX)))
    primary = next((finding for finding in findings(snapshot) if finding.primary), None)
    assert (primary and primary.code) == code


@pytest.mark.parametrize(
    ("requires", "numpy", "expected"),
    [
        (("numpy (<1.24,>=1.17)",), "1.24.4", True),
        (("numpy<1.24,>=1.17",), "1.23.5", False),
        (("numpy>=1.15",), "1.26.4", False),
        (("numpy-stl>=1",), "1.26.4", False),
        ((), "1.26.4", False),
    ],
)
def test_an_unlisted_release_uses_the_numpy_range_of_its_metadata(
    requires: tuple[str, ...], numpy: str, *, expected: bool
) -> None:
    result = (*LINUX, "driver=470.82.01", "gpu=V100", "python=3.8", f"numpy={numpy}", "cupy=cupy-cuda112==9.6.0")
    snapshot = assume(Snapshot(), result, MATRIX)
    cupy = tuple(entry._replace(requires=requires) for entry in snapshot.target.cupy)
    snapshot = snapshot._replace(target=snapshot.target._replace(cupy=cupy))
    assert ("WHL506" in {finding.code for finding in findings(snapshot)}) is expected


@pytest.mark.parametrize(
    ("release", "numpy", "by_conda", "expected"),
    [
        ("13.6.0", "2.3.4", True, False),  # the recipe has no upper bound
        ("13.6.0", "1.21.0", True, True),
        ("12.3.0", "2.3.4", True, False),  # not in the matrix, so unknown
        ("13.6.0", "2.3.4", False, True),
        ("13.6.0", "2.2.0", False, False),
    ],
)
def test_a_conda_cupy_uses_the_numpy_range_of_its_recipe(
    release: str, numpy: str, *, by_conda: bool, expected: bool
) -> None:
    result = (*LINUX, "driver=580.95.05", "gpu=H100", "python=3.12", f"numpy={numpy}", "cupy=none")
    ours = {"numpy": numpy, "cuda_version": "12.9"}
    snapshot = conda(**ours, cupy=release, cupy_core=release)(assume(Snapshot(), result, MATRIX))
    cupy = tuple(entry._replace(requires=("numpy<2.3,>=1.22",)) for entry in snapshot.target.cupy)
    assert [entry.distribution for entry in cupy] == ["cupy"]
    records = {
        name: result for name, result in snapshot.target.conda_packages.items() if by_conda or "cupy" not in name
    }
    snapshot = snapshot._replace(target=snapshot.target._replace(cupy=cupy, conda_packages=records))
    assert ("WHL506" in {finding.code for finding in findings(snapshot)}) is expected
