"""``make bench``: time, memory and size of gpuenv, a bare interpreter and other tools.

The exit code is 1 if a ratio exceeds its budget or the recorded baseline; ``--record`` records a new baseline.
The other tools and gpuenv are installed into environments below ``.cache/bench``, which needs a package index.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import load
from gpuenv.simulate.stub_driver import build
from tests.bench.budgets import MOST_DISTRIBUTIONS, Verdict, verdicts
from tests.bench.measure import Command, Measured, measure
from tests.support.target import CudaLibraries, Targets

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache/bench"
BASELINE = Path(__file__).with_name("baseline.json")
HEALTHY = REPOSITORY / "tests/machines/h200-580.yaml"
OTHER_TOOLS = {"cuda-doctor": ("cuda-doctor",), "env-doctor": ("env-doctor", "check")}
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Environments:
    """The environments of the measured programs."""

    folders: dict[str, Path]

    def program(self, environment: str, name: str) -> str:
        return str(self.folders[environment] / "bin" / name)

    def distributions(self, environment: str) -> int:
        listed = _output(
            [sys.executable, "-m", "uv", "pip", "list", "--format", "json", "--python", self.python(environment)]
        )
        return len(json.loads(listed))

    def python(self, environment: str) -> str:
        return self.program(environment, "python")

    def size(self, environment: str) -> int:
        (site,) = self.folders[environment].glob("lib/python*/site-packages")
        return sum(
            path.stat().st_size for path in site.rglob("*") if path.is_file() and "__pycache__" not in path.parts
        )


def main() -> int:
    """Measures, prints the tables, and returns the exit code."""
    options = _options()
    environments = _install()
    wheel = _wheel()
    with tempfile.TemporaryDirectory(prefix="bench") as folder:
        commands = _commands(Path(folder), environments)
        measured = measure(commands, options.rounds)
        by_name = {command.name: command for command in commands}
        phases, imports = _phases(by_name["gpuenv probe"]), _imports(environments, by_name["gpuenv doctor"])
    _table("Time and memory, medians of runs in turn", [_row(name, result) for name, result in measured.items()])
    baseline = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}
    results = verdicts(measured, baseline)
    _table("Ratios", [_verdict_row(verdict) for verdict in results])
    count = environments.distributions("gpuenv")
    _table("Size", _sizes(environments, wheel, count))
    _table("Time of a probe by phase", phases.splitlines())
    _table("Longest imports of gpuenv doctor", imports)
    if options.record:
        BASELINE.write_text(
            json.dumps({v.budget.name: round(v.ratio, 3) for v in results}, indent=2) + "\n", encoding="utf-8"
        )
    passed = all(verdict.passed for verdict in results) and count <= MOST_DISTRIBUTIONS
    return 0 if passed else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--record", action="store_true", help="record the ratios as the baseline")
    parser.add_argument("--rounds", type=int, default=25)
    return parser.parse_args()


def _install() -> Environments:
    """Installs gpuenv and each other tool into an environment of its own."""
    requirements = {"gpuenv": str(REPOSITORY), **{name: name for name in OTHER_TOOLS}}
    folders = {name: CACHE / name for name in requirements}
    for name, requirement in requirements.items():
        if name != "gpuenv" and (folders[name] / "installed").exists():
            continue
        shutil.rmtree(folders[name], ignore_errors=True)
        _output([sys.executable, "-m", "uv", "venv", "--quiet", "--python", sys.executable, str(folders[name])])
        refresh = ["--reinstall-package", "gpuenv", "--refresh-package", "gpuenv"] if name == "gpuenv" else []
        _output(
            [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--compile-bytecode", *refresh]
            + ["--python", str(folders[name] / "bin/python"), requirement]
        )
        (folders[name] / "installed").touch()
    return Environments(folders)


def _wheel() -> Path:
    """Builds the wheel."""
    folder = CACHE / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    _output([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)])
    (wheel,) = folder.glob("*.whl")
    return wheel


def _commands(folder: Path, environments: Environments) -> list[Command]:
    """Returns the measured commands; those that probe run on a simulated healthy machine."""
    profile = load(HEALTHY)
    machine = materialise(profile, folder / "machine", build(folder / "stub"), CudaLibraries(folder / "cuda").of)
    target = str(Targets(folder / "targets").interpreter(profile.target))
    on_machine = dict(machine.environment)
    plain = {"PATH": os.defpath, "HOME": on_machine["HOME"], "LC_ALL": "C.UTF-8"}
    gpuenv, python = environments.program("gpuenv", "gpuenv"), environments.python("gpuenv")
    return [
        Command("bare interpreter", (python, "-c", "pass"), plain, folder),
        Command("gpuenv --version", (gpuenv, "--version"), plain, folder),
        Command("gpuenv --help", (gpuenv, "--help"), plain, folder),
        Command("gpuenv probe", (gpuenv, "probe", "--format", "json", "--python", target), on_machine, folder),
        Command("gpuenv doctor", (gpuenv, "doctor", "--python", target), on_machine, folder),
        Command("cuda-doctor", (environments.program("cuda-doctor", "cuda-doctor"),), on_machine, folder),
        Command("env-doctor check", (environments.program("env-doctor", "env-doctor"), "check"), on_machine, folder),
    ]


def _phases(probe: Command) -> str:
    result = subprocess.run(
        [*probe.argv, "-v"], env=dict(probe.environment), cwd=probe.folder, capture_output=True, text=True, check=True
    )
    return result.stderr


def _imports(environments: Environments, doctor: Command) -> list[str]:
    """Returns the slowest modules, as ``-X importtime`` reports them."""
    result = subprocess.run(
        [environments.python("gpuenv"), "-X", "importtime", *doctor.argv],
        env=dict(doctor.environment),
        cwd=doctor.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    modules = re.findall(r"^import time:\s+(\d+) \|\s+(\d+) \|\s*(\S+)$", result.stderr, re.MULTILINE)
    longest = sorted(((int(self_time), name) for self_time, _, name in modules), reverse=True)[:12]
    total = sum(int(self_time) for self_time, _, _ in modules)
    return [f"{self_time / 1000:7.1f} ms  {name}" for self_time, name in longest] + [
        f"{total / 1000:7.1f} ms  all {len(modules)} modules"
    ]


def _sizes(environments: Environments, wheel: Path, count: int) -> list[str]:
    rows = [f"wheel {wheel.stat().st_size / _MIB:8.2f} MiB"]
    for name in environments.folders:
        distributions = count if name == "gpuenv" else environments.distributions(name)
        rows.append(f"{name:16} {distributions:3} distributions, {environments.size(name) / _MIB:7.1f} MiB installed")
    return [*rows, f"most allowed for gpuenv: {MOST_DISTRIBUTIONS} distributions"]


def _row(name: str, result: Measured) -> str:
    return f"{name:20} {result.seconds * 1000:8.1f} ms {result.memory / _MIB:8.1f} MiB"


def _verdict_row(verdict: Verdict) -> str:
    baseline = "" if verdict.baseline is None else f", baseline {verdict.baseline:.2f}"
    word = "passed" if verdict.passed else "FAILED"
    return f"{verdict.budget.name:40} {verdict.ratio:6.2f}  at most {verdict.budget.most:.2f}{baseline}  {word}"


def _table(title: str, rows: list[str]) -> None:
    sys.stdout.write("\n".join(["", title, *(f"  {row}" for row in rows)]) + "\n")
    sys.stdout.flush()


def _output(command: list[str]) -> str:
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{result.stderr}")
    return result.stdout


if __name__ == "__main__":
    sys.exit(main())
