"""Without sockets and name resolution, in the program and its children: no command uses the network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuenv.cli.app import _COMMANDS
from gpuenv.simulate.stub_driver import FLAGS
from tests.cli.commands import ON_THE_NETWORK, Call, calls
from tests.cli.program import MINIMAL

SOURCE = Path(__file__).parents[1] / "native/nosocket.c"
TRIAL = """import socket
for ask in (socket.socket, lambda: socket.getaddrinfo('localhost', 80)):
    try: ask()
    except OSError: pass
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path, tuple[Call, ...]]:
    """The variables under which no process gets a socket, the record of who asked, and what is called."""
    folder = tmp_path_factory.mktemp("network")
    library, log = folder / "nosocket.so", folder / "asked.txt"
    subprocess.run(["cc", *FLAGS, "-o", str(library), str(SOURCE)], check=True)
    return {"LD_PRELOAD": str(library), "NOSOCKET_LOG": str(log), "HOME": str(folder)}, log, calls(folder)


def test_every_command_is_called_or_uses_the_network() -> None:
    here = Path(__file__).parent
    called = {line.split('"')[3] for line in (here / "commands.py").read_text().splitlines() if "Call(" in line[:20]}
    assert {*_COMMANDS} - called == ON_THE_NETWORK & {*_COMMANDS}


def test_the_watch_sees_a_socket(watched: tuple[dict[str, str], Path, tuple[Call, ...]]) -> None:
    """In a child of a child too."""
    environment, log, _ = watched
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TRIAL!r}], check=True)"
    subprocess.run([sys.executable, "-c", nested], env={**MINIMAL, **environment}, check=True)
    kinds = [line.split()[1] for line in log.read_text(encoding="utf-8").splitlines()]
    assert kinds == ["socket", "getaddrinfo"]
    log.unlink()


def test_no_command_asks_for_a_socket(watched: tuple[dict[str, str], Path, tuple[Call, ...]]) -> None:
    environment, log, every = watched
    for call in every:
        command = [sys.executable, "-m", "gpuenv", *call.arguments]
        given = {**MINIMAL, **environment}
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == call.code, f"{call.name}: {done.stderr}"
        assert not log.exists(), f"{call.name}: {log.read_text(encoding='utf-8')}"


def test_a_machine_without_any_network(watched: tuple[dict[str, str], Path, tuple[Call, ...]]) -> None:
    """Not even a loopback: the kernel itself gives this process an empty network."""
    _, _, every = watched
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no network of its own may be made here")
    for call in every:
        command = ["unshare", "-n", sys.executable, "-m", "gpuenv", *call.arguments]
        done = subprocess.run(command, env=MINIMAL, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == call.code, f"{call.name}: {done.stderr}"
