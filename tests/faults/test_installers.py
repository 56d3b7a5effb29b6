"""Installers and indexes spoilt in turn: an install succeeds by another way, or changes nothing and says why."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.spoiling import PROGRAM
from tests.install.conftest import ground
from tests.install.standins import Ground, contents, versions

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ground"]
pytestmark = pytest.mark.slow
TIMEOUT, OVER = 20.0, 70.0  # seconds: for the machine or the installer to answer, and for a busy host
LIMITS = ("--timeout", str(TIMEOUT), "--install-timeout", str(TIMEOUT))


def tried(
    ground: Ground, target: Path, record: Callable[[str, object], None], thing: str, fault: str, **variables: str
) -> None:
    """Installs, and holds the end against what is always true."""
    before = contents(target)
    started = time.monotonic()
    done = ground.install(target, *LIMITS, **variables)
    took = time.monotonic() - started
    assert took < TIMEOUT + OVER, f"took {took:.0f} s: {done.stderr}"
    assert done.returncode in (0, 3, 4, 7), done.stderr
    if done.returncode == 0:
        assert versions(target)["cupy-cuda12x"] == "14.2.0"
    else:
        assert contents(target) == before
        assert done.stderr.strip(), "it is said why"
    following = ground.gpuenv("rollback", "--python", target, "--list")
    assert following.returncode == 0, following.stderr
    record("told", [thing, fault, f"exit code {done.returncode}"])


@pytest.mark.parametrize("fault", PROGRAM)
def test_uv(ground: Ground, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]) -> None:
    """It is the first on PATH; the target has a pip of its own."""
    target = ground.target("target", "cupy-cuda11x==13.6.0", pip=True)
    program = tmp_path / "bin/uv"
    program.parent.mkdir()
    program.symlink_to(Path(sys.executable).parent / "uv")
    PROGRAM[fault](program)
    tried(ground, target, record_property, "uv", fault, PATH=f"{program.parent}:{os.defpath}")


@pytest.mark.parametrize("fault", PROGRAM)
def test_uv_that_spoils_after_it_was_chosen(
    ground: Ground, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """It tells its version, and all else goes wrong."""
    target = ground.target("target", "cupy-cuda11x==13.6.0")
    program = tmp_path / "bin/uv"
    program.parent.mkdir()
    program.symlink_to(Path(sys.executable).parent / "uv")
    if fault in ("absent", "unreadable", "empty", "rubbish", "a folder"):
        pytest.skip("such a one tells no version")
    PROGRAM[fault](program)
    text = program.read_text(encoding="utf-8").split("\n", 2)
    choosing = 'case "$1 $2" in --version*|"python find") exec "$sound" "$@";; esac'
    program.write_text("\n".join([*text[:2], choosing, text[2]]), encoding="utf-8")
    tried(ground, target, record_property, "uv, once chosen", fault, PATH=f"{program.parent}:{os.defpath}")


HABITS = {
    "absent": "raise ImportError('no pip here')\n",
    "says nothing": "",
    "rubbish": "\x00)(",
    "hung": "import time\ntime.sleep(600)\n",
    "dies in the middle": "import os\nprint('pip 24.0 from', flush=True)\nos.kill(os.getpid(), 9)\n",
    "lying": "print('pip 24.0 from nowhere')\n",
    "huge": "while True: print('x' * 65536)\n",
    "fails": "raise SystemExit(3)\n",
}


@pytest.mark.parametrize("fault", HABITS)
def test_pip(ground: Ground, fault: str, record_property: Callable[[str, object], None]) -> None:
    target = ground.target("target", "cupy-cuda11x==13.6.0", pip=True)
    (main,) = target.glob("lib/python*/site-packages/pip/__main__.py")
    main.write_text(HABITS[fault], encoding="utf-8")
    before = contents(target)
    started = time.monotonic()
    done = ground.install(target, "--installer", "pip", *LIMITS)
    assert time.monotonic() - started < TIMEOUT + OVER
    assert done.returncode in (4, 7), done.stderr
    assert contents(target) == before
    assert done.stderr.strip()
    record_property("told", ["pip", fault, f"exit code {done.returncode}"])
