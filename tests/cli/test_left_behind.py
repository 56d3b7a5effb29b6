"""What nvidia-smi starts and leaves, even in a session of its own, ends with the command."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import LIMIT, MINIMAL, PROGRAM
from tests.probe.child_programs import has_ended
from tests.support.processes import is_running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems kill only the process group")
ENDINGS = {"exits": "exit 0", "hangs": "sleep 60", "crashes": "kill -SEGV $$", "fails": "exit 9"}
DAEMONS = {
    "in a session of its own": "setsid sleep 60 >/dev/null 2>&1 &\necho $! >> {log}",
    "whose parent has ended": "(setsid sh -c 'echo $$ >> {log}; exec sleep 60' >/dev/null 2>&1 &)",
    "that replaces its program all the time": (
        "echo 'exec sh $0' > {log}.sh\nsetsid sh {log}.sh >/dev/null 2>&1 &\necho $! >> {log}"
    ),
    "that forks": "setsid sh -c 'echo $$ >> {log}; sleep 60 & echo $! >> {log}; wait' >/dev/null 2>&1 &",
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A file with the number of each process that nvidia-smi left."""
    return tmp_path / "pids"


def start_doctor(folder: Path, log: Path, daemon: str, ending: str) -> subprocess.Popen[bytes]:
    program = folder / "nvidia-smi"
    script = DAEMONS[daemon].format(log=log)
    wait_for_it = f"while ! [ -s {log} ]; do sleep 0.02; done"
    program.write_text(f"#!/bin/sh\n{script}\n{wait_for_it}\n{ENDINGS[ending]}\n", encoding="utf-8")
    program.chmod(0o755)
    options = ("doctor", "--timeout", "3", "--python", sys.executable)
    environment = {**MINIMAL, "PATH": f"{folder}:{MINIMAL['PATH']}"}
    return subprocess.Popen([*PROGRAM, *options], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def left_in(log: Path) -> list[int]:
    return [pid for pid in map(int, log.read_text(encoding="utf-8").split()) if not has_ended(pid)]


@pytest.mark.parametrize(
    ("daemon", "ending"),
    [
        *((daemon, "exits") for daemon in DAEMONS),
        *(("in a session of its own", end) for end in ("hangs", "crashes", "fails")),
    ],
)
def test_the_doctor_leaves_no_grandchild_of_nvidia_smi(tmp_path: Path, log: Path, daemon: str, ending: str) -> None:
    assert start_doctor(tmp_path, log, daemon, ending).wait(LIMIT) in (0, 1, 8)
    assert left_in(log) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_doctor_leaves_none_either(tmp_path: Path, log: Path, number: signal.Signals) -> None:
    doctor = start_doctor(tmp_path, log, "whose parent has ended", "hangs")
    while not log.exists() or not log.read_text(encoding="utf-8"):
        time.sleep(0.02)
    doctor.send_signal(number)
    assert doctor.wait(LIMIT) != 0
    assert left_in(log) == []


def test_a_process_of_the_user_goes_on(tmp_path: Path, log: Path) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as bystander:
        assert start_doctor(tmp_path, log, "in a session of its own", "exits").wait(LIMIT) in (0, 1, 8)
        assert is_running(bystander.pid)
        bystander.kill()
