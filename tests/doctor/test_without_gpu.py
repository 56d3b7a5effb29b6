"""If the doctor finds no GPU the resolver finds none either, and vice versa."""

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
from tests.support.matrix import MATRIX

GRAPHICS_OF_THE_BOARD = PciGpu("0000:03:00.0", "1a03", "2000")
H100 = PciGpu("0000:04:00.0", "10de", "2330")
SWITCHED_OFF = "/etc/modprobe.d/off.conf: alias nvidia off"
BARE = Snapshot(host=Host(os=Reading("linux", "uname")), pci_gpus=())
LEFT_BEHIND = ("/dev/nvidiactl",)
T = TypeVar("T")


def _read(value: T | None, source: str = "a source") -> Reading[T]:
    return Reading() if value is None else Reading(value, source)


def _rejected_for_want_of_a_gpu(resolution: Resolution) -> bool:
    return any(entry.constraint is ConstraintName.GPU_PRESENT for entry in resolution.rejected)


@settings(max_examples=300, deadline=None)
@given(
    bus=st.sampled_from((None, (), (GRAPHICS_OF_THE_BOARD,), (H100,))),
    container=st.sampled_from((None, Container.NONE, Container.DOCKER)),
    sandbox=st.sampled_from((None, "gvisor")),
    module=st.sampled_from((None, Module.LOADED, Module.NOT_LOADED)),
    flat=st.sampled_from(("wsl", "tegra", "")),
    nodes=st.sampled_from(((), ("/dev/nvidia0",), ("/dev/nvmap",), LEFT_BEHIND)),
    block=st.sampled_from((None, SWITCHED_OFF, "/etc/modprobe.d/a.conf: blacklist nouveau")),
    counted=st.sampled_from((None, 0, 1)),
    init=st.sampled_from((None, 0, 9)),
)
def test_of_a_machine_that_was_read(  # noqa: PLR0913, PLR0917 - the facts, one by one
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
    host = BARE.host._replace(container=_read(container), sandbox=_read(sandbox))
    host = host._replace(wsl=_read(flat == "wsl"), tegra=_read("R36" if flat == "tegra" else None))
    devices = tuple(DeviceNode(path, accessible=True, mode="0666", owner="root") for path in nodes)
    driver = Driver(module=_read(module), device_nodes=devices, module_blocks=_read((block,) if block else None))
    driver = driver._replace(nvml_init=_read(init, "nvml"))
    snapshot = Snapshot(host=host, driver=driver, gpu_count=_read(counted, "nvml"), pci_gpus=bus)
    resolution = resolve(snapshot, MATRIX)
    found = {entry.code for entry in diagnose(snapshot, MATRIX, resolution, lambda: 0.0).findings}
    doubtful = block == SWITCHED_OFF  # a program may have taken it off the bus
    assert _rejected_for_want_of_a_gpu(resolution) == ("GPU201" in found and not doubtful), found


@pytest.mark.parametrize("container", [Container.NONE, Container.DOCKER])
@pytest.mark.parametrize(
    ("module", "init"), [(Module.NOT_LOADED, 9), (Module.NOT_INSTALLED, 9), (None, 9), (Module.NOT_LOADED, None)]
)
@pytest.mark.parametrize("bus", [(), (GRAPHICS_OF_THE_BOARD,), (H100,), None])
def test_a_node_that_root_s_nvidia_smi_has_left_is_no_driver(
    container: Container, module: Module | None, init: int | None, bus: tuple[PciGpu, ...] | None
) -> None:
    driver = Driver(module=_read(module), nvml_init=_read(init, "nvml"), cuda_init=_read(100, "libcuda"))
    host = BARE.host._replace(container=_read(container))
    snapshot = BARE._replace(host=host, driver=driver, pci_gpus=bus)
    node = DeviceNode(LEFT_BEHIND[0], accessible=True, mode="crw-rw-rw-", owner="0:0")
    left = snapshot._replace(driver=driver._replace(device_nodes=(node,)))
    assert _codes(left) == _codes(snapshot)
    answered = left._replace(driver=left.driver._replace(module=_read(Module.LOADED)))
    assert "CTR303" in _codes(answered)


def _codes(snapshot: Snapshot) -> list[str]:
    return [entry.code for entry in diagnose(snapshot, MATRIX, resolve(snapshot, MATRIX), lambda: 0.0).findings]


def test_a_driver_alone_is_not_the_suggested_change() -> None:
    resolution = resolve(BARE, MATRIX)
    assert resolution.next_better is not None
    assert "gpus" in {change.fact for change in resolution.next_better.changes}
    assert "no GPU" in resolution.explanation


@pytest.mark.parametrize("case", [("driver=580.95.05",), ("driver-cuda=13.0",)], ids=" ".join)
def test_an_assumed_driver_means_another_machine(case: tuple[str, ...]) -> None:
    facts = ("arch=x86_64", "libc=glibc-2.36", "python=3.12", *case)
    resolution = resolve(assume(BARE, facts, MATRIX), MATRIX)
    assert resolution.wheel is not None, resolution.explanation


def test_assuming_no_driver_implies_no_gpu() -> None:
    assert _rejected_for_want_of_a_gpu(resolve(assume(BARE, ("driver=none",), MATRIX), MATRIX))
