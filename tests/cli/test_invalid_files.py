"""Files of the wrong kind: exit code 2, and a readable message."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.install_offers import read_lock
from gpuenv.cli.install_output import command_error
from gpuenv.cli.sources import read_snapshot
from gpuenv.data import data_path
from gpuenv.install.bundle import open_bundle
from gpuenv.install.exceptions import Unreadable
from gpuenv.simulate.profile import ProfileError
from gpuenv.simulate.profile import load as load_profile
from tests.cli.program import MINIMAL, PROGRAM, gpuenv, run_gpuenv

BINARY_DATA = bytes(range(128, 256)) * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["doctor", "--snapshot"], "not a snapshot in JSON: not a text in UTF-8"),
        (["resolve", "--no-probe", "--matrix"], "the matrix cannot be read: not a text in UTF-8"),
        (["smoke", "--compare"], "not a baseline in JSON: not a text in UTF-8"),
        (
            ["check-image"],
            (
                "not a tar file, or a damaged one\n"
                "expected an OCI layout (a folder or a tar file), or what docker save writes\n"
                "for a Dockerfile or a compose file: gpuenv check-image --dockerfile FILE\n"
            ),
        ),
        (["simulate"], "not a text in UTF-8"),
        (["doctor", "--config"], "not a text in UTF-8"),
        (["doctor", "--paste"], "no known output found\nsupported outputs: nvidia-smi, nvidia-smi -q"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_binary_file_is_reported_by_what_was_expected(tmp_path: Path, arguments: list[str], message: str) -> None:
    file = tmp_path / "binary"
    file.write_bytes(BINARY_DATA)
    command = ["--", "true"] if arguments == ["simulate"] else []
    result = gpuenv(*arguments, file, *command)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("gpuenv: ")
    assert f"binary: {message}" in result.stderr
    assert "--list-requirements" not in result.stderr, "a binary file is not a grammar problem"


@pytest.mark.parametrize(
    "option", [["doctor", "--snapshot"], ["smoke", "--compare"], ["doctor", "--config"]], ids=" ".join
)
def test_an_endless_file_is_refused_as_too_large(option: list[str]) -> None:
    result = gpuenv(*option, "/dev/zero")
    assert (result.returncode, result.stdout) == (2, "")
    assert "/dev/zero: too large for a " in result.stderr


@pytest.mark.parametrize("command", [["matrix", "check", "--matrix"], ["doctor", "--no-probe", "--matrix"]])
def test_an_endless_matrix_is_refused_as_too_large(command: list[str], tmp_path: Path) -> None:
    """With a cache and without one."""
    for cache in ("", str(tmp_path)):
        result = gpuenv(*command, "/dev/zero", environment={"XDG_CACHE_HOME": cache})
        assert (result.returncode, result.stdout) == (6, "")
        assert "/dev/zero: line 1: larger than 8388608 bytes, the limit of a matrix" in result.stderr


def test_an_endless_profile_is_refused_as_too_large() -> None:
    with pytest.raises(ProfileError, match="zero: larger than 8388608 bytes"):
        load_profile(Path("/dev/zero"))


def test_a_matrix_can_be_read_from_a_pipe(tmp_path: Path) -> None:
    """As from <(...) of a shell: a pipe can be read only once."""
    text = data_path("matrix.yaml").read_bytes()
    command = [*PROGRAM, "resolve", "--no-probe", "--assume", "driver=580.95.05", "--matrix", "/dev/stdin"]
    for home in (tmp_path, tmp_path / "none"):
        result = subprocess.run(
            command, input=text, capture_output=True, check=False, env={**MINIMAL, "HOME": str(home)}, timeout=60
        )
        assert b"cannot be read" not in result.stderr
        assert b"is invalid" not in result.stderr
        assert result.stdout.startswith(b"cupy-cuda")


def test_an_endless_lock_is_refused_as_too_large() -> None:
    with pytest.raises(CommandError, match="too large for a lock file"):
        read_lock(Path("/dev/zero"))


@pytest.mark.parametrize(("exists", "message"), [(False, "No such file"), (True, "not a tar file; expected a bundle")])
def test_a_file_that_is_not_a_bundle_is_a_usage_error(tmp_path: Path, *, exists: bool, message: str) -> None:
    file = tmp_path / "bundle.tar"
    if exists:
        file.write_bytes(BINARY_DATA)
    with pytest.raises(Unreadable) as raised:
        open_bundle(file, tmp_path)
    error = command_error(raised.value)
    assert (error.exit_code, error.message.startswith(f"{file}: {message}")) == (2, True), error.message


@pytest.mark.parametrize(
    ("major", "is_newer"), [("2", True), ("10", True), ("0", False), ("x", False), ("9" * 40, False)]
)
def test_a_snapshot_of_a_newer_release_suggests_an_upgrade(tmp_path: Path, major: str, *, is_newer: bool) -> None:
    file = tmp_path / "newer.json"
    file.write_text(json.dumps({"schema": f"gpuenv.snapshot/{major}"}), encoding="utf-8")
    result = gpuenv("doctor", "--snapshot", file)
    assert result.returncode == 2
    assert "expected an object with schema gpuenv.snapshot/1" in result.stderr
    assert ("upgrade gpuenv" in result.stderr) is is_newer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smoke", "--only", "blas.matmull"], "did you mean blas.matmul"),
        (["smoke", "--only", "nothing"], "gpuenv smoke --list names them"),
        (["smoke", "fftt"], "did you mean fft? one of kernels, blas,"),
        (["explain", "GPU999"], "did you mean GPU2"),
        (["explain", "no-drivr"], "did you mean no-driver"),
        (["matrix", "show", "--gpu", "nothing"], "no GPU named 'nothing' is known; did you mean "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unknown_name_is_reported_with_suggestions(arguments: list[str], message: str) -> None:
    result = gpuenv(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.parametrize("arguments", [[], ["matrix"], ["fleet"]], ids=["gpuenv", "gpuenv matrix", "gpuenv fleet"])
def test_the_descriptions_of_commands_are_not_truncated(arguments: list[str]) -> None:
    listed = gpuenv(*arguments, "--help").stdout.partition("\nCommands:\n")[2].splitlines()
    assert len(listed) >= 3
    assert [line for line in listed if not re.fullmatch(r"  [\w-]+ +\S.*[^.]\.", line)] == []


@pytest.mark.parametrize("arguments", [["--help"], ["resolve", "-h"], ["--show-completion", "bash"]], ids=" ".join)
def test_unwritable_help_is_not_an_internal_error(arguments: list[str]) -> None:
    """The shell is given, since the tests may not run under one."""
    environment = {**MINIMAL, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [*PROGRAM, *arguments]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        result = subprocess.run(
            command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert result.returncode == 2
    assert "standard output cannot be written: No space left" in result.stderr


def test_an_unreadable_startup_file_of_the_shell_is_unchanged(tmp_path: Path) -> None:
    settings = tmp_path / ".bashrc"
    settings.write_bytes(BINARY_DATA)
    result = run_gpuenv(
        ["--install-completion", "bash"],
        {**MINIMAL, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        30,
    )
    assert result.returncode == 2
    assert "cannot edit the startup files of your shell: not a text in UTF-8" in result.stderr
    assert settings.read_bytes() == BINARY_DATA


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", {"COMP_WORDS": "gpuenv resolve --why", "COMP_CWORD": "2"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "gpuenv resolve --why"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "gpuenv resolve --why", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_shells_complete_options(shell: str, words: dict[str, str]) -> None:
    result = run_gpuenv([], {**MINIMAL, "_GPUENV_COMPLETE": f"complete_{shell}", **words}, 30)
    assert (result.returncode, result.stderr) == (0, "")
    assert "--why-not" in result.stdout


@pytest.mark.parametrize(("spelling", "expected"), [("Windows", "windows"), ("macOS", "darwin"), ("Linux", "linux")])
def test_operating_systems_are_recognized_in_other_spellings(tmp_path: Path, spelling: str, expected: str) -> None:
    """In a snapshot written by hand, for example as ``platform.system()`` spells it."""
    path = tmp_path / "by-hand.json"
    host = {"os": {"value": spelling, "source": "by hand"}}
    path.write_text(json.dumps({"schema": "gpuenv.snapshot/1", "host": host}), encoding="utf-8")
    snapshot = read_snapshot(path)
    assert (snapshot.host.os.value, snapshot.host.os.source) == (expected, "by hand")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"host": 3}, "line 3: host: expected an object, found 3"),
        ({"gpus": [{}, {"index": {"value": "x"}}]}, "line 7: gpus[1].index.value: expected a whole number, found 'x'"),
        ({"environment": {"A.B": "x:{", "C": []}}, "line 5: environment.C: expected text, found []"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_value_of_the_wrong_type_is_reported_with_its_line(
    tmp_path: Path, fault: dict[str, object], message: str
) -> None:
    file = tmp_path / "odd.json"
    file.write_text(json.dumps({"schema": "gpuenv.snapshot/1", **fault}, indent=1), encoding="utf-8")
    result = gpuenv("doctor", "--snapshot", file)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"odd.json: {message}" in result.stderr


def test_control_characters_in_a_key_of_a_snapshot_are_escaped(tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    hostile_key = "\x1b[31mA\ngpuenv: all is well\u202e"
    file.write_text(json.dumps({"schema": "gpuenv.snapshot/1", "environment": {hostile_key: 5}}), encoding="utf-8")
    stderr = gpuenv("doctor", "--snapshot", file).stderr
    assert "environment.\\x1b[31mA\\x0agpuenv: all is well\\u202e: expected text, found 5" in stderr
    assert len(stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('"\\e[31mkey": 1\n', ["simulate", "./others", "--", "true"]),
        ('[[allow]]\ncode = "GPU\\u001b[31M"\nreason = "x"\nexpires = 2029-01-01\n', ["doctor", "--config", "others"]),
    ],
    ids=["profile", "configuration"],
)
def test_control_characters_quoted_in_a_message_are_escaped(tmp_path: Path, text: str, arguments: list[str]) -> None:
    (tmp_path / "others").write_text(text, encoding="utf-8")
    result = gpuenv(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert "\\x1b[31" in result.stderr
    assert "\x1b" not in result.stderr


def test_an_invalid_snapshot_in_a_report_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    text = json.dumps({"host": 1, "snapshot": {"schema": "gpuenv.snapshot/1", "host": 3}}, indent=1)
    file.write_text(text, encoding="utf-8")
    assert "report.json: line 5: host: expected an object" in gpuenv("doctor", "--snapshot", file).stderr


def test_an_invalid_baseline_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(json.dumps({"schema": "gpuenv.smoke/1", "tests": 3}, indent=1), encoding="utf-8")
    result = gpuenv("smoke", "--compare", file)
    assert result.returncode == 2
    assert "baseline.json: line 3: tests: expected a list" in result.stderr


TOO_LONG = "a" * 300  # for a name in any file system


@pytest.mark.parametrize(
    "arguments",
    [
        ["bundle", "-o", TOO_LONG],
        ["install", "--kernel", f"/{TOO_LONG}", "--dry-run"],
        ["install", "--locked", TOO_LONG, "--dry-run"],
        ["simulate", TOO_LONG, "--", "true"],
        ["simulate", "--print", f"./{TOO_LONG}"],
        ["check-image", "--dockerfile", TOO_LONG],
        ["check-image", "--dockerfile", "Dockerfile", "--context", TOO_LONG],
        ["diff", TOO_LONG, TOO_LONG],
        ["doctor", "--history", TOO_LONG],
        ["doctor", "--smoke", "quick", "-o", f"{TOO_LONG}/report.json"],
        ["preflight", "--smoke", "quick", "--format", f"junit={TOO_LONG}/report.xml"],
        ["smoke", "--save-baseline", f"{TOO_LONG}/baseline.json"],
        ["doctor", "--matrix", TOO_LONG, "--no-probe"],
    ],
    ids=lambda arguments: " ".join(word for word in arguments if TOO_LONG not in word),
)
def test_a_file_name_that_is_too_long_is_a_usage_error(tmp_path: Path, arguments: list[str]) -> None:
    """A file in a folder without permission fails in the same way."""
    (tmp_path / "Dockerfile").write_text("FROM python:3.12\n", encoding="utf-8")
    result = gpuenv(*arguments, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert TOO_LONG in result.stderr


def test_a_file_name_that_is_too_long_in_a_compose_file_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    text = f"services: {{a: {{build: {{context: ./{TOO_LONG}, dockerfile: {TOO_LONG}}}}}}}\n"
    file.write_text(text, encoding="utf-8")
    assert gpuenv("check-image", "--dockerfile", file).returncode == 0


def test_a_bundle_with_too_long_a_name_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="too long"):
        open_bundle(Path(TOO_LONG), tmp_path)


@pytest.mark.parametrize(("variables", "code"), [({}, 1), ({"BASE": "nvidia/cuda:12.9.1-devel-ubuntu24.04"}, 0)])
def test_a_build_argument_without_a_value_is_read_from_the_environment(
    tmp_path: Path, variables: dict[str, str], code: int
) -> None:
    file = tmp_path / "Dockerfile"
    text = "ARG BASE=nvidia/cuda:11.8.0-devel-ubuntu22.04\nFROM $BASE\nRUN pip install cupy-cuda12x==14.2.0\n"
    file.write_text(text, encoding="utf-8")
    result = gpuenv("check-image", "--dockerfile", file, "--build-arg", "BASE", environment=variables)
    assert result.returncode == code, result.stdout
