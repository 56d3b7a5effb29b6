"""What the doctor makes of installed files and of the module that is imported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.reading import known
from gpuenv.model.snapshot import FileFault, FileState, PackagePlace, Snapshot
from tests.doctor.installed_target import CUPY, LIBRARIES, SITE, changed, faulty, found, healthy

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
def test_a_file_at_fault_is_as_grave_as_its_use(
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


def test_files_out_of_reach_are_not_installed_again(matrix: Matrix, healthy: Snapshot) -> None:
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
    assert not any(fix.safe for fix in fixes if "uninstall" in (fix.command or ())), "nobody knows what else needs it"
    again = fixes[-1].command or ()
    assert ("nvidia-cublas-cu11==11.11.3.6" in again) is not goes
    assert "nvidia-cublas-cu12==12.9.2.10" in again


@pytest.mark.parametrize(("of_conda", "program"), [((), "pip"), (("numpy",), "conda"), (("numpy", "scipy"), "conda")])
def test_what_conda_put_there_only_conda_puts_in_anew(
    matrix: Matrix, healthy: Snapshot, of_conda: tuple[str, ...], program: str
) -> None:
    snapshot = faulty(healthy, "numpy/__init__.py", FileState.MISSING, "numpy")
    packages = {**snapshot.target.packages, "pip": "25.0"}
    told = changed(
        snapshot, packages=packages, conda_packages=dict.fromkeys(of_conda, "2.1.0"), prefix=known("/env", "")
    )
    (fix,) = found(matrix, told)["WHL510"].fix
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
    on_path = replace(healthy, environment={"PYTHONPATH": "/opt/lib:/home/me"})
    finding = found(matrix, changed(on_path, cupy_module=known("/home/me/cupy.py", "x")))["WHL511"]
    assert finding.severity is Severity.ERROR


def test_a_cupy_that_is_installed_as_a_link_to_its_source_is_not_shadowed(matrix: Matrix, healthy: Snapshot) -> None:
    linked = replace(CUPY, module=None, for_this_interpreter=None)
    snapshot = changed(healthy, cupy=(linked,), cupy_module=known("/src/cupy/cupy/__init__.py", "x"))
    assert found(matrix, snapshot) == {}


def test_cupy_of_another_interpreter_is_an_error(matrix: Matrix, healthy: Snapshot) -> None:
    other = replace(CUPY, for_this_interpreter=False, tags=("cp311-cp311-linux_x86_64",))
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
    other = replace(CUPY, for_this_interpreter=False, tags=(f"cp312-cp312-{tag}",))
    snapshot = changed(healthy, cupy=(other,), platform=known(platform, "x"))
    finding = found(matrix, snapshot)["WHL512"]
    assert finding.cause is (Cause.PLATFORM_WHEEL_MISSING if foreign else Cause.PYTHON_UNSUPPORTED)
    assert (f"another platform: {tag}" in finding.title) is foreign
    commands = [fix.command for fix in finding.fix if fix.command]
    assert len(commands) == len(set(commands)), "what is to be removed is said once"


@pytest.mark.parametrize("beside", [True, False])
def test_what_pythonpath_brings_is_taken_off_it_and_the_right_one_stays(
    matrix: Matrix, healthy: Snapshot, *, beside: bool
) -> None:
    """To uninstall by name would remove the environment's own."""
    foreign = replace(
        CUPY, location="/opt/lib", place=PackagePlace.PYTHONPATH, for_this_interpreter=False, tags=("cp311-cp311-any",)
    )
    fixes = found(matrix, changed(healthy, cupy=(foreign, CUPY) if beside else (foreign,)))["WHL512"].fix
    assert "PYTHONPATH" in fixes[0].text
    assert fixes[0].command is None
    assert not any("uninstall" in (fix.command or ()) for fix in fixes)
    assert any("install" in (fix.command or ()) for fix in fixes) is not beside


def test_pip_s_cupy_beside_conda_s_is_an_error(matrix: Matrix, healthy: Snapshot) -> None:
    finding = found(matrix, changed(healthy, conda_packages={"cupy-core": "14.2.0", "cupy": "14.2.0"}))["WHL513"]
    assert (finding.cause, finding.severity) == (Cause.MIXED_PIP_CONDA, Severity.ERROR)


def test_pip_s_cupy_on_conda_s_cuda_alone_is_fine_and_on_both_is_not(matrix: Matrix, healthy: Snapshot) -> None:
    packages = {"cuda-nvrtc": "12.9.86", "libcublas": "12.9.1.4"}
    assert found(matrix, changed(healthy, conda_packages=packages)) == {}
    both = (replace(LIBRARIES[0], found_via="conda"), *LIBRARIES[1:])
    finding = found(matrix, changed(healthy, conda_packages=packages, libraries=both))["WHL513"]
    assert finding.severity is Severity.WARNING
