"""The installed CuPy: its files, interpreter, dependencies and leftovers, and its repair."""

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
from gpuenv.model.versions import CudaVersion, PythonVersion
from tests.doctor.installed_target import (
    CUPY,
    LIBRARIES,
    MODULE,
    SITE,
    findings_by_code,
    healthy,
    with_file_fault,
    with_target,
)
from tests.support.diagnosis import diagnosis_of
from tests.support.fixes import by_hand
from tests.support.matrix import MATRIX

__all__ = ["healthy"]


def test_a_healthy_target_has_no_finding(healthy: Snapshot) -> None:
    assert findings_by_code(healthy) == {}


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
    healthy: Snapshot, path: str, state: FileState, severity: Severity | None
) -> None:
    finding = findings_by_code(with_file_fault(healthy, path, state)).get("WHL510")
    assert (finding and finding.severity) == severity
    if finding:
        assert finding.cause is Cause.CORRUPT_INSTALLATION
        assert any("cupy-cuda12x==14.2.0" in (fix.command or ()) for fix in finding.fix)


def test_a_damaged_package_of_unknown_release_gets_no_install_command(healthy: Snapshot) -> None:
    """The metadata of the package is too damaged to contain its release."""
    finding = findings_by_code(with_file_fault(healthy, "cupy/__init__.py", FileState.MISSING, "cupy-cuda11x"))[
        "WHL510"
    ]
    assert [fix.command for fix in finding.fix] == [None]


def test_unreadable_files_are_not_reinstalled(healthy: Snapshot) -> None:
    finding = findings_by_code(with_file_fault(healthy, "cupy/__init__.py", FileState.UNREADABLE))["WHL510"]
    assert finding.severity is Severity.ERROR
    assert [fix.command for fix in finding.fix] == [None]


@pytest.mark.parametrize(("framework", "removed_one"), [({}, True), ({"torch": "2.0.0+cu118"}, False)])
def test_one_of_two_cuda_wheels_that_share_files_is_removed(
    healthy: Snapshot, framework: dict[str, str], *, removed_one: bool
) -> None:
    """Reinstalling both repeats the conflict; a framework keeps its own wheel."""
    names = {"nvidia-cublas-cu11": "11.11.3.6", "nvidia-cublas-cu12": "12.9.2.10"}
    snapshot = with_file_fault(healthy, "nvidia/cublas/include/cublas_api.h", FileState.OWNED_TWICE, *names)
    packages = {**snapshot.target.packages, **names, **framework}
    fixes = findings_by_code(with_target(snapshot, packages=packages))["WHL510"].fix
    removed = [fix.command for fix in fixes if fix.command and "uninstall" in fix.command]
    assert [command[-1] for command in removed] == (["nvidia-cublas-cu11"] if removed_one else [])
    assert not any(fix.safe for fix in fixes if "uninstall" in (fix.command or ())), "another package may need it"
    reinstall = fixes[-1].command or ()
    assert ("nvidia-cublas-cu11==11.11.3.6" in reinstall) is not removed_one
    assert "nvidia-cublas-cu12==12.9.2.10" in reinstall


@pytest.mark.parametrize(("of_conda", "program"), [((), "pip"), (("numpy",), "conda"), (("numpy", "scipy"), "conda")])
def test_conda_packages_are_reinstalled_by_conda(healthy: Snapshot, of_conda: tuple[str, ...], program: str) -> None:
    snapshot = with_file_fault(healthy, "numpy/__init__.py", FileState.MISSING, "numpy")
    packages = {**snapshot.target.packages, "pip": "25.0"}
    result = with_target(
        snapshot, packages=packages, conda_packages=dict.fromkeys(of_conda, "2.1.0"), prefix=known("/env", "")
    )
    (fix,) = findings_by_code(result)["WHL510"].fix
    command = " ".join(fix.command or ())
    if program == "conda":
        assert command == "conda install --force-reinstall --prefix=/env numpy"
    else:
        assert "-m pip install --force-reinstall --no-deps numpy" in command


def test_a_truncated_list_of_file_faults_is_reported_as_at_least(healthy: Snapshot) -> None:
    faults = tuple(FileFault(f"{SITE}/cupy/{n}.py", FileState.MISSING, ("cupy-cuda12x",)) for n in range(50))
    snapshot = with_target(healthy, file_faults=faults, file_faults_count=known(4000, "RECORD"))
    assert findings_by_code(snapshot)["WHL510"].title.startswith("At least 50 files of cupy-cuda12x are missing")


