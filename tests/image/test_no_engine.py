"""Where no engine is to be had: a clear message and the right exit code; needs none."""

from __future__ import annotations

import os
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.image.docker.program import PROGRAM, build, environment
from tests.image.docker.tagged import of

if TYPE_CHECKING:
    from pathlib import Path


def test_no_engine(tmp_path: Path) -> None:
    done = build(f"unix://{tmp_path}/none.sock", *of("stand-in:fine"))
    assert (done.returncode, done.stdout) == (4, "")
    assert "no engine runs there" in done.stderr
    assert "Start Docker or Podman" in done.stderr


def test_a_socket_that_nobody_listens_on(tmp_path: Path) -> None:
    path = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    done = build(f"unix://{path}", *of("stand-in:fine"))
    assert done.returncode == 4
    assert "no engine answers" in done.stderr


def test_an_engine_that_hangs(tmp_path: Path) -> None:
    path = tmp_path / "hung.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        done = build(f"unix://{path}", *of("stand-in:fine"), "--timeout", "2")
    assert done.returncode == 4
    assert "does not answer in time" in done.stderr


def test_an_address_that_is_none() -> None:
    done = build("bogus://x", *of("stand-in:fine"))
    assert done.returncode == 4
    assert "bogus://x" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="giving up root's rights needs root")
def test_no_permission_on_the_socket(tmp_path: Path) -> None:
    """Root without its capabilities, before a socket of somebody else's: who can still read the program."""
    path = tmp_path / "closed.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o600)
        os.chown(path, 65534, 65534)
        command = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", *PROGRAM, *of("stand-in:fine")]
        done = subprocess.run(
            command, env=environment(f"unix://{path}"), capture_output=True, text=True, check=False, timeout=60
        )
    assert done.returncode == 4, done.stderr
    assert "may not use the engine's socket" in done.stderr
