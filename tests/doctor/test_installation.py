"""The installed CuPy: its files, interpreter and dependencies, leftovers of others, and the repair."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from gpuenv.doctor.diagnose import Diagnosis, diagnose
from gpuenv.doctor.installed_cupy import is_managed_by_conda
from gpuenv.doctor.repair import (
    RepairPlan,
    installed_requirement,
    loses_libraries,
    repair_matrices,
    repair_plan,
    satisfies,
)
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import CheckStatus, Finding, Severity, Suppression
from gpuenv.model.reading import known, missing
from gpuenv.model.resolution import WheelChoice
from gpuenv.model.snapshot import (
    CupyInstallation,
    FileFault,
    FileState,
    Library,
    PackageLocation,
    Snapshot,
    Source,
    SourceState,
    StaleMetadata,
    Toolkit,
)
from gpuenv.model.versions import CudaVersion
from tests.doctor.installed_target import CUPY, LIBRARIES, MODULE, SITE, changed, faulty, found, healthy
from tests.support.matrix import MATRIX

__all__ = ["healthy"]


def test_a_healthy_target_has_no_finding(matrix: Matrix, healthy: Snapshot) -> None:
    assert found(matrix, healthy) == {}


@pytest.mark.parametrize(
    ("path", "state", "severity"),
    [
        ("cupy/_core/core.cpython-312-x86_64-linux-gnu.so", FileState.MISSING, Severity.ERROR),
        ("nvidia/cublas/lib/libcublasLt.so.12", FileState.WRONG_SIZE, Severity.ERROR),
        ("nvidia/cublas/lib/libcublasLt.so.12", FileState.CHANGED, Severity.ERROR),
        ("cupy/fft/_fft.py", FileState.MISSING, Severity.ERROR),
        ("cupy/_core/include/cupy/complex.cuh", FileState.MISSING, Severity.ERROR),
        ("cupy/fft/_fft.py", FileState.WRONG_SIZE, Severity.WARNING),
        ("nvidia/nccl/lib/libnccl.so.2", FileState.OWNED_TWICE, Severity.WARNING),
        ("numpy/tests/test_x.py", FileState.MISSING, None),
        ("numpy/_core/lib/libnpymath.a", FileState.MISSING, None),
        ("cupy_cuda12x-14.2.0.dist-info/licenses/LICENSE", FileState.MISSING, None),
    ],
)
def test_the_severity_of_a_damaged_file_depends_on_its_use(
    matrix: Matrix, healthy: Snapshot, path: str, state: FileState, severity: Severity | None
) -> None:
    finding = found(matrix, faulty(healthy, path, state)).get("WHL510")
    assert (finding and finding.severity) == severity
    if finding:
        assert finding.cause is Cause.CORRUPT_INSTALLATION
        assert any("cupy-cuda12x==14.2.0" in (fix.command or ()) for fix in finding.fix)


def test_no_command_installs_nothing(matrix: Matrix, healthy: Snapshot) -> None:
    """Where the metadata of the owner is so harmed that it tells no release."""
    finding = found(matrix, faulty(healthy, "cupy/__init__.py", FileState.MISSING, "cupy-cuda11x"))["WHL510"]
    assert [fix.command for fix in finding.fix] == [None]


def test_unreadable_files_are_not_reinstalled(matrix: Matrix, healthy: Snapshot) -> None:
    finding = found(matrix, faulty(healthy, "cupy/__init__.py", FileState.UNREADABLE))["WHL510"]
    assert finding.severity is Severity.ERROR
    assert [fix.command for fix in finding.fix] == [None]


@pytest.mark.parametrize(("framework", "goes"), [({}, True), ({"torch": "2.0.0+cu118"}, False)])
def test_of_cuda_wheels_of_two_majors_that_share_files_one_goes(
    matrix: Matrix, healthy: Snapshot, framework: dict[str, str], *, goes: bool
) -> None:
    """To install both again leaves them quarrelling; what a framework goes with stays."""
    names = {"nvidia-cublas-cu11": "11.11.3.6", "nvidia-cublas-cu12": "12.9.2.10"}
    snapshot = faulty(healthy, "nvidia/cublas/include/cublas_api.h", FileState.OWNED_TWICE, *names)
    packages = {**snapshot.target.packages, **names, **framework}
    fixes = found(matrix, changed(snapshot, packages=packages))["WHL510"].fix
    removed = [fix.command for fix in fixes if fix.command and "uninstall" in fix.command]
    assert [command[-1] for command in removed] == (["nvidia-cublas-cu11"] if goes else [])
    assert not any(fix.safe for fix in fixes if "uninstall" in (fix.command or ())), "something else may need it"
    again = fixes[-1].command or ()
    assert ("nvidia-cublas-cu11==11.11.3.6" in again) is not goes
    assert "nvidia-cublas-cu12==12.9.2.10" in again


@pytest.mark.parametrize(("of_conda", "program"), [((), "pip"), (("numpy",), "conda"), (("numpy", "scipy"), "conda")])
def test_packages_of_conda_are_reinstalled_by_conda(
    matrix: Matrix, healthy: Snapshot, of_conda: tuple[str, ...], program: str
) -> None:
    snapshot = faulty(healthy, "numpy/__init__.py", FileState.MISSING, "numpy")
    packages = {**snapshot.target.packages, "pip": "25.0"}
    result = changed(
        snapshot, packages=packages, conda_packages=dict.fromkeys(of_conda, "2.1.0"), prefix=known("/env", "")
    )
    (fix,) = found(matrix, result)["WHL510"].fix
    command = " ".join(fix.command or ())
    if program == "conda":
        assert command == "conda install --force-reinstall --prefix=/env numpy"
    else:
        assert "-m pip install --force-reinstall --no-deps numpy" in command


def test_what_is_known_in_part_is_counted_as_such(matrix: Matrix, healthy: Snapshot) -> None:
    faults = tuple(FileFault(f"{SITE}/cupy/{n}.py", FileState.MISSING, ("cupy-cuda12x",)) for n in range(50))
    snapshot = changed(healthy, file_faults=faults, file_faults_count=known(4000, "RECORD"))
    assert found(matrix, snapshot)["WHL510"].title.startswith("At least 50 files of cupy-cuda12x are missing")


def test_a_module_of_one_s_own_in_the_way_is_a_warning_where_it_lies_in_the_folder_of_work(
    matrix: Matrix, healthy: Snapshot
) -> None:
    finding = found(matrix, changed(healthy, cupy_module=known("/home/me/cupy.py", "x")))["WHL511"]
    assert (finding.cause, finding.severity) == (Cause.CUPY_SHADOWED, Severity.WARNING)
    on_path = healthy._replace(environment={"PYTHONPATH": "/opt/lib:/home/me"})
    finding = found(matrix, changed(on_path, cupy_module=known("/home/me/cupy.py", "x")))["WHL511"]
    assert finding.severity is Severity.ERROR


def test_a_cupy_that_is_installed_as_a_link_to_its_source_is_not_shadowed(matrix: Matrix, healthy: Snapshot) -> None:
    linked = CUPY._replace(module=None, for_this_interpreter=None)
    snapshot = changed(healthy, cupy=(linked,), cupy_module=known("/src/cupy/cupy/__init__.py", "x"))
    assert found(matrix, snapshot) == {}


def test_cupy_of_another_interpreter_is_an_error(matrix: Matrix, healthy: Snapshot) -> None:
    other = CUPY._replace(for_this_interpreter=False, tags=("cp311-cp311-linux_x86_64",))
    finding = found(matrix, changed(healthy, cupy=(other,)))["WHL512"]
    assert (finding.cause, finding.severity) == (Cause.PYTHON_UNSUPPORTED, Severity.ERROR)
    assert "cp311" in finding.title


@pytest.mark.parametrize(
    ("platform", "tag", "foreign"),
    [
        ("linux-x86_64", "linux_aarch64", True),
        ("linux-x86_64", "manylinux2014_aarch64", True),
        ("linux-x86_64", "win_amd64", True),
        ("linux-aarch64", "manylinux2014_x86_64", True),
        ("win-amd64", "linux_x86_64", True),
        ("linux-x86_64", "manylinux2014_x86_64", False),
        ("linux-aarch64", "manylinux_2_28_aarch64", False),
        ("win-amd64", "win_amd64", False),
        ("macosx-14.0-arm64", "macosx_11_0_universal2", False),
        ("macosx-10.9-universal2", "macosx_11_0_arm64", False),
    ],
)
def test_a_wheel_of_another_platform_is_called_that(
    matrix: Matrix, healthy: Snapshot, platform: str, tag: str, *, foreign: bool
) -> None:
    """Of the same Python: to say that it is for another interpreter would send its reader astray."""
    other = CUPY._replace(for_this_interpreter=False, tags=(f"cp312-cp312-{tag}",))
    snapshot = changed(healthy, cupy=(other,), platform=known(platform, "x"))
    finding = found(matrix, snapshot)["WHL512"]
    assert finding.cause is (Cause.PLATFORM_WHEEL_MISSING if foreign else Cause.PYTHON_UNSUPPORTED)
    assert (f"another platform: {tag}" in finding.title) is foreign
    commands = [fix.command for fix in finding.fix if fix.command]
    assert len(commands) == len(set(commands)), "each removal is listed once"


@pytest.mark.parametrize("others", [True, False])
def test_a_cupy_of_pythonpath_is_removed_from_it_and_the_right_one_kept(
    matrix: Matrix, healthy: Snapshot, *, others: bool
) -> None:
    """To uninstall by name would remove the environment's own."""
    foreign = CUPY._replace(
        location="/opt/lib", place=PackageLocation.PYTHONPATH, for_this_interpreter=False, tags=("cp311-cp311-any",)
    )
    fixes = found(matrix, changed(healthy, cupy=(foreign, CUPY) if others else (foreign,)))["WHL512"].fix
    assert "PYTHONPATH" in fixes[0].text
    assert fixes[0].command is None
    assert not any("uninstall" in (fix.command or ()) for fix in fixes)
    assert any("install" in (fix.command or ()) for fix in fixes) is not others


