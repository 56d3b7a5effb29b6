"""Fixes by container engine: only Docker users get Docker commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.nvidia import Cuda
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Container, DeviceNode, Driver, Host, Module, PciGpu, Snapshot, Source, SourceState
from gpuenv.model.versions import DriverVersion
from tests.support.diagnosis import diagnosis_of

if TYPE_CHECKING:
    from gpuenv.model.finding import Finding

VERSION = DriverVersion.parse("550.163.01")
LOADED = Driver(version=known(VERSION, "x"), module=known(Module.LOADED, "x"), module_version=known(VERSION, "x"))
NODES = tuple(DeviceNode(f"/dev/{name}", True, "crw-rw-rw-", "0:0") for name in ("nvidia0", "nvidiactl"))
ALL_NODES = (*NODES, DeviceNode("/dev/nvidia-uvm", True, "crw-rw-rw-", "0:0"))
ON_BUS = (PciGpu("0000:31:00.0", "10de", "27b8", kernel_driver="nvidia"),)
ENGINES = [kind for kind in Container if kind is not Container.NONE]


def primary(kind: Container, driver: Driver, nvml: SourceState, libcuda: SourceState) -> Finding:
    sources = (Source("kernel", SourceState.ANSWERED), Source("nvml", nvml), Source("libcuda", libcuda))
    count = known(1, "nvml") if nvml is SourceState.ANSWERED else Snapshot().gpu_count
    host = Host(os=known("linux", "uname"), container=known(kind, "marks"))
    snapshot = Snapshot(host=host, driver=driver, sources=sources, pci_gpus=ON_BUS, gpu_count=count)
    snapshot = snapshot._replace(driver=driver._replace(branch=known(550, "x")))
    findings = diagnosis_of(snapshot).findings
    return next(finding for finding in findings if finding.primary)


def fix_texts(finding: Finding) -> str:
    return "\n".join(f"{fix.text} {' '.join(fix.command or ())}" for fix in finding.fix)


STATES = {
    Cause.CONTAINER_WITHOUT_GPU: (LOADED._replace(device_nodes=ALL_NODES[:0]), SourceState.ABSENT, SourceState.ABSENT),
    Cause.CONTAINER_TOOLKIT_BROKEN: (LOADED._replace(device_nodes=ALL_NODES), SourceState.ABSENT, SourceState.ABSENT),
    Cause.CONTAINER_DRIVER_CAPABILITIES: (
        LOADED._replace(device_nodes=ALL_NODES),
        SourceState.ANSWERED,
        SourceState.ABSENT,
    ),
    Cause.DEVICE_NODE_MISSING: (
        LOADED._replace(device_nodes=NODES, cuda_init=known(int(Cuda.UNKNOWN), "libcuda")),
        SourceState.ANSWERED,
        SourceState.ANSWERED,
    ),
}


@pytest.mark.parametrize("cause", STATES)
@pytest.mark.parametrize("kind", ENGINES)
def test_each_container_engine_gets_its_own_commands(kind: Container, cause: Cause) -> None:
    finding = primary(kind, *STATES[cause])
    is_without_gpu = kind is Container.APPTAINER and cause is Cause.CONTAINER_TOOLKIT_BROKEN
    assert finding.cause is (Cause.CONTAINER_WITHOUT_GPU if is_without_gpu else cause)
    assert finding.fix
    text = fix_texts(finding).lower()
    for name, others in (
        ("docker", Container.DOCKER),
        ("podman", Container.PODMAN),
        ("apptainer", Container.APPTAINER),
    ):
        assert name not in text or kind is others, text
    assert ("pod" in text.replace("podman", "").split()) <= (kind is Container.KUBERNETES)


def test_lxc_is_given_the_driver_libraries_of_the_host() -> None:
    without_nodes = primary(Container.LXC, *STATES[Cause.CONTAINER_WITHOUT_GPU])
    assert "nodes /dev/nvidia*" in without_nodes.fix[0].text
    assert "/etc/pve/lxc/" in without_nodes.fix[1].text
    nodes_alone = primary(Container.LXC, *STATES[Cause.CONTAINER_TOOLKIT_BROKEN])
    assert "550.163.01" in nodes_alone.fix[0].text


def test_a_missing_device_node_is_added_to_the_lxc_configuration() -> None:
    driver = LOADED._replace(device_nodes=ALL_NODES[:2], cuda_init=known(999, "libcuda"))
    finding = primary(Container.LXC, driver, SourceState.ANSWERED, SourceState.ANSWERED)
    assert finding.cause is Cause.DEVICE_NODE_MISSING
    assert "/etc/pve/lxc/" in finding.fix[1].text
    assert "modprobe" not in " ".join(fix.text for fix in finding.fix[:2])


@pytest.mark.parametrize("code", [805, 810])
def test_mps_is_named_if_it_is_in_use(code: int) -> None:
    driver = LOADED._replace(device_nodes=ALL_NODES, cuda_init=known(code, "libcuda"))
    finding = primary(Container.NONE, driver, SourceState.ANSWERED, SourceState.ANSWERED)
    assert finding.cause is Cause.CUDA_INITIALIZATION_FAILED
    assert "MPS" in finding.title
    assert "modprobe" not in fix_texts(finding)


@pytest.mark.parametrize(("kind", "is_host_daemon"), [(Container.NONE, False), (Container.DOCKER, True)])
def test_the_mps_daemon_of_a_container_runs_on_the_host(kind: Container, *, is_host_daemon: bool) -> None:
    driver = LOADED._replace(device_nodes=ALL_NODES, cuda_init=known(806, "libcuda"))
    finding = primary(kind, driver, SourceState.ANSWERED, SourceState.ANSWERED)
    daemons = ["host" in fix.text for fix in finding.fix if "daemon" in fix.text]
    assert set(daemons) == {is_host_daemon}, finding.fix


@pytest.mark.parametrize(
    ("kind", "driver", "sandbox", "cause"),
    [
        (Container.KUBERNETES, LOADED, None, Cause.CONTAINER_WITHOUT_GPU),
        (Container.DOCKER, Driver(), "gvisor", Cause.CONTAINER_WITHOUT_GPU),
        (Container.DOCKER, Driver(), None, Cause.NO_NVIDIA_GPU),
        (Container.NONE, LOADED, None, Cause.NO_NVIDIA_GPU),
    ],
)
def test_an_empty_bus_in_a_container_does_not_imply_an_absent_gpu(
    kind: Container, driver: Driver, sandbox: str | None, cause: Cause
) -> None:
    sources = (
        Source("kernel", SourceState.ANSWERED),
        *(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda")),
    )
    result = known(sandbox, "/proc/version") if sandbox else Host().sandbox
    host = Host(os=known("linux", "uname"), container=known(kind, "marks"), sandbox=result)
    snapshot = Snapshot(host=host, driver=driver, sources=sources, pci_gpus=())
    findings = diagnosis_of(snapshot).findings
    assert [finding.cause for finding in findings if finding.primary] == [cause]
