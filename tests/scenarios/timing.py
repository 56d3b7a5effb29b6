"""How long ``gpuenv doctor`` takes on every recorded machine and every scenario: ``python -m tests.scenarios.timing``.

Prints the median, the worst and each that is beyond its deadline; ends in 1 where there is one. It also counts
on how many healthy machines each check came to its end without a finding.
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

from gpuenv.doctor.diagnose import UNKNOWN
from gpuenv.doctor.registry import all_checks
from gpuenv.simulate.stub_driver import build
from tests.scenarios.ground import MACHINES, Scenario, Shown, Workshop, recorded, show
from tests.scenarios.known import SCENARIOS
from tests.support.target import CudaLibraries

DEFAULT = 30.0  # seconds of --timeout
SLACK = 1.5  # seconds beside the asking: the interpreter, the matrix, the verdict
ENOUGH = 10  # healthy machines on which each check must be silent
# What only the caller's requirements let come to an end; the checks of smoke tests need those.
ELSEWHERE = {"REQ801"}


def measure(folder: Path) -> dict[str, Shown]:
    """What the doctor says of each machine, and the seconds it takes."""
    workshop = Workshop(build(folder / "stub"), CudaLibraries(folder / "cuda"))
    names = sorted(path.stem for path in MACHINES.glob("*.yaml"))
    every = [*(Scenario("", name, name) for name in names), *SCENARIOS]
    shown = {}
    for number, scenario in enumerate(every):
        place = folder / str(number)
        place.mkdir()
        name = scenario.name if not scenario.cause else str(scenario)
        told = show(scenario, workshop, place)
        if told.seconds > deadline_of(name) + SLACK:  # what a busy host makes of it is taken off
            told = replace(told, seconds=told.seconds - asking_nothing())
        shown[name] = told
    return shown


def asking_nothing() -> float:
    """Seconds that the program takes here and now where it asks nobody."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "gpuenv", "doctor", "--no-probe"], capture_output=True, check=False)
    return time.monotonic() - started


def deadline_of(name: str) -> float:
    """Seconds that the machine may take: the profile's, or the default."""
    path = MACHINES / f"{name}.yaml"
    told = recorded(name).timeout if path.is_file() else None
    return told or DEFAULT


def late(shown: dict[str, Shown]) -> list[str]:
    return [name for name, told in shown.items() if told.seconds > deadline_of(name) + SLACK]


def silent(shown: dict[str, Shown]) -> Counter[str]:
    """On how many healthy machines each check was asked and found nothing; what it could not tell is silence too."""
    healthy = [told for name, told in shown.items() if (MACHINES / f"{name}.yaml").is_file() and is_healthy(name)]
    return Counter(run["code"] for told in healthy for run in told.report["checks"] if is_silent(run))


def is_silent(run: Mapping[str, Any]) -> bool:
    return run["status"] == "clean" or (run["reason"] or "").startswith(UNKNOWN)


def is_healthy(name: str) -> bool:
    return not recorded(name).expect.causes


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gpuenv-timing-") as folder:
        shown = measure(Path(folder))
    seconds = sorted((told.seconds, name) for name, told in shown.items())
    print(f"gpuenv doctor on {len(shown)} machines:")  # noqa: T201 - a program
    print(f"  median {statistics.median(value for value, _ in seconds):.2f} s")  # noqa: T201
    for value, name in reversed(seconds[-5:]):
        print(f"  {value:6.2f} s  {name} (deadline {deadline_of(name):.1f} s)")  # noqa: T201
    beyond = late(shown)
    print(f"  beyond the deadline: {', '.join(beyond) or 'none'}")  # noqa: T201
    counted = silent(shown)
    asked = [check.code for check in all_checks() if check.code not in ELSEWHERE and not check.code.startswith("SMK")]
    few = {code: counted[code] for code in asked if counted[code] < ENOUGH}
    print(f"  each check silent on at least {ENOUGH} healthy machines: {few or 'yes'}")  # noqa: T201
    return 1 if beyond or few else 0


if __name__ == "__main__":
    sys.exit(main())
