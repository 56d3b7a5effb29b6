"""``make fuzz``: runs each target with hypothesis, then guided by coverage with atheris, and prints a table.

Each run is a child process, which is killed if it hangs. Every finding is written to a file; the exit code is 1 if
there is any. atheris is optional (``pip install 'gpuenv[fuzz]'``); without it, its rows say so.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ENGINES = ("hypothesis", "atheris")
_GRACE = 300.0  # seconds to import, to instrument, and to finish the last input


@dataclass(frozen=True, slots=True)
class Row:
    """The result of a target with an engine: inputs, seconds, and the places of findings."""

    target: str
    engine: str
    runs: int | None
    seconds: float
    findings: tuple[str, ...]
    note: str = ""


def main(arguments: Sequence[str]) -> int:
    """Runs the selected targets and prints the table."""
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - its texts are read at import

    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(TARGETS)}; all, if none")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target under each engine")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="this one alone; repeatable")
    parser.add_argument("--out", type=Path, default=None, help="folder for the findings")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.targets) - set(TARGETS)):
        parser.error(f"there is no target {unknown[0]}: one of {', '.join(TARGETS)}")
    out = options.out or Path(tempfile.mkdtemp(prefix="gpuenv-fuzz-"))
    rows = []
    for name in options.targets or TARGETS:
        for engine in options.engine or ENGINES:
            rows.append(_run(name, engine, options.seconds, out / name))
            sys.stdout.write(_line(rows[-1]) + "\n")
            sys.stdout.flush()
    findings = sum(len(row.findings) for row in rows)
    total = sum(row.seconds for row in rows)
    sys.stdout.write(f"{total / 60:.0f} min, {sum(row.runs or 0 for row in rows)} inputs, {findings} findings")
    sys.stdout.write(f" in {out}\n" if findings else "\n")
    return 1 if findings else 0


def _run(name: str, engine: str, seconds: float, folder: Path) -> Row:
    if engine == "atheris" and find_spec("atheris") is None:
        return Row(name, engine, None, 0.0, (), "not run: atheris is not installed")
    command = [sys.executable, "-m", "tests.fuzz.child", name, engine, str(seconds), str(folder)]
    started = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + _GRACE)
    except subprocess.TimeoutExpired:
        return Row(name, engine, None, time.monotonic() - started, ("hung",), f"killed after {seconds + _GRACE:.0f} s")
    results = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not results:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{engine}-died.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
        return Row(name, engine, None, time.monotonic() - started, ("died",), f"exit code {done.returncode}")
    answer = json.loads(results[-1])
    return Row(name, engine, answer["runs"], time.monotonic() - started, tuple(answer["found"]))


def _line(row: Row) -> str:
    outcome = row.note or "; ".join(row.findings) or "nothing found"
    runs = "-" if row.runs is None else str(row.runs)
    return f"{row.target:<16}{row.engine:<12}{runs:>9} inputs {row.seconds:>6.0f} s  {outcome}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
