"""``gpuenv install`` compared with bare uv, with warm caches and a new environment each time: part of ``make bench``.

Two cases: CuPy alone, and CuPy with the CUDA libraries (``[ctk]``). The exit code is 1 if the first exceeds the limit,
which is for a machine with nothing else to do. Verification and durability (files are synced before the install
counts) are reported separately, since bare uv does neither.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
MACHINE = ("--assume", "driver=580.95.05", "--assume", "gpu=V100")
CASES = {
    "CuPy alone, CUDA's libraries from a toolkit": (*MACHINE, "--assume", "toolkit=12.9", "cupy-cuda12x==13.6.0"),
    "CuPy with CUDA's libraries": (*MACHINE, "--assume", "toolkit=none"),
}
VERIFICATION = ("check of files", "imports before", "proof")
DURABILITY = ("journal", "sync")
BARE_UV, GPUENV_INSTALL, PHASE = "bare uv pip install", "gpuenv install", "phase "
LEAST = 0.005  # seconds; shorter phases are not shown
MOST = 1.5  # seconds over bare uv, for CuPy alone
UV = str(Path(sys.executable).with_name("uv"))
GPUENV = (sys.executable, "-m", "gpuenv")
# As for installed programs, modules are compiled once, by the uncounted first round.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def timed(command: list[str]) -> tuple[float, str]:
    """Returns wall seconds, and the output."""
    started = time.monotonic()
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    if result.returncode != 0:
        raise SystemExit(f"{command} failed:\n{result.stderr}")
    return time.monotonic() - started, result.stdout


def environment(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return str(folder / "bin/python")


def one_round(folder: Path, requirements: list[str], arguments: tuple[str, ...]) -> dict[str, float]:
    """Returns seconds by command, and by phase of ``gpuenv install``."""
    target = environment(folder / "gpuenv")
    uv, _ = timed([UV, "pip", "install", "--quiet", "--python", environment(folder / "uv"), *requirements])
    install, printed = timed([*GPUENV, "install", "--yes", "--format", "json", "--python", target, *arguments])
    shutil.rmtree(folder)
    phases = {f"{PHASE}{phase['name']}": phase["duration"] for phase in json.loads(printed)["phases"]}
    startup = {f"{PHASE}Python startup and exit": install - sum(phases.values())}
    return {BARE_UV: uv, GPUENV_INSTALL: install} | phases | startup


def medians(folder: Path, arguments: tuple[str, ...]) -> tuple[list[str], dict[str, float]]:
    """Returns the requirements, and the medians of all rounds but the first."""
    target = environment(folder / "first")
    _, plan = timed([*GPUENV, "install", "--dry-run", "--format", "json", "--python", target, *arguments])
    requirements = json.loads(plan)["requirements"]
    rounds = [one_round(folder / str(number), requirements, arguments) for number in range(ROUNDS + 1)][1:]
    return requirements, {key: statistics.median(seconds[key] for seconds in rounds) for key in rounds[0]}


def table(name: str, requirements: list[str], times: dict[str, float]) -> list[str]:
    """Returns the rows of one case."""
    phases = {key.removeprefix(PHASE): times[key] for key in times if key.startswith(PHASE)}
    verification = {key: phases.pop(key) for key in VERIFICATION if key in phases}
    durability = {key: phases.pop(key) for key in DURABILITY if key in phases}

    def rows(title: str, parts: dict[str, float]) -> list[str]:
        details = (f"{seconds:8.2f} s    {part}" for part, seconds in parts.items() if seconds >= LEAST)
        return [f"{sum(parts.values()):8.2f} s  {title}", *details]

    return [
        f"{name}: {' '.join(requirements)}",
        f"medians of {ROUNDS} rounds, caches warm, wall time",
        *(f"{times[key]:8.2f} s  {key}" for key in (BARE_UV, GPUENV_INSTALL)),
        *rows("of which verification", verification),
        *rows("of which the journal and syncing to disk", durability),
        *rows("of which the rest", phases),
        f"{times[GPUENV_INSTALL] - times[BARE_UV]:8.2f} s  over bare uv (limit for CuPy alone: {MOST} s)",
    ]


def main() -> int:
    """Prints the table of each case, and returns the exit code."""
    over = []
    for name, arguments in CASES.items():
        with tempfile.TemporaryDirectory(prefix="gpuenv-bench-") as folder:
            requirements, times = medians(Path(folder), arguments)
        sys.stdout.write("\n".join(table(name, requirements, times)) + "\n\n")
        over.append(times[GPUENV_INSTALL] - times[BARE_UV])
    return 1 if over[0] > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
