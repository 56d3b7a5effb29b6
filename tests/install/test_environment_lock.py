"""The lock of an environment, and the messages if it is held or unsupported."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.install.exceptions import TargetUnusable
from gpuenv.install.journal import Store
from gpuenv.simulate.stub_driver import FLAGS
from tests.install.sandbox import contents

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox

NOFLOCK = Path(__file__).parents[1] / "native/noflock.c"


def test_an_error_inside_the_lock_is_not_reported_as_a_held_lock(tmp_path: Path) -> None:
    fault = BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    with pytest.raises(BlockingIOError) as raised, Store(tmp_path).locked():
        raise fault
    assert raised.value is fault
    with Store(tmp_path).locked():
        pass  # released


def test_a_second_lock_on_an_environment_is_refused(tmp_path: Path) -> None:
    with (
        Store(tmp_path).locked(),
        pytest.raises(TargetUnusable, match="another gpuenv is using this environment"),
        Store(tmp_path).locked(),
    ):
        raise AssertionError


def test_a_lock_without_changes_leaves_no_files(tmp_path: Path) -> None:
    with Store(tmp_path).locked():
        pass
    assert not list(tmp_path.iterdir())
    with Store(tmp_path).locked():
        Store(tmp_path).begin()
    assert sorted(entry.name for entry in Store(tmp_path).folder.iterdir()) == ["0001", "lock"]


def test_a_missing_environment_is_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(TargetUnusable, match="No such file"), Store(tmp_path / "gone").locked():
        raise AssertionError


def test_concurrent_processes_hold_the_lock_in_turn(tmp_path: Path) -> None:
    """Each of four processes removes its lock file and logs when it enters and leaves."""
    environment, log = tmp_path / "environment", tmp_path / "notes"
    environment.mkdir()
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from gpuenv.install.exceptions import TargetUnusable\n"
        "from gpuenv.install.journal import Store\n"
        "notes = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
        "until = time.monotonic() + 1\n"
        "while time.monotonic() < until:\n"
        "    try:\n"
        "        with Store(Path(sys.argv[1])).locked():\n"
        "            os.write(notes, b'+')\n"
        "            os.write(notes, b'-')\n"
        "    except TargetUnusable as error:\n"
        "        assert 'another gpuenv' in str(error), error\n"
    )
    command = [sys.executable, "-c", program, str(environment), str(log)]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(timeout=60) for process in processes] == [0] * 4
    assert not log.read_text().replace("+-", "")
    assert len(log.read_text()) > 200
    assert not list(environment.iterdir())


def test_a_file_system_without_locks_is_reported(sandbox: Sandbox, tmp_path: Path) -> None:
    library = tmp_path / "noflock.so"
    subprocess.run(["cc", *FLAGS, "-o", str(library), str(NOFLOCK)], check=True)
    target = sandbox.target("unlocked")
    before = contents(target)
    result = sandbox.install(target, LD_PRELOAD=str(library))
    assert result.returncode == 7, result.stderr
    stderr = " ".join(result.stderr.split())
    assert f"cannot be locked: {os.strerror(errno.ENOLCK)}" in stderr
    assert "a local disk" in stderr
    assert contents(target) == before
