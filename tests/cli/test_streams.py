"""The result goes to standard output, everything else to standard error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import MINIMAL, PROGRAM, answer, gpuenv
from tests.cli.snapshots import FIT, replace_facts, write_snapshot

SIGPIPE = 128 + signal.SIGPIPE


# Streams.


@pytest.fixture
def hung_interpreter(tmp_path: Path) -> Path:
    """An interpreter that never answers and writes its process id to python3.pid."""
    path = tmp_path / "python3"
    path.write_text('#!/bin/sh\necho $$ > "$0.pid"\nexec sleep 300\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def process_id(interpreter: Path) -> int:
    """The process id of a hung interpreter, once it runs."""
    pid_file = interpreter.with_name(interpreter.name + ".pid")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if pid_file.exists() and pid_file.read_text(encoding="utf-8").strip():
            return int(pid_file.read_text(encoding="utf-8"))
        time.sleep(0.01)
    raise AssertionError("the interpreter was never started")


def has_ended(pid: int) -> bool:
    """Whether a process ends within two seconds; a zombie has ended."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_long_wait_is_announced_on_standard_error_alone(tmp_path: Path, hung_interpreter: Path) -> None:
    (tmp_path / "root").mkdir()
    options = ("--python", hung_interpreter, "--timeout", "2.4", "--driver-root", tmp_path / "root", "--format", "json")
    calls: list[tuple[list[str], dict[str, str]]]
    calls = [(["doctor"], {}), (["doctor", "-q"], {}), (["--quiet", "doctor"], {}), (["doctor"], {"GPUENV_QUIET": "1"})]
    with ThreadPoolExecutor() as pool:  # each waits for the target
        result, *quiet = pool.map(lambda call: gpuenv(*call[0], *options, environment=call[1]), calls)
    report = json.loads(result.stdout)
    assert "gpuenv: still waiting for target" in result.stderr
    states = {source["name"]: source["state"] for source in report["snapshot"]["sources"]}
    assert states["target"] == "timed-out"
    assert [(run.stderr, json.loads(run.stdout)["status"]) for run in quiet] == [("", report["status"])] * 3
    assert "target-environment-broken" in {finding["cause"] for finding in report["findings"]}
    assert has_ended(process_id(hung_interpreter))


def test_an_interrupted_command_ends_in_130_and_leaves_no_child(tmp_path: Path, hung_interpreter: Path) -> None:
    command = [
        *PROGRAM,
        "doctor",
        "--format",
        "json",
        "--python",
        str(hung_interpreter),
        "--driver-root",
        str(tmp_path),
    ]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=MINIMAL, start_new_session=True, **streams) as process:
        child = process_id(hung_interpreter)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=10)
    assert process.returncode == 130
    assert stdout == ""
    assert "Traceback" not in stderr
    assert has_ended(child)


def run_with_stdout(descriptor: int, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *arguments]
    environment = {**MINIMAL, **variables}
    return subprocess.run(
        command, stdout=descriptor, stderr=subprocess.PIPE, text=True, check=False, env=environment, timeout=30
    )


def run_with_closed_pipe(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the program with a pipe that nothing reads as standard output."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return run_with_stdout(writing, *arguments, **variables)
    finally:
        os.close(writing)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["probe", "--no-probe"],
        ["matrix", "show"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_closed_pipe_causes_no_traceback(arguments: list[str], unbuffered: str) -> None:
    result = run_with_closed_pipe(*arguments, PYTHONUNBUFFERED=unbuffered)
    assert "Traceback" not in result.stderr
    assert "BrokenPipeError" not in result.stderr


def test_a_closed_pipe_ends_in_the_code_of_sigpipe(snapshot_files: dict[str, Path]) -> None:
    """As in ``set -o pipefail; gpuenv doctor | head -1`` on a machine that is fit."""
    result = run_with_closed_pipe("doctor", "--snapshot", str(snapshot_files["fit"]))
    assert result.returncode == SIGPIPE


@pytest.mark.parametrize("arguments", [["--version"], ["probe", "--no-probe"]], ids=" ".join)
def test_a_program_without_standard_output_ends_without_a_traceback(arguments: list[str]) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, *arguments]
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, env=MINIMAL, timeout=30)
    assert "Traceback" not in result.stderr
    assert "internal error" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["probe", "--no-probe"],
        ["probe", "--no-probe", "--format", "json"],
    ],
    ids=" ".join,
)
def test_a_full_disk_is_reported_as_an_error(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        result = run_with_stdout(full.fileno(), *arguments)
    assert result.returncode not in (0, 1, 8)
    assert "No space left on device" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [["schema", "report"], ["--help"]], ids=" ".join)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_disk_that_becomes_full_is_reported_as_an_error(
    tmp_path: Path, arguments: list[str], unbuffered: str
) -> None:
    """The kernel writes what fits and reports success; ``ulimit -f`` counts blocks of 512 bytes."""
    command = ["sh", "-c", f'ulimit -f 1; exec "$@" > {tmp_path}/out', "sh", *PROGRAM, *arguments]
    environment = {**MINIMAL, "PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=30)
    assert result.returncode == 2
    assert result.stderr == "gpuenv: standard output cannot be written: File too large\n"


def test_a_full_disk_ends_in_2_without_standard_error() -> None:
    result = subprocess.run(
        ["sh", "-c", 'exec "$@" >/dev/full 2>&-', "sh", *PROGRAM, "--version"], check=False, timeout=30
    )
    assert result.returncode == 2


def test_a_program_without_standard_error_still_prints_its_result(snapshot_files: dict[str, Path]) -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *PROGRAM, "probe", "--snapshot", str(snapshot_files["fit"])]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=MINIMAL, timeout=30)
    assert result.returncode == 0
    assert "NVIDIA A100" in result.stdout


