"""What the doctor makes of the CUDA libraries that CuPy loads, of NVRTC and of its headers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import FileState, Library, Snapshot, Source, SourceState, Target, Toolkit
from gpuenv.model.versions import CudaVersion
from tests.doctor.installed_target import CUPY, LIBRARIES, SITE, changed, faulty, found, healthy

__all__ = ["healthy"]


def test_optional_libraries_may_be_missing(matrix: Matrix, healthy: Snapshot) -> None:
    nccl = Library("nccl", "libnccl.so.2", optional=True, error="not there")
    assert found(matrix, changed(healthy, libraries=(*LIBRARIES, nccl))) == {}


def test_of_a_build_whose_cuda_nobody_told_no_major_is_said(matrix: Matrix, healthy: Snapshot) -> None:
    built = replace(healthy.target.cupy[0], distribution="cupy")
    packages = {name: release for name, release in healthy.target.packages.items() if not name.startswith("cupy")}
    libraries = tuple(replace(entry, path=None) for entry in LIBRARIES)
    kit = Toolkit("/usr/local/cuda", "/usr/local", known(CudaVersion(12, 4), "version.json"), has_nvrtc=True)
    snapshot = changed(healthy, cupy=(built,), packages={**packages, "cupy": built.release}, libraries=libraries)
    finding = found(matrix, replace(snapshot, toolkits=(kit,)))["LIB601"]
    assert finding.cause is Cause.CUDA_LIBRARY_MISSING, "whether that toolkit is of another major nobody knows"
    assert "None" not in " ".join([finding.title, *(fix.text for fix in finding.fix)])


@pytest.mark.parametrize(
    ("soname", "path"), [("libnvrtc-builtins.so.12.9", None), ("libnvrtc-builtins.so.12.4", "/usr/lib/x")]
)
def test_nvrtc_without_its_own_builtins_is_an_error(
    matrix: Matrix, healthy: Snapshot, soname: str, path: str | None
) -> None:
    other = Library("nvrtc-builtins", soname, path, "dependency", error=None if path else "failed to open it")
    finding = found(matrix, changed(healthy, libraries=(*LIBRARIES[:-1], other)))["LIB604"]
    assert (finding.cause, finding.severity) == (Cause.NVRTC_BUILTINS_MISMATCH, Severity.ERROR)


OLD_LINKER = Library("nvJitLink", "libnvJitLink.so.12", f"{SITE}/nvidia/nvjitlink/lib/libnvJitLink.so.12", "dependency")


REFUSALS = (
    (
        "Failed to dlopen /x/libcusparse.so.12: /x/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_9, "
        "version libnvJitLink.so.12"
    ),
    "/x/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_9",
    (
        "/x/libcusparse.so.12: symbol __nvJitLinkComplete_12_9 version libnvJitLink.so.12 not defined in file "
        "libnvJitLink.so.12 with link time reference"
    ),
)


@pytest.mark.parametrize("said", REFUSALS)
@pytest.mark.parametrize("torch", [False, True])
def test_a_library_that_another_one_s_release_keeps_from_loading(
    matrix: Matrix, healthy: Snapshot, said: str, *, torch: bool
) -> None:
    refused = replace(LIBRARIES[5], path=None, found_via=None, error=said)
    libraries = (*LIBRARIES[:5], refused, *LIBRARIES[6:], OLD_LINKER)
    packages = {**healthy.target.packages, "nvidia-nvjitlink-cu12": "12.1.105", **({"torch": "2.1.0"} if torch else {})}
    findings = found(matrix, changed(healthy, libraries=libraries, packages=packages))
    assert set(findings) == {"LIB611"}
    finding = findings["LIB611"]
    assert finding.cause is (Cause.TORCH_CUPY_CONFLICT if torch else Cause.LIBRARY_PATH_CONFLICT)
    assert finding.title.startswith("libcusparse.so.12 cannot be loaded: the libnvJitLink.so.12 ")
    assert any("nvidia-nvjitlink-cu12>=12.9,<13" in (fix.command or ()) for fix in finding.fix)


@pytest.mark.parametrize(
    ("said", "codes"),
    [
        ("libcusparse.so.12: cannot open shared object file: No such file or directory", {"LIB601"}),
        ("/x/libcusparse.so.12: version `libnvJitLink.so.12' not found (required by /x/libcusparse.so.12)", {"LIB611"}),
        ("libnvJitLink.so.12: cannot open shared object file: No such file or directory", {"LIB601"}),
        (
            "/x/libcusparse.so.12: undefined symbol: _ZSt28__throw_bad_array_new_lengthv, version GLIBCXX_3.4.29",
            {"LIB601"},
        ),
        ("/x/libcusparse.so.12: undefined symbol: memcpy, version GLIBC_2.14", {"LIB601"}),
        ("/x/libcusparse.so.12: undefined symbol: no_function_of_cuda", {"LIB601"}),
    ],
)
def test_what_is_not_there_is_told_from_what_is_refused(
    matrix: Matrix, healthy: Snapshot, said: str, codes: set[str]
) -> None:
    gone = replace(LIBRARIES[5], path=None, found_via=None, error=said)
    assert set(found(matrix, changed(healthy, libraries=(*LIBRARIES[:5], gone, LIBRARIES[6])))) == codes


@pytest.mark.parametrize(
    ("gpu", "release", "cause"),
    [
        ("RTX 5090", "12.4", Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        ("B300", "12.8", Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        ("RTX 5090", "12.8", None),
        ("H100", "12.0", None),
        ("RTX 4090", "11.4", None),  # of another major: that is another check's
        ("RTX 5090", "12.99", None),  # newer than the matrix
    ],
)
def test_an_nvrtc_that_does_not_know_the_gpu(
    matrix: Matrix, healthy: Snapshot, gpu: str, release: str, cause: Cause | None
) -> None:
    nvrtc = replace(LIBRARIES[0], release=release)
    snapshot = changed(healthy, libraries=(nvrtc, *LIBRARIES[1:6]))
    findings = found(matrix, assume(snapshot, [f"gpu={gpu}"], matrix))
    said = findings.get("LIB610")
    assert (said and said.cause) == cause
    if said is not None:
        assert any("cupy-cuda13x[ctk]==" in " ".join(fix.command or ()) for fix in said.fix)


TOOLKIT = Toolkit("/usr/local/cuda-12.8", "searched", known(CudaVersion(12, 8), "x"), has_nvrtc=True)


@pytest.mark.parametrize(
    ("toolkit", "cupy", "beginnings"),
    [
        (
            TOOLKIT,
            "14.1.0",
            ("Take /opt/cuda-12.4/lib64 out of LD_LIBRARY_PATH", "Or remove the CuPy", "Or install a toolkit"),
        ),
        (replace(TOOLKIT, has_nvrtc=False), "14.1.0", ("Remove the CuPy", "Install the CuPy", "Or install a toolkit")),
        (None, "14.1.0", ("Remove the CuPy", "Install the CuPy", "Or install a toolkit")),
    ],
)
def test_the_ways_to_another_nvrtc_are_alternatives(
    matrix: Matrix, healthy: Snapshot, toolkit: Toolkit | None, cupy: str, beginnings: tuple[str, ...]
) -> None:
    nvrtc = replace(LIBRARIES[0], release="12.4", path="/opt/cuda-12.4/lib64/libnvrtc.so.12")
    snapshot = changed(healthy, libraries=(nvrtc, *LIBRARIES[1:6]), cupy=(replace(CUPY, release=cupy),))
    there = assume(snapshot, ["gpu=RTX 5090", "env.LD_LIBRARY_PATH=/opt/cuda-12.4/lib64"], matrix)
    told = found(matrix, replace(there, toolkits=(toolkit,) if toolkit else ()))["LIB610"]
    ways = [fix.text for fix in told.fix if not fix.text.startswith("Then ")]
    assert len(ways) == len(beginnings), told.fix
    assert all(way.startswith(beginning) for way, beginning in zip(ways, beginnings, strict=True)), told.fix


def test_an_nvrtc_older_than_the_gpu_will_do_where_ptx_is_asked_for(matrix: Matrix, healthy: Snapshot) -> None:
    """The driver compiles PTX of 9.0 for a GPU of 12.0."""
    libraries = (replace(LIBRARIES[0], release="12.4"), *LIBRARIES[1:6])
    facts = ["gpu=RTX 5090", "driver=580.95.05"]
    there = assume(changed(healthy, libraries=libraries), facts, matrix)
    assert "LIB610" in found(matrix, there)
    assert "LIB610" not in found(matrix, assume(there, ["env.CUPY_COMPILE_WITH_PTX=1"], matrix))


def test_another_release_outside_of_the_target_is_not_for_an_installer(matrix: Matrix, healthy: Snapshot) -> None:
    """What LD_LIBRARY_PATH leads to: the wheel that is there is new enough, and is not the one that is loaded."""
    refused = replace(LIBRARIES[5], path=None, found_via=None, error=REFUSALS[0])
    outside = replace(OLD_LINKER, path="/usr/local/cuda-12.1/lib64/libnvJitLink.so.12")
    libraries = (*LIBRARIES[:5], refused, *LIBRARIES[6:], outside)
    packages = {**healthy.target.packages, "nvidia-nvjitlink-cu12": "12.9.86"}
    finding = found(matrix, changed(healthy, libraries=libraries, packages=packages))["LIB611"]
    assert [fix.command for fix in finding.fix] == [None]


@pytest.mark.parametrize(
    ("told", "driver", "nvrtc", "is_told"),
    [
        ("1", "535.104.05", "12.9", True),
        (" 01", "535.104.05", "12.9", True),
        ("1", "580.95.05", "12.9", False),
        ("yes", "535.104.05", "12.9", False),
        ("1", "555.42.06", "12.6", False),  # CUDA 12.5 and 12.6 write the same PTX
        ("1", "555.42.06", "12.8", True),
    ],
)
def test_ptx_that_the_driver_cannot_read(
    matrix: Matrix, healthy: Snapshot, told: str, driver: str, nvrtc: str, *, is_told: bool
) -> None:
    libraries = (replace(LIBRARIES[0], release=nvrtc), *LIBRARIES[1:6])
    facts = [f"env.CUPY_COMPILE_WITH_PTX={told}", f"driver={driver}"]
    there = assume(changed(healthy, libraries=libraries), facts, matrix)
    findings = found(matrix, there)
    assert set(findings) == ({"LIB612"} if is_told else set())
    assert all(finding.cause is Cause.NVRTC_OUTPUT_INVALID for finding in findings.values())


@pytest.mark.parametrize(
    "folders",
    [(), ("/usr/local/cuda/include",), (f"{SITE}/cupy/_core/include/cupy/_cuda/cuda-12.6", "/usr/local/include")],
)
def test_headers_that_are_not_found_are_an_error(matrix: Matrix, healthy: Snapshot, folders: tuple[str, ...]) -> None:
    snapshot = changed(healthy, headers=known(folders, "x"), headers_cuda=Target().headers_cuda)
    finding = found(matrix, snapshot)["LIB605"]
    assert (finding.cause, finding.severity) == (Cause.CUDA_HEADERS_MISSING, Severity.ERROR)
    assert any("nvidia-cuda-runtime-cu12==12.9.*" in (fix.command or ()) for fix in finding.fix)


@pytest.mark.parametrize("cuda", ["11", "12", "12.8"])
def test_the_headers_that_cupy_13_brings_are_enough(matrix: Matrix, healthy: Snapshot, cuda: str) -> None:
    own = (f"{SITE}/cupy/_core/include/cupy/_cuda/cuda-{cuda}",)
    assert found(matrix, changed(healthy, headers=known(own, "x"), headers_cuda=Target().headers_cuda)) == {}


@pytest.mark.parametrize(
    ("environment", "cause"),
    [({"CUDA_PATH": "/usr/local/cuda-13.0"}, Cause.CUDA_PATH_WRONG), ({}, Cause.LIBRARY_PATH_CONFLICT)],
)
def test_headers_of_another_major_are_a_warning_and_of_another_minor_nothing(
    matrix: Matrix, healthy: Snapshot, environment: dict[str, str], cause: Cause
) -> None:
    snapshot = replace(healthy, environment=environment)
    other = changed(snapshot, headers_cuda=known(CudaVersion.parse("13.0"), "/usr/local/cuda/include"))
    finding = found(matrix, other)["LIB606"]
    assert (finding.cause, finding.severity) == (cause, Severity.WARNING)
    assert found(matrix, changed(snapshot, headers_cuda=known(CudaVersion.parse("12.4"), "x"))) == {}


def test_a_toolkit_in_the_target_is_not_one_of_the_host(matrix: Matrix, healthy: Snapshot) -> None:
    """The wheels' NVRTC serves a CuPy that looks for wheels; a CuPy without the extra cannot count on it."""
    kit = Toolkit(f"{SITE}/nvidia", "wheels", known(CudaVersion.parse("12.9"), "x"), has_nvrtc=True, has_headers=True)
    without = replace(healthy, toolkits=())
    assert resolve(replace(healthy, toolkits=(kit,)), matrix) == resolve(without, matrix)


