"""Replay: a Snapshot converted to a profile of the stub and probed again is equal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.codec import decode, encode
from gpuenv.model.snapshot import Snapshot
from gpuenv.probe.assembly import assemble, relevant_variables
from gpuenv.probe.children import ChildGroup
from gpuenv.probe.context import ProbeContext
from gpuenv.probe.raw import RawFacts
from gpuenv.simulate.layout import stub_table
from gpuenv.simulate.profile import load
from gpuenv.simulate.stub_driver import StubDriver, lay_out
from tests.probe.nvidia import MACHINE, PAIR, STATE
from tests.probe.probe_runs import probe_cuda, probe_nvml, probe_smi
from tests.support.stub_profile import replay_environment, stable_facts, stub_profile

if TYPE_CHECKING:
    from collections.abc import Mapping

PROFILES = {path.stem: path for path in (Path(__file__).parents[1] / "machines").glob("*.yaml")}
REPLAYED = ("a100-mig-535", "fabric-manager", "gpu-lost", "h100x8-550", "jetson-orin-540", "rtx3090-nvlink-one-down")
ALSO_REPLAYED = (
    "a100-corrected-errors", "a100-mig-wrong-instance", "a100-row-failed", "a100-row-pending",
    "compute-only", "forward-compat-804", "gvisor-h200-580", "h100-fabric-link-down",
    "h100-of-eight-slurm", "h100-pcie-bridged", "h200-580", "h200-fabric-in-progress",
    "k80-470", "l4-pair-list-cut-short", "mig-without-instances", "mixed-pair-pci-order", "one-of-eight-lost",
    "rtx4090-pair-without-p2p", "v100-exclusive-in-use", "v100-h100-580",
    "v100-pages-pending", "v100-prohibited", "vgpu-a10-570",
)  # fmt: skip


def probe_machine(stub: StubDriver, folder: Path, table: Mapping[str, str], environment: Mapping[str, str]) -> Snapshot:
    """The Snapshot of a machine from NVML, libcuda and nvidia-smi, after a JSON round trip."""
    folder.mkdir()
    text = folder / "stub.txt"
    text.write_text("".join(f"{key}={value}\n" for key, value in table.items()), encoding="utf-8")
    lay_out(stub, folder / "lib", "580.95.05", with_smi=True)
    variables = {
        "PATH": f"{folder / 'lib'}:/usr/bin:/bin",
        "GPUENV_STUB": str(text),
        "LD_LIBRARY_PATH": str(folder / "lib"),
        **environment,
    }
    ctx = ProbeContext(variables, "/", time.monotonic() + 30, ChildGroup())
    (nvml, nvml_source), (cuda, cuda_source), (smi, smi_source) = (
        probe_nvml(ctx),
        probe_cuda(ctx),
        probe_smi(ctx),
    )
    raw = RawFacts(
        nvml=nvml,
        cuda=cuda,
        smi=smi,
        environment=relevant_variables(variables),
        sources=(nvml_source, cuda_source, smi_source),
    )
    return decode(Snapshot, encode(assemble(raw, None)))


def replay(stub: StubDriver, folder: Path, first: Snapshot) -> Snapshot:
    return probe_machine(stub, folder, stub_profile(first), replay_environment(first))


@pytest.mark.parametrize("name", [*REPLAYED, *(pytest.param(name, marks=pytest.mark.long) for name in ALSO_REPLAYED)])
def test_a_replayed_machine_is_equal(name: str, stub_driver: StubDriver, tmp_path: Path) -> None:
    profile = load(PROFILES[name])
    first = probe_machine(stub_driver, tmp_path / "first", stub_table(profile), profile.environment)
    assert first.gpus
    again = replay(stub_driver, tmp_path / "again", first)
    assert stable_facts(again) == stable_facts(first)


def test_every_quantity_of_a_replayed_machine_is_equal(stub_driver: StubDriver, tmp_path: Path) -> None:
    """Including volatile quantities, which the stub keeps constant."""
    for number, keys in enumerate((MACHINE | STATE, PAIR)):
        first = probe_machine(stub_driver, tmp_path / f"first{number}", keys, {})
        again = replay(stub_driver, tmp_path / f"again{number}", first)
        assert [encode(gpu) for gpu in again.gpus] == [encode(gpu) for gpu in first.gpus]


@pytest.mark.long
def test_a_changed_quantity_is_a_difference(stub_driver: StubDriver, tmp_path: Path) -> None:
    first = probe_machine(stub_driver, tmp_path / "first", MACHINE | STATE, {})
    for number, (key, value) in enumerate(
        (
            ("gpu.0.name", "NVIDIA A100-PCIE-40GB"),
            ("gpu.0.remapped.uncorrected", "2"),
            ("gpu.0.nvlink.2", "0"),
            ("gpu.0.ecc.pending", "1"),
            ("nvml.return.nvmlDeviceGetRetiredPages@0", "999"),
        )
    ):
        other = probe_machine(stub_driver, tmp_path / f"other{number}", {**stub_profile(first), key: value}, {})
        assert stable_facts(other) != stable_facts(first), key


@pytest.mark.long
def test_volatile_quantities_are_not_differences(stub_driver: StubDriver, tmp_path: Path) -> None:
    first = probe_machine(stub_driver, tmp_path / "first", MACHINE | STATE, {})
    changed = {
        "gpu.0.temperature": "77",
        "gpu.0.power.usage": "250000",
        "gpu.0.clock.sm": "1410",
        "gpu.0.pcie.generation": "4",
        "gpu.0.memory.free": "1024",
        "gpu.0.processes": "",
        "gpu.0.clock.reasons": "4",
    }
    other = probe_machine(stub_driver, tmp_path / "other", {**stub_profile(first), **changed}, {})
    assert stable_facts(other) == stable_facts(first)