def test_a_shadowing_module_is_an_error_only_on_pythonpath(healthy: Snapshot) -> None:
    finding = findings_by_code(with_target(healthy, cupy_module=known("/home/me/cupy.py", "x")))["WHL511"]
    assert (finding.cause, finding.severity) == (Cause.CUPY_SHADOWED, Severity.WARNING)
    on_path = healthy._replace(environment={"PYTHONPATH": "/opt/lib:/home/me"})
    finding = findings_by_code(with_target(on_path, cupy_module=known("/home/me/cupy.py", "x")))["WHL511"]
    assert finding.severity is Severity.ERROR


def test_an_editable_install_of_cupy_is_not_shadowed(healthy: Snapshot) -> None:
    linked = CUPY._replace(module=None, for_this_interpreter=None)
    snapshot = with_target(healthy, cupy=(linked,), cupy_module=known("/src/cupy/cupy/__init__.py", "x"))
    assert findings_by_code(snapshot) == {}


def test_a_cupy_for_another_interpreter_is_an_error(healthy: Snapshot) -> None:
    foreign_cupy = CUPY._replace(for_this_interpreter=False, tags=("cp311-cp311-linux_x86_64",))
    finding = findings_by_code(with_target(healthy, cupy=(foreign_cupy,)))["WHL512"]
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
def test_a_wheel_for_another_platform_names_its_platform(
    healthy: Snapshot, platform: str, tag: str, *, foreign: bool
) -> None:
    """The Python tag matches, so a message about another interpreter would mislead."""
    foreign_cupy = CUPY._replace(for_this_interpreter=False, tags=(f"cp312-cp312-{tag}",))
    snapshot = with_target(healthy, cupy=(foreign_cupy,), platform=known(platform, "x"))
    finding = findings_by_code(snapshot)["WHL512"]
    assert finding.cause is (Cause.PLATFORM_WHEEL_MISSING if foreign else Cause.PYTHON_UNSUPPORTED)
    assert (f"another platform: {tag}" in finding.title) is foreign
    commands = [fix.command for fix in finding.fix if fix.command]
    assert len(commands) == len(set(commands)), "each removal is listed once"


@pytest.mark.parametrize("others", [True, False])
def test_a_foreign_cupy_on_pythonpath_is_removed_from_the_path(healthy: Snapshot, *, others: bool) -> None:
    """Uninstalling by name would remove the CuPy of the environment instead."""
    foreign = CUPY._replace(
        location="/opt/lib", place=PackageLocation.PYTHONPATH, for_this_interpreter=False, tags=("cp311-cp311-any",)
    )
    fixes = findings_by_code(with_target(healthy, cupy=(foreign, CUPY) if others else (foreign,)))["WHL512"].fix
    assert "PYTHONPATH" in fixes[0].text
    assert fixes[0].command is None
    assert not any("uninstall" in (fix.command or ()) for fix in fixes)
    assert any("install" in (fix.command or ()) for fix in fixes) is not others


def test_a_cupy_from_both_pip_and_conda_is_an_error(healthy: Snapshot) -> None:
    finding = findings_by_code(with_target(healthy, conda_packages={"cupy-core": "14.2.0", "cupy": "14.2.0"}))["WHL513"]
    assert (finding.cause, finding.severity) == (Cause.MIXED_PIP_CONDA, Severity.ERROR)


def test_cuda_libraries_from_both_pip_and_conda_are_a_warning(healthy: Snapshot) -> None:
    packages = {"cuda-nvrtc": "12.9.86", "libcublas": "12.9.1.4"}
    assert findings_by_code(with_target(healthy, conda_packages=packages)) == {}
    both = (LIBRARIES[0]._replace(found_via="conda"), *LIBRARIES[1:])
    finding = findings_by_code(with_target(healthy, conda_packages=packages, libraries=both))["WHL513"]
    assert finding.severity is Severity.WARNING


PLACE = ("os=linux", "arch=x86_64", "python=3.12", "driver=580.65.06", "cupy=cupy-cuda12x==14.2.0")


def diagnose_machine(*facts: str) -> Diagnosis:
    snapshot = assume(Snapshot(), (*PLACE, *facts), MATRIX)
    return diagnose(snapshot, MATRIX, time.monotonic)


@pytest.mark.parametrize("gpu", ["V100", "H200", "RTX 5090", "GTX 1080", "Tesla K80"])
def test_a_cupy_on_musl_is_for_the_wrong_platform_with_any_gpu(gpu: str) -> None:
    diagnosis = diagnose_machine("libc=musl-1.2", f"gpu={gpu}")
    (run,) = [run for run in diagnosis.checks if run.code == "WHL508"]
    assert run.status is CheckStatus.SKIPPED
    assert Cause.PLATFORM_WHEEL_MISSING in {finding.cause for finding in diagnosis.findings}
    assert Cause.GPU_TOO_NEW_FOR_TOOLKIT not in {finding.cause for finding in diagnosis.findings}


