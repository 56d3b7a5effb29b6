"""Imports of each command: expensive modules only if used, measured with -X importtime."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import MINIMAL
from tests.cli.recorded import FIT, record

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = {"yaml", "rich", "pynvml", "docker", "pydantic", "requests", "numpy", "cupy"}


def imported(
    arguments: list[str], codes: set[int], environment: dict[str, str] | None = None, folder: Path | None = None
) -> set[str]:
    """The top-level modules and packages that a call of the program imports."""
    command = [sys.executable, "-X", "importtime", "-m", "gpuenv", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={**MINIMAL, **(environment or {})},
    )
    assert done.returncode in codes, done.stderr[-2000:]
    modules = re.findall(r"^import time:\s+\d+ \|\s+\d+ \|\s*(\S+)$", done.stderr, re.MULTILINE)
    assert "sys" in modules or "site" in modules, "the interpreter tells its imports"
    return {module.partition(".")[0] for module in modules}


def test_the_version_is_told_without_the_application() -> None:
    assert imported(["--version"], {0}) & {*HEAVY, "typer", "click", "json", "packaging"} == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["doctor", "--help"],
        ["preflight", "--help"],
        ["resolve", "--help"],
        ["matrix", "--help"],
        ["smoke", "--help"],
        ["check-image", "--help"],
    ],
    ids=" ".join,
)
def test_help_is_told_without_the_work(arguments: list[str]) -> None:
    assert imported(arguments, {0}) & {*HEAVY, "packaging"} == set()


def test_a_usage_error_is_told_without_the_work() -> None:
    """Of the commands that ask this machine, the asking has begun by then."""
    assert imported(["rollback", "--no-such-option"], {2}) & {*HEAVY, "packaging"} == set()
    assert imported(["doctor", "--no-such-option"], {2}) & HEAVY == set()


def test_the_raw_facts_need_neither_the_matrix_nor_a_terminal(tmp_path: Path) -> None:
    """NVML is asked in a child: this process has no pynvml either."""
    arguments = ["probe", "--format", "json", "--timeout", "5", "--driver-root", str(tmp_path)]
    assert imported(arguments, {0}) & HEAVY == set()


@pytest.mark.parametrize(
    ("command", "form"),
    [(command, form) for command in ("doctor", "resolve", "preflight") for form in ("json", "text")]
    + [("preflight", form) for form in ("junit", "github", "gitlab", "sarif", "prometheus", "markdown", "html")],
)
def test_what_is_not_printed_on_a_terminal_needs_no_rich(tmp_path: Path, command: str, form: str) -> None:
    recording = record(FIT, tmp_path / "fit.json")
    assert imported([command, "--snapshot", str(recording), "--format", form], {0}) & (HEAVY - {"yaml"}) == set()


def test_explaining_needs_no_matrix() -> None:
    assert imported(["explain", "DRV106"], {0}) & HEAVY == set()
