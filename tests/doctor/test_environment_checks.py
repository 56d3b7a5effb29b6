"""Checks of packages next to CuPy and of the scheduler's grant, each with a similar healthy case."""

from __future__ import annotations

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.reading import Reading, known, missing
from gpuenv.model.snapshot import Dependent, Grant, Library, LibraryOrigin, Snapshot, Toolkit
from gpuenv.model.versions import CudaVersion
from tests.support.diagnosis import diagnosis_of
from tests.support.matrix import MATRIX

MACHINE = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100", "numpy=2.1.0")


def machine(*options: str) -> Snapshot:
    snapshot = assume(Snapshot(), [*MACHINE, *options, "cupy=cupy-cuda12x==14.2.0"], MATRIX)
    return snapshot._replace(assumed=())


def packages(**names: str) -> Snapshot:
    snapshot = machine()
    installed = {**snapshot.target.packages, **{name.replace("_", "-"): release for name, release in names.items()}}
    return snapshot._replace(target=snapshot.target._replace(packages=installed))


def causes_by_code(snapshot: Snapshot) -> dict[str, tuple[Cause, Severity]]:
    findings = diagnosis_of(snapshot).findings
    assert all(finding.evidence and finding.fix for finding in findings)
    return {finding.code: (finding.cause, finding.severity) for finding in findings}


@pytest.mark.parametrize("name", ["cupy_xarray", "cupyx_tools", "cupy_cuda12x", "cupy_rocm_5_0", "cupyd", "fastrlock"])
def test_packages_built_on_cupy_are_not_lookalikes(name: str) -> None:
    assert "WHL514" not in causes_by_code(packages(**{name: "1.0"}))


@pytest.mark.parametrize("name", ["cupy_gpu", "cupy_cuda", "cupy_cuda14", "cupycuda12x", "cupy_cuda120", "cupy_nvidia"])
def test_a_lookalike_package_name_is_reported(name: str) -> None:
    assert causes_by_code(packages(**{name: "1.0"}))["WHL514"] == (Cause.UNTRUSTED_PACKAGE_NAME, Severity.WARNING)


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ("cupy-cuda12x", True),
        ("cupy-cuda12x>=13,<15", True),
        ("cupy_cuda12x (>=12.0)", True),
        ("cupy", True),
        ("cupy-cuda11x; python_version < '3'", True),
        ("cupy-xarray>=99", True),
        ("no requirement at all !", True),
        ("cupy-cuda12x<14", False),
        ("cupy-cuda11x", False),
        ("cupy>=15", False),
    ],
)
def test_unmet_requirements_on_cupy_are_reported(requirement: str, *, met: bool) -> None:
    snapshot = machine()
    dependent = Dependent("some-library", "1.0", requirement)
    snapshot = snapshot._replace(target=snapshot.target._replace(needs_of_cupy=(dependent,)))
    assert ("WHL515" not in causes_by_code(snapshot)) == met