def test_both_pip_s_and_conda_s_cupy_is_an_error(matrix: Matrix, healthy: Snapshot) -> None:
    finding = found(matrix, changed(healthy, conda_packages={"cupy-core": "14.2.0", "cupy": "14.2.0"}))["WHL513"]
    assert (finding.cause, finding.severity) == (Cause.MIXED_PIP_CONDA, Severity.ERROR)


def test_pip_s_cupy_on_conda_s_cuda_alone_is_fine_and_on_both_is_not(matrix: Matrix, healthy: Snapshot) -> None:
    packages = {"cuda-nvrtc": "12.9.86", "libcublas": "12.9.1.4"}
    assert found(matrix, changed(healthy, conda_packages=packages)) == {}
    both = (LIBRARIES[0]._replace(found_via="conda"), *LIBRARIES[1:])
    finding = found(matrix, changed(healthy, conda_packages=packages, libraries=both))["WHL513"]
    assert finding.severity is Severity.WARNING


PLACE = ("os=linux", "arch=x86_64", "python=3.12", "driver=580.65.06", "cupy=cupy-cuda12x==14.2.0")


def diagnosed(*facts: str) -> Diagnosis:
    snapshot = assume(Snapshot(), (*PLACE, *facts), MATRIX)
    return diagnose(snapshot, MATRIX, resolve(snapshot, MATRIX), time.monotonic)


