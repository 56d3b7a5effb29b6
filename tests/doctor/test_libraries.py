"""The CUDA libraries that CuPy loads: missing, refused, unloadable, of another major; and their headers."""

from __future__ import annotations

import pytest

from gpuenv.doctor.fixes.distributions import headers_package
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.reading import Reading, known, missing
from gpuenv.model.snapshot import FileState, Library, Module, Snapshot, Source, SourceState, Target, Toolkit
from gpuenv.model.versions import CudaVersion
from tests.doctor.installed_target import CUPY, LIBRARIES, SITE, changed, faulty, found, healthy
from tests.doctor.kernel_hosts import findings
from tests.doctor.module_hosts import BUILT, host_without_module

__all__ = ["healthy"]


def test_optional_libraries_may_be_missing(matrix: Matrix, healthy: Snapshot) -> None:
    nccl = Library("nccl", "libnccl.so.2", optional=True, error="not there")
    assert found(matrix, changed(healthy, libraries=(*LIBRARIES, nccl))) == {}


def test_a_build_of_unknown_cuda_has_no_major(matrix: Matrix, healthy: Snapshot) -> None:
    built = healthy.target.cupy[0]._replace(distribution="cupy")
    packages = {name: release for name, release in healthy.target.packages.items() if not name.startswith("cupy")}
    libraries = tuple(entry._replace(path=None) for entry in LIBRARIES)
    kit = Toolkit("/usr/local/cuda", "/usr/local", known(CudaVersion(12, 4), "version.json"), has_nvrtc=True)
    snapshot = changed(healthy, cupy=(built,), packages={**packages, "cupy": built.release}, libraries=libraries)
    finding = found(matrix, snapshot._replace(toolkits=(kit,)))["LIB601"]
    assert finding.cause is Cause.CUDA_LIBRARY_MISSING, "whether that toolkit is of another major is unknown"
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


@pytest.mark.parametrize("expected", REFUSALS)
@pytest.mark.parametrize("torch", [False, True])
def test_a_library_that_another_one_s_release_keeps_from_loading(
    matrix: Matrix, healthy: Snapshot, expected: str, *, torch: bool
) -> None:
    refused = LIBRARIES[5]._replace(path=None, found_via=None, error=expected)
    libraries = (*LIBRARIES[:5], refused, *LIBRARIES[6:], OLD_LINKER)
    packages = {**healthy.target.packages, "nvidia-nvjitlink-cu12": "12.1.105", **({"torch": "2.1.0"} if torch else {})}
    findings = found(matrix, changed(healthy, libraries=libraries, packages=packages))
    assert set(findings) == {"LIB611"}
    finding = findings["LIB611"]
    assert finding.cause is (Cause.TORCH_CUPY_CONFLICT if torch else Cause.LIBRARY_PATH_CONFLICT)
    assert finding.title.startswith("libcusparse.so.12 cannot be loaded: the libnvJitLink.so.12 ")
    assert any("nvidia-nvjitlink-cu12>=12.9,<13" in (fix.command or ()) for fix in finding.fix)


