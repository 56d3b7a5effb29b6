"""A libcuda of the loaded module that is there, in a folder in which the loader does not look."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import Container, DriverLibrary, LibraryOrigin, Snapshot, Source, SourceState
from gpuenv.model.versions import DriverVersion, Libc
from tests.doctor.kernel_hosts import findings, working

OPERATOR = "/run/nvidia/driver/usr/lib/x86_64-linux-gnu"
STORE = "/nix/store/5bqvqa6n0hyb1vbjbsqvwvwaqw1sd9cz-nvidia-x11/lib"


def lying_in(
    folder: str,
    *,
    container: Container = Container.NONE,
    release: str = "550.163.01",
    origin: LibraryOrigin = LibraryOrigin.OTHER,
    distribution: str = "ubuntu 22.04",
) -> Snapshot:
    snapshot = working(cuda=0, container=container)
    library = DriverLibrary(f"{folder}/libcuda.so.{release}", DriverVersion.parse(release), origin)
    return replace(
        snapshot,
        host=replace(snapshot.host, distribution=known(distribution, "x"), arch=known("x86_64", "uname")),
        driver=replace(
            snapshot.driver,
            libraries=(library,),
            nvml_init=Reading(),
            cuda_init=Reading(),
            branch=known(550, "x"),
        ),
        gpus=(),
        gpu_count=Reading(),
        visible_count=Reading(),
        sources=(
            Source("kernel", SourceState.ANSWERED),
            *(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda")),
        ),
    )


@pytest.mark.parametrize(
    ("snapshot", "folder", "commands"),
    [
        (lying_in(OPERATOR), "/run/nvidia/driver", []),
        (lying_in("/usr/lib64-nvidia"), "/usr/lib64-nvidia", ["env", "sudo"]),
        (lying_in(STORE, origin=LibraryOrigin.NIXOS, distribution="nixos 25.11"), "/run/opengl-driver/lib", ["env"]),
        (lying_in("/usr/lib/x86_64-linux-gnu", origin=LibraryOrigin.SYSTEM), "libcuda.so.1", ["sudo"]),
        (
            lying_in("/usr/lib/x86_64-linux-gnu", container=Container.DOCKER, origin=LibraryOrigin.MOUNTED),
            "links to the driver's libraries alone",
            ["ldconfig"],
        ),
        (
            lying_in("/usr/local/nvidia/lib64", container=Container.KUBERNETES),
            "/usr/local/nvidia/lib64",
            ["env"],
        ),
        (lying_in("/var/lib/nvidia/lib64", distribution="cos 117"), "remount,exec", ["sudo", "env", "sudo"]),
    ],
    ids=["operator", "colab", "nixos", "ldconfig", "image", "gke", "cos"],
)
def test_nothing_is_installed_where_it_lies(
    matrix: Matrix, snapshot: Snapshot, folder: str, commands: list[str]
) -> None:
    (finding,) = findings(snapshot, matrix)
    assert (finding.code, finding.cause) == ("DRV108", Cause.DRIVER_INSTALL_BROKEN)
    assert [fix.command[0] for fix in finding.fix if fix.command] == commands
    assert any(folder in f"{fix.text} {' '.join(fix.command or ())}" for fix in finding.fix)
    assert not any("nstall" in fix.text or "install" in (fix.command or ()) for fix in finding.fix)


@pytest.mark.parametrize("folder", [OPERATOR, "/usr/lib/x86_64-linux-gnu"])
def test_no_folder_with_a_c_library_is_put_on_the_loaders_path(matrix: Matrix, folder: str) -> None:
    (finding,) = findings(lying_in(folder), matrix)
    assert not any(f"LD_LIBRARY_PATH={folder}" in " ".join((fix.text, *(fix.command or ()))) for fix in finding.fix)


@pytest.mark.parametrize(
    "snapshot",
    [
        lying_in("/usr/lib64-nvidia", release="535.183.01"),
        lying_in("/usr/local/cuda-12.4/compat", origin=LibraryOrigin.COMPAT),
        lying_in("/usr/local/cuda/lib64/stubs", origin=LibraryOrigin.STUB),
        lying_in("/usr/lib", distribution="fedora 42"),
    ],
    ids=["another release", "compat", "stub", "of 32 bits"],
)
def test_another_library_is_none(matrix: Matrix, snapshot: Snapshot) -> None:
    (finding,) = findings(snapshot, matrix)
    assert finding.code == "DRV108"
    assert "Install the compute part" in finding.fix[0].text


def test_no_loader_of_musl_s_is_told_where_a_library_of_glibc_s_lies(matrix: Matrix) -> None:
    snapshot = lying_in("/usr/lib64", container=Container.DOCKER, distribution="alpine 3.20")
    codes = {}
    for libc in ("musl-1.2.5", "glibc-2.36"):
        host = replace(snapshot.host, libc=known(Libc.parse(libc), "x"))
        codes[libc] = [finding.code for finding in findings(replace(snapshot, host=host), matrix)]
    assert "DRV108" not in codes["musl-1.2.5"]
    assert "CTR305" in codes["musl-1.2.5"]
    assert "DRV108" in codes["glibc-2.36"]
