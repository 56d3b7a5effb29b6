"""Reasons why this process does not see a GPU, from both libraries and the device nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.model.gpus import VisibleEntries, parse_visible
from gpuenv.model.snapshot import DeviceNode
from gpuenv.probe.gpu_assembly import hidden_by
from gpuenv.probe.raw import RawFacts
from tests.probe.nvidia import MACHINE, MIG_UUID, PAIR, UUID, snapshot_of
from tests.probe.raw_facts import CudaFacts, KernelFacts, NvmlFacts, NvmlGpu

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver

OTHER = "GPU-9aaaaaaa-0000-4000-8000-000000000001"
TWO = {**PAIR, "gpu.0.mig": "0", "gpu.0.compute_mode": "0", "gpu.1.uuid": OTHER}
CONTROL = DeviceNode("/dev/nvidiactl", accessible=True, mode="0666", owner="root:root")
NODE = DeviceNode("/dev/nvidia1", accessible=True, mode="0666", owner="root:root")


def visibility_of(
    stub: StubDriver, folder: Path, keys: dict[str, str], visible: str | None = None
) -> list[tuple[int | None, str | None, str | None]]:
    """For each GPU its ordinal, the reason why it is hidden, and why that is unknown."""
    more = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    gpus = snapshot_of(stub, folder, keys, more).gpus
    return [(gpu.ordinal.value, gpu.hidden_by.value, gpu.hidden_by.reason) for gpu in gpus]


VISIBLE = "this process sees the GPU"


@pytest.mark.parametrize(
    ("visible", "first", "second"),
    [
        (None, None, None),
        ("0,1", None, None),
        ("1", "CUDA_VISIBLE_DEVICES=1 does not name it", None),
        ("0", None, "CUDA_VISIBLE_DEVICES=0 does not name it"),
        (OTHER, f"CUDA_VISIBLE_DEVICES={OTHER} does not name it", None),
        ("GPU-9a", "CUDA_VISIBLE_DEVICES=GPU-9a does not name it", None),
        ("0,7,1", None, "CUDA_VISIBLE_DEVICES=0,7,1 ends at 7, which names no GPU or MIG instance"),
        *(
            (value, *[f"CUDA_VISIBLE_DEVICES={shown}"] * 2)
            for value, shown in (
                ("", "(empty) does not name it"),
                ("-1", "-1 ends at -1, which names no GPU or MIG instance"),
                ("none", "none ends at none, which names no GPU or MIG instance"),
                ("0,0", "0,0 names 0 twice, after which CUDA shows no GPU"),
            )
        ),
    ],
)
def test_cuda_visible_devices_hides_the_gpus_that_it_does_not_name(
    visible: str | None, first: str | None, second: str | None, stub_driver: StubDriver, tmp_path: Path
) -> None:
    gpus = visibility_of(stub_driver, tmp_path, TWO, visible)
    assert [hidden for _, hidden, _ in gpus] == [first, second]
    for ordinal, hidden, reason in gpus:
        assert (ordinal is None) == (hidden is not None)
        assert reason == (VISIBLE if hidden is None else None)


def test_a_visible_mig_instance_hides_every_other_gpu(stub_driver: StubDriver, tmp_path: Path) -> None:
    (first, _, _), (second, hidden, _) = visibility_of(stub_driver, tmp_path, PAIR)
    assert (first, second) == (0, None)
    assert hidden == "MIG mode: a process that sees a MIG instance sees no other device"


def test_mig_mode_without_an_instance_hides_the_gpu(stub_driver: StubDriver, tmp_path: Path) -> None:
    gpus = visibility_of(stub_driver, tmp_path, {**MACHINE, "gpu.0.mig.count": "0"})
    assert gpus == [(None, "MIG mode: it is on, and there is no instance", None)]


def test_an_unknown_mig_instance_is_named_in_the_reason(stub_driver: StubDriver, tmp_path: Path) -> None:
    wrong = MIG_UUID.replace("1", "9")
    ((ordinal, hidden, _),) = visibility_of(stub_driver, tmp_path, MACHINE, wrong)
    assert ordinal is None
    assert hidden == f"CUDA_VISIBLE_DEVICES={wrong} ends at {wrong}, which names no GPU or MIG instance"


def test_a_control_group_takes_precedence_over_the_variable(stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = {**TWO, "nvml.return.nvmlDeviceGetHandleByIndex_v2@1": "4", "cuda.count": "1"}
    (_, _, _), (_, hidden, _) = visibility_of(stub_driver, tmp_path, keys, "0")
    assert hidden == "control group: NVML counts the GPU and has no permission to open it"


def test_visibility_is_unknown_without_libcuda(stub_driver: StubDriver, tmp_path: Path) -> None:
    gpus = visibility_of(stub_driver, tmp_path, {**TWO, "cuda.return.cuInit": "999"}, "0")
    assert {entry[1:] for entry in gpus} == {(None, "libcuda did not report which GPUs this process sees")}


def test_a_lost_gpu_is_not_hidden(stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = {**TWO, "nvml.return.nvmlDeviceGetHandleByIndex_v2": "15", "cuda.return.cuInit": "100"}
    assert visibility_of(stub_driver, tmp_path, keys)[0][1:] == (None, "NVML cannot open the GPU either")


def test_prohibited_compute_mode_is_the_last_possible_reason(stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = {**TWO, "gpu.0.compute_mode": "2", "cuda.return.cuInit": "100"}
    first, second = visibility_of(stub_driver, tmp_path, keys)
    assert first[1] == "compute mode: prohibited"
    assert second[1:] == (None, "no reason was found why this process does not see the GPU")


@pytest.mark.parametrize(
    ("nodes", "hidden"),
    [
        ((CONTROL,), "device node: /dev/nvidia1 does not exist"),
        (
            (CONTROL, DeviceNode("/dev/nvidia1", accessible=False, mode="0660", owner="root:video")),
            "permission: /dev/nvidia1 has mode 0660 and belongs to root:video",
        ),
        ((CONTROL, NODE), None),
        ((), None),  # as in WSL and under gVisor, where none are visible
    ],
)
def test_an_inaccessible_or_missing_device_node_hides_its_gpu(
    nodes: tuple[DeviceNode, ...], hidden: str | None
) -> None:
    gpu = NvmlGpu(0, UUID, minor=1)
    raw = RawFacts(
        kernel=KernelFacts(device_nodes=nodes), nvml=NvmlFacts(count=1, gpus=(gpu,)), cuda=CudaFacts(init=100)
    )
    assert hidden_by(raw, gpu, None).value == hidden


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0,1", VisibleEntries(("0", "1"))),
        (" 1 , 0 ", VisibleEntries(("1", "0"))),
        ("00,1", VisibleEntries(("0", "1"))),
        ("2", VisibleEntries((), invalid="2")),
        ("9" * 5000, VisibleEntries((), invalid="9" * 5000)),
        ("", VisibleEntries((), invalid="")),
        ("0 1", VisibleEntries(("0",))),
        ("0 2,1", VisibleEntries(("0", "1"))),
        ("1x", VisibleEntries(("1",))),
        ("-1", VisibleEntries((), invalid="-1")),
        ('"0"', VisibleEntries((), invalid='"0"')),
        ("0,,1", VisibleEntries(("0",), invalid="")),
        ("GPU-5c", VisibleEntries((UUID,))),
        ("gpu-5c", VisibleEntries((), invalid="gpu-5c")),
        ("GPU-", VisibleEntries((), invalid="GPU-")),
        (f"{UUID},GPU-5", VisibleEntries((), twice="GPU-5")),
        (MIG_UUID, VisibleEntries((MIG_UUID,))),
        (f"MIG-{UUID}/1/0", VisibleEntries((f"MIG-{UUID}/1/0",))),
        ("MIG-GPU-0000/1/0", VisibleEntries((), invalid="MIG-GPU-0000/1/0")),
        ("\u0661", VisibleEntries((), invalid="\u0661")),
    ],
)
def test_the_list_of_visible_devices_ends_at_the_first_invalid_entry(value: str, expected: VisibleEntries) -> None:
    assert parse_visible(value, 2, (UUID, OTHER, MIG_UUID)) == expected