@pytest.mark.parametrize("standard_error", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("arguments", [["doctor", "--nonsense"], ["explain", "/nowhere"]], ids=" ".join)
def test_a_usage_error_ends_in_2_without_standard_error(arguments: list[str], standard_error: str) -> None:
    command = ["sh", "-c", f'exec "$@" {standard_error}', "sh", *PROGRAM, *arguments]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=MINIMAL, timeout=30)
    assert (result.returncode, result.stdout) == (2, b"")


# Unusual environments.

ACCENTED = replace_facts(FIT, environment={"CUPY_CACHE_DIR": "/srv/été/环境"})


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "no_SUCH.locale"},
    ],
    ids=lambda environment: " ".join(f"{name}={value}" for name, value in environment.items()),
)
def test_text_is_printed_in_every_encoding(tmp_path: Path, environment: dict[str, str]) -> None:
    snapshot_file = write_snapshot(ACCENTED, tmp_path / "accented.json")
    result = subprocess.run(
        [*PROGRAM, "probe", "--snapshot", str(snapshot_file)],
        capture_output=True,
        check=False,
        env={**MINIMAL, **environment},
        timeout=30,
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"environment.CUPY_CACHE_DIR: /srv/" in result.stdout


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "iso8859-7"])
def test_json_is_valid_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    snapshot_file = write_snapshot(ACCENTED, tmp_path / "accented.json")
    result = subprocess.run(
        [*PROGRAM, "probe", "--snapshot", str(snapshot_file), "--format", "json"],
        capture_output=True,
        check=False,
        env={**MINIMAL, "PYTHONIOENCODING": encoding},
        timeout=30,
    )
    assert result.returncode == 0
    assert json.loads(result.stdout.decode(encoding))["environment"] == ACCENTED.environment


UNDECODABLE = os.fsdecode(b"/srv/\xff/cache")


def test_an_undecodable_variable_is_printed(tmp_path: Path) -> None:
    environment = {"CUPY_CACHE_DIR": UNDECODABLE, "GPUENV_DRIVER_ROOT": str(tmp_path)}
    code, facts = answer("probe", "--timeout", "5", environment=environment)
    assert code == 0
    assert facts["environment"]["CUPY_CACHE_DIR"].startswith("/srv/")


def test_an_undecodable_variable_is_written_to_a_snapshot(tmp_path: Path) -> None:
    environment = {"CUPY_CACHE_DIR": UNDECODABLE, "GPUENV_DRIVER_ROOT": str(tmp_path / "root")}
    facts = tmp_path / "facts.json"
    result = gpuenv("probe", "--timeout", "5", "-o", facts, environment=environment)
    assert list(tmp_path.iterdir()) == [facts]
    assert (result.returncode, result.stderr) == (0, "")
    assert gpuenv("probe", "--snapshot", facts).returncode == 0


@pytest.mark.parametrize("home", [None, "", "/dev/null", "/proc"])
def test_a_home_directory_is_not_needed(snapshot_files: dict[str, Path], home: str | None) -> None:
    """/proc is a home directory that not even root can write to."""
    environment = {name: value for name, value in MINIMAL.items() if name != "HOME"}
    environment |= {} if home is None else {"HOME": home}
    command = [*PROGRAM, "probe", "--format", "json", "--snapshot", str(snapshot_files["fit"])]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=30)
    assert (result.returncode, result.stderr) == (0, "")


def test_diagnosing_writes_no_file(tmp_path: Path) -> None:
    for name in ("home", "here", "tmp", "root"):
        (tmp_path / name).mkdir()
    environment = {
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "GPUENV_DRIVER_ROOT": str(tmp_path / "root"),
    }
    before = sorted(tmp_path.rglob("*"))
    for arguments in (["doctor", "--timeout", "5"], ["matrix", "check"]):
        gpuenv(*arguments, environment=environment, cwd=tmp_path / "here")
    assert sorted(tmp_path.rglob("*")) == before


# The capability lets the other user read files of root, such as the interpreter of these tests.
AS_ANOTHER_USER = (
    *("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)


def test_a_user_without_a_name_and_a_home_can_run_a_command() -> None:
    """A container can be started with any user id."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    environment = {name: value for name, value in MINIMAL.items() if name != "HOME"}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        snapshot_file = write_snapshot(FIT, Path(folder) / "fit.json")
        command = [*AS_ANOTHER_USER, *PROGRAM, "probe", "--snapshot", str(snapshot_file), "--format", "json"]
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=30)
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["gpus"]
