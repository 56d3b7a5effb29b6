"""What scripts rely on: exit codes, one result on standard output, all else on standard error, and whole files."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpuenv.doctor.registry import all_checks
from gpuenv.model.causes import Cause
from gpuenv.model.reading import known
from tests.cli.program import MINIMAL, PROGRAM, answer, gpuenv
from tests.cli.recorded import EVERY, FIT, changed, record

SMALLEST = ("probe", "--no-probe", "--format", "json")
SIGPIPE = 128 + signal.SIGPIPE


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    return {name: record(snapshot, folder / f"{name}.json") for name, snapshot in EVERY.items()}


@cache
def said(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What the program says of a recording; it always says the same, so it is asked once."""
    return gpuenv(*arguments)


def told(*arguments: str | Path) -> tuple[int, Any]:
    """Exit code and JSON object, likewise."""
    done = said(*arguments, "--format", "json")
    return done.returncode, json.loads(done.stdout)


# Exit codes.


@pytest.mark.parametrize(
    ("name", "options", "code", "status"),
    [
        ("fit", [], 0, "fit"),
        ("unfit", [], 1, "unfit"),
        ("without-gpu", [], 1, "unfit"),
        ("without-gpu", ["--expect-no-gpu"], 0, "fit"),
        ("unfit", ["--expect-no-gpu"], 1, "unfit"),
        ("empty", [], 8, "unknown"),
    ],
)
def test_the_doctor_s_exit_code_is_the_verdict(
    recordings: dict[str, Path], name: str, options: list[str], code: int, status: str
) -> None:
    exit_code, report = told("doctor", "--snapshot", recordings[name], *options)
    assert (exit_code, report["exit_code"], report["status"]) == (code, code, status)
    assert report["schema"] == "gpuenv.report/1"
    assert sum(finding["primary"] for finding in report["findings"]) == (1 if status == "unfit" else 0)


def test_nothing_can_be_said_of_a_machine_that_was_not_asked() -> None:
    assert gpuenv("doctor", "--no-probe").returncode == 8


def test_an_error_goes_before_what_could_not_be_checked() -> None:
    assert gpuenv("doctor", "--no-probe", "--assume", "gpu=none").returncode == 1


@pytest.mark.parametrize(("name", "code"), [("fit", 0), ("without-gpu", 3), ("empty", 0)])
def test_resolving_ends_in_0_or_in_3(recordings: dict[str, Path], name: str, code: int) -> None:
    exit_code, resolution = told("resolve", "--snapshot", recordings[name])
    assert exit_code == code
    assert (resolution["wheel"] is None) == (code == 3)
    assert resolution["schema"] == "gpuenv.resolution/1"


