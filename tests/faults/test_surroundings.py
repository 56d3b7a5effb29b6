"""What surrounds the program spoilt in turn, for every command that needs no network: it works, or says why not.

Each call ends with the exit code that it has in sound surroundings, prints what it prints there, and no traceback.
Every outcome is in the table at the end of ``make test-faults``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gpuenv
from gpuenv.data import data_path
from gpuenv.simulate.build import FLAGS
from tests.cli.commands import Call, calls
from tests.cli.program import MINIMAL, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
        calls: what is run.
        sound: what each call prints in sound surroundings.
    """

    folder: Path
    clock: Path
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


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    folder = tmp_path_factory.mktemp("surroundings")
    clock = folder / "clock.so"
    subprocess.run(["cc", *FLAGS, "-o", str(clock), str(data_path("native") / "kill.c")], check=True)
    found = Surroundings(folder, clock, calls(folder))
    for call in found.calls:
        found.sound[call.name] = found.run(call, {})
        assert found.sound[call.name].code == call.code, found.sound[call.name]
    return found


def spoilt_home(how: str) -> Callable[[Surroundings, Path], dict[str, str | None]]:
    """HOME, and with it the caches below it."""

    def variables(_: Surroundings, folder: Path) -> dict[str, str | None]:
        home = folder / "home"
        if how == "a file":
            home.write_text("", encoding="utf-8")
        elif how in ("unreadable", "rubbish", "huge", "hung"):
            (home / ".local/share/gpuenv").mkdir(parents=True)
            (home / ".cache/gpuenv").mkdir(parents=True)
            matrix = home / ".local/share/gpuenv/matrix.yaml"
            if how == "rubbish":
                matrix.write_bytes(bytes(range(256)))
            elif how == "huge":
                with matrix.open("wb") as file:
                    file.truncate(1 << 30)
            elif how == "hung":
                os.mkfifo(matrix)
            else:
                home.chmod(0)
        told = {
            "absent": str(folder / "nowhere"),
            "empty": "",
            "relative": "here",
            "not set": None,
            "read-only": "/proc",
        }
        return {"HOME": told.get(how, str(home)), "XDG_CACHE_HOME": None, "XDG_DATA_HOME": None}

    return variables


def spoilt_cache(how: str) -> Callable[[Surroundings, Path], dict[str, str | None]]:
    def variables(surroundings: Surroundings, folder: Path) -> dict[str, str | None]:
        cache = folder / "cache"
        if how == "a file":
            cache.write_text("", encoding="utf-8")
        elif how in ("rubbish", "cut in the middle"):
            for call in surroundings.calls[:2]:
                surroundings.run(call, {"XDG_CACHE_HOME": str(cache)})
            for path in (path for path in cache.rglob("*") if path.is_file()):
                content = path.read_bytes()
                path.write_bytes(b"\xff\0[" if how == "rubbish" else content[: len(content) // 2])
        told = {
            "absent": str(folder / "nowhere"),
            "empty": "",
            "relative": "here",
            "read-only": "/proc",
            "full": "/dev/full",
        }
        return {"XDG_CACHE_HOME": told.get(how, str(cache))}

    return variables


def fixed(**variables: str | None) -> Callable[[Surroundings, Path], dict[str, str | None]]:
    return lambda _surroundings, _folder: dict(variables)


def clock(seconds_back: int) -> Callable[[Surroundings, Path], dict[str, str | None]]:
    return lambda surroundings, _folder: {"LD_PRELOAD": str(surroundings.clock), "CLOCK_BACK": str(seconds_back)}


SPOILT: dict[tuple[str, str], Callable[[Surroundings, Path], dict[str, str | None]]] = {
    **{
        ("HOME", how): spoilt_home(how)
        for how in (
            *("absent", "empty", "relative", "not set", "read-only", "a file", "unreadable", "rubbish", "huge", "hung"),
        )
    },
    **{
        ("cache folder", how): spoilt_cache(how)
        for how in ("absent", "empty", "relative", "read-only", "full", "a file", "rubbish", "cut in the middle")
    },
    ("TMPDIR", "absent"): fixed(TMPDIR="/nonexistent"),
    ("TMPDIR", "read-only"): fixed(TMPDIR="/proc"),
    ("terminal", "absent"): fixed(TERM=None),
    ("terminal", "rubbish"): fixed(TERM="\x1b[2J", COLUMNS="-3", LINES="many", NO_COLOR=""),
    ("terminal", "huge"): fixed(COLUMNS="999999999999"),
    ("terminal", "lying"): fixed(
        FORCE_COLOR="1", CLICOLOR_FORCE="1", COLORTERM="truecolor", PY_COLORS="1", COLUMNS="1"
    ),
    ("clock", "in 1970"): clock(60 * YEAR),
    ("clock", "a year back"): clock(YEAR),
    ("clock", "in 2090"): clock(-64 * YEAR),
    ("locale", "absent"): fixed(LC_ALL=None, LANG=None),
    ("locale", "rubbish"): fixed(LC_ALL="xx_YY.nonsense", LANG="\xff"),
    ("locale", "Turkish"): fixed(LC_ALL="tr_TR.UTF-8", LANG="tr_TR.UTF-8"),
    ("locale", "ASCII"): fixed(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii"),
    **{
        ("code page", page): fixed(LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING=page)
        for page in ("cp437", "cp850", "cp1252", "cp932", "cp936", "utf-16")
    },
}


def comparable(done: Done, encoding: str = "utf-8") -> str:
    """What was printed, but for what differs from one run to the next."""
    text = done.stdout.decode(encoding, "replace")
    return "" if done.call.name.endswith("here") else text


@pytest.mark.parametrize(("thing", "fault"), SPOILT, ids=[f"{thing}-{fault}" for thing, fault in SPOILT])
def test_every_command(
    surroundings: Surroundings, tmp_path: Path, thing: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    variables = SPOILT[thing, fault](surroundings, tmp_path)
    outcomes: Counter[str] = Counter()
    for call in surroundings.calls:
        done = surroundings.run(call, variables)
        sound = surroundings.sound[call.name]
        if thing == "HOME" and fault in ("rubbish", "huge") and done.code != sound.code:
            assert "matrix.yaml" in done.stderr, "the matrix of the user's own that cannot be used is named"
        else:
            assert done.code == sound.code, f"{call.name}: {done.stderr}"
            encoding = (variables.get("PYTHONIOENCODING") or "utf-8") if thing == "code page" else "utf-8"
            assert comparable(done, encoding) == comparable(sound), call.name
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


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_stream_that_is_closed(
    surroundings: Surroundings, stream: str, record_property: Callable[[str, object], None]
) -> None:
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
    record_property("told", ["terminal", f"{stream} closed", f"{sum(codes.values())} calls as expected"])


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
