"""NVML through the stub: every quantity as told, and every function failing, crashing or hanging in turn."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuenv.model.snapshot import ComputeMode, Snapshot, Source, SourceState, Virtualization
from gpuenv.probe.ask import Asking, ask_nvml, script
from gpuenv.probe.assemble import assemble
from gpuenv.probe.raw import NvmlFacts, RawFacts
from gpuenv.simulate.build import StubDriver, lay_out

UUID = "GPU-5c8d9b0e-1f2a-4b3c-8d4e-5f6a7b8c9d0e"
MACHINE = {
    "driver.version": "580.95.05",
    "driver.cuda": "13000",
    "gpu.count": "1",
    "gpu.0.name": "NVIDIA A100-SXM4-80GB",
    "gpu.0.uuid": UUID,
    "gpu.0.pci": "00000000:17:00.0",
    "gpu.0.cc": "8.0",
    "gpu.0.mig": "1",
    "gpu.0.mig.count": "1",
    "gpu.0.mig.0.uuid": "MIG-11111111-2222-4333-8444-555555555555",
}
STATE = {
    "gpu.0.compute_mode": "3",
    "gpu.0.persistence": "1",
    "gpu.0.virtualization": "2",
    "gpu.0.ecc": "1",
    "gpu.0.ecc.volatile.uncorrected": "2",
    "gpu.0.ecc.aggregate.uncorrected": "7",
    "gpu.0.retired.pending": "0",
    "gpu.0.remapped.pending": "1",
    "gpu.0.remapped.failure": "0",
    "gpu.0.temperature": "41",
    "gpu.0.power.usage": "63500",
    "gpu.0.power.limit": "400000",
    "gpu.0.clock.sm": "210",
    "gpu.0.clock.max.sm": "1410",
    "gpu.0.clock.reasons": str(0x1 | 0x40 | 0x800),
    "gpu.0.pcie.generation": "1",
    "gpu.0.pcie.generation.max": "4",
    "gpu.0.pcie.width": "16",
    "gpu.0.pcie.width.max": "16",
    "gpu.0.processes": "4242:1048576,4243:none",
}
# The functions that the script calls, read off the script itself, so that a new one is tested without being listed.
CALLED = sorted(set(re.findall(r'"(nvml(?:Device|System)\w+)"', Path(script("nvml.py")).read_text(encoding="utf-8"))))
# What pynvml calls under another name than the library's symbol.
SYMBOLS = {
    "nvmlDeviceGetHandleByIndex": "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetPciInfo": "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetCount": "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetComputeRunningProcesses": "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlSystemGetCudaDriverVersion": "nvmlSystemGetCudaDriverVersion",
}
CODES = [*range(1, 31), 999]


def _ask(stub: StubDriver, folder: Path, keys: Mapping[str, str], limit: float = 20.0) -> tuple[NvmlFacts, Source]:
    text = folder / "stub.txt"
    text.write_text("".join(f"{key}={value}\n" for key, value in keys.items()), encoding="utf-8")
    library = folder / "lib"
    if not library.exists():
        lay_out(stub, library, "580.95.05")
    environment = {"PATH": "/usr/bin:/bin", "GPUENV_STUB": str(text), "LD_LIBRARY_PATH": str(library)}
    return ask_nvml(Asking(environment, "/", time.monotonic() + limit))


def _snapshot(facts: NvmlFacts, source: Source) -> Snapshot:
    return assemble(RawFacts(nvml=facts, sources=(source,)), None)


def test_every_quantity_arrives_with_its_unit(stub_driver: StubDriver, tmp_path: Path) -> None:
    (gpu,) = _snapshot(*_ask(stub_driver, tmp_path, MACHINE | STATE)).gpus
    assert gpu.compute_mode.value is ComputeMode.EXCLUSIVE_PROCESS
    assert gpu.virtualization.value is Virtualization.VGPU
    assert gpu.persistence.value is True
    assert gpu.processes.value == 2
    health, pcie = gpu.health, gpu.pcie
    assert (health.ecc.value, health.ecc_uncorrected.value, health.ecc_uncorrected_ever.value) == (True, 2, 7)
    assert (health.pages_pending.value, health.rows_pending.value, health.rows_failed.value) == (False, True, False)
    assert (health.temperature.value, health.power.value, health.power_limit.value) == (41, 63.5, 400.0)
    assert (health.clock.value, health.clock_most.value) == (210, 1410)
    assert health.throttle_reasons.value == ("gpu-idle", "hardware-thermal", "bit-11")
    assert (pcie.generation.value, pcie.generation_most.value) == (1, 4)
    assert (pcie.width.value, pcie.width_most.value) == (16, 16)


def test_what_the_gpu_does_not_have_is_missing_with_the_return_code(stub_driver: StubDriver, tmp_path: Path) -> None:
    (gpu,) = _snapshot(*_ask(stub_driver, tmp_path, MACHINE)).gpus
    assert gpu.health.temperature.value is None
    assert gpu.health.temperature.reason == "nvmlDeviceGetTemperature answered with return code 3"
    assert gpu.name.value == "NVIDIA A100-SXM4-80GB"


def test_the_list_of_functions_is_not_empty() -> None:
    assert len(CALLED) > 20


@pytest.mark.parametrize("function", CALLED)
def test_one_function_fails_and_the_others_stand(function: str, stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = MACHINE | STATE | {f"nvml.return.{SYMBOLS.get(function, function)}": "999"}
    facts, source = _ask(stub_driver, tmp_path, keys)
    snapshot = _snapshot(facts, source)
    assert source.state is SourceState.ANSWERED
    assert len(snapshot.gpus) == (0 if function == "nvmlDeviceGetCount" else 1)
    if function.startswith("nvmlDevice") and function not in ("nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"):
        named = snapshot.gpus[0].name.value
        assert named == (None if function == "nvmlDeviceGetName" else "NVIDIA A100-SXM4-80GB")


@pytest.mark.parametrize("function", CALLED)
def test_one_function_crashes_and_what_was_told_is_kept(function: str, stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = MACHINE | STATE | {f"nvml.crash.{SYMBOLS.get(function, function)}": "segv"}
    facts, source = _ask(stub_driver, tmp_path, keys)
    assert source.state is SourceState.CRASHED
    assert source.detail == "ended by SIGSEGV"
    assert facts.init == 0
    assert _snapshot(facts, source).driver.nvml_init.value == 0


@pytest.mark.parametrize("function", ["nvmlDeviceGetTemperature", "nvmlDeviceGetComputeRunningProcesses"])
def test_a_hang_in_a_lesser_function_keeps_what_decides(function: str, stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = MACHINE | STATE | {f"nvml.delay.{SYMBOLS.get(function, function)}": "forever"}
    facts, source = _ask(stub_driver, tmp_path, keys, limit=2.0)
    assert source.state is SourceState.TIMED_OUT
    (gpu,) = _snapshot(facts, source).gpus
    assert str(gpu.compute_capability.value) == "8.0"
    assert gpu.memory_total.value


@pytest.mark.slow
@pytest.mark.parametrize("function", ["nvmlInitWithFlags", *CALLED])
def test_every_return_code_of_every_function_ends_in_a_snapshot(
    function: str, stub_driver: StubDriver, tmp_path: Path
) -> None:
    for code in CODES:
        keys = MACHINE | STATE | {f"nvml.return.{SYMBOLS.get(function, function)}": str(code)}
        facts, source = _ask(stub_driver, tmp_path, keys)
        assert source.state in (SourceState.ANSWERED, SourceState.FAILED, SourceState.ABSENT), (function, code, source)
        assert _snapshot(facts, source).sources == (source,)


@pytest.mark.slow
@pytest.mark.parametrize("function", ["nvmlInitWithFlags", *CALLED])
def test_a_hang_of_every_function_ends_at_the_deadline(function: str, stub_driver: StubDriver, tmp_path: Path) -> None:
    keys = MACHINE | STATE | {f"nvml.delay.{SYMBOLS.get(function, function)}": "forever"}
    started = time.monotonic()
    _, source = _ask(stub_driver, tmp_path, keys, limit=1.5)
    assert source.state is SourceState.TIMED_OUT
    assert time.monotonic() - started < 2.5