@pytest.mark.parametrize("gpu", ["V100", "H200", "RTX 5090", "GTX 1080", "Tesla K80"])
def test_a_cupy_on_musl_is_of_the_wrong_platform_whatever_the_gpu(gpu: str) -> None:
    diagnosis = diagnosed("libc=musl-1.2", f"gpu={gpu}")
    (run,) = [run for run in diagnosis.checks if run.code == "WHL508"]
    assert run.status is CheckStatus.SKIPPED
    assert Cause.PLATFORM_WHEEL_MISSING in {finding.cause for finding in diagnosis.findings}
    assert Cause.GPU_TOO_NEW_FOR_TOOLKIT not in {finding.cause for finding in diagnosis.findings}


def test_with_a_c_library_that_has_wheels_the_gpu_is_judged() -> None:
    diagnosis = diagnosed("libc=glibc-2.36", "gpu=Tesla K80")
    assert "WHL508" in {finding.code for finding in diagnosis.findings}


GIVEN = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100", "numpy=2.1.0")
FINDER = "cuda-pathfinder==1.*,>=1.3.4"


def unmet(matrix: Matrix, requires: str, **packages: str) -> list[Finding]:
    snapshot = assume(Snapshot(), [*GIVEN, "cupy=cupy-cuda12x==14.2.0"], matrix)
    (cupy,) = snapshot.target.cupy
    target = snapshot.target._replace(
        cupy=(cupy._replace(requires=(requires,)),),
        packages={
            **snapshot.target.packages,
            **{name.replace("_", "-"): release for name, release in packages.items()},
        },
    )
    snapshot = snapshot._replace(target=target)
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
def test_a_missing_dependency_is_reported_with_its_fix(
    matrix: Matrix, requires: str, packages: dict[str, str], severity: Severity
) -> None:
    (finding,) = unmet(matrix, requires, **packages)
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
    assert unmet(matrix, requires, **packages) == []


