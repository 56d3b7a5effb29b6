"""The command lines that need no parser mean what they mean to Typer."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.cli.commands.doctor import doctor
from gpuenv.cli.doctoring import Wanted
from gpuenv.cli.plain import plain_doctor
from tests.cli.program import MINIMAL, PROGRAM, gpuenv
from tests.cli.test_startup import imported

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_not_given_is_as_typer_has_it() -> None:
    """But that Typer has None for a list of nothing."""
    given: dict[str, Any] = {name: entry.default for name, entry in inspect.signature(doctor).parameters.items()}
    assert list(given) == [field.name for field in fields(Wanted)]
    for name, default in given.items():
        assert getattr(Wanted(), name) == (() if default is None and name in {"assume", "only", "skip"} else default)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], Wanted()),
        (["--python", ".venv"], Wanted(python=".venv")),
        (["-v", "--python", "a b"], Wanted(python="a b", verbose=True)),
        (["--verbose", "--no-color"], Wanted(verbose=True, no_color=True)),
        (["-v", "--verbose"], Wanted(verbose=True)),
    ],
)
def test_plain_words_are_taken_for_what_they_are(words: list[str], wanted: Wanted) -> None:
    assert plain_doctor(["doctor", *words]) == wanted


@pytest.mark.parametrize(
    "words",
    [
        ["--python"],
        ["--python", ""],
        ["--python", "-v"],
        ["--python", "--"],
        ["--python", "a", "--python", "b"],
        ["--python=a"],
        ["--"],
        ["-"],
        ["there"],
        ["--help"],
        ["-vv"],
        ["--verb"],
        ["--format", "json"],
        ["--smoke"],
    ],
    ids=" ".join,
)
def test_all_other_words_are_typer_s(words: list[str]) -> None:
    assert plain_doctor(["doctor", *words]) is None


@pytest.mark.parametrize("arguments", [[], ["--version"], ["preflight"], ["probe"], ["Doctor"]])
def test_so_are_other_commands(arguments: list[str]) -> None:
    assert plain_doctor(arguments) is None


def said(*words: str, environment: dict[str, str]) -> tuple[int, str, str]:
    """Exit code and both outputs, without what differs from run to run."""
    done = gpuenv("doctor", *words, environment=environment)
    return done.returncode, re.sub(r"\d+\.\d+", "SECONDS", done.stdout), re.sub(r"#+|\d+\.\d+| +", " ", done.stderr)


@pytest.mark.parametrize("words", [[], ["--python", sys.executable], ["--python", "/nowhere"], ["--no-color"]])
def test_both_ways_say_the_same(words: list[str], tmp_path: Path) -> None:
    """A default that is written out changes nothing but who understands it; the driver root is told by a variable."""
    environment = {**MINIMAL, "GPUENV_DRIVER_ROOT": str(tmp_path), "HOME": str(tmp_path)}
    assert said(*words, environment=environment) == said(*words, "--redact", environment=environment)


def test_the_plain_way_imports_no_parser(tmp_path: Path) -> None:
    words = ["doctor", "--python", sys.executable]
    environment = {"GPUENV_DRIVER_ROOT": str(tmp_path)}
    assert imported(words, {0, 1, 8}, environment) & {"typer", "click", "argparse", "rich"} == set()
    assert "typer" in imported([*words, "--redact"], {0, 1, 8}, environment)


@pytest.mark.parametrize("words", [[], ["--redact"]], ids=["plain", "Typer"])
def test_without_standard_error_the_exit_code_is_the_same(words: list[str]) -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *PROGRAM, "doctor", "--python", "/nowhere", *words]
    done = subprocess.run(command, env=MINIMAL, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
