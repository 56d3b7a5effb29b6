"""Faults of the process environment: HOME, the cache folder, the terminal, the clock and the locale."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.data import data_path
from tests.cli.commands import Call
from tests.cli.program import MINIMAL, PROGRAM
from tests.faults.file_faults import faults_on_open

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT = 120.0
YEAR = 365 * 86400


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A call that has ended."""

    call: Call
    code: int
    stdout: bytes
    stderr: str


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Runs every command in one folder.

    Attributes:
        folder: the folder of the tests.
        clock: a library that sets the clock of a process.
        files: a library that injects faults into opened files.
        calls: the calls.
        expected: each call without a fault.
    """

    folder: Path
    clock: Path
    files: Path
    calls: tuple[Call, ...]
    expected: dict[str, CompletedCall] = field(default_factory=dict)

    def run(self, call: Call, variables: Mapping[str, str | None], *prefix: str) -> CompletedCall:
        """Run one call, which must not print a traceback."""
        merged = {**MINIMAL, "HOME": str(self.folder), **variables}
        environment = {name: value for name, value in merged.items() if value is not None}
        process = subprocess.run(
            [*prefix, *PROGRAM, *call.arguments],
            env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=LIMIT,
        )  # fmt: skip
        stderr = process.stderr.decode("utf-8", "replace")
        assert "Traceback" not in stderr, f"{call.name}: {stderr}"
        return CompletedCall(call, process.returncode, process.stdout, stderr)

    def faults_on_open(self, folder: Path, fault: str) -> dict[str, str]:
        """The variables that inject a fault into opened files, or none if the fault is of another kind."""
        kind = fault.partition(":")[0]
        if fault != f"{kind}: as it is opened" and kind != "slow":
            return {}
        return faults_on_open(self.files, folder, kind, {})


Variables = dict[str, str | None]
EnvironmentFault = Callable[[CommandRunner, Path], Variables]
OTHER_USER = 65534  # the user nobody
SHIPPED: bytes = data_path("matrix.yaml").read_bytes()


def faulty_home(fault: str) -> EnvironmentFault:
    """A faulty HOME, and the caches below it."""

    def variables(runner: CommandRunner, folder: Path) -> Variables:
        home = folder / "home"
        if fault == "rubbish: a file":
            home.write_text("", encoding="utf-8")
        elif fault in HOME_PATHS:
            return {"HOME": HOME_PATHS[fault], "XDG_CACHE_HOME": None, "XDG_DATA_HOME": None}
        else:
            (home / ".local/share/gpuenv").mkdir(parents=True)
            (home / ".cache/gpuenv").mkdir(parents=True)
            if fault in MATRIX:
                MATRIX[fault](home / ".local/share/gpuenv/matrix.yaml")
        if fault == "unreadable":
            home.chmod(0)
        if fault == "lying: of another user" and os.geteuid() == 0:
            for path in (home, *home.rglob("*")):
                os.chown(path, OTHER_USER, OTHER_USER)
        result: Variables = {"HOME": str(home), "XDG_CACHE_HOME": None, "XDG_DATA_HOME": None}
        return result | runner.faults_on_open(home, fault)

    return variables


HOME_PATHS: dict[str, str | None] = {
    "absent": "/nonexistent/home",
    "absent: not set": None,
    "empty": "",
    "lying: relative": "here",
    "unreadable: read-only": "/proc",
    "huge: a very long name": "/nonexistent/" + "x" * 10_000,
}


def _endless(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


# The user's matrix below HOME.
MATRIX: dict[str, Callable[[Path], object]] = {
    "rubbish": lambda path: path.write_bytes(bytes(range(256))),
    "huge": _endless,
    "hung": os.mkfifo,
    "empty: an empty matrix": lambda path: path.write_bytes(b""),
    "dying: cut in the middle": lambda path: path.write_bytes(SHIPPED[: len(SHIPPED) // 2]),
    "dying: as it is opened": lambda path: path.write_bytes(SHIPPED),
    "slow": lambda path: path.write_bytes(SHIPPED),
    "lying: a matrix of nothing": lambda path: path.write_bytes(b"schema: gpuenv.matrix/1\nrevision: '9999-12-31'\n"),
}


def faulty_cache(fault: str) -> EnvironmentFault:
    def variables(runner: CommandRunner, folder: Path) -> Variables:
        cache = folder / "cache"
        if fault in CACHES:
            return {"XDG_CACHE_HOME": CACHES[fault]}
        if fault == "rubbish: a file":
            cache.write_text("", encoding="utf-8")
            return {"XDG_CACHE_HOME": str(cache)}
        (cache / "gpuenv").mkdir(parents=True)
        if fault == "unreadable":
            cache.chmod(0)
        return {"XDG_CACHE_HOME": str(cache), **runner.faults_on_open(cache, fault)}

    return variables


CACHES = {
    "absent": "/nonexistent/cache",
    "empty": "",
    "lying: relative": "here",
    "unreadable: read-only": "/proc",
    "dying: full": "/dev/full",
}


def constant(**variables: str | None) -> EnvironmentFault:
    return lambda _runner, _folder: dict(variables)


def clock(seconds_back: int = 0, fault: str | None = None) -> EnvironmentFault:
    return lambda runner, _folder: {
        "LD_PRELOAD": str(runner.clock), "CLOCK_BACK": str(seconds_back), "CLOCK_HOW": fault,
    }  # fmt: skip


HOMES = (*HOME_PATHS, "unreadable", "rubbish: a file", "lying: of another user", *MATRIX)
ENVIRONMENT_FAULTS: dict[tuple[str, str], EnvironmentFault] = {
    **{("HOME", fault): faulty_home(fault) for fault in HOMES},
    **{
        ("cache folder", fault): faulty_cache(fault)
        for fault in (*CACHES, "rubbish: a file", "unreadable", "slow", "dying: as it is opened")
    },
    ("cache folder", "absent: TMPDIR"): constant(TMPDIR="/nonexistent"),
    ("cache folder", "unreadable: TMPDIR"): constant(TMPDIR="/proc"),
    ("terminal", "absent"): constant(TERM=None),
    ("terminal", "empty"): constant(TERM="", COLUMNS="", LINES=""),
    ("terminal", "rubbish"): constant(TERM="\x1b[2J", COLUMNS="-3", LINES="many", NO_COLOR=""),
    ("terminal", "huge"): constant(COLUMNS="999999999999"),
    ("terminal", "lying"): constant(
        FORCE_COLOR="1", CLICOLOR_FORCE="1", COLORTERM="truecolor", PY_COLORS="1", COLUMNS="1"
    ),
    ("clock", "rubbish: in 1970"): clock(60 * YEAR),
    ("clock", "lying: a year back"): clock(YEAR),
    ("clock", "huge: in 2090"): clock(-64 * YEAR),
    ("clock", "slow"): clock(fault="slow"),
    ("clock", "hung: it stands"): clock(fault="stands"),
    ("clock", "dying: it jumps"): clock(fault="jumps"),
    ("locale", "absent"): constant(LC_ALL=None, LANG=None),
    ("locale", "empty"): constant(LC_ALL="", LANG=""),
    ("locale", "rubbish"): constant(LC_ALL="xx_YY.nonsense", LANG="\xff"),
    ("locale", "huge"): constant(LC_ALL="x" * 100_000),
    ("locale", "unreadable"): constant(LC_ALL="de_DE.UTF-8", LOCPATH="/nonexistent"),
    ("locale", "lying: Turkish"): constant(LC_ALL="tr_TR.UTF-8", LANG="tr_TR.UTF-8"),
    ("locale", "lying: ASCII"): constant(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii"),
    **{
        ("locale", f"lying: {page}"): constant(LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING=page)
        for page in ("cp437", "cp850", "cp1252", "cp932", "cp936", "utf-16")
    },
}
