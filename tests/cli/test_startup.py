"""Imports of each command: expensive modules only if used, measured with -X importtime."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpuenv.cli.output import FORMATS, RECORD_FORMATS
from tests.cli.program import MINIMAL
from tests.cli.snapshots import FIT, write_snapshot

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = {"yaml", "rich", "pynvml", "docker", "pydantic", "requests", "numpy", "cupy"}


def imported_modules(
    arguments: list[str], codes: set[int], environment: dict[str, str] | None = None, folder: Path | None = None
) -> set[str]:
    """The modules and packages that a call of the program imports."""
    command = [sys.executable, "-X", "importtime", "-m", "gpuenv", *arguments]
    result = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={**MINIMAL, **(environment or {})},
    )
    assert result.returncode in codes, result.stderr[-2000:]
    modules = re.findall(r"^import time:\s+\d+ \|\s+\d+ \|\s*(\S+)$", result.stderr, re.MULTILINE)
    assert "sys" in modules or "site" in modules, "the interpreter prints its imports"
    return {*modules, *(module.partition(".")[0] for module in modules)}


def test_version_imports_no_application() -> None:
    assert imported_modules(["--version"], {0}) & {*HEAVY, "typer", "click", "json", "packaging"} == set()


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
def test_help_imports_no_heavy_module(arguments: list[str]) -> None:
    assert imported_modules(arguments, {0}) & {*HEAVY, "packaging"} == set()


def test_a_usage_error_imports_no_heavy_module() -> None:
    """Commands that probe have started their probes before the command line is parsed."""
    assert imported_modules(["rollback", "--no-such-option"], {2}) & {*HEAVY, "packaging"} == set()
    assert imported_modules(["doctor", "--no-such-option"], {2}) & HEAVY == set()


def test_probing_to_json_imports_neither_yaml_nor_rich(tmp_path: Path) -> None:
    """NVML is called in a child process, so pynvml is not imported either."""
    arguments = ["probe", "--format", "json", "--timeout", "5", "--driver-root", str(tmp_path)]
    assert imported_modules(arguments, {0}) & HEAVY == set()


@pytest.mark.parametrize(
    "arguments",
    [
        *(["resolve", "--format", output_format] for output_format in RECORD_FORMATS),
        ["doctor"],
        ["preflight", *(f"--format={name}=report.{name}" for name in FORMATS), "--format=summary"],
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_output_in_a_pipe_imports_no_rich(tmp_path: Path, arguments: list[str]) -> None:
    snapshot_file = write_snapshot(FIT, tmp_path / "fit.json")
    modules = imported_modules([*arguments, "--snapshot", str(snapshot_file)], {0}, folder=tmp_path)
    assert modules & (HEAVY - {"yaml"}) == set()


def test_explaining_a_code_imports_no_yaml() -> None:
    assert imported_modules(["explain", "DRV106"], {0}) & HEAVY == set()
