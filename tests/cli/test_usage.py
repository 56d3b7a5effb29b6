"""Usage errors and unreadable input: exit code 2 or 6, and a message that names the problem."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpuenv.cli.command_errors import extra_command
from tests.cli.assertions import assert_refused
from tests.cli.program import gpuenv
from tests.cli.snapshots import FIT, write_snapshot

PYTHON = "'/my env/bin/python'"
PIP_INSTALL = f"{PYTHON} -m pip install" if find_spec("pip") else f"uv pip install --python {PYTHON}"


@pytest.fixture
def snapshot_file(tmp_path: Path) -> Path:
    return write_snapshot(FIT, tmp_path / "fit.json")


@pytest.mark.parametrize(
    ("arguments", "message"),
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
        (["explain"], "give a code"),
        (["matrix", "chekc"], "chekc"),
        (["help", "doctro"], "doctro"),
        (["doctor", "--no-probe", "--snapshot", "x.json"], "--snapshot and --no-probe"),
        (["doctor", "--timeout", "nan"], "--timeout"),
        (["install", "--install-timeout", "nan"], "--install-timeout"),
        (["smoke", "--burn-in", "nan"], "--burn-in"),
        (["preflight", "--wait", "nan"], "--wait"),
        (["build-image", "--print", "--no-probe", "--build-timeout", "nan"], "--build-timeout"),
        (["fleet", "node", "-o", "-", "--timeout", "nan"], "--timeout"),
        (["fleet", "collect", "--via", "ssh", "--nodes", "a", "--dry-run", "--wait", "nan"], "--wait"),
        (["fleet", "report", "none", "--quorum", "nan"], "--quorum"),
        (["run", "--format", "json", "--", "true"], "--format"),
        (["run", "-v", "--", "true"], "-v"),
        (["-v", "run", "--", "true"], "-v"),
        (["-v", "matrix", "update"], "-v"),
        (["--offline", "doctor"], "--offline"),
        (["-q"], "command"),
        (["run", "--nonsense", "--", "true"], "--nonsense"),
        (["run", "--nonsense=1", "true"], "--nonsense"),
        (["simulate", "-v", "no-gpu", "--", "true"], "-v"),
        (["simulate", "no-gpu", "--nonsense", "--", "true"], "--nonsense"),
        (["fleet", "collect"], "Missing option '--via'. Choose from: slurm, kubernetes, dask, ssh"),
    ],
    ids=" ".join,
)
def test_an_invalid_command_line_names_the_invalid_part(arguments: list[str], message: str) -> None:
    assert_refused(*arguments, names=[message])


@pytest.mark.parametrize("arguments", [[], ["matrix"]], ids=["gpuenv", "gpuenv matrix"])
def test_a_call_without_a_command_lists_the_commands(arguments: list[str]) -> None:
    result = gpuenv(*arguments)
    assert result.returncode in (0, 2)
    assert "Usage: gpuenv" in result.stdout + result.stderr
    assert "Commands:" in result.stdout + result.stderr


@pytest.mark.parametrize(
    "command", ["doctor", "preflight", "resolve", "probe", "explain", "schema", "matrix", "matrix check"]
)
def test_help_goes_to_standard_output(command: str) -> None:
    result = gpuenv(*command.split(), "-h" if command == "doctor" else "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"Usage: gpuenv {command}")


@pytest.mark.parametrize("command", ["", "doctor", "matrix", "matrix check"])
def test_help_as_a_command_prints_what_the_option_prints(command: str) -> None:
    result = gpuenv("help", *command.split())
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == gpuenv(*command.split(), "--help").stdout


@pytest.mark.parametrize("command", ["doctor --no-probe", "matrix check"])
def test_options_before_a_command_are_those_of_the_command(command: str) -> None:
    before, after = gpuenv("-v", "--no-color", *command.split()), gpuenv(*command.split(), "-v", "--no-color")
    assert before.returncode == after.returncode
    assert without_times(before.stdout) == without_times(after.stdout) != gpuenv(*command.split()).stdout


def without_times(text: str) -> str:
    return re.sub(r"\d+\.\d+ s\b", "", text)


def test_version_prints_one_line() -> None:
    for arguments in (["--version"], ["-V"], ["--version", "doctor"]):
        result = gpuenv(*arguments)
        assert (result.returncode, result.stderr) == (0, "")
        assert re.fullmatch(r"gpuenv \d+\.\d+\.\d+\S*\n", result.stdout)


# Assumptions.


@pytest.mark.parametrize(
    ("assumption", "message"),
    [
        ("drivr=580", "did you mean driver?"),
        ("driver", "KEY=VALUE"),
        ("driver=banana", "580"),
        ("gpu=No Such Card", "no GPU named 'No Such Card'"),
        ("gpu=RTX", "use the full name"),
    ],
)
def test_an_invalid_assumption_is_named(assumption: str, message: str) -> None:
    assert_refused("resolve", "--no-probe", "--assume", assumption, names=[f"--assume {assumption}", message])


@pytest.mark.parametrize("command", ["doctor", "probe"])
def test_an_unknown_assumption_is_refused_by_every_command(command: str) -> None:
    assert_refused(command, "--no-probe", "--assume", "drivr=580", names=["did you mean driver?"])


def test_assumptions_decide_and_are_reported() -> None:
    assumptions = ("os=linux", "arch=x86_64", "python=3.12", "driver=580", "gpu=H100", "libc=glibc-2.36")
    result = gpuenv("resolve", "--no-probe", *(part for text in assumptions for part in ("--assume", text)))
    assert result.returncode == 0
    assert "cupy-cuda13x" in result.stdout.splitlines()[0]
    assert "NVIDIA H100" in result.stdout


# Options that the answer does not need, and their precedence.

UNNEEDED_OPTIONS = (
    (["--snapshot", "nope.json"], "nope.json"),
    (["--assume", "drivr=580"], "did you mean driver?"),
    (["--assume", "gpu=No Such Card"], "No Such Card"),
    (["--python", "/nope"], "/nope"),
    (["--matrix", "nope.yaml"], "nope.yaml"),
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "message"), UNNEEDED_OPTIONS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
@pytest.mark.parametrize("subject", ["DRV106", "no-driver", "log"])
def test_options_that_an_explanation_does_not_need_are_validated(
    tmp_path: Path, subject: str, options: list[str], message: str
) -> None:
    (tmp_path / "log").write_text("nothing that is known\n", encoding="utf-8")
    assert_refused("explain", tmp_path / "log" if subject == "log" else subject, *options, names=[message])


@pytest.mark.parametrize(
    ("options", "message"), UNNEEDED_OPTIONS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_run_with_an_invalid_option_does_not_start_the_program(
    tmp_path: Path, options: list[str], message: str
) -> None:
    assert_refused("run", *options, "--", "touch", tmp_path / "ran", names=[message])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["doctor", "--no-probe", "--python", "/nope"], "/nope"),
        (["resolve", "--no-probe", "--python", "/nope"], "/nope"),
        (["doctor", "--no-probe", "--history", "/nope"], "--history /nope"),
        (["preflight", "--no-probe", "--no-config", "--history", "/nope"], "--history /nope"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_no_probe_does_not_need_are_validated(arguments: list[str], message: str) -> None:
    assert_refused(*arguments, names=[message])


@pytest.mark.parametrize("command", ["doctor", "resolve", "probe"])
def test_an_ignored_python_option_is_reported(command: str, snapshot_file: Path) -> None:
    """Otherwise the user takes the answer for one about that environment."""
    for option in (["--no-probe"], ["--snapshot", str(snapshot_file)]):
        result = gpuenv(command, *option, "--python", sys.executable)
        assert "gpuenv: --python is ignored: " in result.stderr
        assert gpuenv(command, *option).stderr == ""


def test_run_without_a_target_does_not_mention_one() -> None:
    program = "raise SystemExit('CUDA error: no kernel image is available for execution on the device')"
    result = gpuenv("run", "--no-probe", "--assume", "gpu=V100", "--", sys.executable, "-c", program)
    assert "what this failure means" in result.stderr
    assert "--python" not in result.stderr


def test_a_target_that_is_not_an_environment_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("folder", "missing"):
        path = tmp_path / name
        assert_refused("doctor", "--python", path, "--driver-root", tmp_path, names=[str(path)])


@pytest.mark.parametrize(
    ("output", "message"),
    [("missing/facts.json", "No such file"), ("file/facts.json", "Not a directory"), ("folder", "directory")],
)
def test_an_unwritable_output_file_is_named(tmp_path: Path, snapshot_file: Path, output: str, message: str) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    result = gpuenv("probe", "--snapshot", snapshot_file, "-o", tmp_path / output)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{tmp_path / output}: " in result.stderr
    assert message in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("mark", "command"),
    [
        ("uv-receipt.toml", "uv tool install 'gpuenv[image]'"),
        ("pipx_metadata.json", "pipx install --force 'gpuenv[image]'"),
        (None, f"{PIP_INSTALL} 'gpuenv[image]'"),
    ],
)
def test_an_extra_is_added_where_gpuenv_is_installed(tmp_path: Path, mark: str | None, command: str) -> None:
    if mark is not None:
        (tmp_path / mark).touch()
    assert extra_command("image", str(tmp_path), "/my env/bin/python") == command


@pytest.mark.parametrize("command", ["lock", "bundle", "build-image"])
def test_help_offers_only_supported_installers(command: str) -> None:
    """Commands for wheels do not support conda, but install does."""
    help_text = gpuenv(command, "--help").stdout
    assert "uv|pip" in help_text
    assert "conda" not in help_text.partition("--installer")[2].partition("]")[0]
    assert gpuenv(command, "--installer", "conda").returncode == 2
    assert "micromamba" in gpuenv("install", "--help").stdout
