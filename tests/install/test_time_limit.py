"""The time budget of the installer excludes waiting for consent and for programs that hang."""

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

from gpuenv.install.backends.uv import Uv
from gpuenv.install.environment import query_scheme
from gpuenv.install.installer_config import select_conda, select_installer
from tests.cli.program import PROGRAM
from tests.install.conda_sandbox import conda
from tests.install.sandbox import LIMIT, MACHINE, versions

if TYPE_CHECKING:
    from tests.install.conda_sandbox import Conda
    from tests.install.sandbox import Ground

__all__ = ["conda"]
PATIENCE = 10  # seconds
HANGS = "#!/bin/sh\nexec sleep 600\n"


def agreed_late(target: Path, environment: dict[str, str], *options: str) -> str:
    """Installs, and agrees on a terminal when the installer's time would be over; answers what was said."""
    mine, theirs = pty.openpty()
    command = [*PROGRAM, "install", "--python", str(target), *MACHINE, "--install-timeout", str(PATIENCE), *options]
    with subprocess.Popen(
        command, env=environment, stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(theirs)
        assert process.stderr is not None
        said = ""
        while "Proceed?" not in said:
            letter = process.stderr.read(1)
            assert letter, said
            said += letter
        time.sleep(PATIENCE + 1)
        os.write(mine, b"y\n")
        said += process.stderr.read()
        process.wait(LIMIT)
    os.close(mine)
    assert process.returncode == 0, said
    return said


def test_who_thinks_a_plan_over_takes_nothing_of_the_installer_s_time(ground: Ground) -> None:
    target = ground.target("thought-over", "numpy==2.1.0")
    agreed_late(target, ground.environment(), "--installer", "uv")
    assert versions(target)["cupy-cuda12x"] == "14.2.0"


def test_nor_of_conda_s(conda: Conda) -> None:
    agreed_late(conda.prefix, conda.environment())
    assert conda.packages()["cupy"] == "14.1.1"


@pytest.mark.parametrize("program", ["echo uv 0.4.30", "exit 1"])
def test_a_uv_that_will_not_do_leaves_its_turn_to_the_one_beside_gpuenv(tmp_path: Path, program: str) -> None:
    old = tmp_path / "bin/uv"
    old.parent.mkdir()
    old.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    old.chmod(0o755)
    environment = {"PATH": f"{old.parent}:{os.defpath}", "HOME": str(tmp_path)}
    scheme = replace(query_scheme(sys.executable, environment, time.monotonic() + LIMIT), has_pip=False)
    found = select_installer("uv", scheme, environment, time.monotonic() + LIMIT)
    assert isinstance(found, Uv)
    assert found.program == str(Path(sys.executable).with_name("uv"))


GOES_ON = """
import itertools, sys, threading, time
from pathlib import Path
from gpuenv.install.swap import Writing

written = []
def paths():
    for number in itertools.count():
        written.append(number)
        yield Path(sys.argv[1])
writing = Writing(Path(sys.argv[1]), paths())
while len(written) < 10:
    time.sleep(0.01)
writing.stop()
writing.finish()
"""


def test_what_is_written_out_for_nobody_ends(tmp_path: Path) -> None:
    """Where there is no program that writes a whole file system out, file after file is."""
    command = [sys.executable, "-c", GOES_ON, str(tmp_path)]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(command, env={"PATH": "", "PYTHONPATH": root}, timeout=10, check=False)
    assert done.returncode == 0


@pytest.mark.slow
def test_a_conda_that_hangs_leaves_time_for_the_next_one(conda: Conda) -> None:
    """It is asked for its version alone, as uv and pip are: half a minute is enough."""
    (conda.folder / "conda/conda").write_text(HANGS, encoding="utf-8")
    environment = conda.environment(MAMBA_EXE=str(conda.folder / "micromamba/micromamba"))
    environment["CONDA_EXE"] = str(conda.folder / "conda/conda")
    found = select_conda("auto", str(conda.prefix), environment, time.monotonic() + 45)
    assert found.family == "micromamba"
