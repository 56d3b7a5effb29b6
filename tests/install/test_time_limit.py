"""The time limit of the installer excludes waiting for consent and for programs that hang."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.install.backends.base import TimeBudget, complaint
from gpuenv.install.backends.uv import Uv
from gpuenv.install.environment import query_scheme
from gpuenv.install.exceptions import remedy_for
from gpuenv.install.installer_config import select_conda, select_installer
from tests.cli.program import PROGRAM
from tests.install.conda_sandbox import conda
from tests.install.sandbox import LIMIT, MACHINE, versions

if TYPE_CHECKING:
    from tests.install.conda_sandbox import Conda
    from tests.install.sandbox import Sandbox

__all__ = ["conda"]
TIMEOUT = 10  # seconds
HANGS = "#!/bin/sh\nexec sleep 600\n"


def install_with_late_consent(target: Path, environment: dict[str, str], *options: str) -> str:
    """Installs on a terminal, consents after the time limit, and returns the output."""
    terminal, stdin = pty.openpty()
    command = [*PROGRAM, "install", "--python", str(target), *MACHINE, "--install-timeout", str(TIMEOUT), *options]
    with subprocess.Popen(
        command, env=environment, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(stdin)
        assert process.stderr is not None
        output = ""
        while "Proceed?" not in output:
            character = process.stderr.read(1)
            assert character, output
            output += character
        time.sleep(TIMEOUT + 1)
        os.write(terminal, b"y\n")
        output += process.stderr.read()
        process.wait(LIMIT)
    os.close(terminal)
    assert process.returncode == 0, output
    return output


def test_waiting_for_consent_does_not_count_as_installer_time(sandbox: Sandbox) -> None:
    target = sandbox.target("thought-over", "numpy==2.1.0")
    install_with_late_consent(target, sandbox.environment(), "--installer", "uv")
    assert versions(target)["cupy-cuda12x"] == "14.2.0"


def test_waiting_for_consent_does_not_count_as_conda_time(conda: Conda) -> None:
    install_with_late_consent(conda.prefix, conda.environment())
    assert conda.packages()["cupy"] == "14.1.1"


@pytest.mark.parametrize("program", ["echo uv 0.4.30", "exit 1"])
def test_an_unusable_uv_on_path_falls_back_to_the_bundled_one(tmp_path: Path, program: str) -> None:
    uv = tmp_path / "bin/uv"
    uv.parent.mkdir()
    uv.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    uv.chmod(0o755)
    environment = {"PATH": f"{uv.parent}:{os.defpath}", "HOME": str(tmp_path)}
    scheme = replace(query_scheme(sys.executable, environment, time.monotonic() + LIMIT), has_pip=False)
    installer = select_installer("uv", scheme, environment, time.monotonic() + LIMIT)
    assert isinstance(installer, Uv)
    assert installer.program == str(Path(sys.executable).with_name("uv"))


ENDLESS_WRITER = """
import itertools, sys, threading, time
from pathlib import Path
from gpuenv.install.swap import BackgroundSync

written = []
def paths():
    for number in itertools.count():
        written.append(number)
        yield Path(sys.argv[1])
writing = BackgroundSync(Path(sys.argv[1]), paths())
while len(written) < 10:
    time.sleep(0.01)
writing.stop()
writing.finish()
"""


def test_a_stopped_sync_ends(tmp_path: Path) -> None:
    """Without sync(1), files are synced one by one."""
    command = [sys.executable, "-c", ENDLESS_WRITER, str(tmp_path)]
    root = str(Path(__file__).parents[2])
    result = subprocess.run(command, env={"PATH": "", "PYTHONPATH": root}, timeout=10, check=False)
    assert result.returncode == 0


@pytest.mark.slow
def test_a_conda_that_hangs_leaves_time_for_the_next_program(conda: Conda) -> None:
    """Its version query has a deadline of its own, as for uv and pip."""
    (conda.folder / "conda/conda").write_text(HANGS, encoding="utf-8")
    environment = conda.environment(MAMBA_EXE=str(conda.folder / "micromamba/micromamba"))
    environment["CONDA_EXE"] = str(conda.folder / "conda/conda")
    installer = select_conda("auto", str(conda.prefix), environment, time.monotonic() + 45)
    assert installer.family == "micromamba"


def test_an_installer_for_which_no_time_is_left_is_not_said_to_have_run() -> None:
    spent, short = TimeBudget(0).run(["sleep", "60"], {}), TimeBudget(1.2).run(["sleep", "60"], {})
    assert complaint(spent) == "no time was left for it: the time limit of all its runs is set by --install-timeout"
    assert complaint(short).startswith("it was ended after 1 s: ")
    assert remedy_for(complaint(spent)) == "Give the installer more time: --install-timeout SECONDS."