def unowned(healthy: Snapshot, prefix: str, folder: str) -> Snapshot:
    snapshot = changed(
        healthy, cupy=(), prefix=known(prefix, "x"), cupy_module=known(f"{folder}/cupy/__init__.py", "x")
    )
    assumed = tuple(path for path in snapshot.assumed if path != "target.cupy")
    return snapshot._replace(assumed=assumed, sources=(*snapshot.sources, Source("target", SourceState.ANSWERED)))


def stale_finding(matrix: Matrix, snapshot: Snapshot) -> Finding:
    return found(matrix, snapshot)["WHL503"]


@pytest.mark.parametrize(
    ("prefix", "folder"),
    [
        ("/venv", "/venv/lib/python3.12/site-packages"),
        ("/venv", "/venv/lib64/python3.12/site-packages"),
        ("/venv", "/venv/lib/pypy3.11/site-packages"),
        ("/usr", "/usr/lib/python3/dist-packages"),
        ("/usr", "/usr/local/lib/python3.11/dist-packages"),
        ("C:/venv", "C:/venv/Lib/site-packages"),
    ],
)
def test_the_rest_of_an_installation_is_removed(matrix: Matrix, healthy: Snapshot, prefix: str, folder: str) -> None:
    finding = stale_finding(matrix, unowned(healthy, prefix, folder))
    assert finding.cause is Cause.CORRUPT_INSTALLATION
    assert finding.fix[0].text.endswith(f"from {folder}.")


@pytest.mark.parametrize(
    ("prefix", "folder"),
    [
        ("/venv", "/venv/src"),
        ("/venv", "/venv/src/cupy"),
        ("/usr", "/usr/local/src"),
        ("/usr", "/usr/src/cupy"),
        ("/opt/conda", "/opt/conda/work"),
        ("/opt/conda", "/opt/conda/envs/other/lib/python3.12/site-packages"),
        ("/venv", "/home/me/lib/python3.12/site-packages"),
        ("/venv", "/venv/other/lib/python3.12/site-packages"),
    ],
)
def test_a_source_tree_is_never_to_be_removed(matrix: Matrix, healthy: Snapshot, prefix: str, folder: str) -> None:
    finding = stale_finding(matrix, unowned(healthy, prefix, folder))
    assert finding.cause is Cause.CUPY_NOT_INSTALLED
    assert not any("Remove" in fix.text for fix in finding.fix)


def test_metadata_of_another_release_is_a_repairable_warning(matrix: Matrix, healthy: Snapshot) -> None:
    older = StaleMetadata(f"{SITE}/numpy-1.26.4.dist-info", "numpy", "1.26.4")
    snapshot = changed(healthy, left_metadata=(older,), packages={**healthy.target.packages, "numpy": "2.1.0"})
    findings = found(matrix, snapshot)
    assert set(findings) == {"WHL520"}
    finding = findings["WHL520"]
    assert (finding.cause, finding.severity) == (Cause.CORRUPT_INSTALLATION, Severity.WARNING)
    assert finding.title.endswith("numpy 1.26.4 (installed: 2.1.0)")
    assert finding.fix[0].text == f"Remove {SITE}/numpy-1.26.4.dist-info."
    repairs = repair_plan([finding], snapshot)
    assert repairs is not None
    assert (repairs.cleared, repairs.may_replace, repairs.reinstalled) == (("numpy",), False, ())


@pytest.mark.parametrize("has_files", [True, False])
def test_empty_metadata_matters_next_to_files(matrix: Matrix, healthy: Snapshot, *, has_files: bool) -> None:
    snapshot = unowned(healthy, "/venv", "/venv/src")
    empty = StaleMetadata(f"{SITE}/cupy_cuda12x-14.2.0.dist-info", "cupy-cuda12x", None, has_files)
    finding = stale_finding(matrix, changed(snapshot, left_metadata=(empty,)))
    assert finding.cause is (Cause.CORRUPT_INSTALLATION if has_files else Cause.CUPY_NOT_INSTALLED)