def test_the_gpu_is_judged_on_a_supported_c_library() -> None:
    diagnosis = diagnose_machine("libc=glibc-2.36", "gpu=Tesla K80")
    assert "WHL508" in {finding.code for finding in diagnosis.findings}


FACTS = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100", "numpy=2.1.0")
PATHFINDER = "cuda-pathfinder==1.*,>=1.3.4"


def unmet_requirements(requires: str, **packages: str) -> list[Finding]:
    snapshot = assume(Snapshot(), [*FACTS, "cupy=cupy-cuda12x==14.2.0"], MATRIX)
    (cupy,) = snapshot.target.cupy
    target = snapshot.target._replace(
        cupy=(cupy._replace(requires=(requires,)),),
        packages={
            **snapshot.target.packages,
            **{name.replace("_", "-"): release for name, release in packages.items()},
        },
    )
    snapshot = snapshot._replace(target=target)
    findings = diagnosis_of(snapshot).findings
    return [finding for finding in findings if finding.code == "WHL517"]


@pytest.mark.parametrize(
    ("requires", "packages", "severity"),
    [
        (PATHFINDER, {}, Severity.ERROR),
        (PATHFINDER, {"cuda_pathfinder": "1.0.0"}, Severity.ERROR),
        (PATHFINDER, {"cuda_pathfinder": "2.0.0"}, Severity.WARNING),
        ("fastrlock >=0.5", {}, Severity.ERROR),
    ],
)
def test_a_missing_dependency_is_reported_with_its_fix(
    requires: str, packages: dict[str, str], severity: Severity
) -> None:
    (finding,) = unmet_requirements(requires, **packages)
    assert finding.severity is severity
    assert requires in finding.title
    command = by_hand(finding).fix[0].command
    assert command is not None
    assert requires.replace(" ", "") in command


@pytest.mark.parametrize(
    ("requires", "packages"),
    [
        (PATHFINDER, {"cuda_pathfinder": "1.9.0"}),
        ("fastrlock>=0.5", {"fastrlock": "0.8.3"}),
        ("numpy<2.6,>=2.0", {}),  # covered by another check
        ("some-library>=3", {}),  # not probed
        ("fastrlock; python_version < '3'", {}),
        ("fastrlock is no requirement", {}),
    ],
)
def test_met_and_unknown_requirements_are_not_reported(requires: str, packages: dict[str, str]) -> None:
    assert unmet_requirements(requires, **packages) == []


def with_unowned_cupy(healthy: Snapshot, prefix: str, folder: str) -> Snapshot:
    snapshot = with_target(
        healthy, cupy=(), prefix=known(prefix, "x"), cupy_module=known(f"{folder}/cupy/__init__.py", "x")
    )
    assumed = tuple(path for path in snapshot.assumed if path != "target.cupy")
    return snapshot._replace(assumed=assumed, sources=(*snapshot.sources, Source("target", SourceState.ANSWERED)))


def stale_finding(snapshot: Snapshot) -> Finding:
    return findings_by_code(snapshot)["WHL503"]


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
def test_leftovers_of_an_installation_are_removed(healthy: Snapshot, prefix: str, folder: str) -> None:
    finding = stale_finding(with_unowned_cupy(healthy, prefix, folder))
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
def test_a_source_tree_is_never_removed(healthy: Snapshot, prefix: str, folder: str) -> None:
    finding = stale_finding(with_unowned_cupy(healthy, prefix, folder))
    assert finding.cause is Cause.CUPY_NOT_INSTALLED
    assert not any("Remove" in fix.text for fix in finding.fix)


def test_metadata_of_another_release_is_a_repairable_warning(healthy: Snapshot) -> None:
    older = StaleMetadata(f"{SITE}/numpy-1.26.4.dist-info", "numpy", "1.26.4")
    snapshot = with_target(healthy, left_metadata=(older,), packages={**healthy.target.packages, "numpy": "2.1.0"})
    findings = findings_by_code(snapshot)
    assert set(findings) == {"WHL520"}
    finding = findings["WHL520"]
    assert (finding.cause, finding.severity) == (Cause.CORRUPT_INSTALLATION, Severity.WARNING)
    assert finding.title.endswith("numpy 1.26.4 (installed: 2.1.0)")
    assert finding.fix[0].text == f"Delete {SITE}/numpy-1.26.4.dist-info."
    repairs = repair_plan([finding], snapshot)
    assert repairs is not None
    assert (repairs.cleared, repairs.may_replace, repairs.reinstalled) == (("numpy",), False, ())


