"""conda spoilt in each way: an install succeeds, or the environment is as it was and it is said why."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.cells import cells
from tests.faults.spoiling import PROGRAM
from tests.install.conda_sandbox import FORMER, conda
from tests.install.sandbox import MACHINE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.install.conda_sandbox import Conda

__all__ = ["conda"]
pytestmark = pytest.mark.slow
TIMEOUT, OVER = 10.0, 50.0  # seconds: for the machine or the installer to answer, and for a busy host
NO_VERSION = ("absent", "unreadable", "empty", "rubbish", "unreadable: a folder")
CHOSEN = {f"{fault}, once chosen": fault for fault in PROGRAM if fault not in NO_VERSION}
_PLANNED = '{"success": true, "actions": {"LINK": [{"name": "cupy", "version": "14.1.1", "build_string": "0"}]}}'
LIES = {
    "lying: says that there is nothing to do": """echo '{"success": true, "message": "All is there already."}'""",
    "lying: says that all was done": f"echo '{_PLANNED}'",
    "lying: plans as it should, and then does nothing": (
        f"""case " $* " in *" --dry-run "*|*" list "*|*" info "*) exec "$sound" "$@";; esac\necho '{_PLANNED}'"""
    ),
    "lying: does as it says, and says that it failed": '"$sound" "$@"; exit 1',
    "lying: answers of other kinds": """echo '{"success": 1, "actions": [{"LINK": 4}], "error": []}'""",
}


def spoil(program: Path, fault: str) -> None:
    """By its fault; the sound one goes by its own name, whose family it knows by it."""
    PROGRAM[fault](program)
    kept = program.with_name(f"{program.name}.sound")
    if kept.exists():
        folder = program.with_name("sound")
        folder.mkdir()
        kept.rename(folder / program.name)
        text = program.read_text(encoding="utf-8")
        program.write_text(text.replace(str(kept), str(folder / program.name)), encoding="utf-8")


def choosing(program: Path) -> None:
    """Lets a spoilt program tell its version rightly."""
    first, second, rest = program.read_text(encoding="utf-8").split("\n", 2)
    answer = 'case "$1" in --version) exec "$sound" "$@";; esac'
    program.write_text(f"{first}\n{second}\n{answer}\n{rest}", encoding="utf-8")


def tried(conda: Conda, fault: str, record: Callable[[str, object], None]) -> int:
    """Installs; the exit code."""
    before = conda.files()
    started = time.monotonic()
    options = ("--installer", "conda", "--timeout", str(TIMEOUT), "--install-timeout", str(TIMEOUT))
    done = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE, *options)
    took = time.monotonic() - started
    assert took < TIMEOUT + OVER, f"took {took:.0f} s: {done.stderr}"
    assert done.returncode in (0, 3, 4, 7), done.stderr
    if done.returncode == 0:
        assert conda.packages()["cupy"] == "14.1.1"
    else:
        assert conda.packages() == FORMER, done.stderr
        assert conda.files() == before
    assert done.returncode == 0 or done.stderr.strip(), "it is said why"
    record("told", ["conda", fault, f"exit code {done.returncode}"])
    return done.returncode


@cells("conda", PROGRAM)
def test_conda(conda: Conda, fault: str, record_property: Callable[[str, object], None]) -> None:
    spoil(conda.folder / "conda/conda", fault)
    assert (tried(conda, fault, record_property) == 0) == (fault == "slow")


@cells("conda", CHOSEN)
def test_conda_that_spoils_after_it_was_chosen(
    conda: Conda, fault: str, record_property: Callable[[str, object], None]
) -> None:
    program = conda.folder / "conda/conda"
    spoil(program, CHOSEN[fault])
    choosing(program)
    assert (tried(conda, fault, record_property) == 0) == fault.startswith("slow")


@cells("conda", LIES)
def test_conda_lies(conda: Conda, fault: str, record_property: Callable[[str, object], None]) -> None:
    program = conda.folder / "conda/conda"
    sound = program.with_name("sound.conda")
    sound.mkdir()
    program.rename(sound / "conda")  # it goes by its own name
    program.write_text(f"#!/bin/sh\nsound={sound}/conda\n{LIES[fault]}\n", encoding="utf-8")
    program.chmod(0o755)
    choosing(program)
    tried(conda, fault, record_property)


def test_without_conda_it_is_said_where_it_is_looked_for(conda: Conda) -> None:
    done = conda.gpuenv("install", "--python", conda.prefix, "--yes", *MACHINE, PATH=os.defpath)
    assert done.returncode == 7
    assert "CONDA_EXE" in done.stderr
