"""CuPys that the path leads to and that are not the environment's own: their cures do not touch what is right. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.doctor.repair import wound_of
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding
from gpuenv.model.reading import known
from gpuenv.model.snapshot import CupyInstallation, PackagePlace, Snapshot
from tests.doctor.installed_target import CUPY, changed, found, healthy

__all__ = ["healthy"]

OWN = replace(CUPY, distribution="cupy-cuda13x", place=PackagePlace.ENVIRONMENT)  # the right one for an H100 on R580
OLD = CupyInstallation("cupy-cuda11x", "13.6.0", "/else/where")


def two(matrix: Matrix, healthy: Snapshot, *cupys: CupyInstallation) -> tuple[Finding, Snapshot]:
    snapshot = changed(healthy, cupy=cupys)
    finding = found(matrix, snapshot)["WHL502"]
    assert finding.cause is Cause.MULTIPLE_CUPY_PACKAGES
    return finding, snapshot


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (PackagePlace.PYTHONPATH, "off PYTHONPATH"),
        (PackagePlace.USER, "PYTHONNOUSERSITE=1"),
        (PackagePlace.ELSEWHERE, "outside of this environment"),
    ],
)
def test_the_right_one_stays_and_the_other_is_put_out_of_the_way(
    matrix: Matrix, healthy: Snapshot, place: PackagePlace, words: str
) -> None:
    finding, snapshot = two(matrix, healthy, replace(OLD, place=place), OWN)
    (fix,) = finding.fix
    assert words in fix.text
    assert "cupy-cuda11x 13.6.0 in /else/where" in fix.text
    assert (fix.command, fix.safe) == (None, False)
    assert wound_of([finding], snapshot) is None


def test_one_that_fits_stays_be_another_line_the_better_one(matrix: Matrix, healthy: Snapshot) -> None:
    """On a driver for CUDA 13 that of CUDA 12 works as well."""
    own = replace(CUPY, distribution="cupy-cuda12x", release="14.2.0", place=PackagePlace.ENVIRONMENT)
    snapshot = changed(healthy, cupy=(replace(OLD, place=PackagePlace.PYTHONPATH), own))
    wheel = resolve(snapshot, matrix).wheel
    assert wheel is not None
    assert wheel.distribution == "cupy-cuda13x"
    (fix,) = found(matrix, snapshot)["WHL502"].fix
    assert "off PYTHONPATH" in fix.text


def test_a_wrong_one_of_the_environment_s_own_is_replaced_as_well(matrix: Matrix, healthy: Snapshot) -> None:
    other = replace(CUPY, distribution="cupy-cuda11x", place=PackagePlace.ENVIRONMENT)
    finding, _ = two(matrix, healthy, replace(OWN, location="/else/where", place=PackagePlace.PYTHONPATH), other)
    assert [bool(fix.command) for fix in finding.fix] == [False, True, True]
    assert "cupy-cuda11x" in (finding.fix[1].command or ())
    assert "cupy-cuda13x" not in (finding.fix[1].command or ())


@pytest.mark.parametrize("place", [None, PackagePlace.ENVIRONMENT])
def test_two_of_its_own_are_both_removed(matrix: Matrix, healthy: Snapshot, place: PackagePlace | None) -> None:
    finding, snapshot = two(matrix, healthy, replace(OLD, place=place), replace(OWN, place=place))
    assert finding.fix[0].text == "Remove all of them."
    assert wound_of([finding], snapshot) is not None


def test_a_wrong_one_that_is_elsewhere_is_not_uninstalled_from_here(matrix: Matrix, healthy: Snapshot) -> None:
    there = replace(OLD, release="10.0.0", place=PackagePlace.PYTHONPATH)
    findings = found(matrix, changed(healthy, cupy=(there,)))
    cures = [fix for finding in findings.values() for fix in finding.fix]
    assert any("PYTHONPATH" in fix.text for fix in cures), sorted(findings)
    assert not any("uninstall" in (fix.command or ()) for fix in cures)


def test_the_user_s_own_before_conda_s_is_no_mixture_of_the_environment(matrix: Matrix, healthy: Snapshot) -> None:
    condas = CupyInstallation("cupy", "14.1.1", "/conda/site", place=PackagePlace.ENVIRONMENT)
    snapshot = changed(
        healthy,
        cupy=(replace(OLD, place=PackagePlace.USER), condas),
        kind=known("conda", "x"),
        conda_packages={"cupy-core": "14.1.1"},
    )
    finding = found(matrix, snapshot)["WHL502"]
    assert finding.cause is Cause.MULTIPLE_CUPY_PACKAGES
    (fix,) = finding.fix
    assert "PYTHONNOUSERSITE=1" in fix.text


@pytest.mark.parametrize(
    ("kind", "module", "words"),
    [
        ("conda", "/home/me/.local/lib/python3.12/site-packages/numpy/__init__.py", "PYTHONNOUSERSITE=1"),
        ("system", "/home/me/.local/lib/python3.12/site-packages/numpy/__init__.py", "PYTHONNOUSERSITE=1"),
        ("venv", "/home/me/.local/lib/python3.12/site-packages/numpy/__init__.py", "Install a NumPy"),
        ("venv", "/opt/lib/numpy/__init__.py", "off PYTHONPATH"),
        ("venv", "/venv/lib/python3.12/site-packages/numpy/__init__.py", "Install a NumPy"),
    ],
)
def test_a_numpy_that_comes_first_from_elsewhere_is_put_out_of_the_way_first(
    matrix: Matrix, healthy: Snapshot, kind: str, module: str, words: str
) -> None:
    snapshot = changed(
        healthy,
        numpy=known("1.26.4", "x"),
        numpy_module=known(module, "x"),
        kind=known(kind, "x"),
        user_site=known("/home/me/.local/lib/python3.12/site-packages", "x"),
    )
    snapshot = replace(snapshot, environment={"PYTHONPATH": "/opt/lib/:/venv/lib/python3.12/site-packages"})
    assert words in found(matrix, snapshot)["WHL506"].fix[0].text


def two_of_the_user(matrix: Matrix, healthy: Snapshot, kind: str, *, managed: bool, pip: bool = True) -> Finding:
    packages = {**healthy.target.packages, "pip": "25.0"} if pip else {}
    snapshot = changed(
        healthy, kind=known(kind, "x"), externally_managed=known(managed, "x"), packages=packages, cupy=()
    )
    finding, snapshot = two(
        matrix, snapshot, replace(OLD, place=PackagePlace.USER), replace(OWN, place=PackagePlace.USER)
    )
    assert wound_of([finding], snapshot) is None
    return finding


def test_outside_of_a_virtual_environment_pip_removes_the_user_s_own(matrix: Matrix, healthy: Snapshot) -> None:
    remove, install, *_ = two_of_the_user(matrix, healthy, "system", managed=False).fix
    assert (remove.command or ())[1:] == ("-m", "pip", "uninstall", "-y", "cupy-cuda11x", "cupy-cuda13x")
    assert not remove.safe  # what is the user's own lies outside of the target
    assert "install" in (install.command or ())


@pytest.mark.parametrize(
    ("kind", "managed", "pip"),
    [("venv", False, True), ("conda", False, True), ("system", True, True), ("system", False, False)],
)
def test_where_pip_does_not_reach_the_user_s_own_no_command_removes_them(
    matrix: Matrix, healthy: Snapshot, kind: str, *, managed: bool, pip: bool
) -> None:
    finding = two_of_the_user(matrix, healthy, kind, managed=managed, pip=pip)
    assert not any("uninstall" in (fix.command or ()) for fix in finding.fix)
    assert "PYTHONNOUSERSITE=1" in finding.fix[0].text


def test_where_all_lie_on_pythonpath_the_right_one_is_installed_then(matrix: Matrix, healthy: Snapshot) -> None:
    there = (replace(OLD, place=PackagePlace.PYTHONPATH), replace(OWN, place=PackagePlace.PYTHONPATH))
    finding, _ = two(matrix, healthy, *there)
    assert ["off PYTHONPATH" in fix.text for fix in finding.fix[:2]] == [True, True]
    assert "install" in (finding.fix[2].command or ())
    assert not any("uninstall" in (fix.command or ()) for fix in finding.fix)


def test_one_of_the_user_s_own_is_removed_by_pip_where_it_can(matrix: Matrix, healthy: Snapshot) -> None:
    there = replace(OLD, release="10.0.0", place=PackagePlace.USER)
    snapshot = changed(healthy, cupy=(there,), kind=known("system", "x"), packages={"pip": "25.0"})
    cures = [fix for finding in found(matrix, snapshot).values() for fix in finding.fix]
    assert any("uninstall" in (fix.command or ()) for fix in cures)