@pytest.mark.parametrize("has_files", [True, False])
def test_empty_metadata_is_an_error_only_with_files(healthy: Snapshot, *, has_files: bool) -> None:
    snapshot = with_unowned_cupy(healthy, "/venv", "/venv/src")
    empty = StaleMetadata(f"{SITE}/cupy_cuda12x-14.2.0.dist-info", "cupy-cuda12x", None, has_files)
    finding = stale_finding(with_target(snapshot, left_metadata=(empty,)))
    assert finding.cause is (Cause.CORRUPT_INSTALLATION if has_files else Cause.CUPY_NOT_INSTALLED)


def test_empty_metadata_of_another_package_is_not_reported(healthy: Snapshot) -> None:
    empty = StaleMetadata(f"{SITE}/nvidia_foo-1.0.dist-info", "nvidia-foo")
    assert findings_by_code(with_target(healthy, left_metadata=(empty,))) == {}


@pytest.mark.parametrize("release", ["2.1.0", "2.1"])
def test_metadata_of_the_same_release_is_not_reported_twice(healthy: Snapshot, release: str) -> None:
    same_release = StaleMetadata(f"{SITE}/numpy-2.1.0-py3.12.egg-info", "numpy", release)
    snapshot = with_target(
        healthy, left_metadata=(same_release,), packages={**healthy.target.packages, "numpy": "2.1.0"}
    )
    assert findings_by_code(snapshot) == {}


@pytest.mark.parametrize(
    "path",
    ["/opt/lib/numpy-1.26.4.dist-info", "/venv/more/numpy-1.26.4.dist-info", f"{SITE}/numpy-1.26.4-py3.12.egg-info"],
)
def test_metadata_that_cannot_be_removed_safely_is_left_to_the_user(healthy: Snapshot, path: str) -> None:
    older = StaleMetadata(path, "numpy", "1.26.4")
    snapshot = with_target(healthy, left_metadata=(older,), packages={**healthy.target.packages, "numpy": "2.1.0"})
    finding = findings_by_code(snapshot)["WHL520"]
    assert path in finding.fix[0].text
    assert not finding.fix[0].safe
    assert repair_plan([finding], snapshot) is None


def test_only_stale_metadata_inside_the_environment_is_repaired(healthy: Snapshot) -> None:
    inside = StaleMetadata(f"{SITE}/numpy-1.26.4.dist-info", "numpy", "1.26.4")
    outside = StaleMetadata("/opt/lib/torch-2.0.dist-info", "torch", "2.0")
    packages = {**healthy.target.packages, "numpy": "2.1.0", "torch": "2.1"}
    snapshot = with_target(healthy, left_metadata=(inside, outside), packages=packages)
    repairs = repair_plan([findings_by_code(snapshot)["WHL520"]], snapshot)
    assert repairs is not None
    assert repairs.cleared == ("numpy",)


def test_a_windows_path_is_named_in_the_fix(healthy: Snapshot) -> None:
    path = "C:\\venv\\Lib\\site-packages\\cupy_cuda12x-14.2.0.dist-info"
    empty = StaleMetadata(path, "cupy-cuda12x", None, has_files=True)
    finding = stale_finding(with_target(with_unowned_cupy(healthy, "C:\\venv", "C:\\else"), left_metadata=(empty,)))
    assert finding.fix[0].text.endswith("from C:\\venv\\Lib\\site-packages.")


MATCHING = CUPY._replace(
    distribution="cupy-cuda13x", place=PackageLocation.ENVIRONMENT
)  # the best line for an H100 on R580
OUTDATED = CupyInstallation("cupy-cuda11x", "13.6.0", "/else/where")


def two_cupys(healthy: Snapshot, *cupys: CupyInstallation) -> tuple[Finding, Snapshot]:
    snapshot = with_target(healthy, cupy=cupys)
    finding = findings_by_code(snapshot)["WHL502"]
    assert finding.cause is Cause.MULTIPLE_CUPY_PACKAGES
    return finding, snapshot


@pytest.mark.parametrize(
    ("place", "fix_text"),
    [
        (PackageLocation.PYTHONPATH, "from PYTHONPATH"),
        (PackageLocation.USER, "Keep Python from importing"),
        (PackageLocation.ELSEWHERE, "the .pth file that names that folder"),
    ],
)
def test_a_cupy_outside_the_environment_is_excluded(healthy: Snapshot, place: PackageLocation, fix_text: str) -> None:
    finding, snapshot = two_cupys(healthy, OUTDATED._replace(place=place), MATCHING)
    (fix,) = finding.fix
    assert fix_text in fix.text
    assert "cupy-cuda11x 13.6.0 in /else/where" in fix.text
    assert (fix.command, fix.safe) == (None, False)
    assert repair_plan([finding], snapshot) is None


