"""Benchmark of ``gpuenv install`` against bare uv and bare pip, with warm caches and a fresh environment each time.

Two cases: CuPy alone, and CuPy with the CUDA libraries (``[ctk]``). Verification, durability (files are synced before
the install counts) and the probe of the machine are reported separately, since bare uv does none of them.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
MACHINE = ("--assume", "driver=580.95.05", "--assume", "gpu=V100")
CASES = {
    "CuPy alone, CUDA's libraries from a toolkit": (*MACHINE, "--assume", "toolkit=12.9"),
    "CuPy with CUDA's libraries": (*MACHINE, "--assume", "toolkit=none"),
}
VERIFICATION = ("check of files", "imports before", "proof")
DURABILITY = ("journal", "sync")
BARE_UV, BARE_PIP, GPUENV_INSTALL, PROBE = "bare uv pip install", "bare pip install", "gpuenv install", "gpuenv probe"
CPU, PHASE = " (CPU)", "phase "
LEAST = 0.005  # seconds; shorter phases are not shown
MOST = 0.25  # of bare uv's time: the target without verification and durability
UV = str(Path(sys.executable).with_name("uv"))
GPUENV = (sys.executable, "-m", "gpuenv")
# As for installed programs, modules are compiled once, by the uncounted first round.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def timed(name: str, command: list[str]) -> tuple[dict[str, float], str]:
    """Returns wall and CPU seconds (the latter are comparable on a busy machine), and the output."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    if result.returncode != 0:
        raise SystemExit(f"{command} failed:\n{result.stderr}")
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {name: wall, f"{name}{CPU}": cpu}, result.stdout


def environment(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return str(folder / "bin/python")


def one_round(folder: Path, requirements: list[str], machine: tuple[str, ...]) -> dict[str, float]:
    """Returns seconds by command, and by phase of ``gpuenv install``."""
    uv = [UV, "pip", "install", "--quiet", "--python", environment(folder / "uv")]
    pip = [environment(folder / "pip"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    target = environment(folder / "gpuenv")
    gpuenv = [*GPUENV, "install", "--yes", "--format", "json", *machine, "--python", target]
    seconds = timed(BARE_UV, [*uv, *requirements])[0]
    seconds |= timed(PROBE, [*GPUENV, "probe", "--python", target])[0]  # before CuPy is installed
    install_seconds, printed = timed(GPUENV_INSTALL, gpuenv)
    seconds |= install_seconds | timed(BARE_PIP, [*pip, *requirements])[0]
    shutil.rmtree(folder)
    phases = {f"{PHASE}{phase['name']}": phase["duration"] for phase in json.loads(printed)["phases"]}
    return seconds | phases | {f"{PHASE}Python startup and exit": seconds[GPUENV_INSTALL] - sum(phases.values())}


def medians(folder: Path, machine: tuple[str, ...]) -> tuple[list[str], dict[str, float]]:
    """Returns the requirements, and the medians of all rounds but the first."""
    target = environment(folder / "first")
    plan = timed("plan", [*GPUENV, "install", "--dry-run", "--format", "json", *machine, "--python", target])[1]
    requirements = json.loads(plan)["requirements"]
    rounds = [one_round(folder / str(number), requirements, machine) for number in range(ROUNDS + 1)][1:]
    return requirements, {key: statistics.median(seconds[key] for seconds in rounds) for key in rounds[0]}


def table(name: str, requirements: list[str], times: dict[str, float]) -> list[str]:
    """Returns the rows of one case."""
    phases = {key.removeprefix(PHASE): times[key] for key in times if key.startswith(PHASE)}
    verification = {key: phases.pop(key) for key in VERIFICATION if key in phases}
    durability = {key: phases.pop(key) for key in DURABILITY if key in phases}
    uv, remaining = times[BARE_UV], sum(phases.values())

    def both(key: str) -> str:
        return f"{times[key]:8.2f} s  {times[key + CPU]:8.2f} s  {key}"

    def rows(title: str, parts: dict[str, float]) -> list[str]:
        head = f"{sum(parts.values()):8.2f} s              {title}"
        return [
            head,
            *(f"{seconds:8.2f} s                {part}" for part, seconds in parts.items() if seconds >= LEAST),
        ]

    return [
        f"{name}: {' '.join(requirements)}",
        f"medians of {ROUNDS} rounds, caches warm; wall and CPU time",
        *(both(key) for key in (BARE_UV, GPUENV_INSTALL)),
        *rows("of which verification", verification),
        *rows("of which the journal and syncing to disk", durability),
        *rows("of which the rest", phases),
        *(both(key) for key in (PROBE, BARE_PIP)),
        f"{remaining / uv - 1:8.0%}    over bare uv, without verification and durability; the target is {MOST:.0%}",
        f"{times[PROBE] / uv:8.0%}    of bare uv's time is the probe of the machine, which comes first",
        f"{times[PROBE + CPU] / times[BARE_UV + CPU]:8.0%}    of bare uv's CPU time is the probe",
        f"{(remaining - times[PROBE]) / uv - 1:8.0%}    over bare uv, also without the probe",
        f"{times[BARE_PIP] / times[GPUENV_INSTALL]:8.1f} x  as fast as bare pip, in total",
    ]


def main() -> None:
    """Prints the table of each case."""
    for name, machine in CASES.items():
        with tempfile.TemporaryDirectory(prefix="gpuenv-bench-") as folder:
            requirements, times = medians(Path(folder), machine)
        sys.stdout.write("\n".join(table(name, requirements, times)) + "\n\n")


if __name__ == "__main__":
    main()
