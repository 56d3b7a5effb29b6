"""Faulty conda programs: an install succeeds, or leaves the environment unchanged and reports why."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.fault_matrix import parametrize_faults
from tests.faults.file_faults import PROGRAM_FAULTS
from tests.install.conda_sandbox import FORMER, conda
from tests.install.sandbox import MACHINE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.install.conda_sandbox import Conda

__all__ = ["conda"]
pytestmark = pytest.mark.slow
TIMEOUT, GRACE = 10.0, 50.0  # seconds: for the machine or the installer to answer, and for a busy host
NO_VERSION = ("absent", "unreadable", "empty", "rubbish", "unreadable: a folder")
ONCE_SELECTED = {f"{fault}, once selected": fault for fault in PROGRAM_FAULTS if fault not in NO_VERSION}
_PLANNED = '{"success": true, "actions": {"LINK": [{"name": "cupy", "version": "14.1.1", "build_string": "0"}]}}'
FALSE_CLAIMS = {
    "lying: claims that nothing is to do": """echo '{"success": true, "message": "All is there already."}'""",
    "lying: claims success": f"echo '{_PLANNED}'",
    "lying: plans correctly and does nothing": (
        f"""case " $* " in *" --dry-run "*|*" list "*|*" info "*) exec "$intact" "$@";; esac\necho '{_PLANNED}'"""
    ),
    "lying: succeeds and claims failure": '"$intact" "$@"; exit 1',
    "lying: answers of other kinds": """echo '{"success": 1, "actions": [{"LINK": 4}], "error": []}'""",
}


def inject_fault(program: Path, fault: str) -> None:
    """Inject a fault; the intact conda keeps its name, which tells it apart from mamba."""
    PROGRAM_FAULTS[fault](program)
    intact = program.with_name(f"{program.name}.intact")
    if intact.exists():
        folder = program.with_name("intact")
        folder.mkdir()
        intact.rename(folder / program.name)
        text = program.read_text(encoding="utf-8")
        program.write_text(text.replace(str(intact), str(folder / program.name)), encoding="utf-8")


def answer_version(program: Path) -> None:
    """Make a faulty program print the correct version."""
    first, second, rest = program.read_text(encoding="utf-8").split("\n", 2)
    answer = 'case "$1" in --version) exec "$intact" "$@";; esac'
    program.write_text(f"{first}\n{second}\n{answer}\n{rest}", encoding="utf-8")


def install_and_check(conda: Conda, fault: str, record: Callable[[str, object], None]) -> int:
    """Install, check the invariants of the result, and return the exit code."""
    before = conda.files()
    started = time.monotonic()
    options = ("--installer", "conda", "--timeout", str(TIMEOUT), "--install-timeout", str(TIMEOUT))
    process = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE, *options)
    duration = time.monotonic() - started
    assert duration < TIMEOUT + GRACE, f"took {duration:.0f} s: {process.stderr}"
    assert process.returncode in (0, 3, 4, 7), process.stderr
    if process.returncode == 0:
        assert conda.packages()["cupy"] == "14.1.1"
    else:
        assert conda.packages() == FORMER, process.stderr
        assert conda.files() == before
    assert process.returncode == 0 or process.stderr.strip(), "the reason is reported"
    record("outcome", ["conda", fault, f"exit code {process.returncode}"])
    return process.returncode


@parametrize_faults("conda", PROGRAM_FAULTS)
def test_an_install_fails_with_a_faulty_conda(
    conda: Conda, fault: str, record_property: Callable[[str, object], None]
) -> None:
    inject_fault(conda.folder / "conda/conda", fault)
    assert (install_and_check(conda, fault, record_property) == 0) == (fault == "slow")


@parametrize_faults("conda", ONCE_SELECTED)
def test_an_install_fails_if_conda_fails_once_selected(
    conda: Conda, fault: str, record_property: Callable[[str, object], None]
) -> None:
    program = conda.folder / "conda/conda"
    inject_fault(program, ONCE_SELECTED[fault])
    answer_version(program)
    assert (install_and_check(conda, fault, record_property) == 0) == fault.startswith("slow")


@parametrize_faults("conda", FALSE_CLAIMS)
def test_a_false_claim_of_conda_is_detected(
    conda: Conda, fault: str, record_property: Callable[[str, object], None]
) -> None:
    program = conda.folder / "conda/conda"
    folder = program.with_name("intact.conda")
    folder.mkdir()
    program.rename(folder / "conda")  # it keeps its name
    program.write_text(f"#!/bin/sh\nintact={folder}/conda\n{FALSE_CLAIMS[fault]}\n", encoding="utf-8")
    program.chmod(0o755)
    answer_version(program)
    install_and_check(conda, fault, record_property)


def test_the_error_without_conda_names_conda_exe(conda: Conda) -> None:
    process = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE, PATH=os.defpath)
    assert process.returncode == 7
    assert "CONDA_EXE" in process.stderr
