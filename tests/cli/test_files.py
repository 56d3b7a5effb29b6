"""Output files: atomic, at the named path, with the right permissions."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import MINIMAL, PROGRAM, gpuenv

SMALLEST = ("probe", "--no-probe", "--format", "json")


def test_a_file_takes_the_place_of_standard_output(tmp_path: Path, recordings: dict[str, Path]) -> None:
    report = tmp_path / "report.json"
    for form in ("text", "json"):
        options = ("resolve", "--snapshot", recordings["fit"], "--format", form)
        done = gpuenv(*options, "-o", report)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert report.read_text(encoding="utf-8") == gpuenv(*options).stdout


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


@pytest.mark.parametrize(
    ("words", "plain"),
    [
        (("resolve", "-o", "-"), ("resolve",)),
        (("resolve", "--format", "json", "--output=-"), ("resolve", "--format", "json")),
        (("preflight", "--format", "junit=-"), ("preflight", "--format", "junit")),
    ],
)
def test_a_dash_is_standard_output_and_no_file(
    words: tuple[str, ...], plain: tuple[str, ...], tmp_path: Path, recordings: dict[str, Path]
) -> None:
    told = gpuenv(*words, "--snapshot", recordings["fit"], cwd=tmp_path)
    usual = gpuenv(*plain, "--snapshot", recordings["fit"], cwd=tmp_path)
    assert told.returncode == usual.returncode
    assert told.stdout.splitlines()[0] == usual.stdout.splitlines()[0]
    assert len(told.stdout) == len(usual.stdout)
    assert not list(tmp_path.iterdir())
