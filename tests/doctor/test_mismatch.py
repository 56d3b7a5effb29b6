"""Kernel module and libraries of different versions: what has to change, and whose turn it is. Pure."""

from __future__ import annotations

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.codes import Cuda, Nvml
from gpuenv.model.finding import Finding
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
