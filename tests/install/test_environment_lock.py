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
    from tests.install.sandbox import Ground

NOFLOCK = Path(__file__).parents[1] / "native/noflock.c"


def test_what_fails_while_it_is_held_is_not_told_as_another_gpuenv(tmp_path: Path) -> None:
    fault = BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    with pytest.raises(BlockingIOError) as raised, Store(tmp_path).locked():
        raise fault
    assert raised.value is fault
    with Store(tmp_path).locked():
        pass  # it was let go


def test_one_at_a_time(tmp_path: Path) -> None:
    with (
        Store(tmp_path).locked(),
        pytest.raises(TargetUnusable, match="another gpuenv is using this environment"),
        Store(tmp_path).locked(),
    ):
        raise AssertionError


def test_who_changes_nothing_leaves_nothing(tmp_path: Path) -> None:
    with Store(tmp_path).locked():
        pass
    assert not list(tmp_path.iterdir())
    with Store(tmp_path).locked():
        Store(tmp_path).begin()
    assert sorted(entry.name for entry in Store(tmp_path).folder.iterdir()) == ["0001", "lock"]


def test_where_there_is_no_environment_nobody_else_is_blamed(tmp_path: Path) -> None:
    with pytest.raises(TargetUnusable, match="No such file"), Store(tmp_path / "gone").locked():
        raise AssertionError


def test_one_at_a_time_also_where_each_takes_its_lock_away(tmp_path: Path) -> None:
    """Four processes come and go; each notes its coming and going, which must be in turn."""
    environment, notes = tmp_path / "environment", tmp_path / "notes"
    environment.mkdir()
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from gpuenv.install.exceptions import TargetUnusable\n"
        "from gpuenv.install.journal import Store\n"
        "notes = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
        "until = time.monotonic() + 2\n"
        "while time.monotonic() < until:\n"
        "    try:\n"
        "        with Store(Path(sys.argv[1])).locked():\n"
        "            os.write(notes, b'+')\n"
        "            os.write(notes, b'-')\n"
        "    except TargetUnusable as error:\n"
        "        assert 'another gpuenv' in str(error), error\n"
    )
    command = [sys.executable, "-c", program, str(environment), str(notes)]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(timeout=60) for process in processes] == [0] * 4
    assert not notes.read_text().replace("+-", "")
    assert len(notes.read_text()) > 200
    assert not list(environment.iterdir())


def test_a_file_system_without_locks_is_said_to_be_one(ground: Ground, tmp_path: Path) -> None:
    library = tmp_path / "noflock.so"
    subprocess.run(["cc", *FLAGS, "-o", str(library), str(NOFLOCK)], check=True)
    target = ground.target("unlocked")
    before = contents(target)
    done = ground.install(target, LD_PRELOAD=str(library))
    assert done.returncode == 7, done.stderr
    said = " ".join(done.stderr.split())
    assert f"cannot be locked: {os.strerror(errno.ENOLCK)}" in said
    assert "a local disk" in said
    assert contents(target) == before