@pytest.mark.parametrize(
    ("python", "requirement", "met"),
    [
        ("3.9", "cupy-cuda11x; python_version < '3.10'", False),
        ("3.12", "cupy-cuda11x; python_version < '3.10'", True),
        ("3.9.18", "cupy-cuda11x; python_full_version >= '3.9.18'", False),
        ("3.9", "cupy-cuda11x; platform_machine == 'aarch64'", True),
        ("3.9", "cupy-cuda11x; platform_machine == 'x86_64'", False),
        ("3.9", "cupy-cuda11x; sys_platform == 'linux' and os_name == 'posix'", False),
        ("3.9", "cupy-cuda11x; platform_system == 'Windows'", True),
        ("3.9", "cupy-cuda11x; sys_platform ~= 'linux'", True),
    ],
)
def test_markers_are_evaluated_for_the_target_interpreter(python: str, requirement: str, *, met: bool) -> None:
    snapshot = machine(f"python={python}")
    dependent = Dependent("some-library", "1.0", requirement)
    snapshot = snapshot._replace(target=snapshot.target._replace(needs_of_cupy=(dependent,)))
    assert ("WHL515" not in causes_by_code(snapshot)) == met


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ("cupy-cuda115<14,>=9.5.0", True),  # the metadata of a conda package: NVIDIA/cudf#13055
        ("cupy-cuda11x>=12.0.0", True),
        ("cupy-cuda12x>=14", False),
        ("cupy>=14", False),
    ],
)
def test_only_the_release_of_a_conda_cupy_is_compared(requirement: str, *, met: bool) -> None:
    snapshot = assume(Snapshot(), [*MACHINE, "cupy=cupy==13.6.0"], MATRIX)
    dependent = Dependent("cudf", "24.10.1", requirement)
    by_conda = {"cupy": "13.6.0", "cupy-core": "13.6.0", "cuda-version": "12.6"}
    target = snapshot.target._replace(needs_of_cupy=(dependent,), conda_packages=by_conda, kind=known("conda", "x"))
    snapshot = snapshot._replace(target=target, assumed=())
    findings = diagnosis_of(snapshot).findings
    result = [finding for finding in findings if finding.code == "WHL515"]
    assert (not result) == met
    assert met or "needs cupy>=14, found cupy 13.6.0" in result[0].title


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ({"torch": "2.9.0+cpu"}, True),
        ({"tensorflow_cpu": "2.20.0"}, True),
        ({"jax": "0.8.0", "jaxlib": "0.8.0"}, True),
        ({"torch": "2.9.0+cu128"}, False),
        ({"torch": "2.9.0"}, False),
        ({"jax": "0.8.0", "jaxlib": "0.8.0", "jax_cuda12_plugin": "0.8.0"}, False),
        ({"jax": "0.4.1", "jaxlib": "0.4.1+cuda12.cudnn89"}, False),
        ({"tensorflow": "2.20.0"}, False),
    ],
)
def test_a_cpu_only_framework_is_a_note(there: dict[str, str], *, expected: bool) -> None:
    findings = causes_by_code(packages(**there))
    assert (findings.get("WHL516") == (Cause.CPU_ONLY_FRAMEWORK, Severity.NOTE)) == expected


def test_a_jaxlib_of_conda_may_be_built_for_cuda() -> None:
    """Its build string says so, which the snapshot lacks."""
    snapshot = packages(jax="0.8.0", jaxlib="0.8.0")
    by_conda = snapshot._replace(target=snapshot.target._replace(conda_packages={"jaxlib": "0.8.0"}))
    assert "WHL516" in causes_by_code(snapshot)
    assert "WHL516" not in causes_by_code(by_conda)


def with_target(**fields: object) -> Snapshot:
    snapshot = machine()
    return snapshot._replace(target=snapshot.target._replace(**fields))  # type: ignore[arg-type]  # readings of many kinds


def test_faults_of_the_kernel_cache_are_reported() -> None:
    folder = known("/home/me/.cupy/kernel_cache", "x")
    fine = with_target(kernel_cache=folder, kernel_cache_owners=known(0, "x"))
    assert {"CCH701", "CCH702"} & set(causes_by_code(fine)) == set()
    fault = with_target(kernel_cache=folder, kernel_cache_fault=known("/home/me may not be written", "x"))
    assert causes_by_code(fault)["CCH701"] == (Cause.KERNEL_CACHE_UNWRITABLE, Severity.ERROR)
    shared = with_target(kernel_cache=folder, kernel_cache_owners=known(2, "x"))
    assert causes_by_code(shared)["CCH702"] == (Cause.KERNEL_CACHE_RACE, Severity.WARNING)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by core.so)", Cause.LIBSTDCXX_MISMATCH),
        ("/lib/libstdc++.so.6: version `CXXABI_1.3.15' not found (required by core.so)", Cause.LIBSTDCXX_MISMATCH),
        ("core.so: undefined symbol: _ZNSt7", Cause.CORRUPT_INSTALLATION),
        ("libgomp.so.1: cannot open shared object file: No such file or directory", Cause.CORRUPT_INSTALLATION),
        ("libcuda.so.1: cannot open shared object file: No such file or directory", None),
        ("not checked", None),
    ],
)
def test_the_cause_depends_on_why_the_cupy_module_fails_to_load(reason: str, cause: Cause | None) -> None:
    extension: Reading[str] = missing(reason)
    result = causes_by_code(with_target(extension=extension)).get("LIB607")
    assert (result and result[0]) == cause


