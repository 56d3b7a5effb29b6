"""What surrounds the program spoilt in turn, for every command that needs no network: it works, or says why not.

Each call ends with the exit code that it has in sound surroundings, prints what it prints there, and no traceback.
Every outcome is in the table at the end of ``make test-faults``.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gpuenv
from gpuenv.data import data_path
from tests.cli.commands import Call, calls
from tests.cli.program import MINIMAL, PROGRAM
from tests.faults.cells import cell, cells
from tests.faults.ground import compiled
from tests.faults.spoiling import as_opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

pytestmark = pytest.mark.slow
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


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    folder = tmp_path_factory.mktemp("surroundings")
    found = Surroundings(folder, compiled("kill.c", folder), compiled("files.c", folder), calls(folder))
    for call in found.calls:
        found.sound[call.name] = found.run(call, {})
        assert found.sound[call.name].code == call.code, found.sound[call.name]
    return found


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
            MATRIX.get(how, _as_it_is)(home / ".local/share/gpuenv/matrix.yaml")
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


def _as_it_is(_: Path) -> None:
    pass


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
        for call in surroundings.calls[:2]:
            surroundings.run(call, {"XDG_CACHE_HOME": str(cache)})
        entries = [path for path in cache.rglob("*") if path.is_file()]
        assert entries
        for path in entries:
            ENTRIES.get(how, _as_it_is)(path)
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


def _swapped(path: Path) -> None:
    """The entry of another file: right in its form, and for something else."""
    head, _, body = path.read_text(encoding="utf-8").partition("\n")
    path.write_text(f"{head[:-1]}0\n{body}", encoding="utf-8")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


ENTRIES: dict[str, Callable[[Path], object]] = {
    "rubbish": lambda path: path.write_bytes(b"\xff\0["),
    "empty: empty entries": lambda path: path.write_bytes(b""),
    "huge": _endless,
    "hung": _fifo,
    "dying: cut in the middle": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "lying": _swapped,
    "lying: others may write": lambda path: path.chmod(0o666),
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
        for how in (*CACHES, "rubbish: a file", "unreadable", "slow", "dying: as it is opened", *ENTRIES)
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
# The matrix of the user's own that cannot be used is named, and the command does not go on with another one.
NO_MATRIX = (
    "rubbish",
    "huge",
    "hung",
    "empty: an empty matrix",
    "dying: cut in the middle",
    "lying: a matrix of nothing",
)


def comparable(done: Done, encoding: str = "utf-8") -> str:
    """What was printed, but for what differs from one run to the next."""
    text = done.stdout.decode(encoding, "replace")
    return "" if done.call.name.endswith("here") else text


def _named(text: str) -> set[str]:
    """What begins the lines of a help text: its options and commands, and a word of what stands beside."""
    return set(re.findall(r"^  (-[^ ,]+|[a-z-]+)", text, re.MULTILINE))


@pytest.mark.parametrize(("thing", "fault"), SPOILT, ids=[cell(thing, fault) for thing, fault in SPOILT])
def test_every_command(
    surroundings: Surroundings, tmp_path: Path, thing: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    variables = SPOILT[thing, fault](surroundings, tmp_path)
    outcomes: Counter[str] = Counter()
    for call in surroundings.calls:
        done = surroundings.run(call, variables)
        sound = surroundings.sound[call.name]
        if thing == "HOME" and fault in MATRIX and done.code != sound.code:
            assert "matrix.yaml" in done.stderr, "the matrix of the user's own that cannot be used is named"
        else:
            assert done.code == sound.code, f"{call.name}: {done.stderr}"
            told, usual = comparable(done, variables.get("PYTHONIOENCODING") or "utf-8"), comparable(sound)
            if variables.get("COLUMNS") == "1" and call.name == "--help":  # Typer shortens what stands beside the names
                assert _named(told) >= _named(usual) > set()
            else:
                assert told == usual, call.name
        assert "\x1b" not in done.stdout.decode("utf-8", "replace") + done.stderr
        outcomes[f"exit code {done.code}"] += 1
    record_property("told", [thing, fault, ", ".join(f"{count} x {name}" for name, count in sorted(outcomes.items()))])


def test_a_huge_working_folder_is_never_looked_through(surroundings: Surroundings, tmp_path: Path) -> None:
    """By the interpreter's own report of every folder that it lists."""
    for number in range(1000):
        (tmp_path / f"file-{number}.py").touch()
    program = (
        "import os, sys\n"
        f"here = {str(tmp_path)!r}\n"
        "def hook(event, details):\n"
        "    if event in ('os.listdir', 'os.scandir', 'glob.glob') and details and details[0] is not None:\n"
        "        place = os.path.realpath(os.fsdecode(details[0])) if not isinstance(details[0], int) else ''\n"
        "        if place == here: sys.stderr.write('LISTED ' + event + '\\n')\n"
        "sys.addaudithook(hook)\n"
        "from gpuenv.__main__ import main\n"
        "main()\n"
    )
    trial = program.replace("from gpuenv.__main__ import main\nmain()\n", "os.listdir('.')\n")
    for arguments, expected in (
        ((trial,), True),
        *(((program, *call.arguments), False) for call in surroundings.calls),
    ):
        done = subprocess.run(
            [PROGRAM[0], "-I", "-c", *arguments],
            env=MINIMAL, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=LIMIT,
        )  # fmt: skip
        assert ("LISTED" in done.stderr) == expected, (arguments[1:], done.stderr)


