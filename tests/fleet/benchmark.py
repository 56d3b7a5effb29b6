"""Time and memory of ``gpuenv fleet report``, each in one process: ``make bench-fleet``.

The reports are made of the recorded machines: most nodes are of four kinds, the rest of every kind, each with its own
identity and momentary values, and some with another kernel or a broken GPU.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.program import MINIMAL, PROGRAM
from tests.fleet.node_reports import MACHINES, node_document, node_report, with_finding

SIZES = (100, 1_000, 10_000, 100_000)
KINDS = ("h100x8-550", "l4-550", "h200-580", "rtx4090-545")
LONGEST, MOST_MEMORY, MOST_LINES = (
    20.0,
    300,
    100,
)  # seconds of CPU, which a busy machine does not change, MB and lines of text for 10,000 reports
_KIND, _RARE, _BROKEN = 0.9, 0.07, 0.02  # shares of the nodes
_FREE = 4 << 30  # bytes of disk to leave


class Measured(NamedTuple):
    """One row of the table; ``exit_code`` is of the report."""

    reports: int
    seconds: float
    cpu: float
    megabytes: int
    lines: int
    exit_code: int


def write_fleet(folder: Path, first: int, last: int) -> None:
    """The reports of some nodes; the same for the same numbers."""
    others = sorted(path.stem for path in MACHINES.glob("*.yaml"))
    for number in range(first, last):
        draw = random.Random(number)  # noqa: S311 - the same fleet each time
        share, name = draw.random(), f"node{number:06d}"
        machine = draw.choice(KINDS if share < _KIND + _BROKEN else others)
        data = node_report(name, machine, number)
        if share > 1 - _RARE:
            document = node_document(name, machine, number)
            kernel: dict[str, Any] = {
                "value": f"6.1.0-{draw.randrange(40)}",
                "source": "uname",
                "others": [],
                "reason": None,
            }
            document["snapshot"]["host"]["kernel"] = kernel
            data = json.dumps(document).encode()
        elif share < _BROKEN:
            title = f"GPU {draw.randrange(8)} has fallen off the bus"
            document = with_finding(node_document(name, machine, number), "GPU206", "gpu-hardware-fault", title)
            data = json.dumps(document).encode()
        (folder / f"{name}.json").write_bytes(data)


def measure(folder: Path, count: int, *options: str) -> Measured:
    """Runs the report once."""
    started = time.monotonic()
    process = subprocess.Popen(
        [*PROGRAM, "fleet", "report", str(folder), *options], env=MINIMAL, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdout is not None
    lines = process.stdout.read().count("\n")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    return Measured(count, time.monotonic() - started, cpu, usage.ru_maxrss >> 10, lines, process.returncode)


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Prints the table; 1 if the row of 10,000 exceeds a limit."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1]
    exceeded = False
    with tempfile.TemporaryDirectory(prefix="gpuenv-fleet-") as name:
        folder, done = Path(name), 0
        _show(
            "| reports | seconds | of CPU | CPU ms a report | MB | lines | exit code |\n|---|---|---|---|---|---|---|"
        )
        for count in (size for size in SIZES if size <= most):
            needed = (count - done) * 110_000
            if shutil.disk_usage(folder).free - needed < _FREE:
                _show(f"| {count} | not run: {needed >> 30} GiB of disk are needed |")
                break
            write_fleet(folder, done, count)
            done = count
            row = measure(folder, count)
            cells = (count, f"{row.seconds:.1f}", f"{row.cpu:.1f}", f"{row.cpu / count * 1000:.2f}", *row[3:])
            _show(f"| {' | '.join(map(str, cells))} |")
            if count == SIZES[2]:
                exceeded = row.cpu > LONGEST or row.megabytes > MOST_MEMORY or row.lines > MOST_LINES
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
