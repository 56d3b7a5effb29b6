"""The result goes to standard output, everything else to standard error, in any surroundings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import MINIMAL, PROGRAM, answer, gpuenv
from tests.cli.recorded import FIT, changed, record

SIGPIPE = 128 + signal.SIGPIPE


# Streams.


@pytest.fixture
def hung(tmp_path: Path) -> Path:
    """An interpreter that never answers; it notes the number of its process beside it."""
    path = tmp_path / "python3"
    path.write_text('#!/bin/sh\necho $$ > "$0.pid"\nexec sleep 300\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def started(interpreter: Path) -> int:
    """The process of a hung interpreter, once it runs."""
    note = interpreter.with_name(interpreter.name + ".pid")
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if note.exists() and note.read_text(encoding="utf-8").strip():
            return int(note.read_text(encoding="utf-8"))
        time.sleep(0.01)
    raise AssertionError("the interpreter was never started")


def gone(pid: int) -> bool:
    """Whether a process ends within a short time; a zombie of another parent has ended."""
    until = time.monotonic() + 2
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_long_wait_is_announced_on_standard_error_alone(tmp_path: Path, hung: Path) -> None:
    (tmp_path / "root").mkdir()
    options = ("--python", hung, "--timeout", "2.4", "--driver-root", tmp_path / "root", "--format", "json")
    done = gpuenv("doctor", *options)
    report = json.loads(done.stdout)
    assert "gpuenv: still waiting for target" in done.stderr
    states = {source["name"]: source["state"] for source in report["snapshot"]["sources"]}
    assert states["target"] == "timed-out"
    assert "target-environment-broken" in {finding["cause"] for finding in report["findings"]}
    assert gone(started(hung))


def test_an_interruption_ends_in_130_and_leaves_nothing_behind(tmp_path: Path, hung: Path) -> None:
    command = [*PROGRAM, "doctor", "--format", "json", "--python", str(hung), "--driver-root", str(tmp_path)]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=MINIMAL, start_new_session=True, **streams) as process:
        child = started(hung)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=10)
    assert process.returncode == 130
    assert said == ""
    assert "Traceback" not in complained
    assert gone(child)


def printing_to(descriptor: int, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *arguments]
    environment = {**MINIMAL, **variables}
    return subprocess.run(
        command, stdout=descriptor, stderr=subprocess.PIPE, text=True, check=False, env=environment, timeout=30
    )


def printing_to_nobody(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A call whose reader has gone before the first word."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return printing_to(writing, *arguments, **variables)
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
def test_a_closed_pipe_is_no_reason_for_a_traceback(arguments: list[str], unbuffered: str) -> None:
    done = printing_to_nobody(*arguments, PYTHONUNBUFFERED=unbuffered)
    assert "Traceback" not in done.stderr
    assert "BrokenPipeError" not in done.stderr


def test_a_closed_pipe_is_not_told_as_a_verdict(recordings: dict[str, Path]) -> None:
    """As in ``set -o pipefail; gpuenv doctor | head -1`` on a machine that is fit."""
    done = printing_to_nobody("doctor", "--snapshot", str(recordings["fit"]))
    assert done.returncode == SIGPIPE


@pytest.mark.parametrize("arguments", [["--version"], ["probe", "--no-probe"]], ids=" ".join)
def test_a_program_started_without_standard_output_ends_quietly(arguments: list[str]) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, env=MINIMAL, timeout=30)
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["probe", "--no-probe"],
        ["probe", "--no-probe", "--format", "json"],
    ],
    ids=" ".join,
)
def test_a_full_disk_is_told_and_is_no_success(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = printing_to(full.fileno(), *arguments)
    assert done.returncode not in (0, 1, 8)
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_has_a_code_of_its_own_though_it_cannot_be_told() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >/dev/full 2>&-', "sh", *PROGRAM, "--version"], check=False, timeout=30
    )
    assert done.returncode == 2


def test_a_program_started_without_standard_error_still_answers(recordings: dict[str, Path]) -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *PROGRAM, "probe", "--snapshot", str(recordings["fit"])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=MINIMAL, timeout=30)
    assert done.returncode == 0
    assert "NVIDIA A100" in done.stdout


@pytest.mark.parametrize("standard_error", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("arguments", [["doctor", "--nonsense"], ["explain", "/nowhere"]], ids=" ".join)
def test_a_wrong_word_is_a_usage_error_though_it_cannot_be_told(arguments: list[str], standard_error: str) -> None:
    command = ["sh", "-c", f'exec "$@" {standard_error}', "sh", *PROGRAM, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=MINIMAL, timeout=30)
    assert (done.returncode, done.stdout) == (2, b"")


# Environments in which programs fall over.

ACCENTED = changed(FIT, environment={"CUPY_CACHE_DIR": "/srv/été/环境"})


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
def test_text_is_printed_in_any_encoding(tmp_path: Path, environment: dict[str, str]) -> None:
    recording = record(ACCENTED, tmp_path / "accented.json")
    done = subprocess.run(
        [*PROGRAM, "probe", "--snapshot", str(recording)],
        capture_output=True,
        check=False,
        env={**MINIMAL, **environment},
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"environment.CUPY_CACHE_DIR: /srv/" in done.stdout


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "iso8859-7"])
def test_json_is_json_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    recording = record(ACCENTED, tmp_path / "accented.json")
    done = subprocess.run(
        [*PROGRAM, "probe", "--snapshot", str(recording), "--format", "json"],
        capture_output=True,
        check=False,
        env={**MINIMAL, "PYTHONIOENCODING": encoding},
        timeout=30,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout.decode(encoding))["environment"] == ACCENTED.environment


NO_TEXT = os.fsdecode(b"/srv/\xff/cache")


def test_a_variable_that_is_no_text_is_printed_all_the_same(tmp_path: Path) -> None:
    environment = {"CUPY_CACHE_DIR": NO_TEXT, "GPUENV_DRIVER_ROOT": str(tmp_path)}
    code, facts = answer("probe", "--timeout", "5", environment=environment)
    assert code == 0
    assert facts["environment"]["CUPY_CACHE_DIR"].startswith("/srv/")


def test_a_variable_that_is_no_text_is_recorded_all_the_same(tmp_path: Path) -> None:
    environment = {"CUPY_CACHE_DIR": NO_TEXT, "GPUENV_DRIVER_ROOT": str(tmp_path / "root")}
    facts = tmp_path / "facts.json"
    done = gpuenv("probe", "--timeout", "5", "-o", facts, environment=environment)
    assert list(tmp_path.iterdir()) == [facts]
    assert (done.returncode, done.stderr) == (0, "")
    assert gpuenv("probe", "--snapshot", facts).returncode == 0


@pytest.mark.parametrize("home", [None, "", "/dev/null", "/proc"])
def test_a_home_is_not_needed(recordings: dict[str, Path], home: str | None) -> None:
    """/proc stands for a home that nobody may write to, not even root."""
    environment = {name: value for name, value in MINIMAL.items() if name != "HOME"}
    environment |= {} if home is None else {"HOME": home}
    command = [*PROGRAM, "probe", "--format", "json", "--snapshot", str(recordings["fit"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_is_written_anywhere_unasked(tmp_path: Path) -> None:
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


# May read what is root's, as the Python of these tests may be.
AS_ANOTHER_USER = (
    *("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)


def test_a_user_without_a_name_and_a_home_is_no_reason_to_fail() -> None:
    """A container may be started with any number for a user."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    environment = {name: value for name, value in MINIMAL.items() if name != "HOME"}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        recording = record(FIT, Path(folder) / "fit.json")
        command = [*AS_ANOTHER_USER, *PROGRAM, "probe", "--snapshot", str(recording), "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["gpus"]
