"""What ``gpuenv install`` costs: side by side with bare uv and bare pip, warm caches, a fresh environment each time.

Two cases: CuPy alone, and CuPy with CUDA's libraries (``[ctk]``). Of the time of ``gpuenv install`` three things are
told apart, since bare uv does none of them: the proof, that the files are on the disk before they count, and the
examination of the machine, without which nobody knows what to install.
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
PROOF = ("check of files", "imports before", "proof")
DURABILITY = ("journal", "sync")
BARE_UV, BARE_PIP, OURS, ASKING = "bare uv pip install", "bare pip install", "gpuenv install", "gpuenv probe"
CPU, PHASE = " (work)", "phase "
LEAST = 0.005  # seconds that a row is worth
MOST = 0.25  # of bare uv's time: the aim for all that is neither proof nor durability
UV = str(Path(sys.executable).with_name("uv"))
GPUENV = (sys.executable, "-m", "gpuenv")
# As installed programs are: their modules compiled once, by the first round, which is not counted.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def timed(name: str, command: list[str]) -> tuple[dict[str, float], str]:
    """Seconds of wall time, and of all processors (which say something on a busy machine too); and what it printed."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    if done.returncode != 0:
        raise SystemExit(f"{command} failed:\n{done.stderr}")
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {name: wall, f"{name}{CPU}": worked}, done.stdout


def environment(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return str(folder / "bin/python")


def one_round(folder: Path, requirements: list[str], machine: tuple[str, ...]) -> dict[str, float]:
    """Seconds by what was done; the phases of ``gpuenv install`` by their names."""
    uv = [UV, "pip", "install", "--quiet", "--python", environment(folder / "uv")]
    pip = [environment(folder / "pip"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    target = environment(folder / "ours")
    ours = [*GPUENV, "install", "--yes", "--format", "json", *machine, "--python", target]
    found = timed(BARE_UV, [*uv, *requirements])[0]
    found |= timed(ASKING, [*GPUENV, "probe", "--python", target])[0]  # before there is a CuPy to look at
    told, printed = timed(OURS, ours)
    found |= told | timed(BARE_PIP, [*pip, *requirements])[0]
    shutil.rmtree(folder)
    phases = {f"{PHASE}{phase['name']}": phase["duration"] for phase in json.loads(printed)["phases"]}
    return found | phases | {f"{PHASE}Python's own start and end": found[OURS] - sum(phases.values())}


def medians(folder: Path, machine: tuple[str, ...]) -> tuple[list[str], dict[str, float]]:
    """What is installed, and the medians of all rounds but the first."""
    target = environment(folder / "first")
    plan = timed("plan", [*GPUENV, "install", "--dry-run", "--format", "json", *machine, "--python", target])[1]
    requirements = json.loads(plan)["requirements"]
    rounds = [one_round(folder / str(number), requirements, machine) for number in range(ROUNDS + 1)][1:]
    return requirements, {key: statistics.median(found[key] for found in rounds) for key in rounds[0]}


def table(name: str, requirements: list[str], found: dict[str, float]) -> list[str]:
    """The rows of one case."""
    phases = {key.removeprefix(PHASE): found[key] for key in found if key.startswith(PHASE)}
    proof = {key: phases.pop(key) for key in PROOF if key in phases}
    durability = {key: phases.pop(key) for key in DURABILITY if key in phases}
    uv, rest = found[BARE_UV], sum(phases.values())

    def both(key: str) -> str:
        return f"{found[key]:8.2f} s  {found[key + CPU]:8.2f} s  {key}"

    def rows(title: str, parts: dict[str, float]) -> list[str]:
        head = f"{sum(parts.values()):8.2f} s              {title}"
        return [
            head,
            *(f"{seconds:8.2f} s                {part}" for part, seconds in parts.items() if seconds >= LEAST),
        ]

    return [
        f"{name}: {' '.join(requirements)}",
        f"medians of {ROUNDS} rounds, caches warm; wall time, and what all processors worked",
        *(both(key) for key in (BARE_UV, OURS)),
        *rows("of it the proof", proof),
        *rows("of it the journal, and all on the disk before it counts", durability),
        *rows("of it all else", phases),
        *(both(key) for key in (ASKING, BARE_PIP)),
        f"{rest / uv - 1:8.0%}    over bare uv, proof and durability apart; the aim is {MOST:.0%}",
        f"{found[ASKING] / uv:8.0%}    of bare uv's time goes into asking the machine, which has to come first",
        f"{found[ASKING + CPU] / found[BARE_UV + CPU]:8.0%}    of bare uv's work, likewise",
        f"{(rest - found[ASKING]) / uv - 1:8.0%}    over bare uv, the asking apart too",
        f"{found[BARE_PIP] / found[OURS]:8.1f} x  as fast as bare pip, all included",
    ]


def main() -> None:
    """Prints medians and what follows from them."""
    for name, machine in CASES.items():
        with tempfile.TemporaryDirectory(prefix="gpuenv-bench-") as folder:
            requirements, found = medians(Path(folder), machine)
        sys.stdout.write("\n".join(table(name, requirements, found)) + "\n\n")


if __name__ == "__main__":
    main()