def test_only_the_systems_packages_are_excluded_in_pyvenv_cfg(healthy: Snapshot) -> None:
    """A folder that a .pth file names would still be on the path."""
    for place, program in ((PackageLocation.SYSTEM, "sed"), (PackageLocation.ELSEWHERE, None)):
        venv = with_target(healthy, kind=known("venv", "test"), prefix=known("/venv", "test"))
        (fix,) = two_cupys(venv, OUTDATED._replace(place=place), MATCHING)[0].fix
        assert (fix.command[0] if fix.command else None) == program


def test_a_compatible_cupy_is_kept_even_if_another_line_is_preferred(healthy: Snapshot) -> None:
    """The line of CUDA 12 also works on a driver for CUDA 13."""
    installed_cupy = CUPY._replace(distribution="cupy-cuda12x", release="14.2.0", place=PackageLocation.ENVIRONMENT)
    snapshot = with_target(healthy, cupy=(OUTDATED._replace(place=PackageLocation.PYTHONPATH), installed_cupy))
    wheel = resolve(snapshot, MATRIX).wheel
    assert wheel is not None
    assert wheel.distribution == "cupy-cuda13x"
    (fix,) = findings_by_code(snapshot)["WHL502"].fix
    assert "from PYTHONPATH" in fix.text


def test_an_incompatible_cupy_of_the_environment_is_replaced(healthy: Snapshot) -> None:
    incompatible_cupy = CUPY._replace(distribution="cupy-cuda11x", place=PackageLocation.ENVIRONMENT)
    finding, _ = two_cupys(
        healthy, MATCHING._replace(location="/else/where", place=PackageLocation.PYTHONPATH), incompatible_cupy
    )
    assert [bool(fix.command) for fix in finding.fix] == [False, True, True]
    assert "cupy-cuda11x" in (finding.fix[1].command or ())
    assert "cupy-cuda13x" not in (finding.fix[1].command or ())


@pytest.mark.parametrize("place", [None, PackageLocation.ENVIRONMENT])
def test_two_cupys_of_the_environment_are_both_removed(healthy: Snapshot, place: PackageLocation | None) -> None:
    finding, snapshot = two_cupys(healthy, OUTDATED._replace(place=place), MATCHING._replace(place=place))
    assert finding.fix[0].text == "Remove all of them."
    assert repair_plan([finding], snapshot) is not None


def test_an_incompatible_cupy_on_pythonpath_is_not_uninstalled(healthy: Snapshot) -> None:
    incompatible_cupy = OUTDATED._replace(release="10.0.0", place=PackageLocation.PYTHONPATH)
    findings = findings_by_code(with_target(healthy, cupy=(incompatible_cupy,)))
    fixes = [fix for finding in findings.values() for fix in finding.fix]
    assert any("PYTHONPATH" in fix.text for fix in fixes), sorted(findings)
    assert not any("uninstall" in (fix.command or ()) for fix in fixes)


def test_a_user_cupy_before_a_conda_cupy_is_not_a_mixed_environment(healthy: Snapshot) -> None:
    conda_cupy = CupyInstallation("cupy", "14.1.1", "/conda/site", place=PackageLocation.ENVIRONMENT)
    snapshot = with_target(
        healthy,
        cupy=(OUTDATED._replace(place=PackageLocation.USER), conda_cupy),
        kind=known("conda", "x"),
        conda_packages={"cupy-core": "14.1.1"},
    )
    finding = findings_by_code(snapshot)["WHL502"]
    assert finding.cause is Cause.MULTIPLE_CUPY_PACKAGES
    (fix,) = finding.fix
    assert fix.shell_line == "export PYTHONNOUSERSITE=1"


@pytest.mark.parametrize(
    ("kind", "module", "fix_text"),
    [
        ("conda", "/home/me/.local/lib/python3.12/site-packages/numpy/__init__.py", "Keep Python from importing"),
        ("system", "/home/me/.local/lib/python3.12/site-packages/numpy/__init__.py", "Keep Python from importing"),
        ("venv", "/home/me/.local/lib/python3.12/site-packages/numpy/__init__.py", "Install a NumPy"),
        ("venv", "/opt/lib/numpy/__init__.py", "from PYTHONPATH"),
        ("venv", "/venv/lib/python3.12/site-packages/numpy/__init__.py", "Install a NumPy"),
    ],
)
def test_a_shadowing_numpy_is_excluded_before_installing_another(
    healthy: Snapshot, kind: str, module: str, fix_text: str
) -> None:
    snapshot = with_target(
        healthy,
        numpy=known("1.26.4", "x"),
        numpy_module=known(module, "x"),
        kind=known(kind, "x"),
        user_site=known("/home/me/.local/lib/python3.12/site-packages", "x"),
    )
    snapshot = snapshot._replace(environment={"PYTHONPATH": "/opt/lib/:/venv/lib/python3.12/site-packages"})
    assert fix_text in findings_by_code(snapshot)["WHL506"].fix[0].text


