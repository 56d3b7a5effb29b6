"""Kernel module and libraries of different versions: what has to change, and whose turn it is. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import Finding
from gpuenv.model.nvidia import Cuda, Nvml
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import (
    Container,
    DeviceNode,
    Driver,
    DriverLibrary,
    Host,
    LibraryOrigin,
    Module,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
)
from gpuenv.model.versions import DriverVersion

MODULE, OLDER, NEWER = "550.163.01", "535.183.01", "580.95.05"
PLACE, STRAY = "/usr/lib/x86_64-linux-gnu", "/usr/lib64"
MISMATCH, BROKEN = "driver-library-version-mismatch", "driver-install-broken"
DOCKER, LXC, HOST = Container.DOCKER, Container.LXC, Container.NONE


def library(name: str, release: str, folder: str = PLACE, *, mounted: bool | None = False) -> DriverLibrary:
    return DriverLibrary(f"{folder}/{name}.so.{release}", DriverVersion.parse(release), LibraryOrigin.SYSTEM, mounted)


def machine(container: Container, nvml: int, used: tuple[DriverLibrary, ...], *more: DriverLibrary) -> Snapshot:
    nodes = tuple(DeviceNode(f"/dev/{n}", True, "crw-rw-rw-", "0:0") for n in ("nvidia0", "nvidiactl", "nvidia-uvm"))
    by_name = {entry.path.rpartition("/")[2].partition(".so")[0]: entry for entry in used}
    nvml_library = by_name.get("libnvidia-ml", by_name["libcuda"])
    driver = Driver(
        version=known(DriverVersion.parse(MODULE), "x"),
        branch=known(550, "x"),
        module=known(Module.LOADED, "x"),
        module_version=known(DriverVersion.parse(MODULE), "x"),
        library_version=known(nvml_library.release or DriverVersion.parse(MODULE), "x"),
        cuda_library=known(by_name["libcuda"].path, "x"),
        nvml_library=known(nvml_library.path, "x"),
        cuda_origin=known(LibraryOrigin.SYSTEM, "x"),
        libraries=(*used, *more),
        nvml_init=known(nvml, "nvml"),
        cuda_init=known(int(Cuda.SYSTEM_DRIVER_MISMATCH), "libcuda"),
        device_nodes=nodes,
    )
    state = SourceState.ANSWERED if nvml == 0 else SourceState.FAILED
    return Snapshot(
        host=Host(
            os=known("linux", "x"),
            distribution=known("ubuntu 22.04", "x"),
            arch=known("x86_64", "x"),
            container=known(container, "x"),
            wsl=known(value=False, source="x"),
        ),
        driver=driver,
        pci_gpus=(PciGpu("0000:31:00.0", "10de", "27b8", kernel_driver="nvidia"),),
        gpu_count=known(1, "nvml") if nvml == 0 else Reading(),
        sources=(
            Source("kernel", SourceState.ANSWERED),
            Source("nvml", state),
            Source("libcuda", SourceState.FAILED),
        ),
    )


def finding_of(snapshot: Snapshot, matrix: Matrix) -> Finding:
    found = diagnose(snapshot, matrix, resolve(snapshot, matrix), lambda: 0.0).findings
    (only,) = [finding for finding in found if finding.code == "DRV107"]
    assert only.primary
    return only


def both(release: str, *, mounted: bool | None = False) -> tuple[DriverLibrary, ...]:
    return tuple(library(name, release, mounted=mounted) for name in ("libcuda", "libnvidia-ml"))


@pytest.mark.parametrize(
    ("container", "used", "cause", "first", "restart"),
    [
        (HOST, both(NEWER), MISMATCH, "Restart the machine", True),
        (HOST, both(OLDER), MISMATCH, "Restart the machine", True),
        (DOCKER, both(NEWER, mounted=True), MISMATCH, "Restart the host", True),
        (DOCKER, both(OLDER, mounted=True), MISMATCH, "Start the container again", False),
        (DOCKER, both(OLDER, mounted=None), MISMATCH, "Start the container again", False),
        (DOCKER, both(OLDER), BROKEN, "out of the image", False),
        (LXC, both(OLDER), MISMATCH, f"exactly {MODULE} in the container", False),
        (LXC, both(NEWER), MISMATCH, f"exactly {MODULE} in the container", False),
        (LXC, both(NEWER, mounted=True), MISMATCH, f"exactly {MODULE} in the container", True),
    ],
)
def test_who_waits_for_what(
    matrix: Matrix,
    container: Container,
    used: tuple[DriverLibrary, ...],
    cause: str,
    first: str,
    restart: bool,  # noqa: FBT001 - a table
) -> None:
    finding = finding_of(machine(container, int(Nvml.LIB_RM_VERSION_MISMATCH), used), matrix)
    assert finding.cause.value == cause
    assert first in finding.fix[0].text
    assert any(fix.command == ("sudo", "reboot") for fix in finding.fix) is restart
    assert ("image" in finding.title) is (container is DOCKER and cause == BROKEN)


def test_a_libcuda_that_was_held_back_is_installed_and_nothing_restarted(matrix: Matrix) -> None:
    used = (library("libcuda", OLDER), library("libnvidia-ml", MODULE))
    finding = finding_of(machine(HOST, 0, used), matrix)
    assert finding.cause.value == BROKEN
    assert finding.fix[0].command == ("sudo", "apt-get", "install", "libnvidia-compute-550")


@pytest.mark.parametrize("nvml", [0, int(Nvml.LIB_RM_VERSION_MISMATCH)])
def test_a_second_driver_s_libraries_that_are_found_first_are_removed(matrix: Matrix, nvml: int) -> None:
    stray = library("libcuda", OLDER, STRAY)
    used = (stray, library("libnvidia-ml", MODULE) if nvml == 0 else library("libnvidia-ml", OLDER, STRAY))
    right = both(MODULE) if nvml else (library("libcuda", MODULE),)
    finding = finding_of(machine(HOST, nvml, used, *right), matrix)
    assert finding.cause.value == BROKEN
    assert stray.path in finding.fix[0].text
    assert f"{PLACE}/libcuda.so.{MODULE}" in finding.fix[0].text
    assert [fix.command for fix in finding.fix] == [None]


@pytest.mark.parametrize(("release", "command"), [(OLDER, ("sudo", "ldconfig")), (NEWER, ("sudo", "reboot"))])
def test_of_two_drivers_libraries_in_one_folder_the_older_ones_are_left_over(
    matrix: Matrix, release: str, command: tuple[str, ...]
) -> None:
    """Newer ones wait for the restart, whatever lies beside them."""
    finding = finding_of(machine(HOST, int(Nvml.LIB_RM_VERSION_MISMATCH), both(release), *both(MODULE)), matrix)
    assert finding.cause.value == MISMATCH
    assert [fix.command for fix in finding.fix] == [command]


def test_of_two_libcudas_in_one_folder_the_link_is_mended_and_none_installed(matrix: Matrix) -> None:
    used = (library("libcuda", OLDER), library("libnvidia-ml", MODULE))
    finding = finding_of(machine(HOST, 0, used, library("libcuda", MODULE)), matrix)
    assert OLDER in finding.title
    assert [fix.command for fix in finding.fix] == [("sudo", "ldconfig")]


def test_a_container_that_is_older_than_its_host_is_started_or_made_anew(matrix: Matrix) -> None:
    used = both(OLDER, mounted=True)
    finding = finding_of(machine(DOCKER, int(Nvml.LIB_RM_VERSION_MISMATCH), used), matrix)
    assert [word in fix.text for fix, word in zip(finding.fix, ("again", "CDI", "anew"), strict=True)] == [True] * 3


def on(distribution: str, snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, host=replace(snapshot.host, distribution=known(distribution, "x")))


def said(finding: Finding) -> str:
    return " ".join(fix.text for fix in finding.fix)


@pytest.mark.parametrize(
    ("distribution", "place", "left"),
    [
        ("ubuntu 22.04", PLACE, both(MODULE)),
        (
            "fedora 42",
            "/usr/lib64",
            (library("libcuda", MODULE, "/usr/lib"), library("libnvidia-ml", MODULE, "/usr/lib")),
        ),
        ("ubuntu 22.04", PLACE, (library("libcuda", MODULE, "/usr/local/cuda-12.4/compat"),)),
        ("ubuntu 22.04", PLACE, (library("libcuda", MODULE, "/usr/local/cuda-12.4/lib64/stubs"),)),
        ("ubuntu 22.04", PLACE, (library("libcuda", MODULE, "/usr/lib64"),)),
        ("ubuntu 22.04", PLACE, (library("libcuda", MODULE),)),
    ],
)
def test_after_an_update_a_restart_is_due_whatever_lies_about(
    matrix: Matrix, distribution: str, place: str, left: tuple[DriverLibrary, ...]
) -> None:
    used = (library("libcuda", NEWER, place), library("libnvidia-ml", NEWER, place))
    finding = finding_of(on(distribution, machine(HOST, int(Nvml.LIB_RM_VERSION_MISMATCH), used, *left)), matrix)
    assert finding.cause.value == MISMATCH
    assert [fix.command for fix in finding.fix] == [("sudo", "reboot")]
    assert "emove" not in said(finding)
    assert {entry.path for entry in used} <= {entry.value for entry in finding.evidence}


@pytest.mark.parametrize(
    "there",
    [
        (library("libcuda", MODULE),),  # and no NVML of the module's version
        tuple(library(n, MODULE, "/usr/lib") for n in ("libcuda", "libnvidia-ml")),  # of 32 bits, for all one knows
        tuple(
            DriverLibrary(
                f"/usr/local/cuda-12.4/compat/{n}.so.{MODULE}", DriverVersion.parse(MODULE), LibraryOrigin.COMPAT
            )
            for n in ("libcuda", "libnvidia-ml")
        ),
    ],
)
def test_nothing_is_removed_whose_counterpart_is_not_there(matrix: Matrix, there: tuple[DriverLibrary, ...]) -> None:
    finding = finding_of(machine(HOST, int(Nvml.LIB_RM_VERSION_MISMATCH), both(OLDER), *there), matrix)
    assert "emove" not in said(finding)
    assert "off the loader" not in said(finding)


def test_the_right_libraries_of_arch_lie_in_usr_lib(matrix: Matrix) -> None:
    used = tuple(library(n, OLDER, "/usr/lib64") for n in ("libcuda", "libnvidia-ml"))
    right = tuple(library(n, MODULE, "/usr/lib") for n in ("libcuda", "libnvidia-ml"))
    finding = finding_of(on("arch", machine(HOST, int(Nvml.LIB_RM_VERSION_MISMATCH), used, *right)), matrix)
    assert all(entry.path in said(finding) for entry in (*used, *right))
    assert {entry.path for entry in right} <= {entry.value for entry in finding.evidence}


@pytest.mark.parametrize(("release", "known_there"), [(OLDER, True), (OLDER, False), (NEWER, True)])
def test_a_libcuda_that_a_variable_leads_to_is_taken_off_the_path(
    matrix: Matrix,
    release: str,
    known_there: bool,  # noqa: FBT001 - a table
) -> None:
    """NVML answers, so that it is of the module's version, and no restart would change that of libcuda."""
    folder = "/home/someone/driver"
    snapshot = machine(HOST, 0, (library("libcuda", release, folder), library("libnvidia-ml", MODULE)))
    right = (library("libcuda", MODULE),) if known_there else ()
    driver = replace(
        snapshot.driver,
        libraries=(library("libnvidia-ml", MODULE), *right),
        cuda_origin=known(LibraryOrigin.OTHER, "x"),
    )
    finding = finding_of(replace(snapshot, driver=driver, environment={"LD_LIBRARY_PATH": folder}), matrix)
    assert finding.cause.value == BROKEN
    assert f"{folder}/libcuda.so.{release} off the loader's path" in finding.fix[0].text
    assert [fix.command for fix in finding.fix] == [None] * len(finding.fix)
    assert (right[0].path in said(finding)) if right else (MODULE in said(finding))
    assert folder in {entry.value for entry in finding.evidence}


@pytest.mark.parametrize(
    ("distribution", "command"),
    [("arch", None), ("ubuntu 22.04", ("sudo", "apt-get", "install", "libnvidia-compute-550"))],
)
def test_a_libcuda_that_was_held_back_is_named_with_its_release(
    matrix: Matrix, distribution: str, command: tuple[str, ...] | None
) -> None:
    place = "/usr/lib" if distribution == "arch" else PLACE
    used = (library("libcuda", OLDER, place), library("libnvidia-ml", MODULE, place))
    finding = finding_of(on(distribution, machine(HOST, 0, used)), matrix)
    assert [fix.command for fix in finding.fix] == [command]
    assert f"exactly {MODULE}" in finding.fix[0].text


def test_a_newer_libcuda_among_the_system_s_is_an_update_that_was_not_finished(matrix: Matrix) -> None:
    used = (library("libcuda", NEWER), library("libnvidia-ml", MODULE))
    finding = finding_of(machine(HOST, 0, used, library("libcuda", MODULE)), matrix)
    assert "emove" not in said(finding)
    assert "update the whole driver and restart" in said(finding)
