"""An interrupted command ends at once, whatever it waits for, and leaves no child process behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.cli.program import MINIMAL

PROGRAM = Path(sys.executable).with_name("gpuenv")
AT_ONCE = 10.0  # seconds, of a busy machine; the deadline of what hangs is thirty


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """An interpreter that says nothing and does not end; it notes each of its processes."""
    interpreter = tmp_path / "hanging/bin/python"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/started\nexec sleep 600\n", encoding="utf-8")
    interpreter.chmod(0o755)
    return interpreter


def started(folder: Path) -> list[int]:
    file = folder / "started"
    return [int(line) for line in file.read_text(encoding="utf-8").split()] if file.exists() else []


def is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "command", [["doctor"], ["install", "--dry-run"], ["install", "--yes"], ["resolve"], ["preflight"], ["lock"]]
)
def test_nobody_waits_for_a_target_that_hangs(
    hanging: Path, tmp_path: Path, command: list[str], number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [PROGRAM, *command, "--python", str(hanging)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "HOME": str(tmp_path)},
        cwd=tmp_path,
        # A shell in the background ignores these for its children.
        preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, signal.SIGHUP)],  # noqa: PLW1509
    )
    until = time.monotonic() + 20
    while not started(tmp_path) and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.5)  # so that it has come to where it waits
    process.send_signal(number)
    began = time.monotonic()
    said, complained = process.communicate(timeout=60)
    assert time.monotonic() - began < AT_ONCE
    assert (process.returncode, said) == (130, b"")
    assert complained.decode().endswith("gpuenv: interrupted\n")
    assert started(tmp_path)
    assert [pid for pid in started(tmp_path) if is_there(pid)] == []


EARLY = """
import os, signal, sys
def hook(event, arguments):
    if event == "import" and arguments[0] == "gpuenv.interrupt":
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
"""


def test_whoever_interrupts_before_it_has_begun_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(EARLY, encoding="utf-8")
    done = subprocess.run(
        [PROGRAM, "doctor"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"gpuenv: interrupted\n")


def test_a_caller_that_ignores_how_its_children_end_keeps_nobody_waiting() -> None:
    """As a supervisor may leave it: a program inherits that, and then nobody is told how a child has ended."""
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", ignoring, str(PROGRAM), "probe", "--format", "json", "--python", sys.executable]
    done = subprocess.run(command, env=MINIMAL, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    states = {source["name"]: source["state"] for source in json.loads(done.stdout)["sources"]}
    assert (states["target"], states["files"], states["kernel"]) == ("answered", "answered", "answered")


def test_an_interruption_amid_an_import_waits_for_its_end() -> None:
    """Else the lock of all imports may stay taken, and the program would hang: here one comes as often as it can."""
    program = (
        "import os, signal, sys, threading, time\n"
        "from gpuenv.interrupt import install_signal_handlers\n"
        "install_signal_handlers()\n"
        "folder = sys.argv[1]\n"
        "sys.path.insert(0, folder)\n"
        "from pathlib import Path\n"
        "Path(folder, 'slow.py').write_text('import os, signal\\nos.kill(os.getpid(), signal.SIGTERM)\\n'\n"
        "                                   'done = [number for number in range(100000)]\\n')\n"
        "try:\n"
        "    import slow\n"
        "    time.sleep(10)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(3 if hasattr(sys.modules.get('slow'), 'done') else 4)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", program, folder], check=False, timeout=60)
    assert done.returncode == 3
