"""What to run next is about the target that the caller named: gpuenv's own commands in a cure say so."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from gpuenv.cli import options
from gpuenv.cli.app import make_app
from gpuenv.data import data_path
from gpuenv.doctor.diagnose import Terms, diagnose
from gpuenv.doctor.fixes.adapt import ABOUT_A_TARGET, about, words_about
from gpuenv.matrix.load import load
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import Finding, Fix
from gpuenv.model.reading import known
from gpuenv.model.snapshot import CupyInstallation, Snapshot
from tests.cli.program import answer
from tests.cli.recorded import FIT, UNFIT, WITHOUT_GPU, record

MATRIX = load(data_path("matrix.yaml"))
NAMED = "an env/v12"
OTHERS = {"explain", "run", "lock", "bundle"}  # about a text or a program; made for another machine
HIDDEN = replace(FIT, environment={"CUDA_VISIBLE_DEVICES": "-1"}, visible_count=known(0, "libcuda"))
MISSPELT = replace(FIT, environment={"CUPY_ACCELERATORS": "cubb"})
NO_CUPY = replace(WITHOUT_GPU, target=replace(FIT.target, cupy=(), packages={}), pci_gpus=FIT.pci_gpus)
FROM_PYTHONPATH = replace(
    FIT,
    target=replace(FIT.target, cupy=(*FIT.target.cupy, CupyInstallation("cupy-cuda13x", "14.2.0", "/elsewhere"))),
    environment={"PYTHONPATH": "/elsewhere"},
)


def _findings(snapshot: Snapshot, python: str | None) -> tuple[Finding, ...]:
    resolution = resolve(snapshot, MATRIX)
    return diagnose(snapshot, MATRIX, resolution, lambda: 0.0, Terms(python=python)).findings


def _ours(fixes: tuple[Fix, ...]) -> list[str]:
    """Every command of ours that acts on a target, from words and from argv lists."""
    lines = [fix.text for fix in fixes] + [shlex.join(fix.command) for fix in fixes if fix.command]
    verbs = "|".join(ABOUT_A_TARGET)
    return [found for line in lines for found in re.findall(rf"gpuenv (?:{verbs})\b[^.;]*", line)]


@pytest.mark.parametrize(
    "snapshot", [HIDDEN, MISSPELT, NO_CUPY, FROM_PYTHONPATH, UNFIT, WITHOUT_GPU], ids=lambda _: "machine"
)
def test_each_names_the_target(snapshot: Snapshot) -> None:
    before = _findings(snapshot, None)
    after = _findings(snapshot, NAMED)
    assert [finding.code for finding in before] == [finding.code for finding in after]
    for finding in after:
        for command in _ours(finding.fix):
            assert f"--python {shlex.quote(NAMED)}" in command or "--python PATH" in command, finding.fix
    assert not any(NAMED in shlex.join(fix.command or ()) for finding in before for fix in finding.fix)


def test_such_commands_are_there() -> None:
    assert any(_ours(finding.fix) for finding in _findings(HIDDEN, NAMED))
    assert any(_ours(finding.fix) for finding in _findings(MISSPELT, NAMED))
    assert any("gpuenv install" in command for finding in _findings(NO_CUPY, NAMED) for command in _ours(finding.fix))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("env", "-u", "X", "gpuenv", "doctor"), ("env", "-u", "X", "gpuenv", "doctor", "--python", NAMED)),
        (
            ("gpuenv", "smoke", "--only", "fft.a", "-v"),
            ("gpuenv", "smoke", "--python", NAMED, "--only", "fft.a", "-v"),
        ),
        (("gpuenv", "explain", "no-driver"), ("gpuenv", "explain", "no-driver")),
        (("gpuenv", "install", "--python", "another"), ("gpuenv", "install", "--python", "another")),
        (("python", "-m", "pip", "install", "gpuenv"), ("python", "-m", "pip", "install", "gpuenv")),
    ],
)
def test_of_argv_lists(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    assert about((Fix("A cure.", before),), NAMED) == (Fix("A cure.", after),)
    assert about((Fix("A cure.", before),), None) == (Fix("A cure.", before),)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("install it: gpuenv install", "install it: gpuenv install --python v12"),
        (
            "gpuenv doctor --expect-no-gpu makes this a note.",
            "gpuenv doctor --python v12 --expect-no-gpu makes this a note.",
        ),
        ("name it: gpuenv doctor --python PATH", "name it: gpuenv doctor --python PATH"),
        ("gpuenv rollback --list shows them", "gpuenv rollback --python v12 --list shows them"),
        ("gpuenv doctor --list names the checks", "gpuenv doctor --list names the checks"),
        ("gpuenv smoke --list names them", "gpuenv smoke --list names them"),
        ("gpuenv explain tells of the cause", "gpuenv explain tells of the cause"),
        (
            "python -m venv NAME, then gpuenv install --python NAME.",
            "python -m venv NAME, then gpuenv install --python NAME.",
        ),
        (
            "gpuenv bundle there, gpuenv install --bundle here.",
            "gpuenv bundle there, gpuenv install --python v12 --bundle here.",
        ),
    ],
)
def test_of_words(before: str, after: str) -> None:
    assert words_about(before, "v12") == after
    assert words_about(before, None) == before


def _takes_a_target(hints: Iterable[object]) -> bool:
    """Python 3.10 makes what has None for its default optional."""
    return any(options.Python in (hint, *get_args(hint)) for hint in hints)


def test_every_command_that_takes_a_target_is_known() -> None:
    """A new command with --python is one of them, or one of the others."""
    app = make_app([])
    taking = {
        info.callback.__name__.replace("_", "-")
        for info in app.registered_commands
        if info.callback is not None and _takes_a_target(get_type_hints(info.callback, include_extras=True).values())
    }
    assert taking == {*ABOUT_A_TARGET, *OTHERS}


def test_the_program_says_it(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    hidden = ("--assume", "env.CUDA_VISIBLE_DEVICES=-1")
    again = ["env", "-u", "CUDA_VISIBLE_DEVICES", "gpuenv", "doctor", "--python", str(venv)]
    for command in ("doctor", "preflight"):
        _, told = answer(command, "--python", venv, "--no-probe", "--no-redact", *hidden)
        (finding,) = [entry for entry in told["findings"] if entry["code"] == "GPU202"]
        assert again in [fix["command"] for fix in finding["fix"]]
    recorded = record(HIDDEN, tmp_path / "recorded.json")
    _, told = answer("doctor", "--python", venv, "--snapshot", recorded)
    assert "GPU202" in {entry["code"] for entry in told["findings"]}
    assert str(venv) not in str(told["findings"])