def test_metadata_without_a_name_of_another_package_is_no_finding(matrix: Matrix, healthy: Snapshot) -> None:
    empty = StaleMetadata(f"{SITE}/nvidia_foo-1.0.dist-info", "nvidia-foo")
    assert found(matrix, changed(healthy, left_metadata=(empty,))) == {}


@pytest.mark.parametrize("release", ["2.1.0", "2.1"])
def test_the_same_release_listed_twice_is_no_finding(matrix: Matrix, healthy: Snapshot, release: str) -> None:
    again = StaleMetadata(f"{SITE}/numpy-2.1.0-py3.12.egg-info", "numpy", release)
    snapshot = changed(healthy, left_metadata=(again,), packages={**healthy.target.packages, "numpy": "2.1.0"})
    assert found(matrix, snapshot) == {}


@pytest.mark.parametrize(
    "path",
    [
        "/opt/lib/numpy-1.26.4.dist-info",
        "/venv/more/numpy-1.26.4.dist-info",
        f"{SITE}/numpy-1.26.4-py3.12.egg-info",
    ],
)
def test_what_no_transaction_removes_is_for_a_person(matrix: Matrix, healthy: Snapshot, path: str) -> None:
    older = StaleMetadata(path, "numpy", "1.26.4")
    snapshot = changed(healthy, left_metadata=(older,), packages={**healthy.target.packages, "numpy": "2.1.0"})
    finding = found(matrix, snapshot)["WHL520"]
    assert path in finding.fix[0].text
    assert not finding.fix[0].safe
    assert repair_plan([finding], snapshot) is None


def test_of_several_only_those_inside_are_cleared(matrix: Matrix, healthy: Snapshot) -> None:
    inside = StaleMetadata(f"{SITE}/numpy-1.26.4.dist-info", "numpy", "1.26.4")
    outside = StaleMetadata("/opt/lib/torch-2.0.dist-info", "torch", "2.0")
    packages = {**healthy.target.packages, "numpy": "2.1.0", "torch": "2.1"}
    snapshot = changed(healthy, left_metadata=(inside, outside), packages=packages)
    repairs = repair_plan([found(matrix, snapshot)["WHL520"]], snapshot)
    assert repairs is not None
    assert repairs.cleared == ("numpy",)


def test_a_folder_of_windows_is_named(matrix: Matrix, healthy: Snapshot) -> None:
    path = "C:\\venv\\Lib\\site-packages\\cupy_cuda12x-14.2.0.dist-info"
    empty = StaleMetadata(path, "cupy-cuda12x", None, has_files=True)
    finding = stale_finding(matrix, changed(unowned(healthy, "C:\\venv", "C:\\else"), left_metadata=(empty,)))
    assert finding.fix[0].text.endswith("from C:\\venv\\Lib\\site-packages.")


OWN = CUPY._replace(distribution="cupy-cuda13x", place=PackageLocation.ENVIRONMENT)  # the right one for an H100 on R580
OLD = CupyInstallation("cupy-cuda11x", "13.6.0", "/else/where")


def two(matrix: Matrix, healthy: Snapshot, *cupys: CupyInstallation) -> tuple[Finding, Snapshot]:
    snapshot = changed(healthy, cupy=cupys)
    finding = found(matrix, snapshot)["WHL502"]
    assert finding.cause is Cause.MULTIPLE_CUPY_PACKAGES
    return finding, snapshot


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (PackageLocation.PYTHONPATH, "from PYTHONPATH"),
        (PackageLocation.USER, "PYTHONNOUSERSITE=1"),
        (PackageLocation.ELSEWHERE, "outside of this environment"),
    ],
)
def test_the_right_one_is_kept_and_the_other_excluded(
    matrix: Matrix, healthy: Snapshot, place: PackageLocation, words: str
) -> None:
    finding, snapshot = two(matrix, healthy, OLD._replace(place=place), OWN)
    (fix,) = finding.fix
    assert words in fix.text
    assert "cupy-cuda11x 13.6.0 in /else/where" in fix.text
    assert (fix.command, fix.safe) == (None, False)
    assert repair_plan([finding], snapshot) is None