def finding_of_two_user_cupys(healthy: Snapshot, kind: str, *, managed: bool, pip: bool = True) -> Finding:
    packages = {**healthy.target.packages, "pip": "25.0"} if pip else {}
    snapshot = with_target(
        healthy, kind=known(kind, "x"), externally_managed=known(managed, "x"), packages=packages, cupy=()
    )
    finding, snapshot = two_cupys(
        snapshot, OUTDATED._replace(place=PackageLocation.USER), MATCHING._replace(place=PackageLocation.USER)
    )
    assert repair_plan([finding], snapshot) is None
    return finding


def test_pip_removes_user_packages_outside_a_virtual_environment(healthy: Snapshot) -> None:
    remove, install, *_ = finding_of_two_user_cupys(healthy, "system", managed=False).fix
    assert (remove.command or ())[1:] == ("-m", "pip", "uninstall", "-y", "cupy-cuda11x", "cupy-cuda13x")
    assert not remove.safe  # user packages are outside the target
    assert "install" in (install.command or ())


@pytest.mark.parametrize(
    ("kind", "managed", "pip"),
    [("venv", False, True), ("conda", False, True), ("system", True, True), ("system", False, False)],
)
def test_user_packages_are_hidden_if_pip_cannot_remove_them(
    healthy: Snapshot, kind: str, *, managed: bool, pip: bool
) -> None:
    finding = finding_of_two_user_cupys(healthy, kind, managed=managed, pip=pip)
    assert not any("uninstall" in (fix.command or ()) for fix in finding.fix)
    assert finding.fix[0].shell_line == "export PYTHONNOUSERSITE=1"


def test_a_cupy_is_installed_after_clearing_pythonpath(healthy: Snapshot) -> None:
    cupys = (OUTDATED._replace(place=PackageLocation.PYTHONPATH), MATCHING._replace(place=PackageLocation.PYTHONPATH))
    finding, _ = two_cupys(healthy, *cupys)
    assert ["from PYTHONPATH" in fix.text for fix in finding.fix[:2]] == [True, True]
    assert "install" in (finding.fix[2].command or ())
    assert not any("uninstall" in (fix.command or ()) for fix in finding.fix)


def test_pip_removes_an_incompatible_cupy_of_the_user(healthy: Snapshot) -> None:
    incompatible_cupy = OUTDATED._replace(release="10.0.0", place=PackageLocation.USER)
    snapshot = with_target(healthy, cupy=(incompatible_cupy,), kind=known("system", "x"), packages={"pip": "25.0"})
    fixes = [fix for finding in findings_by_code(snapshot).values() for fix in finding.fix]
    assert any("uninstall" in (fix.command or ()) for fix in fixes)


CONDA_CUPY = CupyInstallation("cupy", "14.1.1", SITE, (), True, MODULE)
BOTH_PACKAGES = {"cuda-version": "12.9", "cupy": "14.1.1", "cupy-core": "14.1.1"}
CORE_PACKAGE = {"cuda-version": "12.9", "cupy-core": "14.1.1"}
CONDA_REINSTALL = ("conda", "install", "--force-reinstall", "--prefix=/venv", "--channel=conda-forge")


def conda_environment(healthy: Snapshot, of_conda: dict[str, str], *cupys: CupyInstallation) -> Snapshot:
    packages = {"numpy": "2.1.0", "pip": "25.0", **of_conda, **{entry.distribution: entry.release for entry in cupys}}
    return with_target(healthy, kind=known("conda", "x"), conda_packages=of_conda, packages=packages, cupy=cupys)


def commands(finding: Finding) -> list[tuple[str, ...]]:
    return [fix.command for fix in finding.fix if fix.command]


@pytest.mark.parametrize("of_conda", [BOTH_PACKAGES, CORE_PACKAGE])
def test_either_conda_package_marks_a_cupy_as_managed_by_conda(healthy: Snapshot, of_conda: dict[str, str]) -> None:
    snapshot = conda_environment(healthy, of_conda, CONDA_CUPY)
    assert not {"WHL502", "WHL513"} & set(findings_by_code(snapshot))
    assert is_managed_by_conda(snapshot.target)


def test_a_cupy_without_a_conda_record_belongs_to_another_installer(healthy: Snapshot) -> None:
    assert not is_managed_by_conda(conda_environment(healthy, {"cuda-version": "12.9"}, CONDA_CUPY).target)


