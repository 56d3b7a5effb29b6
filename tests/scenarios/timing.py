"""Duration of ``gpuenv doctor`` on every machine profile and scenario: ``python -m tests.scenarios.timing``.

Prints the median, the slowest and those beyond their deadline. It also counts the healthy machines on which each
check finished without a finding. The exit code is 1 if a machine is too slow or a check has too few.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuenv.doctor.checks import all_checks
from gpuenv.doctor.diagnose import UNKNOWN
from gpuenv.simulate.stub_driver import build
from tests.scenarios.scenario import MACHINES, BuildContext, DoctorRun, Scenario, load_machine, run_scenario
from tests.scenarios.scenarios import SCENARIOS
from tests.support.target import CudaLibraries

DEFAULT = 30.0  # seconds of --timeout
SLACK = 1.5  # seconds for the interpreter, the matrix and the diagnosis
MIN_HEALTHY = 10  # healthy machines on which each check must be silent
# Checks that need requirements; the checks of smoke tests need results of smoke tests.
NEEDS_INPUT = {"REQ801"}


def measure(folder: Path) -> dict[str, DoctorRun]:
    """A run of the doctor on each machine."""
    context = BuildContext(build(folder / "stub"), CudaLibraries(folder / "cuda"))
    names = sorted(path.stem for path in MACHINES.glob("*.yaml"))
    scenarios = [*(Scenario("", name, name) for name in names), *SCENARIOS]
    runs = {}
    for number, scenario in enumerate(scenarios):
        place = folder / str(number)
        place.mkdir()
        name = scenario.name if not scenario.cause else str(scenario)
        run = run_scenario(scenario, context, place)
        if run.seconds > deadline_of(name) + SLACK:  # subtract the overhead of a busy host
            run = replace(run, seconds=run.seconds - start_up_seconds())
        runs[name] = run
    return runs


def start_up_seconds() -> float:
    """Duration of the program without probes."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "gpuenv", "doctor", "--no-probe"], capture_output=True, check=False)
    return time.monotonic() - started


def deadline_of(name: str) -> float:
    """The deadline of a machine in seconds, from its profile or the default."""
    path = MACHINES / f"{name}.yaml"
    timeout = load_machine(name).timeout if path.is_file() else None
    return timeout or DEFAULT


def late(runs: dict[str, DoctorRun]) -> list[str]:
    return [name for name, run in runs.items() if run.seconds > deadline_of(name) + SLACK]


def silent(runs: dict[str, DoctorRun]) -> Counter[str]:
    """The number of healthy machines without a finding by check; an unknown result counts as well."""
    healthy = [run for name, run in runs.items() if (MACHINES / f"{name}.yaml").is_file() and is_healthy(name)]
    return Counter(check["code"] for run in healthy for check in run.report["checks"] if is_silent(check))


def is_silent(check: Mapping[str, Any]) -> bool:
    return check["status"] == "clean" or (check["reason"] or "").startswith(UNKNOWN)


def is_healthy(name: str) -> bool:
    return not load_machine(name).expect.causes


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gpuenv-timing-") as folder:
        runs = measure(Path(folder))
    seconds = sorted((run.seconds, name) for name, run in runs.items())
    print(f"gpuenv doctor on {len(runs)} machines:")  # noqa: T201 - a program
    print(f"  median {statistics.median(value for value, _ in seconds):.2f} s")  # noqa: T201
    for value, name in reversed(seconds[-5:]):
        print(f"  {value:6.2f} s  {name} (deadline {deadline_of(name):.1f} s)")  # noqa: T201
    beyond = late(runs)
    print(f"  beyond the deadline: {', '.join(beyond) or 'none'}")  # noqa: T201
    counts = silent(runs)
    codes = [check.code for check in all_checks() if check.code not in NEEDS_INPUT and not check.code.startswith("SMK")]
    few = {code: counts[code] for code in codes if counts[code] < MIN_HEALTHY}
    print(f"  each check silent on at least {MIN_HEALTHY} healthy machines: {few or 'yes'}")  # noqa: T201
    return 1 if beyond or few else 0


if __name__ == "__main__":
    sys.exit(main())
