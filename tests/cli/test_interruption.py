"""An interrupted command ends at once and leaves no child process."""

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
MAX_SECONDS = 10.0  # of a busy machine; the deadline of the hanging target is 30 seconds


@pytest.fixture
def hanging_interpreter(tmp_path: Path) -> Path:
    """An interpreter that prints nothing and does not end; it appends its process id to a file."""
    interpreter = tmp_path / "hanging/bin/python"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/started\nexec sleep 600\n", encoding="utf-8")
    interpreter.chmod(0o755)
    return interpreter


def started_processes(folder: Path) -> list[int]:
    file = folder / "started"
    return [int(line) for line in file.read_text(encoding="utf-8").split()] if file.exists() else []


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "command", [["doctor"], ["install", "--dry-run"], ["install", "--yes"], ["resolve"], ["preflight"], ["lock"]]
)
def test_an_interrupted_command_does_not_wait_for_a_hanging_target(
    hanging_interpreter: Path, tmp_path: Path, command: list[str], number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [PROGRAM, *command, "--python", str(hanging_interpreter)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "HOME": str(tmp_path)},
        cwd=tmp_path,
        # A shell in the background ignores these for its children.
        preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, signal.SIGHUP)],  # noqa: PLW1509
    )
    deadline = time.monotonic() + 20
    while not started_processes(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)  # until it waits for the target
    process.send_signal(number)
    interrupted_at = time.monotonic()
    stdout, stderr = process.communicate(timeout=60)
    assert time.monotonic() - interrupted_at < MAX_SECONDS
    assert (process.returncode, stdout) == (130, b"")
    assert stderr.decode().endswith("gpuenv: interrupted\n")
    assert started_processes(tmp_path)
    assert [pid for pid in started_processes(tmp_path) if is_running(pid)] == []


EARLY = """
import os, signal, sys
def hook(event, arguments):
    if event == "import" and arguments[0] == "gpuenv.interrupt":
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
"""


def test_an_interrupted_start_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(EARLY, encoding="utf-8")
    result = subprocess.run(
        [PROGRAM, "doctor"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, b"", b"gpuenv: interrupted\n")


def test_a_caller_that_ignores_sigchld_does_not_block_the_program() -> None:
    """The program inherits SIG_IGN, as from some supervisors, and gets no exit status of its children."""
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", ignoring, str(PROGRAM), "probe", "--format", "json", "--python", sys.executable]
    result = subprocess.run(command, env=MINIMAL, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    states = {source["name"]: source["state"] for source in json.loads(result.stdout)["sources"]}
    assert (states["target"], states["files"], states["kernel"]) == ("answered", "answered", "answered")


def test_an_interruption_during_an_import_waits_for_the_import() -> None:
    """Otherwise the import lock may stay locked and the program would hang."""
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
        result = subprocess.run([sys.executable, "-c", program, folder], check=False, timeout=60)
    assert result.returncode == 3