def test_what_was_seen_of_one_cupy_is_not_said_of_an_assumed_one(matrix: Matrix, healthy: Snapshot) -> None:
    broken = faulty(healthy, "cupy/_core/core.so", FileState.MISSING)
    broken = changed(broken, headers=known((), "x"), cupy_module=known("/home/me/cupy.py", "x"))
    assert {"WHL510", "WHL511"} <= set(found(matrix, broken))
    assert found(matrix, assume(broken, ["cupy=cupy-cuda13x==14.2.0"], matrix)) == {}


def test_a_library_that_crashes_is_named(matrix: Matrix, healthy: Snapshot) -> None:
    lost = replace(LIBRARIES[2], path=None, error="loading it ended by SIGABRT")
    snapshot = changed(healthy, libraries=(*LIBRARIES[:2], lost, *LIBRARIES[3:]))
    crashed = replace(snapshot, sources=(Source("libraries", SourceState.CRASHED, "cufft: ended by SIGABRT"),))
    finding = found(matrix, crashed)["LIB602"]
    assert finding.title == "Loading libcufft.so.11 for cupy-cuda12x crashes"
    assert "LIB601" not in found(matrix, crashed), "it is there, and that is the worse of it"


@pytest.mark.parametrize(
    ("wheels", "codes"),
    [
        ({"nvidia-cuda-nvrtc-cu12": "12.9.86"}, {"WHL517"}),
        ({"nvidia-cuda-nvrtc": "13.0.88"}, {"WHL517", "LIB601"}),
        ({}, {"WHL517", "LIB601"}),
    ],
)
def test_without_the_finder_cuda_wheels_that_are_there_are_not_missing(
    matrix: Matrix, healthy: Snapshot, wheels: dict[str, str], codes: set[str]
) -> None:
    cupy = replace(healthy.target.cupy[0], requires=("cuda-pathfinder==1.*,>=1.3.4",))
    packages = {name: release for name, release in healthy.target.packages.items() if "nvidia-" not in name}
    lost = tuple(replace(library, path=None, found_via=None) for library in LIBRARIES)
    snapshot = changed(healthy, cupy=(cupy,), libraries=lost, packages={**packages, **wheels})
    assert set(found(matrix, snapshot)) == codes


def test_without_a_numpy_none_is_to_be_fitted(matrix: Matrix, healthy: Snapshot) -> None:
    asked = replace(healthy, sources=(Source("target", SourceState.ANSWERED),))
    finding = found(matrix, changed(asked, numpy=Reading(reason="not installed")))["WHL506"]
    assert [fix.text for fix in finding.fix] == ["Install a NumPy that fits."]
