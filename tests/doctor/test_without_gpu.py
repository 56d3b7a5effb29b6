"""The doctor and the resolver agree on whether a machine has a GPU."""

from __future__ import annotations

from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.model.reading import Reading
from gpuenv.model.resolution import ConstraintName, Resolution
from gpuenv.model.snapshot import Container, DeviceNode, Driver, Host, Module, PciGpu, Snapshot
from tests.support.diagnosis import diagnosis_of
from tests.support.matrix import MATRIX

SERVER_GRAPHICS = PciGpu("0000:03:00.0", "1a03", "2000")
H100 = PciGpu("0000:04:00.0", "10de", "2330")
SWITCHED_OFF = "/etc/modprobe.d/off.conf: alias nvidia off"
LINUX = Snapshot(host=Host(os=Reading("linux", "uname")), pci_gpus=())
LEFTOVER_NODE = ("/dev/nvidiactl",)
T = TypeVar("T")


def _reading(value: T | None, source: str = "a source") -> Reading[T]:
    return Reading() if value is None else Reading(value, source)


def _rejected_without_gpu(resolution: Resolution) -> bool:
    return any(entry.constraint is ConstraintName.GPU_PRESENT for entry in resolution.rejected)


@settings(max_examples=100, deadline=None)
@given(
    bus=st.sampled_from((None, (), (SERVER_GRAPHICS,), (H100,))),
    container=st.sampled_from((None, Container.NONE, Container.DOCKER)),
    sandbox=st.sampled_from((None, "gvisor")),
    module=st.sampled_from((None, Module.LOADED, Module.NOT_LOADED)),
    flat=st.sampled_from(("wsl", "tegra", "")),
    nodes=st.sampled_from(((), ("/dev/nvidia0",), ("/dev/nvmap",), LEFTOVER_NODE)),
    block=st.sampled_from((None, SWITCHED_OFF, "/etc/modprobe.d/a.conf: blacklist nouveau")),
    counted=st.sampled_from((None, 0, 1)),
    init=st.sampled_from((None, 0, 9)),
)
def test_the_doctor_and_the_resolver_agree_on_an_absent_gpu(  # noqa: PLR0913, PLR0917 - the facts, one by one
    bus: tuple[PciGpu, ...] | None,
    container: Container | None,
    sandbox: str | None,
    module: Module | None,
    flat: str,
    nodes: tuple[str, ...],
    block: str | None,
    counted: int | None,
    init: int | None,
) -> None:
    host = LINUX.host._replace(container=_reading(container), sandbox=_reading(sandbox))
    host = host._replace(wsl=_reading(flat == "wsl"), tegra=_reading("R36" if flat == "tegra" else None))
    devices = tuple(DeviceNode(path, accessible=True, mode="0666", owner="root") for path in nodes)
    driver = Driver(module=_reading(module), device_nodes=devices, module_blocks=_reading((block,) if block else None))
    driver = driver._replace(nvml_init=_reading(init, "nvml"))
    snapshot = Snapshot(host=host, driver=driver, gpu_count=_reading(counted, "nvml"), pci_gpus=bus)
    resolution = resolve(snapshot, MATRIX)
    codes = {entry.code for entry in diagnose(snapshot, MATRIX, lambda: 0.0, resolution=resolution).findings}
    undecided = block == SWITCHED_OFF  # a program may have switched the GPU off
    assert _rejected_without_gpu(resolution) == ("GPU201" in codes and not undecided), codes


@pytest.mark.parametrize("container", [Container.NONE, Container.DOCKER])
@pytest.mark.parametrize(
    ("module", "init"), [(Module.NOT_LOADED, 9), (Module.NOT_INSTALLED, 9), (None, 9), (Module.NOT_LOADED, None)]
)
@pytest.mark.parametrize("bus", [(SERVER_GRAPHICS,), (H100,), None])
def test_a_leftover_device_node_is_not_a_driver(
    container: Container, module: Module | None, init: int | None, bus: tuple[PciGpu, ...] | None
) -> None:
    driver = Driver(module=_reading(module), nvml_init=_reading(init, "nvml"), cuda_init=_reading(100, "libcuda"))
    host = LINUX.host._replace(container=_reading(container))
    snapshot = LINUX._replace(host=host, driver=driver, pci_gpus=bus)
    node = DeviceNode(LEFTOVER_NODE[0], accessible=True, mode="crw-rw-rw-", owner="0:0")
    left = snapshot._replace(driver=driver._replace(device_nodes=(node,)))
    assert _codes(left) == _codes(snapshot)
    answered = left._replace(driver=left.driver._replace(module=_reading(Module.LOADED)))
    assert "CTR303" in _codes(answered)


def _codes(snapshot: Snapshot) -> list[str]:
    return [entry.code for entry in diagnosis_of(snapshot).findings]


def test_a_driver_alone_is_not_the_suggested_change() -> None:
    resolution = resolve(LINUX, MATRIX)
    assert resolution.next_better is not None
    assert "gpus" in {change.fact for change in resolution.next_better.changes}
    assert "no GPU" in resolution.explanation


@pytest.mark.parametrize("case", [("driver=580.95.05",), ("driver-cuda=13.0",)], ids=" ".join)
def test_an_assumed_driver_means_another_machine(case: tuple[str, ...]) -> None:
    facts = ("arch=x86_64", "libc=glibc-2.36", "python=3.12", *case)
    resolution = resolve(assume(LINUX, facts, MATRIX), MATRIX)
    assert resolution.wheel is not None, resolution.explanation


def test_assuming_no_driver_implies_no_gpu() -> None:
    assert _rejected_without_gpu(resolve(assume(LINUX, ("driver=none",), MATRIX), MATRIX))
