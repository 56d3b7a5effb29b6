"""What is begun before the command line is understood: taken over where it is what is wanted, else ended unheard."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import MINIMAL, PROGRAM, answer, gpuenv

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """An interpreter that notes its process and its arguments at each start."""
    path = tmp_path / "noting-python"
    path.write_text(f'#!/bin/sh\necho "$$ $*" >> "{tmp_path}/starts"\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def starts(target: Path) -> list[str]:
    """Process and script of each start."""
    noted = target.with_name("starts")
    return noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []


def scripts(target: Path) -> list[str]:
    return sorted(line.split("start.py ")[1].split()[0] for line in starts(target))


@pytest.mark.parametrize(
    "form", [["--python", "TARGET"], ["--python=TARGET"], ["--python", "elsewhere", "--python", "TARGET"]]
)
@pytest.mark.parametrize("command", ["doctor", "probe", "resolve"])
def test_every_script_is_started_once(command: str, form: list[str], target: Path) -> None:
    words = [word.replace("TARGET", str(target)) for word in form]
    _, told = answer(command, *words, *(["--no-redact"] if command != "resolve" else []))
    assert scripts(target) == ["interpreter"]
    if command != "resolve":
        snapshot = told.get("snapshot", told)
        assert snapshot["target"]["executable"]["value"] == sys.executable


@pytest.mark.parametrize(
    "words",
    [
        ["--no-probe"],
        ["--snapshot", "recorded.json"],
        ["--snapshot=recorded.json"],
        ["--help"],
        ["-h"],
        ["--paste", "recorded.json"],
        ["--timeout", "soon"],
        ["--timeout", "-1"],
        ["--timeout", "nan"],
        ["--timeout", "1e9"],
    ],
    ids=" ".join,
)
def test_nothing_is_begun_where_nothing_is_asked(words: list[str], target: Path, tmp_path: Path) -> None:
    (tmp_path / "recorded.json").write_text("{}", encoding="utf-8")
    gpuenv("doctor", "--python", str(target), *words, cwd=tmp_path)
    assert starts(target) == []


def test_another_target_than_it_looked_like_is_asked_anew(target: Path, tmp_path: Path) -> None:
    """The value of another option looks like an option: what was begun is ended, and the right target is asked."""
    other = tmp_path / "other-python"
    other.write_text(target.read_text(encoding="utf-8").replace("/starts", "/others"), encoding="utf-8")
    other.chmod(0o755)
    name = f"--python={target.name}"
    done = gpuenv("probe", "--no-redact", "--format", "json", "--python", other, "--output", name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / name).read_text(encoding="utf-8"))["target"]["executable"]["value"] == sys.executable
    assert sorted(path.name for path in tmp_path.iterdir() if path.name in {"starts", "others"}) == ["others", "starts"]
    assert wait_until(lambda: not running(target))


def running(target: Path) -> list[int]:
    pids = [int(line.split()[0]) for line in starts(target)]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def wait_until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def hanging(target: Path) -> Path:
    """The same, but it never answers."""
    text = target.read_text(encoding="utf-8")
    target.write_text(text.replace(f'exec "{sys.executable}" "$@"', "exec sleep 600"), encoding="utf-8")
    return target


def test_a_usage_error_leaves_nothing_behind(hanging: Path) -> None:
    done = gpuenv("doctor", "--python", str(hanging), "--no-such-option")
    assert done.returncode == 2
    assert "--no-such-option" in done.stderr
    assert wait_until(lambda: not running(hanging))


def test_the_interpreter_is_not_taken_apart(hanging: Path, tmp_path: Path) -> None:
    """CPython runs what was registered for its end, then lets go of what a thread that imports still needs."""
    left = tmp_path / "left"
    (tmp_path / "sitecustomize.py").write_text(
        f"import atexit, pathlib\natexit.register(pathlib.Path({str(left)!r}).touch)\n", encoding="utf-8"
    )
    environment = {**MINIMAL, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", ""], env=environment, check=True)
    assert left.exists(), "of any other program"
    left.unlink()
    assert gpuenv("rollback", "--no-such-option", environment=environment).returncode == 2
    assert gpuenv("doctor", "--python", hanging, "--no-such-option", environment=environment).returncode == 2
    assert not left.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing_behind(number: int, hanging: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, "doctor", "--python", str(hanging)],
        env=MINIMAL,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert wait_until(lambda: len(starts(hanging)) == 1)
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert wait_until(lambda: not running(hanging))


def test_an_install_takes_over_what_was_begun(target: Path) -> None:
    """Each is asked once; the folders to install to are the install's own question."""
    gpuenv("install", "--dry-run", "--offline", "--python", target)
    asked = [line.split("start.py ")[1].split()[0] for line in starts(target) if "start.py " in line]
    assert sorted(asked) == ["interpreter", "scheme"]


def test_an_install_looks_at_nothing_that_may_have_to_be_put_back_first(target: Path) -> None:
    """These options exclude each other: it ends before it would ask by itself."""
    environment = target.with_name("environment")
    for name in ("bin", ".gpuenv"):
        (environment / name).mkdir(parents=True)
    interpreter = target.replace(environment / "bin/python3")  # which notes its starts where it did
    done = gpuenv("install", "--python", interpreter, "--locked", "a", "--bundle", "b")
    assert done.returncode == 2
    assert starts(target) == []


def test_a_caller_that_ignores_how_its_children_end_keeps_nobody_waiting() -> None:
    """As a supervisor may leave it: a program inherits that, and then nobody is told how a child has ended."""
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", ignoring, *PROGRAM, "probe", "--format", "json", "--python", sys.executable]
    done = subprocess.run(command, env=MINIMAL, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    states = {source["name"]: source["state"] for source in json.loads(done.stdout)["sources"]}
    assert (states["target"], states["files"], states["kernel"]) == ("answered", "answered", "answered")


def test_an_interruption_amid_an_import_waits_for_its_end() -> None:
    """Else the lock of all imports may stay taken, and the program would hang: here one comes as often as it can."""
    program = (
        "import os, signal, sys, threading, time\n"
        "from gpuenv.interrupt import heed\n"
        "heed()\n"
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


def test_what_was_ended_early_is_not_taken_for_what_runs(target: Path) -> None:
    """Where the rest cannot be begun, here for want of a thread, the whole is asked anew."""
    program = (
        "import sys, threading\n"
        "from gpuenv.cli import ahead\n"
        "threading.stack_size(1 << 46)\n"  # more than there is room for
        "ahead.begin(['probe', '--python', sys.argv[1]])\n"
        "threading.stack_size(0)\n"
        "from gpuenv.cli.front import run\n"
        "sys.exit(run(['probe', '--format', 'json', '--python', sys.argv[1]]))\n"
    )
    command = [sys.executable, "-c", program, str(target)]
    done = subprocess.run(command, env=MINIMAL, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    states = {source["name"]: source["state"] for source in json.loads(done.stdout)["sources"]}
    assert states["target"] == "answered"
    assert scripts(target) == ["interpreter", "interpreter"]