def test_one_that_fits_stays_be_another_line_the_better_one(matrix: Matrix, healthy: Snapshot) -> None:
    """On a driver for CUDA 13 that of CUDA 12 works as well."""
    own = CUPY._replace(distribution="cupy-cuda12x", release="14.2.0", place=PackageLocation.ENVIRONMENT)
    snapshot = changed(healthy, cupy=(OLD._replace(place=PackageLocation.PYTHONPATH), own))
    wheel = resolve(snapshot, matrix).wheel
    assert wheel is not None
    assert wheel.distribution == "cupy-cuda13x"
    (fix,) = found(matrix, snapshot)["WHL502"].fix
    assert "from PYTHONPATH" in fix.text


def test_a_wrong_one_of_the_environment_s_own_is_replaced_as_well(matrix: Matrix, healthy: Snapshot) -> None:
    other = CUPY._replace(distribution="cupy-cuda11x", place=PackageLocation.ENVIRONMENT)
    finding, _ = two(matrix, healthy, OWN._replace(location="/else/where", place=PackageLocation.PYTHONPATH), other)
    assert [bool(fix.command) for fix in finding.fix] == [False, True, True]
    assert "cupy-cuda11x" in (finding.fix[1].command or ())
    assert "cupy-cuda13x" not in (finding.fix[1].command or ())


@pytest.mark.parametrize("place", [None, PackageLocation.ENVIRONMENT])
def test_two_of_its_own_are_both_removed(matrix: Matrix, healthy: Snapshot, place: PackageLocation | None) -> None:
    finding, snapshot = two(matrix, healthy, OLD._replace(place=place), OWN._replace(place=place))
    assert finding.fix[0].text == "Remove all of them."
    assert repair_plan([finding], snapshot) is not None


def test_a_wrong_one_that_is_elsewhere_is_not_uninstalled_from_here(matrix: Matrix, healthy: Snapshot) -> None:
    there = OLD._replace(release="10.0.0", place=PackageLocation.PYTHONPATH)
    findings = found(matrix, changed(healthy, cupy=(there,)))
    cures = [fix for finding in findings.values() for fix in finding.fix]
    assert any("PYTHONPATH" in fix.text for fix in cures), sorted(findings)
    assert not any("uninstall" in (fix.command or ()) for fix in cures)


