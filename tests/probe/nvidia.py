"""Machines of the stub driver for tests of NVML and libcuda, and functions that probe them."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.probe.assembly import assemble
from gpuenv.probe.children import ChildGroup
from gpuenv.probe.context import ProbeContext, script
from gpuenv.probe.raw import RawFacts
from gpuenv.simulate.stub_driver import StubDriver, lay_out
from tests.probe.probe_runs import probe_cuda, probe_nvml
from tests.probe.raw_facts import CudaFacts, NvmlFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuenv.model.snapshot import Snapshot, Source

UUID = "GPU-5c8d9b0e-1f2a-4b3c-8d4e-5f6a7b8c9d0e"
MIG_UUID = "MIG-11111111-2222-4333-8444-555555555555"
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
    "gpu.0.mig.0.uuid": MIG_UUID,
}
STATE = {
    "gpu.0.compute_mode": "3",
    "gpu.0.persistence": "1",
    "gpu.0.virtualization": "2",
    "gpu.0.brand": "9",
    "gpu.0.ecc": "1",
    "gpu.0.ecc.pending": "0",
    "gpu.0.ecc.volatile.corrected": "3",
    "gpu.0.ecc.volatile.uncorrected": "2",
    "gpu.0.ecc.aggregate.corrected": "11",
    "gpu.0.ecc.aggregate.uncorrected": "7",
    "gpu.0.retired.single": "5",
    "gpu.0.retired.double": "2",
    "gpu.0.retired.pending": "0",
    "gpu.0.remapped.corrected": "4",
    "gpu.0.remapped.uncorrected": "1",
    "gpu.0.remapped.pending": "1",
    "gpu.0.remapped.failure": "0",
    "gpu.0.temperature": "41",
    "gpu.0.power.usage": "63500",
    "gpu.0.power.limit": "400000",
    "gpu.0.power.limit.default": "500000",
    "gpu.0.inforom.valid": "0",
    "gpu.0.licensed": "1",
    "gpu.0.clock.sm": "210",
    "gpu.0.clock.max.sm": "1410",
    "gpu.0.clock.reasons": str(0x1 | 0x40 | 0x800),
    "gpu.0.pcie.generation": "1",
    "gpu.0.pcie.generation.max": "4",
    "gpu.0.pcie.width": "16",
    "gpu.0.pcie.width.max": "16",
    "gpu.0.processes": "4242:1048576,4243:none",
    "gpu.0.fabric.state": "2",
    "gpu.0.nvlink.0": "1",
    "gpu.0.nvlink.1": "0",
    "gpu.0.nvlink.2": "1",
}
SECOND = {
    "gpu.count": "2",
    "gpu.1.name": "NVIDIA A100-SXM4-80GB",
    "gpu.1.pci": "00000000:3A:00.0",
    "gpu.1.cc": "8.0",
    "gpu.1.fabric.state": "3",
    "gpu.1.fabric.status": "0",
    "topology.0.1": "40",
    "p2p.0.1": "0",
}
PAIR = MACHINE | STATE | SECOND
# Functions that drivers before R510, and nvidia-ml-py before 12.550, lack.
OLDER = {
    "nvml.return.nvmlDeviceGetGpuFabricInfoV": "13",
    "nvml.return.nvmlDeviceGetComputeRunningProcesses_v3": "13",
    "cuda.return.cuDeviceGetUuid_v2": "1",
}


def names_in(script_name: str, pattern: str) -> tuple[str, ...]:
    """The functions named in a script."""
    return tuple(sorted(set(re.findall(pattern, Path(script(script_name)).read_text(encoding="utf-8")))))


# Read from the scripts, so that a new function is tested without being listed here.
NVML_CALLED = names_in("nvml.py", r'"(nvml(?:Init|Device\w+|System\w+))"')
CUDA_CALLED = names_in("cuda.py", r'"(cu[A-Z]\w+)"')


def environment_of(
    stub: StubDriver, folder: Path, keys: Mapping[str, str], more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment in which the stub's libraries simulate a machine."""
    text, library = folder / "stub.txt", folder / "lib"
    text.write_text("".join(f"{key}={value}\n" for key, value in keys.items()), encoding="utf-8")
    if not library.exists():
        lay_out(stub, library, "580.95.05")
    fixed = {"PATH": "/usr/bin:/bin", "GPUENV_STUB": str(text), "LD_LIBRARY_PATH": str(library)}
    return {**fixed, **(more or {})}


def nvml_of(stub: StubDriver, folder: Path, keys: Mapping[str, str], limit: float = 20.0) -> tuple[NvmlFacts, Source]:
    """The facts of NVML on a machine."""
    return probe_nvml(ProbeContext(environment_of(stub, folder, keys), "/", time.monotonic() + limit, ChildGroup()))


def cuda_of(
    stub: StubDriver,
    folder: Path,
    keys: Mapping[str, str],
    limit: float = 20.0,
    more: Mapping[str, str] | None = None,
) -> tuple[CudaFacts, Source]:
    """The facts of libcuda on a machine."""
    return probe_cuda(
        ProbeContext(environment_of(stub, folder, keys, more), "/", time.monotonic() + limit, ChildGroup())
    )


def snapshot_of(
    stub: StubDriver, folder: Path, keys: Mapping[str, str], more: Mapping[str, str] | None = None
) -> Snapshot:
    """The Snapshot of a machine from both libraries."""
    nvml, nvml_source = nvml_of(stub, folder, keys)
    cuda, cuda_source = cuda_of(stub, folder, keys, more=more)
    environment = dict(more or {})
    return assemble(RawFacts(nvml=nvml, cuda=cuda, environment=environment, sources=(nvml_source, cuda_source)), None)


def calls_of(stub: StubDriver, folder: Path, keys: Mapping[str, str]) -> set[str]:
    """The symbols that both scripts call on a machine."""
    log = folder / "calls.txt"
    log.write_text("", encoding="utf-8")
    nvml_of(stub, folder, {**keys, "calls": str(log)})
    cuda_of(stub, folder, {**keys, "calls": str(log)})
    return {line.split()[1] for line in log.read_text(encoding="utf-8").splitlines()}
