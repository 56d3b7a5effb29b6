"""The CUDA libraries that CuPy loads (missing, conflicting, unloadable, of another major) and their headers."""

from __future__ import annotations

import pytest

from gpuenv.doctor.fixes.distributions import headers_package, system_of
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.reading import Reading, known, missing
from gpuenv.model.snapshot import FileState, Host, Library, Module, Snapshot, Source, SourceState, Target, Toolkit
from gpuenv.model.versions import CudaVersion
from tests.doctor.installed_target import CUPY, LIBRARIES, SITE, findings_by_code, healthy, with_file_fault, with_target
from tests.doctor.kernel_hosts import findings
from tests.doctor.module_hosts import BUILT, host_without_module
from tests.support.matrix import MATRIX

__all__ = ["healthy"]


def test_optional_libraries_may_be_missing(healthy: Snapshot) -> None:
    nccl = Library("nccl", "libnccl.so.2", optional=True, error="not there")
    assert findings_by_code(with_target(healthy, libraries=(*LIBRARIES, nccl))) == {}


def test_a_build_with_an_unknown_cuda_major_is_missing_libraries(healthy: Snapshot) -> None:
    built = healthy.target.cupy[0]._replace(distribution="cupy")
    packages = {name: release for name, release in healthy.target.packages.items() if not name.startswith("cupy")}
    libraries = tuple(entry._replace(path=None) for entry in LIBRARIES)
    kit = Toolkit("/usr/local/cuda", "/usr/local", known(CudaVersion(12, 4), "version.json"), has_nvrtc=True)
    snapshot = with_target(healthy, cupy=(built,), packages={**packages, "cupy": built.release}, libraries=libraries)
    finding = findings_by_code(snapshot._replace(toolkits=(kit,)))["LIB601"]
    assert finding.cause is Cause.CUDA_LIBRARY_MISSING, "the CUDA major of the build is unknown"
    assert "None" not in " ".join([finding.title, *(fix.text for fix in finding.fix)])


@pytest.mark.parametrize(
    ("soname", "path"), [("libnvrtc-builtins.so.12.9", None), ("libnvrtc-builtins.so.12.4", "/usr/lib/x")]
)
def test_nvrtc_without_matching_builtins_is_an_error(healthy: Snapshot, soname: str, path: str | None) -> None:
    builtins = Library("nvrtc-builtins", soname, path, "dependency", error=None if path else "failed to open it")
    finding = findings_by_code(with_target(healthy, libraries=(*LIBRARIES[:-1], builtins)))["LIB604"]
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


@pytest.mark.parametrize("message", REFUSALS)
@pytest.mark.parametrize("torch", [False, True])
def test_a_symbol_conflict_names_the_conflicting_library(healthy: Snapshot, message: str, *, torch: bool) -> None:
    refused = LIBRARIES[5]._replace(path=None, found_via=None, error=message)
    libraries = (*LIBRARIES[:5], refused, *LIBRARIES[6:], OLD_LINKER)
    packages = {**healthy.target.packages, "nvidia-nvjitlink-cu12": "12.1.105", **({"torch": "2.1.0"} if torch else {})}
    findings = findings_by_code(with_target(healthy, libraries=libraries, packages=packages))
    assert set(findings) == {"LIB611"}
    finding = findings["LIB611"]
    assert finding.cause is (Cause.TORCH_CUPY_CONFLICT if torch else Cause.LIBRARY_PATH_CONFLICT)
    assert finding.title.startswith("libcusparse.so.12 cannot be loaded: the libnvJitLink.so.12 ")
    assert any("nvidia-nvjitlink-cu12>=12.9,<13" in (fix.command or ()) for fix in finding.fix)