@pytest.mark.parametrize(
    ("of_conda", "title", "specs"),
    [
        (BOTH_PACKAGES, "conda's cupy and pip's cupy-cuda12x share the target", ("cupy=14.1.1", "cupy-core=14.1.1")),
        (CORE_PACKAGE, "conda's cupy-core and pip's cupy-cuda12x share the target", ("cupy-core=14.1.1",)),
    ],
)
def test_a_pip_cupy_is_removed_and_the_conda_cupy_reinstalled(
    healthy: Snapshot, of_conda: dict[str, str], title: str, specs: tuple[str, ...]
) -> None:
    snapshot = conda_environment(healthy, of_conda, CONDA_CUPY, CUPY)
    findings = diagnosis_of(snapshot).findings
    finding = next(entry for entry in findings if entry.code == "WHL502")
    assert (finding.title, finding.cause) == (title, Cause.MIXED_PIP_CONDA)
    removal, reinstall = commands(finding)
    assert removal[1:] == ("-m", "pip", "uninstall", "-y", "cupy-cuda12x")
    assert reinstall == (*CONDA_REINSTALL, *specs)
    assert repair_plan(findings, snapshot) is None


def test_a_pip_cupy_over_conda_records_has_the_same_fix(healthy: Snapshot) -> None:
    finding = findings_by_code(conda_environment(healthy, BOTH_PACKAGES, CUPY))["WHL513"]
    assert commands(finding)[1] == (*CONDA_REINSTALL, "cupy=14.1.1", "cupy-core=14.1.1")


@pytest.mark.parametrize(
    ("of_conda", "specs"), [(BOTH_PACKAGES, ("cupy=14.1.1", "cupy-core=14.1.1")), (CORE_PACKAGE, ("cupy-core=14.1.1",))]
)
def test_a_damaged_conda_cupy_is_reinstalled_with_all_its_packages(
    healthy: Snapshot, of_conda: dict[str, str], specs: tuple[str, ...]
) -> None:
    snapshot = with_file_fault(
        conda_environment(healthy, of_conda, CONDA_CUPY), "cupy/_core/core.so", FileState.MISSING, "cupy"
    )
    assert commands(findings_by_code(snapshot)["WHL510"]) == [(*CONDA_REINSTALL, *specs)]


def test_a_conda_cupy_is_removed_with_all_its_packages(healthy: Snapshot) -> None:
    foreign_cupy = CONDA_CUPY._replace(for_this_interpreter=False, tags=("cp311",))
    removal = commands(findings_by_code(conda_environment(healthy, BOTH_PACKAGES, foreign_cupy))["WHL512"])[0]
    assert removal == ("conda", "remove", "--prefix=/venv", "cupy", "cupy-core")


def test_a_cupy_known_only_from_conda_records_is_reinstalled(healthy: Snapshot) -> None:
    """pip, for example, removed the files; without --force-reinstall conda considers CuPy installed."""
    packages = {name: release for name, release in healthy.target.packages.items() if not name.startswith("cupy")}
    bare = with_target(healthy, cupy=(), packages=packages, libraries=(), cupy_module=missing("no module"))
    answered = Source("target", SourceState.ANSWERED)
    bare = bare._replace(assumed=(), sources=(*bare.sources, answered))
    records = {"cupy": "14.1.1", "cupy-core": "14.1.1", "numpy": "2.1.0"}
    finding = findings_by_code(with_target(bare, conda_packages=records, kind=known("conda", "x")))["WHL503"]
    assert finding.cause is Cause.CORRUPT_INSTALLATION
    command = finding.fix[0].command or ()
    assert command[:3] == ("conda", "install", "--force-reinstall")
    assert {"cupy=14.1.1", "cupy-core=14.1.1"} <= {*command}
    without_record = findings_by_code(with_target(bare, conda_packages={"numpy": "2.1.0"}, kind=known("conda", "x")))[
        "WHL503"
    ]
    assert without_record.cause is Cause.CUPY_NOT_INSTALLED


@pytest.mark.parametrize(
    ("created", "cause"),
    [
        ("3.9.2", Cause.TARGET_ENVIRONMENT_BROKEN),
        ("3.12", Cause.CUPY_NOT_INSTALLED),
        (None, Cause.CUPY_NOT_INSTALLED),
    ],
)
def test_an_environment_whose_python_was_replaced_is_named(
    healthy: Snapshot, created: str | None, cause: Cause
) -> None:
    """An upgrade of the distribution replaces the interpreter; the packages are in a folder of the minor release."""
    bare = with_target(
        healthy,
        cupy=(),
        libraries=(),
        cupy_module=missing("no module"),
        python=known(PythonVersion(3, 12, 3), "x"),
        venv_python=known(created, "pyvenv.cfg") if created else missing("no pyvenv.cfg"),
    )
    bare = bare._replace(assumed=(), sources=(*bare.sources, Source("target", SourceState.ANSWERED)))
    finding = findings_by_code(bare)["WHL503"]
    assert finding.cause is cause
    assert ("created with Python 3.9, but its interpreter is Python 3.12 now" in finding.title) is (created == "3.9.2")
    assert findings_by_code(bare._replace(assumed=("target.python",)))["WHL503"].cause is Cause.CUPY_NOT_INSTALLED


