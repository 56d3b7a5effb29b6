"""What ``gpuenv install`` costs: side by side with bare uv and bare pip, warm caches, a fresh environment each time.

Two cases: CuPy alone, and CuPy with CUDA's libraries (``[ctk]``). Of the time of ``gpuenv install`` three things are
told apart, since bare uv does none of them: the proof, that the files are on the disk before they count, and the
examination of the machine, without which nobody knows what to install.
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

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
MACHINE = ("--assume", "driver=580.95.05", "--assume", "gpu=V100")
CASES = {
    "CuPy alone, CUDA's libraries from a toolkit": (*MACHINE, "--assume", "toolkit=12.9"),
    "CuPy with CUDA's libraries": (*MACHINE, "--assume", "toolkit=none"),
}
PROOF = ("check of files", "imports before", "proof")
DURABILITY = ("journal", "sync")
MOST = 0.25  # of bare uv's time: the aim for all that is neither proof nor durability
UV = str(Path(sys.executable).with_name("uv"))
GPUENV = (sys.executable, "-m", "gpuenv")
# As installed programs are: their modules compiled once, by the first round, which is not counted.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def timed(command: list[str]) -> tuple[float, str]:
    """Seconds of wall time, and what it printed."""
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    if done.returncode not in (0, 1):  # 1: the doctor's word about the machine
        raise SystemExit(f"{command} failed:\n{done.stderr}")
    return time.monotonic() - started, done.stdout


def environment(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return str(folder / "bin/python")


def one_round(folder: Path, requirements: list[str], machine: tuple[str, ...]) -> dict[str, float]:
    """Seconds by what was done; the phases of ``gpuenv install`` by their names."""
    uv = [UV, "pip", "install", "--quiet", "--python", environment(folder / "uv")]
    pip = [environment(folder / "pip"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    target = environment(folder / "ours")
    found = {"bare uv": timed([*uv, *requirements])[0], "probe": timed([*GPUENV, "probe", "--python", target])[0]}
    ours = [*GPUENV, "install", "--yes", "--format", "json", *machine, "--python", target]
    found["gpuenv install"], printed = timed(ours)
    found["bare pip"] = timed([*pip, *requirements])[0]
    shutil.rmtree(folder)
    phases = {phase["name"]: phase["duration"] for phase in json.loads(printed)["phases"]}
    return found | phases | {"Python's own start and end": found["gpuenv install"] - sum(phases.values())}


def medians(folder: Path, machine: tuple[str, ...]) -> tuple[list[str], dict[str, float]]:
    """What is installed, and the medians of all rounds but the first."""
    target = environment(folder / "first")
    plan = timed([*GPUENV, "install", "--dry-run", "--format", "json", *machine, "--python", target])
    requirements = json.loads(plan[1])["requirements"]
    rounds = [one_round(folder / str(number), requirements, machine) for number in range(ROUNDS + 1)][1:]
    return requirements, {key: statistics.median(found[key] for found in rounds) for key in rounds[0]}


def table(name: str, requirements: list[str], found: dict[str, float]) -> list[str]:
    """The rows of one case."""
    whole, uv = found["gpuenv install"], found["bare uv"]
    phases = {key: found[key] for key in found if key not in ("bare uv", "probe", "gpuenv install", "bare pip")}
    proof = {key: phases.pop(key) for key in PROOF if key in phases}
    durability = {key: phases.pop(key) for key in DURABILITY if key in phases}
    rest = sum(phases.values())

    def rows(title: str, parts: dict[str, float]) -> list[str]:
        head = f"{sum(parts.values()):8.2f} s    {title}"
        return [head, *(f"{seconds:8.2f} s      {part}" for part, seconds in parts.items() if seconds >= 0.005)]

    return [
        f"{name}: {' '.join(requirements)}; medians of {ROUNDS} rounds, caches warm",
        f"{uv:8.2f} s  bare uv pip install",
        f"{whole:8.2f} s  gpuenv install, of which",
        *rows("proof", proof),
        *rows("journal, and on the disk before it counts", durability),
        *rows("all else", phases),
        f"{found['bare pip']:8.2f} s  bare pip install",
        f"{rest / uv - 1:8.0%}    over bare uv, proof and durability apart (aim: at most {MOST:.0%})",
        f"{found['probe'] / uv:8.0%}    of bare uv's time: asking the machine (gpuenv probe), which comes first",
        f"{(rest - found['probe']) / uv - 1:8.0%}    over bare uv, the asking apart too",
        f"{found['bare pip'] / whole:8.1f} x  as fast as bare pip, all included",
    ]


def main() -> None:
    """Prints medians and what follows from them."""
    for name, machine in CASES.items():
        with tempfile.TemporaryDirectory(prefix="gpuenv-bench-") as folder:
            requirements, found = medians(Path(folder), machine)
        sys.stdout.write("\n".join(table(name, requirements, found)) + "\n\n")


if __name__ == "__main__":
    main()