def test_a_valid_matrix_is_0() -> None:
    done = gpuenv("matrix", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("valid: ")


@pytest.mark.parametrize("name", ["report", "snapshot", "resolution", "matrix", "smoke", "gpuenv.report/1"])
def test_every_output_has_a_schema(name: str) -> None:
    done = gpuenv("schema", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert isinstance(json.loads(done.stdout), dict)


def test_a_schema_that_is_not_there_is_usage() -> None:
    done = gpuenv("schema", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing" in done.stderr


# Text and JSON.


@pytest.mark.parametrize("name", EVERY)
def test_text_and_json_say_the_same(recordings: dict[str, Path], name: str) -> None:
    code, report = told("doctor", "--snapshot", recordings[name])
    text = said("doctor", "--snapshot", recordings[name])
    assert text.returncode == code
    assert f"exit code {code}" in text.stdout
    word = {"fit": "FIT:", "unfit": "UNFIT:", "unknown": "UNKNOWN:"}[report["status"]]
    assert text.stdout.startswith(word)
    for finding in report["findings"]:
        assert f"{finding['code']} {finding['cause']}" in text.stdout
    if report["status"] == "unfit":
        (primary,) = [finding for finding in report["findings"] if finding["primary"]]
        cure = text.stdout.index("Cure this first\n")
        assert text.stdout[cure:].splitlines()[1].split() == [primary["code"], primary["cause"]]
        assert text.stdout.splitlines()[0] == f"UNFIT: {primary['title']}."


@pytest.mark.parametrize("name", EVERY)
def test_resolve_says_the_same_in_text_and_json(recordings: dict[str, Path], name: str) -> None:
    code, resolution = told("resolve", "--snapshot", recordings[name])
    text = said("resolve", "--snapshot", recordings[name])
    assert text.returncode == code
    assert text.stdout.startswith(resolution["explanation"].splitlines()[0])
    for requirement in (resolution["wheel"] or {}).get("requirements", []):
        assert requirement in text.stdout


def test_a_word_more_lists_every_check_with_its_state(recordings: dict[str, Path]) -> None:
    _, report = told("doctor", "--snapshot", recordings["without-gpu"])
    text = said("doctor", "--snapshot", recordings["without-gpu"], "-v").stdout
    for run in report["checks"]:
        assert f"  {run['code']} {run['status']}" in text
        assert run["reason"] is None or run["reason"] in text
    brief = said("doctor", "--snapshot", recordings["without-gpu"]).stdout
    skipped = [run["code"] for run in report["checks"] if run["status"] == "skipped"]
    assert skipped
    assert f"{skipped[0]} skipped" not in brief


def test_a_word_more_lists_every_candidate_that_was_rejected(recordings: dict[str, Path]) -> None:
    _, resolution = told("resolve", "--snapshot", recordings["unfit"])
    text = said("resolve", "--snapshot", recordings["unfit"], "--verbose").stdout
    assert resolution["rejected"]
    for entry in resolution["rejected"]:
        assert f"{entry['candidate']['name']}" in text
        assert entry["source"] in text
    assert len(text.splitlines()) > len(resolution["rejected"])


# Explanations.

_EACH = """
import json, sys
from gpuenv.cli.app import run
for what in json.loads(sys.argv[1]):
    print(chr(0) + what)
    print(chr(1), run(["explain", what]))
"""


def explained(words: list[str]) -> dict[str, str]:
    """What the program says of each word, asked in one process; each must end in 0."""
    command = [sys.executable, "-c", _EACH, json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=MINIMAL, timeout=30)
    assert done.stderr == ""
    said = dict(part.split("\n", 1) for part in done.stdout.split("\0")[1:])
    assert [word for word, text in said.items() if not text.endswith("\1 0\n")] == []
    return {word: text.removesuffix("\1 0\n") for word, text in said.items()}


def test_every_check_is_explained(recordings: dict[str, Path]) -> None:
    _, report = told("doctor", "--snapshot", recordings["fit"])
    codes = [run["code"] for run in report["checks"]]
    assert len(codes) > 20
    for code, text in explained(codes).items():
        assert text.startswith(f"{code}: ")
        for section in ("What it means: ", "How it is seen: ", "What to do: "):
            assert text.count(section) == 1
            assert len(text.split(section)[1].split("\n")[0]) > 20


def test_every_cause_is_explained() -> None:
    for cause, text in explained([cause.value for cause in Cause]).items():
        assert text.startswith(f"{cause}: ")
        assert len(text) > len(cause) + 20


def test_a_code_is_understood_in_any_case_and_names_its_causes() -> None:
    said = explained(["DRV106", "drv106", "no-driver", "NO-DRIVER"])
    assert said["DRV106"] == said["drv106"]
    assert said["no-driver"] == said["NO-DRIVER"]
    assert "no-driver" in said["DRV106"]
    assert "DRV106" in said["no-driver"]


@pytest.mark.parametrize(("given", "near"), [("DRV99", "drv"), ("no-drivers", "no-driver"), ("xyzzy", "")])
def test_a_word_that_is_no_code_and_no_cause_is_usage(given: str, near: str) -> None:
    done = gpuenv("explain", given)
    assert (done.returncode, done.stdout) == (2, "")
    assert given in done.stderr
    assert ("did you mean" in done.stderr) == bool(near)
    assert near in done.stderr


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
    assert "a fault of gpuenv" not in done.stderr


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


def test_a_program_started_without_standard_error_still_answers(recordings: dict[str, Path]) -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *PROGRAM, "probe", "--snapshot", str(recordings["fit"])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=MINIMAL, timeout=30)
    assert done.returncode == 0
    assert "NVIDIA A100" in done.stdout


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
    """But for the matrix in the form that is read fast, in the user's cache."""
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
    cache = tmp_path / "home/.cache"
    written = [path for path in sorted(tmp_path.rglob("*")) if path not in before]
    assert [path for path in written if path.parts[: len(cache.parts)] != cache.parts] == []
    assert [path.relative_to(cache).parts[:2] for path in written if path.is_file()] == [("gpuenv", "matrix")]


TWICE = """
import contextlib, io, os, sys
from gpuenv.cli.app import run
with contextlib.redirect_stdout(io.StringIO()):
    run(sys.argv[1:])  # as root, so that all is imported: another user may not read root's Python
os.setuid(54321)
sys.exit(run(sys.argv[1:]))
"""


def test_a_user_without_a_name_and_a_home_is_no_reason_to_fail() -> None:
    """A container may be started with any number for a user."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    environment = {name: value for name, value in MINIMAL.items() if name != "HOME"}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        recording = record(FIT, Path(folder) / "fit.json")
        command = [sys.executable, "-c", TWICE, "probe", "--snapshot", str(recording), "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["gpus"]


# Files.


def test_a_file_takes_the_place_of_standard_output(tmp_path: Path, recordings: dict[str, Path]) -> None:
    report = tmp_path / "report.json"
    for form in ("text", "json"):
        options = ("resolve", "--snapshot", recordings["fit"], "--format", form)
        done = gpuenv(*options, "-o", report)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert report.read_text(encoding="utf-8") == said(*options).stdout


def test_the_exit_code_is_the_verdict_where_a_file_is_written_too(tmp_path: Path, recordings: dict[str, Path]) -> None:
    done = gpuenv("doctor", "--snapshot", recordings["unfit"], "-o", tmp_path / "report.txt")
    assert done.returncode == 1


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """Who has the old one open goes on reading the old one."""
    path = tmp_path / "facts.json"
    path.write_text("what was there before", encoding="utf-8")
    with path.open(encoding="utf-8") as old:
        gpuenv(*SMALLEST, "-o", path)
        assert old.read() == "what was there before"
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == "gpuenv.snapshot/1"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text("what was there before", encoding="utf-8")
    command = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *PROGRAM, *SMALLEST, "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=MINIMAL, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{path}: cannot be written: " in done.stderr
    assert path.read_text(encoding="utf-8") == "what was there before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_relative_file_is_written_where_the_caller_is(tmp_path: Path) -> None:
    gpuenv(*SMALLEST, "-o", "facts.json", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["facts.json"]


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        gpuenv(*SMALLEST, "-o", pipe)
        assert stat.S_ISFIFO(pipe.lstat().st_mode)
        assert json.loads(os.read(reader, 1 << 20))["schema"] == "gpuenv.snapshot/1"
    finally:
        os.close(reader)


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("", encoding="utf-8")
    (tmp_path / "link.json").symlink_to("real.json")
    gpuenv(*SMALLEST, "-o", tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").stat().st_size > 0


def mode_after(path: Path, *arguments: str, umask: int = 0o022) -> int:
    """The rights of a file that a call writes."""
    command = ["sh", "-c", f'umask {umask:o}; exec "$@"', "sh", *PROGRAM, *arguments]
    subprocess.run(command, check=False, env=MINIMAL, timeout=30)
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o077, 0o022, 0o000])
def test_a_report_is_its_owner_s_alone(tmp_path: Path, recordings: dict[str, Path], umask: int) -> None:
    path = tmp_path / "facts.json"
    assert mode_after(path, *SMALLEST, "-o", str(path), umask=umask) == 0o600
    for form in ("text", "json", "html", "junit"):
        report = tmp_path / f"report.{form}"
        arguments = ("doctor", "--snapshot", str(recordings["unfit"]), "--format", f"{form}={report}")
        assert mode_after(report, *arguments, umask=umask) == 0o600, form


def test_what_is_made_for_others_has_the_rights_that_the_umask_leaves(
    tmp_path: Path, recordings: dict[str, Path]
) -> None:
    """The collector of the metrics is another user."""
    metrics = tmp_path / "gpu.prom"
    arguments = ("doctor", "--snapshot", str(recordings["unfit"]), "--format", f"prometheus={metrics}")
    assert mode_after(metrics, *arguments) == 0o644
    page = tmp_path / "matrix.html"
    assert mode_after(page, "matrix", "show", "--format", "html", "-o", str(page)) == 0o644


def test_a_file_that_is_there_keeps_its_rights(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text("", encoding="utf-8")
    path.chmod(0o640)
    assert mode_after(path, *SMALLEST, "-o", str(path)) == 0o640


# The network.

GUARD = """
import os, sys
def hook(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request"):
        with open(os.environ["TEST_NETWORK_LOG"], "a") as log:
            log.write(event + " " + repr(arguments[1:]) + "\\n")
sys.addaudithook(hook)
"""


def test_no_command_uses_the_network(tmp_path: Path, recordings: dict[str, Path]) -> None:
    guard, log, root = tmp_path / "guard", tmp_path / "log.txt", tmp_path / "root"
    guard.mkdir()
    root.mkdir()
    (guard / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
    environment = {"PYTHONPATH": str(guard), "TEST_NETWORK_LOG": str(log), "GPUENV_DRIVER_ROOT": str(root)}
    trial = f"import socket; socket.socket().connect_ex(('127.0.0.1', {_closed_port()}))"
    subprocess.run([sys.executable, "-c", trial], env={**MINIMAL, **environment}, check=True)
    assert log.read_text(encoding="utf-8").startswith("socket.connect "), "the guard sees a connection"
    log.unlink()
    for arguments in (
        ["doctor", "--timeout", "5", "--format", "json"],
        ["doctor", "--snapshot", str(recordings["unfit"])],
        ["explain", "no-driver"],
        ["matrix", "check"],
    ):
        gpuenv(*arguments, environment=environment)
        assert not log.exists(), f"{arguments}: {log.read_text(encoding='utf-8')}"


def _closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# What is assumed, and what is recorded.


def test_a_snapshot_is_replayed_with_the_same_verdict_and_the_same_words(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    environment = {"GPUENV_DRIVER_ROOT": str(tmp_path / "root")}
    facts = tmp_path / "facts.json"
    assert gpuenv("probe", "-o", facts, environment=environment).returncode == 0
    once = gpuenv("doctor", "--snapshot", facts)
    again = gpuenv("doctor", "--snapshot", facts, environment={"CUDA_VISIBLE_DEVICES": "-1", "CUDA_PATH": "/else"})
    assert (once.returncode, once.stdout) == (again.returncode, again.stdout)


def test_an_assumption_replaces_one_fact_of_a_recording(recordings: dict[str, Path]) -> None:
    code, report = answer("doctor", "--snapshot", recordings["fit"], "--assume", "driver=470")
    assert (code, report["status"]) == (1, "unfit")
    assert report["snapshot"]["driver"]["version"]["source"] == "assumed"
    assert "driver.version" in report["snapshot"]["assumed"]
    assert report["snapshot"]["gpus"][0]["name"]["source"] == "nvml"


def test_a_second_reading_of_a_recording_changes_nothing(tmp_path: Path) -> None:
    first = record(changed(FIT, gpu_count=known(1, "nvml")), tmp_path / "first.json")
    second = tmp_path / "second.json"
    gpuenv("probe", "--snapshot", first, "--no-redact", "-o", second)
    assert json.loads(second.read_text(encoding="utf-8")) == json.loads(first.read_text(encoding="utf-8"))


# Which checks run.


def test_checks_are_listed() -> None:
    done = said("doctor", "--list")
    assert done.returncode == 0
    assert len(re.findall(r"^[A-Z]{3}\d{3}  \S", done.stdout, re.MULTILINE)) == len(all_checks())
    for cause in Cause:
        named = any(cause in check.causes for check in all_checks())
        assert (cause.value in done.stdout) >= named


def test_a_check_that_is_left_out_is_skipped_and_said_to_be(recordings: dict[str, Path]) -> None:
    _, whole = told("doctor", "--snapshot", recordings["unfit"])
    primary = next(finding["code"] for finding in whole["findings"] if finding["primary"])
    _, report = told("doctor", "--snapshot", recordings["unfit"], "--skip", primary.lower())
    assert primary not in {finding["code"] for finding in report["findings"]}
    (run,) = [run for run in report["checks"] if run["code"] == primary]
    assert (run["status"], run["reason"]) == ("skipped", "left out, as was asked for")


def test_only_some_checks_run_with_those_that_they_need(recordings: dict[str, Path]) -> None:
    _, report = told("doctor", "--snapshot", recordings["fit"], "--only", "DRV103")
    ran = {run["code"] for run in report["checks"] if run["reason"] != "left out, as was asked for"}
    assert ran == {"DRV100", "DRV101", "DRV103"}


@pytest.mark.parametrize("option", ["--only", "--skip"])
def test_an_unknown_check_is_named(option: str) -> None:
    done = gpuenv("doctor", "--no-probe", option, "DRV1O2")
    assert done.returncode == 2
    assert "DRV1O2" in done.stderr
    assert "did you mean DRV1" in done.stderr
