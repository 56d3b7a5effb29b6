"""The exit codes of each command: the table, every help, the page and the actual behaviour agree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuenv.model.exit_codes import ExitCode
from tests.cli.program import gpuenv

# The commands that use a code; every command may end with the other codes.
ENDS_IN: Mapping[ExitCode, tuple[str, ...]] = {
    ExitCode.UNFIT: (
        *("doctor", "preflight", "check-image", "explain", "matrix refresh"),
        *("fleet node", "fleet collect", "fleet report"),
    ),
    ExitCode.NOTHING_FITS: ("resolve", "install", "lock", "bundle", "build-image", "fleet resolve"),
    ExitCode.FAILED: ("install", "rollback", "lock", "bundle", "build-image", "doctor --fix"),
    ExitCode.SMOKE_FAILED: ("smoke",),
    ExitCode.TARGET_UNUSABLE: ("install", "rollback", "lock", "bundle", "build-image", "smoke", "doctor --fix"),
    ExitCode.COULD_NOT_CHECK: (
        *("doctor", "preflight", "check-image", "matrix refresh", "matrix update"),
        *("fleet node", "fleet collect", "fleet report"),
    ),
    ExitCode.RETRY_ELSEWHERE: ("preflight",),
}
PAGE = Path(__file__).parents[2] / "docs/reference/exit-codes.md"
ROWS = dict(
    re.findall(
        r"^\| (\d+) \| (.*) \|$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
)
COMMON_CODES = {ExitCode.OK, ExitCode.USAGE, ExitCode.MATRIX_INVALID}
COMMANDS = sorted({name.removesuffix(" --fix") for names in ENDS_IN.values() for name in names})


def test_the_page_has_every_code() -> None:
    assert {int(code) for code in ROWS} == set(ExitCode)


@pytest.mark.parametrize("code", ENDS_IN, ids=lambda code: code.name)
def test_the_page_names_the_commands_of_each_code(code: ExitCode) -> None:
    named_codes = {
        name.removesuffix(" --retry-elsewhere") for name in re.findall(r"`([a-z][\w -]*)`", ROWS[str(int(code))])
    }
    assert named_codes == set(ENDS_IN[code])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_the_codes_of_the_command(command: str) -> None:
    help_text = gpuenv(*command.split(), "--help").stdout
    passage = help_text.partition("Exit code:")[2].partition("\n\n")[0]
    named_codes = {int(code) for code in re.findall(r"(?<![\w-])(\d+)(?= \w)", passage)}
    expected_codes = {code for code, names in ENDS_IN.items() if command in names or f"{command} --fix" in names}
    assert named_codes - COMMON_CODES == expected_codes, passage
    assert 0 in named_codes


@pytest.mark.parametrize("command", ["run", "simulate"])
def test_run_and_simulate_end_in_the_code_of_their_command(command: str) -> None:
    help_text = " ".join(gpuenv(command, "--help").stdout.split()).partition("Exit code: ")[2]
    sentence = "as in a shell: 127 if it is not found, 126 if it cannot be run"
    assert sentence in help_text
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"`run` and `simulate` end in the code of their command, {sentence}, 128 and the number" in text
    machine = ["no-gpu"] if command == "simulate" else []
    assert gpuenv(command, *machine, "--", "no-such-command").returncode == 127
    assert gpuenv(command, *machine, "--", "/etc/passwd").returncode == 126
    assert gpuenv(command, *machine, "--", "sh", "-c", "kill -9 $$").returncode in (128 + 9, -9)


@pytest.mark.parametrize("call", ["install --yes", "rollback", "rollback --list", "lock", "bundle -o b.tar", "smoke"])
def test_an_unusable_target_has_its_own_exit_code(call: str, tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    python.chmod(0o755)
    command, *options = call.split()
    assert command in ENDS_IN[ExitCode.TARGET_UNUSABLE]
    options = [str(tmp_path / word) if word.endswith(".tar") else word for word in options]
    result = gpuenv(command, "--python", python, *options)
    assert result.returncode == ExitCode.TARGET_UNUSABLE, result.stderr
    assert str(python) in result.stderr.replace("\n", "")
