"""Conda's CuPy, alone and with pip's beside it: whose it is, and how it stays whole. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.doctor.installed import is_condas
from gpuenv.doctor.repair import wound_of
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding
from gpuenv.model.reading import known, missing
from gpuenv.model.snapshot import CupyInstallation, FileState, Snapshot, Source, SourceState
from tests.doctor.installed_target import CUPY, MODULE, SITE, changed, faulty, found, healthy

__all__ = ["healthy"]

CONDAS = CupyInstallation("cupy", "14.1.1", SITE, (), True, MODULE)
BOTH = {"cuda-version": "12.9", "cupy": "14.1.1", "cupy-core": "14.1.1"}
CORE = {"cuda-version": "12.9", "cupy-core": "14.1.1"}
ANEW = ("conda", "install", "--force-reinstall", "--prefix=/venv", "--channel=conda-forge")


def environment(healthy: Snapshot, of_conda: dict[str, str], *cupys: CupyInstallation) -> Snapshot:
    packages = {"numpy": "2.1.0", "pip": "25.0", **of_conda, **{entry.distribution: entry.release for entry in cupys}}
    return changed(healthy, kind=known("conda", "x"), conda_packages=of_conda, packages=packages, cupy=cupys)


def commands(finding: Finding) -> list[tuple[str, ...]]:
    return [fix.command for fix in finding.fix if fix.command]


@pytest.mark.parametrize("of_conda", [BOTH, CORE])
def test_conda_s_own_cupy_is_conda_s_by_either_package(
    matrix: Matrix, healthy: Snapshot, of_conda: dict[str, str]
) -> None:
    snapshot = environment(healthy, of_conda, CONDAS)
    assert not {"WHL502", "WHL513"} & set(found(matrix, snapshot))
    assert is_condas(snapshot.target)


def test_a_cupy_that_no_record_of_conda_s_is_of_is_another_installer_s(healthy: Snapshot) -> None:
    assert not is_condas(environment(healthy, {"cuda-version": "12.9"}, CONDAS).target)


@pytest.mark.parametrize(
    ("of_conda", "title", "specs"),
    [
        (BOTH, "conda's cupy and pip's cupy-cuda12x share the target", ("cupy=14.1.1", "cupy-core=14.1.1")),
        (CORE, "conda's cupy-core and pip's cupy-cuda12x share the target", ("cupy-core=14.1.1",)),
    ],
)
def test_of_conda_s_and_pip_s_pip_s_goes_and_every_package_of_conda_s_is_put_in_anew(
    matrix: Matrix, healthy: Snapshot, of_conda: dict[str, str], title: str, specs: tuple[str, ...]
) -> None:
    snapshot = environment(healthy, of_conda, CONDAS, CUPY)
    findings = diagnose(snapshot, matrix, resolve(snapshot, matrix), lambda: 0.0).findings
    finding = next(entry for entry in findings if entry.code == "WHL502")
    assert (finding.title, finding.cause) == (title, Cause.MIXED_PIP_CONDA)
    removal, anew = commands(finding)
    assert removal[1:] == ("-m", "pip", "uninstall", "-y", "cupy-cuda12x")
    assert anew == (*ANEW, *specs)
    assert wound_of(findings, snapshot) is None


def test_pip_s_cupy_over_conda_s_records_alone_has_the_same_cure(matrix: Matrix, healthy: Snapshot) -> None:
    finding = found(matrix, environment(healthy, BOTH, CUPY))["WHL513"]
    assert commands(finding)[1] == (*ANEW, "cupy=14.1.1", "cupy-core=14.1.1")


@pytest.mark.parametrize(
    ("of_conda", "specs"), [(BOTH, ("cupy=14.1.1", "cupy-core=14.1.1")), (CORE, ("cupy-core=14.1.1",))]
)
def test_missing_files_of_conda_s_cupy_come_back_with_the_package_that_has_them(
    matrix: Matrix, healthy: Snapshot, of_conda: dict[str, str], specs: tuple[str, ...]
) -> None:
    snapshot = faulty(environment(healthy, of_conda, CONDAS), "cupy/_core/core.so", FileState.MISSING, "cupy")
    assert commands(found(matrix, snapshot)["WHL510"]) == [(*ANEW, *specs)]


def test_a_removal_takes_every_package_of_conda_s_cupy(matrix: Matrix, healthy: Snapshot) -> None:
    other = replace(CONDAS, for_this_interpreter=False, tags=("cp311",))
    removal = commands(found(matrix, environment(healthy, BOTH, other))["WHL512"])[0]
    assert removal == ("conda", "remove", "--prefix=/venv", "cupy", "cupy-core")


def test_what_conda_has_on_record_alone_is_put_in_anew(matrix: Matrix, healthy: Snapshot) -> None:
    """Without force conda takes it for installed: pip, say, has removed its files."""
    packages = {name: release for name, release in healthy.target.packages.items() if not name.startswith("cupy")}
    bare = changed(healthy, cupy=(), packages=packages, libraries=(), cupy_module=missing("no module"))
    answered = Source("target", SourceState.ANSWERED)
    bare = replace(bare, assumed=(), sources=(*bare.sources, answered))
    records = {"cupy": "14.1.1", "cupy-core": "14.1.1", "numpy": "2.1.0"}
    finding = found(matrix, changed(bare, conda_packages=records, kind=known("conda", "x")))["WHL503"]
    assert finding.cause is Cause.CORRUPT_INSTALLATION
    command = finding.fix[0].command or ()
    assert command[:3] == ("conda", "install", "--force-reinstall")
    assert {"cupy=14.1.1", "cupy-core=14.1.1"} <= {*command}
    other = found(matrix, changed(bare, conda_packages={"numpy": "2.1.0"}, kind=known("conda", "x")))["WHL503"]
    assert other.cause is Cause.CUPY_NOT_INSTALLED
