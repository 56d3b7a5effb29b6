"""Calls that cannot be understood and input that cannot be read: exit code 2 or 6, and a message that names it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.data import data_path
from tests.cli.program import gpuenv
from tests.cli.recorded import FIT, record

if TYPE_CHECKING:
    from collections.abc import Sequence

SMALLEST = '{"schema": "gpuenv.snapshot/1"}'


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return record(FIT, tmp_path / "fit.json")


def assert_refused(*arguments: str | Path, names: Sequence[str], code: int = 2) -> None:
    done = gpuenv(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert [name for name in names if name not in done.stderr] == [], done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--no-such-option"], "--no-such-option"),
        (["doctor", "--no-such-option"], "--no-such-option"),
        (["doctor", "--snapshto", "x"], "--snapshot"),
        (["doctor", "extra"], "extra"),
        (["doctro"], "doctro"),
        (["doctor", "--snapshot"], "--snapshot"),
        (["doctor", "--format", "yaml"], "--format"),
        (["probe", "--format", ""], "--format"),
        (["doctor", "--timeout", "soon"], "--timeout"),
        (["doctor", "--timeout", "0"], "--timeout"),
        (["doctor", "--timeout", "-1"], "--timeout"),
        (["doctor", "--timeout", "1e9"], "--timeout"),
        (["explain"], "CODE"),
        (["matrix", "chekc"], "chekc"),
        (["doctor", "--no-probe", "--snapshot", "x.json"], "--snapshot and --no-probe"),
        pytest.param(["doctor", "--timeout", "nan"], "--timeout"),
        (["run", "--format", "json", "--", "true"], "--format"),
        (["run", "-v", "--", "true"], "-v"),
        (["run", "--nonsense", "--", "true"], "--nonsense"),
        (["run", "--nonsense=1", "true"], "--nonsense"),
        (["simulate", "-v", "no-gpu", "--", "true"], "-v"),
        (["simulate", "no-gpu", "--nonsense", "--", "true"], "--nonsense"),
    ],
    ids=" ".join,
)
def test_a_call_that_cannot_be_understood_names_what_is_wrong(arguments: list[str], named: str) -> None:
    assert_refused(*arguments, names=[named])


@pytest.mark.parametrize("arguments", [[], ["matrix"]], ids=["gpuenv", "gpuenv matrix"])
def test_a_call_without_a_command_lists_the_commands(arguments: list[str]) -> None:
    done = gpuenv(*arguments)
    assert done.returncode in (0, 2)
    assert "Usage: gpuenv" in done.stdout + done.stderr
    assert "Commands:" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "command", ["doctor", "preflight", "resolve", "probe", "explain", "schema", "matrix", "matrix check"]
)
def test_help_goes_to_standard_output(command: str) -> None:
    done = gpuenv(*command.split(), "-h" if command == "doctor" else "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: gpuenv {command}")


def test_the_version_is_one_line() -> None:
    for arguments in (["--version"], ["--version", "doctor"]):
        done = gpuenv(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(r"gpuenv \d+\.\d+\.\d+\S*\n", done.stdout)


# Recordings.


@pytest.mark.parametrize("command", ["doctor", "resolve", "probe"])
def test_a_recording_that_is_not_there_is_named(tmp_path: Path, command: str) -> None:
    assert_refused(command, "--snapshot", tmp_path / "missing.json", names=[f"{tmp_path}/missing.json: No such file"])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n "schema": "gpuenv.snapshot/1",\n "host": {,\n}', 3),
        ('{\n\n\n "schema": }', 4),
        ("", 1),
        ("not json", 1),
        ("\ufeff" + SMALLEST, 1),
    ],
)
def test_broken_json_is_told_with_file_and_line(tmp_path: Path, text: str, line: int) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(text, encoding="utf-8")
    assert_refused("probe", "--snapshot", broken, names=[f"{broken}: line {line}: "])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"schema": "gpuenv.snapshot/2"}', "gpuenv.snapshot/1, found 'gpuenv.snapshot/2'"),
        ('{"schema": "gpuenv.resolution/1"}', "gpuenv.snapshot/1, found 'gpuenv.resolution/1'"),
        ('{"schema": 1}', "gpuenv.snapshot/1"),
        ("{}", "gpuenv.snapshot/1"),
        ("[]", "gpuenv.snapshot/1, found 'list'"),
        ("null", "gpuenv.snapshot/1"),
        ('"gpuenv.snapshot/1"', "gpuenv.snapshot/1"),
    ],
)
def test_another_schema_is_told_with_the_one_that_was_expected(tmp_path: Path, text: str, told: str) -> None:
    other = tmp_path / "other.json"
    other.write_text(text, encoding="utf-8")
    assert_refused("probe", "--snapshot", other, names=[f"{other}: ", told])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("host", []),
        ("host.os.value", 5),
        ("driver.version.value", "banana"),
        ("driver.module.value", "floating"),
        ("gpus", {}),
        ("gpus[0].memory_total.value", "80 GiB"),
        ("gpus[0].memory_total.value", True),
        ("environment.CUDA_PATH", 5),
        ("sources[0].state", "sleeping"),
        ("sources[0].duration", "long"),
        ("target.python.value", "3"),
    ],
)
def test_a_fact_of_the_wrong_kind_is_told_by_its_path(recording: Path, path: str, value: object) -> None:
    data = json.loads(recording.read_text(encoding="utf-8"))
    place = data
    *parents, last = re.findall(r"\w+", path)
    for name in parents:
        place = place[int(name) if name.isdigit() else name]
    place[int(last) if last.isdigit() else last] = value
    recording.write_text(json.dumps(data), encoding="utf-8")
    assert_refused("probe", "--snapshot", recording, names=[f"{recording}: line 1: {path}: "])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xff\xfe\x00", id="no text"),
        pytest.param(b"[" * 200_000, id="nested"),
        pytest.param(b'{"schema": "gpuenv.snapshot/1", "gpu_count": {"value": ' + b"9" * 5000 + b"}}", id="digits"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    assert_refused("probe", "--snapshot", path, names=[str(path)])


def test_a_folder_is_no_recording(tmp_path: Path) -> None:
    assert_refused("probe", "--snapshot", tmp_path, names=[f"{tmp_path}: "])


def test_a_report_holds_a_recording(tmp_path: Path, recording: Path) -> None:
    report = tmp_path / "report.json"
    assert gpuenv("doctor", "--snapshot", recording, "--format", "json", "-o", report).returncode == 0
    facts = [gpuenv("probe", "--snapshot", path, "--format", "json").stdout for path in (recording, report)]
    assert facts[0] == facts[1] != ""


def test_what_a_later_release_adds_to_a_recording_is_passed_over(recording: Path) -> None:
    data = json.loads(recording.read_text(encoding="utf-8"))
    data["added_later"] = {"some": "thing"}
    data["host"]["added_later"] = 1
    recording.write_text(json.dumps(data), encoding="utf-8")
    done = gpuenv("probe", "--snapshot", recording)
    assert (done.returncode, done.stderr) == (0, "")


# Assumptions.


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("drivr=580", "did you mean driver?"),
        ("driver", "KEY=VALUE"),
        ("driver=banana", "580"),
        ("gpu=No Such Card", "no GPU named 'No Such Card'"),
        ("gpu=RTX", "name it in full"),
    ],
)
def test_an_assumption_that_cannot_be_understood_is_named(given: str, told: str) -> None:
    assert_refused("resolve", "--no-probe", "--assume", given, names=[f"--assume {given}", told])


@pytest.mark.parametrize("command", ["doctor", "probe"])
def test_every_command_refuses_such_an_assumption(command: str) -> None:
    assert_refused(command, "--no-probe", "--assume", "drivr=580", names=["did you mean driver?"])


def test_assumptions_decide_and_are_told() -> None:
    given = ("os=linux", "arch=x86_64", "python=3.12", "driver=580", "gpu=H100", "libc=glibc-2.36")
    done = gpuenv("resolve", "--no-probe", *(part for text in given for part in ("--assume", text)))
    assert done.returncode == 0
    assert "cupy-cuda13x" in done.stdout.splitlines()[0]
    assert "NVIDIA H100" in done.stdout


# The matrix.


def test_a_fault_in_a_matrix_is_told_with_its_line(tmp_path: Path) -> None:
    lines = data_path("matrix.yaml").read_text(encoding="utf-8").splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.startswith("  - {branch: 535,")]
    lines[number - 1] = lines[number - 1].replace("cuda: 12.2", "cuda: banana")
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text("\n".join(lines), encoding="utf-8")
    for command in (["matrix", "check"], ["matrix", "show"], ["doctor", "--no-probe"]):
        assert_refused(*command, "--matrix", matrix, names=[f"{matrix}: line {number}: "], code=6)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("schema: gpuenv.matrix/1\nrevision: [\n", 3),
        ("schema: gpuenv.matrix/1\nschema: gpuenv.matrix/1\n", 2),
        ("schema: gpuenv.matrix/2\n", 1),
        ("", 1),
        ("just text\n", 1),
        ("schema: gpuenv.matrix/1\nrevision: &a [x]\nb: *a\n", 2),
        ("schema: gpuenv.matrix/1\nrevision: !!python/name:os.system x\n", 2),
    ],
)
def test_a_file_that_is_no_matrix_is_told_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(text, encoding="utf-8")
    assert_refused("matrix", "check", "--matrix", matrix, names=[f"{matrix}: line {line}: "], code=6)


@pytest.mark.parametrize("command", [["matrix", "check"], ["resolve", "--no-probe"], ["doctor", "--no-probe"]])
def test_a_matrix_that_is_not_there_is_input_that_cannot_be_read(tmp_path: Path, command: list[str]) -> None:
    assert_refused(*command, "--matrix", tmp_path / "missing.yaml", names=[f"{tmp_path}/missing.yaml: "])


def test_a_fault_of_usage_goes_before_one_of_the_matrix(tmp_path: Path) -> None:
    (tmp_path / "matrix.yaml").write_text("", encoding="utf-8")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    files = ("--matrix", tmp_path / "matrix.yaml", "--snapshot", tmp_path / "broken.json")
    assert_refused("doctor", *files, names=["broken.json"])


# What the answer turns out not to need, and what goes before what.

UNREAD = (
    (["--snapshot", "nope.json"], "nope.json"),
    (["--assume", "drivr=580"], "did you mean driver?"),
    (["--assume", "gpu=No Such Card"], "No Such Card"),
    (["--python", "/nope"], "/nope"),
    (["--matrix", "nope.yaml"], "nope.yaml"),
)


@pytest.mark.parametrize(
    ("given", "told"), UNREAD, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
@pytest.mark.parametrize("what", ["DRV106", "no-driver", "log"])
def test_what_an_explanation_does_without_is_read_all_the_same(
    tmp_path: Path, what: str, given: list[str], told: str
) -> None:
    (tmp_path / "log").write_text("nothing that is known\n", encoding="utf-8")
    assert_refused("explain", tmp_path / "log" if what == "log" else what, *given, names=[told])


@pytest.mark.parametrize(
    ("given", "told"), UNREAD, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_program_does_not_run_under_options_that_cannot_be_understood(
    tmp_path: Path, given: list[str], told: str
) -> None:
    assert_refused("run", *given, "--", "touch", tmp_path / "ran", names=[told])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["doctor", "--no-probe", "--python", "/nope"], "/nope"),
        (["resolve", "--no-probe", "--python", "/nope"], "/nope"),
        (["doctor", "--no-probe", "--history", "/nope"], "--history /nope"),
        (["preflight", "--no-probe", "--no-config", "--history", "/nope"], "--history /nope"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_a_machine_that_is_not_asked_has_no_use_for_is_read_all_the_same(arguments: list[str], told: str) -> None:
    assert_refused(*arguments, names=[told])


@pytest.fixture
def invalid(tmp_path: Path) -> Path:
    path = tmp_path / "invalid.yaml"
    path.write_text("schema: none\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "arguments", [["explain", "DRV106"], ["explain", "no-driver"], ["run"], ["resolve", "--no-probe"]], ids=" ".join
)
def test_an_invalid_matrix_is_6_wherever_it_is_named(invalid: Path, arguments: list[str]) -> None:
    command = ["--", "true"] if arguments == ["run"] else []
    assert_refused(*arguments, "--matrix", invalid, *command, names=["the matrix is invalid"], code=6)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["resolve", "--no-probe", "--assume", "drivr=580"], "did you mean driver?"),
        (["resolve", "--no-probe", "--assume", "driver"], "KEY=VALUE"),
        (["resolve", "--no-probe", "--assume", "gpu="], "KEY=VALUE"),
        (["resolve", "--no-probe", "--what-if", "driver"], "--what-if driver: expected"),
        (["resolve", "--no-probe", "--what-if", "drivr=580,590"], "--what-if drivr=580"),
        (["resolve", "--snapshot", "nope.json", "--snapshot", "nope2.json"], "nope.json"),
        (["doctor", "--no-probe", "--assume", "driver=banana"], "banana"),
        (["preflight", "--no-probe", "--assume", "os=plan9"], "linux"),
        (["explain", "DRV106", "--assume", "driver"], "KEY=VALUE"),
        (["explain", "DRV106", "--snapshot", "nope.json"], "nope.json"),
        (["check-image", "x", "--platform", "a/b/c/d"], "--platform"),
        (["check-image", "x", "--assume", "driver"], "KEY=VALUE"),
        (["check-image", "--dockerfile", "nope.Dockerfile"], "nope.Dockerfile"),
        (["check-image", "x", "--snapshot", "nope.json"], "nope.json"),
        (["build-image", "--print", "--cuda", "twelve"], "twelve"),
        (["build-image", "--print", "--label", "none"], "KEY=VALUE"),
        (["build-image", "--print", "--assume", "driver"], "KEY=VALUE"),
        (["lock", "--snapshot", "nope.json"], "nope.json"),
        (["install", "--locked", "nope.lock"], "nope.lock"),
        (["install", "--assume", "driver"], "KEY=VALUE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_goes_before_an_invalid_matrix(invalid: Path, arguments: list[str], told: str) -> None:
    assert_refused(*arguments, "--matrix", invalid, names=[told])


# The target, and where a result goes.


def test_a_target_that_is_no_environment_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for given in ("folder", "missing"):
        path = tmp_path / given
        assert_refused("doctor", "--python", path, "--driver-root", tmp_path, names=[str(path)])


@pytest.mark.parametrize(
    ("output", "told"),
    [("missing/facts.json", "No such file"), ("file/facts.json", "Not a directory"), ("folder", "directory")],
)
def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path, recording: Path, output: str, told: str) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    done = gpuenv("probe", "--snapshot", recording, "-o", tmp_path / output)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / output}: " in done.stderr
    assert told in done.stderr
    assert sorted(tmp_path.rglob("*")) == before
