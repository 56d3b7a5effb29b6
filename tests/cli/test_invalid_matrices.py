"""Matrices that cannot be read or are invalid: exit code 2 or 6, and a message with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuenv.data import data_path
from tests.cli.assertions import assert_refused


def test_an_invalid_row_is_reported_with_its_line(tmp_path: Path) -> None:
    lines = data_path("matrix.yaml").read_text(encoding="utf-8").splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.startswith("  - {branch: 545,")]
    lines[number - 1] = lines[number - 1].replace("cuda: '12.3'", "cuda: banana")
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text("\n".join(lines), encoding="utf-8")
    for command in (["matrix", "check"], ["matrix", "show"], ["doctor", "--no-probe"]):
        assert_refused(*command, "--matrix", matrix, names=[f"{matrix}: line {number}: "], code=6)


def test_an_unquoted_version_is_fixed_by_a_command(tmp_path: Path) -> None:
    matrix = tmp_path / "my matrix.yaml"
    text = data_path("matrix.yaml").read_text(encoding="utf-8")
    matrix.write_text(text.replace("cuda: '12.3'", "cuda: 12.3"), encoding="utf-8")
    command = f"\ngpuenv matrix check --fix --matrix '{matrix}'\n"
    assert_refused("matrix", "check", "--matrix", matrix, names=["must be quoted", command], code=6)


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
def test_a_file_that_is_not_a_matrix_is_reported_with_the_line(tmp_path: Path, text: str, line: int) -> None:
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(text, encoding="utf-8")
    assert_refused("matrix", "check", "--matrix", matrix, names=[f"{matrix}: line {line}: "], code=6)


@pytest.mark.parametrize("command", [["matrix", "check"], ["resolve", "--no-probe"], ["doctor", "--no-probe"]])
def test_a_missing_matrix_ends_in_2(tmp_path: Path, command: list[str]) -> None:
    assert_refused(*command, "--matrix", tmp_path / "missing.yaml", names=[f"{tmp_path}/missing.yaml: "])


def test_an_invalid_snapshot_takes_precedence_over_an_invalid_matrix(tmp_path: Path) -> None:
    (tmp_path / "matrix.yaml").write_text("", encoding="utf-8")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    files = ("--matrix", tmp_path / "matrix.yaml", "--snapshot", tmp_path / "broken.json")
    assert_refused("doctor", *files, names=["broken.json"])


@pytest.fixture
def invalid_matrix(tmp_path: Path) -> Path:
    path = tmp_path / "invalid.yaml"
    path.write_text("schema: none\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "arguments", [["explain", "DRV106"], ["explain", "no-driver"], ["run"], ["resolve", "--no-probe"]], ids=" ".join
)
def test_an_invalid_matrix_ends_in_6_for_every_command(invalid_matrix: Path, arguments: list[str]) -> None:
    command = ["--", "true"] if arguments == ["run"] else []
    assert_refused(*arguments, "--matrix", invalid_matrix, *command, names=["the matrix is invalid"], code=6)


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_a_usage_error_takes_precedence_over_an_invalid_matrix(
    invalid_matrix: Path, arguments: list[str], message: str
) -> None:
    assert_refused(*arguments, "--matrix", invalid_matrix, names=[message])
