"""The first child, which is started with hardly anything imported: it runs as any other child does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuenv.probe.children import ChildGroup, ChildResult, Ending, follow, let_go
from gpuenv.probe.early import Early, start_early
from gpuenv.probe.piped import Piped

TELLING = (
    "import os, signal, sys\n"
    "ignored = signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN\n"
    "blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))\n"
    "def is_open(number):\n"
    "    try:\n"
    "        return bool(os.fstat(number))\n"
    "    except OSError:\n"
    "        return False\n"
    "streams = [number for number in range(256) if is_open(number)]\n"
    "print(os.getsid(0) == os.getpid(), blocked, streams, sorted(os.environ))\n"
    "print('a complaint', file=sys.stderr)\n"
)


def started(*command: str) -> Early | None:
    into: list[Early] = []
    start_early(command, {"ONE": "1"}, into)
    return into[0] if into else None


def followed(early: Early, seconds: float = 20) -> ChildResult:
    process = Piped("it", early.pid, early.out, early.err, early.told)
    let_go(process)
    return follow(process, early.started, time.monotonic() + seconds, ChildGroup())


def test_it_says_and_complains_in_a_session_of_its_own_with_signals_as_they_were(tmp_path: Path) -> None:
    """And with its standard streams alone: what this process was handed is for none but itself."""
    with (tmp_path / "lock").open("wb") as lock:
        os.set_inheritable(lock.fileno(), True)
        early = started(sys.executable, "-I", "-c", TELLING)
    assert early is not None
    result = followed(early)
    assert (result.ending, result.exit_code, result.stderr) == (Ending.EXITED, 0, "a complaint\n")
    variables = sorted({"ONE", *(["LC_CTYPE"] if "LC_CTYPE" in result.stdout else [])})
    assert result.stdout == f"True [] [0, 1, 2] {variables}\n"


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_is_gone_when_it_has_been_ended() -> None:
    """Whoever is interrupted this early ends at once, and leaves no child behind."""
    for _ in range(20):
        early = started(sys.executable, "-I", "-c", "import time; time.sleep(600)")
        assert early is not None
        early.end()
        with pytest.raises(ProcessLookupError):
            os.kill(early.pid, 0)
        for descriptor in (early.out, early.err, early.told):
            os.close(descriptor)


def test_it_is_killed_at_its_deadline() -> None:
    early = started(sys.executable, "-I", "-c", "import time; time.sleep(600)")
    assert early is not None
    assert followed(early, 0.3).ending is Ending.TIMED_OUT


def test_a_crash_is_told_as_such() -> None:
    early = started(sys.executable, "-I", "-c", "import os; os.abort()")
    assert early is not None
    assert followed(early).signal_name == "SIGABRT"


def test_it_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    program = f"sleep 600 & echo $! > {noted}; wait"
    early = started("/bin/sh", "-c", program)
    assert early is not None
    until = time.monotonic() + 20
    while not (noted.exists() and noted.read_text(encoding="utf-8").strip()) and time.monotonic() < until:
        time.sleep(0.01)
    early.end()
    with pytest.raises(ProcessLookupError):
        os.kill(early.pid, 0)
    while runs(int(noted.read_text(encoding="utf-8"))):  # nobody here can wait for it
        assert time.monotonic() < until
        time.sleep(0.01)
    early.end()  # there is nothing left to end
    for descriptor in (early.out, early.err, early.told):
        os.close(descriptor)


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize("command", ["/nowhere/python3", "/etc/passwd", "/"])
def test_what_cannot_be_started_is_left_to_the_usual_way(command: str) -> None:
    before = descriptors()
    assert started(command) is None
    assert descriptors() == before


def test_a_closed_standard_stream_is_never_taken_for_a_pipe() -> None:
    program = (
        "import os, sys\n"
        "os.close(1)\n"
        "from gpuenv.probe.early import start_early\n"
        "into = []\n"
        f"start_early(({sys.executable!r}, '-c', 'pass'), {{}}, into)\n"
        "sys.exit(3 if into else 4)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=False, timeout=60)
    assert done.returncode == 4


def test_a_variable_without_a_name_is_left_to_the_usual_way() -> None:
    """As Windows has them; here another program may have handed one on."""
    before = descriptors()
    into: list[Early] = []
    start_early((sys.executable, "-c", "pass"), {"": "nothing"}, into)
    assert into == []
    assert descriptors() == before


def test_without_room_for_its_pipes_there_is_none() -> None:
    program = (
        "import os, resource, sys\n"
        "from gpuenv.probe.early import start_early\n"
        "into = []\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (7, 7))\n"
        f"start_early(({sys.executable!r}, '-c', 'pass'), {{}}, into)\n"
        "os.close(os.open('/', os.O_RDONLY))\n"
        "sys.exit(3 if into else 4)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert done.returncode == 4