def test_a_wrong_cuda_path_is_reported() -> None:
    kit = Toolkit("/usr/local/cuda-12.4", "CUDA_PATH", known(CudaVersion(12, 4), "version.json"), has_nvrtc=True)
    right = machine("env.CUDA_PATH=/usr/local/cuda-12.4")._replace(toolkits=(kit,))
    assert "LIB608" not in causes_by_code(right)
    other_major = right._replace(toolkits=(kit._replace(toolkit=known(CudaVersion(13, 0), "version.json")),))
    assert causes_by_code(other_major)["LIB608"] == (Cause.CUDA_PATH_WRONG, Severity.WARNING)
    default = other_major._replace(toolkits=(other_major.toolkits[0]._replace(found_via="/usr/local"),))
    assert "LIB608" not in causes_by_code(default), "CuPy ignores this toolkit unless a variable names it"
    nowhere = machine("env.CUDA_HOME=/opt/cuda")._replace(pointing_nowhere=("CUDA_HOME",))
    assert causes_by_code(nowhere)["LIB608"] == (Cause.CUDA_PATH_WRONG, Severity.WARNING)


def test_a_requested_optional_library_must_be_installed() -> None:
    cutensor = Library("cutensor", "libcutensor.so.2", "/x/libcutensor.so.2", optional=True)
    result = machine("env.CUPY_ACCELERATORS=cub,cutensor")
    with_library = result._replace(target=result.target._replace(libraries=(cutensor,)))
    assert "LIB609" not in causes_by_code(with_library)
    without_library = result._replace(target=result.target._replace(libraries=(cutensor._replace(path=None),)))
    assert causes_by_code(without_library)["LIB609"] == (Cause.OPTIONAL_LIBRARY_MISSING, Severity.WARNING)
    not_requested = machine()._replace(target=machine().target._replace(libraries=(cutensor._replace(path=None),)))
    assert "LIB609" not in causes_by_code(not_requested), "CuPy works without it"


@pytest.mark.parametrize(
    ("granted", "seen", "variables", "cause"),
    [
        (2, 1, {"CUDA_VISIBLE_DEVICES": "0"}, Cause.VISIBLE_DEVICES_HIDE_GPU),
        (2, 1, {}, Cause.SOURCES_DISAGREE),
        (1, 2, {}, Cause.SOURCES_DISAGREE),
        (2, 2, {}, None),
        (None, 2, {}, None),
        (2, 0, {}, None),
        (4, 1, {"SLURM_STEP_NUM_TASKS": "4", "CUDA_VISIBLE_DEVICES": "0"}, None),
    ],
)
def test_a_grant_that_differs_from_the_visible_gpus_is_reported(
    granted: int | None, seen: int, variables: dict[str, str], cause: Cause | None
) -> None:
    gpus = known(granted, "SLURM_JOB_GPUS") if granted is not None else missing("not granted")
    snapshot = machine()._replace(
        grant=Grant(by=known("slurm", "SLURM_JOB_ID"), gpus=gpus),
        visible_count=known(seen, "libcuda"),
        environment=variables,
    )
    result = causes_by_code(snapshot).get("GPU212")
    assert (result and result[0]) == cause


@pytest.mark.parametrize(
    ("suspends", "code", "expected"), [(3, 999, True), (0, 999, False), (None, 999, False), (3, 802, False)]
)
def test_only_an_unknown_error_after_a_suspend_is_blamed_on_it(
    suspends: int | None, code: int, *, expected: bool
) -> None:
    snapshot = machine()
    snapshot = snapshot._replace(
        host=snapshot.host._replace(suspends=known(suspends, "x") if suspends is not None else missing("x")),
        driver=snapshot.driver._replace(cuda_init=known(code, "libcuda"), nvml_init=known(0, "nvml")),
        gpu_count=known(1, "nvml"),
    )
    assert ("DRV117" in causes_by_code(snapshot)) == expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [(LibraryOrigin.SYSTEM, True), (LibraryOrigin.TEGRA, False), (LibraryOrigin.MOUNTED, False), (None, False)],
)
def test_a_libcuda_of_another_driver_on_tegra_is_reported(origin: LibraryOrigin | None, *, expected: bool) -> None:
    snapshot = machine("arch=aarch64")
    snapshot = snapshot._replace(
        host=snapshot.host._replace(tegra=known("R36 (release)", "/etc/nv_tegra_release")),
        driver=snapshot.driver._replace(
            cuda_init=known(100, "libcuda"), cuda_origin=known(origin, "its path") if origin else missing("none")
        ),
    )
    assert ("TEG901" in causes_by_code(snapshot)) == expected