def test_the_user_s_own_before_conda_s_is_no_mixture_of_the_environment(matrix: Matrix, healthy: Snapshot) -> None:
    condas = CupyInstallation("cupy", "14.1.1", "/conda/site", place=PackageLocation.ENVIRONMENT)
    snapshot = changed(
        healthy,
        cupy=(OLD._replace(place=PackageLocation.USER), condas),
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
        ("venv", "/opt/lib/numpy/__init__.py", "from PYTHONPATH"),
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
    snapshot = snapshot._replace(environment={"PYTHONPATH": "/opt/lib/:/venv/lib/python3.12/site-packages"})
    assert words in found(matrix, snapshot)["WHL506"].fix[0].text


def two_of_the_user(matrix: Matrix, healthy: Snapshot, kind: str, *, managed: bool, pip: bool = True) -> Finding:
    packages = {**healthy.target.packages, "pip": "25.0"} if pip else {}
    snapshot = changed(
        healthy, kind=known(kind, "x"), externally_managed=known(managed, "x"), packages=packages, cupy=()
    )
    finding, snapshot = two(
        matrix, snapshot, OLD._replace(place=PackageLocation.USER), OWN._replace(place=PackageLocation.USER)
    )
    assert repair_plan([finding], snapshot) is None
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
    there = (OLD._replace(place=PackageLocation.PYTHONPATH), OWN._replace(place=PackageLocation.PYTHONPATH))
    finding, _ = two(matrix, healthy, *there)
    assert ["from PYTHONPATH" in fix.text for fix in finding.fix[:2]] == [True, True]
    assert "install" in (finding.fix[2].command or ())
    assert not any("uninstall" in (fix.command or ()) for fix in finding.fix)


def test_one_of_the_user_s_own_is_removed_by_pip_where_it_can(matrix: Matrix, healthy: Snapshot) -> None:
    there = OLD._replace(release="10.0.0", place=PackageLocation.USER)
    snapshot = changed(healthy, cupy=(there,), kind=known("system", "x"), packages={"pip": "25.0"})
    cures = [fix for finding in found(matrix, snapshot).values() for fix in finding.fix]
    assert any("uninstall" in (fix.command or ()) for fix in cures)


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
    assert is_managed_by_conda(snapshot.target)


def test_a_cupy_without_a_conda_record_belongs_to_another_installer(healthy: Snapshot) -> None:
    assert not is_managed_by_conda(environment(healthy, {"cuda-version": "12.9"}, CONDAS).target)


@pytest.mark.parametrize(
    ("of_conda", "title", "specs"),
    [
        (BOTH, "conda's cupy and pip's cupy-cuda12x share the target", ("cupy=14.1.1", "cupy-core=14.1.1")),
        (CORE, "conda's cupy-core and pip's cupy-cuda12x share the target", ("cupy-core=14.1.1",)),
    ],
)
def test_of_conda_s_and_pip_s_pip_s_goes_and_every_package_of_conda_s_is_reinstalled(
    matrix: Matrix, healthy: Snapshot, of_conda: dict[str, str], title: str, specs: tuple[str, ...]
) -> None:
    snapshot = environment(healthy, of_conda, CONDAS, CUPY)
    findings = diagnose(snapshot, matrix, resolve(snapshot, matrix), lambda: 0.0).findings
    finding = next(entry for entry in findings if entry.code == "WHL502")
    assert (finding.title, finding.cause) == (title, Cause.MIXED_PIP_CONDA)
    removal, reinstall = commands(finding)
    assert removal[1:] == ("-m", "pip", "uninstall", "-y", "cupy-cuda12x")
    assert reinstall == (*ANEW, *specs)
    assert repair_plan(findings, snapshot) is None


def test_pip_s_cupy_over_conda_s_records_alone_has_the_same_fix(matrix: Matrix, healthy: Snapshot) -> None:
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
    other = CONDAS._replace(for_this_interpreter=False, tags=("cp311",))
    removal = commands(found(matrix, environment(healthy, BOTH, other))["WHL512"])[0]
    assert removal == ("conda", "remove", "--prefix=/venv", "cupy", "cupy-core")


def test_what_conda_has_on_record_alone_is_reinstalled(matrix: Matrix, healthy: Snapshot) -> None:
    """Without force conda takes it for installed: pip, say, has removed its files."""
    packages = {name: release for name, release in healthy.target.packages.items() if not name.startswith("cupy")}
    bare = changed(healthy, cupy=(), packages=packages, libraries=(), cupy_module=missing("no module"))
    answered = Source("target", SourceState.ANSWERED)
    bare = bare._replace(assumed=(), sources=(*bare.sources, answered))
    records = {"cupy": "14.1.1", "cupy-core": "14.1.1", "numpy": "2.1.0"}
    finding = found(matrix, changed(bare, conda_packages=records, kind=known("conda", "x")))["WHL503"]
    assert finding.cause is Cause.CORRUPT_INSTALLATION
    command = finding.fix[0].command or ()
    assert command[:3] == ("conda", "install", "--force-reinstall")
    assert {"cupy=14.1.1", "cupy-core=14.1.1"} <= {*command}
    other = found(matrix, changed(bare, conda_packages={"numpy": "2.1.0"}, kind=known("conda", "x")))["WHL503"]
    assert other.cause is Cause.CUPY_NOT_INSTALLED


MACHINE = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100", "numpy=2.1.0")
SITE = "/venv/lib/python3.12/site-packages"


def machine(*options: str) -> Snapshot:
    return assume(Snapshot(), [*MACHINE, *options], MATRIX)._replace(assumed=())


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    return diagnose(snapshot, MATRIX, resolve(snapshot, MATRIX), lambda: 0.0).findings


def planned_repairs(snapshot: Snapshot) -> RepairPlan | None:
    return repair_plan(findings(snapshot), snapshot)


def test_a_healthy_machine_needs_no_repair() -> None:
    assert planned_repairs(machine("cupy=cupy-cuda12x==14.2.0")) is None


def test_a_missing_driver_is_not_repaired() -> None:
    assert planned_repairs(machine("driver=none", "cupy=cupy-cuda12x==14.2.0")) is None


def test_two_lines_are_replaced_by_one() -> None:
    found = planned_repairs(machine("cupy=cupy-cuda12x==14.2.0", "package.cupy-cuda11x=13.6.0"))
    assert found == RepairPlan(("WHL502",), may_replace=True)


@pytest.mark.parametrize("release", ["12.9.1.4", "12.9-patched", "unknown"])
@pytest.mark.parametrize(
    ("state", "bypasses_cache"), [(FileState.MISSING, False), (FileState.CHANGED, True), (FileState.WRONG_SIZE, True)]
)
def test_damaged_files_are_reinstalled(state: FileState, release: str, *, bypasses_cache: bool) -> None:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0")
    fault = FileFault(f"{SITE}/nvidia/cublas/lib/libcublas.so.12", state, ("nvidia-cublas-cu12",))
    packages = {**snapshot.target.packages, "nvidia-cublas-cu12": release}
    target = snapshot.target._replace(file_faults=(fault,), file_faults_count=known(1, "RECORD"), packages=packages)
    found = planned_repairs(snapshot._replace(target=target))
    assert found == RepairPlan(("WHL510",), reinstalled=("nvidia-cublas-cu12",), bypasses_cache=bypasses_cache)


def test_a_python_that_the_system_manages_is_for_a_person() -> None:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0", "package.cupy-cuda11x=13.6.0")
    managed = snapshot._replace(target=snapshot.target._replace(externally_managed=known(value=True, source="x")))
    assert planned_repairs(managed) is None


def test_suppressed_findings_are_not_repaired() -> None:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0", "package.cupy-cuda11x=13.6.0")
    entry = Suppression("WHL502", "x", "2999-01-01", "x")
    notes = [replace(f, severity=Severity.NOTE, allowed=entry) for f in findings(snapshot)]
    assert repair_plan(notes, snapshot) is None


def test_the_choice_goes_from_what_is_there_to_anything() -> None:
    snapshot = machine("cupy=cupy-cuda11x==13.5.1", "package.cupy-cuda12x=14.1.0")
    free = resolve(snapshot, MATRIX)
    steps = [
        [(line.name, len(line.releases)) for line in narrowed.wheel_lines]
        for narrowed in repair_matrices(snapshot, MATRIX, free)
    ]
    releases, lines, everything = [step for step in steps if step[0][1] == 1 and len(step) == 1], steps[2:-1], steps[-1]
    assert [name for step in releases for name, _ in step] == ["cupy-cuda11x", "cupy-cuda12x"]
    assert [name for step in lines for name, _ in step] == ["cupy-cuda11x", "cupy-cuda12x"]
    assert len(everything) == len(MATRIX.wheel_lines)
    assert installed_requirement(snapshot) == ("cupy-cuda11x==13.5.1",)


PLAIN = WheelChoice("cupy-cuda12x", "13.6.0", None, ("cupy-cuda12x==13.6.0",), 12, None, "a toolkit", ())
KIT = Toolkit("/usr/local/cuda-12.4", "/usr/local", known(CudaVersion(12, 4), "x"), has_nvrtc=True, has_headers=True)


def with_libraries(folder: str) -> Snapshot:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0")
    library = Library("nvrtc", "libnvrtc.so.12", f"{folder}/libnvrtc.so.12")
    return snapshot._replace(target=snapshot.target._replace(libraries=(library,)))


def test_a_wheel_without_libraries_is_enough_if_they_are_installed() -> None:
    need = RepairPlan(("WHL506",), may_replace=True)
    assert satisfies(PLAIN._replace(extra="ctk"), need, machine())
    assert not satisfies(PLAIN, need, machine())
    assert satisfies(PLAIN, need, machine()._replace(toolkits=(KIT,)))
    assert satisfies(PLAIN, need, with_libraries("/usr/lib"))
    assert not satisfies(PLAIN, replace(need, with_libraries=True), machine()._replace(toolkits=(KIT,)))


def test_libraries_of_wheels_would_be_lost_to_an_older_cupy() -> None:
    need = RepairPlan(("WHL506",), may_replace=True)
    assert loses_libraries(PLAIN, need, with_libraries(f"{SITE}/nvidia/cuda_nvrtc/lib"))
    assert not loses_libraries(PLAIN, need, with_libraries("/usr/lib"))
    assert not loses_libraries(PLAIN, need, machine()), "there is nothing to lose"