@pytest.mark.parametrize(
    ("expected", "codes"),
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
def test_a_missing_library_differs_from_a_refused_one(
    matrix: Matrix, healthy: Snapshot, expected: str, codes: set[str]
) -> None:
    gone = LIBRARIES[5]._replace(path=None, found_via=None, error=expected)
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
    nvrtc = LIBRARIES[0]._replace(release=release)
    snapshot = changed(healthy, libraries=(nvrtc, *LIBRARIES[1:6]))
    findings = found(matrix, assume(snapshot, [f"gpu={gpu}"], matrix))
    result = findings.get("LIB610")
    assert (result and result.cause) == cause
    if result is not None:
        assert any("cupy-cuda13x[ctk]==" in " ".join(fix.command or ()) for fix in result.fix)


TOOLKIT = Toolkit("/usr/local/cuda-12.8", "searched", known(CudaVersion(12, 8), "x"), has_nvrtc=True)


@pytest.mark.parametrize(
    ("toolkit", "cupy", "beginnings"),
    [
        (
            TOOLKIT,
            "14.1.0",
            (
                "Remove /opt/cuda-12.4/lib64 from LD_LIBRARY_PATH",
                "Or remove the installed CuPy",
                "Or install a toolkit",
            ),
        ),
        (
            TOOLKIT._replace(has_nvrtc=False),
            "14.1.0",
            ("Remove the installed CuPy", "Install the CuPy", "Or install a toolkit"),
        ),
        (None, "14.1.0", ("Remove the installed CuPy", "Install the CuPy", "Or install a toolkit")),
    ],
)
def test_the_ways_to_another_nvrtc_are_alternatives(
    matrix: Matrix, healthy: Snapshot, toolkit: Toolkit | None, cupy: str, beginnings: tuple[str, ...]
) -> None:
    nvrtc = LIBRARIES[0]._replace(release="12.4", path="/opt/cuda-12.4/lib64/libnvrtc.so.12")
    snapshot = changed(healthy, libraries=(nvrtc, *LIBRARIES[1:6]), cupy=(CUPY._replace(release=cupy),))
    there = assume(snapshot, ["gpu=RTX 5090", "env.LD_LIBRARY_PATH=/opt/cuda-12.4/lib64"], matrix)
    result = found(matrix, there._replace(toolkits=(toolkit,) if toolkit else ()))["LIB610"]
    ways = [fix.text for fix in result.fix if not fix.text.startswith("Then ")]
    assert len(ways) == len(beginnings), result.fix
    assert all(way.startswith(beginning) for way, beginning in zip(ways, beginnings, strict=True)), result.fix


def test_an_nvrtc_older_than_the_gpu_is_enough_if_ptx_is_requested(matrix: Matrix, healthy: Snapshot) -> None:
    """The driver compiles PTX of 9.0 for a GPU of 12.0."""
    libraries = (LIBRARIES[0]._replace(release="12.4"), *LIBRARIES[1:6])
    facts = ["gpu=RTX 5090", "driver=580.95.05"]
    there = assume(changed(healthy, libraries=libraries), facts, matrix)
    assert "LIB610" in found(matrix, there)
    assert "LIB610" not in found(matrix, assume(there, ["env.CUPY_COMPILE_WITH_PTX=1"], matrix))


def test_another_release_outside_of_the_target_is_not_for_an_installer(matrix: Matrix, healthy: Snapshot) -> None:
    """What LD_LIBRARY_PATH leads to: the wheel that is there is new enough, and is not the one that is loaded."""
    refused = LIBRARIES[5]._replace(path=None, found_via=None, error=REFUSALS[0])
    outside = OLD_LINKER._replace(path="/usr/local/cuda-12.1/lib64/libnvJitLink.so.12")
    libraries = (*LIBRARIES[:5], refused, *LIBRARIES[6:], outside)
    packages = {**healthy.target.packages, "nvidia-nvjitlink-cu12": "12.9.86"}
    finding = found(matrix, changed(healthy, libraries=libraries, packages=packages))["LIB611"]
    assert [fix.command for fix in finding.fix] == [None]


@pytest.mark.parametrize(
    ("expected", "driver", "nvrtc", "is_told"),
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
    matrix: Matrix, healthy: Snapshot, expected: str, driver: str, nvrtc: str, *, is_told: bool
) -> None:
    libraries = (LIBRARIES[0]._replace(release=nvrtc), *LIBRARIES[1:6])
    facts = [f"env.CUPY_COMPILE_WITH_PTX={expected}", f"driver={driver}"]
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
def test_the_headers_of_cupy_13_are_enough(matrix: Matrix, healthy: Snapshot, cuda: str) -> None:
    own = (f"{SITE}/cupy/_core/include/cupy/_cuda/cuda-{cuda}",)
    assert found(matrix, changed(healthy, headers=known(own, "x"), headers_cuda=Target().headers_cuda)) == {}


@pytest.mark.parametrize(
    ("environment", "cause"),
    [({"CUDA_PATH": "/usr/local/cuda-13.0"}, Cause.CUDA_PATH_WRONG), ({}, Cause.LIBRARY_PATH_CONFLICT)],
)
def test_headers_of_another_major_are_a_warning_and_of_another_minor_nothing(
    matrix: Matrix, healthy: Snapshot, environment: dict[str, str], cause: Cause
) -> None:
    snapshot = healthy._replace(environment=environment)
    other = changed(snapshot, headers_cuda=known(CudaVersion.parse("13.0"), "/usr/local/cuda/include"))
    finding = found(matrix, other)["LIB606"]
    assert (finding.cause, finding.severity) == (cause, Severity.WARNING)
    assert found(matrix, changed(snapshot, headers_cuda=known(CudaVersion.parse("12.4"), "x"))) == {}


def test_a_toolkit_in_the_target_is_not_one_of_the_host(matrix: Matrix, healthy: Snapshot) -> None:
    """The wheels' NVRTC serves a CuPy that looks for wheels; a CuPy without the extra cannot count on it."""
    kit = Toolkit(f"{SITE}/nvidia", "wheels", known(CudaVersion.parse("12.9"), "x"), has_nvrtc=True, has_headers=True)
    without = healthy._replace(toolkits=())
    assert resolve(healthy._replace(toolkits=(kit,)), matrix) == resolve(without, matrix)


def test_facts_of_the_installed_cupy_do_not_apply_to_an_assumed_one(matrix: Matrix, healthy: Snapshot) -> None:
    broken = faulty(healthy, "cupy/_core/core.so", FileState.MISSING)
    broken = changed(broken, headers=known((), "x"), cupy_module=known("/home/me/cupy.py", "x"))
    assert {"WHL510", "WHL511"} <= set(found(matrix, broken))
    assert found(matrix, assume(broken, ["cupy=cupy-cuda13x==14.2.0"], matrix)) == {}


def test_a_library_that_crashes_is_named(matrix: Matrix, healthy: Snapshot) -> None:
    lost = LIBRARIES[2]._replace(path=None, error="loading it ended by SIGABRT")
    snapshot = changed(healthy, libraries=(*LIBRARIES[:2], lost, *LIBRARIES[3:]))
    crashed = snapshot._replace(sources=(Source("libraries", SourceState.CRASHED, "cufft: ended by SIGABRT"),))
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
def test_without_the_finder_installed_cuda_wheels_are_not_missing(
    matrix: Matrix, healthy: Snapshot, wheels: dict[str, str], codes: set[str]
) -> None:
    cupy = healthy.target.cupy[0]._replace(requires=("cuda-pathfinder==1.*,>=1.3.4",))
    packages = {name: release for name, release in healthy.target.packages.items() if "nvidia-" not in name}
    lost = tuple(library._replace(path=None, found_via=None) for library in LIBRARIES)
    snapshot = changed(healthy, cupy=(cupy,), libraries=lost, packages={**packages, **wheels})
    assert set(found(matrix, snapshot)) == codes


def test_without_a_numpy_none_is_to_be_fitted(matrix: Matrix, healthy: Snapshot) -> None:
    result = healthy._replace(sources=(Source("target", SourceState.ANSWERED),))
    finding = found(matrix, changed(result, numpy=Reading(reason="not installed")))["WHL506"]
    assert [fix.text for fix in finding.fix] == ["Install a NumPy that fits."]


SHORT = "libcuda.so.1: file too short"
LACKING = "libnvrm_gpu.so: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(("message", "helps"), [(SHORT, "Remove the file"), (LACKING, "Reinstall the driver")])
def test_the_fix_depends_on_the_loader_s_message(matrix: Matrix, message: str, helps: str) -> None:
    snapshot = host_without_module(Module.LOADED, BUILT)
    kept = tuple(source for source in snapshot.sources if source.name != "libcuda")
    driver = snapshot.driver._replace(cuda_init=missing(message), cuda_library=missing(message))
    sources = (*kept, Source("libcuda", SourceState.FAILED, message))
    found = {entry.code: entry for entry in findings(snapshot._replace(driver=driver, sources=sources), matrix)}
    assert [fix.text.startswith(helps) for fix in found["DRV114"].fix] == [True]


OWN = f"{SITE}/cupy/_core/core.cpython-312-x86_64-linux-gnu.so"
UNMAPPED = "failed to map segment from shared object"
BROKEN, CORRUPT = Cause.TARGET_ENVIRONMENT_BROKEN, Cause.CORRUPT_INSTALLATION


@pytest.mark.parametrize(
    ("expected", "cause", "helps"),
    [
        (f"{UNMAPPED} [its file system is mounted noexec]", BROKEN, "noexec"),
        (f"{UNMAPPED} [ulimit -v is 1500000 KiB]", BROKEN, "1464 MiB"),
        (UNMAPPED, BROKEN, "ulimit -a"),
        ("cannot allocate memory in static TLS block", BROKEN, "reserve"),
        ("cannot open shared object file: Permission denied", BROKEN, "read"),
        ("file too short", CORRUPT, "Reinstall"),
        ("invalid ELF header", CORRUPT, "Reinstall"),
        ("wrong ELF class: ELFCLASS32", CORRUPT, "Reinstall"),
    ],
)
def test_why_the_loader_does_not_take_a_file(
    matrix: Matrix, healthy: Snapshot, expected: str, cause: Cause, helps: str
) -> None:
    """Of CuPy's own module, and of a library: nothing is missing, and nothing must be installed."""
    path = f"{SITE}/nvidia/cublas/lib/libcublas.so.12"
    refused = LIBRARIES[1]._replace(path=None, error=f"Failed to dlopen {path}: {path}: {expected}")
    of_library = changed(healthy, libraries=(LIBRARIES[0], refused, *LIBRARIES[2:]))
    for snapshot in (of_library, changed(healthy, extension=missing(f"{OWN}: {expected}"))):
        findings = found(matrix, snapshot)
        assert set(findings) == {"LIB613"}
        finding = findings["LIB613"]
        assert (finding.cause, finding.severity) == (cause, Severity.ERROR)
        assert helps in finding.fix[0].text
        assert "ctk" not in " ".join(fix.text for fix in finding.fix)


@pytest.mark.parametrize(
    "expected",
    [
        "libcuda.so.1: cannot open shared object file: No such file or directory",
        "/usr/lib/libcuda.so.1: file too short",
        "not probed",
        "no answer within 30.0 s",
    ],
)
def test_other_faults_are_not_blamed_on_the_file(matrix: Matrix, healthy: Snapshot, expected: str) -> None:
    assert found(matrix, changed(healthy, extension=missing(expected))) == {}


def test_an_optional_library_may_be_damaged(matrix: Matrix, healthy: Snapshot) -> None:
    optional = LIBRARIES[1]._replace(name="nccl", path=None, optional=True, error="/x/libnccl.so.2: file too short")
    assert found(matrix, changed(healthy, libraries=(*LIBRARIES, optional))) == {}


@pytest.mark.parametrize(
    ("family", "distribution", "kernel", "package"),
    [
        ("ubuntu", "ubuntu 24.04", "6.8.0-60-generic", "linux-headers-6.8.0-60-generic"),
        ("debian", "debian 12", "6.1.0-32-amd64", "linux-headers-6.1.0-32-amd64"),
        ("debian", "debian 12", "6.8.12-9-pve", "proxmox-headers-6.8.12-9-pve"),
        ("debian", "debian 12", "6.5.11-7-pve", "proxmox-headers-6.5.11-7-pve"),
        ("debian", "debian 11", "5.15.158-2-pve", "pve-headers-5.15.158-2-pve"),
        ("fedora", "fedora 42", "6.17.8-200.fc42.x86_64", "kernel-devel-6.17.8-200.fc42.x86_64"),
        ("rhel", "rhel 9.6", "5.14.0-570.el9.aarch64+64k", "kernel-64k-devel-5.14.0-570.el9.aarch64"),
        ("rhel", "rhel 9.6", "5.14.0-570.el9.x86_64+rt", "kernel-rt-devel-5.14.0-570.el9.x86_64"),
        ("rhel", "ol 9.5", "5.15.0-306.el9uek.x86_64", "kernel-uek-devel-5.15.0-306.el9uek.x86_64"),
        ("rhel", "ol 9.5", "5.14.0-503.el9_5.x86_64", "kernel-devel-5.14.0-503.el9_5.x86_64"),
        ("rhel", "amzn 2", "5.10.236-228.amzn2.x86_64", "kernel-devel-5.10.236-228.amzn2.x86_64"),
        ("rhel", "amzn 2023", "6.1.156-177.amzn2023.x86_64", "kernel-devel-6.1.156-177.amzn2023.x86_64"),
        ("rhel", "amzn 2023", "6.12.55-74.amzn2023.x86_64", "kernel6.12-devel-6.12.55-74.amzn2023.x86_64"),
        ("suse", "opensuse-leap 15.6", "6.4.0-150600.23.65-default", "kernel-default-devel"),
        ("suse", "sles 15.6", "6.4.0-150600.8.40-azure", "kernel-azure-devel"),
        ("suse", "sles 15.6", "6.4.0-150600.23.65-64kb", "kernel-64kb-devel"),
        ("arch", "arch rolling", "6.18.2-arch2-1", "linux-headers"),
        ("arch", "arch rolling", "6.12.60-1-lts", None),
        ("", "gentoo 2.17", "6.12.58-gentoo", None),
    ],
)
def test_each_kind_of_kernel_has_a_package_of_its_own(
    family: str, distribution: str, kernel: str, package: str | None
) -> None:
    assert headers_package(family, distribution, kernel) == package


PLACE = f"{SITE}/nvidia/cu13/lib"
ALL = {
    "nvidia-cublas": "13.1.0.3",
    "nvidia-cuda-nvrtc": "13.0.88",
    "nvidia-cuda-runtime": "13.0.96",
    "nvidia-cufft": "12.0.0.61",
    "nvidia-cusparse": "12.6.3.3",
}


def astray(library: Library, soname: str, folder: str = PLACE) -> Library:
    """A library of CuPy's for which cuda-pathfinder takes that of another major."""
    path = f"{folder}/{soname}"
    return library._replace(path=path, finder_path=path)


NVRTC, CUBLAS = astray(LIBRARIES[0], "libnvrtc.so.13"), astray(LIBRARIES[1], "libcublas.so.13")


def with_wheels(healthy: Snapshot, packages: dict[str, str], *first: Library) -> Snapshot:
    """The healthy target with further packages, and with these libraries in place of its first ones."""
    there = {**healthy.target.packages, **packages}
    return changed(healthy, packages=there, libraries=(*first, *LIBRARIES[len(first) :]))


def test_every_wheel_of_the_other_major_is_to_be_removed(matrix: Matrix, healthy: Snapshot) -> None:
    """One that stays is still loaded first, whatever its own version counts by."""
    finding = found(matrix, with_wheels(healthy, {**ALL, "nvidia-cublas-cu12": "12.9.2.10"}, NVRTC, CUBLAS))["LIB603"]
    assert finding.cause is Cause.LIBRARY_PATH_CONFLICT
    command = finding.fix[0].command or ()
    assert [word for word in command if word.startswith("nvidia-")] == list(ALL)


def test_one_library_without_its_nvrtc_is_removed_too(matrix: Matrix, healthy: Snapshot) -> None:
    finding = found(matrix, with_wheels(healthy, {"nvidia-cublas": "13.1.0.3"}, LIBRARIES[0], CUBLAS))["LIB603"]
    assert "nvidia-cublas" in (finding.fix[0].command or ())
    assert any(entry.fact == "target.packages.nvidia-cublas" for entry in finding.evidence)


def test_what_a_framework_needs_is_not_removed(matrix: Matrix, healthy: Snapshot) -> None:
    """CuPy follows it, or one of them moves out."""
    finding = found(matrix, with_wheels(healthy, {**ALL, "torch": "2.11.0"}, NVRTC, CUBLAS))["LIB603"]
    assert finding.cause is Cause.TORCH_CUPY_CONFLICT
    *kept, alone = finding.fix
    assert not any("nvidia-" in " ".join(fix.command or ()) for fix in kept)
    assert any("install cupy-cuda13x" in " ".join(fix.command or ()) for fix in kept)
    assert "torch" in kept[-1].text
    assert not alone.safe
    assert {"torch", *ALL} <= {*(alone.command or ())}, "the framework goes with what it needs"


def test_a_framework_for_which_the_driver_is_too_old_goes_first(matrix: Matrix, healthy: Snapshot) -> None:
    older = assume(with_wheels(healthy, {**ALL, "torch": "2.11.0"}, NVRTC, CUBLAS), ["driver=550.54.15"], matrix)
    fixes = found(matrix, older)["LIB603"].fix
    assert {"torch", *ALL} <= {*(fixes[0].command or ())}
    assert not fixes[0].safe
    assert fixes[1].text.startswith("Or ")


def test_a_framework_of_cupys_own_major_is_not_blamed(matrix: Matrix, healthy: Snapshot) -> None:
    finding = found(matrix, with_wheels(healthy, {"torch": "2.9.0", "nvidia-cuda-nvrtc": "13.0.88"}, NVRTC))["LIB603"]
    assert finding.cause is Cause.LIBRARY_PATH_CONFLICT
    assert "nvidia-cuda-nvrtc" in (finding.fix[0].command or ())


@pytest.mark.parametrize("packages", [{}, ALL])
def test_the_first_fix_is_not_an_alternative(matrix: Matrix, healthy: Snapshot, packages: dict[str, str]) -> None:
    """A toolkit that comes first may be of no package."""
    libraries = [astray(library, "libnvrtc.so.13", "/usr/local/cuda-13.0/lib64") for library in LIBRARIES[:1]]
    finding = found(matrix, with_wheels(healthy, packages, *libraries))["LIB603"]
    assert not finding.fix[0].text.startswith(("Or ", "Then "))


def test_a_title_names_each_library_and_a_folder_once(matrix: Matrix, healthy: Snapshot) -> None:
    title = found(matrix, with_wheels(healthy, ALL, NVRTC, CUBLAS))["LIB603"].title
    assert "libnvrtc.so.12, libcublas.so.12" in title
    assert title.count(PLACE) == 1
