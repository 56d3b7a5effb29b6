"""The checks that the kernel's files decide, each with what looks like it and is healthy. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import (
    AmdGpu,
    Container,
    ContainerSupport,
    CupyInstallation,
    DeviceNode,
    DriverLibrary,
    Grant,
    Host,
    LibraryOrigin,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
    Target,
)
from gpuenv.model.versions import DriverVersion
from tests.doctor.kernel_hosts import BUS, findings, working


def with_library(*, container: Container, mounted: bool | None, release: str, origin: LibraryOrigin) -> Snapshot:
    snapshot = working(container=container)
    path = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{release}"
    driver = replace(
        snapshot.driver,
        nvml_init=known(int(Nvml.LIB_RM_VERSION_MISMATCH), "nvml"),
        cuda_init=known(803, "libcuda"),
        cuda_library=known(path, "the loader"),
        libraries=(DriverLibrary(path, DriverVersion.parse(release), origin, mounted),),
    )
    return replace(snapshot, driver=driver, gpus=(), gpu_count=Reading(), visible_count=Reading())


@pytest.mark.parametrize(
    ("container", "mounted", "release", "origin", "cause"),
    [
        (Container.DOCKER, False, "610.43", "system", Cause.DRIVER_INSTALL_BROKEN),
        (Container.DOCKER, True, "610.43", "mounted", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
        (Container.DOCKER, None, "610.43", "system", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
        (Container.DOCKER, False, "550.163.01", "system", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
        (Container.NONE, False, "610.43", "system", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
    ],
)
def test_a_library_of_the_image_is_told_from_a_driver_that_waits_for_a_restart(
    matrix: Matrix,
    container: Container,
    mounted: bool | None,  # noqa: FBT001 - a table
    release: str,
    origin: str,
    cause: Cause,
) -> None:
    snapshot = with_library(container=container, mounted=mounted, release=release, origin=LibraryOrigin(origin))
    (finding,) = findings(snapshot, matrix)
    assert (finding.code, finding.cause) == ("DRV107", cause)
    asked_to_restart = any(fix.command == ("sudo", "reboot") for fix in finding.fix)
    assert asked_to_restart is (cause is Cause.DRIVER_LIBRARY_VERSION_MISMATCH)


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (("c *:* m",), ["CTR306"]),
        ((), ["CTR306"]),
        (("c 195:* rwm",), ["DRV113"]),
        (("a *:* rwm",), ["DRV113"]),
        (None, ["DRV113"]),
    ],
)
def test_rules_without_the_gpu_are_why_cuda_finds_none(
    matrix: Matrix, rules: tuple[str, ...] | None, found: list[str]
) -> None:
    support = ContainerSupport(device_rules=Reading() if rules is None else known(rules, "devices.list"))
    snapshot = replace(working(cuda=100, container=Container.DOCKER), container_support=support)
    (finding,) = findings(snapshot, matrix)
    assert [finding.code] == found
    told = {entry.value for entry in finding.evidence if entry.fact == "container_support.device_rules"}
    assert told == ({"c *:* m" if rules else "none"} if found == ["CTR306"] else set())
    healthy = replace(working(container=Container.DOCKER), container_support=support)
    assert findings(healthy, matrix) == []


@pytest.mark.parametrize(
    ("container", "mode", "nvml", "found"),
    [
        (Container.DOCKER, "crw-rw-rw-", 999, "CTR306"),
        (Container.DOCKER, "crw-rw-rw-", 0, "CTR306"),
        (Container.DOCKER, "crw-rw----", 999, "CTR304"),
        (Container.DOCKER, "crw-rw----", 4, "CTR304"),
        (Container.NONE, "crw-rw----", 4, "CTR304"),
        (Container.NONE, "crw-rw-rw-", 4, "CTR304"),
    ],
)
def test_a_node_that_its_mode_opens_to_all_is_closed_by_the_control_group(
    matrix: Matrix, container: Container, mode: str, nvml: int, found: str
) -> None:
    snapshot = working(cuda=100, container=container)
    nodes = tuple(
        DeviceNode(f"/dev/nvidia{n}", accessible=False, mode=mode, owner="0:44") for n in ("0", "ctl", "-uvm")
    )
    driver = replace(snapshot.driver, device_nodes=nodes, nvml_init=known(nvml, "nvml"))
    assert [entry.code for entry in findings(replace(snapshot, driver=driver), matrix)] == [found]


@pytest.mark.parametrize(
    ("cupy", "cause"),
    [
        ("cupy-cuda12x", Cause.ROCM_MISMATCH),
        ("cupy-rocm-5-0", Cause.NO_NVIDIA_GPU),
        (None, Cause.NO_NVIDIA_GPU),
    ],
)
def test_an_amd_gpu_does_not_fit_a_cupy_for_cuda(matrix: Matrix, cupy: str | None, cause: Cause) -> None:
    snapshot = Snapshot(
        host=Host(os=known("linux", "uname"), container=known(Container.NONE, "marks")),
        pci_gpus=(PciGpu("0000:93:00.0", "1002", "740f", None, "amdgpu"),),
        amd_gpus=(AmdGpu(1, "aldebaran", "gfx90a", "0000:93:00.0", 1024),),
        target=Target(cupy=(CupyInstallation(cupy, "13.3.0"),) if cupy else ()),
        sources=tuple(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda")),
    )
    (finding,) = findings(snapshot, matrix)
    assert (finding.code, finding.cause) == ("GPU201", cause)
    assert "gfx90a" in finding.title
    assert ("which cupy-cuda12x cannot use" in finding.title) is (cause is Cause.ROCM_MISMATCH)


@pytest.mark.parametrize(("holder", "named"), [("vfio-pci", True), ("nvidia", False), (None, False)])
def test_a_gpu_that_is_kept_for_a_virtual_machine_is_told_as_such(
    matrix: Matrix,
    holder: str | None,
    named: bool,  # noqa: FBT001 - a table
) -> None:
    snapshot = replace(working(cuda=100), gpus=(), gpu_count=known(0, "nvml"))
    held = replace(snapshot, pci_gpus=(replace(BUS[0], device="ffff", kernel_driver=holder),))
    (finding,) = findings(held, matrix)
    assert finding.code == "DRV113"
    assert ("vfio-pci holds it" in finding.title) is named
    assert any("virtual machine" in fix.text for fix in finding.fix) is named
    assert (f"kernel driver of {BUS[0].pci}", holder or "none") in {(e.fact, e.value) for e in finding.evidence}


@pytest.mark.parametrize(
    ("mode", "by", "gpus", "told"),
    [
        ("crw-rw-rw-", None, None, "control group"),
        ("crw-rw----", None, None, "group that owns"),
        ("crw-rw-rw-", "slurm", 0, "ask Slurm"),
        ("crw-rw----", "slurm", 0, "ask Slurm"),
        ("crw-rw-rw-", "slurm", None, "control group"),
        ("crw-rw----", "slurm", None, "group that owns"),
        ("crw-rw----", "slurm", 1, "group that owns"),
    ],
)
def test_who_may_open_the_nodes_is_told_by_mode_and_by_grant(
    matrix: Matrix, mode: str, by: str | None, gpus: int | None, told: str
) -> None:
    snapshot = working(cuda=100)
    nodes = (DeviceNode("/dev/nvidia0", accessible=False, mode=mode, owner="0:44"),)
    grant = Grant(
        by=known(by, "SLURM_JOB_ID") if by else Reading(),
        gpus=Reading() if gpus is None else known(gpus, "SLURM_GPUS_ON_NODE"),
    )
    driver = replace(
        snapshot.driver, device_nodes=(*nodes, *snapshot.driver.device_nodes[1:]), nvml_init=known(4, "nvml")
    )
    (finding,) = findings(replace(snapshot, driver=driver, grant=grant), matrix)
    assert finding.code == "CTR304"
    assert told in finding.fix[0].text
    perhaps = "Where this job has asked Slurm for no GPU"
    assert any(perhaps in fix.text for fix in finding.fix) is (by == "slurm" and gpus is None)
    joins = told == "group that owns"
    assert (finding.fix[0].command == ("sudo", "usermod", "-a", "-G", "44", "USER")) is joins
    assert any("NVreg_DeviceFile" in fix.text for fix in finding.fix) is joins


@pytest.mark.parametrize(("container", "by_docker"), [(Container.DOCKER, True), (Container.LXC, False)])
def test_only_docker_is_told_to_docker(
    matrix: Matrix,
    container: Container,
    by_docker: bool,  # noqa: FBT001 - a table
) -> None:
    snapshot = working(cuda=100, container=container)
    nodes = (DeviceNode("/dev/nvidia0", accessible=False, mode="crw-rw----", owner="0:44"),)
    driver = replace(
        snapshot.driver, device_nodes=(*nodes, *snapshot.driver.device_nodes[1:]), nvml_init=known(4, "nvml")
    )
    (finding,) = findings(replace(snapshot, driver=driver), matrix)
    assert finding.code == "CTR304"
    assert ((finding.fix[0].command or ())[:4] == ("docker", "run", "--group-add", "44")) is by_docker
