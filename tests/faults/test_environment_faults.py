"""Every command that needs no network in faulty process environments.

Each call has the exit code and output that it has in a healthy environment, and no traceback. The table at the end of
``make test-faults`` lists every outcome.
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
from tests.faults.environment_faults import ENVIRONMENT_FAULTS, LIMIT, CommandRunner, CompletedCall
from tests.faults.fault_matrix import case_id, parametrize_faults
from tests.faults.healthy_machine import compile_library

if TYPE_CHECKING:
    from typing import IO

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> CommandRunner:
    folder = tmp_path_factory.mktemp("commands")
    created = CommandRunner(
        folder, compile_library("kill.c", folder), compile_library("files.c", folder), calls(folder)
    )
    for call in created.calls:
        created.expected[call.name] = created.run(call, {})
        assert created.expected[call.name].code == call.code, created.expected[call.name]
    return created


# The name of a collection, its start and a random part; the age of the matrix, by the clock.
_VARIABLE = re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b|, \d+ days? old")

# A user's matrix that is not older than the shipped one is used, even if it is invalid: exit codes of commands that
# need a matrix.
USER_MATRIX = {
    ("HOME", "dying: as it is opened"): ExitCode.USAGE,
    ("HOME", "dying: cut in the middle"): ExitCode.MATRIX_INVALID,
    ("HOME", "lying: a matrix of nothing"): ExitCode.MATRIX_INVALID,
}


def comparable(process: CompletedCall, encoding: str = "utf-8") -> str:
    """The output, without parts that differ between runs."""
    text = process.stdout.decode(encoding, "replace")
    return "" if process.call.name.endswith("here") else _VARIABLE.sub("", text)


def _names(text: str) -> set[str]:
    """The options and commands of a help text."""
    return set(re.findall(r"^  (-[^ ,]+|[a-z-]+(?=  |$))", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("thing", "fault"), ENVIRONMENT_FAULTS, ids=[case_id(thing, fault) for thing, fault in ENVIRONMENT_FAULTS]
)
def test_every_command_works_in_a_faulty_environment(
    runner: CommandRunner, tmp_path: Path, thing: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    variables = ENVIRONMENT_FAULTS[thing, fault](runner, tmp_path)
    outcomes: Counter[str] = Counter()
    rejected = 0
    for call in runner.calls:
        process = runner.run(call, variables)
        expected = runner.expected[call.name]
        if (thing, fault) in USER_MATRIX and process.code != expected.code:
            assert process.code == USER_MATRIX[thing, fault], f"{call.name}: {process.stderr}"
            is_in_report = call.name == "fleet node"
            message = process.stdout.decode("utf-8", "replace") if is_in_report else process.stderr
            assert ".local/share/gpuenv/matrix.yaml" in message
            assert "remove it" in message
            rejected += 1
        else:
            assert process.code == expected.code, f"{call.name}: {process.stderr}"
            output, usual = comparable(process, variables.get("PYTHONIOENCODING") or "utf-8"), comparable(expected)
            if variables.get("COLUMNS") == "1" and call.name in ("help", "--help"):  # Typer shortens descriptions
                assert _names(output) >= _names(usual) > set()
            else:
                assert output == usual, call.name
        assert "\x1b" not in process.stdout.decode("utf-8", "replace") + process.stderr
        outcomes[f"exit code {process.code}"] += 1
    assert (rejected > 0) == ((thing, fault) in USER_MATRIX)
    record_property(
        "outcome", [thing, fault, ", ".join(f"{count} x {name}" for name, count in sorted(outcomes.items()))]
    )


def test_a_huge_working_folder_is_never_listed(runner: CommandRunner, tmp_path: Path) -> None:
    """Checked with audit events of the interpreter for every folder that it lists."""
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
    listing = program.replace("from gpuenv.__main__ import main\nmain()\n", "os.listdir('.')\n")
    for arguments, expected in (
        ((listing,), True),
        *(((program, *call.arguments), False) for call in runner.calls),
    ):
        process = subprocess.run(
            [PROGRAM[0], "-I", "-c", *arguments],
            env=MINIMAL, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=LIMIT,
        )  # fmt: skip
        assert ("LISTED" in process.stderr) == expected, (arguments[1:], process.stderr)


STREAMS = {f"unreadable: {name} is closed": name for name in ("stdin", "stdout", "stderr")}


@parametrize_faults("terminal", STREAMS)
def test_every_command_works_with_a_closed_stream(
    runner: CommandRunner, fault: str, record_property: Callable[[str, object], None]
) -> None:
    stream = STREAMS[fault]
    redirection = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-"}[stream]
    codes = Counter(
        runner.run(call, {}, "sh", "-c", f'exec "$@" {redirection}', "sh").code - call.code
        for call in runner.calls
        if stream != "stdout"
    )
    for call in runner.calls if stream == "stdout" else ():
        code = runner.run(call, {}, "sh", "-c", f'exec "$@" {redirection}', "sh").code
        assert code in (2, call.code), call.name
        codes[0] += 1
    assert set(codes) == {0}
    record_property("outcome", ["terminal", fault, f"{sum(codes.values())} calls as expected"])


def read_slowly(reader: IO[bytes]) -> None:
    """A terminal with a slow connection."""
    while reader.read(256):
        time.sleep(0.002)


def read_late(reader: IO[bytes]) -> None:
    """A reader that waits for a while."""
    time.sleep(1.0)
    while reader.read(65536):
        continue


def read_one_byte(reader: IO[bytes]) -> None:
    """A reader that closes after the first byte."""
    reader.read(1)


READERS: dict[str, Callable[[IO[bytes]], None]] = {
    "slow": read_slowly,
    "hung: no reads for a while": read_late,
    "dying: it is closed in the middle": read_one_byte,
}


@parametrize_faults("terminal", READERS)
def test_every_command_works_with_a_slow_or_closing_reader(
    runner: CommandRunner, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """The reader of a pipe that holds one page, so that the program waits for it."""
    outcomes: Counter[str] = Counter()
    for call in runner.calls:
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen(
            [*PROGRAM, *call.arguments],
            env={**MINIMAL, "HOME": str(runner.folder)}, cwd=runner.folder,
            stdin=subprocess.DEVNULL, stdout=write_end, stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(write_end)
        with open(read_end, "rb", buffering=0) as reader:  # noqa: PTH123 - a descriptor
            READERS[fault](reader)
        _, stderr = process.communicate(timeout=LIMIT)
        assert b"Traceback" not in stderr, stderr
        assert b"Broken pipe" not in stderr, stderr
        assert b"BrokenPipe" not in stderr, stderr
        # After the pipe is closed: the verdict's exit code, or that of a program ended by SIGPIPE.
        allowed = (call.code, 141, -13) if fault.startswith("dying") else (call.code,)
        assert process.returncode in allowed, (call.name, process.returncode, stderr)
        outcomes[f"exit code {process.returncode}"] += 1
    record_property(
        "outcome", ["terminal", fault, ", ".join(f"{count} x {name}" for name, count in sorted(outcomes.items()))]
    )


def test_every_command_works_for_the_user_nobody(
    runner: CommandRunner, record_property: Callable[[str, object], None]
) -> None:
    """A user without a home, a known name, or any rights."""
    if os.geteuid() != 0:
        pytest.skip("only root can change its user")
    as_nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    path = os.pathsep.join(
        [str(Path(gpuenv.__file__).parents[1]), *(entry for entry in sys.path if "site-packages" in entry)]
    )
    environment = {**MINIMAL, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    for python in (sys.executable, "/usr/bin/python3"):
        trial = [*as_nobody, python, "-c", "import gpuenv, typer, packaging; print(gpuenv.__file__)"]
        if subprocess.run(trial, env=environment, cwd="/", capture_output=True, check=False).returncode == 0:
            break
    else:
        pytest.skip("no interpreter or package that another user may read")
    for folder in (runner.folder, *runner.folder.parents):
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(folder.stat().st_mode | 0o055)
    os.chown(runner.folder / "nodes", 65534, 65534)  # the reports of fleet node
    for call in runner.calls:
        process = subprocess.run(
            [*as_nobody, python, "-m", "gpuenv", *call.arguments],
            env=environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=LIMIT,
        )  # fmt: skip
        assert "Traceback" not in process.stderr, process.stderr
        assert process.returncode == (7 if call.name == "rollback" else call.code), f"{call.name}: {process.stderr}"
    record_property("outcome", ["user", "not root", f"{len(runner.calls)} calls as expected"])