@pytest.mark.parametrize(
    ("message", "codes"),
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
def test_a_missing_library_differs_from_a_refused_one(healthy: Snapshot, message: str, codes: set[str]) -> None:
    unloadable = LIBRARIES[5]._replace(path=None, found_via=None, error=message)
    assert set(findings_by_code(with_target(healthy, libraries=(*LIBRARIES[:5], unloadable, LIBRARIES[6])))) == codes


@pytest.mark.parametrize(
    ("gpu", "release", "cause"),
    [
        ("RTX 5090", "12.4", Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        ("B300", "12.8", Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        ("RTX 5090", "12.8", None),
        ("H100", "12.0", None),
        ("RTX 4090", "11.4", None),  # of another major, covered by another check
        ("RTX 5090", "12.99", None),  # newer than the matrix
    ],
)
def test_an_nvrtc_without_support_for_the_gpu_is_reported(
    healthy: Snapshot, gpu: str, release: str, cause: Cause | None
) -> None:
    nvrtc = LIBRARIES[0]._replace(release=release)
    snapshot = with_target(healthy, libraries=(nvrtc, *LIBRARIES[1:6]))
    findings = findings_by_code(assume(snapshot, [f"gpu={gpu}"], MATRIX))
    result = findings.get("LIB610")
    assert (result and result.cause) == cause
    if result is not None:
        command = next(fix.command for fix in result.fix if fix.command)
        assert "cupy-cuda12x[ctk]==14.2.0" in command, "the installed release, with a newer NVRTC"
        assert any(word.startswith("cuda-toolkit") for word in command)


TOOLKIT = Toolkit("/usr/local/cuda-12.8", "searched", known(CudaVersion(12, 8), "x"), has_nvrtc=True)


@pytest.mark.parametrize(
    ("toolkit", "cupy", "beginnings"),
    [
        (
            TOOLKIT,
            "14.1.0",
            (
                "Remove /opt/cuda-12.4/lib64 from LD_LIBRARY_PATH",
                "Or install the CuPy that includes such an NVRTC: cupy-cuda12x[ctk]==14.1.0",
                "Or install a toolkit",
            ),
        ),
        (
            TOOLKIT._replace(has_nvrtc=False),
            "14.1.0",
            ("Install the CuPy that includes such an NVRTC: cupy-cuda12x[ctk]==14.1.0", "Or install a toolkit"),
        ),
        (None, "14.1.0", ("Install the CuPy that includes such an NVRTC", "Or install a toolkit")),
    ],
)
def test_the_fixes_for_an_old_nvrtc_are_alternatives(
    healthy: Snapshot, toolkit: Toolkit | None, cupy: str, beginnings: tuple[str, ...]
) -> None:
    nvrtc = LIBRARIES[0]._replace(release="12.4", path="/opt/cuda-12.4/lib64/libnvrtc.so.12")
    snapshot = with_target(healthy, libraries=(nvrtc, *LIBRARIES[1:6]), cupy=(CUPY._replace(release=cupy),))
    snapshot_with_path = assume(snapshot, ["gpu=RTX 5090", "env.LD_LIBRARY_PATH=/opt/cuda-12.4/lib64"], MATRIX)
    result = findings_by_code(snapshot_with_path._replace(toolkits=(toolkit,) if toolkit else ()))["LIB610"]
    ways = [fix.text for fix in result.fix if not fix.text.startswith("Then ")]
    assert len(ways) == len(beginnings), result.fix
    assert all(way.startswith(beginning) for way, beginning in zip(ways, beginnings, strict=True)), result.fix


def test_an_nvrtc_older_than_the_gpu_is_enough_if_ptx_is_requested(healthy: Snapshot) -> None:
    """The driver compiles PTX for 9.0 to code for a GPU of 12.0."""
    libraries = (LIBRARIES[0]._replace(release="12.4"), *LIBRARIES[1:6])
    facts = ["gpu=RTX 5090", "driver=580.95.05"]
    without_ptx = assume(with_target(healthy, libraries=libraries), facts, MATRIX)
    assert "LIB610" in findings_by_code(without_ptx)
    assert "LIB610" not in findings_by_code(assume(without_ptx, ["env.CUPY_COMPILE_WITH_PTX=1"], MATRIX))


def test_a_conflicting_library_outside_the_target_gets_no_command(healthy: Snapshot) -> None:
    """LD_LIBRARY_PATH leads to it: the installed wheel is new enough, but is not loaded."""
    refused = LIBRARIES[5]._replace(path=None, found_via=None, error=REFUSALS[0])
    outside = OLD_LINKER._replace(path="/usr/local/cuda-12.1/lib64/libnvJitLink.so.12")
    libraries = (*LIBRARIES[:5], refused, *LIBRARIES[6:], outside)
    packages = {**healthy.target.packages, "nvidia-nvjitlink-cu12": "12.9.86"}
    finding = findings_by_code(with_target(healthy, libraries=libraries, packages=packages))["LIB611"]
    assert [fix.command for fix in finding.fix] == [None]


@pytest.mark.parametrize(
    ("value", "driver", "nvrtc", "expected"),
    [
        ("1", "535.104.05", "12.9", True),
        (" 01", "535.104.05", "12.9", True),
        ("1", "580.95.05", "12.9", False),
        ("yes", "535.104.05", "12.9", False),
        ("1", "555.42.06", "12.6", False),  # CUDA 12.5 and 12.6 emit the same PTX version
        ("1", "555.42.06", "12.8", True),
    ],
)
def test_ptx_newer_than_the_driver_is_reported(
    healthy: Snapshot, value: str, driver: str, nvrtc: str, *, expected: bool
) -> None:
    libraries = (LIBRARIES[0]._replace(release=nvrtc), *LIBRARIES[1:6])
    facts = [f"env.CUPY_COMPILE_WITH_PTX={value}", f"driver={driver}"]
    snapshot = assume(with_target(healthy, libraries=libraries), facts, MATRIX)
    findings = findings_by_code(snapshot)
    assert set(findings) == ({"LIB612"} if expected else set())
    assert all(finding.cause is Cause.NVRTC_OUTPUT_INVALID for finding in findings.values())


@pytest.mark.parametrize(
    "folders",
    [(), ("/usr/local/cuda/include",), (f"{SITE}/cupy/_core/include/cupy/_cuda/cuda-12.6", "/usr/local/include")],
)
def test_missing_headers_are_an_error(healthy: Snapshot, folders: tuple[str, ...]) -> None:
    snapshot = with_target(healthy, headers=known(folders, "x"), headers_cuda=Target().headers_cuda)
    finding = findings_by_code(snapshot)["LIB605"]
    assert (finding.cause, finding.severity) == (Cause.CUDA_HEADERS_MISSING, Severity.ERROR)
    assert any("nvidia-cuda-runtime-cu12==12.9.*" in (fix.command or ()) for fix in finding.fix)


@pytest.mark.parametrize("cuda", ["11", "12", "12.8"])
def test_the_headers_bundled_with_cupy_13_are_sufficient(healthy: Snapshot, cuda: str) -> None:
    bundled = (f"{SITE}/cupy/_core/include/cupy/_cuda/cuda-{cuda}",)
    assert findings_by_code(with_target(healthy, headers=known(bundled, "x"), headers_cuda=Target().headers_cuda)) == {}


@pytest.mark.parametrize(
    ("environment", "cause"),
    [({"CUDA_PATH": "/usr/local/cuda-13.0"}, Cause.CUDA_PATH_WRONG), ({}, Cause.LIBRARY_PATH_CONFLICT)],
)
def test_only_headers_of_another_major_are_a_warning(
    healthy: Snapshot, environment: dict[str, str], cause: Cause
) -> None:
    snapshot = healthy._replace(environment=environment)
    other_major = with_target(snapshot, headers_cuda=known(CudaVersion.parse("13.0"), "/usr/local/cuda/include"))
    finding = findings_by_code(other_major)["LIB606"]
    assert (finding.cause, finding.severity) == (cause, Severity.WARNING)
    assert findings_by_code(with_target(snapshot, headers_cuda=known(CudaVersion.parse("12.4"), "x"))) == {}


def test_a_toolkit_in_the_target_is_not_a_host_toolkit(healthy: Snapshot) -> None:
    """Only a CuPy that searches wheels can use the NVRTC of wheels."""
    kit = Toolkit(f"{SITE}/nvidia", "wheels", known(CudaVersion.parse("12.9"), "x"), has_nvrtc=True, has_headers=True)
    without_toolkit = healthy._replace(toolkits=())
    assert resolve(healthy._replace(toolkits=(kit,)), MATRIX) == resolve(without_toolkit, MATRIX)


def test_facts_of_the_installed_cupy_do_not_apply_to_an_assumed_one(healthy: Snapshot) -> None:
    broken = with_file_fault(healthy, "cupy/_core/core.so", FileState.MISSING)
    broken = with_target(broken, headers=known((), "x"), cupy_module=known("/home/me/cupy.py", "x"))
    assert {"WHL510", "WHL511"} <= set(findings_by_code(broken))
    assert findings_by_code(assume(broken, ["cupy=cupy-cuda13x==14.2.0"], MATRIX)) == {}


def test_a_library_that_crashes_is_named(healthy: Snapshot) -> None:
    crashing = LIBRARIES[2]._replace(path=None, error="loading it ended by SIGABRT")
    snapshot = with_target(healthy, libraries=(*LIBRARIES[:2], crashing, *LIBRARIES[3:]))
    crashed = snapshot._replace(sources=(Source("libraries", SourceState.CRASHED, "cufft: ended by SIGABRT"),))
    finding = findings_by_code(crashed)["LIB602"]
    assert finding.title == "Loading libcufft.so.11 for cupy-cuda12x crashes"
    assert "LIB601" not in findings_by_code(crashed), "the library exists"


@pytest.mark.parametrize(
    ("wheels", "codes"),
    [
        ({"nvidia-cuda-nvrtc-cu12": "12.9.86"}, {"WHL517"}),
        ({"nvidia-cuda-nvrtc": "13.0.88"}, {"WHL517", "LIB601"}),
        ({}, {"WHL517", "LIB601"}),
    ],
)
def test_installed_cuda_wheels_are_not_missing_without_cuda_pathfinder(
    healthy: Snapshot, wheels: dict[str, str], codes: set[str]
) -> None:
    cupy = healthy.target.cupy[0]._replace(requires=("cuda-pathfinder==1.*,>=1.3.4",))
    packages = {name: release for name, release in healthy.target.packages.items() if "nvidia-" not in name}
    missing_libraries = tuple(library._replace(path=None, found_via=None) for library in LIBRARIES)
    snapshot = with_target(healthy, cupy=(cupy,), libraries=missing_libraries, packages={**packages, **wheels})
    assert set(findings_by_code(snapshot)) == codes


def test_a_missing_numpy_is_installed(healthy: Snapshot) -> None:
    result = healthy._replace(sources=(Source("target", SourceState.ANSWERED),))
    finding = findings_by_code(with_target(result, numpy=Reading(reason="not installed")))["WHL506"]
    assert [fix.text for fix in finding.fix] == ["Install a NumPy that fits."]


TOO_SHORT = "libcuda.so.1: file too short"
DEPENDENCY_MISSING = "libnvrm_gpu.so: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("message", "fix_text"), [(TOO_SHORT, "Remove the file"), (DEPENDENCY_MISSING, "Reinstall the driver")]
)
def test_the_fix_depends_on_the_loader_message(message: str, fix_text: str) -> None:
    snapshot = host_without_module(Module.LOADED, BUILT)
    other_sources = tuple(source for source in snapshot.sources if source.name != "libcuda")
    driver = snapshot.driver._replace(cuda_init=missing(message), cuda_library=missing(message))
    sources = (*other_sources, Source("libcuda", SourceState.FAILED, message))
    by_code = {entry.code: entry for entry in findings(snapshot._replace(driver=driver, sources=sources))}
    assert [fix.text.startswith(fix_text) for fix in by_code["DRV114"].fix] == [True]


CUPY_MODULE = f"{SITE}/cupy/_core/core.cpython-312-x86_64-linux-gnu.so"
UNMAPPED = "failed to map segment from shared object"
BROKEN, CORRUPT = Cause.TARGET_ENVIRONMENT_BROKEN, Cause.CORRUPT_INSTALLATION


@pytest.mark.parametrize(
    ("message", "cause", "fix_text"),
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
def test_a_file_refused_by_the_loader_is_reported_with_its_reason(
    healthy: Snapshot, message: str, cause: Cause, fix_text: str
) -> None:
    """The file may be CuPy's module or a library; no file is missing, so the fix installs nothing."""
    path = f"{SITE}/nvidia/cublas/lib/libcublas.so.12"
    refused = LIBRARIES[1]._replace(path=None, error=f"Failed to dlopen {path}: {path}: {message}")
    of_library = with_target(healthy, libraries=(LIBRARIES[0], refused, *LIBRARIES[2:]))
    for snapshot in (of_library, with_target(healthy, extension=missing(f"{CUPY_MODULE}: {message}"))):
        findings = findings_by_code(snapshot)
        assert set(findings) == {"LIB613"}
        finding = findings["LIB613"]
        assert (finding.cause, finding.severity) == (cause, Severity.ERROR)
        assert fix_text in finding.fix[0].text
        assert "ctk" not in " ".join(fix.text for fix in finding.fix)


@pytest.mark.parametrize(
    "message",
    [
        "libcuda.so.1: cannot open shared object file: No such file or directory",
        "/usr/lib/libcuda.so.1: file too short",
        "not probed",
        "no answer within 30.0 s",
    ],
)
def test_unrelated_loader_messages_do_not_blame_the_cupy_module(healthy: Snapshot, message: str) -> None:
    assert findings_by_code(with_target(healthy, extension=missing(message))) == {}


def test_an_optional_library_may_be_damaged(healthy: Snapshot) -> None:
    optional = LIBRARIES[1]._replace(name="nccl", path=None, optional=True, error="/x/libnccl.so.2: file too short")
    assert findings_by_code(with_target(healthy, libraries=(*LIBRARIES, optional))) == {}


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
        ("arch", "arch rolling", "6.12.60-1-lts", "linux-lts-headers"),
        ("arch", "arch rolling", "6.4.1-zen1-1-zen", "linux-zen-headers"),
        ("arch", "arch rolling", "6.8.9-hardened1-1-hardened", "linux-hardened-headers"),
        ("arch", "cachyos rolling", "6.6.2-3-cachyos", None),
        ("", "gentoo 2.17", "6.12.58-gentoo", None),
    ],
)
def test_the_headers_package_depends_on_the_kernel_flavor(
    family: str, distribution: str, kernel: str, package: str | None
) -> None:
    system = system_of(Snapshot(host=Host(distribution=known(distribution, "os-release"))))
    assert system.family == (family or None)
    assert headers_package(system, kernel) == package


CUDA_13_DIRECTORY = f"{SITE}/nvidia/cu13/lib"
CUDA_13_WHEELS = {
    "nvidia-cublas": "13.1.0.3",
    "nvidia-cuda-nvrtc": "13.0.88",
    "nvidia-cuda-runtime": "13.0.96",
    "nvidia-cufft": "12.0.0.61",
    "nvidia-cusparse": "12.6.3.3",
}


def found_in_another_major(library: Library, soname: str, folder: str = CUDA_13_DIRECTORY) -> Library:
    """A library for which cuda-pathfinder finds the one of another major."""
    path = f"{folder}/{soname}"
    return library._replace(path=path, finder_path=path)


NVRTC, CUBLAS = (
    found_in_another_major(LIBRARIES[0], "libnvrtc.so.13"),
    found_in_another_major(LIBRARIES[1], "libcublas.so.13"),
)


def with_wheels(healthy: Snapshot, packages: dict[str, str], *first: Library) -> Snapshot:
    """The healthy target with further packages and with its first libraries replaced."""
    installed = {**healthy.target.packages, **packages}
    return with_target(healthy, packages=installed, libraries=(*first, *LIBRARIES[len(first) :]))


def test_every_wheel_of_another_cuda_major_is_removed(healthy: Snapshot) -> None:
    """A remaining wheel would still be loaded first; some have version numbers other than CUDA's."""
    finding = findings_by_code(
        with_wheels(healthy, {**CUDA_13_WHEELS, "nvidia-cublas-cu12": "12.9.2.10"}, NVRTC, CUBLAS)
    )["LIB603"]
    assert finding.cause is Cause.LIBRARY_PATH_CONFLICT
    command = finding.fix[0].command or ()
    assert [word for word in command if word.startswith("nvidia-")] == list(CUDA_13_WHEELS)


def test_a_single_wheel_of_another_major_is_removed(healthy: Snapshot) -> None:
    finding = findings_by_code(with_wheels(healthy, {"nvidia-cublas": "13.1.0.3"}, LIBRARIES[0], CUBLAS))["LIB603"]
    assert "nvidia-cublas" in (finding.fix[0].command or ())
    assert any(entry.fact == "target.packages.nvidia-cublas" for entry in finding.evidence)


def test_dependencies_of_a_framework_are_not_removed(healthy: Snapshot) -> None:
    """The fix is a CuPy of the same major, or separate environments."""
    finding = findings_by_code(with_wheels(healthy, {**CUDA_13_WHEELS, "torch": "2.11.0"}, NVRTC, CUBLAS))["LIB603"]
    assert finding.cause is Cause.TORCH_CUPY_CONFLICT
    *with_framework, without_framework = finding.fix
    assert not any("nvidia-" in " ".join(fix.command or ()) for fix in with_framework)
    assert any("install cupy-cuda13x" in " ".join(fix.command or ()) for fix in with_framework)
    assert "torch" in with_framework[-1].text
    assert not without_framework.safe
    assert {"torch", *CUDA_13_WHEELS} <= {*(without_framework.command or ())}, (
        "the framework is removed with its dependencies"
    )


def test_a_framework_that_is_too_new_for_the_driver_is_removed_first(healthy: Snapshot) -> None:
    older = assume(
        with_wheels(healthy, {**CUDA_13_WHEELS, "torch": "2.11.0"}, NVRTC, CUBLAS), ["driver=550.54.15"], MATRIX
    )
    fixes = findings_by_code(older)["LIB603"].fix
    assert {"torch", *CUDA_13_WHEELS} <= {*(fixes[0].command or ())}
    assert not fixes[0].safe
    assert fixes[1].text.startswith("Or ")


def test_a_framework_of_the_same_cuda_major_is_not_blamed(healthy: Snapshot) -> None:
    finding = findings_by_code(with_wheels(healthy, {"torch": "2.9.0", "nvidia-cuda-nvrtc": "13.0.88"}, NVRTC))[
        "LIB603"
    ]
    assert finding.cause is Cause.LIBRARY_PATH_CONFLICT
    assert "nvidia-cuda-nvrtc" in (finding.fix[0].command or ())


@pytest.mark.parametrize("packages", [{}, CUDA_13_WHEELS])
def test_the_first_fix_is_not_an_alternative(healthy: Snapshot, packages: dict[str, str]) -> None:
    """No installed package may own the toolkit that is found first."""
    libraries = [
        found_in_another_major(library, "libnvrtc.so.13", "/usr/local/cuda-13.0/lib64") for library in LIBRARIES[:1]
    ]
    finding = findings_by_code(with_wheels(healthy, packages, *libraries))["LIB603"]
    assert not finding.fix[0].text.startswith(("Or ", "Then "))


def test_a_title_says_that_only_another_major_is_installed(healthy: Snapshot) -> None:
    title = findings_by_code(with_wheels(healthy, CUDA_13_WHEELS, NVRTC, CUBLAS))["LIB603"].title
    assert title == "cupy-cuda12x needs CUDA 12; only 13.0 is installed"


def test_a_title_names_each_library_and_each_directory_once(healthy: Snapshot) -> None:
    both = {**CUDA_13_WHEELS, "nvidia-cuda-nvrtc-cu12": "12.9.86"}
    title = findings_by_code(with_wheels(healthy, both, NVRTC, CUBLAS))["LIB603"].title
    assert "libnvrtc.so.12, libcublas.so.12" in title
    assert title.count(CUDA_13_DIRECTORY) == 1
