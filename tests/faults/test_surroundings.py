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
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gpuenv
from gpuenv.model.exit_codes import ExitCode
from tests.cli.commands import calls
from tests.cli.program import MINIMAL, PROGRAM
from tests.faults.cells import cell, cells
from tests.faults.ground import compiled
from tests.faults.surroundings import LIMIT, SPOILT, Done, Surroundings

if TYPE_CHECKING:
    from typing import IO

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    folder = tmp_path_factory.mktemp("surroundings")
    found = Surroundings(folder, compiled("kill.c", folder), compiled("files.c", folder), calls(folder))
    for call in found.calls:
        found.sound[call.name] = found.run(call, {})
        assert found.sound[call.name].code == call.code, found.sound[call.name]
    return found


# A matrix of the user's own that is no older than the shipped one is taken, whatever else is wrong with it: how the
# commands end that need one.
TAKEN = {
    ("HOME", "dying: as it is opened"): ExitCode.USAGE,
    ("HOME", "dying: cut in the middle"): ExitCode.MATRIX_INVALID,
    ("HOME", "lying: a matrix of nothing"): ExitCode.MATRIX_INVALID,
}


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
    spoilt = 0
    for call in surroundings.calls:
        done = surroundings.run(call, variables)
        sound = surroundings.sound[call.name]
        if (thing, fault) in TAKEN and done.code != sound.code:
            assert done.code == TAKEN[thing, fault], f"{call.name}: {done.stderr}"
            assert ".local/share/gpuenv/matrix.yaml" in done.stderr
            assert "remove it" in done.stderr
            spoilt += 1
        else:
            assert done.code == sound.code, f"{call.name}: {done.stderr}"
            told, usual = comparable(done, variables.get("PYTHONIOENCODING") or "utf-8"), comparable(sound)
            if variables.get("COLUMNS") == "1" and call.name == "--help":  # Typer shortens what stands beside the names
                assert _named(told) >= _named(usual) > set()
            else:
                assert told == usual, call.name
        assert "\x1b" not in done.stdout.decode("utf-8", "replace") + done.stderr
        outcomes[f"exit code {done.code}"] += 1
    assert (spoilt > 0) == ((thing, fault) in TAKEN)
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
