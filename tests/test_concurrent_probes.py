"""All probes of a machine run concurrently, and end within the deadline if no source answers."""

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
from tests.support.processes import run_timed
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

HEALTHY = load(Path(__file__).parent / "machines/h200-580.yaml")
SLOW = {"nvml.delay.nvmlInitWithFlags": "1", "cuda.delay.cuInit": "1", "smi.delay": "1"}
HUNG = {"nvml.delay.*": "forever", "cuda.delay.*": "forever", "smi.delay": "forever"}
FOREVER = "import time\ntime.sleep(1000000)\n"


class ProbeRunner:
    """Probes a machine with a target and a driver with injected faults."""

    def __init__(self, folder: Path, stub: StubDriver, libraries: CudaLibraries, targets: Targets) -> None:
        self.machine = materialise(HEALTHY, folder, stub, libraries.of)
        self.interpreter = targets.interpreter(HEALTHY.target)
        self.table = Path(self.machine.environment["GPUENV_STUB"])

    def probe(self, faults: Mapping[str, str], *options: str, python: Path | None = None) -> tuple[Any, str, float]:
        """The snapshot, standard error, and the duration in seconds."""
        with self.table.open("a", encoding="utf-8") as table:
            table.writelines(f"{key}={value}\n" for key, value in faults.items())
        command = [sys.executable, "-m", "gpuenv", "probe", "--python", str(python or self.interpreter)]
        result, duration = run_timed([*command, "--format", "json", *options], self.machine)
        assert "Traceback" not in result.stderr, result.stderr
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout), result.stderr, duration

    def idle(self) -> float:
        """The seconds that the program takes without probing, on a host that may be busy."""
        return run_timed([sys.executable, "-m", "gpuenv", "probe", "--no-probe", "--format", "json"], self.machine)[1]


@pytest.fixture
def runner(tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets) -> ProbeRunner:
    return ProbeRunner(tmp_path, stub_driver, cuda_libraries, targets)


def test_sources_are_probed_concurrently(runner: ProbeRunner) -> None:
    snapshot, stderr, _ = runner.probe(SLOW, "-v")
    sources = {source["name"]: source for source in snapshot["sources"]}
    slow = [sources[name] for name in ("nvml", "libcuda", "nvidia-smi")]
    assert [source["state"] for source in slow] == ["answered"] * 3
    assert min(source["duration"] for source in slow) >= 1.0
    latest_start = max(source["started"] for source in slow)
    earliest_end = min(source["started"] + source["duration"] for source in slow)
    assert latest_start < earliest_end, "each starts before the first ends"
    ends = max(source["started"] + source["duration"] for source in sources.values())
    assert ends < sum(source["duration"] for source in slow), "faster than one after the other"
    for name in sources:
        assert any(line.startswith(name) for line in stderr.splitlines()) == (sources[name]["duration"] > 0)


def test_a_hung_machine_is_probed_within_the_deadline(runner: ProbeRunner, tmp_path: Path) -> None:
    """NVML, libcuda, nvidia-smi, a kernel file and the target all hang."""
    version = runner.machine.root / "proc/driver/nvidia/version"
    version.unlink()
    os.mkfifo(version)
    hung_target = tmp_path / "hung"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(hung_target)], check=True)
    (site,) = hung_target.glob("lib/python*/site-packages")
    run_at_start(site, FOREVER)
    limit = 5.0
    snapshot, _, duration = runner.probe(HUNG, "--timeout", str(limit), python=hung_target)
    assert duration < limit + 1.0 or duration < limit + 1.0 + runner.idle()
    states = {source["name"]: source["state"] for source in snapshot["sources"]}
    for name in ("nvml", "libcuda", "nvidia-smi", "target"):
        assert states[name] == "timed-out", states
    assert snapshot["driver"]["module_version"]["value"] == HEALTHY.driver.version, "another file still has the version"
    assert snapshot["host"]["distribution"]["value"], "facts read before are kept"