STREAMS = {f"unreadable: {name} is closed": name for name in ("stdin", "stdout", "stderr")}


@cells("terminal", STREAMS)
def test_a_stream_that_is_closed(
    surroundings: Surroundings, fault: str, record_property: Callable[[str, object], None]
) -> None:
    stream = STREAMS[fault]
    redirection = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-"}[stream]
    codes = Counter(
        surroundings.run(call, {}, "sh", "-c", f'exec "$@" {redirection}', "sh").code - call.code
        for call in surroundings.calls
        if stream != "stdout"
    )
    for call in surroundings.calls if stream == "stdout" else ():
        code = surroundings.run(call, {}, "sh", "-c", f'exec "$@" {redirection}', "sh").code
        assert code in (2, call.code), call.name
        codes[0] += 1
    assert set(codes) == {0}
    record_property("told", ["terminal", fault, f"{sum(codes.values())} calls as expected"])


def slowly(reader: IO[bytes]) -> None:
    """A terminal behind a bad line."""
    while reader.read(256):
        time.sleep(0.002)


def not_at_all(reader: IO[bytes]) -> None:
    """One that nobody looks at for a while."""
    time.sleep(1.0)
    while reader.read(65536):
        continue


def a_little(reader: IO[bytes]) -> None:
    """One that is closed after the first bytes."""
    reader.read(1)


READERS: dict[str, Callable[[IO[bytes]], None]] = {
    "slow": slowly,
    "hung: nobody reads for a while": not_at_all,
    "dying: it is closed in the middle": a_little,
}


@cells("terminal", READERS)
def test_a_reader(surroundings: Surroundings, fault: str, record_property: Callable[[str, object], None]) -> None:
    """Of a pipe that holds one page, so that the program waits for it."""
    outcomes: Counter[str] = Counter()
    for call in surroundings.calls:
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen(
            [*PROGRAM, *call.arguments],
            env={**MINIMAL, "HOME": str(surroundings.folder)}, cwd=surroundings.folder,
            stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(writing)
        with open(reading, "rb", buffering=0) as reader:  # noqa: PTH123 - a descriptor
            READERS[fault](reader)
        _, said = process.communicate(timeout=LIMIT)
        assert b"Traceback" not in said, said
        assert b"Broken pipe" not in said, said
        assert b"BrokenPipe" not in said, said
        # Whoever closes a pipe wants no more: the verdict's code, or the one of a program that SIGPIPE ended.
        late = (call.code, 141, -13) if fault.startswith("dying") else (call.code,)
        assert process.returncode in late, (call.name, process.returncode, said)
        outcomes[f"exit code {process.returncode}"] += 1
    record_property(
        "told", ["terminal", fault, ", ".join(f"{count} x {name}" for name, count in sorted(outcomes.items()))]
    )


def test_another_user_than_root(surroundings: Surroundings, record_property: Callable[[str, object], None]) -> None:
    """Nobody: without a home, a name that is known, or rights to anything."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    path = os.pathsep.join(
        [str(Path(gpuenv.__file__).parents[1]), *(entry for entry in sys.path if "site-packages" in entry)]
    )
    environment = {**MINIMAL, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    for python in (sys.executable, "/usr/bin/python3"):
        trial = [*nobody, python, "-c", "import gpuenv, typer, packaging; print(gpuenv.__file__)"]
        if subprocess.run(trial, env=environment, cwd="/", capture_output=True, check=False).returncode == 0:
            break
    else:
        pytest.skip("no interpreter and no package here that another user may read")
    for folder in (surroundings.folder, *surroundings.folder.parents):
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(folder.stat().st_mode | 0o055)
    for call in surroundings.calls:
        done = subprocess.run(
            [*nobody, python, "-m", "gpuenv", *call.arguments],
            env=environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=LIMIT,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == (7 if call.name == "rollback" else call.code), f"{call.name}: {done.stderr}"
    record_property("told", ["user", "not root", f"{len(surroundings.calls)} calls as expected"])
