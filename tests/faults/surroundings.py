"""What surrounds the program, and how it is spoilt: HOME, the cache folder, the terminal, the clock, the locale."""

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
from tests.faults.spoiling import as_opened

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT = 120.0
YEAR = 365 * 86400


@dataclass(frozen=True, slots=True)
class Done:
    """How a call ended."""

    call: Call
    code: int
    stdout: bytes
    stderr: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where every command is run.

    Attributes:
        folder: of the test's own.
        clock: a library that sets the clock of a process.
        files: one that spoils files as they are opened.
        calls: what is run.
        sound: what each call prints in sound surroundings.
    """

    folder: Path
    clock: Path
    files: Path
    calls: tuple[Call, ...]
    sound: dict[str, Done] = field(default_factory=dict)

    def run(self, call: Call, variables: Mapping[str, str | None], *prefix: str) -> Done:
        """One call; a traceback is never right."""
        given = {**MINIMAL, "HOME": str(self.folder), **variables}
        environment = {name: value for name, value in given.items() if value is not None}
        done = subprocess.run(
            [*prefix, *PROGRAM, *call.arguments],
            env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=LIMIT,
        )  # fmt: skip
        stderr = done.stderr.decode("utf-8", "replace")
        assert "Traceback" not in stderr, f"{call.name}: {stderr}"
        return Done(call, done.returncode, done.stdout, stderr)

    def as_opened(self, folder: Path, fault: str) -> dict[str, str]:
        """Variables under which files below a folder are spoilt as they are opened, where the fault is such a one."""
        how = fault.partition(":")[0]
        if fault != f"{how}: as it is opened" and how != "slow":
            return {}
        return as_opened(self.files, folder, how, {})


Variables = dict[str, str | None]
Spoiling = Callable[[Surroundings, Path], Variables]
OTHER = 65534  # nobody's user
SHIPPED: bytes = data_path("matrix.yaml").read_bytes()


def spoilt_home(how: str) -> Spoiling:
    """HOME, and with it the caches below it."""

    def variables(surroundings: Surroundings, folder: Path) -> Variables:
        home = folder / "home"
        if how == "rubbish: a file":
            home.write_text("", encoding="utf-8")
        elif how in NOWHERE:
            return {"HOME": NOWHERE[how], "XDG_CACHE_HOME": None, "XDG_DATA_HOME": None}
        else:
            (home / ".local/share/gpuenv").mkdir(parents=True)
            (home / ".cache/gpuenv").mkdir(parents=True)
            if how in MATRIX:
                MATRIX[how](home / ".local/share/gpuenv/matrix.yaml")
        if how == "unreadable":
            home.chmod(0)
        if how == "lying: somebody else's" and os.geteuid() == 0:
            for path in (home, *home.rglob("*")):
                os.chown(path, OTHER, OTHER)
        told: Variables = {"HOME": str(home), "XDG_CACHE_HOME": None, "XDG_DATA_HOME": None}
        return told | surroundings.as_opened(home, how)

    return variables


NOWHERE: dict[str, str | None] = {
    "absent": "/nonexistent/home",
    "absent: not set": None,
    "empty": "",
    "lying: relative": "here",
    "unreadable: read-only": "/proc",
    "huge: a name beyond all measure": "/nonexistent/" + "x" * 10_000,
}


def _endless(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


# The matrix of the user's own below HOME.
MATRIX: dict[str, Callable[[Path], object]] = {
    "rubbish": lambda path: path.write_bytes(bytes(range(256))),
    "huge": _endless,
    "hung": os.mkfifo,
    "empty: an empty matrix": lambda path: path.write_bytes(b""),
    "dying: cut in the middle": lambda path: path.write_bytes(SHIPPED[: len(SHIPPED) // 2]),
    "dying: as it is opened": lambda path: path.write_bytes(SHIPPED),
    "slow": lambda path: path.write_bytes(SHIPPED),
    "lying: a matrix of nothing": lambda path: path.write_bytes(b"schema: gpuenv.matrix/1\nrevision: 9999-12-31\n"),
}


def spoilt_cache(how: str) -> Spoiling:
    def variables(surroundings: Surroundings, folder: Path) -> Variables:
        cache = folder / "cache"
        if how in CACHES:
            return {"XDG_CACHE_HOME": CACHES[how]}
        if how == "rubbish: a file":
            cache.write_text("", encoding="utf-8")
            return {"XDG_CACHE_HOME": str(cache)}
        (cache / "gpuenv").mkdir(parents=True)
        if how == "unreadable":
            cache.chmod(0)
        return {"XDG_CACHE_HOME": str(cache), **surroundings.as_opened(cache, how)}

    return variables


CACHES = {
    "absent": "/nonexistent/cache",
    "empty": "",
    "lying: relative": "here",
    "unreadable: read-only": "/proc",
    "dying: full": "/dev/full",
}


def fixed(**variables: str | None) -> Spoiling:
    return lambda _surroundings, _folder: dict(variables)


def clock(seconds_back: int = 0, how: str | None = None) -> Spoiling:
    return lambda surroundings, _folder: {
        "LD_PRELOAD": str(surroundings.clock), "CLOCK_BACK": str(seconds_back), "CLOCK_HOW": how,
    }  # fmt: skip


HOMES = (*NOWHERE, "unreadable", "rubbish: a file", "lying: somebody else's", *MATRIX)
SPOILT: dict[tuple[str, str], Spoiling] = {
    **{("HOME", how): spoilt_home(how) for how in HOMES},
    **{
        ("cache folder", how): spoilt_cache(how)
        for how in (*CACHES, "rubbish: a file", "unreadable", "slow", "dying: as it is opened")
    },
    ("cache folder", "absent: TMPDIR"): fixed(TMPDIR="/nonexistent"),
    ("cache folder", "unreadable: TMPDIR"): fixed(TMPDIR="/proc"),
    ("terminal", "absent"): fixed(TERM=None),
    ("terminal", "empty"): fixed(TERM="", COLUMNS="", LINES=""),
    ("terminal", "rubbish"): fixed(TERM="\x1b[2J", COLUMNS="-3", LINES="many", NO_COLOR=""),
    ("terminal", "huge"): fixed(COLUMNS="999999999999"),
    ("terminal", "lying"): fixed(
        FORCE_COLOR="1", CLICOLOR_FORCE="1", COLORTERM="truecolor", PY_COLORS="1", COLUMNS="1"
    ),
    ("clock", "rubbish: in 1970"): clock(60 * YEAR),
    ("clock", "lying: a year back"): clock(YEAR),
    ("clock", "huge: in 2090"): clock(-64 * YEAR),
    ("clock", "slow"): clock(how="slow"),
    ("clock", "hung: it stands"): clock(how="stands"),
    ("clock", "dying: it jumps"): clock(how="jumps"),
    ("locale", "absent"): fixed(LC_ALL=None, LANG=None),
    ("locale", "empty"): fixed(LC_ALL="", LANG=""),
    ("locale", "rubbish"): fixed(LC_ALL="xx_YY.nonsense", LANG="\xff"),
    ("locale", "huge"): fixed(LC_ALL="x" * 100_000),
    ("locale", "unreadable"): fixed(LC_ALL="de_DE.UTF-8", LOCPATH="/nonexistent"),
    ("locale", "lying: Turkish"): fixed(LC_ALL="tr_TR.UTF-8", LANG="tr_TR.UTF-8"),
    ("locale", "lying: ASCII"): fixed(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii"),
    **{
        ("locale", f"lying: {page}"): fixed(LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING=page)
        for page in ("cp437", "cp850", "cp1252", "cp932", "cp936", "utf-16")
    },
}
