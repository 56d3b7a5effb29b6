"""The sources of a whole machine together: asked side by side, and within the deadline when none of them answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import load
from tests.support.processes import timed
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

HEALTHY = load(Path(__file__).parent / "machines/h200-580.yaml")
SLOW = {"nvml.delay.nvmlInitWithFlags": "1", "cuda.delay.cuInit": "1", "smi.delay": "1"}
HUNG = {"nvml.delay.*": "forever", "cuda.delay.*": "forever", "smi.delay": "forever"}
FOREVER = "import time\ntime.sleep(1000000)\n"


class Bench:
    """A machine whose driver behaves as the test says, and a target on it."""

    def __init__(self, folder: Path, stub: StubDriver, libraries: CudaLibraries, targets: Targets) -> None:
        self.machine = materialise(HEALTHY, folder, stub, libraries.of)
        self.interpreter = targets.interpreter(HEALTHY.target)
        self.table = Path(self.machine.environment["GPUENV_STUB"])

    def probe(self, faults: Mapping[str, str], *options: str, python: Path | None = None) -> tuple[Any, str, float]:
        """The Snapshot, what was said beside it, and the seconds that it took."""
        with self.table.open("a", encoding="utf-8") as table:
            table.writelines(f"{key}={value}\n" for key, value in faults.items())
        command = [sys.executable, "-m", "gpuenv", "probe", "--python", str(python or self.interpreter)]
        done, took = timed([*command, "--format", "json", *options], self.machine)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr, took

    def idle(self) -> float:
        """The seconds that the program takes where it asks nothing: what a busy host makes of it."""
        return timed([sys.executable, "-m", "gpuenv", "probe", "--no-probe", "--format", "json"], self.machine)[1]


@pytest.fixture
def bench(tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets) -> Bench:
    return Bench(tmp_path, stub_driver, cuda_libraries, targets)


def test_the_sources_are_asked_side_by_side(bench: Bench) -> None:
    snapshot, said, _ = bench.probe(SLOW, "-v")
    sources = {source["name"]: source for source in snapshot["sources"]}
    slow = [sources[name] for name in ("nvml", "libcuda", "nvidia-smi")]
    assert [source["state"] for source in slow] == ["answered"] * 3
    assert min(source["duration"] for source in slow) >= 1.0
    latest_start = max(source["started"] for source in slow)
    earliest_end = min(source["started"] + source["duration"] for source in slow)
    assert latest_start < earliest_end, "each had begun before the first had ended"
    ends = max(source["started"] + source["duration"] for source in sources.values())
    assert ends < sum(source["duration"] for source in slow), "far less than one after the other"
    for name in sources:
        assert any(line.startswith(name) for line in said.splitlines()) == (sources[name]["duration"] > 0)


def test_a_hung_machine_is_told_within_the_deadline(bench: Bench, tmp_path: Path) -> None:
    """NVML, libcuda, nvidia-smi, a file of the kernel's and the target all hang at once."""
    version = bench.machine.root / "proc/driver/nvidia/version"
    version.unlink()
    os.mkfifo(version)
    hung_target = tmp_path / "hung"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(hung_target)], check=True)
    (site,) = hung_target.glob("lib/python*/site-packages")
    run_at_start(site, FOREVER)
    limit = 5.0
    snapshot, _, took = bench.probe(HUNG, "--timeout", str(limit), python=hung_target)
    assert took < limit + 1.0 or took < limit + 1.0 + bench.idle()
    states = {source["name"]: source["state"] for source in snapshot["sources"]}
    for name in ("nvml", "libcuda", "nvidia-smi", "target"):
        assert states[name] == "timed-out", states
    assert snapshot["driver"]["module_version"]["value"] == HEALTHY.driver.version, "the other file still tells it"
    assert snapshot["host"]["distribution"]["value"], "what was told before is kept"
