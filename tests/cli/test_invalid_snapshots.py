"""Unreadable snapshots: exit code 2, and a message with file, line and expected value."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.assertions import assert_refused
from tests.cli.program import gpuenv
from tests.cli.snapshots import FIT, write_snapshot

SMALLEST = '{"schema": "gpuenv.snapshot/1"}'


@pytest.fixture
def snapshot_file(tmp_path: Path) -> Path:
    return write_snapshot(FIT, tmp_path / "fit.json")


@pytest.mark.parametrize("command", ["doctor", "resolve", "probe"])
def test_a_missing_snapshot_is_reported_with_its_path(tmp_path: Path, command: str) -> None:
    assert_refused(command, "--snapshot", tmp_path / "missing.json", names=[f"{tmp_path}/missing.json: No such file"])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n "schema": "gpuenv.snapshot/1",\n "host": {,\n}', 3),
        ('{\n\n\n "schema": }', 4),
        ("", 1),
        ("not json", 1),
        ("\ufeff\ufeff" + SMALLEST, 1),  # a single byte order mark is ignored: test_encodings.py
    ],
)
def test_invalid_json_is_reported_with_file_and_line(tmp_path: Path, text: str, line: int) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(text, encoding="utf-8")
    assert_refused("probe", "--snapshot", broken, names=[f"{broken}: line {line}: "])


@pytest.mark.parametrize(
    ("text", "message"),
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
def test_a_wrong_schema_is_reported_with_the_expected_one(tmp_path: Path, text: str, message: str) -> None:
    other = tmp_path / "other.json"
    other.write_text(text, encoding="utf-8")
    assert_refused("probe", "--snapshot", other, names=[f"{other}: ", message])


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
def test_a_fact_of_the_wrong_type_is_reported_by_its_path(snapshot_file: Path, path: str, value: object) -> None:
    data = json.loads(snapshot_file.read_text(encoding="utf-8"))
    parent = data
    *parents, last = re.findall(r"\w+", path)
    for name in parents:
        parent = parent[int(name) if name.isdigit() else name]
    parent[int(last) if last.isdigit() else last] = value
    snapshot_file.write_text(json.dumps(data), encoding="utf-8")
    assert_refused("probe", "--snapshot", snapshot_file, names=[f"{snapshot_file}: line 1: {path}: "])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xff\xfe\x00", id="not text"),
        pytest.param(b"[" * 200_000, id="nested"),
        pytest.param(b'{"schema": "gpuenv.snapshot/1", "gpu_count": {"value": ' + b"9" * 5000 + b"}}", id="digits"),
    ],
)
def test_a_file_that_is_not_a_snapshot_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    assert_refused("probe", "--snapshot", path, names=[str(path)])


def test_a_directory_is_not_a_snapshot(tmp_path: Path) -> None:
    assert_refused("probe", "--snapshot", tmp_path, names=[f"{tmp_path}: "])


def test_a_report_can_be_read_as_a_snapshot(tmp_path: Path, snapshot_file: Path) -> None:
    report = tmp_path / "report.json"
    assert gpuenv("doctor", "--snapshot", snapshot_file, "--format", "json", "-o", report).returncode == 0
    facts = [gpuenv("probe", "--snapshot", path, "--format", "json").stdout for path in (snapshot_file, report)]
    assert facts[0] == facts[1] != ""


def test_unknown_fields_of_a_later_release_are_ignored(snapshot_file: Path) -> None:
    data = json.loads(snapshot_file.read_text(encoding="utf-8"))
    data["added_later"] = {"some": "thing"}
    data["host"]["added_later"] = 1
    snapshot_file.write_text(json.dumps(data), encoding="utf-8")
    result = gpuenv("probe", "--snapshot", snapshot_file)
    assert (result.returncode, result.stderr) == (0, "")