MACHINE = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100", "numpy=2.1.0")
SITE = "/venv/lib/python3.12/site-packages"


def machine(*options: str) -> Snapshot:
    return assume(Snapshot(), [*MACHINE, *options], MATRIX)._replace(assumed=())


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    return tuple(map(by_hand, diagnosis_of(snapshot).findings))


def planned_repairs(snapshot: Snapshot) -> RepairPlan | None:
    return repair_plan(findings(snapshot), snapshot)


def test_a_healthy_machine_needs_no_repair() -> None:
    assert planned_repairs(machine("cupy=cupy-cuda12x==14.2.0")) is None


def test_a_missing_driver_is_not_repaired() -> None:
    assert planned_repairs(machine("driver=none", "cupy=cupy-cuda12x==14.2.0")) is None


def test_two_lines_are_replaced_by_one() -> None:
    repairs = planned_repairs(machine("cupy=cupy-cuda12x==14.2.0", "package.cupy-cuda11x=13.6.0"))
    assert repairs == RepairPlan(("WHL502",), may_replace=True)


@pytest.mark.parametrize("release", ["12.9.1.4", "12.9-patched", "unknown"])
@pytest.mark.parametrize(
    ("state", "bypasses_cache"), [(FileState.MISSING, False), (FileState.CHANGED, True), (FileState.WRONG_SIZE, True)]
)
def test_damaged_files_are_reinstalled(state: FileState, release: str, *, bypasses_cache: bool) -> None:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0")
    fault = FileFault(f"{SITE}/nvidia/cublas/lib/libcublas.so.12", state, ("nvidia-cublas-cu12",))
    packages = {**snapshot.target.packages, "nvidia-cublas-cu12": release}
    target = snapshot.target._replace(file_faults=(fault,), file_faults_count=known(1, "RECORD"), packages=packages)
    repairs = planned_repairs(snapshot._replace(target=target))
    assert repairs == RepairPlan(("WHL510",), reinstalled=("nvidia-cublas-cu12",), bypasses_cache=bypasses_cache)


def test_an_externally_managed_python_is_not_repaired() -> None:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0", "package.cupy-cuda11x=13.6.0")
    managed = snapshot._replace(target=snapshot.target._replace(externally_managed=known(value=True, source="x")))
    assert planned_repairs(managed) is None


def test_suppressed_findings_are_not_repaired() -> None:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0", "package.cupy-cuda11x=13.6.0")
    entry = Suppression("WHL502", "x", "2999-01-01", "x")
    notes = [replace(f, severity=Severity.NOTE, allowed=entry) for f in findings(snapshot)]
    assert repair_plan(notes, snapshot) is None


def test_repairs_try_the_installed_releases_and_lines_first() -> None:
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


PLAIN_WHEEL = WheelChoice("cupy-cuda12x", "13.6.0", None, ("cupy-cuda12x==13.6.0",), 12, None, "a toolkit", ())
TOOLKIT = Toolkit(
    "/usr/local/cuda-12.4", "/usr/local", known(CudaVersion(12, 4), "x"), has_nvrtc=True, has_headers=True
)


def with_libraries(folder: str) -> Snapshot:
    snapshot = machine("cupy=cupy-cuda12x==14.2.0")
    library = Library("nvrtc", "libnvrtc.so.12", f"{folder}/libnvrtc.so.12")
    return snapshot._replace(target=snapshot.target._replace(libraries=(library,)))


def test_a_wheel_without_libraries_is_enough_if_they_are_installed() -> None:
    need = RepairPlan(("WHL506",), may_replace=True)
    assert satisfies(PLAIN_WHEEL._replace(extra="ctk"), need, machine())
    assert not satisfies(PLAIN_WHEEL, need, machine())
    assert satisfies(PLAIN_WHEEL, need, machine()._replace(toolkits=(TOOLKIT,)))
    assert satisfies(PLAIN_WHEEL, need, with_libraries("/usr/lib"))
    assert not satisfies(PLAIN_WHEEL, replace(need, with_libraries=True), machine()._replace(toolkits=(TOOLKIT,)))


def test_a_cupy_without_libraries_loses_those_of_wheels() -> None:
    need = RepairPlan(("WHL506",), may_replace=True)
    assert loses_libraries(PLAIN_WHEEL, need, with_libraries(f"{SITE}/nvidia/cuda_nvrtc/lib"))
    assert not loses_libraries(PLAIN_WHEEL, need, with_libraries("/usr/lib"))
    assert not loses_libraries(PLAIN_WHEEL, need, machine()), "no library is installed"
