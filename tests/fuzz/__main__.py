"""``make fuzz``: each target for some time with hypothesis, then guided by coverage with atheris; then a table.

Each runs in a child of its own, which is killed where it hangs. A finding is written to a file as it is made; the exit
code is 1 if there is any. atheris is optional (``pip install 'gpuenv[fuzz]'``): where it is not, its rows say so.
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
_GRACE = 300.0  # seconds to import, to instrument, and to end the input in hand


@dataclass(frozen=True, slots=True)
class Row:
    """How a target fared under an engine: inputs, seconds, and the places where something was found."""

    target: str
    engine: str
    runs: int | None
    seconds: float
    findings: tuple[str, ...]
    note: str = ""


def main(arguments: Sequence[str]) -> int:
    """Runs what is asked for and prints the table."""
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - its texts are read at import

    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(TARGETS)}; all, if none")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target under each engine")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="this one alone; repeatable")
    parser.add_argument("--out", type=Path, default=None, help="folder for the findings")
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.targets) - set(TARGETS)):
        parser.error(f"there is no target {unknown[0]}: one of {', '.join(TARGETS)}")
    out = given.out or Path(tempfile.mkdtemp(prefix="gpuenv-fuzz-"))
    rows = []
    for name in given.targets or TARGETS:
        for engine in given.engine or ENGINES:
            rows.append(_one(name, engine, given.seconds, out / name))
            sys.stdout.write(_line(rows[-1]) + "\n")
            sys.stdout.flush()
    found = sum(len(row.findings) for row in rows)
    total = sum(row.seconds for row in rows)
    sys.stdout.write(f"{total / 60:.0f} min, {sum(row.runs or 0 for row in rows)} inputs, {found} findings")
    sys.stdout.write(f" in {out}\n" if found else "\n")
    return 1 if found else 0


def _one(name: str, engine: str, seconds: float, folder: Path) -> Row:
    if engine == "atheris" and find_spec("atheris") is None:
        return Row(name, engine, None, 0.0, (), "not run: atheris is not installed")
    command = [sys.executable, "-m", "tests.fuzz.child", name, engine, str(seconds), str(folder)]
    begun = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + _GRACE)
    except subprocess.TimeoutExpired:
        return Row(name, engine, None, time.monotonic() - begun, ("hung",), f"killed after {seconds + _GRACE:.0f} s")
    told = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not told:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{engine}-died.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
        return Row(name, engine, None, time.monotonic() - begun, ("died",), f"exit code {done.returncode}")
    answer = json.loads(told[-1])
    return Row(name, engine, answer["runs"], time.monotonic() - begun, tuple(answer["found"]))


def _line(row: Row) -> str:
    told = row.note or "; ".join(row.findings) or "nothing found"
    runs = "-" if row.runs is None else str(row.runs)
    return f"{row.target:<16}{row.engine:<12}{runs:>9} inputs {row.seconds:>6.0f} s  {told}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
