"""Installers and indexes spoilt in turn: an install succeeds by another way, or changes nothing and says why."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.cells import cell, cells
from tests.faults.spoiling import FILE, PROGRAM
from tests.install.conftest import sandbox
from tests.install.sandbox import Sandbox, contents, versions

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["sandbox"]
pytestmark = pytest.mark.slow
TIMEOUT, OVER = 20.0, 70.0  # seconds: for the machine or the installer to answer, and for a busy host
LIMITS = ("--timeout", str(TIMEOUT), "--install-timeout", str(TIMEOUT))


def tried(
    sandbox: Sandbox,
    target: Path,
    record: Callable[[str, object], None],
    thing: str,
    fault: str,
    *options: str,
    **variables: str,
) -> int:
    """Installs, and holds the end against what is always true; answers the exit code."""
    before = contents(target)
    started = time.monotonic()
    done = sandbox.install(target, *LIMITS, *options, **variables)
    took = time.monotonic() - started
    assert took < TIMEOUT + OVER, f"took {took:.0f} s: {done.stderr}"
    assert done.returncode in (0, 3, 4, 7), done.stderr
    if done.returncode == 0:
        assert versions(target)["cupy-cuda12x"] == "14.2.0"
    else:
        assert contents(target) == before
        assert done.stderr.strip(), "it is said why"
    following = sandbox.gpuenv("rollback", "--python", target, "--list")
    assert following.returncode == 0, following.stderr
    record("told", [thing, fault, f"exit code {done.returncode}"])
    return done.returncode


@cells("uv", PROGRAM)
def test_uv(sandbox: Sandbox, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]) -> None:
    """It is the first on PATH; the target has a pip of its own."""
    target = sandbox.target("target", "cupy-cuda11x==13.6.0", pip=True)
    program = uv_of(tmp_path)
    PROGRAM[fault](program)
    code = tried(sandbox, target, record_property, "uv", fault, PATH=f"{program.parent}:{os.defpath}")
    assert code == (7 if fault.startswith(("hung", "huge")) else 0), "what does not end leaves no time for another one"


CHOSEN = {f"{fault}{' and' if ':' in fault else ':'} once chosen": fault for fault in PROGRAM}
# Such a one tells no version, and is not chosen.
for _told in ("absent", "unreadable", "empty", "rubbish", "unreadable: a folder"):
    CHOSEN = {name: fault for name, fault in CHOSEN.items() if fault != _told}


@cells("uv", CHOSEN)
def test_uv_that_spoils_after_it_was_chosen(
    sandbox: Sandbox, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """It tells its version, and all else goes wrong."""
    target = sandbox.target("target", "cupy-cuda11x==13.6.0")
    program = uv_of(tmp_path)
    PROGRAM[CHOSEN[fault]](program)
    text = program.read_text(encoding="utf-8").split("\n", 2)
    choosing = 'case "$1 $2" in --version*|"python find") exec "$sound" "$@";; esac'
    program.write_text("\n".join([*text[:2], choosing, text[2]]), encoding="utf-8")
    code = tried(sandbox, target, record_property, "uv", fault, PATH=f"{program.parent}:{os.defpath}")
    assert code == (0 if fault.startswith("slow") else 4)


_OTHER = """lock-version = "1.0"
created-by = "uv"
[[packages]]
name = "cupy-cuda12x"
version = "99.0"
wheels = [{ url = "http://127.0.0.1:9/cupy_cuda12x-99.0-py3-none-any.whl", hashes = { sha256 = "00" } }]"""
# What it says it did, and what it did.
LIES = {
    "lying: says that all was done": 'case "$1 $2" in "pip install"|"pip sync") exit 0;; esac',
    "lying: locks another CuPy": f'case "$1 $2" in "pip compile") cat <<\'END\'\n{_OTHER}\nEND\nexit 0;; esac',
    "lying: tells the version of another time": 'case "$1" in --version) echo "uv 99999.0.0"; exit 0;; esac',
}


@cells("uv", LIES)
def test_uv_lies(sandbox: Sandbox, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]) -> None:
    target = sandbox.target("target", "cupy-cuda11x==13.6.0")
    program = uv_of(tmp_path)
    sound = program.rename(program.with_name("sound"))
    program.write_text(f'#!/bin/sh\n{LIES[fault]}\nexec {sound} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    code = tried(sandbox, target, record_property, "uv", fault, PATH=f"{program.parent}:{os.defpath}")
    assert code == (0 if "another time" in fault else 4)


def uv_of(folder: Path) -> Path:
    """A sound uv, the first on a PATH."""
    program = folder / "bin/uv"
    program.parent.mkdir()
    program.symlink_to(Path(sys.executable).parent / "uv")
    return program


_SOUND = "import sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"
HABITS = {
    "absent": "raise ImportError('no pip here')\n",
    "empty: says nothing": "",
    "rubbish": "\x00)(",
    "slow": f"import time\ntime.sleep(0.5)\n{_SOUND}",
    "hung": "import time\ntime.sleep(600)\n",
    "dying": "import os\nprint('pip 24.0 from', flush=True)\nos.kill(os.getpid(), 9)\n",
    "lying": "print('pip 24.0 from nowhere')\n",
    "huge": "while True: print('x' * 65536)\n",
    "dying: fails": "raise SystemExit(3)\n",
}


# It tells its version all the same, and so is chosen: what it does then is what counts.
_CHOSEN = {"slow": 0, "lying": 4, "dying": 4}
# It takes all the time that there is, and leaves none for another one.
_TO_THE_END = ("hung", "huge")


_OF_PIP = (*HABITS, "unreadable: a folder", "unreadable: a loop", "dying: cut in the middle")
_OWN = {"gpuenv has a pip": True, "gpuenv has none": False}


@pytest.mark.parametrize(
    ("fault", "own"),
    [(fault, own) for fault in _OF_PIP for own in _OWN.values()],
    ids=[cell("pip", f"{fault}, {words}") for fault in _OF_PIP for words in _OWN],
)
def test_pip(sandbox: Sandbox, fault: str, *, own: bool, record_property: Callable[[str, object], None]) -> None:
    """Of the target. One that does not answer is left for gpuenv's own, where there is one."""
    sandbox = replace(sandbox, python=sandbox.gpuenv_interpreter(pip=own))
    target = sandbox.target("target", "cupy-cuda11x==13.6.0", pip=True)
    (main,) = target.glob("lib/python*/site-packages/pip/__main__.py")
    if fault in HABITS:
        main.unlink()  # uv makes links into its cache: what is written into one is in every other
        main.write_text(HABITS[fault], encoding="utf-8")
    else:
        FILE[fault](main)
    told = f"{fault}, {'and gpuenv has one' if own else 'and there is no other'}"
    code = tried(sandbox, target, record_property, "pip", told, "--installer", "pip")
    assert code == _CHOSEN.get(fault, 0 if own and fault not in _TO_THE_END else 7)
