"""Unreadable snapshots: exit code 2, and a message with file, line and expected value."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.program import gpuenv
from tests.cli.recorded import FIT, record
from tests.cli.refusals import assert_refused

SMALLEST = '{"schema": "gpuenv.snapshot/1"}'


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return record(FIT, tmp_path / "fit.json")


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
        ("\ufeff\ufeff" + SMALLEST, 1),  # one mark is an editor's, and is passed over: test_encodings.py
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
