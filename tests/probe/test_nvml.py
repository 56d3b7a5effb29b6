"""NVML through the stub: every quantity, invalid numbers, and the facts that remain after a fault."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pynvml  # type: ignore[import-untyped]
import pytest

from gpuenv.model.snapshot import (
    ComputeMode,
    Gpu,
    GpuUser,
    NvLink,
    PeerAccess,
    Snapshot,
    Source,
    SourceState,
    Virtualization,
)
from gpuenv.probe.assembly import assemble
from gpuenv.probe.context import script
from gpuenv.probe.protocol import nested, parse_facts
from gpuenv.probe.raw import RawFacts
from gpuenv.simulate.stub_driver import StubDriver
from tests.probe.nvidia import (
    MACHINE,
    NVML_CALLED,
    OLDER,
    PAIR,
    SECOND,
    STATE,
    calls_of,
    environment_of,
    nvml_of,
    snapshot_of,
)
from tests.probe.raw_facts import NvmlFacts

H100 = {"gpu.count": "1", "gpu.0.cc": "9.0"}


def _snapshot(facts: NvmlFacts, source: Source) -> Snapshot:
    return assemble(RawFacts(nvml=facts, sources=(source,)), None)


def gpus_of(stub: StubDriver, folder: Path, keys: dict[str, str]) -> tuple[Gpu, ...]:
    facts, source = nvml_of(stub, folder, keys)
    assert source.state is SourceState.ANSWERED, source
    return _snapshot(facts, source).gpus


def test_every_quantity_is_reported_in_its_unit(stub_driver: StubDriver, tmp_path: Path) -> None:
    (gpu,) = gpus_of(stub_driver, tmp_path, MACHINE | STATE)
    assert gpu.compute_mode.value is ComputeMode.EXCLUSIVE_PROCESS
    assert gpu.virtualization.value is Virtualization.VGPU
    assert (gpu.persistence.value, gpu.processes.value) == (True, 2)
    assert (gpu.architecture.value, gpu.architecture.source) == ("ampere", "nvml")
    assert (gpu.brand.value, gpu.brand.source) == ("vcs", "nvml")
    health, pcie = gpu.health, gpu.pcie
    assert (health.ecc.value, health.ecc_pending.value) == (True, False)
    assert (health.ecc_corrected.value, health.ecc_corrected_ever.value) == (3, 11)
    assert (health.ecc_uncorrected.value, health.ecc_uncorrected_ever.value) == (2, 7)
    assert (health.pages_retired.value, health.pages_pending.value) == (7, False)
    assert (health.rows_corrected.value, health.rows_uncorrected.value) == (4, 1)
    assert (health.rows_pending.value, health.rows_failed.value) == (True, False)
    assert (health.temperature.value, health.power.value, health.power_limit.value) == (41, 63.5, 400.0)
    assert (health.power_limit_default.value, health.inforom_valid.value, gpu.licensed.value) == (500.0, False, True)
    assert (health.clock.value, health.clock_most.value) == (210, 1410)
    assert health.throttle_reasons.value == ("gpu-idle", "hardware-thermal", "bit-11")
    assert (pcie.generation.value, pcie.generation_most.value) == (1, 4)
    assert (pcie.width.value, pcie.width_most.value) == (16, 16)
    assert [user.pid for user in gpu.users] == [4242, 4243]
    assert [user.memory for user in gpu.users] == [1048576, None]
    assert gpu.nvlinks == (NvLink(0, active=True), NvLink(1, active=False), NvLink(2, active=True))
    assert (gpu.fabric.state.value, gpu.fabric.status.value) == ("in-progress", None)
    assert gpu.fabric.status.reason == "the registration is not complete"
    assert gpu.peers == ()


def test_unsupported_quantities_are_missing_with_the_return_code(stub_driver: StubDriver, tmp_path: Path) -> None:
    (gpu,) = gpus_of(stub_driver, tmp_path, MACHINE)
    for reading, function in (
        (gpu.health.temperature, "nvmlDeviceGetTemperature"),
        (gpu.health.ecc_pending, "nvmlDeviceGetEccMode"),
        (gpu.health.ecc_corrected, "nvmlDeviceGetTotalEccErrors"),
        (gpu.health.pages_retired, "nvmlDeviceGetRetiredPages"),
        (gpu.health.rows_corrected, "nvmlDeviceGetRemappedRows"),
        (gpu.health.inforom_valid, "nvmlDeviceValidateInforom"),
        (gpu.licensed, "nvmlDeviceGetGridLicensableFeatures_v4"),
        (gpu.fabric.state, "nvmlDeviceGetGpuFabricInfo"),
    ):
        assert reading.value is None
        assert reading.reason == f"{function} returned code 3"
    assert gpu.nvlinks == ()
    assert gpu.name.value == "NVIDIA A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("key", "number", "path", "function"),
    [
        ("temperature", "4000000000", "health.temperature", "nvmlDeviceGetTemperature"),
        ("temperature", "-5", "health.temperature", "nvmlDeviceGetTemperature"),
        ("power.usage", "4294967295", "health.power", "nvmlDeviceGetPowerUsage"),
        ("power.limit", "-1", "health.power_limit", "nvmlDeviceGetEnforcedPowerLimit"),
        ("clock.sm", "4294967295", "health.clock", "nvmlDeviceGetClockInfo"),
        ("pcie.generation", "99", "pcie.generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
        ("pcie.width", "4294967295", "pcie.width", "nvmlDeviceGetCurrPcieLinkWidth"),
        ("persistence", "7", "persistence", "nvmlDeviceGetPersistenceMode"),
        ("mig", "255", "mig", "nvmlDeviceGetMigMode"),
        ("power.limit.default", "-1", "health.power_limit_default", "nvmlDeviceGetPowerManagementDefaultLimit"),
        ("ecc", "3", "health.ecc", "nvmlDeviceGetEccMode"),
        ("remapped.corrected", "4294967295", "health.rows_corrected", "nvmlDeviceGetRemappedRows"),
        ("remapped.pending", "9", "health.rows_pending", "nvmlDeviceGetRemappedRows"),
        ("retired.pending", "-1", "health.pages_pending", "nvmlDeviceGetRetiredPagesPendingStatus"),
        ("memory.total", "18446744073709551615", "memory_total", "nvmlDeviceGetMemoryInfo"),
        ("memory.free", "18446744073709551615", "memory_free", "nvmlDeviceGetMemoryInfo"),
        ("cc", "-3.70000", "compute_capability", "nvmlDeviceGetCudaComputeCapability"),
        ("architecture", "0xffffffff", "architecture", "nvmlDeviceGetArchitecture"),
        ("brand", "17", "brand", "nvmlDeviceGetBrand"),
        ("compute_mode", "17", "compute_mode", "nvmlDeviceGetComputeMode"),
        ("virtualization", "4294967295", "virtualization", "nvmlDeviceGetVirtualizationMode"),
    ],
)
def test_an_implausible_number_is_dropped(
    key: str, number: str, path: str, function: str, stub_driver: StubDriver, tmp_path: Path
) -> None:
    unknown = {"gpu.0.cc": "99.0"} if key == "architecture" else {}  # else it follows from the compute capability
    (gpu,) = gpus_of(stub_driver, tmp_path, {**H100, "gpu.0.uuid": "GPU-1", **unknown, f"gpu.0.{key}": number})
    value, reason = value_and_reason(gpu, path)
    assert value is None
    if path != "compute_capability":
        assert function in (reason or "")
        assert "no name" in (reason or "") or "out of range" in (reason or "")
    assert gpu.name.value == "NVIDIA H100 80GB HBM3"


def value_and_reason(gpu: Gpu, path: str) -> tuple[object, str | None]:
    value: object = gpu
    for part in path.split("."):
        value = getattr(value, part)
    return getattr(value, "value", None), getattr(value, "reason", None)


def test_an_implausible_number_of_gpus_is_dropped(stub_driver: StubDriver, tmp_path: Path) -> None:
    snapshot = _snapshot(*nvml_of(stub_driver, tmp_path, {**MACHINE, "nvml.count": "1000000000"}))
    assert (snapshot.gpus, snapshot.gpu_count.value) == ((), None)
    assert snapshot.gpu_count.reason == "nvmlDeviceGetCount returned 1000000000, which is out of range"


@pytest.mark.parametrize("pages", ["1073741823", "2147483647", "4294967295"])
def test_an_implausible_number_of_retired_pages_is_dropped(pages: str, stub_driver: StubDriver, tmp_path: Path) -> None:
    (gpu,) = gpus_of(stub_driver, tmp_path, {**H100, "gpu.0.retired.single": pages, "gpu.0.retired.double": "0"})
    assert gpu.health.pages_retired.value is None
    assert "nvmlDeviceGetRetiredPages" in (gpu.health.pages_retired.reason or "")


@pytest.mark.parametrize(
    ("status", "name"),
    [("0", "ok"), ("1", "chipset-not-supported"), ("4", "disabled-by-regkey"), ("5", "not-supported"), ("77", None)],
)
@pytest.mark.parametrize(("distance", "connection"), [("0", "internal"), ("40", "node"), ("50", "system"), ("3", None)])
def test_the_connection_of_two_gpus_is_reported(
    status: str, name: str | None, distance: str, connection: str | None, stub_driver: StubDriver, tmp_path: Path
) -> None:
    first, second = gpus_of(stub_driver, tmp_path, {**PAIR, "p2p.0.1": status, "topology.0.1": distance})
    assert first.peers == (PeerAccess(1, connection, name),)
    assert second.peers == (PeerAccess(0, connection, name),)
    assert (second.fabric.state.value, second.fabric.status.value) == ("completed", 0)


def test_the_time_to_compare_sixteen_gpus_pairwise_is_reported(stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, _ = nvml_of(stub_driver, tmp_path, {"gpu.count": "16"})
    assert facts.peers_took is not None
    assert facts.peers_took < 5


def test_more_than_sixteen_gpus_are_not_compared_pairwise(stub_driver: StubDriver, tmp_path: Path) -> None:
    called = calls_of(stub_driver, tmp_path, {"gpu.count": "17"})
    assert "nvmlDeviceGetP2PStatus" not in called
    assert "nvmlDeviceGetP2PStatus" in calls_of(stub_driver, tmp_path, {"gpu.count": "16"})


def test_nvlinks_end_at_the_first_missing_one(stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = {**H100, **{f"gpu.0.nvlink.{number}": "1" for number in (0, 1, 3)}}
    (gpu,) = gpus_of(stub_driver, tmp_path, keys)
    assert [link.link for link in gpu.nvlinks] == [0, 1]


def test_at_most_as_many_nvlinks_as_nvml_defines_are_read(stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = {**H100, **{f"gpu.0.nvlink.{number}": str(number % 2) for number in range(64)}}
    (gpu,) = gpus_of(stub_driver, tmp_path, keys)
    assert 18 <= len(gpu.nvlinks) <= 64
    assert [link.active for link in gpu.nvlinks[:3]] == [False, True, False]


def test_an_older_driver_is_queried_by_the_older_functions(stub_driver: StubDriver, tmp_path: Path) -> None:
    first, second = gpus_of(stub_driver, tmp_path, PAIR | OLDER)
    assert (first.fabric.state.value, second.fabric.state.value) == ("in-progress", "completed")
    assert first.processes.value == 2


def test_a_missing_architecture_follows_from_the_compute_capability(stub_driver: StubDriver, tmp_path: Path) -> None:
    (gpu,) = gpus_of(stub_driver, tmp_path, {**H100, "nvml.return.nvmlDeviceGetArchitecture": "13"})
    assert (gpu.architecture.value, gpu.architecture.source) == ("hopper", "nvml's compute capability")


def test_a_gpu_user_is_named_only_if_its_process_is_certain(stub_driver: StubDriver, tmp_path: Path) -> None:
    """In the initial PID namespace every process is named; in others only one that has opened the device."""
    pid = os.getpid()
    (gpu,) = gpus_of(stub_driver, tmp_path, {**H100, "gpu.0.processes": f"{pid}:1048576,4194304:5"})
    in_initial_namespace = Path("/proc/self/ns/pid").readlink().name == "pid:[4026531836]"
    comm = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    assert gpu.users == (GpuUser(pid, comm if in_initial_namespace else None, 1048576), GpuUser(4194304, None, 5))


@pytest.mark.parametrize(("opened", "name"), [("true", None), ("exec 3</dev/nvidia0", "sh")])
def test_a_gpu_user_in_another_namespace_is_named_if_it_opened_the_device(
    opened: str, name: str | None, stub_driver: StubDriver, tmp_path: Path
) -> None:
    """In a container, NVML may report PIDs of the host, which may belong to other processes there."""
    environment = environment_of(stub_driver, tmp_path, {**H100, "gpu.0.processes": "1:1048576"})
    request = shlex.join(
        [sys.executable, "-I", "-B", script("start.py"), "nvml", str(Path(str(pynvml.__file__)).parent)]
    )
    command = f"mount -t tmpfs none /dev && touch /dev/nvidia0 && {opened} && {request}; exit $?"
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/dev"], capture_output=True, check=False).returncode:
        pytest.skip("no new namespace can be created here")
    done = subprocess.run([*unshare, "sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (gpu,) = nested(parse_facts(done.stdout), "gpu")
    assert gpu["users"] == [{"pid": 1, "name": name, "memory": 1048576}]


def test_gpu_users_with_implausible_pids_are_not_listed(stub_driver: StubDriver, tmp_path: Path) -> None:
    (gpu,) = gpus_of(stub_driver, tmp_path, {**H100, "gpu.0.processes": "0:1,4294967295:1,7:99999999999999999999"})
    assert [(user.pid, user.memory) for user in gpu.users] == [(7, None)]
    assert gpu.processes.value == 3


def test_the_list_of_functions_is_not_empty() -> None:
    assert len(NVML_CALLED) > 35


def test_the_essential_facts_of_every_gpu_are_read_first(stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = PAIR | {"nvml.delay.nvmlDeviceGetEccMode@0": "forever"}
    facts, source = nvml_of(stub_driver, tmp_path, keys, limit=1.5)
    assert source.state is SourceState.TIMED_OUT
    assert source.detail is not None
    assert source.detail.endswith("from nvmlDeviceGetEccMode of GPU 0")
    for gpu in _snapshot(facts, source).gpus:
        assert str(gpu.compute_capability.value) == "8.0"
        assert gpu.memory_total.value
        assert gpu.compute_mode.value
        assert gpu.architecture.value == "ampere"


def test_a_gpu_that_hangs_when_opened_does_not_affect_earlier_ones(stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = PAIR | {"nvml.delay.nvmlDeviceGetHandleByIndex_v2@1": "forever"}
    facts, source = nvml_of(stub_driver, tmp_path, keys, limit=1.5)
    assert "nvmlDeviceGetHandleByIndex of GPU 1" in (source.detail or "")
    first = _snapshot(facts, source).gpus[0]
    assert (str(first.compute_capability.value), len(first.mig_instances)) == ("8.0", 1)


def test_a_crash_names_its_call_and_keeps_earlier_facts(stub_driver: StubDriver, tmp_path: Path) -> None:
    facts, source = nvml_of(stub_driver, tmp_path, PAIR | {"nvml.crash.nvmlDeviceGetTemperature@1": "segv"})
    assert (source.state, source.detail) == (
        SourceState.CRASHED,
        "ended by SIGSEGV in nvmlDeviceGetTemperature of GPU 1",
    )
    first, second = _snapshot(facts, source).gpus
    assert first.health.temperature.value == 41
    assert second.health.rows_failed.value is None
    assert second.name.value


def test_index_and_ordinal_are_distinct_in_either_device_order(stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = {"gpu.count": "2", "gpu.0.cc": "7.0", "gpu.1.cc": "9.0"} | {
        "gpu.0.name": "Tesla V100-PCIE-16GB",
        "gpu.1.name": "NVIDIA H100 PCIe",
    }
    for variables, ordinals in (
        ({}, [1, 0]),
        ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, [1, 0]),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [0, 1]),
    ):
        gpus = snapshot_of(stub_driver, tmp_path, keys, variables).gpus
        assert [gpu.index.value for gpu in gpus] == [0, 1]
        assert [gpu.ordinal.value for gpu in gpus] == ordinals
        assert all(gpu.hidden_by.reason == "this process sees the GPU" for gpu in gpus)


def test_a_faulty_gpu_does_not_affect_the_others(stub_driver: StubDriver, tmp_path: Path) -> None:
    first, second = gpus_of(stub_driver, tmp_path, PAIR | SECOND | {"nvml.return.nvmlDeviceGetName@0": "999"})
    assert (first.name.value, second.name.value) == (None, "NVIDIA A100-SXM4-80GB")
