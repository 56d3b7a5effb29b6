"""Calls of every command that works offline, with their expected exit codes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.cli.published_matrix import publish, published
from tests.cli.snapshots import FIT, UNFIT, write_snapshot

if TYPE_CHECKING:
    from pathlib import Path

LOG = "Traceback (most recent call last):\nRuntimeError: CUDA error: no kernel image is available for execution\n"
# These download; tests/install runs them against an index of its own.
NETWORK_COMMANDS = {"install", "lock", "bundle", "build-image", "check-image"}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the program; the name identifies it in messages of a failed test."""

    name: str
    arguments: tuple[str, ...]
    code: int = 0


def calls(folder: Path) -> tuple[Call, ...]:
    """One or more calls of each offline command; their input files are written to the folder."""
    fit, unfit = str(write_snapshot(FIT, folder / "fit.json")), str(write_snapshot(UNFIT, folder / "unfit.json"))
    log = folder / "log.txt"
    log.write_text(LOG, encoding="utf-8")
    (folder / "root").mkdir(exist_ok=True)
    venv = folder / "venv"
    if not venv.is_dir():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    this_machine = ("--driver-root", str(folder / "root"), "--timeout", "20")
    return (
        Call("doctor", ("doctor", "--snapshot", unfit), 1),
        Call("doctor here", ("doctor", *this_machine), 1),
        Call("preflight", ("preflight", "--snapshot", fit, "--require", "gpu>=1")),
        Call("resolve", ("resolve", "-v", "--snapshot", unfit)),
        Call("probe", ("probe", "--snapshot", fit)),
        Call("probe here", ("probe", *this_machine)),
        Call("explain", ("explain", "no-driver")),
        Call("explain log", ("explain", str(log))),
        Call("run", ("run", "--", "true")),
        Call("diff", ("diff", fit, unfit)),
        Call("schema", ("schema", "report")),
        Call("help", ("help", "doctor")),
        Call("smoke", ("smoke", "--list")),
        Call("simulate", ("simulate", "--list")),
        Call("fleet node", ("fleet", "node", "-o", str(folder / "nodes"), *this_machine), 1),
        Call("fleet collect", ("fleet", "collect", "--via", "ssh", "--nodes", "n[1-2]", "--dry-run")),
        Call("matrix show", ("matrix", "show", "--line", "13x")),
        Call("matrix check", ("matrix", "check")),
        Call("matrix update", ("matrix", "update", str(publish(folder, published())), "--dry-run")),
        Call("rollback", ("rollback", "--list", "--python", str(venv))),
        Call("--help", ("--help",)),
        Call("--version", ("--version",)),
        Call("usage", ("doctor", "--no-such-option"), 2),
    )
