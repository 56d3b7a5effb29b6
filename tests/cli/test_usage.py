"""Wrong usage and unreadable input: exit code 2 or 6, and a message that names the problem."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cli.program import gpuenv
from tests.cli.recorded import FIT, record
from tests.cli.refusals import assert_refused


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return record(FIT, tmp_path / "fit.json")


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


# Assumptions.


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("drivr=580", "did you mean driver?"),
        ("driver", "KEY=VALUE"),
        ("driver=banana", "580"),
        ("gpu=No Such Card", "no GPU named 'No Such Card'"),
        ("gpu=RTX", "use the full name"),
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


@pytest.mark.parametrize("command", ["doctor", "resolve", "probe"])
def test_that_a_target_is_not_asked_is_told(command: str, recording: Path) -> None:
    """Whoever names an environment takes the answer for one about it."""
    for option in (["--no-probe"], ["--snapshot", str(recording)]):
        done = gpuenv(command, *option, "--python", sys.executable)
        assert "gpuenv: --python is ignored: " in done.stderr
        assert gpuenv(command, *option).stderr == ""


def test_whoever_names_no_target_is_told_of_none() -> None:
    program = "raise SystemExit('CUDA error: no kernel image is available for execution on the device')"
    done = gpuenv("run", "--no-probe", "--assume", "gpu=V100", "--", sys.executable, "-c", program)
    assert "what this failure means" in done.stderr
    assert "--python" not in done.stderr


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


@pytest.mark.parametrize("command", ["lock", "bundle", "build-image"])
def test_no_help_offers_what_the_command_refuses(command: str) -> None:
    """Wheels are no business of conda's; for install it may be meant."""
    told = gpuenv(command, "--help").stdout
    assert "uv|pip" in told
    assert "conda" not in told.partition("--installer")[2].partition("]")[0]
    assert gpuenv(command, "--installer", "conda").returncode == 2
    assert "micromamba" in gpuenv("install", "--help").stdout
