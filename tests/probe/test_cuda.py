"""Libcuda through the stub: its answers, invalid answers, and the facts that survive a fault."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.snapshot import SourceState
from gpuenv.probe.assembly import assemble
from gpuenv.probe.children import ChildGroup
from gpuenv.probe.context import ProbeContext
from gpuenv.probe.raw import RawFacts
from gpuenv.simulate.stub_driver import StubDriver, lay_out
from tests.probe.nvidia import CUDA_CALLED, MACHINE, MIG_UUID, PAIR, UUID, cuda_of, environment_of, snapshot_of
from tests.probe.probe_runs import probe_cuda, probe_nvml

if TYPE_CHECKING:
    from pathlib import Path

H100 = {"gpu.count": "1", "gpu.0.uuid": UUID}


def test_every_quantity_of_a_device_is_reported(stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, source = cuda_of(stub_driver, tmp_path, H100)
    assert (source.state, facts.init, facts.init_name, facts.cuda) == (
        SourceState.ANSWERED,
        0,
        "CUDA_SUCCESS",
        13000,
    )
    (device,) = facts.devices
    assert (device.ordinal, device.name, device.pci) == (0, "NVIDIA H100 80GB HBM3", "0000:01:00.0")
    assert (device.uuid, device.compute_capability) == (UUID.removeprefix("GPU-"), "9.0")
    assert device.memory_total == 80 << 30


def test_the_list_of_functions_is_not_empty() -> None:
    assert len(CUDA_CALLED) >= 10


@pytest.mark.parametrize("count", ["-5", "1000000000", "-2147483648", "1025"])
def test_an_implausible_number_of_devices_is_dropped(count: str, stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, source = cuda_of(stub_driver, tmp_path, {**H100, "cuda.count": count})
    assert (source.state, facts.init, facts.count, facts.devices) == (SourceState.ANSWERED, 0, None, ())


def test_devices_beyond_the_existing_ones_have_no_facts(stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, source = cuda_of(stub_driver, tmp_path, {**H100, "cuda.count": "3"})
    assert source.state is SourceState.ANSWERED
    assert [(device.ordinal, device.uuid) for device in facts.devices] == [
        (0, UUID.removeprefix("GPU-")),
        (1, None),
        (2, None),
    ]


@pytest.mark.parametrize("level", ["-5", "0", "2147483647"])
def test_an_implausible_cuda_level_is_dropped(level: str, stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, _ = cuda_of(stub_driver, tmp_path, {**H100, "cuda.driver": level})
    assert facts.cuda is None


@pytest.mark.parametrize("capability", ["-9.0", "9.-1", "100.0", "0.0", "9.2147483647"])
def test_an_implausible_compute_capability_is_dropped(capability: str, stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, _ = cuda_of(stub_driver, tmp_path, {**H100, "gpu.0.cc": capability})
    assert facts.devices[0].compute_capability is None
    assert facts.devices[0].name


def test_an_unterminated_name_is_dropped_and_other_facts_are_kept(stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, source = cuda_of(stub_driver, tmp_path, {**H100, "gpu.0.name.endless": "1"})
    assert (source.state, facts.devices[0].name, facts.devices[0].compute_capability) == (
        SourceState.ANSWERED,
        None,
        "9.0",
    )


@pytest.mark.parametrize("memory", ["18446744073709551615", "0"])
def test_an_implausible_memory_size_is_dropped(memory: str, stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, _ = cuda_of(stub_driver, tmp_path, {**H100, "gpu.0.memory.cuda": memory})
    assert facts.devices[0].memory_total is None


def test_a_mig_instance_has_the_gpus_uuid_with_the_older_call(stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, _ = cuda_of(stub_driver, tmp_path, MACHINE)
    assert facts.devices[0].uuid == MIG_UUID.removeprefix("MIG-")
    facts, _ = cuda_of(stub_driver, tmp_path, {**MACHINE, "cuda.return.cuDeviceGetUuid_v2": "801"})
    assert facts.devices[0].uuid == UUID.removeprefix("GPU-")


@pytest.mark.parametrize(
    "visible", [MIG_UUID, "MIG-" + UUID + "/7/0"], ids=["since R470", "MIG-GPU-<uuid>/<gi>/<ci>, before"]
)
def test_a_mig_instance_is_selected_by_either_form_of_its_name(
    visible: str, stub_driver: StubDriver, tmp_path: Path
) -> None:
    snapshot = snapshot_of(stub_driver, tmp_path, MACHINE, {"CUDA_VISIBLE_DEVICES": visible})
    assert snapshot.visible_count.value == 1
    assert snapshot.gpus[0].ordinal.value == 0


@pytest.mark.parametrize("function", ["cuInit", "cuDeviceGetName", "cuDeviceTotalMem_v2"])
def test_a_crash_names_its_call_and_keeps_earlier_facts(function: str, stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, source = cuda_of(stub_driver, tmp_path, {**H100, f"cuda.crash.{function}": "segv"})
    device = "" if function == "cuInit" else " of device 0"
    assert (source.state, source.detail) == (SourceState.CRASHED, f"ended by SIGSEGV in {function}{device}")
    assert facts.cuda == 13000
    if function != "cuInit":
        assert facts.devices[0].pci == "0000:01:00.0"


def test_a_hang_names_the_call_without_an_answer(stub_driver: StubDriver, tmp_path: Path) -> None:
    _, source = cuda_of(stub_driver, tmp_path, {**H100, "cuda.delay.cuInit": "forever"}, limit=1.0)
    assert source.state is SourceState.TIMED_OUT
    assert (source.detail or "").endswith("from cuInit")


def test_both_gpus_of_a_pair_are_reported(stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, _ = cuda_of(stub_driver, tmp_path, {**PAIR, "gpu.0.mig": "0"})
    assert [device.ordinal for device in facts.devices] == [0, 1]


def test_a_compatibility_libcuda_reports_its_own_level_and_release(stub_driver: StubDriver, tmp_path: Path) -> None:
    """The loader finds it first; NVML reports the driver's level."""
    compat = lay_out(stub_driver, tmp_path / "compat", "580.65.06", with_nvml=False)
    keys = {**H100, "driver.version": "535.183.01", "driver.cuda": "12020", "cuda.driver": "13000"}
    environment = environment_of(stub_driver, tmp_path, keys)
    environment["LD_LIBRARY_PATH"] = f"{compat}:{environment['LD_LIBRARY_PATH']}"
    probe_context = ProbeContext(environment, "/", time.monotonic() + 20, ChildGroup())
    (nvml, nvml_source), (cuda, cuda_source) = probe_nvml(probe_context), probe_cuda(probe_context)
    assert cuda.library == str(compat / "libcuda.so.580.65.06")
    driver = assemble(RawFacts(nvml=nvml, cuda=cuda, sources=(nvml_source, cuda_source)), None).driver
    assert (str(driver.version.value), driver.version.source) == ("535.183.01", "nvml")
    assert (str(driver.cuda.value), driver.cuda.source) == ("13.0", "libcuda")
    assert [(str(answer.value), answer.source) for answer in driver.cuda.dissent] == [("12.2", "nvml")]


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        (None, [1, 2]),
        ("0,1", [1, 2]),
        ("1", [2]),
        ("2", []),
        ("GPU-00000000-0000-0000-0000-000000000002", [2]),
        ("GPU-00000000-0000-0000-0000-000000000000", []),
    ],
)
def test_a_gpu_hidden_by_a_control_group_takes_no_ordinal(
    value: str | None, visible: list[int], stub_driver: StubDriver, tmp_path: Path
) -> None:
    machine = {"gpu.count": "4", "gpu.0.denied": "1", "gpu.3.denied": "1"}
    variables = {"CUDA_VISIBLE_DEVICES": value} if value is not None else {}
    snapshot = snapshot_of(stub_driver, tmp_path, machine, variables)
    ordinals = [gpu.ordinal.value for gpu in snapshot.gpus]
    assert ordinals == [visible.index(index) if index in visible else None for index in range(4)]
