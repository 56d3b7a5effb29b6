"""An environment that is held: who holds it, and what is told where nothing can be held."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.install.errors import TargetUnusable
from gpuenv.install.journal import Store
from gpuenv.simulate.build import FLAGS
from tests.install.standins import contents

if TYPE_CHECKING:
    from tests.install.standins import Ground

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
        pytest.raises(TargetUnusable, match="another gpuenv is at work"),
        Store(tmp_path).locked(),
    ):
        raise AssertionError


def test_a_file_system_without_locks_is_said_to_be_one(ground: Ground, tmp_path: Path) -> None:
    library = tmp_path / "noflock.so"
    subprocess.run(["cc", *FLAGS, "-o", str(library), str(NOFLOCK)], check=True)
    target = ground.target("unlocked")
    before = contents(target)
    done = ground.install(target, LD_PRELOAD=str(library))
    assert done.returncode == 7, done.stderr
    said = " ".join(done.stderr.split())
    assert f"cannot be locked: {os.strerror(errno.ENOLCK)}" in said
    assert "a disk of this machine" in said
    assert contents(target) == before
