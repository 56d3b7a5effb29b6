"""What ``gpuenv install`` costs: side by side with bare uv and bare pip, warm caches, a fresh environment each time."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
MACHINE = ("--assume", "driver=580.95.05", "--assume", "gpu=V100", "--assume", "toolkit=12.9")
PROOF = ("check of files", "imports before", "proof")
SAME_WORK = ("plan", "download and unpack", "sync", "swap")
UV = str(Path(sys.executable).with_name("uv"))


def timed(command: list[str]) -> tuple[float, str]:
    """Seconds of wall time, and what it printed."""
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode != 0:
        raise SystemExit(f"{command} failed:\n{done.stderr}")
    return time.monotonic() - started, done.stdout


def environment(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return str(folder / "bin/python")


def one_round(folder: Path, requirements: list[str]) -> dict[str, float]:
    uv = [UV, "pip", "install", "--quiet", "--python", environment(folder / "uv")]
    pip = [environment(folder / "pip"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    ours = [sys.executable, "-m", "gpuenv", "install", "--yes", "--format", "json", *MACHINE]
    target = environment(folder / "ours")
    found = {"bare uv": timed([*uv, *requirements])[0]}
    found["gpuenv install"], printed = timed([*ours, "--python", target])
    found["bare pip"] = timed([*pip, *requirements])[0]
    phases = {phase["name"]: phase["duration"] for phase in json.loads(printed)["phases"]}
    found["  of it proof"] = sum(phases.get(name, 0.0) for name in PROOF)
    found.update({f"    {name}": duration for name, duration in phases.items()})
    return found


def main() -> None:
    """Prints medians and what follows from them."""
    with tempfile.TemporaryDirectory(prefix="gpuenv-bench-") as name:
        target = environment(Path(name) / "first")
        plan = timed(
            [sys.executable, "-m", "gpuenv", "install", "--dry-run", "--format", "json", *MACHINE, "--python", target]
        )
        requirements = json.loads(plan[1])["requirements"]
        rounds = [one_round(Path(name) / str(number), requirements) for number in range(ROUNDS + 1)][1:]
    medians = {key: statistics.median(found[key] for found in rounds) for key in rounds[0]}
    lines = [f"{' '.join(requirements)}, medians of {ROUNDS} rounds, caches warm"]
    lines += [f"{seconds:8.2f} s  {key}" for key, seconds in medians.items()]
    without = medians["gpuenv install"] - medians["  of it proof"]
    alike = sum(medians.get(f"    {name}", 0.0) for name in SAME_WORK)
    lines.append(f"{without / medians['bare uv'] - 1:8.0%}    over bare uv, the proof apart")
    lines.append(
        f"{alike / medians['bare uv'] - 1:8.0%}    over bare uv, what bare uv does too alone: {', '.join(SAME_WORK)}"
    )
    lines.append(f"{medians['bare pip'] / medians['gpuenv install']:8.1f} x  as fast as bare pip")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
