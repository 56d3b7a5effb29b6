"""Output files: atomic, at the named path, with the right permissions."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import MINIMAL, PROGRAM, gpuenv

SHORT_COMMAND = ("probe", "--no-probe", "--format", "json")


def test_an_output_file_gets_what_standard_output_would_get(tmp_path: Path, snapshot_files: dict[str, Path]) -> None:
    report = tmp_path / "report.json"
    for output_format in ("text", "json"):
        options = ("resolve", "--snapshot", snapshot_files["fit"], "--format", output_format)
        result = gpuenv(*options, "-o", report)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
        assert report.read_text(encoding="utf-8") == gpuenv(*options).stdout


def test_the_exit_code_is_the_verdict_with_an_output_file(tmp_path: Path, snapshot_files: dict[str, Path]) -> None:
    result = gpuenv("doctor", "--snapshot", snapshot_files["unfit"], "-o", tmp_path / "report.txt")
    assert result.returncode == 1


def test_an_output_file_is_replaced_atomically(tmp_path: Path) -> None:
    """A reader of the old file still reads the old content."""
    path = tmp_path / "facts.json"
    path.write_text("former content", encoding="utf-8")
    with path.open(encoding="utf-8") as old:
        gpuenv(*SHORT_COMMAND, "-o", path)
        assert old.read() == "former content"
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == "gpuenv.snapshot/1"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_former_file(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text("former content", encoding="utf-8")
    command = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *PROGRAM, *SHORT_COMMAND, "-o", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=MINIMAL, timeout=30)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{path}: cannot be written: " in result.stderr
    assert path.read_text(encoding="utf-8") == "former content"
    assert list(tmp_path.iterdir()) == [path]


def test_a_relative_path_is_relative_to_the_working_directory(tmp_path: Path) -> None:
    gpuenv(*SHORT_COMMAND, "-o", "facts.json", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["facts.json"]


def test_a_named_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        gpuenv(*SHORT_COMMAND, "-o", pipe)
        assert stat.S_ISFIFO(pipe.lstat().st_mode)
        assert json.loads(os.read(reader, 1 << 20))["schema"] == "gpuenv.snapshot/1"
    finally:
        os.close(reader)


def test_a_symbolic_link_is_kept_and_its_target_written(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("", encoding="utf-8")
    (tmp_path / "link.json").symlink_to("real.json")
    gpuenv(*SHORT_COMMAND, "-o", tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").stat().st_size > 0


def mode_after(path: Path, *arguments: str, umask: int = 0o022) -> int:
    """The permissions of a file that a call writes."""
    command = ["sh", "-c", f'umask {umask:o}; exec "$@"', "sh", *PROGRAM, *arguments]
    subprocess.run(command, check=False, env=MINIMAL, timeout=30)
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o077, 0o022, 0o000])
def test_a_report_is_readable_only_by_its_owner(tmp_path: Path, snapshot_files: dict[str, Path], umask: int) -> None:
    path = tmp_path / "facts.json"
    assert mode_after(path, *SHORT_COMMAND, "-o", str(path), umask=umask) == 0o600
    reports = {name: tmp_path / f"report.{name}" for name in ("text", "json", "html", "junit")}
    formats = [f"--format={name}={report}" for name, report in reports.items()]
    mode_after(reports["text"], "doctor", "--snapshot", str(snapshot_files["unfit"]), *formats, umask=umask)
    assert {stat.S_IMODE(report.stat().st_mode) for report in reports.values()} == {0o600}


def test_metrics_and_pages_have_the_permissions_of_the_umask(tmp_path: Path, snapshot_files: dict[str, Path]) -> None:
    """The metrics collector runs as another user."""
    metrics = tmp_path / "gpu.prom"
    arguments = ("doctor", "--snapshot", str(snapshot_files["unfit"]), "--format", f"prometheus={metrics}")
    assert mode_after(metrics, *arguments) == 0o644
    page = tmp_path / "matrix.html"
    assert mode_after(page, "matrix", "show", "--format", "html", "-o", str(page)) == 0o644


def test_an_existing_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text("", encoding="utf-8")
    path.chmod(0o640)
    assert mode_after(path, *SHORT_COMMAND, "-o", str(path)) == 0o640


@pytest.mark.parametrize(
    ("with_dash", "without_dash"),
    [
        (("resolve", "-o", "-"), ("resolve",)),
        (("resolve", "--format", "json", "--output=-"), ("resolve", "--format", "json")),
        (("preflight", "--format", "junit=-"), ("preflight", "--format", "junit")),
    ],
)
def test_a_dash_as_output_is_standard_output(
    with_dash: tuple[str, ...], without_dash: tuple[str, ...], tmp_path: Path, snapshot_files: dict[str, Path]
) -> None:
    output = gpuenv(*with_dash, "--snapshot", snapshot_files["fit"], cwd=tmp_path)
    expected = gpuenv(*without_dash, "--snapshot", snapshot_files["fit"], cwd=tmp_path)
    assert output.returncode == expected.returncode
    assert output.stdout.splitlines()[0] == expected.stdout.splitlines()[0]
    assert len(output.stdout) == len(expected.stdout)
    assert not list(tmp_path.iterdir())
