"""The manual page is that of the command line, and formats without warnings."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from gpuenv.model.exit_codes import ExitCode
from tests.cli.test_every_command import OPTIONS
from tools.man_page import EXIT_CODES, page

PAGE = Path(__file__).parents[2] / "man/gpuenv.1"


@pytest.mark.skipif(
    Version(version("typer")) < Version("0.26"), reason="typer before 0.26 formats arguments differently"
)
def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make man"


def test_the_page_has_every_command_and_exit_code() -> None:
    headings = re.findall(r"^\.SS gpuenv (.+) \[OPTIONS\]", page(), re.MULTILINE)
    assert {heading.replace("\\", "") for heading in headings} == set(OPTIONS)
    assert {code for code, _ in EXIT_CODES} == set(ExitCode) - {ExitCode.OUTPUT_CLOSED}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_page_formats_without_warnings() -> None:
    command = ["groff", "-man", "-ww", "-Tutf8", "-P-c", str(PAGE)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert result.stderr == ""
    text = " ".join(re.sub(r".\x08", "", result.stdout).split())  # bold is printed twice
    assert "gpuenv doctor [OPTIONS]" in text
    assert "--assume KEY=VALUE Assume a fact, such as driver=580.95.05 or gpu=H100." in text
