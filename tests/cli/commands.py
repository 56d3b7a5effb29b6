"""Every command with arguments under which it does its whole work offline, and the exit codes that are right then."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.cli.recorded import FIT, UNFIT, record

if TYPE_CHECKING:
    from pathlib import Path

LOG = "Traceback (most recent call last):\nRuntimeError: CUDA error: no kernel image is available for execution\n"
# They download: tests/install tries them against an index of the tests' own.
ON_THE_NETWORK = {"install", "lock", "bundle", "build-image", "check-image"}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the program, with a name for the table."""

    name: str
    arguments: tuple[str, ...]
    code: int = 0


def calls(folder: Path) -> tuple[Call, ...]:
    """One or more calls of each command that needs no network; what they read is laid out below a folder."""
    fit, unfit = str(record(FIT, folder / "fit.json")), str(record(UNFIT, folder / "unfit.json"))
    log = folder / "log.txt"
    log.write_text(LOG, encoding="utf-8")
    (folder / "root").mkdir(exist_ok=True)
    venv = folder / "venv"
    if not venv.is_dir():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    here = ("--driver-root", str(folder / "root"), "--timeout", "20")
    return (
        Call("doctor", ("doctor", "--snapshot", unfit), 1),
        Call("doctor here", ("doctor", *here), 1),
        Call("preflight", ("preflight", "--snapshot", fit, "--require", "gpu>=1")),
        Call("resolve", ("resolve", "-v", "--snapshot", unfit)),
        Call("probe", ("probe", "--snapshot", fit)),
        Call("probe here", ("probe", *here)),
        Call("explain", ("explain", "no-driver")),
        Call("explain log", ("explain", str(log))),
        Call("run", ("run", "--", "true")),
        Call("diff", ("diff", fit, unfit)),
        Call("schema", ("schema", "report")),
        Call("smoke", ("smoke", "--list")),
        Call("simulate", ("simulate", "--list")),
        Call("matrix show", ("matrix", "show", "--line", "13x")),
        Call("matrix check", ("matrix", "check")),
        Call("rollback", ("rollback", "--list", "--python", str(venv))),
        Call("--help", ("--help",)),
        Call("--version", ("--version",)),
        Call("usage", ("doctor", "--no-such-option"), 2),
    )
