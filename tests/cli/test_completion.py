"""Completion of values: the program is asked as the scripts of bash, zsh and fish ask it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from gpuenv.cli.app import COMMANDS
from gpuenv.cli.completion import ASSUMED_VALUES, check_codes, codes_and_causes
from gpuenv.cli.output import REPORT_FORMATS
from gpuenv.doctor.checks import all_checks
from gpuenv.image.rule_registry import all_rules
from gpuenv.matrix.assume import AssumeError, assume
from gpuenv.matrix.tables import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.snapshot import Snapshot
from gpuenv.smoke.tasks import GROUPS
from tests.cli.program import LIMIT, MINIMAL, gpuenv
from tests.cli.test_startup import HEAVY, imported_modules

SCRIPT = Path(sys.executable).with_name("gpuenv")
ON_PATH = {**MINIMAL, "PATH": f"{SCRIPT.parent}{os.pathsep}{MINIMAL['PATH']}"}
NO_DETECTION = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # the tests may not run in a shell
EMPTY = Matrix("", "", {}, (), (), (), (), (), ())


@cache
def bash_function() -> str:
    return gpuenv("--show-completion", "bash", environment=NO_DETECTION).stdout


def in_bash(line: str) -> list[str]:
    """What bash completes at the end of a line, by the function that the program installs."""
    words = line.split(" ")
    script = f"""
        {bash_function()}
        COMP_WORDS=({" ".join(map(shlex.quote, words))}) COMP_CWORD={len(words) - 1}
        _gpuenv_completion gpuenv
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    result = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", script],
        env=ON_PATH, capture_output=True, text=True, check=True, timeout=LIMIT,
    )  # fmt: skip
    assert result.stderr == ""
    return result.stdout.split()


def in_zsh(line: str) -> str:
    """The command that zsh evaluates for a line."""
    variables = {"_GPUENV_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}
    result = gpuenv(environment=variables)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def in_fish(line: str) -> list[list[str]]:
    """The values that fish offers for a line, each with its description."""
    variables = {
        "_GPUENV_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": line,
    }
    result = gpuenv(environment=variables)
    assert (result.returncode, result.stderr) == (0, "")
    return [row.split("\t") for row in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gpuenv doc", {"doctor"}),
        ("gpuenv ", set(COMMANDS)),
        ("gpuenv help pre", {"preflight"}),
        ("gpuenv -q doc", {"doctor"}),
        ("gpuenv -q -v doctor --only DRV106", {"DRV106"}),
        ("gpuenv --q", {"--quiet"}),
        ("gpuenv --no-c", {"--no-color"}),
        ("gpuenv simulate h200-5", {"h200-580"}),
        ("gpuenv explain DRV10", {check.code for check in all_checks() if check.code.startswith("DRV10")}),
        ("gpuenv explain no-dr", {"no-driver"}),
        ("gpuenv doctor --only DRV106", {"DRV106"}),
        ("gpuenv preflight --fail-on warn", {"warning"}),
        ("gpuenv smoke --fail-on SM", {check.code for check in all_checks() if check.reads_gpu_tests}),
        ("gpuenv smoke --fail-on DRV1", set()),
        ("gpuenv smoke ", set(GROUPS)),
        ("gpuenv smoke --only streams.or", {"streams.order"}),
        ("gpuenv doctor --format ", set(REPORT_FORMATS)),
        ("gpuenv preflight --format mark", {"markdown"}),
        ("gpuenv check-image --format sa", {"sarif"}),
        ("gpuenv probe --format js", {"json"}),
        ("gpuenv doctor --smoke d", {"deep"}),
        ("gpuenv resolve --assume driv", {"driver=", "driver=none", "driver-cuda="}),
        ("gpuenv schema reso", {"resolution"}),
        ("gpuenv install --installer u", {"uv"}),
        ("gpuenv matrix sh", {"show"}),
        ("gpuenv doctor --snapshot /tm", set()),  # bash itself completes files
    ],
)
def test_bash_completes_values(line: str, expected: set[str]) -> None:
    assert set(in_bash(line)) == expected


def test_zsh_shows_values_with_their_meaning() -> None:
    assert in_zsh("gpuenv explain no-dri") == (f"""_arguments '*: :(("no-driver":"{Cause.NO_DRIVER.sentence}"))'\n""")
    assert in_zsh("gpuenv doctor --snapshot ") == "_files\n"


def test_fish_shows_values_with_their_meaning() -> None:
    titles = {check.code: check.title for check in all_checks()}
    assert in_fish("gpuenv doctor --skip DRV106") == [["DRV106", titles["DRV106"]]]
    assert ["--smoke", "Also run GPU tests: quick (default), normal or deep."] in in_fish("gpuenv doctor --sm")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_after_install_completion(tmp_path: Path) -> None:
    environment = {**ON_PATH, "HOME": str(tmp_path)}
    lines = []
    for command in ("gpuenv --install-completion; true", "complete -C 'gpuenv explain no-dri'"):
        result = subprocess.run(
            ["fish", "-c", command], env=environment, capture_output=True, text=True, check=True, timeout=LIMIT
        )
        lines.append(result.stdout)
    assert (tmp_path / ".config/fish/completions/gpuenv.fish").is_file()
    assert lines[1] == f"no-driver\t{Cause.NO_DRIVER.sentence}\n"


def test_no_markup_is_read_in_a_description() -> None:
    """Typer would drop what stands in square brackets."""
    texts = dict(in_fish("gpuenv preflight --ti"))
    assert texts == {"--timeout": "Time limit, excluding --wait. [30; more with --smoke]"}


def test_codes_and_titles_are_those_of_the_registries() -> None:
    assert dict(check_codes()) == {check.code: check.title for check in all_checks()}
    everything = {check.code: check.title for check in all_checks()}
    everything |= {rule.code: rule.title for rule in all_rules()}
    assert dict(codes_and_causes()) == everything | {cause.value: cause.sentence for cause in Cause}


def test_the_keys_of_assume_are_all_that_there_are() -> None:
    with pytest.raises(AssumeError) as caught:
        assume(Snapshot(), ("nothing=1",), EMPTY)
    known = str(caught.value).rpartition("one of ")[2].rstrip(")").split(", ")
    assert set(known) == {*ASSUMED_VALUES, "env.NAME", "package.NAME"}


@pytest.mark.parametrize(
    "line",
    ["gpuenv doctor --assume d", "gpuenv explain D", "gpuenv simulate h", "gpuenv preflight --format ", "gpuenv d"],
)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_loads_no_matrix_and_no_check(shell: str, line: str) -> None:
    variables = {
        "_GPUENV_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS" if shell == "zsh" else "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    modules = imported_modules([], {0}, variables)
    assert "gpuenv.cli.completion" in modules
    assert modules & {*HEAVY, "packaging", "gpuenv.matrix", "gpuenv.doctor", "gpuenv.probe.session"} == set()


def test_completion_prints_no_notices() -> None:
    """A PATH with the current folder is announced by commands, not at every press of the Tab key."""
    variables = {"_GPUENV_COMPLETE": "complete_bash", "COMP_WORDS": "gpuenv do", "COMP_CWORD": "1"}
    path = os.pathsep.join([".", MINIMAL["PATH"]])
    result = gpuenv(environment={**variables, "PATH": path})
    assert (result.stdout, result.stderr) == ("doctor\n", "")
    assert "PATH: entries that are not absolute" in gpuenv("schema", "x", environment={"PATH": path}).stderr
